// Elementwise arithmetic over strips: what the SFP does.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spyre::card::host {

/// Operands that are one value for all lanes: bit i for operand i. Such an operand's pointer is read at lane 0 only.
using Splat = unsigned;
constexpr Splat splat_none = 0, splat_first = 1, splat_second = 2, splat_third = 4;

/// What an int32 operation met in some lane. Overflow: the exact result (of a cast: also NaN) leaves int32; the lane
/// holds the wrapped value (a cast: INT32_MIN). Division by zero: the lane holds 0.
enum I32Status : unsigned { i32_exact = 0, i32_overflow = 1, i32_zero_division = 2 };

// ---- float32 --------------------------------------------------------------------------------------------------------

/// exp exp2 expm1: 2 ulp, subnormal results included. log log2 log1p: 3 ulp. tanh: 3e-7 relative, erf: 4e-7 absolute.
/// sin cos tan: 2e-7 absolute (tan: 4 ulp away from its zeros and poles) up to |x| = 8192, libm's above. rsqrt rcp: 1 /
/// sqrt(x), 1 / x in full precision. round: ties to even. sign of NaN: NaN; of zero: that zero. round_dl16: the value
/// of its DL16 code, overflow as in arithmetic.
enum class F32Unary : uint8_t {
  neg,
  abs,
  square,
  sign,
  rcp,
  floor,
  ceil,
  round,
  trunc,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log1p,
  sqrt,
  rsqrt,
  sin,
  cos,
  tan,
  tanh,
  erf,
  sigmoid,
  round_dl16
};
constexpr int f32_unary_count = 24;
/// min and max give NaN if either operand is NaN (as torch.minimum). pow: 4 ulp, special cases as C's pow. fmod: exact,
/// as C's.
enum class F32Binary : uint8_t { add, sub, mul, div, min, max, pow, fmod };
constexpr int f32_binary_count = 8;

/// `<` `<=` `>` `>=` `==` `!=`; with NaN only != is true.
enum class Comparison : uint8_t { lt, le, gt, ge, eq, ne };
constexpr int comparison_count = 6;

using F32UnaryFn = void (*)(float* dst, const float* a, size_t n);
using F32BinaryFn = void (*)(float* dst, const float* a, const float* b, size_t n, Splat splat);
using F32CompareFn = void (*)(int32_t* mask, const float* a, const float* b, size_t n, Splat splat);
using I32UnaryFn = I32Status (*)(int32_t* dst, const int32_t* a, size_t n);
using I32BinaryFn = I32Status (*)(int32_t* dst, const int32_t* a, const int32_t* b, size_t n, Splat splat);
using I32CompareFn = void (*)(int32_t* mask, const int32_t* a, const int32_t* b, size_t n, Splat splat);

F32UnaryFn f32_unary(F32Unary op);
F32BinaryFn f32_binary(F32Binary op);
F32CompareFn f32_compare(Comparison op);
/// dst = a * b + c, rounded once where the instruction set has it (not in the baseline).
void f32_fma(float* dst, const float* a, const float* b, const float* c, size_t n, Splat splat);
void f32_is_nan(int32_t* mask, const float* a, size_t n);

