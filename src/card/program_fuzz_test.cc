// Programs nobody wrote by hand, on the card: generated ones against an oracle, and damaged ones that the verifier
// accepts nevertheless. Sequential order on one thread and two, the checker and random orders must leave the same bits.
// SPYRE_FUZZ_PROGRAMS=<cases> and SPYRE_FUZZ_SEED=<seed> steer them; failures name the seed of their case.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/fuzz_for_test.h"
#include "base/thread_pool.h"
#include "card/card.h"
#include "card/oracle_for_test.h"
#include "card/program_generator_for_test.h"
#include "program/example_text.h"
#include "program/mutator_for_test.h"
#include "program/program.h"
#include "timing/timeline.h"

namespace spyre::card {
namespace {

using program::Direction;
using program::Program;

int fuzz_cases(int usual) { return static_cast<int>(base::fuzz_cases(usual, "SPYRE_FUZZ_PROGRAMS")); }
uint64_t fuzz_seed() { return base::fuzz_seed(20260714); }

const device::Description& description() {
  static const device::Description d = device::load_description();
  return d;
}
Card& shared_card() {
  static Card card(description());
  return card;
}

/// Steps, weighed by the elements of their buffers, that a program runs; counting stops past `limit`.
class Work {
 public:
  Work(const Program& p, const std::vector<double>& scalars, int64_t limit) : left_(limit) {
    for (const auto& call : p.calls) {
      k_ = &p.kernels[call.kernel];
      values_ = {};
      for (auto* v : {&values_.start, &values_.size, &values_.trip}) v->resize(k_->ranges.size());
      for (auto s : call.scalars) values_.scalar.push_back(program::Interval::point(static_cast<int64_t>(scalars[s])));
      for (const auto& nest : k_->nests) {
        values_.coordinate.assign(nest.grid.size(), {});
        for (int core = 0; core < nest.cores(); ++core) {
          int rest = core;
          for (size_t g = nest.grid.size(); g-- > 0; rest /= nest.grid[g].size)
            values_.coordinate[g] = program::Interval::point(rest % nest.grid[g].size);
          block(nest.body);
        }
      }
    }
  }
  bool small() const { return left_ > 0; }

 private:
  int64_t at(const program::IntExpr& e) const { return program::evaluate(e, values_).lo; }
  void enter(program::Id r, int64_t trip, int64_t start) {
    values_.start[r] = program::Interval::point(start);
    values_.trip[r] = program::Interval::point(trip);
    values_.size[r] = program::Interval::point(std::clamp<int64_t>(at(k_->ranges[r].hi) - start, 0, k_->ranges[r].by));
  }
  void block(const program::Block& b) {
    for (const auto& s : b) {
      if (--left_ <= 0) return;
      if (const auto* c = std::get_if<program::CoreRange>(&s.node)) {
        const auto& r = k_->ranges[c->range];
        enter(c->range, 0, at(r.lo) + r.by * values_.coordinate[r.grid].lo);
      } else if (const auto* f = std::get_if<program::For>(&s.node)) {
        const auto& r = k_->ranges[f->range];
        const int64_t lo = at(r.lo), trips = program::trips_of(r, *k_, at(r.hi) - lo);
        for (int64_t t = 0; t < trips && left_ > 0; ++t) enter(f->range, t, lo + t * r.by), block(f->body);
      } else if (const auto* i = std::get_if<program::If>(&s.node)) {
        block(i->body);
      } else if (const auto* d = std::get_if<program::Declare>(&s.node)) {
        left_ -= 1 + k_->buffers[d->buffer].slot_bytes() / 2048;
      } else {
        left_ -= 20;
      }
    }
  }
  const program::Kernel* k_ = nullptr;
  program::LeafValues values_;
  int64_t left_;
};

/// A program with its data; runs it in all ways.
class Trial {
 public:
  using Bytes = std::vector<std::vector<std::byte>>;
  struct Result {
    std::string error;  // empty: it ran to its end
    Fault fault = Fault::user;
    Bytes bytes;  // by symbol
  };

