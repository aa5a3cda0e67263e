#include "plan/matmul.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "base/rounding.h"
#include "layout/geometry.h"
#include "program/verify_sticks.h"

namespace spyre::plan {
namespace {

using base::ceil_div;
using base::Format;
using base::round_up;
using graph::Contract;
using graph::HostType;
using Role = Contract::Role;

std::string shape_text(std::span<const graph::Size> sizes) {
  std::string text;
  for (const graph::Size& s : sizes) text += (text.empty() ? "" : ", ") + s.text();
  return "[" + text + "]";
}

[[noreturn]] void refuse_product(const graph::Node& node, std::string_view what) {
  const auto* contract = std::get_if<Contract>(&node.kind);
  fail(Fault::unimplemented, "{} ({}): a product over {} with {}", node.loc.op, node.loc.source,
       contract ? shape_text(contract->space) : "no space", what);
}

/// An axis of size 1 that every node has.
int add_axis(Axes& axes, Role role, bool reduced) {
  axes.sizes.push_back(1);
  axes.roles.push_back(role);
  for (size_t n = 0; n < axes.nodes.size(); ++n) {
    NodeAxes& node = axes.nodes[n];
    node.has.push_back(!reduced || n == 0);
    node.reduced.push_back(reduced && n == 0);
    for (AxisRef& r : node.reads) r.strides.push_back(0);
    for (AxisRef& r : node.results) r.strides.push_back(0);
  }
  return static_cast<int>(axes.sizes.size()) - 1;
}

/// The axis of a role along which the reference moves least, among those of at least a quarter of a stick; else the
/// longest.
int lane_axis(const Axes& axes, Role role, const AxisRef& ref) {
  int best = -1;
  for (int a = 0; a < static_cast<int>(axes.sizes.size()); ++a) {
    if (axes.roles[a] != role) continue;
    if (best < 0) {
      best = a;
      continue;
    }
    const auto along = [&](int x) { return ref.strides[x] == 1 && axes.sizes[x] >= 16; };
    if (along(a) != along(best) ? along(a) : axes.sizes[a] > axes.sizes[best]) best = a;
  }
  return best;
}

int longest(const Axes& axes, Role role) {
  int best = -1;
  for (int a = 0; a < static_cast<int>(axes.sizes.size()); ++a)
    if (axes.roles[a] == role && (best < 0 || axes.sizes[a] >= axes.sizes[best])) best = a;
  return best;
}

bool is_integer(Format f) { return f == Format::i32 || f == Format::u32 || f == Format::i16 || f == Format::i8; }
bool is_fp8(Format f) { return f == Format::e4m3 || f == Format::e5m2; }

void choose_formats(const Context& context, const graph::Node& node, size_t product, MatmulShape& shape) {
  const auto& reads = shape.axes.nodes[shape.products[product]].reads;
  const Format a = memory_format(context, reads[0].value), b = memory_format(context, reads[1].value);
  const HostType result = context.graph.values[static_cast<size_t>(node.results[0])].type;
  const bool integers = is_integer(a);
  if (is_integer(b) != integers || (result == HostType::i32 || result == HostType::i64) != integers)
    refuse_product(node, "integers and floating point mixed");
  shape.sum = integers ? Format::i32 : Format::f32;
  shape.trap = result == HostType::i64;
  const bool half = a == b && (a == Format::dl16 || a == Format::f16);
  shape.on_pt = half || (is_fp8(a) && is_fp8(b)) || (a == Format::i8 && b == Format::i8 && !shape.trap);
  shape.compute = shape.on_pt ? a : shape.sum;
}

/// The formats of one more product, which has to be multiplied as those before it.
void add_formats(const Context& context, const graph::Node& node, size_t product, MatmulShape& shape) {
  const auto formats = [&] { return std::tuple(shape.compute, shape.sum, shape.on_pt, shape.trap); };
  const auto before = formats();
  choose_formats(context, node, product, shape);
  if (product > 0 && formats() != before) refuse_product(node, "other formats than the product beside it");
}

/// The Contracts among the nodes. Beside the first one there may be those that read the same `a` in the same way, over
/// the same axes.
void find_products(const Context& context, std::span<const graph::Id> nodes, MatmulShape& shape) {
  const NodeAxes& first = shape.axes.nodes[0];
  for (size_t n = 0; n < nodes.size(); ++n) {
    const graph::Node& node = context.graph.nodes[at(nodes[n])];
    const auto* contract = std::get_if<Contract>(&node.kind);
    if (contract == nullptr) continue;
    if (!contract->a.gathers.empty() || !contract->b.gathers.empty())
      refuse_product(node, "an operand that is gathered by an index");
    const NodeAxes& own = shape.axes.nodes[n];
    bool alike = own.has == first.has && own.reduced == first.reduced && own.reads[0] == first.reads[0];
    for (size_t d = 0; d < own.dims.size(); ++d)
      for (const int a : own.dims[d]) alike = alike && shape.axes.roles[static_cast<size_t>(a)] == contract->roles[d];
    if (!alike) refuse_product(node, "other axes, or another `a`, than the product beside it");
    if (own.reads[1].internal) refuse_product(node, "an operand that this kernel makes");
    shape.products.push_back(n);
  }
}

/// Which axis of a result's memory its stick follows decides how it may be divided.
void add_alignment(const Context& context, MatmulShape& shape, const AxisRef& result) {
  const layout::Geometry& geometry = context.plan.homes[static_cast<size_t>(result.value)].geometry;
  store_shape(result, shape.axes.sizes, shape.parallel, geometry).add_alignment(shape.parallel, shape.align);
}

std::vector<int64_t> contiguous_strides(const MatmulShape& shape, const std::vector<int>& order) {
  std::vector<int64_t> strides(shape.axes.sizes.size(), 0);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto a = static_cast<size_t>(order[i]);
    if (shape.axes.sizes[a] > 1) strides[a] = stride;
    stride *= shape.axes.sizes[a];
  }
  return strides;
}

/// Axes of more than one index with this role, in the order of the product's own dimensions.
std::vector<int> own_axes(const MatmulShape& shape, size_t product, Role role) {
  const NodeAxes& own = shape.axes.nodes[shape.products[product]];
  std::vector<int> axes;
  for (const auto& dim : own.dims)
    for (const int a : dim)
      if (shape.axes.roles[static_cast<size_t>(a)] == role && shape.axes.sizes[static_cast<size_t>(a)] > 1)
        axes.push_back(a);
  return axes;
}

/// MatmulShape::repack_order of the Contract alone, for which the copy is made, in the axes that it shares with others:
/// these may stand in another order, be cut in more parts, and have their rows along the other operand.
std::vector<int> copy_order(const Context& context, graph::Id node, size_t product, const MatmulShape& shape) {
  if (shape.axes.nodes.size() == 1) return shape.repack_order();
  const MatmulShape alone = matmul_shape(context, std::span(&node, 1), false);
  std::vector<int> order = own_axes(shape, product, Role::k);
  const std::vector<int> lanes = own_axes(shape, product, Role::n), terms = own_axes(alone, 0, Role::k);
  int last = graph::none;
  if (const auto depth = std::find(terms.begin(), terms.end(), alone.depth); alone.swapped && depth != terms.end()) {
    if (terms.size() != order.size())
      refuse_product(context.graph.nodes[at(node)], "a repacked operand, beside nodes that cut its terms");
    const auto same = order.begin() + (depth - terms.begin());
    last = *same;
    order.erase(same);
  }
  order.insert(order.end(), lanes.begin(), lanes.end());
  if (last != graph::none) order.push_back(last);
  return order;
}

/// Lets a product read the repacked copy of its b.
void read_repacks(const Context& context, graph::Id node, size_t product, MatmulShape& shape) {
  for (size_t r = 0; r < context.plan.repacks.size(); ++r) {
    const Repack& repack = context.plan.repacks[r];
    if (repack.node != node || repack.read != 1) continue;
    shape.repacks[product] = static_cast<int32_t>(r);
    AxisRef& b = shape.axes.nodes[shape.products[product]].reads[1];
    b.offset = 0;
    b.strides = contiguous_strides(shape, copy_order(context, node, product, shape));
  }
}

}  // namespace

