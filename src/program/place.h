// Places of buffers in LX.
#pragma once

#include "program/tree.h"

namespace spyre::program {

/// Gives every buffer without an LX offset the lowest one, in whole sticks, at which no slot of it shares bytes with a
/// buffer that lives at the same time: one of the same scope, of a scope around it, or of a scope inside it. Outer
/// scopes first, so that without preset offsets the kernel takes the most that any path of scopes needs. Capacity is
/// the verifier's to check.
void place(Kernel& kernel);

}  // namespace spyre::program
