// Who needs what of whom, once copies are folded; and from that, where values live.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace spyre::plan {

struct Uses {
  std::vector<std::vector<Id>> readers;  ///< per value the nodes that read it, ascending; through folded copies
  std::vector<std::vector<Id>> sources;  ///< per node the nodes that must run before it: producers of what it reads
  std::vector<bool> folded;              ///< per node: in no kernel

  Uses(const graph::Graph& graph, const std::vector<Home>& homes);
};

/// Homes before anything is fused: inputs, outputs, values that replace an input, `dead` ones, and `temp` for the rest.
/// Throws Error(user) when an input that is mutated has one element at two indices.
std::vector<Home> first_homes(const Prepared& prepared, const std::vector<layout::Geometry>& inputs,
                              const device::Description& description, const Options& options);

/// Lets producers store straight into the input that a copy at the end would fill, where everything that reads the
/// input's old elements comes before (an in-place add, a cache update): their results get the home `replaces`, the
/// copies are folded. `skip(node)`: true keeps the copy (plan fuzzing).
void store_in_place(const Prepared& prepared, base::FunctionRef<bool(Id)> skip, std::vector<Home>& homes);

/// Whether two references (of equal sizes) name the same element at every index.
bool same_elements(const graph::Ref& a, const graph::Ref& b);

/// Where results of the nodes of one kernel live: `resident` when nobody else reads them, else in `temps[value]`.
void settle(const graph::Graph& graph, const Uses& uses, std::span<const Id> nodes, const std::vector<Home>& temps,
            std::vector<Home>& homes);

}  // namespace spyre::plan