Format memory_format(const Context& context, graph::Id value) {
  return context.plan.homes[static_cast<size_t>(value)].geometry.format;
}

StoreShape store_shape(const AxisRef& ref, const std::vector<int64_t>& sizes, std::span<const int> walked,
                       const layout::Geometry& geometry) {
  layout::HostView view;
  view.offset = ref.offset;
  std::vector<int> axes;
  for (int a : walked) {
    if (sizes[static_cast<size_t>(a)] == 1) continue;
    if (ref.strides[static_cast<size_t>(a)] <= 0) return {};
    axes.push_back(a);
    view.sizes.push_back(sizes[static_cast<size_t>(a)]);
    view.strides.push_back(ref.strides[static_cast<size_t>(a)]);
  }
  const program::verifier::StickShape sticks = program::verifier::stick_shape(view, geometry);
  StoreShape store;
  store.known = sticks.known;
  if (sticks.lane_dim >= 0) store.axis = axes[static_cast<size_t>(sticks.lane_dim)];
  store.block = sticks.block;
  store.phase = sticks.phase;
  return store;
}

void StoreShape::add_alignment(std::span<const int> axes, std::vector<int64_t>& align) const {
  for (int a : axes) {
    int64_t& own = align[static_cast<size_t>(a)];
    if (!known || (axis == a && phase != 0))
      own = 0;
    else if (axis == a && own != 0)
      own = std::lcm(own, block);
  }
}

