// One op prepared for one structure of its arguments: its graph's executor, and what of a call goes where.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "torch/eager_key.h"
#include "torch/eager_op.h"

namespace spyre::torch {

struct EagerCall {
  enum class State : uint8_t {
    ready,
    by_value,  ///< the computation depends on the numbers: look again with them in the key
    resize,    ///< an out= has other sizes than the result: give it these, and look again
    refused,   ///< can't be imported or planned: `why`
  };
  std::atomic<State> state{State::ready};
  std::string why;
  std::vector<uint64_t> key;

  std::shared_ptr<engine::Executor> executor;
  struct Input {
    int slot = 0;
    bool upload = false;  ///< a CPU tensor
  };
  std::vector<Input> inputs;  ///< in the graph's order
  std::vector<int> params;    ///< per graph param: which of the call's numbers
  struct Output {
    int argument = -1;  ///< the out= that it is, or -1: a new tensor
    std::vector<int64_t> sizes, strides;
    at::ScalarType type = at::kFloat;
  };
  std::vector<Output> outputs;  ///< in the graph's order
  struct Return {
    enum class Kind : uint8_t { argument, output, integer, undefined, empty } kind = Kind::undefined;
    int64_t which = 0;  ///< argument, output, or the integer
  };
  std::vector<Return> returns;
  /// Written arguments that get a new tensor's elements by a copy behind the launch (a detour, where no program can
  /// write in place).
  struct Copy {
    int output = 0, argument = 0;
  };
  std::vector<Copy> copies;
  struct Resize {
    int argument = 0;
    std::vector<int64_t> sizes, strides;
  };
  std::vector<Resize> resizes;
  bool has_work = false;      ///< some element is written
  bool two_dtypes = false;    ///< inputs and outputs have several dtypes
  bool written_args = false;  ///< an argument is written
  bool in_place = false;      ///< by the launch itself, and not as an output

  // The launch's arguments, all but allocations and offsets filled in: for one thread at a time.
  std::atomic_flag busy;
  std::vector<engine::TensorArg> input_args, output_args;
};

struct PrepareOptions {
  bool with_values = false;  ///< the numbers are in the key, so the graph may hold them
  bool detour = false;       ///< nothing is written in place: EagerCall::copies
};

/// Imports the call and makes its executor.
std::shared_ptr<EagerCall> prepare_call(const EagerOp& op, const c10::IValue* stack, const EagerArguments& args,
                                        PrepareOptions options);

}  // namespace spyre::torch
