// What holds between calls: directions, formals that are views of one symbol, data written before it is read.
#pragma once

#include <functional>
#include <vector>

#include "device/description.h"
#include "program/tree.h"

namespace spyre::program::verifier {

/// Checks a kernel on its own; returns per formal whether it writes all of the formal's view. Throws Error(program).
using KernelCheck = std::function<std::vector<bool>(const Kernel&)>;

/// Checks the calls in turn. `complete`: by kernel, what `check` said of it. A kernel that writes a symbol which a call
/// binds to several formals is checked once more, with these formals as one. Throws Error(program).
void check_calls(const Program& program, const std::vector<std::vector<bool>>& complete, const KernelCheck& check);

}  // namespace spyre::program::verifier