  Trial(Program p, uint64_t seed) : executable_(std::move(p), description()), random_(seed) {
    uint64_t at = 1 << 20;
    for (const auto& s : program().symbols) {
      addresses_.push_back(at);
      at += static_cast<uint64_t>((s.geometry.device_bytes() + 4095) / 4096 * 4096 + 4096);
      const bool index = s.format == base::Format::i32;
      std::vector<double> values;
      for (int64_t i = 0; i < s.geometry.storage_elements; ++i)
        values.push_back(
            static_cast<double>(index ? random_.between(-1, random_.one_in(4) ? 60 : 6) : random_.between(-4, 4)));
      storage_.push_back(std::move(values));
    }
    for (const auto& s : program().scalars)
      scalars_.push_back(s.is_float ? std::clamp(0.25, s.lo, s.hi) : std::floor(s.lo + (s.hi - s.lo) * 0.6));
  }
  const Program& program() const { return executable_.program(); }
  bool small(int64_t limit) const { return Work(program(), scalars_, limit).small(); }

  Result run(int threads, const RunOptions& options = {}) {
    Memory& memory = shared_card().memory();
    for (size_t s = 0; s < addresses_.size(); ++s) {
      const auto& symbol = program().symbols[s];
      std::byte* base = memory.at(addresses_[s], symbol.geometry.device_bytes() + 4096);
      // Padding, temps, and what follows: NaN in every format, and large integers.
      std::memset(base, 0x7F, static_cast<size_t>(symbol.geometry.device_bytes()) + 4096);
      if (symbol.direction == Direction::temp) continue;
      for (size_t o = 0; o < storage_[s].size(); ++o)
        fill_elements(
            base + symbol.geometry.device_element(static_cast<int64_t>(o)) * base::format_bytes(symbol.format), 1,
            encode_element(storage_[s][o], symbol.format), symbol.format);
    }
    const auto table = correction_table(program(), addresses_, scalars_);
    const auto at = static_cast<uint64_t>(description().segment_bytes) * 7;
    std::memcpy(memory.at(at, static_cast<int64_t>(table.size()) + 1), table.data(), table.size());
    Result result;
    try {
      base::ThreadPool::shared().with_threads(threads, [&] { shared_card().start(executable_, at, options); });
    } catch (const Error& e) {
      result.error = e.what();
      result.fault = e.fault();
      if (result.error.empty()) result.error = "?";
      return result;
    }
    for (size_t s = 0; s < addresses_.size(); ++s) {
      const int64_t n = program().symbols[s].geometry.device_bytes();
      const std::byte* p = memory.at(addresses_[s], n + 4096);
      result.bytes.emplace_back(p, p + n + 4096);
    }
    return result;
  }

  /// Runs in every way; all must agree. Returns the sequential result.
  Result run_every_way() {
    const Result sequential = run(2);
    EXPECT_TRUE(sequential.error.empty() || sequential.fault == Fault::user) << "verified, but: " << sequential.error;
    agree("one thread", sequential, run(1));
    agree("checker", sequential, run(1, {.checker = true}));
    agree("a random order", sequential, run(1, {.random_order = true, .seed = random_.seed() >> 8}));
    agree("a checked random order", sequential,
          run(1, {.checker = true, .random_order = true, .seed = random_.seed() >> 8}));
    return sequential;
  }

  /// The oracle's storage, or nothing when it traps.
  std::optional<std::vector<std::vector<double>>> expected() {
    auto storage = storage_;
    try {
      Oracle(program(), storage, scalars_).run();
    } catch (const Oracle::Trap&) {
      return std::nullopt;
    }
    return storage;
  }

  void check_time() {
    const timing::Timeline a = timing::walk(program(), scalars_, description());
    const timing::Timeline b = timing::walk(program(), scalars_, description());
    const timing::Timeline full = timing::walk(program(), scalars_, description(), {.jump = false});
    ASSERT_EQ(a.calls.size(), full.calls.size());
    EXPECT_EQ(a.total_ps, b.total_ps);
    for (size_t i = 0; i < a.calls.size(); ++i) {
      EXPECT_GE(a.calls[i].duration_ps, 0);
      if (!a.calls[i].estimated) {
        EXPECT_EQ(a.calls[i].duration_ps, full.calls[i].duration_ps);
        EXPECT_EQ(a.calls[i].bytes_read, full.calls[i].bytes_read);
        EXPECT_EQ(a.calls[i].bytes_written, full.calls[i].bytes_written);
      }
    }
  }