MatmulShape::Tile MatmulShape::tile_of(int side, size_t product) const {
  const AxisRef& ref = operand(side, product);
  const int outer = side == 0 ? row : depth, inner = side == 0 ? depth : lane;
  if (trap) return side == 0 ? Tile{depth, row, true} : Tile{depth, lane, false};
  const auto reach = [&](int a) {  // what doesn't move is no reason to turn a tile
    const int64_t stride = ref.strides[static_cast<size_t>(a)];
    return axes.sizes[static_cast<size_t>(a)] == 1 || stride == 0 ? INT64_MAX : std::abs(stride);
  };
  if (reach(outer) < reach(inner)) return {inner, outer, true};
  return {outer, inner, false};
}

std::vector<int> MatmulShape::repack_order() const {
  std::vector<int> order;
  const int own = static_cast<int>(axes.sizes.size());
  const auto add = [&](Role role, bool with_depth) {
    for (int a = 0; a < own; ++a)
      if (axes.roles[static_cast<size_t>(a)] == role && axes.sizes[static_cast<size_t>(a)] > 1 &&
          (with_depth || a != depth))
        order.push_back(a);
  };
  add(Role::k, !swapped);
  add(Role::n, true);
  if (swapped && axes.sizes[static_cast<size_t>(depth)] > 1) order.push_back(depth);
  return order;
}

