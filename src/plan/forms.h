// What choose() asks of each form. One pair of functions a form, in plan/<form>.cc.
#pragma once

#include <optional>
#include <vector>

#include "plan/axes.h"
#include "plan/plan.h"

namespace spyre::plan {

/// What the functions of a form look at. The instance, the homes as far as they are known, the card.
struct Context {
  const graph::Graph& graph;
  const Plan& plan;  ///< homes of all values (a value not decided yet is `temp` with its default geometry), repacks
  const device::Description& description;
};

/// Whether `nodes` (ascending, all but the last known to be a legal kernel of this form) may be one kernel: rules of
/// shape and LX only; stores and price are checked later. One function per form.
bool rows_accepts(const Context& context, std::span<const graph::Id> nodes);
bool matmul_accepts(const Context& context, std::span<const graph::Id> nodes);
bool attention_accepts(const Context& context, std::span<const graph::Id> nodes);

/// Candidates of a kernel, at most about 24, the likely best first, one on few cores that always stays legal last (grid
/// all 1 and small tiles), so that what one core can do is never refused for disjointness.
std::vector<KernelPlan> rows_candidates(const Context& context, std::span<const graph::Id> nodes);
std::vector<KernelPlan> reduce_candidates(const Context& context, std::span<const graph::Id> nodes);
std::vector<KernelPlan> matmul_candidates(const Context& context, std::span<const graph::Id> nodes);
std::vector<KernelPlan> attention_candidates(const Context& context, std::span<const graph::Id> nodes);
std::vector<KernelPlan> place_candidates(const Context& context, std::span<const graph::Id> nodes);
std::vector<KernelPlan> scatter_candidates(const Context& context, std::span<const graph::Id> nodes);
std::vector<KernelPlan> scan_candidates(const Context& context, std::span<const graph::Id> nodes);
std::vector<KernelPlan> sort_candidates(const Context& context, std::span<const graph::Id> nodes);

/// A plan with these numbers.
inline KernelPlan kernel_plan(Form form, std::span<const graph::Id> nodes, std::vector<int32_t> grid,
                              std::vector<int64_t> tile) {
  return {form, {nodes.begin(), nodes.end()}, std::move(grid), std::move(tile), 2, 0};
}

/// A copy of what a Contract reads as b, made once per contents, that lies the way the kernel multiplies it: its
/// storage is contiguous over the k dimensions and then those of n (of a product whose result runs along m: other k
/// dimensions, n, the longest k). Nothing when b isn't an input without batch dimensions, lies well already, or is what
/// this launch changes (`changed`, per value).
std::optional<Repack> repack_of(const Context& context, graph::Id node, const std::vector<bool>& changed);

}  // namespace spyre::plan