  double element(const Result& r, size_t symbol, int64_t o) const {
    const auto& s = program().symbols[symbol];
    const std::byte* at = r.bytes[symbol].data() + s.geometry.device_element(o) * base::format_bytes(s.format);
    if (is_float(s.format)) {
      float f;
      load_f32(at, s.format, 1, &f, 1);
      return f;
    }
    int32_t i;
    load_i32(at, s.format, 1, &i, 1);
    return i;
  }

 private:
  void agree(const char* how, const Result& a, const Result& b) const {
    if (b.fault == Fault::unimplemented && !b.error.empty()) return;  // too long for a random order
    if (!a.error.empty() || !b.error.empty()) {
      EXPECT_EQ(a.error.empty(), b.error.empty())
          << how << ": " << (a.error.empty() ? b.error : "no error, instead of " + a.error);
      return;
    }
    for (size_t s = 0; s < a.bytes.size(); ++s)
      EXPECT_TRUE(a.bytes[s] == b.bytes[s]) << how << " changes " << program().symbols[s].name;
  }

  Executable executable_;
  layout::testing::Random random_;
  std::vector<uint64_t> addresses_;
  std::vector<std::vector<double>> storage_;
  timing::ScalarValues scalars_;
};

std::string verdict(const Program& p) {
  try {
    program::verify(p, description());
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::program) << e.what();
    return e.what();
  }
}

/// One generated program, in all ways.
void check_generated(uint64_t seed, bool& accepted) {
  const std::string text = ProgramGenerator(seed).text();
  SCOPED_TRACE(fmt::format("SPYRE_FUZZ_SEED={} SPYRE_FUZZ_PROGRAMS=1\n{}", seed, text));
  Program p;
  try {
    p = program::assemble(text);
  } catch (const Error& e) {
    FAIL() << e.what();
  }
  const std::string refused = verdict(p);
  if (!refused.empty() && std::getenv("SPYRE_FUZZ_VERBOSE")) std::printf("%s\n", refused.c_str());
  accepted = refused.empty();
  if (!accepted) return;
  Trial trial(std::move(p), seed);
  const auto result = trial.run_every_way();
  const auto expected = trial.expected();
  EXPECT_EQ(expected.has_value(), result.error.empty()) << result.error;
  if (expected && result.error.empty())
    for (size_t s = 0; s < expected->size(); ++s)
      for (size_t o = 0; o < (*expected)[s].size(); ++o)
        if (const double v = trial.element(result, s, static_cast<int64_t>(o)); v != (*expected)[s][o]) {
          ADD_FAILURE() << trial.program().symbols[s].name << " storage element " << o << " is " << v << ", not "
                        << (*expected)[s][o];
          break;
        }
  trial.check_time();
}

TEST(ProgramFuzz, GeneratedProgramsMeanWhatTheirOracleSays) {
  const uint64_t seed = fuzz_seed();
  const int cases = fuzz_cases(150);
  int tried = 0;
  for (int i = 0; i < cases && !testing::Test::HasFailure(); ++i) {
    bool accepted = false;
    check_generated(seed + static_cast<uint64_t>(i), accepted);
    tried += accepted;
  }
  EXPECT_TRUE(cases < 100 || tried > cases / 2);
  std::printf("%d of %d generated programs are legal\n", tried, cases);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || c == '_'; }

/// Replaces `from` where it stands alone: not inside a longer word or number.
void replace_alone(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
    const size_t end = at + from.size();
    const bool joined =
        (at > 0 && in_word(from[0]) && in_word(text[at - 1])) || (end < text.size() && is_digit(text[end]));
    if (!joined) text.replace(at, from.size(), to);
    at += joined ? 1 : to.size();
  }
}

