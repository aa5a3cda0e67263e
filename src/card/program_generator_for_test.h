// Random legal programs as text, for tests: uneven grids, nested loops, slots, pieces, collectives, indices, over
// tensors whose views are transposed, sliced, expanded and whose places are scrambled. All values stay small integers,
// so that results are exact in every format and order.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "layout/random_views.h"

namespace spyre::card {

class ProgramGenerator {
 public:
  explicit ProgramGenerator(uint64_t seed) : r_(seed) {}

  /// A program of one kernel.
  std::string text() {
    switch (r_.below(8)) {
      case 0:
      case 1:
      case 2:
        elementwise();
        break;
      case 3:
        matmul();
        break;
      case 4:
        reduction();
        break;
      case 5:
        resident();
        break;
      case 6:
        exchange();
        break;
      default:
        indexed();
    }
    std::string formals, actuals, symbols;
    for (const auto& [name, text] : tensors_) {
      formals += (formals.empty() ? "" : ", ") + text;
      actuals += (actuals.empty() ? "" : ", ") + name;
      symbols += "sym " + text + "\n";
    }
    return fmt::format(
        "{}loc 0 \"aten.test\" \"fuzz.py:1\"\nkernel k({}) cores 32 {{\ngrid({}) {{\n{}}}\n}}\ncall k({})\n", symbols,
        formals, grid_, body_, actuals);
  }

 private:
  using Sizes = std::vector<int64_t>;
  bool chance(int percent) { return r_.below(100) < percent; }
  template <typename T, size_t n>
  T any(const T (&from)[n]) {
    return from[r_.below(static_cast<int64_t>(n))];
  }
  void line(const std::string& s) { body_ += s + "\n"; }
  std::string slots() { return fmt::format(" x{}", r_.between(1, 3)); }
  static std::string list(const Sizes& s) { return fmt::format("[{}]", fmt::join(s, ",")); }

  /// A tensor with a view of these sizes somewhere in an allocation.
  void tensor(const std::string& name, const std::string& direction, const std::string& format, const Sizes& sizes) {
    const size_t rank = sizes.size();
    const auto order = layout::testing::random_order(r_, rank);
    const bool plain = chance(direction == "in" ? 30 : 70), reads = direction == "in";
    Sizes base(rank), step(rank, 1), start(rank, 0), strides(rank, 0);
    std::vector<bool> expanded(rank, false);
    for (size_t d = 0; d < rank; ++d) {
      expanded[d] = reads && !plain && chance(10);
      if (!plain && chance(20)) step[d] = r_.between(1, 3);
      if (!plain && chance(20)) start[d] = r_.between(0, 5);
      base[d] = expanded[d] ? 1 : start[d] + sizes[d] * step[d] + (plain || chance(80) ? 0 : r_.between(0, 4));
      if (expanded[d]) start[d] = 0;
    }
    int64_t numel = 1;
    for (size_t i = rank; i-- > 0;) {
      const auto d = static_cast<size_t>(plain ? static_cast<int64_t>(i) : order[i]);
      strides[d] = numel;
      numel *= std::max<int64_t>(base[d], 1);
    }
    const base::HostType type = format == "i32"   ? base::HostType::i32
                                : format == "f32" ? base::HostType::f32
                                                  : base::HostType::f16;
    layout::Geometry geometry = chance(15) ? layout::Geometry::linear(base::device_format(type, false), numel)
                                           : layout::default_placement(base, strides, type, false).geometry;
    if (chance(25)) geometry = geometry.scrambled(r_.seed());
    int64_t offset = 0;
    for (size_t d = 0; d < rank; ++d) {
      offset += start[d] * strides[d];
      strides[d] = expanded[d] ? 0 : strides[d] * step[d];
    }
    tensors_.push_back({name, fmt::format("{}: {} {} {} strides {} offset {} {}", name, direction, format, list(sizes),
                                          list(strides), offset, geometry.to_text())});
  }

  // ---- one dimension of the work: its text in accesses, the size of its tiles

