// Place: grid = {cores for the dimensions before the stick's, cores for that one}; tile = {bytes of a tile, 1 when all
// boxes are divided alike, so that a stick that two boxes share belongs to one core; 0 when each is divided by itself}.
#include "plan/forms.h"

namespace spyre::plan {

std::vector<KernelPlan> place_candidates(const Context& context, std::span<const Id> nodes) {
  const int32_t cores = context.description.cores;
  std::vector<KernelPlan> candidates;
  const auto add = [&](int32_t rows, int32_t lanes, int64_t bytes, bool alike) {
    candidates.push_back(kernel_plan(Form::place, nodes, {rows, lanes}, {bytes, alike ? 1 : 0}));
  };
  const int64_t large = context.description.lx_usable_bytes / 8, small = context.description.lx_usable_bytes / 64;
  for (const bool alike : {false, true}) {
    add(cores, 1, large, alike);
    add(cores, 1, small, alike);
    if (cores >= 8) add(cores / 4, 4, small, alike);
    add(1, cores, small, alike);
  }
  add(1, 1, small, true);
  return candidates;
}

}  // namespace spyre::plan
