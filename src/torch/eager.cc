#include "torch/eager.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "torch/copy.h"
#include "torch/eager_key.h"
#include "torch/eager_prepare.h"
#include "torch/records.h"

namespace spyre::torch {
namespace {

using at::Tensor;
using c10::IValue;
using State = EagerCall::State;

/// Prepared calls that an op keeps before it forgets them all: shapes that come once each don't pile up.
constexpr size_t most_calls = 2048;

std::shared_ptr<EagerCall> find_call(EagerOp& op, const IValue* begin, const EagerArguments& args, bool with_values) {
  const uint64_t hash = args.hash();
  const auto lookup = [&]() -> std::shared_ptr<EagerCall> {
    const auto [first, last] = op.calls.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      const std::vector<uint64_t>& key = it->second->key;
      if (key.size() == args.key.size() && std::equal(key.begin(), key.end(), args.key.begin())) return it->second;
    }
    return nullptr;
  };
  {
    const std::lock_guard<std::mutex> lock(op.mutex);
    if (auto found = lookup()) return found;
  }
  auto made = translated([&] { return prepare_call(op, begin, args, {with_values, false}); });
  made->key.assign(args.key.begin(), args.key.end());
  const std::lock_guard<std::mutex> lock(op.mutex);
  if (auto found = lookup()) return found;  // another thread was faster
  if (op.calls.size() >= most_calls) op.calls.clear();
  op.calls.emplace(hash, made);
  return made;
}

void resize_outputs(const EagerCall& call, const IValue* begin) {
  for (const EagerCall::Resize& resize : call.resizes) {
    const Tensor& out = begin[resize.argument].toTensor();
    at::native::resize_output(out, resize.sizes);
    out.unsafeGetTensorImpl()->set_sizes_and_strides(resize.sizes, resize.strides);
  }
}

/// After `error`: prepares a call that no program can do in place anew, with a detour, or marks it as refused. True:
/// look again.
bool try_detour(EagerOp& op, const IValue* begin, const EagerArguments& args, const std::shared_ptr<EagerCall>& call,
                bool with_values, const Error& error) {
  std::shared_ptr<EagerCall> other;
  if (call->in_place) {
    other = translated([&] { return prepare_call(op, begin, args, {with_values, true}); });
    other->key = call->key;
  }
  const std::lock_guard<std::mutex> lock(op.mutex);
  if (call->why.empty()) call->why = error.what();
  call->state = State::refused;
  if (!other || other->state != State::ready) return false;
  for (auto& [hash, entry] : op.calls)
    if (entry == call) entry = other;
  return true;
}

/// Gives the out of arange its elements, whose number follows from numbers that aren't in the key. False: leave it to
/// the CPU's kernel, which also words the errors.
bool size_arange(const IValue* begin) {
  const Tensor& out = begin[3].toTensor();
  const bool integral = c10::isIntegralType(out.scalar_type(), true);
  for (int i = 0; i < 3; ++i)
    if (!begin[i].isInt() && (integral || !begin[i].isDouble()))
      return false;  // integers truncate, each type in its way
  const double start = begin[0].toScalar().toDouble(), end = begin[1].toScalar().toDouble(),
               step = begin[2].toScalar().toDouble();
  const double count = std::ceil((end - start) / step);
  if (!(count >= 0 && count < 2147483648.0)) return false;
  if (out.numel() != static_cast<int64_t>(count)) at::native::resize_output(out, {static_cast<int64_t>(count)});
  return true;
}

/// One launch of a prepared call.
class Launch {
 public:
  Launch(const EagerOp& op, EagerCall& call, const EagerArguments& args, const IValue* begin)
      : op_(op), call_(call), args_(args), begin_(begin), mine_(!call.busy.test_and_set(std::memory_order_acquire)) {
    if (!mine_) {
      inputs_ = call.input_args;
      outputs_ = call.output_args;
    }
  }
  ~Launch() {
    if (mine_) call_.busy.clear(std::memory_order_release);
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// False when the arguments can't all be typed at once.
  bool run() {
    const auto device = c10::Device(device_type, static_cast<c10::DeviceIndex>(args_.device));
    if (call_.written_args) check_overlap();
    std::vector<engine::TensorArg>& inputs = mine_ ? call_.input_args : inputs_;
    std::vector<engine::TensorArg>& outputs = mine_ ? call_.output_args : outputs_;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const EagerCall::Input& input = call_.inputs[i];
      const Tensor* t = args_.slots[static_cast<size_t>(input.slot)].tensor;
      if (input.upload) t = &uploads_.emplace_back(t->contiguous().to(device));
      bind(*t, inputs[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const EagerCall::Output& output = call_.outputs[i];
      results_.push_back(output.argument >= 0 ? begin_[output.argument].toTensor()
                                              : new_tensor(output.sizes, output.strides, output.type, device));
      bind(results_.back(), outputs[i]);
    }
    if (!call_.has_work) return true;
    if (call_.two_dtypes && !typed_alike(inputs)) return false;
    c10::SmallVector<double, 4> params;
    for (const int v : call_.params) params.push_back(args_.values[static_cast<size_t>(v)].number);
    call_.executor->run(current_stream(device.index()), {}, inputs, outputs, {params.data(), params.size()});
    for (const EagerCall::Copy& copy : call_.copies)
      copy_from(results_[static_cast<size_t>(copy.output)], begin_[copy.argument].toTensor(), true);
    return true;
  }

  void replace(::torch::jit::Stack* stack) {
    std::vector<IValue> returns;
    returns.reserve(call_.returns.size());
    for (const EagerCall::Return& back : call_.returns) {
      switch (back.kind) {
        case EagerCall::Return::Kind::argument:
          returns.push_back(begin_[back.which]);
          break;
        case EagerCall::Return::Kind::output:
          returns.emplace_back(std::move(results_[static_cast<size_t>(back.which)]));
          break;
        case EagerCall::Return::Kind::integer:
          returns.emplace_back(back.which);
          break;
        case EagerCall::Return::Kind::undefined:
          returns.emplace_back(Tensor());
          break;
        case EagerCall::Return::Kind::empty:
          returns.emplace_back(at::empty({0}, args_.slots[0].tensor->options()));
          break;
      }
    }
    ::torch::jit::drop(*stack, op_.args.size());
    for (IValue& value : returns) stack->push_back(std::move(value));
  }

 private:
  void check_overlap() const {
    for (size_t i = 0; i < op_.args.size(); ++i) {
      if (!op_.args[i].written) continue;
      const int own = args_.slot_of[static_cast<size_t>(args_.first[i])];
      if (own < 0 || args_.slots[static_cast<size_t>(own)].fresh) continue;
      const Tensor& t = *args_.slots[static_cast<size_t>(own)].tensor;
      for (size_t s = 0; s < args_.slots.size(); ++s)
        if (static_cast<int>(s) != own && !args_.slots[s].cpu && args_.slots[s].tensor->is_alias_of(t))
          at::assert_no_partial_overlap(t, *args_.slots[s].tensor);
    }
  }

  static void bind(const Tensor& t, engine::TensorArg& arg) {
    arg.allocation = nullptr;
    if (t.numel() == 0) return;
    runtime::Allocation& allocation = typed_allocation(t);
    arg.allocation = &allocation;
    arg.view.offset = first_element(t, allocation);
  }

  /// Typing one argument may have taken another's type, where views of two dtypes share memory.
  bool typed_alike(const std::vector<engine::TensorArg>& inputs) const {
    const graph::Graph& graph = call_.executor->graph();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].allocation) continue;
      const auto placement = inputs[i].allocation->placement();
      if (!placement || placement->type != graph.values[static_cast<size_t>(graph.inputs[i])].type) return false;
    }
    return true;
  }

