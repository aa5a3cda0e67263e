// Place: boxes written into a base. What the boxes leave of the base is written too, except where the result takes the
// base's own memory. KernelPlan: plan/place.cc says what grid and tile mean.
#include "base/error.h"
#include "lower/boxes.h"

namespace spyre::lower {

std::vector<Emitted> emit_place(const Context& context, const plan::KernelPlan& kernel) {
  const graph::Node& node = context.graph.nodes.at(static_cast<size_t>(kernel.nodes.at(0)));
  const auto& place = std::get<graph::Place>(node.kind);
  if (kernel.grid.size() != 2 || kernel.tile.size() != 2) {
    fail(Fault::program, "{} ({}): a place plan has a grid of 2 and 2 tile numbers", node.loc.op, node.loc.source);
  }
  const Placed to = placed(context, node.results.at(0));
  std::vector<BoxPart> parts;
  if (place.base) {
    const Placed base = placed(context, *place.base);
    if (base.value != to.value || base.view != to.view) parts.push_back(whole_copy(to, base));
  } else {
    parts.push_back(whole_fill(to, place.fill));
  }
  for (const graph::Place::Piece& piece : place.pieces) {
    BoxPart part;
    part.from = placed(context, piece.from);
    part.start = plan::numbers(piece.start);
    part.step = plan::numbers(piece.step);
    part.sizes = part.from->view.sizes;
    // One position has no next: it is a plain box, of which the verifier knows what it writes.
    for (size_t d = 0; d < part.sizes.size(); ++d)
      if (part.sizes[d] == 1) part.step[d] = 1;
    parts.push_back(std::move(part));
  }
  const BoxShares shares{kernel.grid[0], kernel.grid[1], kernel.tile[0], kernel.tile[1] != 0};
  std::vector<Emitted> kernels;
  for (const std::vector<BoxPart>& layer : painted(parts)) {
    kernels.push_back(write_boxes(context, node.loc, to, layer, shares));
  }
  return kernels;
}

}  // namespace spyre::lower
