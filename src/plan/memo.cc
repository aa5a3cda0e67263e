#include "plan/memo.h"

#include <algorithm>

#include "base/error.h"
#include "plan/axis_parts.h"

namespace spyre::plan {

namespace {

using graph::Expr;
using graph::Graph;
using graph::Ref;

/// Renumbers the params of expressions by first appearance.
class Params {
 public:
  void rename(Expr& e) {
    if (e.leaf == Expr::Leaf::param) {
      const auto place = std::find(seen_.begin(), seen_.end(), e.id);
      const auto id = static_cast<Id>(place - seen_.begin());
      if (place == seen_.end()) seen_.push_back(e.id);
      e.id = id;
    }
    for (Expr& a : e.args) rename(a);
  }
  void rename(graph::Kind& kind) {
    std::visit(
        [this](auto& n) {
          using N = std::remove_cvref_t<decltype(n)>;
          if constexpr (requires { n.loads; }) {
            for (graph::Load& load : n.loads)
              for (auto& gather : load.gathers) rename(gather.index);
            if constexpr (std::is_same_v<N, graph::Map>) {
              for (Expr& e : n.value) rename(e);
            } else {
              rename(n.value);
            }
          }
          if constexpr (std::is_same_v<N, graph::Scatter>) {
            for (auto& target : n.targets) rename(target.index);
          }
          if constexpr (std::is_same_v<N, graph::Attention>) rename(n.scale);
        },
        kind);
  }

