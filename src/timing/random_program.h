// Random tile programs as text, for the tests: nests, loops around and inside one another, clipped trips, buffers of
// all scopes, pieces, branches, collectives. Made to be walked, not to compute anything.
#pragma once

#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace spyre::timing {

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}

  std::string text() {
    const int a = pick(1, 4), b = pick(1, 4);
    const int64_t rows = pick(1, 500), columns = pick(1, 24) * 32;
    const std::string x = fmt::format("dl16 [{},{}]", rows, columns);
    out_ = fmt::format("sym x: in {0}\nsym w: in {0}\nsym y: out {0}\nloc 0 \"test\" \"test\"\n", x);
    out_ += fmt::format("kernel k(x: in {0}, w: in {0}, y: out {0}) cores {1} {{\n", x, a * b);
    const int nests = chance(25) ? 2 : 1;
    for (int i = 0; i < nests; ++i) {
      row_ranges_.clear(), column_ranges_.clear(), loops_.clear();
      out_ += fmt::format("grid(a:{}, b:{}) {{\n", a, b);
      const int64_t by = chance(50) ? (rows + a - 1) / a : pick(1, 8) * 16;
      out_ += fmt::format("core {} in 0..{} by {} on a\n", fresh('m'), rows, std::max<int64_t>(by, (rows + a - 1) / a));
      row_ranges_.push_back(last_);
      out_ += fmt::format("core {} in 0..{} by {} on b\n", fresh('n'), columns, (columns / 32 + b - 1) / b * 32);
      column_ranges_.push_back(last_);
      block(0);
      out_ += "}\n";
    }
    return out_ + "}\ncall k(x, w, y)\n";
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  std::string fresh(char letter) { return last_ = fmt::format("{}{}", letter, names_++); }
  template <typename T>
  const T& any(const std::vector<T>& v) {
    return v[pick(0, static_cast<int64_t>(v.size()) - 1)];
  }

  void buffer() {
    const bool wide = chance(50);
    out_ += fmt::format("buf {} {}[16,64] x{}\n", fresh('t'), wide ? "f32" : "dl16", pick(1, 3));
    (wide ? wide_ : narrow_).push_back(last_);
  }

  void step() {
    if (narrow_.empty() || wide_.empty()) return;
    const auto row = [&] { return loop_rows_.empty() ? std::string("0..16") : any(loop_rows_); };
    const auto column = [&] { return loop_columns_.empty() ? std::string("0..64") : any(loop_columns_); };
    switch (pick(0, 9)) {
      case 0:
      case 1:
      case 2:
        out_ += fmt::format("ld {} = {}[{}, {}]\n", any(narrow_), chance(50) ? "x" : "w", row(), column());
        break;
      case 3:
        out_ += fmt::format("st y[{}, {}] = {}\n", row(), column(), any(narrow_));
        break;
      case 4:
        out_ += fmt::format("sfp {} = exp({}) + {}\n", any(wide_), any(narrow_), any(wide_));
        break;
      case 5:
        out_ += fmt::format("sfp {} = {} * 2\n", any(narrow_), any(wide_));
        break;
      case 6:
        out_ += fmt::format("sfp.red {} = max({} over 1)\n", "s", any(wide_));
        break;
      case 7:
        out_ += fmt::format("pt {} += {} * {}^T\n", "c", any(narrow_), any(narrow_));
        break;
      case 8:
        out_ += fmt::format("mv {} = {}\n", any(narrow_), any(narrow_));
        break;
      default:
        if (chance(20)) out_ += "fence\n";
        if (!loops_.empty() && chance(60)) {
          static const char* const conditions[] = {"{}.first", "{}.last", "{}.trip > 2", "{}.start < 40",
                                                   "{}.trip == 5"};
          const std::string& loop = any(loops_);
          out_ += fmt::format("if {} {{\n", fmt::format(fmt::runtime(conditions[pick(0, 4)]), loop));
        } else {
          out_ += chance(50) ? "if a == 0 {\n" : "if b > 0 {\n";
        }
        step();
        out_ += "}\n";
    }
  }

  void block(int depth) {
    const size_t narrow = narrow_.size(), wide = wide_.size();
    if (depth == 0) out_ += "buf s f32[16,1] x1\nbuf c f32[16,16] x1\nbuf p dl16[1,1024] x1 pieces(1:64)\n";
    for (int64_t i = pick(depth == 0 ? 2 : 0, 2); i > 0; --i) buffer();
    if (depth == 0) {
      out_ += fmt::format("buf {} f32[16,64] x1\nbuf {} dl16[16,64] x2\n", "e0", "e1");
      wide_.push_back("e0");
      narrow_.push_back("e1");
    }
    for (int64_t i = pick(1, 4); i > 0; --i) {
      if (depth < 3 && chance(60 - 12 * depth)) {
        loop(depth);
      } else {
        step();
      }
    }
    narrow_.resize(narrow);
    wide_.resize(wide);
  }

  void loop(int depth) {
    const int kind = static_cast<int>(pick(0, 3));
    const size_t rows = loop_rows_.size(), columns = loop_columns_.size();
    if (kind == 0) {
      const std::string parent = row_ranges_[0];
      out_ += fmt::format("for {} in {} by 16{} {{\n", fresh('i'), parent, chance(20) ? " uniform" : "");
      loop_rows_.push_back(last_);
    } else if (kind == 1) {
      const std::string parent = column_ranges_[0];
      out_ += fmt::format("for {} in {} by 64{} {{\n", fresh('j'), parent, chance(20) ? " uniform" : "");
      loop_columns_.push_back(last_);
    } else if (kind == 2 && !loops_.empty()) {
      const std::string outer = any(loops_);
      out_ += fmt::format("for {} in 0..{}.trip + {} by {} {{\n", fresh('k'), outer, pick(1, 9), pick(1, 3));
    } else {
      out_ += fmt::format("for {} in 0..{} by {} {{\n", fresh('k'),
                          pick(1, depth == 0   ? 120
                                  : depth == 1 ? 40
                                               : 10),
                          pick(1, 3));
    }
    loops_.push_back(last_);
    const std::string mine = last_;
    block(depth + 1);
    if (kind == 1 && chance(30)) out_ += fmt::format("ld p[_, 0..64] = x[0..1, {}]\n", mine);
    out_ += "}\n";
    loops_.pop_back();
    loop_rows_.resize(rows);
    loop_columns_.resize(columns);
  }

  std::mt19937_64 random_;
  std::string out_, last_;
  int names_ = 0;
  std::vector<std::string> row_ranges_, column_ranges_, loop_rows_, loop_columns_, loops_, narrow_, wide_;
};

}  // namespace spyre::timing
