#include "plan/axes.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>

#include "base/error.h"
#include "plan/axis_parts.h"
#include "program/verify_sticks.h"

namespace spyre::plan {

using graph::Contract;
using graph::Expr;
using graph::Graph;
using graph::Load;
using graph::Map;
using graph::Node;
using graph::Reduce;
using graph::Ref;

bool has_leaf(const Expr& expr, Expr::Leaf leaf) {
  return expr.leaf == leaf ||
         std::any_of(expr.args.begin(), expr.args.end(), [&](const Expr& a) { return has_leaf(a, leaf); });
}

namespace {

struct Work {
  graph::Id id = graph::none;
  const Node* node = nullptr;
  std::vector<int64_t> sizes;
  std::vector<std::vector<int>> dims;
  std::vector<bool> reduced;  // per dimension
  std::vector<bool> named;    // per dimension: by an iota
  std::vector<Strided> reads, results;
  std::vector<std::vector<int>> gathers;  // per read: a part of its own for each index
};

void find_iotas(const Expr& e, std::vector<bool>& named) {
  if (e.leaf == Expr::Leaf::iota && e.id >= 0 && e.id < static_cast<graph::Id>(named.size())) named[e.id] = true;
  for (const Expr& a : e.args) find_iotas(a, named);
}

class Finder {
 public:
  Finder(const Graph& g, const std::vector<Home>& homes) : g_(g), homes_(homes) {}

  std::optional<Axes> run(std::span<const graph::Id> ids) {
    for (graph::Id id : ids)
      if (!add(id)) return std::nullopt;
    if (nodes_.empty()) return std::nullopt;
    if (nodes_.size() > 1)
      for (const Work& w : nodes_)
        if (std::find(w.sizes.begin(), w.sizes.end(), 0) != w.sizes.end()) return std::nullopt;
    for (Work& w : nodes_)
      for (Strided& r : w.reads)
        if (homes_[r.value].kind == Home::Kind::folded && !through_folds(atoms_, r, g_, homes_)) return std::nullopt;
    for (const Work& w : nodes_)
      for (const auto& read : w.gathers)
        for (int part : read)
          if (atoms_.is_split(part)) return std::nullopt;
    if (!link_inside()) return std::nullopt;
    link_same_reads();
    link_same_spaces();
    if (conflict(atoms_)) return std::nullopt;
    return finish();
  }

 private:
  bool add(graph::Id id) {
    Work w;
    w.id = id;
    w.node = &g_.nodes[id];
    std::vector<const Expr*> exprs;
    std::span<const Load> loads;
    if (const auto* map = std::get_if<Map>(&w.node->kind)) {
      w.sizes = numbers(map->space);
      loads = map->loads;
      for (const Expr& e : map->value) exprs.push_back(&e);
    } else if (const auto* reduce = std::get_if<Reduce>(&w.node->kind)) {
      w.sizes = numbers(reduce->space);
      loads = reduce->loads;
      exprs.push_back(&reduce->value);
    } else if (const auto* contract = std::get_if<Contract>(&w.node->kind)) {
      if (!nodes_.empty() && contract_ == nullptr) return false;
      w.sizes = numbers(contract->space);
    } else {
      return false;
    }
    const size_t rank = w.sizes.size();
    w.reduced.assign(rank, false);
    w.named.assign(rank, false);
    if (const auto* reduce = std::get_if<Reduce>(&w.node->kind))
      for (int32_t d : reduce->dims) w.reduced[d] = true;
    if (const auto* contract = std::get_if<Contract>(&w.node->kind)) {
      for (size_t d = 0; d < rank; ++d) w.reduced[d] = contract->roles[d] == Contract::Role::k;
      if (contract_ == nullptr) contract_ = contract;
    }
    for (const Load& l : loads)
      for (const Load::Gather& gather : l.gathers) exprs.push_back(&gather.index);
    for (const Expr* e : exprs) find_iotas(*e, w.named);
    for (int64_t s : w.sizes) w.dims.push_back(s == 1 ? std::vector<int>{} : std::vector<int>{atoms_.add(s)});
    size_t r = 0;
    for (const Ref* ref : graph::reads(w.node->kind)) {
      w.reads.push_back(strided(atoms_, ref->value, number(ref->offset), w.dims, numbers(ref->strides)));
      w.gathers.emplace_back();
      if (r < loads.size())
        for (const Load::Gather& gather : loads[r].gathers) {
          w.gathers.back().push_back(atoms_.add(number(gather.bound)));
          w.reads.back().terms.push_back({w.gathers.back().back(), number(gather.stride)});
        }
      ++r;
    }
    std::vector<std::vector<int>> kept;
    for (size_t d = 0; d < rank; ++d)
      if (!w.reduced[d]) kept.push_back(w.dims[d]);
    for (graph::Id v : w.node->results) {
      w.results.push_back(strided(atoms_, v, 0, kept, numbers(g_.values[v].strides)));
      made_[v] = {nodes_.size(), w.results.size() - 1};
    }
    nodes_.push_back(std::move(w));
    return true;
  }

