// Random order: a kernel's step instances in any order that rules D, S, F and C of docs/tile_program.md section 4
// allow, with real slots whose free bytes are poisoned. The numbers must equal the sequential run's: the test of those
// rules.
#pragma once

#include "card/compiled_kernel.h"

namespace spyre::card {

/// Runs the kernel on the calling thread. Throws what steps throw, Error(program) if no instance can start (a
/// deadlock), and Error(unimplemented) for kernels of more than two million step instances.
void run_random_order(const CompiledKernel& kernel, KernelRun& run, const std::vector<int64_t>& scalars, uint64_t seed);

}  // namespace spyre::card
