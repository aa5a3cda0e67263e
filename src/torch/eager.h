// Ops on the device without the CPU: an op of the dispatcher becomes a graph, the graph launches.
#pragma once

#include <ATen/core/stack.h>

#include <string>

#include "torch/eager_op.h"

namespace spyre::torch {

/// Runs the call whose arguments are on the stack and replaces them by its results. False when it can't be imported or
/// planned: then the stack is as before, nothing was enqueued, and `why` says why (empty: torch's own rules are to
/// decide). Throws what the engine throws, as torch's exceptions.
bool run_eager(EagerOp& op, ::torch::jit::Stack* stack, std::string& why);

}  // namespace spyre::torch