MatmulShape matmul_shape(const Context& context, std::span<const graph::Id> nodes, bool repacked) {
  const graph::Node& node = context.graph.nodes[static_cast<size_t>(nodes[0])];
  auto axes = common_axes(context.graph, nodes, context.plan.homes);
  if (!axes) refuse_product(node, "an operand that can't be read through the copies before it");
  MatmulShape shape;
  shape.axes = std::move(*axes);
  find_products(context, nodes, shape);
  for (size_t a = 0; a < shape.axes.sizes.size(); ++a) {
    if (shape.axes.roles[a] != Role::k || shape.axes.sizes[a] != 0) continue;
    shape.empty = true;
    shape.axes.sizes[a] = 1;
  }
  const AxisRef& result = shape.axes.nodes[0].results[0];
  const int by_m = lane_axis(shape.axes, Role::m, result), by_n = lane_axis(shape.axes, Role::n, result);
  const auto runs_along = [&](int a) {
    return a >= 0 && result.strides[static_cast<size_t>(a)] == 1 && shape.axes.sizes[static_cast<size_t>(a)] >= 16;
  };
  shape.swapped = (runs_along(by_m) && !runs_along(by_n)) || (by_n < 0 && by_m >= 0);
  shape.lane = shape.swapped ? by_m : by_n;
  shape.row = longest(shape.axes, shape.swapped ? Role::n : Role::m);
  shape.depth = longest(shape.axes, Role::k);
  const Role rows = shape.swapped ? Role::n : Role::m, lanes = shape.swapped ? Role::m : Role::n;
  if (shape.row < 0) shape.row = add_axis(shape.axes, rows, false);
  if (shape.lane < 0) shape.lane = add_axis(shape.axes, lanes, false);
  if (shape.depth < 0) shape.depth = add_axis(shape.axes, Role::k, true);
  for (int a = 0; a < static_cast<int>(shape.axes.sizes.size()); ++a) {
    if (shape.axes.roles[static_cast<size_t>(a)] != Role::k)
      shape.parallel.push_back(a);
    else if (a != shape.depth)
      shape.terms.push_back(a);
  }
  shape.repacks.assign(shape.products.size(), graph::none);
  for (size_t p = 0; p < shape.products.size(); ++p) {
    const graph::Id id = nodes[shape.products[p]];
    if (repacked) read_repacks(context, id, p, shape);
    for (int side = 0; side < 2; ++side) {
      for (int a : {shape.row, shape.lane, shape.depth})
        if (shape.operand(side, p).strides[static_cast<size_t>(a)] < 0)
          refuse_product(context.graph.nodes[at(id)], "an operand that is read backwards");
    }
    add_formats(context, context.graph.nodes[at(id)], p, shape);
  }
  for (size_t n = 1; n < nodes.size(); ++n)
    shape.whole_rows =
        shape.whole_rows || std::holds_alternative<graph::Reduce>(context.graph.nodes[at(nodes[n])].kind);
  shape.align.assign(shape.axes.sizes.size(), 1);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const graph::Node& member = context.graph.nodes[static_cast<size_t>(nodes[n])];
    for (size_t r = 0; r < member.results.size(); ++r)
      if (in_memory(context.plan.homes[static_cast<size_t>(member.results[r])].kind))
        add_alignment(context, shape, shape.axes.nodes[n].results[r]);
  }
  return shape;
}

int64_t matmul_chunk(const MatmulShape& shape, int axis, int64_t parts) {
  const int64_t size = shape.axes.sizes[static_cast<size_t>(axis)];
  int64_t align = axis == shape.depth ? 1 : shape.align[static_cast<size_t>(axis)];
  if (parts <= 1 || align == 0 || (axis == shape.lane && shape.whole_rows)) return std::max<int64_t>(size, 1);
  if (axis == shape.depth || axis == shape.lane) align = std::lcm(align, base::elements_per_stick(shape.compute));
  return round_up(ceil_div(size, parts), align);
}

std::vector<AxisParts> matmul_parts(const MatmulShape& shape, const KernelPlan& kernel) {
  std::vector<AxisParts> parts(shape.axes.sizes.size());
  for (size_t a = 0; a < parts.size(); ++a) parts[a].size = parts[a].chunk = shape.axes.sizes[a];
  for (size_t i = 0; i < shape.parallel.size(); ++i) {
    const int a = shape.parallel[i];
    parts[static_cast<size_t>(a)].chunk = matmul_chunk(shape, a, kernel.grid[i]);
  }
  const auto d = static_cast<size_t>(shape.depth);
  parts[d].chunk = matmul_chunk(shape, shape.depth, kernel.grid.back());
  parts[static_cast<size_t>(shape.row)].tile = kernel.tile[0];
  parts[static_cast<size_t>(shape.lane)].tile = kernel.tile[1];
  parts[d].tile = kernel.tile[2];
  return parts;
}

