// Chains: operations of a vector program whose values stay in registers.
#include <algorithm>

#include "card/vector_program.h"

namespace spyre::card {

using host::F32Link;
using program::Reg;

bool VectorProgram::link_of(const Node& node, int running, Link& link) const {
  if (node.type != Reg::f32 || node.cls != Class::lane || node.repeats) return false;
  if (node.kind == Kind::f1) {
    switch (static_cast<host::F32Unary>(node.op)) {
      case host::F32Unary::neg:
        link = {F32Link::neg};
        return true;
      case host::F32Unary::abs:
        link = {F32Link::abs};
        return true;
      case host::F32Unary::square:
        link = {F32Link::square};
        return true;
      case host::F32Unary::rcp:
        link = {F32Link::rcp};
        return true;
      case host::F32Unary::exp:
        link = {F32Link::exp};
        return true;
      case host::F32Unary::tanh:
        link = {F32Link::tanh};
        return true;
      case host::F32Unary::erf:
        link = {F32Link::erf};
        return true;
      case host::F32Unary::round_dl16:
        link = {F32Link::round_dl16};
        return true;
      default:
        return false;
    }
  }
  if (node.kind != Kind::f2) return false;
  link.with = node.args[1 - running];
  switch (static_cast<host::F32Binary>(node.op)) {
    case host::F32Binary::add:
      link.op = F32Link::add_all;
      return true;
    case host::F32Binary::sub:
      link.op = running == 0 ? F32Link::subtract_all : F32Link::from_all;
      return true;
    case host::F32Binary::mul:
      link.op = F32Link::mul_all;
      return true;
    case host::F32Binary::min:
      link.op = F32Link::min_all;
      return true;
    case host::F32Binary::max:
      link.op = F32Link::max_all;
      return true;
    default:
      return false;
  }
}

void VectorProgram::make_chains() {
  const int n = static_cast<int>(nodes_.size());
  std::vector<int> uses(n, 0), length(n, 0);  // length: of the chain that ends in a node
  for (const Node& node : nodes_) for_each_argument(node, [&](int arg) { ++uses[arg]; });
  for (int r : roots_) uses[r] += 2;  // has a place of its own
  Link link;
  // Which argument of a node is the running value: the one with the longer chain.
  const auto running = [&](const Node& node) {
    const auto rank = [&](int arg) { return nodes_[arg].cls != Class::lane ? -1 : uses[arg] == 1 ? length[arg] : 0; };
    return node.count == 2 && rank(node.args[1]) > rank(node.args[0]) ? 1 : 0;
  };
  for (int i = 0; i < n; ++i) {
    const int at = running(nodes_[i]);
    if (!link_of(nodes_[i], at, link)) continue;
    const int from = nodes_[i].args[at];
    length[i] = 1 + (uses[from] == 1 ? length[from] : 0);
  }
  for (int i = n - 1; i >= 0; --i) {
    if (nodes_[i].absorbed || length[i] < 2) continue;
    std::vector<Link> links;
    std::vector<int> joined;
    int from = i;
    while (static_cast<int>(links.size()) < host::most_links) {
      const int at = running(nodes_[from]);
      link_of(nodes_[from], at, link);
      links.push_back(link);
      joined.push_back(from);
      from = nodes_[from].args[at];
      if (length[from] == 0 || uses[from] != 1) break;
    }
    for (int j : joined) nodes_[j].absorbed = j != i;
    std::reverse(links.begin(), links.end());
    Node& chain = nodes_[i];
    chain.kind = Kind::chain;
    chain.count = 1;
    chain.args[0] = from;
    chain.links = std::move(links);
  }
}

}  // namespace spyre::card
