// Running results along a dimension, and sorting.
#include <limits>

#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {
namespace {

/// A tensor without dimensions has one of size 1 here.
struct Line {
  Ref ref;
  int32_t dim;
  bool scalar;
};
Line line_of(const Call& call, size_t dim_argument, int64_t otherwise) {
  const Ref x = call.tensor(0);
  const int32_t dim = call.wrap(call.constant_or(dim_argument, otherwise), x.sizes.size());
  if (x.sizes.empty()) return {unsqueezed(x, 0), 0, true};
  return {x, dim, false};
}
Ref back(const Line& line, const Ref& out) { return line.scalar ? squeezed(out, 0) : out; }

/// cumsum(self, dim, dtype)
template <Monoid monoid>
std::vector<Arg> running(Call& call) {
  const Line line = line_of(call, 1, 0);
  const HostType own = call.type(line.ref);
  const HostType type = call.dtype(2).value_or(is_float(own) ? own : HostType::i64);
  if (!is_arithmetic(own) || !is_arithmetic(type) ||
      (!is_float(type) && type != HostType::i64 && type != HostType::i32))
    call.refuse("in {}", base::host_name(type));
  Points p(call, line.ref.sizes);
  Expr value = stored(p.read(line.ref), type);
  return {back(line, p.scan(monoid, line.dim, std::move(value), {type}, type == HostType::i64)[0])};
}

/// cummax(self, dim): values, indices
template <Monoid monoid>
std::vector<Arg> running_extreme(Call& call) {
  const Line line = line_of(call, 1, 0);
  const HostType type = call.type(line.ref);
  if (!is_arithmetic(type) || type == HostType::b8) call.refuse("of {}", base::host_name(type));
  Points p(call, line.ref.sizes);
  Expr value = p.read(line.ref);
  const std::vector<Ref> out = p.scan(monoid, line.dim, std::move(value), {type, HostType::i64});
  return {back(line, out[0]), back(line, out[1])};
}

std::vector<Arg> logcumsumexp(Call& call) {
  const Line line = line_of(call, 1, 0);
  const HostType type = call.type(line.ref);
  if (!is_float(type) || !is_arithmetic(type)) call.refuse("of {}", base::host_name(type));
  Points p(call, line.ref.sizes);
  Expr value = p.read(line.ref);
  const std::vector<Ref> state = p.scan(Monoid::logsumexp, line.dim, std::move(value), {HostType::f32, HostType::f32});
  Points q(call, line.ref.sizes);
  const Expr max = q.read(state[0]);
  Expr finite = x2(VecOp::add, max, x1(VecOp::log, q.read(state[1])));
  Expr infinite = x2(VecOp::eq, x1(VecOp::abs, max), Expr::f32(std::numeric_limits<double>::infinity()));
  return {back(line, q.map(where(std::move(infinite), max, std::move(finite)), type))};
}

struct Sorted {
  Ref values, indices;
};
Sorted sorted(Call& call, const Line& line, bool descending, std::optional<Size> first) {
  const HostType type = call.type(line.ref);
  if (!is_arithmetic(type)) call.refuse("of {}: cast to float32", base::host_name(type));
  Sort node;
  node.from = as_type(call, line.ref, type == HostType::b8 ? HostType::u8 : type);
  node.dim = line.dim;
  node.descending = descending;
  node.k = std::move(first);
  const HostType sorted_type = call.type(node.from);
  const std::vector<Ref> out = call.add(std::move(node), {sorted_type, HostType::i64});
  return {back(line, as_type(call, out[0], type)), back(line, out[1])};
}

/// sort(self, dim, descending)
std::vector<Arg> sort(Call& call) {
  const Sorted s = sorted(call, line_of(call, 1, -1), call.flag(2), std::nullopt);
  return {s.values, s.indices};
}
/// sort.stable(self, stable, dim, descending)
std::vector<Arg> sort_stable(Call& call) {
  const Sorted s = sorted(call, line_of(call, 2, -1), call.flag(3), std::nullopt);
  return {s.values, s.indices};
}
std::vector<Arg> argsort(Call& call) {
  return {sorted(call, line_of(call, 1, -1), call.flag(2), std::nullopt).indices};
}
/// argsort.stable(self, stable, dim, descending)
std::vector<Arg> argsort_stable(Call& call) {
  return {sorted(call, line_of(call, 2, -1), call.flag(3), std::nullopt).indices};
}

/// topk(self, k, dim, largest, sorted)
std::vector<Arg> topk(Call& call) {
  const Line line = line_of(call, 2, -1);
  const Size k = call.integer(1);
  if (!call.at_most(0, k) || !call.at_most(k, line.ref.sizes[static_cast<size_t>(line.dim)]))
    call.refuse("k must be known to be at most the size");
  const Sorted s = sorted(call, line, !call.has(3) || call.flag(3), k);
  return {s.values, s.indices};
}

constexpr ImportEntry order_entries[] = {
    {"aten::cumsum", running<Monoid::sum>},
    {"aten::cumprod", running<Monoid::prod>},
    {"aten::cummax", running_extreme<Monoid::argmax>},
    {"aten::cummin", running_extreme<Monoid::argmin>},
    {"aten::logcumsumexp", logcumsumexp},
    {"aten::sort", sort},
    {"aten::sort.stable", sort_stable},
    {"aten::argsort", argsort},
    {"aten::argsort.stable", argsort_stable},
    {"aten::topk", topk},
};

}  // namespace

std::span<const ImportEntry> order_imports() { return order_entries; }

}  // namespace spyre::graph
