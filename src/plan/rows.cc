#include "plan/rows.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>

#include "base/rounding.h"
#include "plan/rows_internal.h"
#include "program/limits.h"
#include "program/verify_sticks.h"

namespace spyre::plan {

using base::ceil_div;
using base::round_up;
using graph::Expr;
using graph::Graph;
using graph::Load;
using graph::Map;
using graph::Reduce;

namespace {

constexpr int64_t most_tile_dims = program::limits::buffer_rank - 1;

}  // namespace

int fastest(const AxisRef& ref) {
  int axis = -1;
  for (size_t a = 0; a < ref.strides.size(); ++a) {
    if (ref.strides[a] == 0) continue;
    if (axis < 0 || std::abs(ref.strides[a]) <= std::abs(ref.strides[axis])) axis = static_cast<int>(a);
  }
  return axis;
}

namespace {

bool reads_inside(const Expr& e, const NodeAxes& axes) {
  if (e.leaf == Expr::Leaf::load && axes.reads[e.id].internal) return true;
  return std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return reads_inside(a, axes); });
}

/// Parts along an axis must not share a stick of a stored result.
void align_to(const Axes& axes, const AxisRef& ref, const layout::Geometry& geometry, std::vector<int64_t>& align) {
  layout::HostView view;
  view.offset = ref.offset;
  std::vector<size_t> of;
  for (size_t a = 0; a < axes.sizes.size(); ++a) {
    if (ref.strides[a] == 0) continue;
    view.sizes.push_back(axes.sizes[a]);
    view.strides.push_back(std::abs(ref.strides[a]));
    of.push_back(a);
  }
  const auto sticks = program::verifier::stick_shape(view, geometry);
  if (!sticks.known || sticks.lane_dim < 0) return;
  int64_t& a = align[of[static_cast<size_t>(sticks.lane_dim)]];
  a = sticks.phase == 0 ? std::lcm(a, sticks.block) : axes.sizes[of[static_cast<size_t>(sticks.lane_dim)]];
}

}  // namespace

std::vector<int64_t> alignment(const Graph& g, const std::vector<Home>& homes, const Axes& axes) {
  std::vector<int64_t> align(axes.sizes.size(), 1);
  for (const NodeAxes& n : axes.nodes)
    for (size_t r = 0; r < n.results.size(); ++r)
      if (in_memory(homes[g.nodes[n.node].results[r]].kind))
        align_to(axes, n.results[r], homes[n.results[r].value].geometry, align);
  return align;
}

namespace {

/// Parts that `cores` can have of this many units, evenly.
int64_t even_parts(int64_t units, int64_t cores) {
  const int64_t most = std::min(units, cores);
  return most <= 1 ? 1 : ceil_div(units, ceil_div(units, most));
}

}  // namespace

std::vector<int32_t> divide(const std::vector<int64_t>& sizes, const std::vector<int64_t>& align,
                            const std::vector<bool>& fixed, const std::vector<int>& order, int64_t cores) {
  std::vector<int32_t> grid(sizes.size(), 1);
  for (int a : order) {
    if (fixed[a] || cores <= 1) continue;
    const int64_t parts = even_parts(ceil_div(sizes[a], align[a]), cores);
    grid[a] = static_cast<int32_t>(parts);
    cores /= parts;
  }
  return grid;
}

std::vector<int64_t> grow(const Graph& g, const std::vector<Home>& homes, const Axes& axes, int lane,
                          const std::vector<bool>& whole, const std::vector<bool>& point,
                          const std::vector<std::vector<bool>>& indices, const std::vector<int64_t>& part,
                          int64_t elements, int64_t lx) {
  const size_t rank = axes.sizes.size();
  std::vector<int64_t> tile(rank, 1);
  const auto varies_with_another = [&](int axis) {
    return std::any_of(indices.begin(), indices.end(), [&](const std::vector<bool>& varies) {
      if (!varies[axis]) return false;
      for (size_t a = 0; a < rank; ++a)
        if (varies[a] && static_cast<int>(a) != axis && tile[a] > 1) return true;
      return false;
    });
  };
  int64_t have = 1, dims = 0;
  for (size_t a = 0; a < rank; ++a)
    if (whole[a]) tile[a] = axes.sizes[a], have *= tile[a], ++dims;
  std::vector<int> order;
  if (lane >= 0 && !whole[lane]) order.push_back(lane);
  for (size_t a = rank; a-- > 0;)
    if (!whole[a] && static_cast<int>(a) != lane && !point[a]) order.push_back(static_cast<int>(a));
  for (int a : order) {
    if (a != lane && varies_with_another(a)) continue;
    int64_t size = std::min(part[a], std::max<int64_t>(1, elements / have));
    if (a == lane && size < part[a] && size > 64) size = size / 64 * 64;
    for (;; size = (size + 1) / 2) {
      tile[a] = size;
      if (size == 1 || rows_tile_bytes(g, homes, axes, lane, tile, 2) <= lx) break;
    }
    have *= tile[a];
    if (tile[a] > 1 && ++dims == most_tile_dims) break;
    if (tile[a] < part[a]) break;
  }
  return tile;
}