  struct Dim {
    int64_t size = 1, tile = 1;
    std::string access, position;  // in memory accesses; in buffers ("_" = whole)
    int loops = 0;                 // loops in scope when the access can be written
  };

  int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
  int64_t size(int64_t most = 130) {
    static constexpr int64_t likely[] = {1, 2, 3, 5, 7, 16, 31, 32, 33, 50, 64, 65, 96, 127, 130};
    return std::min(any(likely), most);
  }
  /// Divides dimension d over the grid: returns the name of its core range.
  std::string split(Dim& dim, const std::string& name, int64_t align) {
    const int64_t parts = r_.between(1, std::min<int64_t>(4, 32 / cores_));
    cores_ *= parts;
    int64_t by = (dim.size + parts - 1) / parts;
    if (chance(30)) by += r_.between(0, 3);
    by = std::max<int64_t>(1, chance(85) ? round_up(by, align) : by);
    while (by * parts < dim.size) ++by;
    grid_ += fmt::format("{}{}c:{}", grid_.empty() ? "" : ", ", name, parts);
    line(fmt::format("core {0}s in 0..{1} by {2} on {0}c", name, dim.size, by));
    dim.tile = by;
    dim.access = name + "s";
    dim.position = name + "s";
    return name + "s";
  }
  void loop(Dim& dim, const std::string& name, int64_t align, int64_t most = 40) {
    const int64_t whole = dim.access.empty() ? dim.size : dim.tile;
    int64_t by = std::max<int64_t>(1, std::min(whole, r_.between(1, most)));
    if (chance(85)) by = round_up(by, align);
    line(fmt::format("for {}l in {} by {}{} {{", name, dim.access.empty() ? fmt::format("0..{}", dim.size) : dim.access,
                     by, !dim.access.empty() && chance(25) ? " uniform" : ""));
    dim.tile = by;
    dim.access = dim.position = name + "l";
    dim.loops = ++depth_;
  }
  void finish(Dim& dim) {
    if (!dim.access.empty()) return;
    dim.access = fmt::format("0..{}", dim.size);
    dim.position = "_";
    dim.tile = dim.size;
  }
  void close() {
    for (; depth_ > 0; --depth_) line("}");
  }
  std::string access(const std::vector<Dim>& dims) {
    std::string s;
    for (const Dim& d : dims) s += (s.empty() ? "" : ", ") + d.access;
    return "[" + s + "]";
  }
  Sizes tiles(const std::vector<Dim>& dims) {
    Sizes s;
    for (const Dim& d : dims) s.push_back(d.tile);
    return s;
  }

  // ---- kinds of programs

  std::string expression(const std::vector<std::string>& operands, int rank, int depth) {
    const auto leaf = [&]() -> std::string {
      if (chance(12)) return fmt::format("f32(iota{} - 3)", r_.below(rank));
      if (chance(12)) return fmt::format("{}.0", r_.between(0, 3));
      return operands[r_.below(static_cast<int64_t>(operands.size()))];
    };
    if (depth == 0) return leaf();
    const std::string a = expression(operands, rank, depth - 1), b = expression(operands, rank, depth - 1);
    switch (r_.below(9)) {
      case 0:
      case 1:
        return fmt::format("({} + {})", a, b);
      case 2:
        return fmt::format("({} - {})", a, b);
      case 3:
        return fmt::format("max({}, {})", a, b);
      case 4:
        return fmt::format("min({}, abs({}))", a, b);
      case 5:
        return fmt::format("({} > {} ? {} : {})", a, b, leaf(), leaf());
      case 6:
        return fmt::format("({} * {})", leaf(), leaf());
      case 7:
        return fmt::format("f32({} == {})", a, b);
      default:
        return a;
    }
  }

