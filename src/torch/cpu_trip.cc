// What must survive the trip to the CPU and back: which arguments share memory, which are the same tensor, strides and
// offsets, in-place and out= results, generators, and the dtypes.
#include "torch/cpu_trip.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "torch/generator.h"
#include "torch/records.h"

namespace spyre::torch {
namespace {

using at::Tensor;
using ::torch::jit::Stack;

bool starts_with_any(const std::string& name, std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* p) { return name.rfind(p, 0) == 0; });
}

std::string describe(const Tensor& t) {
  std::ostringstream text;
  if (!t.defined()) return "undefined";
  text << (t.is_privateuseone() ? "" : "cpu ") << t.scalar_type() << t.sizes();
  return text.str();
}

/// One distinct device tensor among the arguments and its stand-in on the CPU.
struct Slot {
  Tensor device, host;
  bool written = false;  ///< any use writes it
  bool read = false;     ///< any use reads it
};

/// [lo, hi) in storage elements.
struct Extent {
  int64_t lo = 0, hi = 0;
};
Extent extent_of(const Tensor& t) {
  Extent e{t.storage_offset(), t.storage_offset() + (t.numel() > 0 ? 1 : 0)};
  for (int64_t d = 0; t.numel() > 0 && d < t.dim(); ++d) e.hi += (t.size(d) - 1) * t.stride(d);
  return e;
}

/// True when two index tuples may reach the same element.
bool overlaps_itself(const Tensor& t) {
  return t.numel() > 1 && !t.is_non_overlapping_and_dense() && at::has_internal_overlap(t) != at::MemOverlap::No;
}

Tensor host_empty(const Tensor& t) {
  return at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kCPU).pinned_memory(false));
}

/// A CPU tensor of the same sizes, strides and values.
Tensor download_like(const Tensor& t) {
  if (!overlaps_itself(t)) {
    Tensor host = host_empty(t);
    host.copy_(t);
    return host;
  }
  const Extent e = extent_of(t);
  const Tensor row = t.as_strided({e.hi - e.lo}, {1}, e.lo);
  return row.cpu().as_strided(t.sizes(), t.strides(), 0);
}

class Trip {
 public:
  Trip(const CpuOp& facts, const c10::OperatorHandle& op, Stack* stack)
      : facts_(facts), op_(op), stack_(stack), count_(op.schema().arguments().size()), begin_(stack->size() - count_) {
    collect();
  }

  void run() {
    make_hosts();
    replace_arguments();
    call();
    write_back();
    replace_returns();
  }

 private:
  void note(const Tensor& t, size_t argument, bool& off_device) {
    if (!t.defined()) return;
    if (!t.is_privateuseone()) {
      if (t.dim() > 0 || !t.is_cpu()) off_device = true;
      if (off_device && stray_.empty()) stray_ = describe(t);
      return;
    }
    if (!target_) target_ = t.device();
    TORCH_CHECK(t.device() == *target_,
                "Expected all tensors to be on the same device, but found at least two devices, ", *target_, " and ",
                t.device(), "! (", facts_.name, ")");
    Slot* slot = find(t);
    if (!slot) slot = &slots_.emplace_back(Slot{t, Tensor(), false, false});
    slot->written |= facts_.written[argument] || (facts_.running[argument] && updates_running_);
    slot->read |= !facts_.out[argument];
  }