std::vector<std::vector<bool>> index_axes(const Graph& g, const Axes& axes) {
  std::vector<std::vector<bool>> out;
  for (const NodeAxes& n : axes.nodes) {
    const auto loads = graph::loads_of(g.nodes[n.node].kind);
    for (const Load& l : loads) {
      std::vector<bool> varies(axes.sizes.size(), false);
      std::function<void(const Expr&)> look = [&](const Expr& e) {
        if (e.leaf == Expr::Leaf::load) {
          for (size_t a = 0; a < varies.size(); ++a) varies[a] = varies[a] || n.reads[e.id].strides[a] != 0;
          for (const Load::Gather& again : loads[e.id].gathers) look(again.index);
        }
        if (e.leaf == Expr::Leaf::iota)
          for (int a : n.dims[e.id]) varies[a] = true;
        for (const Expr& a : e.args) look(a);
      };
      for (const Load::Gather& gather : l.gathers) look(gather.index);
      if (std::count(varies.begin(), varies.end(), true) > 1) out.push_back(std::move(varies));
    }
  }
  return out;
}

void add_candidate(std::vector<KernelPlan>& out, KernelPlan k) {
  const bool known =
      std::any_of(out.begin(), out.end(), [&](const KernelPlan& o) { return o.grid == k.grid && o.tile == k.tile; });
  if (!known) out.push_back(std::move(k));
}

int64_t rows_part(int64_t size, int64_t parts, int64_t align) {
  return std::min(size, round_up(ceil_div(size, std::max<int64_t>(1, parts)), align));
}

int64_t rows_tile_bytes(const Graph& g, const std::vector<Home>& homes, const Axes& axes, int lane,
                        std::span<const int64_t> tile, int32_t slots) {
  auto bytes = [&](const auto& has, base::Format format) {
    int64_t rows = 1, lanes = 1;
    for (size_t a = 0; a < tile.size(); ++a)
      if (has(a)) (static_cast<int>(a) == lane ? lanes : rows) *= tile[a];
    return rows * round_up(lanes * base::format_bytes(format), base::stick_bytes);
  };
  int64_t total = 0;
  std::vector<const AxisRef*> seen;
  std::map<graph::Id, int> uses;
  for (const NodeAxes& n : axes.nodes)
    for (const AxisRef& r : n.reads)
      if (r.internal) ++uses[r.value];
  for (const NodeAxes& n : axes.nodes) {
    for (const AxisRef& r : n.reads) {
      if (r.internal) continue;
      const bool again = r.gathers.empty() && std::any_of(seen.begin(), seen.end(), [&](const AxisRef* s) {
                           return s->value == r.value && s->offset == r.offset && s->strides == r.strides;
                         });
      if (again) continue;
      seen.push_back(&r);
      total += slots * bytes([&](size_t a) { return r.strides[a] != 0 || (!r.gathers.empty() && n.has[a]); },
                             homes[r.value].geometry.format);
    }
    const bool map = std::holds_alternative<Map>(g.nodes[n.node].kind);
    for (size_t r = 0; r < n.results.size(); ++r) {
      const graph::Id value = g.nodes[n.node].results[r];
      auto has = [&](size_t a) { return n.has[a] && !n.reduced[a]; };
      if (in_memory(homes[value].kind))
        total += slots * bytes(has, homes[n.results[r].value].geometry.format);
      else if (!map || uses[value] > 1)
        total += bytes(has, base::Format::f32);
    }
    if (!map) total += bytes([&](size_t a) { return static_cast<bool>(n.has[a]); }, base::Format::f32);
  }
  return total;
}

