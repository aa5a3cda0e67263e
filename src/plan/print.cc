// A plan as text: one kernel, home or repack a line.
#include "plan/plan.h"
#include "program/lexer.h"

namespace spyre::plan {

namespace {

constexpr std::string_view form_words[] = {"rows", "reduce", "matmul", "attention", "place", "scatter", "scan", "sort"};
constexpr std::string_view home_words[] = {"input", "output", "temp", "replaces", "resident", "folded", "dead"};

std::string list(const auto& numbers) {
  std::string text;
  for (const auto n : numbers) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "(" + text + ")";
}

std::string ref_text(const graph::Ref& ref) {
  std::string text = fmt::format("v{}[", ref.value);
  for (size_t d = 0; d < ref.sizes.size(); ++d)
    text += fmt::format("{}{}:{}", d > 0 ? ", " : "", ref.sizes[d].text(), ref.strides[d].text());
  if (!ref.offset.is(0)) text += (ref.sizes.empty() ? "@ " : " @ ") + ref.offset.text();
  return text + "]";
}

}  // namespace

std::string_view form_name(Form form) { return form_words[static_cast<size_t>(form)]; }
std::string_view home_name(Home::Kind kind) { return home_words[static_cast<size_t>(kind)]; }

std::string print(const Plan& plan, const graph::Graph& instance) {
  std::string out;
  for (const KernelPlan& k : plan.kernels) {
    std::string ops;
    for (Id n : k.nodes) {
      if (n < 0 || static_cast<size_t>(n) >= instance.nodes.size()) continue;
      const graph::Node& node = instance.nodes[static_cast<size_t>(n)];
      ops += (ops.empty() ? "" : ", ") + (node.loc.op.empty() ? std::string(graph::kind_name(node.kind)) : node.loc.op);
    }
    out += fmt::format("kernel {} nodes{} grid{} tile{} slots {} cost {} of {}\n", form_name(k.form), list(k.nodes),
                       list(k.grid), list(k.tile), k.slots, k.cost_ps, program::escape(ops));
  }
  for (size_t v = 0; v < plan.homes.size(); ++v) {
    const Home& h = plan.homes[v];
    out += fmt::format("home v{} {}", v, home_name(h.kind));
    if (!(h.through == graph::Ref{})) out += " through " + ref_text(h.through);
    if (!(h.geometry == layout::Geometry{})) out += " " + h.geometry.to_text();
    out += '\n';
  }
  for (const Repack& r : plan.repacks)
    out += fmt::format("repack node {} read {} {}\n", r.node, r.read, r.geometry.to_text());
  return out;
}

}  // namespace spyre::plan
