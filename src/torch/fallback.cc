// The boxed kernel: an op runs on the device if it can be imported and planned (eager.h), else on the CPU (cpu_trip.h).
#include "torch/fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/env.h"
#include "torch/cpu_trip.h"
#include "torch/eager.h"

namespace spyre::torch {
namespace {

using ::torch::jit::Stack;

enum class FallbackMode { warn, error, silent };

FallbackMode read_mode() {
  const std::string text = base::env_string("SPYRE_FALLBACK", "warn");
  if (text == "warn") return FallbackMode::warn;
  if (text == "error") return FallbackMode::error;
  TORCH_CHECK(text == "silent", "SPYRE_FALLBACK=", text, ": must be warn (the default), error or silent");
  return FallbackMode::silent;
}

/// What a schema says, worked out once per op.
struct OpFacts {
  /// As registered: an op may be taken out of the dispatcher and another come to its address.
  c10::OperatorName op{"", ""};
  CpuOp cpu;
  std::unique_ptr<EagerOp> eager;  ///< null: never runs on the device
  bool attention = false;
  int64_t count = 0;  ///< runs on the CPU
  bool told = false;
};

std::mutex facts_mutex;
std::unordered_map<const void*, std::unique_ptr<OpFacts>>& facts_table() {
  static auto* table = new std::unordered_map<const void*, std::unique_ptr<OpFacts>>();
  return *table;
}
std::function<void(const std::string&, const std::string&)>& warning() {
  static auto* fn = new std::function<void(const std::string&, const std::string&)>();
  return *fn;
}

OpFacts& facts_of(const c10::OperatorHandle& op) {
  const std::lock_guard<std::mutex> lock(facts_mutex);
  auto& entry = facts_table()[&op.schema()];
  if (!entry || entry->op != op.operator_name()) {
    auto made = std::make_unique<OpFacts>();
    made->op = op.operator_name();
    made->cpu = cpu_op(op);
    made->eager = eager_op(op);
    made->attention = made->cpu.name == "aten::_scaled_dot_product_fused_attention_overrideable";
    entry = std::move(made);
  }
  return *entry;
}

/// Counts and tells a run on the CPU, or forbids it. `why`: what keeps the call off the device, or empty.
void announce(OpFacts& facts, const c10::OperatorHandle& op, const Stack& stack, const std::string& why) {
  static const FallbackMode mode = read_mode();
  bool tell = false;
  {
    const std::lock_guard<std::mutex> lock(facts_mutex);
    if (mode != FallbackMode::error) ++facts.count;
    tell = !facts.told;
    facts.told = true;
  }
  if (mode != FallbackMode::error && !(tell && mode == FallbackMode::warn)) return;
  const size_t count = op.schema().arguments().size();
  std::string arguments = describe_arguments(stack, stack.size() - count, count);
  TORCH_CHECK_NOT_IMPLEMENTED(mode != FallbackMode::error, facts.cpu.name, "(", arguments,
                              ") has no kernel on the spyre device", why.empty() ? "" : " (" + why + ")",
                              ", and SPYRE_FALLBACK=error forbids running it on the CPU: unset SPYRE_FALLBACK to allow "
                              "that, or call .cpu() where it is meant");
  if (warning()) warning()(facts.cpu.name, arguments);
}

/// Attention that no program does whole (the CPU has no kernel for this op either): its definition, op by op.
void attention_by_definition(Stack* stack) {
  const auto args = ::torch::jit::last(*stack, 8);
  const at::Tensor q = args[0].toTensor(), k = args[1].toTensor(), v = args[2].toTensor();
  const std::optional<at::Tensor> bias = args[3].toOptional<at::Tensor>();
  const at::Tensor out = std::get<0>(
      at::_scaled_dot_product_attention_math(q, k, v, bias, args[4].toDouble(), args[5].toBool(), std::nullopt,
                                             args[7].toOptional<double>(), q.size(-3) != k.size(-3)));
  const int64_t length_q = q.size(-2), length_k = k.size(-2);
  ::torch::jit::drop(*stack, 8);
  const at::Tensor none;
  ::torch::jit::push(*stack, out, none, none, none, length_q, length_k, none, none, none);
}

/// On the device if the op can be imported and planned, else on the CPU.
void boxed_kernel(const c10::OperatorHandle& op, Stack* stack) {
  OpFacts& facts = facts_of(op);
  std::string why;
  if (facts.eager && run_eager(*facts.eager, stack, why)) return;
  if (facts.attention) {
    attention_by_definition(stack);
    return;
  }
  run_on_cpu(facts.cpu, op, stack, [&] { announce(facts, op, *stack, why); });
}

}  // namespace

std::map<std::string, int64_t> fallback_counts() {
  const std::lock_guard<std::mutex> lock(facts_mutex);
  std::map<std::string, int64_t> counts;
  for (const auto& [key, facts] : facts_table())
    if (facts->count > 0) counts[facts->cpu.name] = facts->count;
  return counts;
}

void reset_fallback_counts() {
  const std::lock_guard<std::mutex> lock(facts_mutex);
  for (const auto& [key, facts] : facts_table()) facts->count = 0;
}

void set_fallback_warning(std::function<void(const std::string&, const std::string&)> warn) {
  warning() = std::move(warn);
}

}  // namespace spyre::torch

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(::torch::CppFunction::makeFromBoxedFunction<&spyre::torch::boxed_kernel>());
}

// Ops that have a composite kernel, which would hide the kernel above and take many launches or trips to the CPU
// instead of one, and ops whose composite kernel raises for a device it does not know.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"native_layer_norm", "native_group_norm", "_fused_rms_norm", "embedding", "silu_backward",
                           "mish_backward", "native_channel_shuffle", "addr", "addr.out", "all.dims", "any.dims",
                           "_grouped_mm", "convolution", "_convolution", "convolution_overrideable",
                           "convolution_backward", "_scaled_dot_product_fused_attention_overrideable"})
    m.impl(name, ::torch::CppFunction::makeFromBoxedFunction<&spyre::torch::boxed_kernel>());
}