std::optional<RowsShape> rows_shape(const Graph& g, const std::vector<Home>& homes, std::span<const graph::Id> nodes) {
  for (graph::Id n : nodes)
    if (!std::holds_alternative<Map>(g.nodes[n].kind) && !std::holds_alternative<Reduce>(g.nodes[n].kind))
      return std::nullopt;
  auto axes = common_axes(g, nodes, homes);
  if (!axes) return std::nullopt;
  RowsShape shape;
  shape.axes = std::move(*axes);
  const size_t rank = shape.axes.sizes.size();
  shape.whole.assign(rank, false);
  // Reduces of one kernel reduce the same axes.
  const NodeAxes* reducer = nullptr;
  for (const NodeAxes& n : shape.axes.nodes) {
    const auto* reduce = std::get_if<Reduce>(&g.nodes[n.node].kind);
    const auto count = std::count(n.reduced.begin(), n.reduced.end(), true);
    if (!reduce || count == 0) continue;
    if (reducer && reducer->reduced != n.reduced) return std::nullopt;
    using program::Monoid;
    const Monoid m = reduce->monoid;
    const bool several = m == Monoid::argmax || m == Monoid::argmin || m == Monoid::welford || m == Monoid::logsumexp;
    if (several && count > 1) return std::nullopt;
    reducer = &n;
  }
  if (reducer) shape.whole = reducer->reduced;
  // The lanes: what is reduced, innermost; else where the largest result is contiguous.
  if (reducer) {
    for (size_t a = 0; a < rank; ++a)
      if (shape.whole[a]) shape.lane = static_cast<int>(a);
    for (const AxisRef& r : reducer->reads)
      if (!r.internal && fastest(r) >= 0 && shape.whole[fastest(r)]) shape.lane = fastest(r);
  } else {
    const AxisRef* main = nullptr;
    int64_t most = 0;
    for (const NodeAxes& n : shape.axes.nodes)
      for (size_t r = 0; r < n.results.size(); ++r) {
        if (!in_memory(homes[g.nodes[n.node].results[r]].kind)) continue;
        int64_t points = 1;
        for (size_t a = 0; a < rank; ++a)
          if (n.results[r].strides[a] != 0) points *= shape.axes.sizes[a];
        if (points >= most) most = points, main = &n.results[r];
      }
    if (main) shape.lane = fastest(*main);
    if (shape.lane < 0 && rank > 0) shape.lane = static_cast<int>(rank) - 1;
  }
  for (const NodeAxes& n : shape.axes.nodes) {
    // A result that lacks an axis would be stored again and again along it, unless the axis is there as a whole.
    for (size_t r = 0; r < n.results.size(); ++r) {
      if (!in_memory(homes[g.nodes[n.node].results[r]].kind)) continue;
      for (size_t a = 0; a < rank; ++a) {
        if (n.has[a] || shape.whole[a]) continue;
        if (static_cast<int>(a) != shape.lane) return std::nullopt;
        shape.whole[a] = true;
      }
    }
    const auto& node = g.nodes[n.node];
    for (const Load& l : graph::loads_of(node.kind))
      for (const Load::Gather& gather : l.gathers)
        if (reads_inside(gather.index, n)) return std::nullopt;
  }
  shape.align = alignment(g, homes, shape.axes);
  return shape;
}

bool rows_accepts(const Context& context, std::span<const graph::Id> nodes) {
  const auto shape = rows_shape(context.graph, context.plan.homes, nodes);
  if (!shape) return false;
  std::vector<int64_t> tile(shape->axes.sizes.size(), 1);
  for (size_t a = 0; a < tile.size(); ++a)
    if (shape->whole[a]) tile[a] = shape->axes.sizes[a];
  return rows_tile_bytes(context.graph, context.plan.homes, shape->axes, shape->lane, tile, 1) <=
         context.description.lx_usable_bytes;
}

std::vector<KernelPlan> rows_candidates(const Context& context, std::span<const graph::Id> nodes) {
  std::vector<KernelPlan> out;
  const auto shape = rows_shape(context.graph, context.plan.homes, nodes);
  if (!shape) return out;
  const Axes& axes = shape->axes;
  const size_t rank = axes.sizes.size();
  const int64_t lx = context.description.lx_usable_bytes;
  const std::vector<bool> point(rank, false);
  const auto indices = index_axes(context.graph, axes);
  std::vector<int> outward, inward;  // the lanes are cut last
  for (size_t a = 0; a < rank; ++a)
    if (static_cast<int>(a) != shape->lane) outward.push_back(static_cast<int>(a));
  inward.assign(outward.rbegin(), outward.rend());
  std::vector<int> largest = outward;
  std::stable_sort(largest.begin(), largest.end(), [&](int a, int b) {
    return even_parts(ceil_div(axes.sizes[a], shape->align[a]), context.description.cores) >
           even_parts(ceil_div(axes.sizes[b], shape->align[b]), context.description.cores);
  });
  for (auto* order : {&outward, &inward, &largest})
    if (shape->lane >= 0) order->push_back(shape->lane);
  const auto candidate = [&](std::vector<int32_t> grid, int64_t elements) {
    KernelPlan k;
    k.form = Form::rows;
    k.nodes.assign(nodes.begin(), nodes.end());
    std::vector<int64_t> part(rank);
    for (size_t a = 0; a < rank; ++a) part[a] = rows_part(axes.sizes[a], grid[a], shape->align[a]);
    k.tile =
        grow(context.graph, context.plan.homes, axes, shape->lane, shape->whole, point, indices, part, elements, lx);
    k.grid = std::move(grid);
    k.slots = rows_tile_bytes(context.graph, context.plan.homes, axes, shape->lane, k.tile, 2) <= lx ? 2 : 1;
    add_candidate(out, std::move(k));
  };
  for (const auto* order : {&largest, &outward, &inward}) {
    const auto grid = divide(axes.sizes, shape->align, shape->whole, *order, context.description.cores);
    // A core's work in several trips, so that loads, vector steps and stores overlap.
    int64_t work = 1;
    for (size_t a = 0; a < rank; ++a) work *= rows_part(axes.sizes[a], grid[a], shape->align[a]);
    for (const int64_t trips : {8, 3}) {
      const int64_t elements = std::clamp<int64_t>(ceil_div(work, trips), 1024, tile_elements);
      candidate(grid, round_up(elements, 64));
    }
  }
  candidate(std::vector<int32_t>(rank, 1), tile_elements);
  candidate(std::vector<int32_t>(rank, 1), 64);
  return out;
}

}  // namespace spyre::plan
