// torch.autocast("spyre"): torch's own op lists, with one boxed kernel per policy instead of a template instance per
// op.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "torch/state.h"

namespace spyre::torch {
namespace {

using at::Tensor;
using ::torch::jit::Stack;

bool castable(const Tensor& t) {
  return t.defined() && t.is_floating_point() && t.scalar_type() != at::kDouble && t.device().type() == device_type;
}

/// Calls `fn` with every tensor of one argument and puts what it returns in its place.
template <typename Fn>
void map_tensors(c10::IValue& value, Fn&& fn) {
  if (value.isTensor()) {
    value = fn(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& t : value.toTensorVector()) list.push_back(fn(t));
    value = list;
  }
}

void cast_arguments(const c10::OperatorHandle& op, Stack* stack, at::ScalarType type) {
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i)
    map_tensors((*stack)[i],
                [&](const Tensor& t) { return castable(t) ? at::autocast::cached_cast(type, t, device_type) : t; });
}

void call_without_autocast(const c10::OperatorHandle& op, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::AutocastPrivateUse1);
  op.callBoxed(stack);
}

void lower_precision(const c10::OperatorHandle& op, Stack* stack) {
  cast_arguments(op, stack, at::autocast::get_autocast_dtype(device_type));
  call_without_autocast(op, stack);
}

void float32(const c10::OperatorHandle& op, Stack* stack) {
  cast_arguments(op, stack, at::kFloat);
  call_without_autocast(op, stack);
}

/// Sums and products: the accumulation type becomes float32 through the op's own dtype argument, unless it was given.
void float32_result(const c10::OperatorHandle& op, Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack->size() - arguments.size();
  const c10::IValue& first = (*stack)[begin];
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name() == "dtype" && (*stack)[begin + i].isNone() && first.isTensor() &&
        castable(first.toTensor()))
      (*stack)[begin + i] = at::kFloat;
  call_without_autocast(op, stack);
}

void promote(const c10::OperatorHandle& op, Stack* stack) {
  at::ScalarType widest = at::autocast::get_autocast_dtype(device_type);
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i)
    map_tensors((*stack)[i], [&](const Tensor& t) {
      if (castable(t) && t.scalar_type() == at::kFloat) widest = at::kFloat;
      return t;
    });
  cast_arguments(op, stack, widest);
  call_without_autocast(op, stack);
}

void refuse_binary_cross_entropy(const c10::OperatorHandle&, Stack*) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: use "
              "binary_cross_entropy_with_logits, ",
              "or leave autocast for this op");
}

}  // namespace
}  // namespace spyre::torch

#define SPYRE_NAME_2(op, overload) #op "." #overload
#define SPYRE_NAME_1(op) #op
#define SPYRE_PICK(a, b, name, ...) name
#define SPYRE_NAME(...) SPYRE_PICK(__VA_ARGS__, SPYRE_NAME_2, SPYRE_NAME_1)(__VA_ARGS__)
#define SPYRE_LISTED(...) SPYRE_NAME(__VA_ARGS__),

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(::torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  using namespace spyre::torch;
  using ::torch::CppFunction;
  for (const char* name : {AT_FORALL_LOWER_PRECISION_FP(SPYRE_LISTED)})
    m.impl(name, CppFunction::makeFromBoxedFunction<&lower_precision>());
  for (const char* name : {AT_FORALL_FP32(SPYRE_LISTED) "norm.Scalar", "norm.ScalarOpt_dim"})
    m.impl(name, CppFunction::makeFromBoxedFunction<&float32>());
  for (const char* name : {AT_FORALL_FP32_SET_OPT_DTYPE(SPYRE_LISTED)})
    m.impl(name, CppFunction::makeFromBoxedFunction<&float32_result>());
  for (const char* name : {AT_FORALL_PROMOTE(SPYRE_LISTED) "cat", "stack"})
    m.impl(name, CppFunction::makeFromBoxedFunction<&promote>());
  m.impl("binary_cross_entropy", CppFunction::makeFromBoxedFunction<&refuse_binary_cross_entropy>());
}
