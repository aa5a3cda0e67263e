#include "lower/box_loops.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "program/verify_sticks.h"

namespace spyre::lower {

using base::ceil_div;
using base::round_up;

Placed placed(const Context& context, graph::Id value) {
  const graph::Value& v = context.graph.values.at(static_cast<size_t>(value));
  const plan::Home& home = context.plan.homes.at(static_cast<size_t>(value));
  Placed result;
  result.value = value;
  result.view = {plan::numbers(v.sizes), plan::numbers(v.strides), 0};
  if (home.kind == plan::Home::Kind::replaces) {
    result.value = home.through.value;
    result.view = {plan::numbers(home.through.sizes), plan::numbers(home.through.strides),
                   plan::number(home.through.offset)};
  }
  result.geometry = context.plan.homes.at(static_cast<size_t>(result.value)).geometry;
  result.format = result.geometry.format;
  return result;
}

Placed placed(const Context& context, const graph::Ref& ref) {
  const graph::Ref real = plan::resolve(ref, context.graph, context.plan.homes);
  Placed result;
  result.value = real.value;
  result.view = {plan::numbers(real.sizes), plan::numbers(real.strides), plan::number(real.offset)};
  result.geometry = context.plan.homes.at(static_cast<size_t>(real.value)).geometry;
  result.format = result.geometry.format;
  return result;
}

// ---------------------------------------------------------------------------------------------------------- division

std::vector<int32_t> Division::grid() const {
  std::vector<int32_t> sizes;
  for (const int32_t p : parts) {
    if (p > 1) sizes.push_back(p);
  }
  if (sizes.empty()) sizes.push_back(1);
  return sizes;
}

int32_t Division::cores() const {
  int32_t all = 1;
  for (const int32_t p : parts) all *= p;
  return all;
}

Division divide(const std::vector<int64_t>& sizes, Format format, const Shares& shares) {
  const size_t rank = sizes.size();
  const int64_t stick = base::elements_per_stick(format);
  Division result;
  result.parts.assign(rank, 1);
  result.share = sizes;
  result.tile.assign(rank, 1);
  const auto divisible = [&](size_t d) { return shares.divisible.empty() || shares.divisible[d]; };
  const auto split = [&](size_t d, int64_t cores, int64_t unit) {
    const int64_t parts = std::clamp<int64_t>(ceil_div(sizes[d], unit), 1, cores);
    result.share[d] = std::max<int64_t>(1, round_up(ceil_div(sizes[d], parts), unit));
    result.parts[d] = static_cast<int32_t>(std::max<int64_t>(1, ceil_div(sizes[d], result.share[d])));
  };
  int64_t cores = shares.rows;
  for (size_t d = 0; d + 1 < rank; ++d) {
    if (!divisible(d)) continue;
    split(d, cores, 1);
    cores /= result.parts[d];
  }
  if (rank > 0 && divisible(rank - 1) && shares.lanes > 1) split(rank - 1, shares.lanes, stick);

  int64_t left = std::max<int64_t>(stick, shares.tile_bytes / base::format_bytes(format));
  for (size_t d = rank; d-- > 0;) {
    const bool last = d + 1 == rank;
    const bool whole = !shares.whole.empty() && shares.whole[d];
    int64_t tile = std::clamp<int64_t>(last ? left / stick * stick : left, 1, std::max<int64_t>(1, result.share[d]));
    if (whole) tile = std::max<int64_t>(1, result.share[d]);
    result.tile[d] = tile;
    const bool cut = tile < result.share[d];
    left = cut ? 1 : std::max<int64_t>(1, left / (last ? round_up(tile, stick) : tile));
  }
  return result;
}

// ------------------------------------------------------------------------------------------------------------- loops

Entry TileWalk::entry(size_t dim, int64_t base, int64_t step) const {
  if (range[dim] == none) return span_of(constant(base), constant(sizes[dim]), step);
  return span_of(start(range[dim]) * step + constant(base), size(range[dim]), step, range[dim]);
}

std::vector<Entry> TileWalk::entries() const {
  std::vector<Entry> all;
  for (size_t d = 0; d < range.size(); ++d) all.push_back(entry(d));
  return all;
}

IntExpr TileWalk::first(size_t dim) const { return range[dim] == none ? constant(0) : start(range[dim]); }
IntExpr TileWalk::count(size_t dim) const { return range[dim] == none ? constant(sizes[dim]) : size(range[dim]); }

void for_each_tile(KernelBuilder& builder, const std::vector<int64_t>& sizes, const Division& division,
                   int64_t max_trips, const std::function<void(const TileWalk&)>& body, Id first_grid) {
  TileWalk walk;
  walk.sizes = sizes;
  walk.tile = division.tile;
  walk.range.assign(sizes.size(), none);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (division.parts[d] > 1) walk.range[d] = builder.core(Bounds::of(0, sizes[d]), division.share[d], first_grid++);
  }
  const std::function<void(size_t)> enter = [&](size_t d) {
    if (d == sizes.size()) return body(walk);
    if (division.tile[d] >= division.share[d]) return enter(d + 1);
    const Id core = walk.range[d];
    const Bounds bounds = core == none ? Bounds::of(0, sizes[d]) : Bounds::within(core);
    long_loop(builder, bounds, division.share[d], division.tile[d], max_trips, [&](Id range) {
      walk.range[d] = range;
      enter(d + 1);
    });
    walk.range[d] = core;
  };
  enter(0);
}

