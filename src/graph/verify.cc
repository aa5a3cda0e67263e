// The rules of a graph. Shapes are compared as expressions; where they are constants, references must also stay inside.
#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/verify_expr.h"
#include "graph/walk.h"
#include "program/limits.h"
#include "program/vector_rules.h"

namespace spyre::graph {

std::string describe(const Graph& graph, Id node) {
  const Node& n = graph.nodes[static_cast<size_t>(node)];
  std::string text = fmt::format("node {} ({}", node, kind_name(n.kind));
  if (!n.loc.op.empty()) text += ", " + n.loc.op;
  if (!n.loc.source.empty()) text += " at " + n.loc.source;
  return text + ")";
}

std::string shape_text(HostType type, std::span<const Size> sizes) {
  std::string text = "[";
  for (const Size& s : sizes) text += (text.size() > 1 ? ", " : "") + s.text();
  return fmt::format("{}] {}", text, base::host_name(type));
}

namespace {

constexpr size_t max_rank = program::limits::tensor_rank;
constexpr size_t max_loads = 1000;  // of one node

std::string list_text(std::span<const Size> sizes) {
  std::string text = "[";
  for (const Size& s : sizes) text += (text.size() > 1 ? ", " : "") + s.text();
  return text + "]";
}

/// The constants of a list, if all are.
std::optional<std::vector<int64_t>> constants(std::span<const Size> sizes) {
  std::vector<int64_t> out;
  for (const Size& s : sizes) {
    const auto c = s.constant();
    if (!c) return std::nullopt;
    out.push_back(*c);
  }
  return out;
}

class Verifier {
 public:
  Verifier(const Graph& graph, Fault bounds) : g_(graph), bounds_(bounds) {}

  void run() {
    tables();
    inputs();
    defined_.assign(g_.values.size(), false);
    for (Id input : g_.inputs) defined_[static_cast<size_t>(input)] = true;
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      node_ = static_cast<Id>(n);
      const Node& node = g_.nodes[n];
      results(node);
      std::visit([&](const auto& kind) { check(kind, node); }, node.kind);
      for (size_t r = 0; r < node.results.size(); ++r) define(node, r);
    }
    node_ = none;
    for (size_t v = 0; v < g_.values.size(); ++v) {
      if (!defined_[v]) refuse("value v{} is neither an input nor a result of a node", v);
    }
    outputs();
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    raise(Fault::program, fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void outside(fmt::format_string<Args...> text, Args&&... args) const {
    raise(bounds_, fmt::format(text, std::forward<Args>(args)...));
  }
  [[noreturn]] void raise(Fault fault, const std::string& what) const {
    if (node_ == none) throw Error(fault, "graph: " + what);
    throw Error(fault, describe(g_, node_) + ": " + what);
  }

  const Value& value(Id id) const {
    if (id < 0 || static_cast<size_t>(id) >= g_.values.size()) refuse("there is no value v{}", id);
    return g_.values[static_cast<size_t>(id)];
  }

  /// Symbols of every size exist; types have a device format; numbers of dimensions are bounded.
  void tables() {
    for (const Symbol& s : g_.symbols) {
      if (s.lo > s.hi) refuse("symbol {} has no legal value: {}..{}", s.name, s.lo, s.hi);
    }
    const auto count = static_cast<Id>(g_.symbols.size());
    SizeWalk walk{[&](const Size& s) {
      if (s.highest_symbol() >= count) refuse("size {} names a symbol beyond the {} of the graph", s.text(), count);
    }};
    for (const Value& v : g_.values) {
      if (v.sizes.size() > max_rank) refuse("a value of {} dimensions, at most {}", v.sizes.size(), max_rank);
      if (v.sizes.size() != v.strides.size())
        refuse("a value of {} sizes and {} strides", v.sizes.size(), v.strides.size());
      walk.value(v);
      register_of(v.type);
      extent(v);
    }
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      node_ = static_cast<Id>(n);
      walk.kind(g_.nodes[n].kind);
    }
    node_ = none;
    for (const Ref& r : g_.outputs) walk.ref(r);
    for (const Graph::Mutation& m : g_.mutations) walk.ref(m.value);
    std::set<std::string_view> names;
    const auto unique = [&](const std::string& name) {
      if (!name.empty() && !names.insert(name).second) refuse("two things are named '{}'", name);
    };
    for (const Symbol& s : g_.symbols) unique(s.name);
    for (const Param& p : g_.params) unique(p.name);
    for (const Value& v : g_.values) unique(v.name);
  }

