#include "torch/eager_key.h"

#include <bit>
#include <cmath>

#include "torch/state.h"

namespace spyre::torch {
namespace {

using at::Tensor;
using c10::IValue;

// Kinds of words in a key. Each argument starts with one, so that keys of different structure differ.
enum Word : uint64_t { none = 1, tensor, again, list, integer, number, text, flag };
constexpr uint64_t word(Word kind, uint64_t rest = 0) { return (rest << 8) | kind; }

bool cpu_element(const Tensor& t, EagerValue& out) {
  const void* at = t.const_data_ptr();
  const auto floating = [&](double x) { out = {x, true, false}; };
  const auto whole = [&](int64_t x) { out = {static_cast<double>(x), false, false}; };
  switch (t.scalar_type()) {
    case at::kDouble:
      return floating(*static_cast<const double*>(at)), true;
    case at::kFloat:
      return floating(static_cast<double>(*static_cast<const float*>(at))), true;
    case at::kHalf:
      return floating(static_cast<double>(static_cast<float>(*static_cast<const at::Half*>(at)))), true;
    case at::kBFloat16:
      return floating(static_cast<double>(static_cast<float>(*static_cast<const at::BFloat16*>(at)))), true;
    case at::kLong: {
      const int64_t x = *static_cast<const int64_t*>(at);
      if (x != static_cast<int32_t>(x)) return false;
      return whole(x), true;
    }
    case at::kInt:
      return whole(*static_cast<const int32_t*>(at)), true;
    case at::kShort:
      return whole(*static_cast<const int16_t*>(at)), true;
    case at::kChar:
      return whole(*static_cast<const int8_t*>(at)), true;
    case at::kByte:
      return whole(*static_cast<const uint8_t*>(at)), true;
    case at::kBool:
      out = {*static_cast<const bool*>(at) ? 1.0 : 0.0, false, true};
      return true;
    default:
      return false;
  }
}

class Collector {
 public:
  Collector(const EagerOp& op, EagerArguments& into) : op_(op), to_(into) {}

  bool argument(const EagerArg& arg, const IValue& value) {
    const bool tensors = arg.kind == ArgKind::tensor || arg.kind == ArgKind::tensors;
    to_.first.push_back(static_cast<int>(tensors ? to_.slot_of.size() : to_.values.size()));
    if (value.isNone()) {
      if (arg.kind == ArgKind::tensor) to_.slot_of.push_back(-1);
      if (arg.kind != ArgKind::ignored) to_.key.push_back(word(none));
      return true;
    }
    switch (arg.kind) {
      case ArgKind::tensor:
        return one_tensor(value.toTensor(), arg);
      case ArgKind::tensors: {
        const auto all = value.toListRef();
        to_.key.push_back(word(list, all.size()));
        for (const IValue& each : all) {
          if (each.isNone()) {
            to_.slot_of.push_back(-1);
            to_.key.push_back(word(none));
          } else if (!one_tensor(each.toTensor(), arg)) {
            return false;
          }
        }
        return true;
      }
      case ArgKind::number:
      case ArgKind::floating:
        return one_number(value, arg);
      case ArgKind::integer:
      case ArgKind::dtype:
      case ArgKind::format:
        if (!value.isInt()) return false;
        push_integer(value.toInt());
        return true;
      case ArgKind::integers: {
        if (value.isInt()) {
          push_integer(value.toInt());
          return true;
        }
        if (!value.isIntList()) return value.isList() && value.toListRef().empty() && (push_list(0), true);
        const c10::List<int64_t> all = value.toIntList();
        push_list(all.size());
        for (size_t i = 0; i < all.size(); ++i) to_.key.push_back(static_cast<uint64_t>(all.get(i)));
        return true;
      }
      case ArgKind::flag:
        if (!value.isBool()) return false;
        to_.key.push_back(word(flag, value.toBool()));
        return true;
      case ArgKind::text: {
        const std::string& s = value.toStringRef();
        to_.key.push_back(word(text, s.size()));
        for (const char c : s) to_.key.push_back(static_cast<uint8_t>(c));
        return true;
      }
      case ArgKind::ignored:
        if (value.isDevice() && value.toDevice().has_index()) to_.device = value.toDevice().index();
        return true;
      case ArgKind::absent:
        return false;
    }
    return false;
  }

  /// Outs that are all of their memory: the last word on them, once all tensors are known.
  void finish() {
    for (size_t s = 0; s < to_.slots.size(); ++s) {
      EagerSlot& slot = to_.slots[s];
      if (slot.cpu || slot.read) continue;
      const Tensor& t = *slot.tensor;
      const auto& storage = t.storage();
      bool fresh = t.numel() > 0 && t.storage_offset() == 0 && t.nbytes() == storage.nbytes() &&
                   t.is_non_overlapping_and_dense();
      for (size_t o = 0; fresh && o < to_.slots.size(); ++o)
        fresh = o == s || to_.slots[o].cpu || !to_.slots[o].tensor->is_alias_of(t);
      slot.fresh = fresh;
      to_.key.push_back(fresh);
    }
  }

