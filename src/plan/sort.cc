// Sort: grid = {cores}, which divide the rows (of a row that is cut into blocks: also the blocks); tile = {elements of
// a row that are in LX at once}: whole rows when it is at least their length.
#include <algorithm>

#include "base/formats.h"
#include "plan/forms.h"

namespace spyre::plan {

std::vector<KernelPlan> sort_candidates(const Context& context, std::span<const Id> nodes) {
  const auto& sort = std::get<graph::Sort>(context.graph.nodes[static_cast<size_t>(nodes[0])].kind);
  const int64_t length = std::max<int64_t>(1, number(sort.from.sizes[static_cast<size_t>(sort.dim)]));
  std::vector<KernelPlan> candidates;
  const auto add = [&](int32_t cores, int64_t elements) {
    candidates.push_back(kernel_plan(Form::sort, nodes, {cores}, {elements}));
  };
  // A row in, the sorted values, their indices: up to 4 bytes each, and slots for the next row if there is room.
  const int64_t most = context.description.lx_usable_bytes / 14 / base::stick_bytes * base::stick_bytes;
  const int64_t part = std::min(length, most / 2);
  if (length <= most) add(context.description.cores, length);
  if (part < length) add(context.description.cores, part);
  add(1, length <= most ? length : part);
  return candidates;
}

}  // namespace spyre::plan