  void elementwise() {
    const int rank = static_cast<int>(r_.between(1, 4));
    std::vector<Dim> dims(static_cast<size_t>(rank));
    int64_t numel = 1;
    for (Dim& d : dims) {
      d.size = size(std::max<int64_t>(1, 4000 / numel));
      numel *= d.size;
    }
    const bool wide = chance(50);
    const std::string out = wide ? "f32" : "dl16";
    for (int d = 0, splits = 0; d < rank; ++d)
      if (splits < 2 && chance(45))
        split(dims[d], fmt::format("d{}", d), d + 1 == rank ? (wide ? 32 : 64) : 1), ++splits;
    if (grid_.empty()) grid_ = "gc:1";
    const bool in_place = chance(20);
    const int inputs = static_cast<int>(r_.between(1, 3));
    std::vector<std::string> formats, early;
    std::vector<std::vector<bool>> spread(static_cast<size_t>(inputs));
    for (int i = 0; i < inputs; ++i) {
      formats.push_back(chance(50) ? "f32" : chance(80) ? "dl16" : "i32");
      Sizes s;
      for (const Dim& d : dims) {
        spread[i].push_back(chance(20));
        s.push_back(spread[i].back() ? 1 : d.size);
      }
      tensor(fmt::format("x{}", i), "in", formats[i], s);
    }
    {
      Sizes s;
      for (const Dim& d : dims) s.push_back(d.size);
      tensor("y", in_place ? "inout" : "out", out, s);
    }
    for (int d = 0; d < rank; ++d)
      if (chance(45)) loop(dims[d], fmt::format("d{}", d), d + 1 == rank ? 64 : 1);
    for (Dim& d : dims) finish(d);
    std::vector<std::string> operands;
    const bool boxed = chance(30);
    std::string box;
    for (const Dim& d : dims) box += (box.empty() ? "" : ", ") + d.position;
    const auto operand = [&](const std::string& name, const std::vector<bool>* one) {
      if (!boxed) return name;
      std::string b;
      for (int d = 0; d < rank; ++d) b += (d ? ", " : "") + std::string(one && (*one)[d] ? "_" : dims[d].position);
      return name + "[" + b + "]";
    };
    for (int i = 0; i < inputs; ++i) {
      std::vector<Dim> mine = dims;
      for (int d = 0; d < rank; ++d)
        if (spread[i][d]) mine[d].access = "0..1", mine[d].tile = 1;
      line(fmt::format("buf b{} {}{}{}", i, formats[i], list(tiles(mine)), slots()));
      line(fmt::format("ld b{0} = x{0}{1}{2}", i, access(mine), chance(20) ? " fill 2" : ""));
      const std::string o = operand(fmt::format("b{}", i), &spread[i]);
      operands.push_back(formats[i] == "i32" ? "f32(" + o + ")" : o);
    }
    if (in_place) {
      line(fmt::format("buf old {}{}{}", out, list(tiles(dims)), slots()));
      line("ld old = y" + access(dims));
      operands.push_back(operand("old", nullptr));
    }
    line(fmt::format("buf t f32{}{}", list(tiles(dims)), slots()));
    const std::string t = operand("t", nullptr);
    line(fmt::format("sfp {} = {}", t, expression(operands, rank, 2)));
    if (chance(30)) line(fmt::format("sfp {} = {}", t, expression({t, operands[0]}, rank, 1)));
    if (!boxed && rank >= 2 && chance(25)) {
      Sizes s = tiles(dims);
      std::swap(s[s.size() - 1], s[s.size() - 2]);
      line(fmt::format("buf u f32{}{}\nmv u = t^T\nmv t = u^T", list(s), slots()));
    }
    line(fmt::format("buf o {}{}{}", out, list(tiles(dims)), slots()));
    line(fmt::format("sfp {} = {}", operand("o", nullptr), t));
    line(fmt::format("st y{} = o{}", access(dims), depth_ > 0 && chance(60) ? " ordered" : ""));
    close();
  }

