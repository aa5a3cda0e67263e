// The copy of a matmul's weights in the order in which they are multiplied: tiles turned in LX.
#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "lower/axis_formal.h"
#include "lower/lower.h"
#include "plan/matmul.h"

namespace spyre::lower {

using base::ceil_div;

program::Program lower_repack(const graph::Graph& instance, const plan::Repack& repack, const plan::Plan& plan,
                              const device::Description& description) {
  const graph::Node& node = instance.nodes.at(static_cast<size_t>(repack.node));
  if (!std::holds_alternative<graph::Contract>(node.kind) || repack.read != 1)
    fail(Fault::program, "{}: only what a product reads as b is repacked", node.loc.op);
  const plan::Context context{instance, plan, description};
  plan::MatmulShape shape = plan::matmul_shape(context, std::span(&repack.node, 1), false);
  const plan::AxisRef source = shape.axes.nodes[0].reads[1];
  std::vector<int64_t> sizes = shape.axes.sizes;
  const auto size = [&](int axis) { return sizes[static_cast<size_t>(axis)]; };
  std::vector<int> order = shape.repack_order();
  if (order.empty()) order.push_back(shape.lane);
  plan::AxisRef copy;
  copy.value = source.value;
  copy.strides.assign(sizes.size(), 0);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0; stride *= size(order[i]))
    if (size(order[i]) > 1) copy.strides[static_cast<size_t>(order[i])] = stride;
  // Lanes of the copy, and the axis along which the source runs.
  const int lane = order.back();
  int row = lane == shape.depth ? shape.row : shape.depth;  // size 1 where it is none of the copy's
  for (const int a : order) {
    if (a == lane) continue;
    const auto moves = [&](int x) { return size(x) == 1 ? INT64_MAX : source.strides[static_cast<size_t>(x)]; };
    if (moves(a) < moves(row)) row = a;
  }
  const bool turned =
      size(row) > 1 && source.strides[static_cast<size_t>(row)] < source.strides[static_cast<size_t>(lane)];

  const base::Format format = repack.geometry.format;
  const int64_t stick = base::elements_per_stick(format);
  const int64_t lane_tile = std::min(size(lane), 2 * stick), row_tile = std::min<int64_t>(size(row), 512);
  const int64_t lane_parts = std::min<int64_t>(description.cores, ceil_div(size(lane), stick));
  const int64_t lane_chunk = ceil_div(ceil_div(size(lane), stick), lane_parts) * stick;
  const int64_t row_parts = std::min<int64_t>(description.cores / lane_parts, ceil_div(size(row), stick));
  const int64_t row_chunk = ceil_div(size(row), row_parts);

  KernelBuilder builder("repack", static_cast<int32_t>(lane_parts * row_parts));
  builder.loc(node.loc);
  Emitted emitted;
  const int out_dims[] = {row, lane}, in_dims[] = {turned ? lane : row, turned ? row : lane};
  const layout::Geometry& from = plan.homes.at(static_cast<size_t>(source.value)).geometry;
  const AxisFormal in =
      add_formal(builder, emitted, program::Direction::in, source, sizes, order, in_dims, from, {source.value}, "w");
  const AxisFormal out = add_formal(builder, emitted, program::Direction::out, copy, sizes, order, out_dims,
                                    repack.geometry, {graph::none, 0}, "copy");
  const int32_t grid[] = {static_cast<int32_t>(lane_parts), static_cast<int32_t>(row_parts)};
  builder.nest(grid);
  const Id lanes = builder.core(Bounds::of(0, size(lane)), lane_chunk, 0);
  const Id rows = builder.core(Bounds::of(0, size(row)), row_chunk, 1);
  std::vector<Id> range(sizes.size(), none);
  std::vector<int> loops;
  for (const int a : order)
    if (a != lane && a != row) loops.push_back(a);
  loops.push_back(row);
  loops.push_back(lane);
  const std::function<void(size_t)> walk = [&](size_t i) {
    if (i == loops.size()) {
      const Id a =
          builder.buffer(format, turned ? std::vector{lane_tile, row_tile} : std::vector{row_tile, lane_tile}, 2);
      builder.load(builder.ref(a), in.formal, in.entries(range, sizes));
      Id t = a;
      if (turned) {
        t = builder.buffer(format, {row_tile, lane_tile}, 2);
        BufRef other = builder.ref(a);
        other.transposed = true;
        builder.step(program::Move{builder.ref(t), other});
      }
      builder.store(out.formal, out.entries(range, sizes), builder.ref(t));
      return;
    }
    const int axis = loops[i];
    const bool divided = axis == row || axis == lane;
    long_loop(builder, divided ? Bounds::within(axis == row ? rows : lanes) : Bounds::of(0, size(axis)),
              axis == row    ? row_chunk
              : axis == lane ? lane_chunk
                             : size(axis),
              axis == row    ? row_tile
              : axis == lane ? lane_tile
                             : 1,
              description.max_trips, [&](Id r) {
                range[static_cast<size_t>(axis)] = r;
                walk(i + 1);
              });
  };
  walk(0);

  program::Program program;
  program.kernels.push_back(builder.finish());
  program.locs = builder.locs();
  program.symbols = program.kernels[0].formals;
  program.calls.push_back({0, {0, 1}, {}, 0});
  return program;
}

}  // namespace spyre::lower