 private:
  void push_integer(int64_t value) {
    to_.key.push_back(word(integer));
    to_.key.push_back(static_cast<uint64_t>(value));
  }
  void push_list(size_t size) { to_.key.push_back(word(list, size)); }

  bool one_tensor(const Tensor& t, const EagerArg& arg) {
    if (!t.defined()) {
      to_.slot_of.push_back(-1);
      to_.key.push_back(word(none));
      return true;
    }
    for (size_t s = 0; s < to_.slots.size(); ++s) {
      if (!same_view(*to_.slots[s].tensor, t)) continue;
      to_.slots[s].read |= !arg.out;
      to_.slot_of.push_back(static_cast<int>(s));
      to_.key.push_back(word(again, s));
      return true;
    }
    EagerSlot slot{&t, !t.is_privateuseone(), !arg.out, false, -1};
    uint64_t extra = static_cast<uint64_t>(t.scalar_type()) | static_cast<uint64_t>(t.dim()) << 8 |
                     static_cast<uint64_t>(arg.out) << 24;
    if (!slot.cpu) {
      if (to_.device >= 0 && to_.device != t.device().index()) return false;
      to_.device = t.device().index();
    } else {
      if (!t.is_cpu() || arg.written || (t.dim() > 0 && !op_.takes_cpu_indices) || t.layout() != c10::kStrided)
        return false;
      extra |= uint64_t{1} << 25;
      if (t.dim() == 0) {
        EagerValue value;
        if (!cpu_element(t, value)) return false;
        slot.value = static_cast<int>(to_.values.size());
        to_.values.push_back(value);
        extra |= static_cast<uint64_t>(t.unsafeGetTensorImpl()->is_wrapped_number()) << 26 |
                 static_cast<uint64_t>(std::isnan(value.number)) << 27 |
                 static_cast<uint64_t>(value.flag && value.number != 0) << 28;
      }
    }
    to_.key.push_back(word(tensor, extra));
    for (const int64_t size : t.sizes()) to_.key.push_back(static_cast<uint64_t>(size));
    for (const int64_t stride : t.strides()) to_.key.push_back(static_cast<uint64_t>(stride));
    to_.slot_of.push_back(static_cast<int>(to_.slots.size()));
    to_.slots.push_back(slot);
    return true;
  }

  static bool same_view(const Tensor& a, const Tensor& b) {
    if (a.is_same(b)) return true;
    return a.has_storage() && b.has_storage() &&
           a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl() &&
           a.storage_offset() == b.storage_offset() && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
           a.strides() == b.strides() && a.is_privateuseone();
  }

  /// The type of a number always takes part in the key; its value only where the computation depends on it.
  bool one_number(const IValue& value, const EagerArg& arg) {
    EagerValue v;
    uint64_t extra = 0;
    if (value.isDouble()) {
      v = {value.toDouble(), true, false};
      extra = 1 | static_cast<uint64_t>(std::isnan(v.number)) << 4;
    } else if (value.isBool()) {
      v = {value.toBool() ? 1.0 : 0.0, false, true};
      extra = 2 | static_cast<uint64_t>(v.number != 0) << 4;
    } else if (value.isInt()) {
      const int64_t x = value.toInt();
      if (x != static_cast<int32_t>(x)) return false;
      if (arg.element && !to_.slots.empty()) check_fits(x, to_.slots[0].tensor->scalar_type());
      v = {static_cast<double>(x), false, false};
      extra = 3;
    } else {
      return false;
    }
    const bool special = arg.factor && (v.number == 0 || v.number == 1);
    extra |= static_cast<uint64_t>(special) << 5;
    to_.key.push_back(word(number, extra));
    if (arg.constant || special) to_.key.push_back(std::bit_cast<uint64_t>(v.number));
    to_.values.push_back(v);
    return true;
  }

  /// As torch's own conversion of a number: beside uint8, -1 is 255 and 300 an error.
  static void check_fits(int64_t x, at::ScalarType type) {
    const c10::Scalar number(x);
    if (type == at::kByte) number.to<uint8_t>();
    if (type == at::kChar) number.to<int8_t>();
    if (type == at::kShort) number.to<int16_t>();
  }

  const EagerOp& op_;
  EagerArguments& to_;
};

}  // namespace

void EagerArguments::add_values_to_key() {
  for (const EagerValue& value : values) key.push_back(std::bit_cast<uint64_t>(value.number));
  key.push_back(~uint64_t{0});
}

uint64_t EagerArguments::hash() const {
  uint64_t h = 0x9E3779B97F4A7C15ULL;
  for (const uint64_t w : key) {
    h = (h ^ w) * 0xFF51AFD7ED558CCDULL;
    h ^= h >> 32;
  }
  return h;
}

bool collect(const EagerOp& op, const IValue* stack, EagerArguments& into) {
  Collector collector(op, into);
  for (size_t i = 0; i < op.args.size(); ++i)
    if (!collector.argument(op.args[i], stack[i])) return false;
  collector.finish();
  return into.device >= 0;
}

}  // namespace spyre::torch