  /// Non-zero terms, innermost of the storage first.
  std::vector<Term> sorted(Atoms& atoms, Strided s) const {
    expand(atoms, s);
    std::erase_if(s.terms, [](const Term& t) { return t.stride == 0; });
    std::sort(s.terms.begin(), s.terms.end(), [](const Term& a, const Term& b) { return a.stride < b.stride; });
    return s.terms;
  }

  /// Makes two lists of parts, innermost first, the same. False when they don't refine to each other.
  template <typename List>
  static bool unify(Atoms& atoms, List&& a, List&& b, bool strides) {
    for (size_t i = 0;; ++i) {
      auto x = a(), y = b();
      if (i >= x.size() || i >= y.size()) return x.size() == y.size();
      if (strides && x[i].stride != y[i].stride) return false;
      const int64_t m = atoms.size(x[i].atom), n = atoms.size(y[i].atom);
      if (m == n) {
        if (atoms.find(x[i].atom) != atoms.find(y[i].atom)) atoms.unite(x[i].atom, y[i].atom);
        continue;
      }
      const int64_t small = std::min(m, n), large = std::max(m, n);
      if (small == 0 || large % small != 0) return false;
      atoms.split(m < n ? y[i].atom : x[i].atom, small);
      --i;
    }
  }

  bool unify_refs(Atoms& atoms, const Strided& a, const Strided& b) const {
    if (a.offset != b.offset) return false;
    std::function<std::vector<Term>()> x = [&] { return sorted(atoms, a); }, y = [&] { return sorted(atoms, b); };
    return unify(atoms, x, y, true);
  }

  /// A node with one part twice.
  bool conflict(const Atoms& atoms) const {
    for (const Work& w : nodes_) {
      std::vector<int> all;
      for (const auto& d : w.dims)
        for (int a : atoms.expand(d)) all.push_back(a);
      std::sort(all.begin(), all.end());
      if (std::adjacent_find(all.begin(), all.end()) != all.end()) return true;
    }
    return false;
  }

  bool link_inside() {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (size_t r = 0; r < nodes_[n].reads.size(); ++r) {
        const auto made = made_.find(nodes_[n].reads[r].value);
        if (made == made_.end()) continue;
        if (made->second.first >= n || !nodes_[n].gathers[r].empty()) return false;
        if (!unify_refs(atoms_, nodes_[n].reads[r], nodes_[made->second.first].results[made->second.second]))
          return false;
      }
    }
    return !conflict(atoms_);
  }

  void try_link(const std::function<bool(Atoms&)>& link) {
    Atoms trial = atoms_;
    if (link(trial) && !conflict(trial)) atoms_ = std::move(trial);
  }

  /// Two nodes that read one tensor in the same way walk it together: a sum over a row, and what divides the row by it.
  void link_same_reads() {
    for (size_t n = 1; n < nodes_.size(); ++n)
      for (size_t m = 0; m < n; ++m)
        for (size_t r = 0; r < nodes_[n].reads.size(); ++r)
          for (size_t q = 0; q < nodes_[m].reads.size(); ++q) {
            const Strided &a = nodes_[n].reads[r], &b = nodes_[m].reads[q];
            if (a.value != b.value || made_.count(a.value)) continue;
            if (!nodes_[n].gathers[r].empty() || !nodes_[m].gathers[q].empty()) continue;
            try_link([&](Atoms& t) { return unify_refs(t, a, b); });
          }
  }

  /// And so do nodes of equal spaces.
  void link_same_spaces() {
    auto points = [](const Work& w) {
      return std::accumulate(w.sizes.begin(), w.sizes.end(), int64_t{1}, std::multiplies<>());
    };
    for (size_t n = 1; n < nodes_.size(); ++n)
      for (size_t m = 0; m < n; ++m) {
        if (points(nodes_[n]) != points(nodes_[m])) continue;
        try_link([&](Atoms& t) {
          auto flat = [&t](const Work& w) {
            std::vector<Term> out;
            for (const auto& d : w.dims)
              for (int a : t.expand(d)) out.push_back({a, 0});
            std::reverse(out.begin(), out.end());
            return out;
          };
          std::function<std::vector<Term>()> x = [&] { return flat(nodes_[m]); }, y = [&] { return flat(nodes_[n]); };
          return unify(t, x, y, false);
        });
      }
  }