  void inputs() {
    std::vector<bool> seen(g_.values.size());
    for (Id id : g_.inputs) {
      const Value& v = value(id);
      if (v.node != none) refuse("input v{} is a result of node {}", id, v.node);
      if (seen[static_cast<size_t>(id)]) refuse("value v{} is two inputs", id);
      seen[static_cast<size_t>(id)] = true;
    }
  }

  /// Storage elements that a value spans, if constant: 0 when a size is 0.
  std::optional<int64_t> extent(const Value& v) const {
    const auto sizes = constants(v.sizes), strides = constants(v.strides);
    if (sizes) {
      for (int64_t s : *sizes) {
        if (s < 0) outside("value {} has a negative size", list_text(v.sizes));
      }
    }
    if (!sizes || !strides) return std::nullopt;
    if (std::find(sizes->begin(), sizes->end(), 0) != sizes->end()) return 0;
    Size last = 0;
    for (size_t d = 0; d < sizes->size(); ++d) {
      if ((*strides)[d] < 0) outside("value {} has a negative stride in {}", list_text(v.sizes), list_text(v.strides));
      last = last + Size((*sizes)[d] - 1) * Size((*strides)[d]);
    }
    if (*last.constant() >= program::limits::elements) outside("value {} has too many elements", list_text(v.sizes));
    return *last.constant() + 1;
  }

  /// A reference exists, is defined, and stays inside its value; `extra`: what gathers may add to its last element.
  void reference(const Ref& ref, std::span<const Load::Gather> gathers = {}) const {
    const Value& v = value(ref.value);
    if (!defined_[static_cast<size_t>(ref.value)]) refuse("value v{} is read before it is defined", ref.value);
    if (ref.sizes.size() != ref.strides.size())
      refuse("a reference of {} sizes and {} strides", ref.sizes.size(), ref.strides.size());
    if (ref.sizes.size() > max_rank) refuse("a reference of {} dimensions, at most {}", ref.sizes.size(), max_rank);
    const auto sizes = constants(ref.sizes), strides = constants(ref.strides);
    const auto offset = ref.offset.constant();
    const auto room = extent(v);
    if (sizes && std::find_if(sizes->begin(), sizes->end(), [](int64_t s) { return s < 0; }) != sizes->end())
      outside("a reference has a negative size: {}", list_text(ref.sizes));
    if (!sizes || !strides || !offset || !room) return;
    if (std::find(sizes->begin(), sizes->end(), 0) != sizes->end()) return;
    Size lowest = *offset, highest = *offset;
    const auto reach = [&](const Size& span) {
      (span < Size(0) ? lowest : highest) = (span < Size(0) ? lowest : highest) + span;
    };
    for (size_t d = 0; d < sizes->size(); ++d) reach(Size((*sizes)[d] - 1) * Size((*strides)[d]));
    for (const Load::Gather& gather : gathers) {
      const auto bound = gather.bound.constant(), stride = gather.stride.constant();
      if (!bound || !stride) return;
      if (*bound < 0) outside("a gather has the negative bound {}", *bound);
      if (*bound == 0) return;  // every index is outside: the gather's own rule
      reach(Size(*bound - 1) * Size(*stride));
    }
    if (*lowest.constant() < 0 || *highest.constant() >= *room)
      outside("a reference {} strides {} offset {} reads elements {} to {} of v{} {}, which has {}",
              list_text(ref.sizes), list_text(ref.strides), *offset, *lowest.constant(), *highest.constant(), ref.value,
              shape_text(v.type, v.sizes), *room);
  }

  void same(std::span<const Size> a, std::span<const Size> b, std::string_view what) const {
    if (!std::equal(a.begin(), a.end(), b.begin(), b.end()))
      refuse("{} is {}, not {}", what, list_text(a), list_text(b));
  }

  Reg reg(const Ref& ref) const { return register_of(value(ref.value).type); }

  void expr(const Expr& e, size_t rank, std::span<const Load> loads) const {
    try {
      verify_expr(g_, e, rank, loads);
    } catch (const Error& error) {
      raise(error.fault(), error.what());
    }
  }
  void expr(const Expr& e, size_t rank, std::span<const Load> loads, Reg type, std::string_view what) const {
    expr(e, rank, loads);
    if (e.type != type) refuse("{} is {}, not {}", what, program::register_name(e.type), program::register_name(type));
  }

