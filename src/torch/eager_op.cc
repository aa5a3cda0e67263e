#include "torch/eager_op.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <array>

#include "graph/import.h"

namespace spyre::torch {
namespace {

/// Ops that are another one of the table with some of its arguments.
struct Rename {
  std::string_view op, functional;
  std::vector<int> order;        ///< as EagerOp::order
  int must_be_false = -1;        ///< an argument
  std::vector<int> silent = {};  ///< as EagerOp::silent
};
const std::vector<Rename>& renames() {
  constexpr int type = EagerOp::dtype_of_out;
  static const auto* table = new std::vector<Rename>{
      {"aten::_index_put_impl_", "aten::index_put", {0, 1, 2, 3}},
      {"aten::_convolution", "aten::convolution", {0, 1, 2, 3, 4, 5, 6, 7, 8}},
      {"aten::native_batch_norm", "aten::_native_batch_norm_legit_no_training", {0, 1, 2, 3, 4, 6, 7}, 5},
      {"aten::_cummax_helper", "aten::cummax", {0, 3}, -1, {1, 2}},
      {"aten::_cummin_helper", "aten::cummin", {0, 3}, -1, {1, 2}},
      {"aten::_logcumsumexp", "aten::logcumsumexp", {0, 1}},
      {"aten::arange.start_out", "aten::arange.start_step", {0, 1, 2, type}},
      {"aten::eye.out", "aten::eye", {0, type}},
      {"aten::eye.m_out", "aten::eye.m", {0, 1, type}},
      {"aten::__lshift__.Scalar", "aten::bitwise_left_shift.Tensor_Scalar", {0, 1}},
      {"aten::__rshift__.Scalar", "aten::bitwise_right_shift.Tensor_Scalar", {0, 1}},
  };
  return *table;
}

ArgKind kind_of(c10::TypePtr type) {
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return ArgKind::tensor;
    case c10::TypeKind::NumberType:
      return ArgKind::number;
    case c10::TypeKind::FloatType:
      return ArgKind::floating;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ArgKind::integer;
    case c10::TypeKind::BoolType:
      return ArgKind::flag;
    case c10::TypeKind::StringType:
      return ArgKind::text;
    case c10::TypeKind::ScalarTypeType:
      return ArgKind::dtype;
    case c10::TypeKind::MemoryFormatType:
      return ArgKind::format;
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::DeviceObjType:
      return ArgKind::ignored;
    case c10::TypeKind::ListType: {
      c10::TypePtr element = type->castRaw<c10::ListType>()->getElementType();
      if (const auto optional = element->cast<c10::OptionalType>()) element = optional->getElementType();
      if (element->kind() == c10::TypeKind::TensorType) return ArgKind::tensors;
      if (element->kind() == c10::TypeKind::IntType || element->kind() == c10::TypeKind::SymIntType)
        return ArgKind::integers;
      return ArgKind::absent;
    }
    default:
      return ArgKind::absent;
  }
}

/// The overload in the importer's table, and the order of its arguments.
bool find_functional(EagerOp& op) {
  for (const Rename& rename : renames()) {
    if (rename.op != op.name) continue;
    op.functional = rename.functional;
    op.order = rename.order;
    op.must_be_false = rename.must_be_false;
    op.silent = rename.silent;
    return graph::importable(op.functional);
  }
  op.functional = graph::importable(op.name) &&
                          !std::any_of(op.args.begin(), op.args.end(), [](const EagerArg& a) { return a.written; })
                      ? std::string_view(op.name)
                      : graph::functional_of(op.name);
  for (size_t i = 0; i < op.args.size(); ++i)
    if (!op.args[i].out) op.order.push_back(static_cast<int>(i));
  return !op.functional.empty();
}

bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::unique_ptr<EagerOp> eager_op(const c10::OperatorHandle& handle) {
  const c10::FunctionSchema& schema = handle.schema();
  auto op = std::make_unique<EagerOp>();
  op->name = schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
  // Attention has a seed for its dropout, without which it is no random op.
  const bool attention = schema.name().find("scaled_dot_product") != std::string::npos;
  if (handle.hasTag(at::Tag::nondeterministic_seeded) && !attention) return nullptr;
  for (const c10::Argument& argument : schema.arguments()) {
    EagerArg arg;
    arg.kind = argument.name() == "pin_memory" ? ArgKind::ignored : kind_of(argument.real_type());
    const auto* alias = argument.alias_info();
    arg.written = alias && alias->isWrite();
    arg.out = argument.is_out();
    arg.factor = arg.kind == ArgKind::number && (argument.name() == "alpha" || argument.name() == "beta");
    arg.constant = arg.kind == ArgKind::number && argument.name() == "exponent";
    arg.element = arg.kind == ArgKind::number &&
                  (argument.name() == "min" || argument.name() == "max" || argument.name() == "value");
    if (arg.kind == ArgKind::dtype && argument.name() == "dtype")
      op->dtype_argument = static_cast<int>(op->args.size());
    op->args.push_back(arg);
  }
  size_t written = 0;
  for (const c10::Argument& result : schema.returns()) {
    int same = -1;
    if (const auto* alias = result.alias_info()) {
      for (size_t i = 0; i < op->args.size() && same < 0; ++i) {
        const auto* other = schema.arguments()[i].alias_info();
        if (op->args[i].written && other->beforeSets() == alias->beforeSets()) same = static_cast<int>(i);
      }
      if (same < 0) return nullptr;
      ++written;
    }
    const auto kind = result.type()->kind();
    const bool integer = kind == c10::TypeKind::IntType || kind == c10::TypeKind::SymIntType;
    if (!integer && kind != c10::TypeKind::TensorType) return nullptr;
    op->alias.push_back(same);
    op->is_integer.push_back(integer);
  }
  for (const EagerArg& arg : op->args)
    if (arg.written && arg.kind != ArgKind::tensor) return nullptr;
  if (!find_functional(*op)) return nullptr;
  const auto all = std::count_if(op->args.begin(), op->args.end(), [](const EagerArg& a) { return a.written; });
  if (static_cast<size_t>(all) != written + op->silent.size()) return nullptr;
  for (const int argument : op->silent) op->args[static_cast<size_t>(argument)].out = true;
  op->is_arange = op->name == "aten::arange.start_out";
  op->pointwise = handle.hasTag(at::Tag::pointwise) || op->name == "aten::flip";
  op->takes_cpu_indices = op->name.rfind("aten::index", 0) == 0 || op->name.rfind("aten::_index", 0) == 0 ||
                          op->name.rfind("aten::_unsafe_index", 0) == 0;
  op->casts_out = op->pointwise || is_any(schema.name(), {"aten::cat", "aten::all", "aten::any"});
  return op;
}

}  // namespace spyre::torch
