// Random steps on the tiles of one loop: results that are carried from trip to trip, written in part and read as
// numbers, as codes, whole, in boxes, by products and reductions. What the card spares itself (codes that nobody reads,
// loads that nobody looks at, values between operations) must not show: every way of running leaves the same bits.
// SPYRE_FUZZ_PROGRAMS=<cases> and SPYRE_FUZZ_SEED=<seed> steer it.
#include <random>

#include "base/fuzz_for_test.h"
#include "card/machine_for_test.h"

namespace spyre::card {
namespace {

/// Values with the ones that rounding and comparisons treat in a way of their own.
double value(int64_t i, uint64_t salt) {
  const double v = noise(salt)(i);
  switch (static_cast<int64_t>(std::abs(v) * 1e6) % 300) {
    case 0:
      return NAN;
    case 1:
      return -INFINITY;
    case 2:
      return 1e-9;
    case 3:
      return 40;
    case 4:
      return -0.0;
    default:
      return v;
  }
}

class Steps {
 public:
  explicit Steps(uint64_t seed) : random_(seed) {}

  std::string text() {
    rows_ = any({1, 2, 3, 4, 7, 20}), cols_ = any({1, 3, 16, 64, 65, 130, 192, 300, 512, 700, 1100, 2100});
    const int all = any({1, 5, 9, 23, 40});
    const std::string n = std::to_string(cols_), m = std::to_string(all);
    for (const char* name : {"x", "z"}) formals_.push_back(fmt::format("{}: in {} [{},{}]", name, real(), m, n));
    const std::string lane = real(), row = real();
    formals_.insert(formals_.end(), {fmt::format("b: in {} [{}]", lane, n), fmt::format("w: in dl16 [{},64]", n),
                                     fmt::format("k: in {} [{},1]", row, m)});
    body_ = fmt::format("buf t dl16[{0},64] x1\n ld t = w[0..{0}, 0..64]\n", n);
    buffer("bias", lane, below(2) ? "[" + n + "]" : "[1," + n + "]", Kind::lane, fmt::format("ld bias = b[0..{}]", n));
    const bool carried = below(3) == 0;
    if (carried) buffer("p", "dl16", shape(cols_), Kind::full, "sfp p = " + std::string(below(2) ? "bias" : "0.5"));
    body_ += fmt::format("for i in 0..{} by {} {{\n", m, rows_);
    for (const auto& [name, from] : {std::pair{"v", "x"}, {"u", "z"}})
      buffer(name, formals_[from[0] == 'z'].substr(6, 5).find("dl16") == 0 ? "dl16" : "f32", shape(cols_), Kind::full,
             fmt::format("ld {} = {}[i, 0..{}] fill 0.25", name, from, n));
    buffer("f", row, shape(1), Kind::row, "ld f = k[i, 0..1]");
    for (int step = 0, steps = 2 + below(7); step < steps; ++step) add(std::to_string(step));
    for (int s = 0; s < 2; ++s) {  // as it is, or once more through a buffer of its own
      const Buffer b = buffers_[static_cast<size_t>(below(static_cast<int>(buffers_.size())))];
      if (b.kind == Kind::lane) continue;
      const int width = b.kind == Kind::full ? cols_ : 1;
      std::string from = b.name, format = b.format;
      if (below(4) > 0 || b.name == "p") {
        from = fmt::format("e{}", s), format = real();
        buffer(from, format, shape(width), b.kind, fmt::format("sfp {} = {} * 1", from, b.name));
      }
      body_ += fmt::format("st o{}[i, 0..{}] = {}\n", s, width, from);
      formals_.push_back(fmt::format("o{}: out {} [{},{}]", s, format, m, width));
    }
    body_ += "}\n";
    if (carried) {
      body_ +=
          fmt::format("buf last f32{0} x1\n sfp last = p * 2\n st q[0..{1}, 0..{2}] = last\n", shape(cols_), rows_, n);
      formals_.push_back(fmt::format("q: out f32 [{},{}]", rows_, n));
    }
    for (const std::string& y : products_) formals_.push_back(fmt::format("{}: out f32 [{},64]", y, m));
    return one_kernel(formals_, "c:1", body_);
  }

 private:
  enum class Kind { full, row, lane };
  struct Buffer {
    std::string name, format;
    Kind kind;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  int any(std::initializer_list<int> list) { return list.begin()[below(static_cast<int>(list.size()))]; }
  std::string real() { return below(3) == 0 ? "f32" : "dl16"; }
  std::string shape(int cols) const { return fmt::format("[{},{}]", rows_, cols); }

  void buffer(const std::string& name, const std::string& format, const std::string& shape, Kind kind,
              const std::string& first) {
    body_ += fmt::format("buf {} {}{} x{}\n {}\n", name, format, shape, 1 + below(2), first);
    buffers_.push_back({name, format, kind});
  }

