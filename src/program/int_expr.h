// IntExpr: the small integer expressions of loop bounds, accesses and conditions.
#pragma once

#include <cstdint>
#include <vector>

namespace spyre::program {

/// Index into one of a Kernel's or Program's tables.
using Id = int32_t;
constexpr Id none = -1;

/// An integer expression over a kernel's ranges, grid coordinates and i32 scalars. 64-bit arithmetic; the verifier
/// proves that it can't overflow. Division and modulo are by positive constants and round towards minus infinity.
struct IntExpr {
  enum class Op : uint8_t {
    constant,    ///< value
    start,       ///< first index of range `id` in its current trip
    size,        ///< number of indices of range `id` in its current trip (clipped)
    trip,        ///< number of the current trip of loop range `id`, from 0
    coordinate,  ///< this core's coordinate along grid dimension `id` of the nest
    scalar,      ///< i32 scalar parameter `id` of the kernel
    add,
    sub,
    mul,
    min,
    max,  ///< two arguments
    div,
    mod,  ///< args[0] by the constant args[1] > 0
  };
  Op op = Op::constant;
  int64_t value = 0;
  Id id = none;
  std::vector<IntExpr> args;

  static IntExpr of(int64_t v) { return {Op::constant, v, none, {}}; }
  static IntExpr leaf(Op op, Id id) { return {op, 0, id, {}}; }
  static IntExpr binary(Op op, IntExpr a, IntExpr b) { return {op, 0, none, {std::move(a), std::move(b)}}; }
  bool is_constant() const { return op == Op::constant; }
  bool is_constant(int64_t v) const { return op == Op::constant && value == v; }
  bool operator==(const IntExpr&) const = default;
};

}  // namespace spyre::program