  void matmul() {
    std::vector<Dim> d(3);  // m n k
    d[0].size = size(70), d[1].size = size(), d[2].size = size();
    const bool turned = chance(40), wide = chance(40), ring = chance(40), all = chance(50), sfp = chance(25);
    const std::string type = sfp ? "f32" : "dl16";
    tensor("x", "in", type, {d[0].size, d[2].size});
    tensor("w", "in", type, turned ? Sizes{d[1].size, d[2].size} : Sizes{d[2].size, d[1].size});
    tensor("y", "out", wide ? "f32" : "dl16", {d[0].size, d[1].size});
    if (chance(60)) split(d[0], "m", 1);
    if (chance(60)) split(d[1], "n", 64);
    if (ring) split(d[2], "k", 1);
    if (grid_.empty()) grid_ = "gc:1";
    if (chance(40)) loop(d[0], "m", 1);
    if (chance(40)) loop(d[1], "n", 64);
    finish(d[0]), finish(d[1]);
    line(fmt::format("buf acc f32{}{}", list({d[0].tile, d[1].tile}), slots()));
    const int outside = depth_;
    const bool looped = chance(70);
    const bool init = looped && !ring && chance(60);
    if (!init) line("sfp acc = 0");
    if (looped) loop(d[2], "k", 1);
    finish(d[2]);
    line(fmt::format("buf a {}{}{}\nld a = x[{}, {}]", type, list({d[0].tile, d[2].tile}), slots(), d[0].access,
                     d[2].access));
    line(fmt::format("buf b {}{}{}\nld b = w[{}, {}]", type,
                     list(turned ? Sizes{d[1].tile, d[2].tile} : Sizes{d[2].tile, d[1].tile}), slots(),
                     turned ? d[1].access : d[2].access, turned ? d[2].access : d[1].access));
    line(fmt::format("{} acc += a * b{}{}", sfp ? "sfp.mm" : "pt", turned ? "^T" : "", init ? " init(kl)" : ""));
    for (; depth_ > outside; --depth_) line("}");
    if (ring) line(fmt::format("psum acc over kc to {}", all ? "all" : "0"));
    if (ring) line("if kc == 0 {");
    line(fmt::format("buf o {}{}{}\nsfp o = acc\nst y[{}, {}] = o", wide ? "f32" : "dl16", list({d[0].tile, d[1].tile}),
                     slots(), d[0].access, d[1].access));
    if (ring) line("}");
    close();
  }

  void reduction() {
    std::vector<Dim> d(2);
    d[0].size = size(), d[1].size = size();
    const int over = static_cast<int>(r_.below(2)), kept = 1 - over;
    static const char* const monoids[] = {"sum", "max", "min", "argmax", "argmin"};
    static const char* const fills[] = {"0", "-inf", "1000.0", "-inf", "1000.0"};  // DL16 has no +inf
    const auto m = r_.below(5);
    const bool arg = m >= 3, ints = chance(25) && m < 3;
    const std::string type = ints ? "i32" : chance(50) ? "f32" : "dl16", state = ints ? "i32" : "f32";
    tensor("x", "in", type, {d[0].size, d[1].size});
    Sizes s = {d[0].size, d[1].size};
    s[over] = 1;
    tensor("y", "out", state, s);
    if (arg) tensor("z", "out", "i32", s);
    split(d[kept], "g", kept == 1 ? 32 : 1);
    if (chance(40)) loop(d[kept], "g", kept == 1 ? 32 : 1);
    finish(d[kept]);
    Sizes tile(2, 1);
    tile[kept] = d[kept].tile;
    line(fmt::format("buf s {}{}{}", state, list(tile), slots()));
    if (arg) line(fmt::format("buf i i32{}{}", list(tile), slots()));
    const std::string start = ints ? (m == 0 ? "0" : m == 1 ? "-1000" : "1000") : fills[m];
    const bool looped = chance(70);
    if (looped) line(arg ? fmt::format("sfp s, i = {}, -1", start) : fmt::format("sfp s = {}", start));
    const int outside = depth_;
    if (looped) loop(d[over], "r", 1);
    finish(d[over]);
    line(fmt::format("buf a {}{}{}", type, list({d[0].tile, d[1].tile}), slots()));
    const bool boxed = chance(50);
    line(fmt::format("ld a = x[{}, {}] fill {}", d[0].access, d[1].access, ints ? start : fills[m]));
    const std::string carry = looped ? (arg ? "s, i, " : "s, ") : "";
    // Places of the kept dimension past its end hold what the fill makes of them, and are not stored.
    std::string operand =
        boxed ? fmt::format("a[{}, {}]", over == 0 ? d[0].position : "_", over == 1 ? d[1].position : "_") : "a";
    line(fmt::format("sfp.red s{} = {}({}{} over {})", arg ? ", i" : "", monoids[m], carry, operand, over));
    for (; depth_ > outside; --depth_) line("}");
    Dim one;
    one.access = "0..1";
    std::vector<Dim> place(2, one);
    place[kept] = d[kept];
    line(fmt::format("st y{} = s", access(place)));
    if (arg) line(fmt::format("st z{} = i", access(place)));
    close();
  }

