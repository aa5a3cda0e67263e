// What the tests of timing share: the built-in card, example programs, short programs from text.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string>

#include "program/program.h"
#include "timing/timeline.h"

namespace spyre::timing {

inline const device::Description& card() {
  static const device::Description d = device::load_description();
  return d;
}

inline program::Program example(const std::string& name) {
  std::ifstream file(std::string(SPYRE_PROGRAM_EXAMPLES) + "/" + name + ".tile");
  std::ostringstream text;
  text << file.rdbuf();
  return program::assemble(text.str());
}

/// Every scalar half way between its bounds.
inline ScalarValues middle(const program::Program& p) {
  ScalarValues v;
  for (const program::Scalar& s : p.scalars)
    v.push_back(s.is_float ? s.hi : s.lo + static_cast<double>(static_cast<int64_t>(s.hi - s.lo) / 2));
  return v;
}

/// A kernel `k` over x, w (in) and y (out), all dl16 [rows, columns], with the given nest text.
inline program::Program kernel(int64_t rows, int64_t columns, int cores, const std::string& nests) {
  const std::string x = fmt::format("dl16 [{},{}]", rows, columns);
  return program::assemble(
      fmt::format("sym x: in {0}\nsym w: in {0}\nsym y: out {0}\nloc 0 \"test\" \"test\"\n"
                  "kernel k(x: in {0}, w: in {0}, y: out {0}) cores {1} {{ {2} }}\ncall k(x, w, y)\n",
                  x, cores, nests));
}

inline Timeline timed(const program::Program& p, WalkOptions options = {}) {
  return walk(p, middle(p), card(), options);
}

}  // namespace spyre::timing
