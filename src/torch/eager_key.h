// One call as the eager path sees it: which tensors it has, the numbers that are known only at launch, and a key of all
// else.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <cstdint>

#include "torch/eager_op.h"

namespace spyre::torch {

/// A distinct tensor among the arguments. Arguments that are the same view of the same memory are one.
struct EagerSlot {
  const at::Tensor* tensor = nullptr;
  bool cpu = false;
  bool read = false;   ///< by an argument that isn't out=
  bool fresh = false;  ///< an out= that is all of its memory and shares it with no other argument
  int value = -1;      ///< cpu, without dimensions: which of `values` its element is
};

/// A number of the call.
struct EagerValue {
  double number = 0;
  bool floating = false;
  bool flag = false;
};

struct EagerArguments {
  c10::SmallVector<EagerSlot, 8> slots;
  c10::SmallVector<int, 12> slot_of;  ///< per tensor argument and element of a list, in order: its slot, -1: None
  c10::SmallVector<int, 16> first;    ///< per argument: its first place in slot_of, or in values for numbers
  c10::SmallVector<EagerValue, 4> values;
  c10::SmallVector<uint64_t, 96> key;
  int64_t device = -1;  ///< index
  /// Appends the values, for calls whose structure depends on them.
  void add_values_to_key();
  uint64_t hash() const;
};

/// False for what the eager path never takes: it leaves the call to the fallback, which also words the errors (tensors
/// of several devices, symbolic numbers, complex numbers).
bool collect(const EagerOp& op, const c10::IValue* stack, EagerArguments& into);

}  // namespace spyre::torch
