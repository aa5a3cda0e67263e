#include "plan/simplify.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/strip.h"
#include "graph/text.h"
#include "graph/walk.h"
#include "plan/axes.h"

namespace spyre::plan {

namespace {

using graph::Expr;
using graph::Graph;
using graph::HostType;
using graph::Id;
using graph::Kind;
using graph::Load;
using graph::Map;
using graph::Monoid;
using graph::Node;
using graph::Ref;
using graph::Reg;
using graph::Size;

bool is_empty(std::span<const Size> sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const Size& s) { return s.is(0); });
}

Expr constant_of(HostType type, double number) {
  const Reg reg = graph::register_of(type);
  if (reg == Reg::f32) return Expr::f32(number);
  if (reg == Reg::pred) return Expr::pred(number != 0);
  return Expr::i32(static_cast<int64_t>(number));
}

/// A Map that gives every result one number.
Map constants(const Graph& g, const Node& node, const std::vector<double>& numbers) {
  Map map;
  map.space = g.values[at(node.results[0])].sizes;
  for (size_t r = 0; r < node.results.size(); ++r)
    map.value.push_back(constant_of(g.values[at(node.results[r])].type, numbers[r]));
  return map;
}

Map copy_of(const Graph& g, const Ref& ref) { return graph::copy_of(ref, g.values[at(ref.value)].type); }

/// What a reduction of nothing gives.
std::vector<double> neutral(Monoid monoid, Reg reg) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool real = reg == Reg::f32;
  switch (monoid) {
    case Monoid::prod:
    case Monoid::all:
      return {1};
    case Monoid::max:
      return {real ? -infinity : INT32_MIN};
    case Monoid::min:
      return {real ? infinity : INT32_MAX};
    case Monoid::argmax:
      return {real ? -infinity : INT32_MIN, -1};
    case Monoid::argmin:
      return {real ? infinity : INT32_MAX, -1};
    case Monoid::welford:
      return {0, 0, 0};
    case Monoid::logsumexp:
      return {-infinity, 0};
    default:
      return {0};
  }
}

/// Gathers from a tensor without elements: every index is outside.
void gathers_of_nothing(const Graph& g, Id id) {
  const Node& node = g.nodes[at(id)];
  for (const Load& load : graph::loads_of(node.kind)) {
    if (!is_empty(g.values[at(load.ref.value)].sizes)) continue;
    fail(Fault::unimplemented, "{} takes elements by index of a tensor of shape {}, which has none",
         graph::describe(g, id),
         graph::shape_text(g.values[at(load.ref.value)].type, g.values[at(load.ref.value)].sizes));
  }
}

bool whole_box(const graph::Place& place, const graph::Place::Piece& piece) {
  for (size_t d = 0; d < place.sizes.size(); ++d) {
    if (!(piece.from.sizes[d] == place.sizes[d])) return false;
    if (!piece.start[d].is(0) || (!piece.step[d].is(1) && !place.sizes[d].is(1))) return false;
  }
  return true;
}

/// The node's new kind, when it has an empty space or changes nothing.
std::optional<Kind> simpler(const Graph& g, Node& node) {
  if (const auto* contract = std::get_if<graph::Contract>(&node.kind)) {
    if (is_empty(contract->space)) return constants(g, node, {0});
  } else if (const auto* reduce = std::get_if<graph::Reduce>(&node.kind)) {
    if (is_empty(reduce->space))
      return constants(g, node, neutral(reduce->monoid, graph::register_of(g.values[at(node.results[0])].type)));
  } else if (const auto* attention = std::get_if<graph::Attention>(&node.kind)) {
    // The logarithms have another space: only a plain attention becomes one map.
    if (is_empty(attention->k.sizes) && !attention->with_logsumexp) return constants(g, node, {0});
  } else if (const auto* scatter = std::get_if<graph::Scatter>(&node.kind)) {
    if (is_empty(scatter->space)) return copy_of(g, scatter->base);
  } else if (auto* place = std::get_if<graph::Place>(&node.kind)) {
    std::erase_if(place->pieces, [](const auto& piece) { return is_empty(piece.from.sizes); });
    if (place->pieces.empty()) return place->base ? copy_of(g, *place->base) : constants(g, node, {place->fill});
    if (whole_box(*place, place->pieces.back())) return copy_of(g, place->pieces.back().from);
  }
  return std::nullopt;
}

}  // namespace

void remove_empty(Graph& g) {
  std::vector<Node> nodes;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    Node& node = g.nodes[n];
    const bool makes_nothing =
        std::all_of(node.results.begin(), node.results.end(), [&](Id r) { return is_empty(g.values[at(r)].sizes); });
    if (!makes_nothing) {
      if (auto kind = simpler(g, node)) node.kind = std::move(*kind);
      gathers_of_nothing(g, static_cast<Id>(n));
    }
    for (Id r : node.results) g.values[at(r)].node = makes_nothing ? graph::none : static_cast<Id>(nodes.size());
    if (!makes_nothing) nodes.push_back(node);
  }
  g.nodes = std::move(nodes);
}

