// Element types of results: torch's promotion rules.
#include <algorithm>

#include "graph/import_call.h"

namespace spyre::graph {
namespace {

int integer_rank(HostType t) {
  switch (t) {
    case HostType::b8:
      return 0;
    case HostType::u8:
      return 1;
    case HostType::i8:
      return 2;
    case HostType::i16:
      return 3;
    case HostType::i32:
      return 4;
    default:
      return 5;
  }
}

}  // namespace

bool is_float(HostType t) {
  return t == HostType::f16 || t == HostType::bf16 || t == HostType::f32 || t == HostType::e4m3 || t == HostType::e5m2;
}
bool is_arithmetic(HostType t) {
  return t != HostType::e4m3 && t != HostType::e5m2 && t != HostType::f64 && t != HostType::c64;
}
bool is_integer(HostType t) { return is_arithmetic(t) && !is_float(t) && t != HostType::b8; }

HostType promote(const Call& call, HostType a, HostType b) {
  if (a == b) return a;
  if (!is_arithmetic(a) || !is_arithmetic(b))
    call.refuse("{} and {} have no common type: cast one of them", base::host_name(a), base::host_name(b));
  if (is_float(a) || is_float(b)) {
    if (!is_float(a)) return b;
    if (!is_float(b)) return a;
    return HostType::f32;  // of f16, bf16, f32, any two that differ
  }
  if (integer_rank(a) > integer_rank(b)) std::swap(a, b);
  return a == HostType::u8 && b == HostType::i8 ? HostType::i16 : b;
}

HostType number_type(const Call& call, size_t i) {
  const Arg& arg = call.at(i);
  if (std::holds_alternative<bool>(arg)) return HostType::b8;
  if (std::holds_alternative<Size>(arg)) return HostType::i64;
  if (std::holds_alternative<double>(arg)) return HostType::f32;
  if (const ParamArg* p = std::get_if<ParamArg>(&arg)) {
    const std::vector<Param>& params = call.builder.graph().params;
    if (p->param < 0 || static_cast<size_t>(p->param) >= params.size()) call.refuse("argument {} names no param", i);
    return params[static_cast<size_t>(p->param)].is_float ? HostType::f32 : HostType::i64;
  }
  call.refuse("argument {} must be a number or a tensor", i);
}

HostType result_type(const Call& call, std::initializer_list<size_t> which) {
  // As torch: promoted within each category; a lower category counts only when its kind (bool < integer < float) is
  // higher.
  std::optional<HostType> of[3];
  for (size_t i : which) {
    if (!call.has(i)) continue;
    const bool tensor = call.is_tensor(i);
    const HostType t = tensor ? call.type(call.tensor(i)) : number_type(call, i);
    if (t == HostType::f64 || t == HostType::c64)
      call.refuse("the device has no {}: cast to float32", base::host_name(t));
    std::optional<HostType>& mine = of[!tensor ? 2 : call.tensor(i).sizes.empty() ? 1 : 0];
    mine = mine ? promote(call, *mine, t) : t;
  }
  const auto combine = [&](std::optional<HostType> high, std::optional<HostType> low) -> std::optional<HostType> {
    if (!high || !low) return high ? high : low;
    if (is_float(*high)) return high;
    if (*high == HostType::b8 || is_float(*low)) return promote(call, *high, *low);
    return high;
  };
  return combine(of[0], combine(of[1], of[2])).value();
}

}  // namespace spyre::graph
