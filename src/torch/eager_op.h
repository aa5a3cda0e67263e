// What is known of an ATen op before any call: its overload in the importer's table and what each argument may be.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace spyre::torch {

struct EagerCall;  // eager_prepare.h: one op prepared for one structure of its arguments

enum class ArgKind : uint8_t {
  tensor,    ///< Tensor, Tensor?
  tensors,   ///< Tensor[], Tensor?[]
  number,    ///< Scalar: its type takes part in promotion
  floating,  ///< float
  integer,
  integers,
  flag,
  text,
  dtype,
  format,   ///< a memory format
  ignored,  ///< layout, device, pin_memory: they say where, and that is known
  absent,   ///< only None is understood
};

struct EagerArg {
  ArgKind kind = ArgKind::absent;
  bool written = false;   ///< in place or out=
  bool out = false;       ///< out=: what it held is not read
  bool factor = false;    ///< alpha, beta: 0 and 1 make another computation
  bool element = false;   ///< a number that becomes an element of the first tensor: it must fit its type
  bool constant = false;  ///< a number worth a program of its own (an exponent)
};

/// One op of the dispatcher that the importer knows, and its prepared calls.
struct EagerOp {
  std::string name;              ///< "aten::add_.Tensor"
  std::string functional;        ///< "aten::add.Tensor"
  std::vector<int> order;        ///< arguments of the functional overload: positions in this op's, or dtype_of_out
  std::vector<EagerArg> args;    ///< in the order of the schema
  std::vector<int> alias;        ///< per return: the argument that it is, or -1
  std::vector<int> silent;       ///< arguments into which results go that the op doesn't return
  std::vector<bool> is_integer;  ///< per return: a number of elements
  bool pointwise = false;        ///< the strides of its result are those of torch's iterator
  bool is_arange = false;        ///< its number of elements follows from numbers
  bool takes_cpu_indices = false;
  bool casts_out = false;   ///< out= may have another dtype than the result
  int dtype_argument = -1;  ///< None there means the dtype of out=
  int must_be_false = -1;   ///< an argument: calls where it is true have no functional overload

  static constexpr int dtype_of_out = -2;

  std::mutex mutex;  ///< calls
  std::unordered_multimap<uint64_t, std::shared_ptr<EagerCall>> calls;
};

/// Null when the importer doesn't know the op, or calls of it have a form that it never takes (random numbers, lists of
/// results).
std::unique_ptr<EagerOp> eager_op(const c10::OperatorHandle& op);

}  // namespace spyre::torch