/// An operation on a running value, one per lane: `add_all` adds the operand's lane, `add_row` the one number of the
/// lane's row. `from` subtracts the running value from the operand, `over` divides the operand by it, `take` replaces
/// it. The others have no operand: `keep` leaves the value in a slot, where later links of the chain find it.
enum class F32Link : uint8_t {
  add_all,
  add_row,
  subtract_all,
  subtract_row,
  from_all,
  from_row,
  mul_all,
  mul_row,
  divide_all,
  divide_row,
  over_all,
  over_row,
  min_all,
  min_row,
  max_all,
  max_row,
  take_all,
  take_row,
  keep,
  neg,
  abs,
  square,
  rcp,
  exp,
  tanh,
  erf,
  round_dl16
};
/// The form for one number a row of a link with an operand, given the form for all lanes.
constexpr F32Link of_row(F32Link op) { return static_cast<F32Link>(static_cast<int>(op) + 1); }
constexpr bool has_operand(F32Link op) { return op < F32Link::keep; }
constexpr bool is_of_all(F32Link op) { return has_operand(op) && static_cast<int>(op) % 2 == 0; }
static_assert(of_row(F32Link::take_all) == F32Link::take_row && is_of_all(F32Link::from_all));
struct F32LinkArgs {
  F32Link op = F32Link::add_all;
  const float* with = nullptr;
  int64_t row_stride = 0;  ///< elements between the operand's rows; 0: the same for all
  int slot = -1;           ///< of `keep`; else the operand is there (an `_all` form), and `with` is not looked at
};
constexpr int most_links = 24, most_slots = 6;

/// The links one after another on rows of n lanes that follow each other in `from` and in `to`; values stay in
/// registers in between. The same results as the links' operations one by one. `to` may be `from` or what a link reads,
/// at the same lanes. 1 to most_links links.
void f32_chain(float* to, const float* from, int64_t rows, size_t n, const F32LinkArgs* links, int count);

// ---- int32 ----------------------------------------------------------------------------------------------------------

/// `sign`: -1, 0 or 1.
enum class I32Unary : uint8_t { neg, abs, square, sign, bit_not };
constexpr int i32_unary_count = 5;
/// div truncates; floor_div and remainder round down (the remainder has the divisor's sign, as torch.remainder).
/// Shifts: by 0..31; outside, shl gives 0 and shr (arithmetic) the sign, without a status; shl reports overflow when
/// bits are lost.
enum class I32Binary : uint8_t {
  add,
  sub,
  mul,
  div,
  floor_div,
  remainder,
  min,
  max,
  bit_and,
  bit_or,
  bit_xor,
  shl,
  shr
};
constexpr int i32_binary_count = 13;

I32UnaryFn i32_unary(I32Unary op);
I32BinaryFn i32_binary(I32Binary op);  ///< wraps and reports; callers that may wrap ignore i32_overflow
I32CompareFn i32_compare(Comparison op);

// ---- both -----------------------------------------------------------------------------------------------------------

/// dst = mask ? a : b, 32-bit lanes of either type. Splat bits: mask 1, a 2, b 4. Masks combine with i32_binary's bit
/// operations.
void select(void* dst, const int32_t* mask, const void* a, const void* b, size_t n, Splat splat);

/// Truncates; NaN and values outside int32 give INT32_MIN and i32_overflow.
I32Status cast_f32_i32(int32_t* dst, const float* a, size_t n);
void cast_i32_f32(float* dst, const int32_t* a, size_t n);        ///< to nearest, ties to even
void cast_mask_f32(float* dst, const int32_t* mask, size_t n);    ///< 0 or 1
void cast_mask_i32(int32_t* dst, const int32_t* mask, size_t n);  ///< 0 or 1
void cast_f32_mask(int32_t* mask, const float* a, size_t n);      ///< a != 0, so true for NaN
void cast_i32_mask(int32_t* mask, const int32_t* a, size_t n);

void fill(float* dst, float value, size_t n);
void fill(int32_t* dst, int32_t value, size_t n);
/// dst[i] = first + i * step, wrapping.
void iota(int32_t* dst, int32_t first, int32_t step, size_t n);
/// dst[i * repeat + j] = a[i]: n lanes in all; e.g. one value per row to all of its lanes.
void repeat(void* dst, const void* a, size_t repeat, size_t n);

/// Word 0..3 of Philox 4x32-10 with key {seed, 0} and counter {offset, 0, index, 0}: the counters of torch's CUDA
/// generator with index as the subsequence. Splat bits: seed 1, offset 2, index 4.
void philox(int32_t* dst, const int32_t* seed, const int32_t* offset, const int32_t* index, int word, size_t n,
            Splat splat);

}  // namespace spyre::card::host
