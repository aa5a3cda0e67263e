// Scan: grid = {cores for the dimensions before the stick's, cores for that one (in whole sticks)}, of those that are
// not scanned; tile = {bytes of a tile, 0: along the lanes by sfp.scan, 1: position after position across lanes}.
#include "plan/forms.h"

namespace spyre::plan {

std::vector<KernelPlan> scan_candidates(const Context& context, std::span<const Id> nodes) {
  using program::Monoid;
  const auto& scan = std::get<graph::Scan>(context.graph.nodes[static_cast<size_t>(nodes[0])].kind);
  const bool lanes = scan.monoid == Monoid::sum || scan.monoid == Monoid::prod;
  const int32_t cores = context.description.cores;
  std::vector<KernelPlan> candidates;
  const auto add = [&](int32_t rows, int32_t columns, int64_t bytes, bool across) {
    candidates.push_back(kernel_plan(Form::scan, nodes, {rows, columns}, {bytes, across ? 1 : 0}));
  };
  const int64_t large = context.description.lx_usable_bytes / 32, small = context.description.lx_usable_bytes / 256;
  if (lanes) {
    add(cores, 1, large, false);
    add(cores, 1, small, false);
  }
  add(cores, 1, large, true);
  add(1, cores, large, true);
  if (cores >= 8) add(cores / 4, 4, large, true);
  add(cores, 1, small, true);
  add(1, cores, small, true);
  if (lanes) add(1, 1, small, false);
  add(1, 1, small, true);
  return candidates;
}

}  // namespace spyre::plan