  void collect() {
    slots_.reserve(16);
    bool off_device = false;
    originals_.assign(stack_->begin() + static_cast<std::ptrdiff_t>(begin_), stack_->end());
    if (facts_.training_argument >= 0)
      updates_running_ = originals_[static_cast<size_t>(facts_.training_argument)].toBool();
    for (size_t i = 0; i < count_; ++i) {
      const c10::IValue& value = originals_[i];
      if (value.isTensor()) {
        note(value.toTensor(), i, off_device);
      } else if (value.isTensorList()) {
        for (const Tensor& t : value.toTensorVector()) note(t, i, off_device);
      } else if (value.isOptionalTensorList()) {
        for (const auto& t : value.toOptionalTensorVector())
          if (t) note(*t, i, off_device);
      } else if (value.isDevice() && value.toDevice().is_privateuseone() && !target_) {
        target_ = value.toDevice();
      } else if (value.isGenerator() && !target_) {
        target_ = value.toGenerator().device();
      }
    }
    TORCH_CHECK(!off_device || facts_.index_like || slots_.empty(),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                target_ ? *target_ : c10::Device(at::kCPU), " and cpu! (", facts_.name, " was given ",
                describe_arguments(*stack_, begin_, count_), ")");
    if (target_ && !target_->has_index()) target_ = current_device();
  }

  Slot* find(const Tensor& t) {
    for (Slot& slot : slots_)
      if (slot.device.is_same(t)) return &slot;
    return nullptr;
  }

  /// Slots whose tensors lie in one allocation share memory on the CPU as well, if anything there is written.
  void make_hosts() {
    for (Slot& slot : slots_) {
      if (slot.host.defined()) continue;
      std::vector<Slot*> group{&slot};
      bool written = slot.written;
      for (Slot& other : slots_) {
        if (&other == &slot || other.host.defined() || !same_memory(slot.device, other.device)) continue;
        group.push_back(&other);
        written |= other.written;
      }
      if (group.size() > 1 && written) {
        share(group);
      } else if (slot.read || slot.device.numel() == 0 || overlaps_itself(slot.device)) {
        slot.host = download_like(slot.device);
      } else {
        slot.host = host_empty(slot.device);
      }
    }
  }

  static bool same_memory(const Tensor& a, const Tensor& b) {
    return a.numel() > 0 && b.numel() > 0 && memory_of(a).serial == memory_of(b).serial;
  }

  void share(const std::vector<Slot*>& group) {
    // Byte addresses within the allocation: storages over one allocation may start at different places.
    int64_t lo = INT64_MAX, hi = 0;
    bool one_type = true;
    for (Slot* s : group) {
      const int64_t item = static_cast<int64_t>(s->device.itemsize()), base = memory_of(s->device).storage_byte;
      const Extent e = extent_of(s->device);
      lo = std::min(lo, base + e.lo * item);
      hi = std::max(hi, base + e.hi * item);
      one_type &=
          s->device.scalar_type() == group[0]->device.scalar_type() && base == memory_of(group[0]->device).storage_byte;
    }
    const Tensor& first = group[0]->device;
    const int64_t base = memory_of(first).storage_byte;
    Tensor bytes;
    if (one_type) {
      const int64_t item = static_cast<int64_t>(first.itemsize());
      bytes = first.as_strided({(hi - lo) / item}, {1}, (lo - base) / item).cpu();
    } else {
      bytes = whole_memory_bytes(first).cpu();
      lo = 0;
    }
    for (Slot* s : group) {
      const int64_t item = static_cast<int64_t>(s->device.itemsize()),
                    at = memory_of(s->device).storage_byte + s->device.storage_offset() * item - lo;
      TORCH_CHECK(
          at % item == 0, facts_.name,
          ": arguments share memory at an address that is not a multiple of their element size; clone() one of them");
      s->host = at::empty({0}, s->device.options().device(at::kCPU).pinned_memory(false));
      s->host.set_(bytes.storage(), at / item, s->device.sizes(), s->device.strides());
    }
  }

  Tensor host_of(const Tensor& t) {
    if (!t.defined() || !t.is_privateuseone()) return t;
    return find(t)->host;
  }