// ------------------------------------------------------------------------------------------------------------- views

std::vector<size_t> lanes_last(const layout::HostView& view, const layout::Geometry& geometry) {
  std::vector<size_t> order;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] != 1) order.push_back(d);
  }
  if (order.size() < 2) {
    if (order.empty() && !view.sizes.empty()) order.push_back(view.sizes.size() - 1);
    return order;
  }
  const auto shape = program::verifier::stick_shape(view, geometry);
  if (!shape.known || shape.lane_dim < 0) return order;
  const auto at = std::find(order.begin(), order.end(), static_cast<size_t>(shape.lane_dim));
  if (at != order.end()) std::rotate(at, at + 1, order.end());
  return order;
}

layout::HostView permuted(const layout::HostView& view, std::span<const size_t> order) {
  layout::HostView result;
  result.offset = view.offset;
  for (const size_t d : order) {
    result.sizes.push_back(d == no_dimension ? 1 : view.sizes[d]);
    result.strides.push_back(d == no_dimension ? 1 : view.strides[d]);
  }
  if (result.sizes.empty()) result.sizes = {1}, result.strides = {1};
  return result;
}

// ------------------------------------------------------------------------------------------------------------ writer

Id Writer::formal(const Context& context, const Placed& memory, program::Direction direction) {
  if (memory.view.sizes.size() > 8) {
    fail(Fault::unimplemented, "a view of {} dimensions other than 1; kernels have up to 8", memory.view.sizes.size());
  }
  const Emitted::Actual actual{memory.value, graph::none, memory.scratch};
  for (size_t f = 0; f < emitted.formals.size(); ++f) {
    const program::Symbol& s = builder.formal_of(static_cast<Id>(f));
    if (emitted.formals[f] == actual && s.view == memory.view && s.direction == direction) return static_cast<Id>(f);
  }
  emitted.formals.push_back(actual);
  const std::string_view name = memory.value == graph::none
                                    ? std::string_view("scratch")
                                    : context.graph.values[static_cast<size_t>(memory.value)].name;
  return builder.formal(direction, memory.format, memory.view, memory.geometry, name);
}

Emitted Writer::finish() {
  emitted.locs = builder.locs();
  emitted.kernel = builder.finish();
  return std::move(emitted);
}

}  // namespace spyre::lower
