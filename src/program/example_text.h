// The worked kernels in examples/, for tests of this and later folders.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"

namespace spyre::program {

/// Names of the examples: a file each, examples/<name>.tile.
inline constexpr const char* example_names[] = {"linear",  "split_k",    "attention", "paged_decode",
                                                "softmax", "layer_norm", "conv",      "embedding",
                                                "kv_put",  "index_add",  "cumsum"};

#ifdef SPYRE_PROGRAM_EXAMPLES
/// The text of one example. Throws Error(system) when the file can't be read.
inline std::string example_text(const std::string& name) {
  const std::string path = std::string(SPYRE_PROGRAM_EXAMPLES) + "/" + name + ".tile";
  std::ifstream file(path);
  if (!file) fail(Fault::system, "can't read {}", path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
#endif

}  // namespace spyre::program
