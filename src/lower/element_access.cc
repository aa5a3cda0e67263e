#include "lower/element_access.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/error.h"
#include "program/limits.h"
#include "program/verify_sticks.h"

namespace spyre::lower {

using graph::Expr;
using program::Direction;
using program::VecExpr;
using program::VecOp;

namespace {
constexpr graph::Id index_key = -2;
}

int Tile::position(int axis) const {
  const auto found = std::find(axes.begin(), axes.end(), axis);
  return found == axes.end() ? -1 : static_cast<int>(found - axes.begin());
}

Tile Tile::only(int position) const {
  Tile t;
  t.range = range;
  if (position >= 0) {
    t.axes = {axes[position]};
    t.shape = {shape[position]};
  }
  return t;
}

bool always_full(const KernelBuilder& builder, Id range) {
  const program::Range& r = builder.range_of(range);
  if (r.uniform) return false;
  if (r.parent != none) return builder.range_of(r.parent).by % r.by == 0 && always_full(builder, r.parent);
  if (!r.lo.is_constant() || !r.hi.is_constant()) return false;
  return (r.hi.value - r.lo.value) % r.by == 0;
}

namespace {

/// True when the range has one trip for each of the range around it.
bool one_trip(const KernelBuilder& builder, Id range) {
  const program::Range& r = builder.range_of(range);
  if (r.parent != none) return builder.range_of(r.parent).by <= r.by;
  return r.lo.is_constant() && r.hi.is_constant() && r.hi.value - r.lo.value <= r.by;
}

}  // namespace

ElementAccess::ElementAccess(KernelBuilder& builder, const Context& context, const plan::Axes& axes, Emitted& emitted)
    : builder_(builder), context_(context), axes_(axes), emitted_(emitted) {}

const graph::Load& ElementAccess::load_of(size_t node, graph::Id load) const {
  return graph::loads_of(context_.graph.nodes[axes_.nodes[node].node].kind)[load];
}

BufRef ElementAccess::boxed(Id buffer, const Tile& tile) const {
  const auto& shape = builder_.buffer_of(buffer).shape;
  std::vector<BufDim> box(shape.size());
  bool whole = true;
  for (size_t d = 0; d < shape.size() && d < tile.axes.size(); ++d) {
    const Id range = tile.range[tile.axes[d]];
    if (shape[d] == 1 || range == none || always_full(builder_, range)) continue;
    box[d] = lower::box(constant(0), size(range));
    whole = false;
  }
  return whole ? builder_.ref(buffer) : builder_.ref(buffer, std::move(box));
}

VecExpr ElementAccess::axis_index(int axis, const Tile& tile) const {
  const Id range = tile.range[axis];
  const int position = tile.position(axis);
  const IntExpr first = range == none ? constant(0) : start(range);
  if (position < 0) return integer_of(first);
  if (first.is_constant(0)) return iota(position);
  return apply(VecOp::add, {integer_of(first), iota(position)});
}

bool ElementAccess::depends(size_t node, graph::Id load, int axis) const {
  const plan::AxisRef& ref = axes_.nodes[node].reads[load];
  if (ref.strides[axis] != 0) return true;
  for (const graph::Load::Gather& g : load_of(node, load).gathers)
    if (depends(node, g.index, axis)) return true;
  return false;
}

bool ElementAccess::depends(size_t node, const Expr& expr, int axis) const {
  if (expr.leaf == Expr::Leaf::load) return depends(node, expr.id, axis);
  if (expr.leaf == Expr::Leaf::iota) {
    const auto& dims = axes_.nodes[node].dims[expr.id];
    return std::find(dims.begin(), dims.end(), axis) != dims.end();
  }
  return std::any_of(expr.args.begin(), expr.args.end(), [&](const Expr& a) { return depends(node, a, axis); });
}

std::vector<int> ElementAccess::varies(size_t node, const Expr& expr, const Tile& tile) const {
  std::vector<int> out;
  for (size_t p = 0; p < tile.axes.size(); ++p)
    if (tile.shape[p] > 1 && depends(node, expr, tile.axes[p])) out.push_back(static_cast<int>(p));
  return out;
}

/// Points first, then the dimensions of the tile: in this order entries and buffer dimensions meet.
ElementAccess::Layout ElementAccess::layout(const plan::AxisRef& ref, const std::vector<int>& tile_axes,
                                            const IndexDim* index) const {
  Layout out;
  out.view.offset = ref.offset;
  std::vector<Dim> points;
  auto dim_of = [&](int axis) {
    Dim d;
    const int64_t stride = ref.strides[axis];
    d.size = axes_.sizes[axis];
    d.stride = std::abs(stride);
    d.flipped = stride < 0;
    if (d.flipped) out.view.offset += stride * (d.size - 1);
    return d;
  };
  for (size_t a = 0; a < axes_.sizes.size(); ++a) {
    const int axis = static_cast<int>(a);
    if (ref.strides[a] == 0 || std::find(tile_axes.begin(), tile_axes.end(), axis) != tile_axes.end()) continue;
    Dim d = dim_of(axis);
    d.points.emplace_back(axis, 1);
    points.push_back(std::move(d));
  }
  std::vector<Dim> tiles;
  auto index_dim = [&](int position) {
    Dim d;
    d.index = true;
    d.position = position;
    d.size = index->size;
    d.stride = index->stride;
    out.view.offset += index->offset;
    return d;
  };
  for (size_t p = 0; p < tile_axes.size(); ++p) {
    const int position = static_cast<int>(p);
    if (index && index->position == position) {
      tiles.push_back(index_dim(position));
    } else if (ref.strides[tile_axes[p]] != 0) {
      Dim d = dim_of(tile_axes[p]);
      d.position = position;
      tiles.push_back(std::move(d));
    } else if (!tiles.empty()) {
      tiles.push_back({});  // holds the place of a tile dimension that the reference doesn't have
      tiles.back().position = position;
    }
  }
  const size_t fixed = tiles.size() + (index && index->position < 0 ? 1 : 0);
  // A view has so many dimensions; points can share one, in steps of what their strides have in common.
  while (points.size() > 1 && points.size() + fixed > static_cast<size_t>(program::limits::view_rank)) {
    Dim both;
    const Dim &a = points[0], &b = points[1];
    both.stride = std::gcd(a.stride, b.stride);
    both.size = 1;
    for (const Dim* d : {&a, &b}) {
      const int64_t factor = d->stride / both.stride;
      both.size += (d->size - 1) * factor;
      for (const auto& [axis, step] : d->points) both.points.emplace_back(axis, step * factor);
    }
    points.erase(points.begin());
    points.front() = std::move(both);
  }
  out.dims = std::move(points);
  if (index && index->position < 0) out.dims.push_back(index_dim(-1));
  out.dims.insert(out.dims.end(), tiles.begin(), tiles.end());
  if (out.dims.empty()) out.dims.emplace_back();
  if (out.dims.size() > static_cast<size_t>(program::limits::view_rank))
    fail(Fault::program, "a tile of {} dimensions is too many for a view", tile_axes.size());
  for (const Dim& d : out.dims) {
    out.view.sizes.push_back(d.size);
    out.view.strides.push_back(d.stride);
  }
  return out;
}

std::vector<Entry> ElementAccess::entries(const plan::AxisRef& ref, const Layout& layout, const Tile& tile,
                                          const BufRef& index, const IndexDim& dim) {
  std::vector<Entry> out;
  for (const Dim& d : layout.dims) {
    if (d.index) {
      out.push_back(indexed(index, constant(0), constant(dim.size), dim.outside));
    } else if (!d.points.empty()) {
      IntExpr base = constant(0);
      for (const auto& [axis, step] : d.points) {
        const Id range = tile.range[axis];
        if (range == none) fail(Fault::program, "an axis that is no tile dimension has no range");
        const IntExpr index_at = ref.strides[axis] < 0 ? constant(axes_.sizes[axis] - 1) - start(range) : start(range);
        base = std::move(base) + index_at * step;
      }
      const bool plain = d.points.size() == 1 && !d.flipped;
      out.push_back(plain ? along(tile.range[d.points[0].first]) : at(std::move(base)));
    } else if (d.position < 0 || ref.strides[tile.axes[d.position]] == 0) {
      out.push_back(at(constant(0)));
    } else if (d.flipped) {
      out.push_back(indexed(flip_index(d.position, tile), constant(0), constant(d.size), program::OnOutside::trap));
    } else {
      const Id range = tile.range[tile.axes[d.position]];
      out.push_back(range == none ? span_of(constant(0), constant(d.size)) : along(range));
    }
  }
  return out;
}

/// Indices of a tile dimension that is read backwards.
BufRef ElementAccess::flip_index(int position, const Tile& tile) {
  const int axis = tile.axes[position];
  const Key key{tile.axes, index_key, position, {}, 0, 0};
  if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;
  const Tile sub = tile.only(position);
  const Id buffer = builder_.buffer(Format::i32, sub.shape, 1, "flip");
  const BufRef ref = boxed(buffer, sub);
  builder_.vector({ref}, {apply(VecOp::sub, {integer(axes_.sizes[axis] - 1), axis_index(axis, sub)})});
  loaded_[key] = ref;
  return ref;
}

/// Which views of which memory this kernel loads and stores: one that is both is one formal.
void ElementAccess::scan(const std::vector<int>& tile_axes) {
  if (std::find(scanned_.begin(), scanned_.end(), tile_axes) != scanned_.end()) return;
  scanned_.push_back(tile_axes);
  auto use = [&](const plan::AxisRef& ref) -> Use& {
    const layout::HostView view = layout(ref, tile_axes, nullptr).view;
    for (Use& u : uses_)
      if (u.value == ref.value && u.view == view) return u;
    uses_.push_back({ref.value, view});
    return uses_.back();
  };
  for (const plan::NodeAxes& node : axes_.nodes) {
    const graph::Kind& kind = context_.graph.nodes[node.node].kind;
    if (!std::holds_alternative<graph::Map>(kind) && !std::holds_alternative<graph::Reduce>(kind)) continue;
    for (size_t r = 0; r < node.reads.size(); ++r)
      if (!node.reads[r].internal && node.reads[r].gathers.empty()) use(node.reads[r]).loads = true;
    for (size_t r = 0; r < node.results.size(); ++r) {
      const graph::Id value = context_.graph.nodes[node.node].results[r];
      if (plan::in_memory(context_.plan.homes[value].kind)) use(node.results[r]).stores = true;
    }
  }
}

Id ElementAccess::formal(const plan::AxisRef& ref, const layout::HostView& view, bool stores) {
  auto found =
      std::find_if(uses_.begin(), uses_.end(), [&](const Use& u) { return u.value == ref.value && u.view == view; });
  if (found == uses_.end()) {
    uses_.push_back({ref.value, view, !stores, stores});
    found = uses_.end() - 1;
  }
  if (found->formal != none) return found->formal;
  const layout::Geometry& geometry = context_.plan.homes[ref.value].geometry;
  const Direction direction = !found->stores ? Direction::in : found->loads ? Direction::inout : Direction::out;
  found->formal = builder_.formal(direction, geometry.format, view, geometry, context_.graph.values[ref.value].name);
  Emitted::Actual actual;
  actual.value = ref.value;
  emitted_.formals.push_back(actual);
  return found->formal;
}

BufRef ElementAccess::load(size_t node, graph::Id id, const Tile& tile, int32_t slots,
                           const std::function<BufRef(const Tile& sub, IndexDim& dim)>& index) {
  const plan::AxisRef& ref = axes_.nodes[node].reads[id];
  const graph::Load& load = load_of(node, id);
  const bool gathers = !load.gathers.empty();
  const Key key{tile.axes, ref.value, ref.offset, ref.strides, gathers ? node + 1 : 0, gathers ? id : 0};
  if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;

  scan(tile.axes);
  IndexDim dim;
  BufRef index_ref;
  if (gathers) {
    std::vector<int> varying;
    for (const graph::Load::Gather& g : load.gathers)
      for (int p : varies(node, g.index, tile)) varying.push_back(p);
    std::sort(varying.begin(), varying.end());
    varying.erase(std::unique(varying.begin(), varying.end()), varying.end());
    if (varying.size() > 1)
      fail(Fault::program, "an index varies along {} dimensions of the tile; a load has one index a row",
           varying.size());
    dim.position = varying.empty() ? -1 : varying[0];
    dim.absorbs = dim.position >= 0 && ref.strides[tile.axes[dim.position]] != 0;
    index_ref = index(tile.only(dim.position), dim);
  }
  const Layout l = layout(ref, tile.axes, gathers ? &dim : nullptr);
  std::vector<int64_t> shape = tile.ones();
  for (size_t p = 0; p < tile.axes.size(); ++p)
    if (ref.strides[tile.axes[p]] != 0 || (gathers && dim.position == static_cast<int>(p))) shape[p] = tile.shape[p];
  const std::vector<Entry> list = entries(ref, l, tile, index_ref, dim);
  const Id to = formal(ref, l.view, false);
  const Format format = context_.plan.homes[ref.value].geometry.format;
  const Id buffer = builder_.buffer(format, shape, slots, context_.graph.values[ref.value].name);
  builder_.load(builder_.ref(buffer), to, list, gathers ? load.fill : 0);
  return loaded_[key] = boxed(buffer, tile);
}

void ElementAccess::store(size_t node, size_t result, const BufRef& from, const Tile& tile) {
  scan(tile.axes);
  const plan::AxisRef& ref = axes_.nodes[node].results[result];
  const Layout l = layout(ref, tile.axes, nullptr);
  const Id to = formal(ref, l.view, true);
  // Two trips may share a stick when the pieces along it aren't whole sticks; then their order keeps both.
  const auto sticks = program::verifier::stick_shape(l.view, builder_.formal_of(to).geometry);
  bool apart = sticks.known;
  if (apart && sticks.lane_dim >= 0) {
    const Dim& d = l.dims[sticks.lane_dim];
    const int axis = d.position >= 0 ? tile.axes[d.position] : d.points.empty() ? -1 : d.points[0].first;
    for (Id r = axis < 0 ? none : tile.range[axis]; r != none; r = builder_.range_of(r).parent)
      apart = apart && (one_trip(builder_, r) || (builder_.range_of(r).by % sticks.block == 0 && sticks.phase == 0));
    apart = apart && d.points.size() <= 1;
  }
  builder_.store(to, entries(ref, l, tile, {}, {}), from, !apart);
}

}  // namespace spyre::lower