std::vector<int> matmul_order(const MatmulShape& shape, const KernelPlan& kernel) {
  const auto parts = matmul_parts(shape, kernel);
  const Role rows = shape.swapped ? Role::n : Role::m;
  std::vector<int> batch, left, right;
  int64_t left_trips = 1, right_trips = 1;
  for (int a : shape.parallel) {
    if (a == shape.row || a == shape.lane) continue;
    const Role role = shape.axes.roles[static_cast<size_t>(a)];
    (role == Role::batch ? batch : role == rows ? left : right).push_back(a);
    if (role != Role::batch) (role == rows ? left_trips : right_trips) *= parts[static_cast<size_t>(a)].trips();
  }
  left.push_back(shape.row);
  right.push_back(shape.lane);
  left_trips *= parts[static_cast<size_t>(shape.row)].trips();
  right_trips *= parts[static_cast<size_t>(shape.lane)].trips();
  const int64_t left_bytes = left_trips * kernel.tile[0], right_bytes = right_trips * kernel.tile[1];
  const bool rows_outside = left_bytes + left_trips * right_bytes <= right_bytes + right_trips * left_bytes;
  std::vector<int> order = batch;
  const auto& outer = rows_outside ? left : right;
  const auto& inner = rows_outside ? right : left;
  order.insert(order.end(), outer.begin(), outer.end());
  order.insert(order.end(), inner.begin(), inner.end());
  return order;
}

// ---------------------------------------------------------------------------------------------------------- repack

std::optional<Repack> repack_of(const Context& context, graph::Id node, const std::vector<bool>& changed) {
  const auto* contract = std::get_if<Contract>(&context.graph.nodes[static_cast<size_t>(node)].kind);
  if (contract == nullptr || !contract->a.gathers.empty() || !contract->b.gathers.empty()) return std::nullopt;
  MatmulShape shape;
  try {
    shape = matmul_shape(context, std::span(&node, 1), false);
  } catch (const Error& error) {
    if (error.fault() == Fault::unimplemented) return std::nullopt;
    throw;
  }
  if (shape.empty) return std::nullopt;
  const AxisRef& b = shape.axes.nodes[0].reads[1];
  const Home& home = context.plan.homes[static_cast<size_t>(b.value)];
  if (home.kind != Home::Kind::input || changed[static_cast<size_t>(b.value)]) return std::nullopt;
  int64_t elements = 1;
  for (size_t a = 0; a < shape.axes.sizes.size(); ++a) {
    const int64_t size = shape.axes.sizes[a];
    const Role role = shape.axes.roles[a];
    if (size == 1) continue;
    const bool own = role == Role::n || role == Role::k;
    if (own ? b.strides[a] <= 0 : b.strides[a] != 0) return std::nullopt;
    if (own) elements *= size;
  }
  const auto stride = [&](int axis) {
    return shape.axes.sizes[static_cast<size_t>(axis)] == 1 ? 1 : b.strides[static_cast<size_t>(axis)];
  };
  const int n = shape.swapped ? shape.row : shape.lane;
  const bool well = shape.swapped ? stride(n) == 1 || stride(shape.depth) == 1 : stride(n) == 1;
  constexpr int64_t worth_copying = 64 * 64;
  if (well || elements < worth_copying) return std::nullopt;
  Repack repack;
  repack.node = node;
  repack.read = 1;
  std::vector<int64_t> sizes;
  for (int a : shape.repack_order()) sizes.push_back(shape.axes.sizes[static_cast<size_t>(a)]);
  const layout::HostView view = layout::HostView::contiguous(sizes);
  const HostType type = context.graph.values[static_cast<size_t>(b.value)].type;
  repack.geometry =
      layout::default_placement(view.sizes, view.strides, type, home.geometry.format == Format::f16).geometry;
  if (repack.geometry.format != home.geometry.format) return std::nullopt;
  return repack;
}

}  // namespace spyre::plan
