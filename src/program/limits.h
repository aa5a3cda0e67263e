// Bounds that every tree respects, so that nobody who walks one needs to think of stack or memory. They are far above
// what real programs use.
#pragma once

#include <cstdint>

namespace spyre::program::limits {

constexpr int block_depth = 64;              ///< nested `for` and `if`
constexpr int int_depth = 64;                ///< levels of an IntExpr
constexpr int vec_depth = 100;               ///< levels of a VecExpr
constexpr int64_t vec_nodes = 10'000;        ///< nodes of a VecExpr
constexpr int tensor_rank = 64;              ///< dimensions of a tensor (PyTorch's own limit)
constexpr int view_rank = 8;                 ///< dimensions of a symbol's view: whoever walks one has them in arrays
constexpr int buffer_rank = 8;               ///< dimensions of a buffer
constexpr int grid_rank = 8;                 ///< dimensions of a grid
constexpr int name_length = 120;             ///< characters of a name
constexpr int kernel_buffers = 10'000;       ///< buffers of a kernel
constexpr int64_t buffer_bytes = 1LL << 31;  ///< slots x bytes of one buffer
constexpr int64_t elements =
    1LL << 48;                   ///< host elements of a view, device elements of an allocation, indices of a range
constexpr int32_t cores = 4096;  ///< cores of a kernel

}  // namespace spyre::program::limits
