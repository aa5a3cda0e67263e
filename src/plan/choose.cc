// From an instance to a plan: homes, folds, kernels, candidates.
#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "base/error.h"
#include "graph/walk.h"
#include "plan/axes.h"
#include "plan/fold.h"
#include "plan/group.h"
#include "plan/memo.h"
#include "plan/placements.h"
#include "plan/uses.h"

namespace spyre::plan {

namespace {

using graph::Graph;

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

/// Makes copies after all whose readers (products, attentions) are slower without them than the copy takes. `made`:
/// homes without folding.
void make_what_folds_badly(const Graph& g, const std::vector<Home>& made, Plan& plan, Pricer& pricer) {
  constexpr int64_t impossible = INT64_MAX / 4;
  const auto cost = [&](Id node) {
    const auto choice = pricer.best(std::span(&node, 1));
    return choice ? choice->kernel.cost_ps : impossible;
  };
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const Id copy = g.nodes[n].results[0];
    Home& home = plan.homes[at(copy)];
    if (home.kind != Home::Kind::folded || made[at(copy)].kind == Home::Kind::folded) continue;
    std::vector<Id> readers;
    for (size_t r = n + 1; r < g.nodes.size(); ++r) {
      if (form_of(g.nodes[r].kind) == Form::rows) continue;
      for (const graph::Ref* ref : graph::reads(g.nodes[r].kind)) {
        if (ref->value == copy && (readers.empty() || readers.back() != static_cast<Id>(r)))
          readers.push_back(static_cast<Id>(r));
      }
    }
    if (readers.empty()) continue;
    const Home folded = home;
    int64_t without = 0, with = 0;
    for (Id r : readers) without += cost(r);
    home = made[at(copy)];
    for (Id r : readers) with += cost(r);
    if (with < without) with += cost(static_cast<Id>(n));
    if (with >= without) home = folded;
  }
}

class Chooser {
 public:
  Chooser(const Graph& graph, const device::Description& description, const Options& options, Plan& plan,
          Pricer& pricer)
      : g_(graph),
        description_(description),
        options_(options),
        temps_(plan.homes),
        uses_(graph, plan.homes),
        plan_(plan),
        pricer_(pricer) {}

  Plan run() {
    const std::vector<std::vector<Id>> groups = Grouper(g_, uses_, temps_, plan_, pricer_, options_).run();
    place_temps(groups);
    for (const std::vector<Id>& nodes : groups) add(nodes);
    plan_.kernels = std::move(kernels_);
    plan_.repacks = std::move(repacks_);
    return std::move(plan_);
  }

 private:
  /// Where temps lie is decided by the kernels that touch them, one temp after the other.
  void place_temps(const std::vector<std::vector<Id>>& groups) {
    std::vector<size_t> group_of(g_.nodes.size());
    for (size_t g = 0; g < groups.size(); ++g)
      for (Id n : groups[g]) group_of[at(n)] = g;
    constexpr int64_t impossible = std::numeric_limits<int64_t>::max();
    for (size_t v = 0; v < g_.values.size(); ++v) {
      if (plan_.homes[v].kind != Home::Kind::temp) continue;
      std::vector<layout::Geometry> all = placements(g_.values[v], options_.ieee, description_.span_bytes_per_core);
      if (all.size() == 1) continue;
      std::set<size_t> touching{group_of[at(g_.values[v].node)]};
      for (Id r : uses_.readers[v]) touching.insert(group_of[at(r)]);
      const auto cost = [&] {
        int64_t sum = 0;
        for (size_t g : touching) {
          const auto choice = pricer_.best(groups[g]);
          if (!choice) return impossible;
          sum += choice->kernel.cost_ps;
        }
        return sum;
      };
      layout::Geometry& geometry = plan_.homes[v].geometry;
      int64_t least = cost();
      for (layout::Geometry& other : all) {
        if (other == temps_[v].geometry) continue;
        geometry = other;
        const int64_t now = cost();
        const bool takes = options_.random_seed != 0 ? now != impossible && random_() % 2 == 0 : now < least;
        if (!takes) continue;
        least = now;
        temps_[v].geometry = std::move(other);
      }
      geometry = temps_[v].geometry;
    }
  }

  void add(const std::vector<Id>& nodes) {
    if (auto choice = pricer_.best(nodes)) {
      kernels_.push_back(std::move(choice->kernel));
      repacks_.insert(repacks_.end(), choice->repacks.begin(), choice->repacks.end());
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
  const device::Description& description_;
  const Options& options_;
  std::vector<Home> temps_;  // where values live that need memory
  const Uses uses_;
  Plan& plan_;
  Pricer& pricer_;
  std::vector<KernelPlan> kernels_;
  std::vector<Repack> repacks_;
  std::mt19937_64 random_{options_.random_seed + 2};
};

}  // namespace

Plan choose(const Prepared& prepared, const std::vector<layout::Geometry>& inputs,
            const device::Description& description, Price price, const Options& options) {
  const Graph& g = prepared.graph;
  std::vector<Home> homes = first_homes(prepared, inputs, description, options);
  std::vector<bool> changed(g.values.size());
  for (Id input : prepared.replaces) {
    if (input != none) changed[at(input)] = true;
  }
  std::mt19937_64 random(options.random_seed);
  const auto skip = [&](Id) { return options.random_seed != 0 && random() % 4 == 0; };
  store_in_place(prepared, skip, homes);
  const std::vector<Home> made = homes;
  fold_copies(g, changed, skip, homes);
  Plan plan{{}, std::move(homes), {}};
  Pricer pricer(g, plan, description, price, options, changed);
  if (options.random_seed == 0) make_what_folds_badly(g, made, plan, pricer);
  return Chooser(g, description, options, plan, pricer).run();
}

}  // namespace spyre::plan
