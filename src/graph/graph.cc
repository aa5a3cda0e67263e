// What follows from a node's fields alone: results, sizes, references; and the expressions' constructors.
#include "graph/graph.h"

#include "base/error.h"
#include "program/vector_rules.h"

namespace spyre::graph {

Expr Expr::load(Id id, Reg type) {
  Expr e;
  e.leaf = Leaf::load;
  e.id = id;
  e.type = type;
  return e;
}

Expr Expr::f32(double number) {
  Expr e;
  e.leaf = Leaf::constant;
  e.number = number;
  return e;
}

Expr Expr::i32(int64_t integer) {
  Expr e;
  e.leaf = Leaf::constant;
  e.type = Reg::i32;
  e.integer = integer;
  return e;
}

Expr Expr::pred(bool value) {
  Expr e = i32(value ? 1 : 0);
  e.type = Reg::pred;
  return e;
}

Expr Expr::of_size(Size size) {
  Expr e;
  e.leaf = Leaf::size;
  e.type = Reg::i32;
  e.size = std::move(size);
  return e;
}

Expr Expr::of_param(Id id, bool is_float) {
  Expr e;
  e.leaf = Leaf::param;
  e.type = is_float ? Reg::f32 : Reg::i32;
  e.id = id;
  return e;
}

Expr Expr::iota(int32_t dim) {
  Expr e;
  e.leaf = Leaf::iota;
  e.type = Reg::i32;
  e.id = dim;
  return e;
}

Expr Expr::make(VecOp op, std::vector<Expr> args, bool trap) {
  Expr e;
  e.op = op;
  e.trap = trap;
  program::VecExpr shape;  // the rules are written for the tile program's expressions
  shape.op = op;
  shape.trap = trap;
  for (const Expr& a : args) {
    shape.args.emplace_back();
    shape.args.back().type = a.type;
  }
  const program::TypeOrError result = program::result_type(shape);
  if (!result.error.empty()) fail(Fault::program, "{}", result.error);
  e.type = result.type;
  e.args = std::move(args);
  return e;
}

Expr Expr::cast(Expr x, Reg type, bool trap) {
  if (x.type == type) return x;
  if (type == Reg::pred) {
    Expr zero = x.type == Reg::f32 ? f32(0) : i32(0);
    std::vector<Expr> args;
    args.push_back(std::move(x));
    args.push_back(std::move(zero));
    return make(VecOp::ne, std::move(args));
  }
  Expr e;
  e.op = VecOp::cast;
  e.type = type;
  e.trap = trap && type == Reg::i32;
  e.args.push_back(std::move(x));
  return e;
}

Expr Expr::philox(Expr seed, Expr offset, Expr index, int word) {
  std::vector<Expr> args;
  args.push_back(std::move(seed));
  args.push_back(std::move(offset));
  args.push_back(std::move(index));
  Expr e = make(VecOp::philox, std::move(args));
  e.integer = word;
  return e;
}

Reg register_of(HostType type) {
  return type == HostType::b8 ? Reg::pred : program::register_of(base::device_format(type));
}

Ref whole(const Graph& graph, Id id) {
  const Value& v = graph.values.at(static_cast<size_t>(id));
  return {id, v.sizes, v.strides, 0};
}

std::vector<Size> contiguous(std::span<const Size> sizes) {
  std::vector<Size> strides(sizes.size());
  Size step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    step = step * sizes[d];
  }
  return strides;
}

int result_count(const Kind& kind) {
  struct Visitor {
    int operator()(const Map& n) const { return static_cast<int>(n.value.size()); }
    int operator()(const Reduce& n) const { return program::states_of(n.monoid); }
    int operator()(const Contract&) const { return 1; }
    int operator()(const Attention& n) const { return n.with_logsumexp ? 2 : 1; }
    int operator()(const Place&) const { return 1; }
    int operator()(const Scatter&) const { return 1; }
    int operator()(const Scan& n) const { return program::states_of(n.monoid); }
    int operator()(const Sort&) const { return 2; }
  };
  return std::visit(Visitor{}, kind);
}

