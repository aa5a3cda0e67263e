// SPYRE_VERIFY: an instance run kernel by kernel, each compared with the reference interpreter on the card's own
// inputs.
#pragma once

#include <span>

#include "engine/instance.h"

namespace spyre::engine {

/// Runs the launch and waits for it. Throws Error(program) naming op, source line and element of the first stored value
/// that no correct kernel can give, and what LoadedProgram::launch throws. `instance` has its Compiled; it launches.
void run_verified(Instance& instance, runtime::Stream& stream, std::span<const TensorArg> inputs,
                  std::span<const TensorArg> outputs, std::span<const double> params);

}  // namespace spyre::engine
