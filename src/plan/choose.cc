// From an instance to a plan: homes, folds, kernels, candidates.
#include <algorithm>

#include "base/error.h"
#include "graph/walk.h"
#include "plan/fold.h"
#include "plan/group.h"
#include "plan/memo.h"
#include "plan/uses.h"

namespace spyre::plan {

namespace {

using graph::Graph;

size_t at(Id id) { return static_cast<size_t>(id); }

[[noreturn]] void refuse(const Graph& g, Id node, const std::string& price_says, const std::string& form_says) {
  std::string text = graph::describe(g, node) + " can't be made a kernel: it makes";
  for (Id r : g.nodes[at(node)].results) text += " " + graph::shape_text(g.values[at(r)].type, g.values[at(r)].sizes);
  text += " of";
  for (const graph::Ref* ref : graph::reads(g.nodes[at(node)].kind))
    text += " " + graph::shape_text(g.values[at(ref->value)].type, ref->sizes);
  const std::string& why = price_says.empty() ? form_says : price_says;
  text += why.empty() ? "; no way to divide it fits the card" : ": " + why;
  throw Error(Fault::unimplemented, text);
}

class Chooser {
 public:
  Chooser(const Prepared& prepared, const device::Description& description, Price price, const Options& options,
          std::vector<Home> homes, const std::vector<bool>& changed)
      : g_(prepared.graph),
        options_(options),
        temps_(homes),
        uses_(prepared.graph, homes),
        plan_{{}, std::move(homes), {}},
        pricer_(prepared.graph, plan_, description, price, options, changed) {}

  Plan run() {
    const std::vector<std::vector<Id>> groups = Grouper(g_, uses_, temps_, plan_, pricer_, options_).run();
    for (const std::vector<Id>& nodes : groups) add(nodes);
    plan_.kernels = std::move(kernels_);
    plan_.repacks = std::move(repacks_);
    return std::move(plan_);
  }

 private:
  void add(const std::vector<Id>& nodes) {
    if (auto choice = pricer_.best(nodes)) {
      kernels_.push_back(std::move(choice->kernel));
      if (choice->repack) repacks_.push_back(std::move(*choice->repack));
      return;
    }
    if (nodes.size() == 1) refuse(g_, nodes[0], options_.why ? *options_.why : "", pricer_.why());
    // What one kernel could do with more values in memory, it can't with these: one node a kernel.
    for (const Id& n : nodes) {
      settle(g_, uses_, std::span(&n, 1), temps_, plan_.homes);
      add({n});
    }
  }

  const Graph& g_;
  const Options& options_;
  const std::vector<Home> temps_;
  const Uses uses_;
  Plan plan_;
  Pricer pricer_;
  std::vector<KernelPlan> kernels_;
  std::vector<Repack> repacks_;
};

}  // namespace

Plan choose(const Prepared& prepared, const std::vector<layout::Geometry>& inputs,
            const device::Description& description, Price price, const Options& options) {
  const Graph& g = prepared.graph;
  std::vector<Home> homes = first_homes(prepared, inputs, options);
  std::vector<bool> changed(g.values.size());
  for (Id input : prepared.replaces) {
    if (input != none) changed[at(input)] = true;
  }
  std::mt19937_64 random(options.random_seed);
  const auto skip = [&](Id) { return options.random_seed != 0 && random() % 4 == 0; };
  store_in_place(prepared, skip, homes);
  fold_copies(g, changed, skip, homes);
  return Chooser(prepared, description, price, options, std::move(homes), changed).run();
}

}  // namespace spyre::plan