std::vector<Size> result_sizes(const Kind& kind, int r) {
  struct Visitor {
    int r;
    std::vector<Size> operator()(const Map& n) const { return n.space; }
    std::vector<Size> operator()(const Reduce& n) const {
      std::vector<Size> out;
      size_t next = 0;
      for (size_t d = 0; d < n.space.size(); ++d) {
        if (next < n.dims.size() && n.dims[next] == static_cast<int32_t>(d))
          ++next;
        else
          out.push_back(n.space[d]);
      }
      return out;
    }
    std::vector<Size> operator()(const Contract& n) const {
      std::vector<Size> out;
      for (size_t d = 0; d < n.space.size() && d < n.roles.size(); ++d) {
        if (n.roles[d] != Contract::Role::k) out.push_back(n.space[d]);
      }
      return out;
    }
    std::vector<Size> operator()(const Attention& n) const {
      if (n.q.sizes.size() != 4 || n.v.sizes.size() != 4) return {};
      std::vector<Size> out(n.q.sizes.begin(), n.q.sizes.end() - 1);
      if (r == 0) out.push_back(n.v.sizes[3]);
      return out;
    }
    std::vector<Size> operator()(const Place& n) const { return n.sizes; }
    std::vector<Size> operator()(const Scatter& n) const { return n.base.sizes; }
    std::vector<Size> operator()(const Scan& n) const { return n.space; }
    std::vector<Size> operator()(const Sort& n) const {
      std::vector<Size> out = n.from.sizes;
      if (n.k && n.dim >= 0 && static_cast<size_t>(n.dim) < out.size()) out[static_cast<size_t>(n.dim)] = *n.k;
      return out;
    }
  };
  return std::visit(Visitor{r}, kind);
}

int64_t number(const Size& size) {
  const auto value = size.constant();
  if (!value) fail(Fault::program, "size {} of an instance is no number", size.text());
  return *value;
}

std::vector<int64_t> numbers(std::span<const Size> sizes) {
  std::vector<int64_t> out;
  out.reserve(sizes.size());
  for (const Size& s : sizes) out.push_back(number(s));
  return out;
}

Map copy_of(const Ref& ref, HostType type) {
  Map map;
  map.space = ref.sizes;
  map.loads.push_back({ref, {}, 0});
  map.value.push_back(Expr::load(0, register_of(type)));
  return map;
}

std::span<const Load> loads_of(const Kind& kind) {
  struct Visitor {
    std::span<const Load> operator()(const Map& n) const { return n.loads; }
    std::span<const Load> operator()(const Reduce& n) const { return n.loads; }
    std::span<const Load> operator()(const Scan& n) const { return n.loads; }
    std::span<const Load> operator()(const Scatter& n) const { return n.loads; }
    std::span<const Load> operator()(const Contract&) const { return {}; }
    std::span<const Load> operator()(const Attention&) const { return {}; }
    std::span<const Load> operator()(const Place&) const { return {}; }
    std::span<const Load> operator()(const Sort&) const { return {}; }
  };
  return std::visit(Visitor{}, kind);
}

bool gathered(const Kind& kind, const Ref* ref) {
  const auto takes = [&](const Load& load) { return &load.ref == ref && !load.gathers.empty(); };
  if (const auto* contract = std::get_if<Contract>(&kind)) return takes(contract->a) || takes(contract->b);
  const std::span<const Load> loads = loads_of(kind);
  return std::any_of(loads.begin(), loads.end(), takes);
}

namespace {

template <typename K, typename R>
std::vector<R*> all_reads(K& kind) {
  std::vector<R*> out;
  const auto add_loads = [&](auto& loads) {
    for (auto& load : loads) out.push_back(&load.ref);
  };
  std::visit(
      [&](auto& n) {
        using N = std::remove_cvref_t<decltype(n)>;
        if constexpr (std::is_same_v<N, Contract>) {
          out = {&n.a.ref, &n.b.ref};
        } else if constexpr (std::is_same_v<N, Attention>) {
          out = {&n.q, &n.k, &n.v};
          if (n.mask) out.push_back(&*n.mask);
        } else if constexpr (std::is_same_v<N, Place>) {
          if (n.base) out.push_back(&*n.base);
          for (auto& piece : n.pieces) out.push_back(&piece.from);
        } else if constexpr (std::is_same_v<N, Sort>) {
          out = {&n.from};
        } else {
          if constexpr (std::is_same_v<N, Scatter>) out.push_back(&n.base);
          add_loads(n.loads);
        }
      },
      kind);
  return out;
}

}  // namespace

std::vector<const Ref*> reads(const Kind& kind) { return all_reads<const Kind, const Ref>(kind); }
std::vector<Ref*> reads(Kind& kind) { return all_reads<Kind, Ref>(kind); }

std::string_view kind_name(const Kind& kind) {
  constexpr std::string_view names[] = {"map", "reduce", "contract", "attention", "place", "scatter", "scan", "sort"};
  static_assert(std::size(names) == std::variant_size_v<Kind>);
  return names[kind.index()];
}

}  // namespace spyre::graph