  Axes finish() {
    // The order of axes: the longest node's, others behind what stands before them in their own.
    size_t longest = 0;
    std::vector<std::vector<int>> order;
    for (const Work& w : nodes_) {
      order.emplace_back();
      for (const auto& d : w.dims)
        for (int a : atoms_.expand(d)) order.back().push_back(a);
      if (order.back().size() > order[longest].size()) longest = order.size() - 1;
    }
    std::vector<int> list = order[longest];
    for (const auto& o : order) {
      auto at = list.begin();
      for (int a : o) {
        const auto found = std::find(list.begin(), list.end(), a);
        at = found != list.end() ? found + 1 : list.insert(at, a) + 1;
      }
    }
    std::map<int, int> axis;
    Axes axes;
    for (int a : list) {
      axis[a] = static_cast<int>(axes.sizes.size());
      axes.sizes.push_back(atoms_.size(a));
    }
    const size_t rank = axes.sizes.size();
    if (contract_) {
      axes.roles.assign(rank, Contract::Role::batch);
      const Work& w = nodes_[0];
      for (size_t d = 0; d < w.dims.size(); ++d)
        for (int a : atoms_.expand(w.dims[d])) axes.roles[axis[a]] = contract_->roles[d];
    }
    auto over = [&](Strided s, const std::vector<int>& gathers) {
      expand(atoms_, s);
      AxisRef ref;
      ref.value = s.value;
      ref.offset = s.offset;
      ref.strides.assign(rank, 0);
      ref.gathers.assign(gathers.size(), 0);
      for (const Term& t : s.terms) {
        const auto gather = std::find(gathers.begin(), gathers.end(), t.atom);
        if (gather != gathers.end()) {
          ref.gathers[gather - gathers.begin()] = t.stride;
        } else {
          ref.strides[axis.at(t.atom)] += t.stride;
        }
      }
      return ref;
    };
    named_.clear();
    for (Work& w : nodes_) {
      NodeAxes n;
      n.node = w.id;
      n.has.assign(rank, false);
      n.reduced.assign(rank, false);
      named_.emplace_back(rank, -1);
      for (size_t d = 0; d < w.dims.size(); ++d) {
        n.dims.emplace_back();
        for (int a : atoms_.expand(w.dims[d])) {
          n.dims.back().push_back(axis[a]);
          n.has[axis[a]] = true;
          n.reduced[axis[a]] = w.reduced[d];
          if (w.named[d]) named_.back()[axis[a]] = static_cast<int>(d);
        }
      }
      for (size_t i = 0; i < w.reads.size(); ++i) {
        const Strided& r = w.reads[i];
        Strided real = r;
        const bool internal = made_.count(r.value) > 0;
        if (!internal) through_folds(atoms_, real, g_, homes_);  // into what it replaces
        n.reads.push_back(over(real, w.gathers[i]));
        n.reads.back().internal = internal;
      }
      for (const Strided& r : w.results) {
        Strided real = r;
        if (homes_[r.value].kind == Home::Kind::replaces) through_folds(atoms_, real, g_, homes_);
        n.results.push_back(over(real, {}));
      }
      axes.nodes.push_back(std::move(n));
    }
    while (merge_one(axes)) {
    }
    return axes;
  }

  bool merge_one(Axes& axes) {
    for (size_t a = 0; a + 1 < axes.sizes.size(); ++a) {
      if (!mergeable(axes, a)) continue;
      const size_t b = a + 1;
      axes.sizes[b] *= axes.sizes[a];
      auto drop = [&](auto& list) { list.erase(list.begin() + static_cast<std::ptrdiff_t>(a)); };
      drop(axes.sizes);
      if (!axes.roles.empty()) drop(axes.roles);
      for (size_t n = 0; n < axes.nodes.size(); ++n) {
        NodeAxes& node = axes.nodes[n];
        drop(node.has);
        drop(node.reduced);
        drop(named_[n]);
        for (AxisRef& r : node.reads) drop(r.strides);
        for (AxisRef& r : node.results) drop(r.strides);
        // The merged axis stands where the outer one did.
        for (auto& d : node.dims) {
          std::erase(d, static_cast<int>(b));
          for (int& x : d)
            if (x > static_cast<int>(a)) --x;
        }
      }
      return true;
    }
    return false;
  }

