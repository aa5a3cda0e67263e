// Chains: operations of a vector program whose values stay in registers. A chain ends in one node; it takes in all
// nodes whose values nothing else reads, and makes a straight line of them: operands that are ready come from strips,
// values that are needed later go to a slot.
#include <algorithm>

#include "card/vector_program.h"

namespace spyre::card {

using host::F32Link;
using program::Reg;

class VectorProgram::ChainMaker {
 public:
  explicit ChainMaker(VectorProgram& program) : nodes_(program.nodes_), uses_(nodes_.size(), 0) {
    for (const Node& node : nodes_) for_each_argument(node, [&](int arg) { ++uses_[arg]; });
    for (int r : program.roots_) uses_[r] += 2;  // has a place of its own
  }

  void run() {
    for (int i = static_cast<int>(nodes_.size()) - 1; i >= 0; --i) {
      if (nodes_[i].absorbed || !is_link(nodes_[i])) continue;
      for (int most = host::most_links; most > 1; --most) {
        collect(i, most);
        if (members_.size() < 2) break;
        if (!line_up(i)) continue;
        for (const int j : members_) nodes_[j].absorbed = j != i;
        Node& chain = nodes_[i];
        chain.kind = Kind::chain;
        chain.count = 1;
        chain.args[0] = line_.front().with;
        chain.links.assign(line_.begin() + 1, line_.end());
        break;
      }
    }
  }

 private:
  /// What the node does to a running value that is its argument `running`; `keep` when it is nothing a chain can do.
  static F32Link link_of(const Node& node, int running) {
    if (node.type != Reg::f32 || node.cls != Class::lane || node.repeats) return F32Link::keep;
    if (node.kind == Kind::f1) {
      switch (static_cast<host::F32Unary>(node.op)) {
        case host::F32Unary::neg:
          return F32Link::neg;
        case host::F32Unary::abs:
          return F32Link::abs;
        case host::F32Unary::square:
          return F32Link::square;
        case host::F32Unary::rcp:
          return F32Link::rcp;
        case host::F32Unary::exp:
          return F32Link::exp;
        case host::F32Unary::tanh:
          return F32Link::tanh;
        case host::F32Unary::erf:
          return F32Link::erf;
        case host::F32Unary::round_dl16:
          return F32Link::round_dl16;
        default:
          return F32Link::keep;
      }
    }
    if (node.kind != Kind::f2) return F32Link::keep;
    switch (static_cast<host::F32Binary>(node.op)) {
      case host::F32Binary::add:
        return F32Link::add_all;
      case host::F32Binary::sub:
        return running == 0 ? F32Link::subtract_all : F32Link::from_all;
      case host::F32Binary::mul:
        return F32Link::mul_all;
      case host::F32Binary::div:
        return running == 0 ? F32Link::divide_all : F32Link::over_all;
      case host::F32Binary::min:
        return F32Link::min_all;
      case host::F32Binary::max:
        return F32Link::max_all;
      default:
        return F32Link::keep;
    }
  }
  static bool is_link(const Node& node) { return link_of(node, 0) != F32Link::keep; }

  /// members_: node `last` and, of those before it, what only members read. uses_inside_: by members.
  void collect(int last, int most) {
    members_ = {last};
    uses_inside_.assign(nodes_.size(), 0);
    for (int j = last; j >= 0; --j) {
      if (j < last) {
        const bool joins = uses_inside_[j] > 0 && uses_inside_[j] == uses_[j] && is_link(nodes_[j]);
        if (!joins || static_cast<int>(members_.size()) == most) continue;
        members_.push_back(j);
      }
      for_each_argument(nodes_[j], [&](int arg) { ++uses_inside_[arg]; });
    }
  }

  /// line_: the members' operations in a row, the first being a `take`. False when there are too many.
  bool line_up(int last) {
    line_.clear();
    slot_.assign(nodes_.size(), -1);
    free_.clear();
    slots_ = 0;
    depth_.assign(nodes_.size(), 0);
    for (size_t m = members_.size(); m-- > 0;)
      for_each_argument(nodes_[members_[m]],
                        [&](int arg) { depth_[members_[m]] = std::max(depth_[members_[m]], 1 + depth_[arg]); });
    compute(last);
    return static_cast<int>(line_.size()) - 1 <= host::most_links && slots_ <= host::most_slots;
  }

  bool is_member(int node) const { return std::find(members_.begin(), members_.end(), node) != members_.end(); }

  /// Makes a node's value the running one.
  void compute(int node) {
    if (!is_member(node) || slot_[node] >= 0) return operate(F32Link::take_all, node);
    const Node& n = nodes_[node];
    int running = 0;
    if (n.count == 2) {  // the longer way last; the other value waits in a slot
      const auto rank = [&](int arg) { return nodes_[arg].cls != Class::lane ? -1 : depth_[arg]; };
      running = rank(n.args[1]) > rank(n.args[0]) ? 1 : 0;
      const int other = n.args[1 - running];
      if (is_member(other) && slot_[other] < 0) {
        compute(other);
        keep(other);
      }
    }
    if (n.count == 2 && n.args[0] == n.args[1]) {
      operate(F32Link::take_all, n.args[0]);
      operate(link_of(n, 0), n.args[0]);
    } else {
      const int from = n.args[running];
      const bool first = is_member(from) && slot_[from] < 0;
      compute(from);
      if (first) used(from);
      if (n.count == 2)
        operate(link_of(n, running), n.args[1 - running]);
      else
        line_.push_back({link_of(n, 0)});
    }
    if (uses_inside_[node] > 1) keep(node);
  }

  void operate(F32Link op, int operand) {
    if (slot_[operand] < 0) {
      line_.push_back({op, operand});
      return;
    }
    line_.push_back({op, -1, slot_[operand]});
    used(operand);
  }

  void used(int node) {
    if (--uses_inside_[node] == 0 && slot_[node] >= 0) free_.push_back(slot_[node]);
  }

  void keep(int node) {
    if (slot_[node] >= 0) return;
    slot_[node] = free_.empty() ? slots_++ : free_.back();
    if (!free_.empty()) free_.pop_back();
    line_.push_back({F32Link::keep, -1, slot_[node]});
  }

  std::vector<Node>& nodes_;
  std::vector<int> uses_, uses_inside_, members_;
  std::vector<Link> line_;
  std::vector<int> slot_, free_, depth_;
  int slots_ = 0;
};

void VectorProgram::make_chains() { ChainMaker(*this).run(); }

}  // namespace spyre::card