/// The worked kernels with smaller sizes, so that they run in a millisecond.
std::string small_example(const std::string& name) {
  std::string text = program::example_text(name);
  const auto numbers = [&](std::initializer_list<std::pair<const char*, const char*>> changes) {
    for (const auto& [from, to] : changes) replace_alone(text, from, to);
  };
  if (name == "linear")
    numbers({{"1024", "18"},
             {"4096", "40"},
             {"1536", "512"},
             {"128 on", "3 on"},
             {"384", "128"},
             {"128 uniform", "64 uniform"},
             {"[1,128]", "[1,64]"},
             {"[128,128]", "[3,64]"},
             {"[128,512]", "[3,16]"},
             {"[512,128]", "[16,64]"},
             {"by 512", "by 16"},
             {"[40,512]", "[40,400]"},
             {"[512]", "[400]"},
             {"[18,512]", "[18,400]"},
             {"0..512", "0..400"}});
  if (name == "split_k")
    numbers({{"8192", "70"}, {"1024", "9"}, {"[64,256] x2", "[64,4] x2"}, {"[256,64]", "[4,64]"}, {"by 256", "by 4"}});
  if (name == "attention")
    numbers({{"96", "16"},
             {"24", "4"},
             {"512", "20"},
             {"1024", "48"},
             {"12 on", "2 on"},
             {"128 on", "5 on"},
             {"r in qs by 64", "r in qs by 3"},
             {"[64,64]", "[3,64]"},
             {"[64,1]", "[3,1]"},
             {"[128,64]", "[16,64]"},
             {"[64,128]", "[3,16]"},
             {"by 128", "by 16"}});
  if (name == "softmax") numbers({{"1048576", "4000"}, {"131072", "512"}, {"8192", "64"}});
  if (name == "layer_norm")
    numbers(
        {{"512", "70"}, {"16 on", "3 on"}, {"384", "70"}, {"by 8", "by 2"}, {"dl16[8", "dl16[2"}, {"f32[8", "f32[2"}});
  if (name == "conv")
    numbers({{"30", "10"}, {"15", "5"}, {"4 on", "2 on"}, {"80", "20"}, {"by 16", "by 3"}, {"[16,64]", "[3,64]"}});
  if (name == "embedding") numbers({{"1000", "50"}, {"250", "60"}, {"576", "70"}, {"8 on", "2 on"}, {"[8", "[2"}});
  if (name == "kv_put") numbers({{"1024", "64"}});
  if (name == "index_add") numbers({{"4000", "60"}, {"500", "50"}, {"1024", "16"}, {"256", "5"}, {"64", "16"}});
  if (name == "cumsum") numbers({{"1048576", "3000"}, {"32768", "96"}, {"8192", "32"}});
  return text;
}

TEST(ProgramFuzz, SmallExamplesRunInEveryWay) {
  for (const char* name : program::example_names) {
    SCOPED_TRACE(name);
    const std::string text = small_example(name);
    Program p;
    try {
      p = program::assemble(text);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what() << "\n" << text;
      continue;
    }
    const std::string refused = verdict(p);
    EXPECT_EQ(refused, "") << text;
    if (!refused.empty()) continue;
    Trial trial(std::move(p), 3);
    EXPECT_TRUE(trial.small(2'000'000));
    trial.run_every_way();
    trial.check_time();
  }
}

TEST(ProgramFuzz, DamagedProgramsThatAreAcceptedRunAlikeInEveryWay) {
  const uint64_t seed = fuzz_seed();
  const int cases = fuzz_cases(700);
  std::vector<Program> originals;
  for (const char* name : program::example_names) originals.push_back(program::assemble(small_example(name)));
  for (uint64_t i = 0; originals.size() < 40; ++i) {
    Program p = program::assemble(ProgramGenerator(777 + i).text());
    if (verdict(p).empty()) originals.push_back(std::move(p));
  }
  int accepted = 0;
  for (int i = 0; i < cases && !testing::Test::HasFailure(); ++i) {
    const uint64_t mine = seed + static_cast<uint64_t>(i) * 7919;
    program::Mutator mutator(mine);
    Program p = originals[static_cast<size_t>(mutator.below(static_cast<int64_t>(originals.size())))];
    const Program original = p;
    for (int64_t n = 1 + mutator.below(3); n > 0; --n) mutator.change(p);
    if (p == original || !verdict(p).empty()) continue;
    std::string text = "unprintable";
    try {
      text = program::print(p);
    } catch (const Error&) {
    }
    SCOPED_TRACE(fmt::format("case {}\n{}", i, text));
    std::optional<Trial> trial;
    try {
      trial.emplace(std::move(p), mine);
    } catch (const Error& e) {
      ADD_FAILURE() << "verified, but the card refuses: " << e.what();
      continue;
    }
    if (!trial->small(30'000)) continue;
    ++accepted;
    trial->run_every_way();
    trial->check_time();
  }
  EXPECT_TRUE(cases < 500 || accepted > cases / 50);
  std::printf("%d of %d damaged programs were run\n", accepted, cases);
}

}  // namespace
}  // namespace spyre::card
