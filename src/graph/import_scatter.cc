// Writing where tensors of indices say: index_put, scatter, index_add and their kin.
#include "graph/import_index.h"
#include "graph/views.h"

namespace spyre::graph {
namespace {

using Mode = Scatter::Mode;

void check_mode(const Call& call, Mode mode, HostType type) {
  if (mode == Mode::set) return;
  if (type == HostType::b8) call.refuse("accumulation of bool");
  if (!is_arithmetic(type) || (!is_float(type) && type != HostType::i32 && mode != Mode::max && mode != Mode::min))
    call.refuse("accumulation of {}: cast to int32 or float32", base::host_name(type));
}

Ref scattered(Call& call, const Ref& base, Points& points, Mode mode, Expr value,
              std::vector<Scatter::Target> targets) {
  const HostType type = call.type(base);
  check_mode(call, mode, type);
  Scatter node;
  node.base = base;
  node.mode = mode;
  node.space = points.space();
  node.value = stored(std::move(value), type);
  node.targets = std::move(targets);
  node.loads = points.take_loads();
  return call.add(std::move(node), {type})[0];
}

/// index_put(self, indices, values, accumulate)
std::vector<Arg> index_put(Call& call) {
  const Ref x = call.tensor(0), values = call.tensor(2);
  if (call.type(values) != call.type(x)) call.refuse("values of another type: cast them");
  const Indexing at = indexing_of(call, x, call.maybe_tensors(1));
  Points p(call, at.space);
  std::vector<Scatter::Target> targets;
  for (size_t d = 0; d < x.sizes.size(); ++d) {
    Expr index = at.index[d] ? wrapped_index(call, p, at, d, x.sizes[d]) : Expr::iota(at.dim[d]);
    targets.push_back({std::move(index), OnOutside::trap});
  }
  Expr value = p.read(values);
  return {scattered(call, x, p, call.flag(3) ? Mode::add : Mode::set, std::move(value), std::move(targets))};
}

/// strided_scatter(self, src, size, stride, offset): aten's as_strided_scatter of a contiguous tensor, with an offset
/// that counts from its first element.
std::vector<Arg> strided_scatter(Call& call) {
  const Ref x = call.tensor(0), src = call.tensor(1);
  const std::vector<Size> sizes = call.integers(2), strides = call.integers(3);
  if (call.type(src) != call.type(x)) call.refuse("values of another type: cast them");
  if (sizes != src.sizes || sizes.size() != strides.size()) call.refuse("a stride per dimension of the values");
  Points p(call, sizes);
  Expr index = integer_expr(call, call.integer_or(4, 0));
  for (size_t d = 0; d < sizes.size(); ++d)
    index = x2(VecOp::add, std::move(index),
               x2(VecOp::mul, Expr::iota(static_cast<int32_t>(d)), integer_expr(call, strides[d])));
  const Ref flat = reshaped(call, x, {numel(x.sizes)});
  Expr value = p.read(src);
  std::vector<Scatter::Target> targets;
  targets.push_back({std::move(index), OnOutside::trap});
  return {reshaped(call, scattered(call, flat, p, Mode::set, std::move(value), std::move(targets)), x.sizes)};
}

/// diagonal_scatter(self, src, offset, dim1, dim2): the diagonal is the last dimension of src.
std::vector<Arg> diagonal_scatter(Call& call) {
  const Ref x = call.tensor(0), src = call.tensor(1);
  if (call.type(src) != call.type(x)) call.refuse("values of another type: cast them");
  const int64_t offset = call.constant_or(2, 0);
  const int32_t a = call.wrap(call.constant_or(3, 0), x.sizes.size()),
                b = call.wrap(call.constant_or(4, 1), x.sizes.size());
  if (a == b || x.sizes.size() < 2 || src.sizes.size() + 1 != x.sizes.size()) call.refuse("two different dimensions");
  Points p(call, src.sizes);
  const auto along = static_cast<int32_t>(src.sizes.size()) - 1;
  std::vector<Scatter::Target> targets;
  int32_t other = 0;
  for (int32_t d = 0; d < static_cast<int32_t>(x.sizes.size()); ++d) {
    const int64_t start = d == a ? std::max<int64_t>(-offset, 0) : d == b ? std::max<int64_t>(offset, 0) : 0;
    Expr index = Expr::iota(d == a || d == b ? along : other++);
    if (start > 0) index = x2(VecOp::add, std::move(index), Expr::i32(start));
    targets.push_back({std::move(index), OnOutside::trap});
  }
  Expr value = p.read(src);
  return {scattered(call, x, p, Mode::set, std::move(value), std::move(targets))};
}

/// Targets of scatter: index along `dim`, the point's own place along the others.
std::vector<Arg> scatter_values(Call& call, Mode mode) {
  const Ref x = call.tensor(0), ids = call.tensor(2);
  const HostType type = call.type(x);
  if (call.type(ids) != HostType::i64 && call.type(ids) != HostType::i32)
    call.refuse("indices of {}", base::host_name(call.type(ids)));
  if (x.sizes.empty() || x.sizes.size() != ids.sizes.size())
    call.refuse("as many dimensions of indices as of the tensor");
  const int32_t dim = call.dim(1, x.sizes.size());
  Points p(call, ids.sizes);
  std::vector<Scatter::Target> targets;
  for (size_t d = 0; d < x.sizes.size(); ++d) {
    const bool indexed = static_cast<int32_t>(d) == dim;
    if (!indexed && !call.at_most(ids.sizes[d], x.sizes[d]))
      call.refuse("indices must be known to be inside dimension {}", d);
    targets.push_back({indexed ? p.read(ids) : Expr::iota(static_cast<int32_t>(d)), OnOutside::trap});
  }
  Expr value;
  if (call.is_tensor(3)) {
    Ref source = call.tensor(3);
    if (call.type(source) != type) call.refuse("values of another type: cast them");
    if (source.sizes.size() != ids.sizes.size()) call.refuse("as many dimensions of values as of indices");
    for (size_t d = 0; d < ids.sizes.size(); ++d) {
      if (!call.at_most(ids.sizes[d], source.sizes[d]))
        call.refuse("there must be known to be a value for every index");
      source.sizes[d] = ids.sizes[d];
    }
    value = p.read(source);
  } else {
    value = number_expr(call, 3, register_of(type));
  }
  return {scattered(call, x, p, mode, std::move(value), std::move(targets))};
}

std::vector<Arg> scatter(Call& call) { return scatter_values(call, Mode::set); }
std::vector<Arg> scatter_add(Call& call) { return scatter_values(call, Mode::add); }

Mode mode_of(const Call& call, const std::string& name) {
  if (name == "add" || name == "sum") return Mode::add;
  if (name == "multiply" || name == "prod") return Mode::prod;
  if (name == "amax") return Mode::max;
  if (name == "amin") return Mode::min;
  call.refuse("reduce {}", name);
}
std::vector<Arg> scatter_mode(Call& call) { return scatter_values(call, mode_of(call, call.text(4))); }
/// scatter_reduce.two(self, dim, index, src, reduce, include_self)
std::vector<Arg> scatter_reduce(Call& call) {
  if (call.has(5) && !call.flag(5)) call.refuse("include_self = False");
  return scatter_mode(call);
}

/// Rows of `values` (or one number) to the places of a vector of indices along `dim`.
std::vector<Arg> by_row(Call& call, Mode mode, bool scaled) {
  const Ref x = call.tensor(0), ids = call.tensor(2);
  const HostType type = call.type(x);
  if (call.type(ids) != HostType::i64 && call.type(ids) != HostType::i32)
    call.refuse("indices of {}", base::host_name(call.type(ids)));
  if (x.sizes.empty() || ids.sizes.size() > 1) call.refuse("a vector of indices");
  const Ref list = ids.sizes.empty() ? unsqueezed(ids, 0) : ids;
  const int32_t dim = call.dim(1, x.sizes.size());
  const auto d = static_cast<size_t>(dim);
  std::vector<Size> space = x.sizes;
  space[d] = list.sizes[0];
  Points p(call, space);
  std::vector<Scatter::Target> targets;
  for (size_t i = 0; i < x.sizes.size(); ++i)
    targets.push_back(
        {i == d ? p.read(over_space(list, space, d)) : Expr::iota(static_cast<int32_t>(i)), OnOutside::trap});
  Expr value;
  if (call.is_tensor(3)) {
    const Ref source = call.tensor(3);
    if (call.type(source) != type) call.refuse("values of another type: cast them");
    if (source.sizes != space && !source.sizes.empty()) call.refuse("values must have the sizes of the rows written");
    value = p.read(source);
  } else {
    value = number_expr(call, 3, register_of(type));
  }
  if (scaled && call.has(4)) {
    const bool one = (std::holds_alternative<Size>(call.at(4)) && call.integer(4).is(1)) ||
                     (std::holds_alternative<double>(call.at(4)) && call.number(4) == 1);
    if (!one) value = x2(VecOp::mul, std::move(value), number_expr(call, 4, register_of(type)));
  }
  return {scattered(call, x, p, mode, std::move(value), std::move(targets))};
}

std::vector<Arg> index_add(Call& call) { return by_row(call, Mode::add, true); }
std::vector<Arg> index_copy(Call& call) { return by_row(call, Mode::set, false); }

constexpr ImportEntry scatter_entries[] = {
    {"spyre::strided_scatter", strided_scatter},
    {"aten::index_put", index_put},
    {"aten::_unsafe_index_put", index_put},
    {"aten::diagonal_scatter", diagonal_scatter},
    {"aten::scatter.src", scatter},
    {"aten::scatter.value", scatter},
    {"aten::scatter.reduce", scatter_mode},
    {"aten::scatter.value_reduce", scatter_mode},
    {"aten::scatter_add", scatter_add},
    {"aten::scatter_reduce.two", scatter_reduce},
    {"aten::index_add", index_add},
    {"aten::index_copy", index_copy},
    {"aten::index_fill.int_Scalar", index_copy},
    {"aten::index_fill.int_Tensor", index_copy},
};

}  // namespace

std::span<const ImportEntry> scatter_imports() { return scatter_entries; }

}  // namespace spyre::graph