  /// A load: its indices may name the loads before it.
  void load(const Load& l, std::span<const Size> space, std::span<const Load> before) const {
    reference(l.ref, l.gathers);
    same(l.ref.sizes, space, "a load");
    bool fills = false;
    for (const Load::Gather& gather : l.gathers) {
      expr(gather.index, space.size(), before, Reg::i32, "the index of a gather");
      fills = fills || gather.outside == OnOutside::fill;
      if (gather.outside == OnOutside::skip) refuse("a gather traps or fills; skip belongs to scatters");
    }
    if (!fills && l.fill != 0) refuse("a load has a fill value that nothing uses (Builder::add clears it)");
  }
  void loads(std::span<const Load> all, std::span<const Size> space) const {
    if (all.size() > max_loads) refuse("{} loads, at most {}", all.size(), max_loads);
    for (size_t i = 0; i < all.size(); ++i) load(all[i], space, all.first(i));
  }
  void space(std::span<const Size> sizes) const {
    if (sizes.size() > max_rank) refuse("a space of {} dimensions, at most {}", sizes.size(), max_rank);
    const auto c = constants(sizes);
    if (!c) return;
    int64_t points = 1;
    for (int64_t s : *c) {
      if (s < 0) outside("a space has a negative size: {}", list_text(sizes));
      if (__builtin_mul_overflow(points, std::max<int64_t>(s, 1), &points) || points > program::limits::elements)
        outside("a space has too many points: {}", list_text(sizes));
    }
  }
  void dimension(int32_t dim, size_t rank) const {
    if (dim < 0 || static_cast<size_t>(dim) >= rank) refuse("dimension {} of {}", dim, rank);
  }

  HostType result_type(const Node& node, size_t r) const { return value(node.results[r]).type; }
  Reg result_reg(const Node& node, size_t r) const { return register_of(result_type(node, r)); }
  void result_is(const Node& node, size_t r, Reg type) const {
    if (result_reg(node, r) != type)
      refuse("result {} is {}, but its values are {}", r, base::host_name(result_type(node, r)),
             program::register_name(type));
  }

  void results(const Node& node) const {
    const auto count = static_cast<size_t>(result_count(node.kind));
    if (node.results.size() != count) refuse("{} results, not {}", node.results.size(), count);
    for (size_t r = 0; r < count; ++r) {
      const Value& v = value(node.results[r]);
      if (v.node != node_ || v.result != static_cast<int32_t>(r) || defined_[static_cast<size_t>(node.results[r])])
        refuse("value v{} doesn't name this node as its producer", node.results[r]);
    }
  }

  void define(const Node& node, size_t r) {
    const Value& v = value(node.results[r]);
    same(v.sizes, result_sizes(node.kind, static_cast<int>(r)), "the shape of a result");
    dense(v);
    defined_[static_cast<size_t>(node.results[r])] = true;
  }

  /// Strides are a permutation of the contiguous ones (dimensions of size 1 don't count).
  void dense(const Value& v) const {
    const auto sizes = constants(v.sizes), strides = constants(v.strides);
    if (!sizes || !strides || std::find(sizes->begin(), sizes->end(), 0) != sizes->end()) return;
    std::vector<size_t> order(sizes->size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return (*strides)[a] < (*strides)[b]; });
    int64_t step = 1;
    for (size_t d : order) {
      if ((*sizes)[d] == 1) continue;
      if ((*strides)[d] != step)
        refuse("a result {} with strides {} is not dense", list_text(v.sizes), list_text(v.strides));
      step *= (*sizes)[d];
    }
  }

  void outputs() const {
    std::vector<bool> seen(g_.values.size());
    for (const Ref& ref : g_.outputs) {
      reference(ref);
      if (!(ref == whole(g_, ref.value))) refuse("an output is not the whole of v{}", ref.value);
      if (value(ref.value).node == none) refuse("output v{} is an input: Builder::output copies it", ref.value);
      if (seen[static_cast<size_t>(ref.value)])
        refuse("value v{} is two outputs: Builder::output copies it", ref.value);
      seen[static_cast<size_t>(ref.value)] = true;
    }
    std::vector<bool> mutated(g_.values.size());
    for (const Graph::Mutation& m : g_.mutations) {
      const Value& v = value(m.input);
      reference(m.value);
      if (std::find(g_.inputs.begin(), g_.inputs.end(), m.input) == g_.inputs.end())
        refuse("v{} is mutated, but no input", m.input);
      if (mutated[static_cast<size_t>(m.input)]) refuse("input v{} is mutated twice", m.input);
      mutated[static_cast<size_t>(m.input)] = true;
      same(m.value.sizes, v.sizes, "the new value of a mutated input");
      if (value(m.value.value).type != v.type)
        refuse("input v{} of {} is mutated to {}", m.input, base::host_name(v.type),
               base::host_name(value(m.value.value).type));
    }
  }

