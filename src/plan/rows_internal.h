// What the candidates of the rows and the reduce form have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/rows.h"

namespace spyre::plan {

/// Elements of a tile's main buffer that keep the memory busy without filling LX.
constexpr int64_t tile_elements = 16 * 1024;

/// The axis of the smallest step of a reference, or -1.
int fastest(const AxisRef& ref);
/// Per axis: parts must begin at multiples, for the sticks of what is stored.
std::vector<int64_t> alignment(const graph::Graph& g, const std::vector<Home>& homes, const Axes& axes);
/// Divides `cores` among the axes in this order, but not the `fixed` ones.
std::vector<int32_t> divide(const std::vector<int64_t>& sizes, const std::vector<int64_t>& align,
                            const std::vector<bool>& fixed, const std::vector<int>& order, int64_t cores);
/// Grows a tile from the lanes outwards to about `elements`, within LX; axes of `whole` have their size, of `point` 1.
/// An axis stays 1 when one of `indices` (index_axes) varies along it and along a longer one: a load has one index a
/// row.
std::vector<int64_t> grow(const graph::Graph& g, const std::vector<Home>& homes, const Axes& axes, int lane,
                          const std::vector<bool>& whole, const std::vector<bool>& point,
                          const std::vector<std::vector<bool>>& indices, const std::vector<int64_t>& part,
                          int64_t elements, int64_t lx);
/// The axes along which the indices of a load's gathers vary, for each load whose indices vary along several.
std::vector<std::vector<bool>> index_axes(const graph::Graph& g, const Axes& axes);
void add_candidate(std::vector<KernelPlan>& out, KernelPlan k);

}  // namespace spyre::plan
