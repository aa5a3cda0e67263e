// Host kernels: the arithmetic of the soft card's units at host speed (src/card/host_kernels.md is the guide).
//
// Everything here works on plain host memory: *strips* are contiguous arrays of n lanes of float, int32_t or mask
// (int32_t, 0 or -1 per lane); tiles are rows of elements in whole sticks. One source per topic is compiled per
// instruction set (base/isa.h) and chosen at start-up. Results depend on the instruction set at most, never on threads
// or alignment.
//
// Unless said otherwise: n may be anything including 0, pointers need no alignment, exactly n lanes are read and
// written, and a destination may be the very same array as a source but may not overlap one in any other way.
#pragma once

#include "card/host_matmul.h"
#include "card/host_reduce.h"
#include "card/host_tile.h"
#include "card/host_vector.h"
