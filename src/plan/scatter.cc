// Scatter: grid = {cores for rows that are written at their own place, cores for the lanes of those}; tile = {bytes of
// a tile}.
#include "plan/forms.h"

namespace spyre::plan {

std::vector<KernelPlan> scatter_candidates(const Context& context, std::span<const Id> nodes) {
  const int32_t cores = context.description.cores;
  std::vector<KernelPlan> candidates;
  const auto add = [&](int32_t rows, int32_t lanes, int64_t bytes) {
    candidates.push_back(kernel_plan(Form::scatter, nodes, {rows, lanes}, {bytes}));
  };
  const int64_t large = context.description.lx_usable_bytes / 32, small = context.description.lx_usable_bytes / 256;
  add(cores, 1, large);
  add(1, cores, large);
  if (cores >= 8) add(cores / 4, 4, large);
  add(cores, 1, small);
  add(1, cores, small);
  add(1, 1, small);
  return candidates;
}

}  // namespace spyre::plan