  /// A random expression over box rows x lanes ("_" is whole) of what there is.
  std::string expr(int depth, const std::string& rows = "_", const std::string& lanes = "_") {
    const auto sub = [&](bool deep) { return expr(deep ? depth - 1 : below(depth), rows, lanes); };
    if (depth <= 0) {
      if (below(8) == 0) return below(2) ? "0.5" : "-2";
      const Buffer& b = buffers_[static_cast<size_t>(below(static_cast<int>(buffers_.size())))];
      if (rows == "_" && lanes == "_") return b.name;
      if (b.kind == Kind::full) return fmt::format("{}[{},{}]", b.name, rows, lanes);
      if (b.kind == Kind::row) return rows == "_" ? b.name : fmt::format("{}[{},_]", b.name, rows);
      return lanes == "_" ? b.name : "0.25";
    }
    switch (below(14)) {
      case 0:
      case 1:
        return fmt::format("({} + {})", sub(true), sub(false));
      case 2:
        return fmt::format("({} - {})", sub(false), sub(true));
      case 3:
        return fmt::format("({} - {})", sub(true), sub(false));
      case 4:
      case 5:
        return fmt::format("({} * {})", sub(true), sub(false));
      case 6:
        return fmt::format("min({}, {})", sub(true), sub(false));
      case 7:
        return fmt::format("max({}, {})", sub(false), sub(true));
      case 8:
        return fmt::format("{}({})", below(2) ? "exp" : "tanh", sub(true));
      case 9:
        return fmt::format("{}({})", below(2) ? "erf" : "abs", sub(true));
      case 10:
        return fmt::format("{}({})", below(2) ? "square" : "rcp", sub(true));
      case 11: {
        const std::string e = sub(true);
        return fmt::format("({0} * {0} + {0})", e);
      }
      case 12:
        return fmt::format("(-{})", sub(true));
      default:
        return fmt::format("({} < {} ? {} : {})", sub(false), sub(false), sub(true), sub(false));
    }
  }

  void add(const std::string& id) {
    const std::string clipped = "0 ..+ i.size";
    std::vector<std::string> full, codes;
    for (const Buffer& b : buffers_) {
      if (b.kind != Kind::full || b.name == "v" || b.name == "u") continue;
      full.push_back(b.name);
      if (b.format == "dl16") codes.push_back(b.name);
    }
    const auto one_of = [&](const std::vector<std::string>& list) {
      return list[static_cast<size_t>(below(static_cast<int>(list.size())))];
    };
    const int what = below(12);
    if (what < 6 || full.empty()) {
      buffer("d" + id, real(), shape(cols_), Kind::full, fmt::format("sfp d{} = {}", id, expr(1 + below(12))));
    } else if (what < 8) {  // a part of what is there
      const std::string name = one_of(full);
      const int from = below(cols_), to = from + 1 + below(cols_ - from);
      const std::string lanes = fmt::format("{}..{}", from, to);
      if (const int part = below(3); part == 0)
        body_ += fmt::format("sfp {} = u[{},_] * 2 + v[{},_]\n", name, clipped, clipped);
      else if (part == 1)
        body_ += fmt::format("sfp {}[{},_] = {}\n", name, clipped, expr(1 + below(8), clipped));
      else
        body_ += fmt::format("sfp {}[_,{}] = {}\n", name, lanes, expr(1 + below(8), "_", lanes));
    } else if (what < 10 || codes.empty()) {
      const char* monoid = std::vector<const char*>{"max", "min", "sum"}[static_cast<size_t>(below(3))];
      const std::string of = below(2) ? one_of(full) : fmt::format("(v * 0 + {})", expr(1 + below(6)));
      buffer("m" + id, "f32", shape(1), Kind::row, fmt::format("sfp.red m{} = {}({} over 1)", id, monoid, of));
    } else {
      const std::string a = one_of(codes), box = below(3) == 0 ? "[" + clipped + ",_]" : "";
      body_ += fmt::format("buf a{0} f32{1} x1\n pt a{0}{2} = {3}{2} * t\n st y{0}[i, 0..64] = a{0}{2}\n", id,
                           shape(64), box, a);
      products_.push_back("y" + id);
    }
  }

  std::mt19937_64 random_;
  int rows_ = 1, cols_ = 1;
  std::string body_;
  std::vector<std::string> formals_, products_;
  std::vector<Buffer> buffers_;
};

TEST(TileStateFuzz, EveryWayOfRunningLeavesTheSameBits) {
  const uint64_t first = base::fuzz_seed(1);
  const int64_t cases = base::fuzz_cases(150, "SPYRE_FUZZ_PROGRAMS");
  int64_t ran = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(cases) && !HasFailure(); ++seed) {
    const std::string text = Steps(seed).text();
    SCOPED_TRACE(fmt::format("SPYRE_FUZZ_SEED={} SPYRE_FUZZ_PROGRAMS=1\n{}", seed, text));
    std::unique_ptr<Machine> machine;
    try {
      machine = std::make_unique<Machine>(text);
    } catch (const Error& e) {  // more than a scratchpad holds, or a buffer that may be read before it is written
      if (std::getenv("SPYRE_FUZZ_VERBOSE")) std::printf("%llu: %s\n", static_cast<unsigned long long>(seed), e.what());
      continue;
    }
    uint64_t salt = 1;
    for (const auto& s : machine->program().symbols) {
      machine->set(s.name, [&](int64_t i) { return value(i, salt); });
      ++salt;
    }
    machine->run_every_way();
    ++ran;
  }
  EXPECT_GT(ran * 10, cases * 9);
}

}  // namespace
}  // namespace spyre::card