  // ---- kinds --------------------------------------------------------------------------------------------------------

  void check(const Map& n, const Node& node) const {
    if (n.value.empty()) refuse("a map without values");
    space(n.space);
    loads(n.loads, n.space);
    for (size_t r = 0; r < n.value.size(); ++r)
      expr(n.value[r], n.space.size(), n.loads, result_reg(node, r), "a value");
  }

  /// Types of a monoid's value and states.
  void monoid(Monoid m, bool trap, const Expr& e, const Node& node) const {
    const bool truth = m == Monoid::any || m == Monoid::all;
    const bool floats = m == Monoid::welford || m == Monoid::logsumexp;
    const bool arg = m == Monoid::argmax || m == Monoid::argmin;
    if (truth != (e.type == Reg::pred) || (floats && e.type != Reg::f32))
      refuse("{} of {}", program::monoid_name(m), program::register_name(e.type));
    if (trap && (e.type != Reg::i32 || (m != Monoid::sum && m != Monoid::prod)))
      refuse("trap belongs to sums and products of i32");
    for (size_t r = 0; r < node.results.size(); ++r) result_is(node, r, arg && r == 1 ? Reg::i32 : e.type);
  }

  void check(const Reduce& n, const Node& node) const {
    space(n.space);
    for (size_t i = 0; i < n.dims.size(); ++i) {
      dimension(n.dims[i], n.space.size());
      if (i > 0 && n.dims[i] <= n.dims[i - 1]) refuse("reduced dimensions are not ascending");
    }
    loads(n.loads, n.space);
    expr(n.value, n.space.size(), n.loads);
    monoid(n.monoid, n.trap, n.value, node);
  }

  void check(const Scan& n, const Node& node) const {
    space(n.space);
    dimension(n.dim, n.space.size());
    loads(n.loads, n.space);
    expr(n.value, n.space.size(), n.loads);
    monoid(n.monoid, n.trap, n.value, node);
  }

  void check(const Contract& n, const Node& node) const {
    space(n.space);
    if (n.roles.size() != n.space.size()) refuse("{} roles for {} dimensions", n.roles.size(), n.space.size());
    load(n.a, n.space, {});
    load(n.b, n.space, {});
    for (size_t d = 0; d < n.space.size(); ++d) {
      if (n.space[d].is(1)) continue;
      if (n.roles[d] == Contract::Role::n && !n.a.ref.strides[d].is(0))
        refuse("a moves along dimension {}, which is n", d);
      const auto role = n.roles[d];
      if ((role == Contract::Role::n && names_iota(n.a, d)) || (role == Contract::Role::m && names_iota(n.b, d)))
        refuse("an operand's gather depends on dimension {}, along which it stands still", d);
      if (n.roles[d] == Contract::Role::m && !n.b.ref.strides[d].is(0))
        refuse("b moves along dimension {}, which is m", d);
    }
    if (reg(n.a.ref) != reg(n.b.ref) || reg(n.a.ref) == Reg::pred)
      refuse("operands {} and {}: both floats or both integers", base::host_name(value(n.a.ref.value).type),
             base::host_name(value(n.b.ref.value).type));
    result_is(node, 0, reg(n.a.ref));
  }

  static bool names_iota(const Expr& e, size_t d) {
    if (e.leaf == Expr::Leaf::iota && e.id == static_cast<Id>(d)) return true;
    return std::any_of(e.args.begin(), e.args.end(), [d](const Expr& a) { return names_iota(a, d); });
  }
  static bool names_iota(const Load& load, size_t d) {
    return std::any_of(load.gathers.begin(), load.gathers.end(),
                       [d](const Load::Gather& g) { return names_iota(g.index, d); });
  }

