// Casts and copies, with torch's memory formats.
#include <algorithm>

#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {
namespace {

enum class MemoryFormat : uint8_t { contiguous, preserve, channels_last, channels_last_3d };

/// A name, or torch's number for it.
MemoryFormat memory_format(const Call& call, size_t i, MemoryFormat otherwise) {
  if (!call.has(i)) return otherwise;
  if (std::holds_alternative<Size>(call.at(i))) {
    const int64_t number = call.constant(i);
    if (number < 0 || number > 3) call.refuse("memory format {}", number);
    return static_cast<MemoryFormat>(number);
  }
  std::string name = call.text(i);
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (name == "contiguous_format") return MemoryFormat::contiguous;
  if (name == "preserve_format") return MemoryFormat::preserve;
  if (name == "channels_last") return MemoryFormat::channels_last;
  if (name == "channels_last_3d") return MemoryFormat::channels_last_3d;
  call.refuse("memory format {}", name);
}

/// Strides of a new tensor like `ref`; empty: contiguous.
std::vector<Size> strides_for(const Call& call, const Ref& ref, MemoryFormat format) {
  static constexpr int32_t last[] = {0, 2, 3, 1}, last_3d[] = {0, 2, 3, 4, 1};
  switch (format) {
    case MemoryFormat::contiguous:
      return {};
    case MemoryFormat::channels_last:
      if (ref.sizes.size() != 4) call.refuse("channels_last has 4 dimensions");
      return strides_in_order(ref.sizes, last);
    case MemoryFormat::channels_last_3d:
      if (ref.sizes.size() != 5) call.refuse("channels_last_3d has 5 dimensions");
      return strides_in_order(ref.sizes, last_3d);
    case MemoryFormat::preserve:
      break;
  }
  if (is_dense(ref.sizes, ref.strides)) return ref.strides;
  const bool repeats = std::any_of(ref.strides.begin(), ref.strides.end(), [](const Size& s) { return s.is(0); });
  const auto order = repeats ? std::nullopt : stride_order(ref, call.builder.graph().symbols);
  return order ? strides_in_order(ref.sizes, *order) : std::vector<Size>();
}

Ref converted(Call& call, const Ref& x, HostType type, MemoryFormat format) {
  std::vector<Size> strides = strides_for(call, x, format);
  Ref y = as_type(call, x, type);
  const std::vector<Size> wanted = strides.empty() ? contiguous(x.sizes) : strides;
  if (y.value != x.value && y.strides == wanted) return y;
  return copy(call, y, std::move(strides));
}

std::vector<Arg> clone(Call& call) {
  const Ref x = call.tensor(0);
  return {copy(call, x, strides_for(call, x, memory_format(call, 1, MemoryFormat::preserve)))};
}

std::vector<Arg> contiguous_copy(Call& call) {
  const Ref x = call.tensor(0);
  std::vector<Size> strides = strides_for(call, x, memory_format(call, 1, MemoryFormat::contiguous));
  if (x.strides == (strides.empty() ? contiguous(x.sizes) : strides)) return {x};
  return {copy(call, x, std::move(strides))};
}

// A value is what a functional graph sees of a copy: lifting one is the tensor itself.
std::vector<Arg> lift_fresh_copy(Call& call) { return {call.tensor(0)}; }

/// _to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format)
std::vector<Arg> to_copy(Call& call) {
  const Ref x = call.tensor(0);
  return {converted(call, x, call.dtype(1).value_or(call.type(x)), memory_format(call, 6, MemoryFormat::preserve))};
}

std::vector<Arg> convert(Call& call) {
  const auto type = call.dtype(1);
  if (!type) call.refuse("the dtype is missing");
  return {as_type(call, call.tensor(0), *type)};
}

/// to.dtype(self, dtype, non_blocking, copy, memory_format): the tensor itself when nothing changes.
std::vector<Arg> to_dtype(Call& call) {
  const Ref x = call.tensor(0);
  const auto type = call.dtype(1);
  if (!type) call.refuse("the dtype is missing");
  if (*type == call.type(x) && !call.flag(3) && !call.has(4)) return {x};
  return {converted(call, x, *type, memory_format(call, 4, MemoryFormat::preserve))};
}

/// copy(self, src): src with self's sizes and type.
std::vector<Arg> copy_from(Call& call) {
  const Ref x = call.tensor(0), source = call.tensor(1);
  const HostType type = call.type(x);
  const Ref seen = expand_to(call, as_type(call, source, type), x.sizes);
  std::vector<Size> strides;
  if (is_dense(x.sizes, x.strides)) strides = x.strides;
  return {copy(call, seen, std::move(strides))};
}

constexpr ImportEntry cast_entries[] = {
    {"aten::clone", clone},      {"aten::contiguous", contiguous_copy}, {"aten::lift_fresh_copy", lift_fresh_copy},
    {"aten::_to_copy", to_copy}, {"aten::to.dtype", to_dtype},          {"prims::convert_element_type", convert},
    {"aten::copy", copy_from},
};

}  // namespace

std::span<const ImportEntry> cast_imports() { return cast_entries; }

}  // namespace spyre::graph