  /// A row stays in LX; several loops go over its parts.
  void resident() {
    std::vector<Dim> d(2);
    d[0].size = r_.between(1, 6), d[1].size = r_.between(1, 600);
    const std::string type = chance(50) ? "f32" : "dl16";
    tensor("x", "in", type, {d[0].size, d[1].size});
    tensor("y", "out", "f32", {d[0].size, d[1].size});
    split(d[0], "r", 1);
    d[0].tile = 1;
    const bool loops = chance(50);
    line(fmt::format("for rl in rs by 1{} {{", loops ? "" : " uniform"));
    ++depth_;
    const int64_t by = r_.between(1, 6) * (chance(80) ? 32 : 7), wide = round_up(d[1].size, by);
    const bool pieces = chance(70);
    line(fmt::format("buf xs {}[1,{}]{}{}", type, wide, slots(),
                     pieces ? fmt::format(" pieces(1:{})", std::min(wide, chance(70) ? by : by * 2)) : ""));
    line(fmt::format("buf m f32[1,1]{0}\nsfp m = -1000.0", slots()));
    line(fmt::format("for t in 0..{} by {} {{\nld xs[_, t] = x[rl, t]\nsfp.red m = max(m, xs[_, t] over 1)\n}}",
                     d[1].size, by));
    const bool scan = chance(40);
    if (scan) line(fmt::format("buf carry f32[1,1]{}\nsfp carry = m", slots()));
    line(fmt::format("for u in 0..{} by {} {{\nbuf o f32[1,{}]{}", d[1].size, by, by, slots()));
    line(scan ? "sfp.scan o[_, u], carry = sum(xs[_, u], carry)" : "sfp o[_, u] = xs[_, u] - m");
    line("st y[rl, u] = o\n}");
    close();
  }

  /// Values go from core to core.
  void exchange() {
    const int64_t parts = r_.between(1, 5), rows = r_.between(1, 3), cols = r_.between(1, 100),
                  others = r_.between(1, 3);
    tensor("x", "in", "f32", {others, parts * rows, cols});
    tensor("y", "out", "f32", {others, parts * rows, cols});
    grid_ = chance(50) ? fmt::format("h:{}, g:{}", others, parts) : fmt::format("g:{}, h:{}", parts, others);
    line(fmt::format("core o in 0..{} by 1 on h\ncore r in 0..{} by {} on g", others, parts * rows, rows));
    line(fmt::format("buf a f32[{0},{1}]{2}\nld a = x[o, r, 0..{1}]", rows, cols, slots()));
    if (chance(50)) {
      const int64_t turns = r_.between(1, 3);
      line(fmt::format("for i in 0..{} by 1 {{", turns));
      line(fmt::format("buf b f32[{},{}]{}\nring.shift b = a over g by {}\nsfp a = {}\n}}", rows, cols, slots(),
                       r_.between(-2, 2), chance(50) ? "b" : "a + b"));
    } else {
      line(fmt::format("buf all f32[{},{}]{}\nring.gather all = a over g\nbuf s f32[1,{}]{}", parts * rows, cols,
                       slots(), cols, slots()));
      line("sfp.red s = max(all over 0)\nsfp a = a + s");
    }
    if (chance(30)) line("psum a over h to all");
    line(fmt::format("st y[o, r, 0..{}] = a", cols));
  }

