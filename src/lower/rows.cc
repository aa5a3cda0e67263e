// The rows form: Maps, and Reduces of resident rows, tile by tile.
#include "plan/rows.h"

#include <algorithm>

#include "base/error.h"
#include "lower/element_program.h"
#include "lower/tile_loops.h"

namespace spyre::lower {

std::vector<Emitted> emit_rows(const Context& context, const plan::KernelPlan& kernel) {
  const auto shape = plan::rows_shape(context.graph, context.plan.homes, kernel.nodes);
  if (!shape) fail(Fault::program, "these nodes are no kernel of rows");
  const plan::Axes& axes = shape->axes;
  if (std::find(axes.sizes.begin(), axes.sizes.end(), 0) != axes.sizes.end()) return {};
  Emitted emitted;
  TileLoops loops(axes, kernel, shape->align);
  const program::Loc& loc = context.graph.nodes[kernel.nodes.back()].loc;
  KernelBuilder builder(loc.op.empty() ? "rows" : loc.op, loops.cores());
  ElementProgram elements(builder, context, axes, emitted);
  loops.open(builder, context.description.max_trips);
  const Tile tile = loops.tile(shape->lane);
  elements.preload(0, axes.nodes.size(), tile, loops.moving());
  std::vector<int> order;
  for (size_t a = 0; a < axes.sizes.size(); ++a) order.push_back(static_cast<int>(a));
  loops.run(order, [&] { elements.emit(0, axes.nodes.size(), loops.tile(shape->lane), kernel.slots); });
  emitted.kernel = builder.finish();
  emitted.locs = builder.locs();
  return one_kernel(std::move(emitted));
}

}  // namespace spyre::lower
