// Comparisons and logical operations: the result is bool.
#include "graph/import_call.h"

namespace spyre::graph {
namespace {

std::vector<Size> both_sizes(Call& call) {
  if (!call.is_tensor(0)) return call.tensor(1).sizes;
  if (!call.is_tensor(1)) return call.tensor(0).sizes;
  return broadcast(call, call.tensor(0).sizes, call.tensor(1).sizes);
}

template <VecOp op>
std::vector<Arg> compare(Call& call) {
  HostType type = result_type(call, {0, 1});
  if (!is_arithmetic(type)) call.refuse("no comparison of {}: cast to float32", base::host_name(type));
  if (type == HostType::b8) type = HostType::i32;  // false < true
  Points p(call, both_sizes(call));
  Expr a = p.operand(0, type), b = p.operand(1, type);
  return {p.elementwise(x2(op, std::move(a), std::move(b)), HostType::b8)};
}

template <VecOp op>
std::vector<Arg> logical(Call& call) {
  result_type(call, {0, 1});
  Points p(call, both_sizes(call));
  Expr a = p.read(call.tensor(0), Reg::pred), b = p.read(call.tensor(1), Reg::pred);
  return {p.elementwise(x2(op, std::move(a), std::move(b)), HostType::b8)};
}

std::vector<Arg> logical_xor(Call& call) {
  result_type(call, {0, 1});
  Points p(call, both_sizes(call));
  const Expr a = p.read(call.tensor(0), Reg::pred), b = p.read(call.tensor(1), Reg::pred);
  return {p.elementwise(where(a, x1(VecOp::logical_not, b), b), HostType::b8)};
}

constexpr ImportEntry comparison_entries[] = {
    {"aten::eq.Tensor", compare<VecOp::eq>},
    {"aten::eq.Scalar", compare<VecOp::eq>},
    {"aten::ne.Tensor", compare<VecOp::ne>},
    {"aten::ne.Scalar", compare<VecOp::ne>},
    {"aten::lt.Tensor", compare<VecOp::lt>},
    {"aten::lt.Scalar", compare<VecOp::lt>},
    {"aten::le.Tensor", compare<VecOp::le>},
    {"aten::le.Scalar", compare<VecOp::le>},
    {"aten::gt.Tensor", compare<VecOp::gt>},
    {"aten::gt.Scalar", compare<VecOp::gt>},
    {"aten::ge.Tensor", compare<VecOp::ge>},
    {"aten::ge.Scalar", compare<VecOp::ge>},
    {"aten::logical_and", logical<VecOp::logical_and>},
    {"aten::logical_or", logical<VecOp::logical_or>},
    {"aten::logical_xor", logical_xor},
};

}  // namespace

std::span<const ImportEntry> comparison_imports() { return comparison_entries; }

}  // namespace spyre::graph