  bool mergeable(const Axes& axes, size_t a) const {
    const size_t b = a + 1;
    if (!axes.roles.empty() && axes.roles[a] != axes.roles[b]) return false;
    if (axes.sizes[a] == 0 || axes.sizes[b] == 0) return false;
    for (size_t n = 0; n < axes.nodes.size(); ++n) {
      const NodeAxes& node = axes.nodes[n];
      if (node.has[a] != node.has[b]) return false;
      if (node.has[a]) {
        if (node.reduced[a] != node.reduced[b] || named_[n][a] != named_[n][b]) return false;
        if (named_[n][a] >= 0 || node.reduced[a]) {  // their order is seen
          std::vector<int> order;
          for (const auto& d : node.dims) order.insert(order.end(), d.begin(), d.end());
          const auto at = std::find(order.begin(), order.end(), static_cast<int>(a));
          if (at + 1 == order.end() || at[1] != static_cast<int>(b)) return false;
        }
      }
      for (const auto* refs : {&node.reads, &node.results})
        for (const AxisRef& r : *refs)
          if (r.strides[a] != axes.sizes[b] * r.strides[b]) return false;
    }
    return !axes.roles.empty() || !hides_sticks(axes, a);
  }

  /// Sticks of a result in memory that follow an axis, and would not follow the merged one: rows of 50 elements have
  /// sticks of their own, a run of 7 x 50 has none of which cores could own some.
  bool hides_sticks(const Axes& axes, size_t a) const {
    for (const NodeAxes& node : axes.nodes)
      for (size_t r = 0; r < node.results.size(); ++r) {
        if (!in_memory(homes_[g_.nodes[node.node].results[r]].kind)) continue;
        const AxisRef& ref = node.results[r];
        if (ref.strides[a + 1] == 0) continue;
        layout::HostView apart, merged;
        apart.offset = merged.offset = ref.offset;
        for (size_t x = 0; x < axes.sizes.size(); ++x) {
          if (ref.strides[x] == 0) continue;
          apart.sizes.push_back(axes.sizes[x]);
          apart.strides.push_back(ref.strides[x]);
          if (x == a) continue;
          merged.sizes.push_back(axes.sizes[x] * (x == a + 1 ? axes.sizes[a] : 1));
          merged.strides.push_back(ref.strides[x]);
        }
        const layout::Geometry& geometry = homes_[ref.value].geometry;
        using program::verifier::stick_shape;
        if (!stick_shape(merged, geometry).known && stick_shape(apart, geometry).known) return true;
      }
    return false;
  }

  const Graph& g_;
  const std::vector<Home>& homes_;
  Atoms atoms_;
  std::vector<Work> nodes_;
  std::map<graph::Id, std::pair<size_t, size_t>> made_;  // value -> node, result
  const Contract* contract_ = nullptr;
  std::vector<std::vector<int>> named_;  // per node and axis: the dimension that an iota names, or -1
};

}  // namespace

std::optional<Axes> common_axes(const Graph& instance, std::span<const graph::Id> nodes,
                                const std::vector<Home>& homes) {
  return Finder(instance, homes).run(nodes);
}

std::optional<Ref> refine(const Ref& ref, const Graph& instance, const std::vector<Home>& homes) {
  if (!goes_through(homes[ref.value])) return ref;
  Atoms atoms;
  std::vector<std::vector<int>> dims;
  for (const graph::Size& s : ref.sizes) dims.push_back({atoms.add(number(s))});
  Strided s = strided(atoms, ref.value, number(ref.offset), dims, numbers(ref.strides));
  if (std::any_of(ref.sizes.begin(), ref.sizes.end(), [](const graph::Size& x) { return number(x) == 0; })) {
    Ref empty = ref;  // nothing is read
    while (goes_through(homes[empty.value])) empty.value = homes[empty.value].through.value;
    empty.offset = 0;
    return empty;
  }
  if (!through_folds(atoms, s, instance, homes)) return std::nullopt;
  expand(atoms, s);
  Ref out;
  out.value = s.value;
  out.offset = s.offset;
  for (const Term& t : s.terms) {
    out.sizes.emplace_back(atoms.size(t.atom));
    out.strides.emplace_back(t.stride);
  }
  return out;
}

Ref resolve(const Ref& ref, const Graph& instance, const std::vector<Home>& homes) {
  auto refined = refine(ref, instance, homes);
  if (!refined || refined->sizes.size() != ref.sizes.size())
    fail(Fault::unimplemented, "a reference into {} doesn't follow the dimensions of the copy that was folded",
         instance.values[ref.value].name);
  return *refined;
}

}  // namespace spyre::plan