  void indexed() {
    const int64_t table = r_.between(1, 60), n = r_.between(1, 70), cols = size(100);
    static const char* const outside[] = {"trap", "skip", "fill"};
    const int kind = static_cast<int>(r_.below(4));
    if (kind == 0) {  // rows of a table
      tensor("tab", "in", "f32", {table, cols});
      tensor("ids", "in", "i32", {n});
      tensor("y", "out", "f32", {n, cols});
      Dim t{n, 1, "", "", 0};
      split(t, "t", 1);
      if (chance(40)) loop(t, "t", 1);
      const bool skip = chance(30);
      line(fmt::format("buf ix i32[{}]{}\nld ix = ids[{}]", t.tile, slots(), t.access));
      line(fmt::format("buf row f32[{},{}]{}\nld row = tab[ix in {}..{} {}, 0..{}] fill 5", t.tile, cols, slots(),
                       r_.between(0, 3), std::max<int64_t>(4, table - r_.between(0, 2)),
                       skip         ? "skip"
                       : chance(50) ? "fill"
                                    : "trap",
                       cols));
      line(fmt::format("st y[{}, 0..{}] = row", t.access, cols));
      close();
    } else if (kind == 1) {  // rows written by index, the last of equal ones wins
      const int64_t parts = r_.between(1, 3);
      tensor("y", "inout", "f32", {parts, table, cols});
      tensor("ids", "in", "i32", {n});
      tensor("x", "in", "f32", {parts, n, cols});
      grid_ = fmt::format("g:{}", parts);
      const int64_t by = r_.between(1, 40);
      line(fmt::format("core h in 0..{} by 1 on g\nfor t in 0..{} by {} {{", parts, n, by));
      line(fmt::format("buf ix i32[{2}]{0}\nld ix = ids[t] fill -1\nbuf a f32[{2},{1}]{0}\nld a = x[h, t, 0..{1}]",
                       slots(), cols, by));
      line(fmt::format("st y[h, ix in 0..{} {}, 0..{}] = a ordered\n}}", table, chance(80) ? "skip" : "trap", cols));
    } else if (kind == 2) {  // additions by index into rows that one core owns
      tensor("y", "inout", "f32", {table, cols});
      tensor("ids", "in", "i32", {n});
      tensor("x", "in", "f32", {n, cols});
      Dim v{table, 1, "", "", 0};
      split(v, "v", 1);
      if (chance(40)) loop(v, "v", 1);
      line(fmt::format("buf acc f32[{0},{1}]{2}\nld acc = y[{3}, 0..{1}]", v.tile, cols, slots(), v.access));
      const int64_t by = r_.between(1, 40);
      line(fmt::format("for t in 0..{} by {} {{\nbuf ix i32[{}]{}\nld ix = ids[t] fill -1", n, by, by, slots()));
      line(fmt::format("buf s f32[{0},{1}]{2}\nld s = x[t, 0..{1}]\nsfp.scatter acc[ix in {3} skip] {4} s\n}}", by,
                       cols, slots(), v.access, chance(70) ? "+=" : "="));
      line(fmt::format("st y[{}, 0..{}] = acc", v.access, cols));
      close();
    } else {  // inside LX
      tensor("tab", "in", "f32", {table, cols});
      tensor("ids", "in", "i32", {n});
      tensor("y", "out", "f32", {n, cols});
      grid_ = "g:1";
      const char* out = any(outside);
      line(fmt::format(
          "buf tab_ f32[{0},{1}]{2}\nld tab_ = tab[0..{0}, 0..{1}]\nbuf ix i32[{3}]{2}\nld ix = ids[0..{3}]", table,
          cols, slots(), n));
      line(fmt::format("buf o f32[{},{}]{}\nsfp o = 7.0\nsfp.gather o = tab_[ix in 0..{} {}]\nst y[0..{}, 0..{}] = o",
                       n, cols, slots(), table, out, n, cols));
    }
  }

  layout::testing::Random r_;
  std::vector<std::pair<std::string, std::string>> tensors_;
  std::string grid_, body_;
  int depth_ = 0;
  int64_t cores_ = 1;
};

}  // namespace spyre::card