 private:
  std::vector<Id> seen_;
};

}  // namespace

Form form_of(const graph::Kind& kind) {
  constexpr Form forms[] = {Form::rows,  Form::rows,    Form::matmul, Form::attention,
                            Form::place, Form::scatter, Form::scan,   Form::sort};
  static_assert(std::size(forms) == std::variant_size_v<graph::Kind>);
  return forms[kind.index()];
}

const std::string& KernelKeys::text(const layout::Geometry& geometry) {
  auto& same = texts_[geometry.hash()];
  for (const auto& [known, text] : same) {
    if (known == geometry) return text;
  }
  return same.emplace_back(geometry, geometry.to_text()).second;
}

base::Hash128 KernelKeys::of(const Graph& graph, std::span<const Id> nodes) {
  Graph part;
  std::vector<Id> values;  // old ids
  const auto rename = [&](Id id) {
    const auto place = std::find(values.begin(), values.end(), id);
    const auto fresh = static_cast<Id>(place - values.begin());
    if (place == values.end()) values.push_back(id);
    return fresh;
  };
  Params params;
  for (Id n : nodes) {
    graph::Node node = graph.nodes[at(n)];
    node.loc = {};
    for (Ref* ref : graph::reads(node.kind)) ref->value = rename(ref->value);
    for (Id& r : node.results) r = rename(r);
    params.rename(node.kind);
    part.nodes.push_back(std::move(node));
  }
  std::string homes;
  for (size_t v = 0; v < values.size(); ++v) {  // grows
    const Home& home = plan_.homes[at(values[v])];
    homes += static_cast<char>((changed_[at(values[v])] ? 'A' : 'a') + static_cast<int>(home.kind));
    if (goes_through(home)) {
      Ref through = home.through;
      through.value = rename(through.value);
      part.outputs.push_back(std::move(through));
    }
    if (home.geometry.device_elements > 0) homes += text(home.geometry);
  }
  for (Id old : values) {
    part.values.push_back(graph.values[at(old)]);
    part.values.back().name.clear();
    part.inputs.push_back(static_cast<Id>(part.inputs.size()));  // so that all are printed
  }
  return base::Hasher(0x6b65726e656c).add(graph::print(part)).add(homes).finish();
}

Pricer::Pricer(const Graph& graph, Plan& plan, const device::Description& description, Price price,
               const Options& options, const std::vector<bool>& changed)
    : graph_(graph),
      plan_(plan),
      context_{graph, plan, description},
      price_(price),
      options_(options),
      changed_(changed),
      random_(options.random_seed),
      keys_(plan, changed) {}

bool Pricer::accepts(std::span<const Id> nodes) {
  try {
    switch (form_of(graph_.nodes[at(nodes[0])].kind)) {
      case Form::rows:
        return rows_accepts(context_, nodes);
      case Form::matmul:
        return matmul_accepts(context_, nodes);
      case Form::attention:
        return attention_accepts(context_, nodes);
      default:
        return nodes.size() == 1;
    }
  } catch (const Error& e) {
    if (e.fault() != Fault::unimplemented && e.fault() != Fault::program) throw;
    why_ = e.what();
    return false;
  }
}

std::vector<KernelPlan> Pricer::candidates(std::span<const Id> nodes) {
  const graph::Kind& kind = graph_.nodes[at(nodes[0])].kind;
  try {
    switch (form_of(kind)) {
      case Form::matmul:
        return matmul_candidates(context_, nodes);
      case Form::attention:
        return attention_candidates(context_, nodes);
      case Form::place:
        return place_candidates(context_, nodes);
      case Form::scatter:
        return scatter_candidates(context_, nodes);
      case Form::scan:
        return scan_candidates(context_, nodes);
      case Form::sort:
        return sort_candidates(context_, nodes);
      default:
        break;
    }
    std::vector<KernelPlan> out;
    if (rows_accepts(context_, nodes)) out = rows_candidates(context_, nodes);
    if (nodes.size() == 1 && std::holds_alternative<graph::Reduce>(kind)) {
      const std::vector<KernelPlan> more = reduce_candidates(context_, nodes);
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  } catch (const Error& e) {
    if (e.fault() != Fault::unimplemented && e.fault() != Fault::program) throw;
    why_ = e.what();
    return {};
  }
}

std::optional<KernelPlan> Pricer::cheapest(std::span<const Id> nodes) {
  std::vector<KernelPlan> all = candidates(nodes);
  if (options_.random_seed != 0) std::shuffle(all.begin(), all.end(), random_);
  constexpr int patience = 6;  // candidates without progress, the likely best being first
  std::optional<KernelPlan> best;
  int idle = 0;
  for (KernelPlan& k : all) {
    k.cost_ps = price_(k, plan_);
    if (k.cost_ps < 0) continue;
    if (!best || k.cost_ps < best->cost_ps) {
      best = std::move(k);
      idle = 0;
    } else if (++idle >= patience) {
      break;
    }
    if (options_.random_seed != 0) break;
  }
  return best;
}

std::vector<Repack> Pricer::repacks_of(std::span<const Id> nodes) {
  std::vector<Repack> repacks;
  if (!options_.repack) return repacks;
  for (const Id n : nodes) {
    if (auto repack = repack_of(context_, n, changed_)) repacks.push_back(std::move(*repack));
  }
  return repacks;
}

std::optional<Choice> Pricer::best(std::span<const Id> nodes) {
  const base::Hash128 key = keys_.of(graph_, nodes);
  auto known = known_.find(key);
  if (known == known_.end()) {
    plan_.repacks.clear();
    std::optional<Choice> choice;
    if (auto kernel = cheapest(nodes)) choice = Choice{std::move(*kernel), {}};
    std::vector<Repack> repacks = repacks_of(nodes);
    if (!repacks.empty() && (options_.random_seed == 0 || random_() % 2 == 0)) {
      plan_.repacks = repacks;
      auto kernel = cheapest(nodes);
      if (kernel && (!choice || options_.random_seed != 0 || kernel->cost_ps < choice->kernel.cost_ps))
        choice = Choice{std::move(*kernel), std::move(repacks)};
      plan_.repacks.clear();
    }
    known = known_.emplace(key, std::move(choice)).first;
  }
  std::optional<Choice> choice = known->second;
  if (choice) {
    for (Repack& repack : choice->repacks) {
      const auto& known_nodes = choice->kernel.nodes;
      repack.node = nodes[at(std::find(known_nodes.begin(), known_nodes.end(), repack.node) - known_nodes.begin())];
    }
    choice->kernel.nodes.assign(nodes.begin(), nodes.end());
  }
  return choice;
}

}  // namespace spyre::plan