  const EagerOp& op_;
  EagerCall& call_;
  const EagerArguments& args_;
  const IValue* begin_;
  const bool mine_;  // the call's own argument lists are this launch's
  std::vector<engine::TensorArg> inputs_, outputs_;
  c10::SmallVector<Tensor, 2> uploads_;
  c10::SmallVector<Tensor, 3> results_;
};

}  // namespace

bool run_eager(EagerOp& op, ::torch::jit::Stack* stack, std::string& why) {
  const IValue* begin = stack->data() + (stack->size() - op.args.size());
  if (op.is_arange && !size_arange(begin)) return false;
  for (int round = 0; round < 3; ++round) {
    EagerArguments args;
    if (!collect(op, begin, args)) return false;
    std::shared_ptr<EagerCall> call = find_call(op, begin, args, false);
    const bool with_values = call->state == State::by_value;
    if (with_values) {
      args.add_values_to_key();
      call = find_call(op, begin, args, true);
    }
    if (call->state == State::resize) {
      TORCH_INTERNAL_ASSERT(round == 0, op.name, ": a resized out= does not have the sizes of the result");
      resize_outputs(*call, begin);
      continue;
    }
    if (call->state == State::refused) {
      why = call->why;
      return false;
    }
    Launch launch(op, *call, args, begin);
    try {
      if (!launch.run()) return false;
    } catch (const Error& error) {
      if (error.fault() != Fault::unimplemented) rethrow(error);
      if (try_detour(op, begin, args, call, with_values, error)) continue;
      why = call->why;
      return false;
    }
    launch.replace(stack);
    return true;
  }
  return false;
}

}  // namespace spyre::torch
