// One ATen op run on the CPU for device tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "base/function_ref.h"

namespace spyre::torch {

/// What a schema says about a trip to the CPU, worked out once per op.
struct CpuOp {
  std::string name;  ///< "aten::add.out"
  bool random = false;
  bool index_like = false;  ///< accepts CPU indices beside device tensors
  bool counts = false;      ///< histc: takes integers on other devices, but not on the CPU
  int generator_argument = -1;
  int training_argument = -1;                ///< of batch normalisation
  std::vector<bool> written, out, is_dtype;  ///< per argument
  /// Per argument: running statistics, which the CPU kernel updates though the schema hides it.
  std::vector<bool> running;
  std::vector<int> return_alias;  ///< per return: the argument it is, or -1
};

/// Throws for an op that makes views: it would have to be a kernel.
CpuOp cpu_op(const c10::OperatorHandle& op);

/// Shapes and dtypes of the tensors of a call.
std::string describe_arguments(const ::torch::jit::Stack& stack, size_t begin, size_t count);

/// Replaces the arguments on the stack by the results. Throws what torch throws for tensors of several devices; calls
/// `before` when that is checked, before anything is copied.
void run_on_cpu(const CpuOp& facts, const c10::OperatorHandle& op, ::torch::jit::Stack* stack,
                base::FunctionRef<void()> before);

}  // namespace spyre::torch
