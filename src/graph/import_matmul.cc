// Matrix products: Contract nodes, accumulated in f32, with one map behind them where a bias or a factor is applied
// before rounding.
#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {
namespace {

using Role = Contract::Role;

HostType operand_type(const Call& call, const Ref& a, const Ref& b) {
  const HostType type = call.type(a);
  if (call.type(b) != type) call.refuse("operands of two types: cast one");
  if (!is_arithmetic(type) || type == HostType::b8) call.refuse("a product of {}", base::host_name(type));
  return type;
}

/// A product over spaces given by roles: dimension d of the space is dimension a_dims[d] of a and b_dims[d] of b, or
/// not there (-1).
Ref contract(Call& call, const Ref& a, const Ref& b, const std::vector<Role>& roles, const std::vector<int32_t>& a_dims,
             const std::vector<int32_t>& b_dims, HostType out) {
  const HostType type = operand_type(call, a, b);
  std::vector<Size> space(roles.size());
  Load from_a{{a.value, {}, {}, a.offset}, {}, 0}, from_b{{b.value, {}, {}, b.offset}, {}, 0};
  std::optional<size_t> k;
  for (size_t d = 0; d < roles.size(); ++d) {
    const auto in_a = static_cast<size_t>(a_dims[d]), in_b = static_cast<size_t>(b_dims[d]);
    const bool has_a = a_dims[d] >= 0, has_b = b_dims[d] >= 0;
    space[d] = has_a ? a.sizes[in_a] : b.sizes[in_b];
    if (has_a && has_b && !(a.sizes[in_a] == b.sizes[in_b]))
      call.refuse("sizes {} and {} must be equal", a.sizes[in_a].text(), b.sizes[in_b].text());
    from_a.ref.strides.push_back(has_a ? a.strides[in_a] : Size(0));
    from_b.ref.strides.push_back(has_b ? b.strides[in_b] : Size(0));
    if (roles[d] == Role::k) k = d;
  }
  if (k && space[*k].is(1)) {  // an outer product
    std::vector<Size> points = space;
    const auto without_k = [&](Ref ref) {
      ref.sizes = space;
      return squeezed(ref, static_cast<int32_t>(*k));
    };
    points.erase(points.begin() + static_cast<std::ptrdiff_t>(*k));
    Points p(call, points);
    Expr x = p.read(without_k(from_a.ref)), y = p.read(without_k(from_b.ref));
    return p.map(x2(VecOp::mul, std::move(x), std::move(y), type == HostType::i64), out);
  }
  from_a.ref.sizes = space;
  from_b.ref.sizes = space;
  if (!is_float(type) && type != HostType::i64 && type != HostType::i32)
    call.refuse("a product of {}: cast to int32", base::host_name(type));
  Contract node;
  node.space = std::move(space);
  node.roles = roles;
  node.a = std::move(from_a);
  node.b = std::move(from_b);
  return call.add(std::move(node), {out})[0];
}

Ref mm_of(Call& call, const Ref& a, const Ref& b, HostType out) {
  if (a.sizes.size() != 2 || b.sizes.size() != 2) call.refuse("two matrices");
  return contract(call, a, b, {Role::m, Role::n, Role::k}, {0, -1, 1}, {-1, 1, 0}, out);
}

Ref bmm_of(Call& call, const Ref& a, const Ref& b, HostType out) {
  if (a.sizes.size() != 3 || b.sizes.size() != 3) call.refuse("two batches of matrices");
  return contract(call, a, b, {Role::batch, Role::m, Role::n, Role::k}, {0, 1, -1, 2}, {0, -1, 2, 1}, out);
}

std::vector<Arg> mm(Call& call) { return {mm_of(call, call.tensor(0), call.tensor(1), call.type(call.tensor(0)))}; }
std::vector<Arg> bmm(Call& call) { return {bmm_of(call, call.tensor(0), call.tensor(1), call.type(call.tensor(0)))}; }

bool is_number(const Call& call, size_t i, double number) {
  if (const Size* s = std::get_if<Size>(&call.at(i))) return s->is(static_cast<int64_t>(number));
  if (const double* d = std::get_if<double>(&call.at(i))) return *d == number;
  return false;
}

/// In f32, so that it is rounded once, after the bias.
HostType accumulator(HostType type) { return is_float(type) ? HostType::f32 : type; }

/// beta x self + alpha x product (arguments beta, alpha); with beta = 0, self is not read.
Ref add_product(Call& call, const Ref& self, const Ref& product, size_t beta, size_t alpha, HostType type) {
  const bool trap = type == HostType::i64;
  const Reg reg = register_of(type);
  Points p(call, product.sizes);
  Expr e = p.read(product, reg);
  if (call.has(alpha) && !is_number(call, alpha, 1))
    e = x2(VecOp::mul, number_expr(call, alpha, reg), std::move(e), trap);
  if (!is_number(call, beta, 0)) {
    Expr bias = p.read(self, reg);
    if (call.has(beta) && !is_number(call, beta, 1))
      bias = x2(VecOp::mul, number_expr(call, beta, reg), std::move(bias), trap);
    e = x2(VecOp::add, std::move(e), std::move(bias), trap);
  }
  return p.map(std::move(e), type);
}

HostType same_types(const Call& call, const Ref& self, const Ref& a) {
  if (call.type(self) != call.type(a)) call.refuse("operands of two types: cast one");
  return call.type(a);
}

/// addmm(self, mat1, mat2, beta, alpha)
std::vector<Arg> addmm(Call& call) {
  const Ref self = call.tensor(0), a = call.tensor(1), b = call.tensor(2);
  const HostType type = same_types(call, self, a);
  return {add_product(call, self, mm_of(call, a, b, accumulator(type)), 3, 4, type)};
}
std::vector<Arg> baddbmm(Call& call) {
  const Ref self = call.tensor(0), a = call.tensor(1), b = call.tensor(2);
  const HostType type = same_types(call, self, a);
  return {add_product(call, self, bmm_of(call, a, b, accumulator(type)), 3, 4, type)};
}

Ref mv_of(Call& call, const Ref& a, const Ref& v, HostType out) {
  if (a.sizes.size() != 2 || v.sizes.size() != 1) call.refuse("a matrix and a vector");
  return contract(call, a, v, {Role::m, Role::k}, {0, 1}, {-1, 0}, out);
}
std::vector<Arg> mv(Call& call) { return {mv_of(call, call.tensor(0), call.tensor(1), call.type(call.tensor(0)))}; }
std::vector<Arg> addmv(Call& call) {
  const Ref self = call.tensor(0), a = call.tensor(1), v = call.tensor(2);
  const HostType type = same_types(call, self, a);
  return {add_product(call, self, mv_of(call, a, v, accumulator(type)), 3, 4, type)};
}
std::vector<Arg> dot(Call& call) {
  const Ref a = call.tensor(0), b = call.tensor(1);
  if (a.sizes.size() != 1 || b.sizes.size() != 1) call.refuse("two vectors");
  return {contract(call, a, b, {Role::k}, {0}, {0}, call.type(a))};
}

/// Batch dimensions broadcast; vectors are a row or a column that disappears.
std::vector<Arg> matmul(Call& call) {
  Ref a = call.tensor(0), b = call.tensor(1);
  const size_t rank_a = a.sizes.size(), rank_b = b.sizes.size();
  if (rank_a == 0 || rank_b == 0) call.refuse("a tensor without dimensions");
  const HostType type = call.type(a);
  if (rank_a == 1) a = unsqueezed(a, 0);
  if (rank_b == 1) b = unsqueezed(b, 1);
  const std::vector<Size> lead_a(a.sizes.begin(), a.sizes.end() - 2), lead_b(b.sizes.begin(), b.sizes.end() - 2);
  Ref out;
  if (lead_b.empty()) {  // the leading dimensions of a are rows too
    std::vector<Role> roles(a.sizes.size() - 1, Role::m);
    std::vector<int32_t> a_dims, b_dims(a.sizes.size() - 1, -1);
    for (size_t d = 0; d + 1 < a.sizes.size(); ++d) a_dims.push_back(static_cast<int32_t>(d));
    roles.insert(roles.end(), {Role::n, Role::k});
    a_dims.insert(a_dims.end(), {-1, static_cast<int32_t>(a.sizes.size()) - 1});
    b_dims.insert(b_dims.end(), {1, 0});
    out = contract(call, a, b, roles, a_dims, b_dims, type);
  } else {
    std::vector<Size> lead = broadcast(call, lead_a, lead_b);
    const auto widened = [&](const Ref& r) {
      std::vector<Size> sizes = lead;
      sizes.insert(sizes.end(), r.sizes.end() - 2, r.sizes.end());
      return expand_to(call, r, sizes);
    };
    a = widened(a);
    b = widened(b);
    const auto n = static_cast<int32_t>(lead.size());
    std::vector<Role> roles(lead.size(), Role::batch);
    std::vector<int32_t> a_dims, b_dims;
    for (int32_t d = 0; d < n; ++d) a_dims.push_back(d), b_dims.push_back(d);
    roles.insert(roles.end(), {Role::m, Role::n, Role::k});
    a_dims.insert(a_dims.end(), {n, -1, n + 1});
    b_dims.insert(b_dims.end(), {-1, n + 1, n});
    out = contract(call, a, b, roles, a_dims, b_dims, type);
  }
  const auto last = static_cast<int32_t>(out.sizes.size()) - 1;
  if (rank_b == 1) out = squeezed(out, last);
  if (rank_a == 1) out = squeezed(out, last - 1);
  return {out};
}

/// linear(input, weight [n, k], bias)
std::vector<Arg> linear(Call& call) {
  const Ref x = call.tensor(0), w = call.tensor(1);
  if (x.sizes.empty() || w.sizes.size() != 2) call.refuse("a matrix of weights");
  const HostType type = call.type(x);
  const auto rank = static_cast<int32_t>(x.sizes.size());
  std::vector<Role> roles(x.sizes.size() - 1, Role::m);
  std::vector<int32_t> x_dims, w_dims(x.sizes.size() - 1, -1);
  for (int32_t d = 0; d + 1 < rank; ++d) x_dims.push_back(d);
  roles.insert(roles.end(), {Role::n, Role::k});
  x_dims.insert(x_dims.end(), {-1, rank - 1});
  w_dims.insert(w_dims.end(), {0, 1});
  const auto bias = call.maybe_tensor(2);
  if (!bias) return {contract(call, x, w, roles, x_dims, w_dims, type)};
  same_types(call, *bias, x);
  return {add_product(call, *bias, contract(call, x, w, roles, x_dims, w_dims, accumulator(type)), 99, 99, type)};
}

constexpr ImportEntry contraction_entries[] = {
    {"aten::mm", mm},         {"aten::bmm", bmm},       {"aten::addmm", addmm}, {"aten::baddbmm", baddbmm},
    {"aten::mv", mv},         {"aten::addmv", addmv},   {"aten::dot", dot},     {"aten::vdot", dot},
    {"aten::matmul", matmul}, {"aten::linear", linear},
};

}  // namespace

std::span<const ImportEntry> contraction_imports() { return contraction_entries; }

}  // namespace spyre::graph
