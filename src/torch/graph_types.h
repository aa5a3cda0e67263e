// Between torch's dtypes and the graph's.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/formats.h"

namespace spyre::torch {

/// The torch dtype of a host type; the inverse of host_type().
inline c10::ScalarType scalar_type(base::HostType type) {
  using base::HostType;
  switch (type) {
    case HostType::f16:
      return c10::kHalf;
    case HostType::bf16:
      return c10::kBFloat16;
    case HostType::f32:
      return c10::kFloat;
    case HostType::f64:
      return c10::kDouble;
    case HostType::b8:
      return c10::kBool;
    case HostType::u8:
      return c10::kByte;
    case HostType::i8:
      return c10::kChar;
    case HostType::i16:
      return c10::kShort;
    case HostType::i32:
      return c10::kInt;
    case HostType::i64:
      return c10::kLong;
    case HostType::e4m3:
      return c10::kFloat8_e4m3fn;
    case HostType::e5m2:
      return c10::kFloat8_e5m2;
    case HostType::c64:
      return c10::kComplexFloat;
  }
  return c10::kFloat;
}

}  // namespace spyre::torch
