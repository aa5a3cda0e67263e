// The reduce form: any single Reduce, in tiles, its state in LX.
#include <algorithm>
#include <cstdlib>

#include "plan/rows.h"
#include "plan/rows_internal.h"

namespace spyre::plan {

std::optional<ReduceShape> reduce_shape(const graph::Graph& g, const std::vector<Home>& homes, graph::Id node) {
  if (!std::holds_alternative<graph::Reduce>(g.nodes[node].kind)) return std::nullopt;
  auto axes = common_axes(g, std::span(&node, 1), homes);
  if (!axes) return std::nullopt;
  ReduceShape shape;
  shape.axes = std::move(*axes);
  const NodeAxes& n = shape.axes.nodes[0];
  const size_t rank = shape.axes.sizes.size();
  for (size_t a = 0; a < rank; ++a)
    if (n.reduced[a] && (shape.reduced < 0 || shape.axes.sizes[a] > shape.axes.sizes[shape.reduced]))
      shape.reduced = static_cast<int>(a);
  if (shape.reduced < 0) return std::nullopt;
  // Lanes run along what the largest load has contiguous.
  const AxisRef* main = nullptr;
  int64_t most = 0;
  for (const AxisRef& r : n.reads) {
    int64_t points = 1;
    for (size_t a = 0; a < rank; ++a)
      if (r.strides[a] != 0) points *= shape.axes.sizes[a];
    if (points > most) most = points, main = &r;
  }
  shape.lane = main ? fastest(*main) : -1;
  if (shape.lane < 0) shape.lane = shape.reduced;
  if (n.reduced[shape.lane]) shape.reduced = shape.lane;
  shape.align = alignment(g, homes, shape.axes);
  // Parts of the reduced axis hold whole sticks.
  if (shape.reduced == shape.lane)
    shape.align[shape.reduced] =
        std::max<int64_t>(shape.align[shape.reduced], base::elements_per_stick(base::Format::dl16));
  return shape;
}

std::vector<KernelPlan> reduce_candidates(const Context& context, std::span<const graph::Id> nodes) {
  std::vector<KernelPlan> out;
  if (nodes.size() != 1) return out;
  const auto shape = reduce_shape(context.graph, context.plan.homes, nodes[0]);
  if (!shape) return out;
  const Axes& axes = shape->axes;
  const NodeAxes& n = axes.nodes[0];
  const size_t rank = axes.sizes.size();
  if (std::find(axes.sizes.begin(), axes.sizes.end(), 0) != axes.sizes.end()) return out;
  const int64_t lx = context.description.lx_usable_bytes;
  const auto indices = index_axes(context.graph, axes);
  std::vector<int> outward;
  std::vector<bool> point(rank, false), whole(rank, false);
  for (size_t a = 0; a < rank; ++a) {
    const int axis = static_cast<int>(a);
    if (axis != shape->lane && !n.reduced[a]) outward.push_back(axis);
    point[a] = axis != shape->lane && n.reduced[a] && axis != shape->reduced;
  }
  std::vector<int> inward(outward.rbegin(), outward.rend());
  if (!n.reduced[shape->lane]) outward.push_back(shape->lane), inward.insert(inward.begin(), shape->lane);
  const auto candidate = [&](std::vector<int32_t> grid, int64_t elements) {
    KernelPlan k;
    k.form = Form::reduce;
    k.nodes.assign(nodes.begin(), nodes.end());
    std::vector<int64_t> part(rank);
    for (size_t a = 0; a < rank; ++a) part[a] = rows_part(axes.sizes[a], grid[a], shape->align[a]);
    std::vector<bool> points = point;
    if (grid[shape->reduced] > 1) {
      // States that cores gather have a dimension to do it along: the reduced one in front, or a column.
      bool column = shape->reduced == shape->lane;
      for (size_t a = rank; a-- > 0;) {
        if (n.reduced[a] || static_cast<int>(a) == shape->lane || points[a]) continue;
        if (!column) points[a] = true;
        column = false;
      }
    }
    k.tile = grow(context.graph, context.plan.homes, axes, shape->lane, whole, points, indices, part, elements, lx);
    k.grid = std::move(grid);
    add_candidate(out, std::move(k));
  };
  const int64_t cores = context.description.cores;
  for (const auto* order : {&outward, &inward}) {
    const auto grid = divide(axes.sizes, shape->align, n.reduced, *order, cores);
    int64_t used = 1;
    for (int32_t p : grid) used *= p;
    if (used * 2 <= cores) {  // the rest divides what is reduced
      std::vector<bool> others(rank, true);
      others[shape->reduced] = false;
      auto more = divide(axes.sizes, shape->align, others, {shape->reduced}, cores / used);
      for (size_t a = 0; a < rank; ++a) more[a] = std::max(more[a], grid[a]);
      for (const int64_t elements : {tile_elements / 2, tile_elements / 8}) candidate(more, elements);
    }
    for (const int64_t elements : {tile_elements, tile_elements * 4}) candidate(grid, elements);
  }
  candidate(std::vector<int32_t>(rank, 1), tile_elements);
  candidate(std::vector<int32_t>(rank, 1), 64);
  return out;
}

}  // namespace spyre::plan