  void replace_arguments() {
    for (size_t i = 0; i < count_; ++i) {
      c10::IValue& value = (*stack_)[begin_ + i];
      if (value.isTensor()) {
        value = host_of(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor& t : value.toTensorVector()) list.push_back(host_of(t));
        value = list;
      } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<Tensor>> list;
        for (const auto& t : value.toOptionalTensorVector())
          list.push_back(t ? std::optional<Tensor>(host_of(*t)) : std::nullopt);
        value = list;
      } else if (value.isDevice() && value.toDevice().is_privateuseone()) {
        value = c10::Device(at::kCPU);
      }
    }
    if (facts_.generator_argument < 0 || !target_) return;
    c10::IValue& value = (*stack_)[begin_ + static_cast<size_t>(facts_.generator_argument)];
    at::Generator generator = value.isGenerator() ? value.toGenerator() : default_generator(target_->index());
    TORCH_CHECK(generator.device() == *target_, facts_.name, ": expected a generator of ", *target_, ", not of ",
                generator.device(), ": make one with torch.Generator(\"", *target_, "\")");
    value = cpu_generator_for_next_op(generator);
  }

  void call() {
    try {
      invoke();
    } catch (const c10::NotImplementedError& error) {
      if (!widen(error.what())) throw;
      invoke();
    }
  }

  void invoke() {
    if (facts_.random && facts_.generator_argument < 0 && target_) {
      // The op draws from the CPU's default generator: lend it a state of ours, and put its own back.
      at::Generator cpu = at::detail::getDefaultCPUGenerator();
      const Tensor saved = cpu.get_state();
      cpu.set_current_seed(next_op_seed(default_generator(target_->index())));
      try {
        op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
      } catch (...) {
        cpu.set_state(saved);
        throw;
      }
      cpu.set_state(saved);
      return;
    }
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
  }

  /// Some CPU kernels lack the 16-bit floats, and histc the integers: prepares the call again in a wider type. False if
  /// that is not what `why` says.
  bool widen(const std::string& why) {
    if (why.find("not implemented for") == std::string::npos) return false;
    for (auto [type, word] : {std::pair{at::kHalf, "'Half'"}, {at::kBFloat16, "'BFloat16'"}})
      if (why.find(word) != std::string::npos) narrow_ = type;
    if (facts_.counts)  // in float64, which holds every value and every count
      for (auto [type, word] : {std::pair{at::kInt, "'Int'"},
                                {at::kLong, "'Long'"},
                                {at::kShort, "'Short'"},
                                {at::kChar, "'Char'"},
                                {at::kByte, "'Byte'"}})
        if (why.find(word) != std::string::npos) narrow_ = type;
    if (!narrow_) return false;
    wide_ = c10::isFloatingType(*narrow_) ? at::kFloat : at::kDouble;
    for (Slot& slot : slots_)
      if (slot.host.scalar_type() == *narrow_) slot.host = slot.host.to(wide_);
    stack_->resize(begin_);
    for (size_t i = 0; i < count_; ++i) {
      c10::IValue value = originals_[i];
      if (value.isTensor() && value.toTensor().defined() && !value.toTensor().is_privateuseone() &&
          value.toTensor().scalar_type() == *narrow_)
        value = value.toTensor().to(wide_);
      if (facts_.is_dtype[i] && value.isInt() && value.toScalarType() == *narrow_) value = wide_;
      stack_->push_back(std::move(value));
    }
    replace_arguments();
    return true;
  }

  void write_back() {
    for (Slot& slot : slots_) {
      if (!slot.written) continue;
      if (slot.host.sizes() != slot.device.sizes()) resize_strided(slot.device, slot.host.sizes(), slot.host.strides());
      if (slot.device.numel() > 0) slot.device.copy_(slot.host);
    }
  }

  Tensor to_device(const Tensor& t) {
    if (!t.defined() || !target_ || !t.is_cpu()) return t;
    for (Slot& slot : slots_)
      if (slot.host.is_same(t)) return slot.device;
    TORCH_CHECK(t.layout() == c10::kStrided, facts_.name, " makes a ", t.layout(),
                " tensor, and the spyre device holds strided tensors only: call it on the CPU");
    Tensor host = narrow_ && t.scalar_type() == wide_ ? t.to(*narrow_) : t;
    if (!host.is_non_overlapping_and_dense()) host = host.contiguous();
    Tensor device = at::empty_strided(host.sizes(), host.strides(), host.options().device(*target_));
    if (host.numel() > 0) device.copy_(host);
    return device;
  }

  void replace_returns() {
    const size_t returns = facts_.return_alias.size(), first = stack_->size() - returns;
    for (size_t i = 0; i < returns; ++i) {
      c10::IValue& value = (*stack_)[first + i];
      if (facts_.return_alias[i] >= 0) {
        value = originals_[static_cast<size_t>(facts_.return_alias[i])];
      } else if (value.isTensor()) {
        value = to_device(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor& t : value.toTensorVector()) list.push_back(to_device(t));
        value = list;
      }
    }
  }

  const CpuOp& facts_;
  const c10::OperatorHandle& op_;
  Stack* stack_;
  size_t count_, begin_;
  Stack originals_;
  std::vector<Slot> slots_;
  std::optional<c10::Device> target_;
  std::optional<at::ScalarType> narrow_;  ///< what the CPU's kernel lacks; the call is made in wide_
  at::ScalarType wide_ = at::kFloat;
  bool updates_running_ = true;
  std::string stray_;
};

}  // namespace