  void check(const Attention& n, const Node& node) const {
    for (const Ref* ref : {&n.q, &n.k, &n.v}) {
      reference(*ref);
      if (ref->sizes.size() != 4) refuse("q, k and v have 4 dimensions, not {}", ref->sizes.size());
      if (reg(*ref) != Reg::f32) refuse("q, k and v are floats, not {}", base::host_name(value(ref->value).type));
    }
    const std::vector<Size>&q = n.q.sizes, &k = n.k.sizes, &v = n.v.sizes;
    if (!(k[0] == q[0] && v[0] == q[0] && k[1] == v[1] && k[2] == v[2] && k[3] == q[3]))
      refuse("shapes q {}, k {}, v {} don't belong together", list_text(q), list_text(k), list_text(v));
    const auto heads = q[1].constant(), groups = k[1].constant();
    if (heads && groups && (*groups <= 0 ? *heads != 0 : *heads % *groups != 0))
      outside("{} heads of q are no multiple of {} heads of k", *heads, *groups);
    if (n.mask) {
      reference(*n.mask);
      same(n.mask->sizes, std::vector<Size>{q[0], q[1], q[2], k[2]}, "the mask");
      if (reg(*n.mask) == Reg::i32) refuse("the mask is float or bool");
    }
    expr(n.scale, 0, {}, Reg::f32, "the scale");
    if (n.scale.leaf != Expr::Leaf::constant && n.scale.leaf != Expr::Leaf::param)
      refuse("the scale is a constant or a param");
    for (size_t r = 0; r < node.results.size(); ++r) result_is(node, r, Reg::f32);
  }

  void check(const Place& n, const Node& node) const {
    space(n.sizes);
    const HostType type = result_type(node, 0);
    const auto same_type = [&](const Ref& ref) {
      if (value(ref.value).type != type)
        refuse("v{} is {}, the result {}", ref.value, base::host_name(value(ref.value).type), base::host_name(type));
    };
    if (n.base) {
      reference(*n.base);
      same(n.base->sizes, n.sizes, "the base");
      same_type(*n.base);
      if (n.fill != 0) refuse("both a base and a fill value");
    }
    for (const Place::Piece& p : n.pieces) {
      reference(p.from);
      same_type(p.from);
      const size_t rank = n.sizes.size();
      if (p.from.sizes.size() != rank || p.start.size() != rank || p.step.size() != rank)
        refuse("a piece {} in {}", list_text(p.from.sizes), list_text(n.sizes));
      for (size_t d = 0; d < rank; ++d) piece_inside(p, n, d);
    }
  }
  void piece_inside(const Place::Piece& p, const Place& n, size_t d) const {
    const auto from = p.from.sizes[d].constant(), start = p.start[d].constant(), step = p.step[d].constant(),
               size = n.sizes[d].constant();
    if (step && *step < 1) outside("a piece advances by {}", *step);
    if (!from || !start || !step || !size || *from == 0) return;
    const Size last = Size(*start) + Size(*from - 1) * Size(*step);
    if (*start < 0 || *last.constant() >= *size)
      outside("a piece {} lands at {} to {} of dimension {}, which has {}", list_text(p.from.sizes), *start,
              *last.constant(), d, *size);
  }

  void check(const Scatter& n, const Node& node) const {
    space(n.space);
    reference(n.base);
    loads(n.loads, n.space);
    if (value(n.base.value).type != result_type(node, 0))
      refuse("the base is {}, the result {}", base::host_name(value(n.base.value).type),
             base::host_name(result_type(node, 0)));
    expr(n.value, n.space.size(), n.loads, reg(n.base), "the value");
    if (n.value.type == Reg::pred && n.mode != Scatter::Mode::set) refuse("predicates are only set");
    if (n.targets.size() != n.base.sizes.size())
      refuse("{} targets for {} dimensions", n.targets.size(), n.base.sizes.size());
    for (const Scatter::Target& t : n.targets) {
      expr(t.index, n.space.size(), n.loads, Reg::i32, "the index of a target");
      if (t.outside == OnOutside::fill) refuse("a scatter traps or skips; fill belongs to gathers");
    }
  }

  void check(const Sort& n, const Node& node) const {
    reference(n.from);
    dimension(n.dim, n.from.sizes.size());
    const auto size = n.from.sizes[static_cast<size_t>(n.dim)].constant();
    const auto k = n.k ? n.k->constant() : std::nullopt;
    if (k && (*k < 0 || (size && *k > *size))) outside("the first {} of {}", *k, size ? *size : 0);
    if (reg(n.from) == Reg::pred) refuse("a sort of bool: cast it to uint8");
    if (result_type(node, 0) != value(n.from.value).type)
      refuse("values of {} sorted as {}", base::host_name(value(n.from.value).type),
             base::host_name(result_type(node, 0)));
    result_is(node, 1, Reg::i32);
  }

  const Graph& g_;
  Fault bounds_;
  Id node_ = none;
  std::vector<bool> defined_;
};

}  // namespace

void verify(const Graph& graph, Fault bounds) { Verifier(graph, bounds).run(); }
void verify(const Graph& graph) { verify(graph, Fault::program); }

}  // namespace spyre::graph
