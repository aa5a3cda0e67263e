#include "card/host_vector.h"

#include <algorithm>
#include <cstring>

#include "card/host_vector_simd.h"

namespace spyre::card::host {

const FloatTable& float_table(base::Isa isa) { return SPYRE_SIMD_TABLE(isa, float_table); }
const ChainTable& chain_table(base::Isa isa) { return SPYRE_SIMD_TABLE(isa, chain_table); }
const IntegerTable& integer_table(base::Isa isa) { return SPYRE_SIMD_TABLE(isa, integer_table); }

namespace {

const FloatTable& floats() {
  static const FloatTable& table = float_table(base::host_isa());
  return table;
}

}  // namespace

const IntegerTable& integers() {
  static const IntegerTable& table = integer_table(base::host_isa());
  return table;
}

F32UnaryFn f32_unary(F32Unary op) { return floats().unary[static_cast<int>(op)]; }
F32BinaryFn f32_binary(F32Binary op) { return floats().binary[static_cast<int>(op)]; }
F32CompareFn f32_compare(Comparison op) { return floats().compare[static_cast<int>(op)]; }
void f32_fma(float* dst, const float* a, const float* b, const float* c, size_t n, Splat splat) {
  floats().fma(dst, a, b, c, n, splat);
}
void f32_chain(float* to, const float* from, int64_t rows, size_t n, const F32LinkArgs* links, int count) {
  static const ChainTable& table = chain_table(base::host_isa());
  table.chain(to, from, rows, n, links, count);
}
void f32_is_nan(int32_t* mask, const float* a, size_t n) { floats().is_nan(mask, a, n); }

I32UnaryFn i32_unary(I32Unary op) { return integers().unary[static_cast<int>(op)]; }
I32BinaryFn i32_binary(I32Binary op) { return integers().binary[static_cast<int>(op)]; }
I32CompareFn i32_compare(Comparison op) { return integers().compare[static_cast<int>(op)]; }

void select(void* dst, const int32_t* mask, const void* a, const void* b, size_t n, Splat splat) {
  integers().select(static_cast<int32_t*>(dst), mask, static_cast<const int32_t*>(a), static_cast<const int32_t*>(b), n,
                    splat);
}
I32Status cast_f32_i32(int32_t* dst, const float* a, size_t n) { return integers().cast_f32_i32(dst, a, n); }
void cast_i32_f32(float* dst, const int32_t* a, size_t n) { integers().cast_i32_f32(dst, a, n); }
void cast_mask_f32(float* dst, const int32_t* mask, size_t n) { integers().cast_mask_f32(dst, mask, n); }
void cast_mask_i32(int32_t* dst, const int32_t* mask, size_t n) { integers().cast_mask_i32(dst, mask, n); }
void cast_f32_mask(int32_t* mask, const float* a, size_t n) { integers().cast_f32_mask(mask, a, n); }
void cast_i32_mask(int32_t* mask, const int32_t* a, size_t n) { integers().cast_i32_mask(mask, a, n); }

void fill(float* dst, float value, size_t n) { std::fill_n(dst, n, value); }
void fill(int32_t* dst, int32_t value, size_t n) { std::fill_n(dst, n, value); }
void iota(int32_t* dst, int32_t first, int32_t step, size_t n) { integers().iota(dst, first, step, n); }

void repeat(void* dst, const void* a, size_t repeat, size_t n) {
  auto* out = static_cast<char*>(dst);
  const auto* in = static_cast<const char*>(a);
  for (size_t i = 0; i < n; i += repeat, in += 4) {
    const size_t count = std::min(repeat, n - i);
    for (size_t j = 0; j < count; ++j) std::memcpy(out + (i + j) * 4, in, 4);
  }
}

void philox(int32_t* dst, const int32_t* seed, const int32_t* offset, const int32_t* index, int word, size_t n,
            Splat splat) {
  integers().philox(dst, seed, offset, index, word, n, splat);
}

}  // namespace spyre::card::host
