// Errors that say whose fault it is and what to do: the one exception type of the tree.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace spyre {

/// Whose fault an error is. PyTorch sees `out_of_memory` as torch.OutOfMemoryError, `user` of a bad index as IndexError
/// only where torch itself would, and everything else as RuntimeError (NotImplementedError for `unimplemented`).
enum class Fault {
  user,           ///< the caller gave something illegal: the message names the op, shapes, dtypes and the way out
  program,        ///< a tile program or container breaks a rule of the contract (docs/tile_program.md)
  unimplemented,  ///< legal, but not built here yet
  configuration,  ///< a description file, an environment variable or an option is wrong: the message names the field
  system,         ///< the operating system refused (mmap, file, thread)
  out_of_memory,  ///< device memory is full
};

/// The word for a fault, as messages use it ("user error", "program error", ...).
const char* fault_name(Fault fault);

class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

/// Throws Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(Fault fault, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fault, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace spyre