std::optional<std::vector<Index>> indices(const graph::Value& value, const Ref& ref) {
  const std::vector<int64_t> sizes = plan::numbers(value.sizes), strides = plan::numbers(value.strides);
  std::vector<size_t> order;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1) order.push_back(d);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  std::vector<Index> out(sizes.size());
  int64_t low = number(ref.offset);
  for (size_t i = 0; i < ref.sizes.size(); ++i) {
    if (number(ref.strides[i]) < 0) low += number(ref.strides[i]) * (number(ref.sizes[i]) - 1);
  }
  std::vector<int64_t> reach(sizes.size());
  for (size_t d : order) {
    out[d].constant = reach[d] = low / strides[d];
    low %= strides[d];
  }
  for (size_t i = 0; i < ref.sizes.size(); ++i) {
    const int64_t size = number(ref.sizes[i]), stride = number(ref.strides[i]), step = std::abs(stride);
    if (size == 1 || stride == 0) continue;
    const auto found = std::find_if(order.begin(), order.end(), [&](size_t d) { return strides[d] <= step; });
    if (found == order.end() || step % strides[*found] != 0) return std::nullopt;
    const int64_t factor = step / strides[*found];
    reach[*found] += factor * (size - 1);
    Index& index = out[*found];
    index.terms.emplace_back(static_cast<int32_t>(i), stride < 0 ? -factor : factor);
    if (stride < 0) index.constant += factor * (size - 1);
  }
  for (size_t d : order) {
    if (reach[d] >= sizes[d]) return std::nullopt;
  }
  return out;
}

namespace {

/// Operations that a reader may repeat per element instead of reading the value.
constexpr int cheap_operations = 6;

/// Operations of an expression that costs no more than that and is the same wherever it stands; or more than cheap.
int operations(const Expr& e) {
  if (e.leaf != Expr::Leaf::none) return 0;
  switch (e.op) {
    case graph::VecOp::add:
    case graph::VecOp::sub:
    case graph::VecOp::mul:
    case graph::VecOp::min:
    case graph::VecOp::max:
    case graph::VecOp::neg:
    case graph::VecOp::lt:
    case graph::VecOp::le:
    case graph::VecOp::gt:
    case graph::VecOp::ge:
    case graph::VecOp::eq:
    case graph::VecOp::ne:
    case graph::VecOp::logical_and:
    case graph::VecOp::logical_or:
    case graph::VecOp::logical_not:
    case graph::VecOp::select:
    case graph::VecOp::cast:
      break;
    default:
      return cheap_operations + 1;
  }
  int sum = 1;
  for (const Expr& a : e.args) sum += operations(a);
  return sum;
}

bool holds_registers(HostType type) {
  switch (type) {
    case HostType::f16:
    case HostType::bf16:
    case HostType::f32:
    case HostType::i32:
    case HostType::i64:
    case HostType::b8:
      return true;
    default:
      return false;
  }
}

Expr expression(const Index& index) {
  std::optional<Expr> sum;
  for (const auto& [dim, factor] : index.terms) {
    Expr term = Expr::iota(dim);
    if (factor != 1) term = Expr::make(graph::VecOp::mul, {std::move(term), Expr::i32(factor)});
    sum = sum ? Expr::make(graph::VecOp::add, {std::move(*sum), std::move(term)}) : std::move(term);
  }
  if (!sum) return Expr::i32(index.constant);
  if (index.constant != 0) sum = Expr::make(graph::VecOp::add, {std::move(*sum), Expr::i32(index.constant)});
  return *sum;
}

void replace_iotas(Expr& e, const std::vector<Index>& by) {
  if (e.leaf == Expr::Leaf::iota) {
    e = expression(by[static_cast<size_t>(e.id)]);
    return;
  }
  for (Expr& a : e.args) replace_iotas(a, by);
}

/// Replaces load `id` by `by`, and counts later loads down.
void replace_load(Expr& e, Id id, const Expr& by) {
  if (e.leaf == Expr::Leaf::load) {
    if (e.id == id)
      e = by;
    else if (e.id > id)
      --e.id;
    return;
  }
  for (Expr& a : e.args) replace_load(a, id, by);
}

/// A constant number as a store to the type would round it.
void round_constant(Expr& e, HostType type) {
  if (e.leaf != Expr::Leaf::constant || e.type != Reg::f32) return;
  double rounded = e.number;
  graph::round_values(&rounded, 1, type, {}, false);
  if (rounded - rounded == 0) e.number = rounded;  // finite
}

std::optional<Expr> inlined(const Graph& g, const Load& load) {
  const graph::Value& value = g.values[at(load.ref.value)];
  if (value.node == graph::none || !load.gathers.empty() || !holds_registers(value.type)) return std::nullopt;
  const Map* map = std::get_if<Map>(&g.nodes[at(value.node)].kind);
  if (!map || !map->loads.empty()) return std::nullopt;
  Expr e = map->value[static_cast<size_t>(value.result)];
  if (operations(e) > cheap_operations) return std::nullopt;
  if (has_leaf(e, Expr::Leaf::iota)) {
    const auto by = indices(value, load.ref);
    if (!by) return std::nullopt;
    replace_iotas(e, *by);
  }
  round_constant(e, value.type);
  return e;
}

template <typename N>
void inline_into(const Graph& g, N& n) {
  for (size_t l = n.loads.size(); l-- > 0;) {
    const auto e = inlined(g, n.loads[l]);
    if (!e) continue;
    const Id id = static_cast<Id>(l);
    n.loads.erase(n.loads.begin() + id);
    for (Load& load : n.loads)
      for (Load::Gather& gather : load.gathers) replace_load(gather.index, id, *e);
    if constexpr (std::is_same_v<N, Map>) {
      for (Expr& value : n.value) replace_load(value, id, *e);
    } else {
      replace_load(n.value, id, *e);
    }
    if constexpr (std::is_same_v<N, graph::Scatter>) {
      for (auto& target : n.targets) replace_load(target.index, id, *e);
    }
  }
}

}  // namespace

