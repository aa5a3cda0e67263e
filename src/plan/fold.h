// Folding: a copy that only permutes or repeats is not made; its readers read the original through strides of their
// own.
#pragma once

#include "base/function_ref.h"
#include "plan/plan.h"

namespace spyre::plan {

/// The reference that a pure copy (a Map of one load, same type, no arithmetic) copies, or null.
const graph::Ref* copied(const graph::Graph& graph, const graph::Node& node);

/// Decides which pure copies are `folded`, and sets their homes: those whose readers all reach the original by strides,
/// with runs of neighbours as long as the copy would have. `changed`: per value whether it is an input that this launch
/// changes (its old elements are not read through a folded copy). `skip(node)`: true keeps the copy (plan fuzzing).
void fold_copies(const graph::Graph& graph, const std::vector<bool>& changed, base::FunctionRef<bool(Id)> skip,
                 std::vector<Home>& homes);

}  // namespace spyre::plan