CpuOp cpu_op(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  CpuOp facts;
  facts.name = schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
  facts.random = op.hasTag(at::Tag::nondeterministic_seeded);
  facts.index_like =
      starts_with_any(facts.name, {"aten::index", "aten::_index", "aten::_unsafe_index", "aten::_ctc_loss"});
  facts.counts = schema.name() == "aten::histc";
  const bool updates = starts_with_any(facts.name, {"aten::native_batch_norm", "aten::batch_norm_update_stats"}) &&
                       !starts_with_any(facts.name, {"aten::native_batch_norm_backward"});
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const std::string type = argument.real_type()->str();
    const auto* alias = argument.alias_info();
    facts.written.push_back(alias && alias->isWrite());
    facts.out.push_back(argument.is_out());
    facts.is_dtype.push_back(type.rfind("ScalarType", 0) == 0);
    facts.running.push_back(updates && (argument.name() == "running_mean" || argument.name() == "running_var"));
    if (updates && argument.name() == "training") facts.training_argument = static_cast<int>(i);
    if (type.rfind("Generator", 0) == 0) facts.generator_argument = static_cast<int>(i);
  }
  for (const c10::Argument& result : schema.returns()) {
    int same = -1;
    if (const auto* alias = result.alias_info()) {
      for (size_t i = 0; i < schema.arguments().size() && same < 0; ++i) {
        const auto* other = schema.arguments()[i].alias_info();
        if (other && other->beforeSets() == alias->beforeSets()) same = static_cast<int>(i);
      }
      TORCH_CHECK(alias->isWrite(), facts.name,
                  " makes a view and has no kernel on the spyre device: views never go through the CPU");
    }
    facts.return_alias.push_back(same);
  }
  return facts;
}

std::string describe_arguments(const Stack& stack, size_t begin, size_t count) {
  std::string text;
  for (size_t i = begin; i < begin + count; ++i) {
    const c10::IValue& value = stack[i];
    std::string one;
    if (value.isTensor()) {
      one = describe(value.toTensor());
    } else if (value.isTensorList()) {
      for (const Tensor& t : value.toTensorVector()) one += (one.empty() ? "[" : ", ") + describe(t);
      one += "]";
    } else {
      continue;
    }
    text += (text.empty() ? "" : ", ") + one;
  }
  return text;
}

void run_on_cpu(const CpuOp& facts, const c10::OperatorHandle& op, Stack* stack, base::FunctionRef<void()> before) {
  Trip trip(facts, op, stack);
  before();
  try {
    trip.run();
  } catch (c10::Error& error) {
    error.add_context("in " + facts.name + ", which the spyre device runs on the CPU");
    throw;
  }
}

}  // namespace spyre::torch