void share_equal(Graph& g) {
  std::vector<Id> instead(g.values.size());
  std::iota(instead.begin(), instead.end(), Id{0});
  std::map<std::string, const Node*> known;
  for (Node& node : g.nodes) {
    for (Ref* ref : graph::reads(node.kind)) ref->value = instead[at(ref->value)];
    std::string key = graph::print(node.kind);
    for (Id id : node.results) {
      const graph::Value& v = g.values[at(id)];
      key += fmt::format(" {}", graph::type_word(v.type));
      for (const graph::Size& stride : v.strides) key += ' ' + stride.text();
    }
    const auto [equal, first] = known.emplace(std::move(key), &node);
    if (first) continue;
    for (size_t r = 0; r < node.results.size(); ++r) instead[at(node.results[r])] = equal->second->results[r];
  }
}

void inline_constants(Graph& g) {
  for (Node& node : g.nodes) {
    std::visit(
        [&](auto& n) {
          if constexpr (requires { n.loads; }) inline_into(g, n);
        },
        node.kind);
  }
}

namespace {

/// constant + sum(factor x iota(d)), or nothing.
struct Affine {
  int64_t constant = 0;
  std::vector<int64_t> factors;
};
std::optional<Affine> affine(const Expr& e, size_t rank) {
  Affine out{0, std::vector<int64_t>(rank)};
  if (e.leaf == Expr::Leaf::constant && e.type == Reg::i32) {
    out.constant = e.integer;
    return out;
  }
  if (e.leaf == Expr::Leaf::size) {
    out.constant = number(e.size);
    return out;
  }
  if (e.leaf == Expr::Leaf::iota) {
    out.factors[static_cast<size_t>(e.id)] = 1;
    return out;
  }
  using graph::VecOp;
  if (e.leaf != Expr::Leaf::none || e.args.size() != 2 ||
      (e.op != VecOp::add && e.op != VecOp::sub && e.op != VecOp::mul))
    return std::nullopt;
  const auto a = affine(e.args[0], rank), b = affine(e.args[1], rank);
  if (!a || !b) return std::nullopt;
  const auto is_constant = [](const Affine& x) {
    return std::all_of(x.factors.begin(), x.factors.end(), [](int64_t f) { return f == 0; });
  };
  // a x p + b x q
  int64_t p = 1, q = e.op == VecOp::sub ? -1 : 1;
  if (e.op == VecOp::mul) {
    if (!is_constant(*a) && !is_constant(*b)) return std::nullopt;
    p = is_constant(*b) ? b->constant : 0;
    q = is_constant(*b) ? 0 : a->constant;
  }
  constexpr int64_t large = INT32_MAX;  // beyond it, i32 wraps
  out.constant = a->constant * p + b->constant * q;
  if (std::abs(out.constant) > large) return std::nullopt;
  for (size_t d = 0; d < rank; ++d) {
    out.factors[d] = a->factors[d] * p + b->factors[d] * q;
    if (std::abs(out.factors[d]) > large) return std::nullopt;
  }
  return out;
}

void make_strided(Load& load) {
  const size_t rank = load.ref.sizes.size();
  std::erase_if(load.gathers, [&](const Load::Gather& gather) {
    const auto index = affine(gather.index, rank);
    if (!index) return false;
    int64_t low = index->constant, high = index->constant;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t reach = index->factors[d] * (number(load.ref.sizes[d]) - 1);
      (reach < 0 ? low : high) += reach;
    }
    if (low < 0 || high >= number(gather.bound)) return false;
    const int64_t stride = number(gather.stride);
    load.ref.offset = number(load.ref.offset) + index->constant * stride;
    for (size_t d = 0; d < rank; ++d) load.ref.strides[d] = number(load.ref.strides[d]) + index->factors[d] * stride;
    return true;
  });
  if (load.gathers.empty()) load.fill = 0;
}

}  // namespace

void affine_gathers(Graph& g) {
  for (Node& node : g.nodes) {
    std::visit(
        [&](auto& n) {
          if constexpr (requires { n.loads; }) {
            for (Load& load : n.loads) make_strided(load);
          }
        },
        node.kind);
  }
}

}  // namespace spyre::plan
