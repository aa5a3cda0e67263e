// Speed of the host kernels: matrix products and chains of strips on SPYRE_THREADS threads, single
// operations on one. Compare with PyTorch at the same number of threads on the same machine.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "base/thread_pool.h"
#include "card/host_kernels.h"

namespace spyre::card::host {
namespace {

using base::ThreadPool;

std::vector<uint16_t> codes(int64_t n) {
  std::vector<uint16_t> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint16_t>(0x3800 + i * 40503 % 2048);
  return out;
}
std::vector<float> values(int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(i * 40503 % 2048) * 1e-3f - 1;
  return out;
}

// DL16 operands in stick columns to a DL16 result: unpacks A once, and B once for each 512 rows.
void matmul_dl16(benchmark::State& state) {
  const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  const auto a = codes(m * k), b = codes(k * n);
  std::vector<uint16_t> c(static_cast<size_t>(m * n));
  const int64_t part = std::min<int64_t>(m, 512), parts = (m + part - 1) / part, stride = k + 16;
  const int64_t chunk = 256, chunks = n / chunk;
  std::vector<float> rows(static_cast<size_t>(m * stride));
  for (auto _ : state) {
    ThreadPool::shared().for_each(static_cast<int>(m / 64), [&](int i) {
      const Tile tile{Format::dl16, reinterpret_cast<const std::byte*>(a.data() + i * 64 * 64), 128, m * 128};
      unpack(tile, 64, 0, k, rows.data() + i * 64 * stride, stride);
    });
    ThreadPool::shared().for_each(static_cast<int>(parts * chunks), [&](int i) {
      thread_local std::vector<float> sums;
      const int64_t m0 = i / chunks * part, n0 = i % chunks * chunk, count = std::min(part, m - m0);
      sums.resize(static_cast<size_t>(part * chunk));
      const Tile tile{Format::dl16, reinterpret_cast<const std::byte*>(b.data() + n0 * k), 128, k * 128};
      matmul(count, chunk, k, rows.data() + m0 * stride, stride, tile, false, sums.data(), chunk, false);
      const MutableTile out{Format::dl16, reinterpret_cast<std::byte*>(c.data() + m0 * 64), 128, m * 128};
      pack(sums.data(), chunk, count, n0, chunk, out);
    });
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(matmul_dl16)->Args({512, 2048, 2048})->Args({1024, 384, 1536})->UseRealTime();

void gemv_dl16(benchmark::State& state) {
  const int64_t k = state.range(0), n = state.range(1), part = 1024;
  const auto b = codes(k * n);
  const auto a = values(k);
  std::vector<float> c(static_cast<size_t>(n));
  for (auto _ : state)
    ThreadPool::shared().for_each(static_cast<int>(n / part), [&](int i) {
      const Tile tile{Format::dl16, reinterpret_cast<const std::byte*>(b.data() + i * part * k), 128, k * 128};
      gemv(part, k, a.data(), tile, c.data() + i * part, false);
    });
  state.SetBytesProcessed(state.iterations() * k * n * 2);
}
BENCHMARK(gemv_dl16)->Args({2048, 32768})->UseRealTime();

constexpr int64_t strip = 1024, strips = 1024;

// Runs body(source codes, destination codes) on every strip of a million elements; reports ns per element on two
// threads.
template <typename Body>
void over_strips(benchmark::State& state, Body body) {
  const auto x = codes(strip * strips);
  std::vector<uint16_t> y(x.size());
  for (auto _ : state)
    ThreadPool::shared().for_each(32, [&](int i) {
      for (int64_t s = i * strips / 32; s < (i + 1) * strips / 32; ++s)
        body(x.data() + s * strip, y.data() + s * strip);
    });
  state.counters["ns/element"] =
      benchmark::Counter(static_cast<double>(x.size()) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

alignas(64) thread_local float r0[strip], r1[strip];

void gelu(benchmark::State& state) {
  const float root_half = 0.70710678f, half = 0.5f;
  over_strips(state, [&](const uint16_t* x, uint16_t* y) {
    unpack(Format::dl16, x, r0, strip);
    f32_binary(F32Binary::mul)(r1, r0, &root_half, strip, splat_second);
    f32_unary(F32Unary::erf)(r1, r1, strip);
    f32_fma(r1, r1, &half, &half, strip, splat_second | splat_third);
    f32_binary(F32Binary::mul)(r0, r0, r1, strip, splat_none);
    pack(Format::dl16, r0, y, strip);
  });
}
BENCHMARK(gelu)->UseRealTime();

void softmax(benchmark::State& state) {
  over_strips(state, [&](const uint16_t* x, uint16_t* y) {
    unpack(Format::dl16, x, r0, strip);
    const float most = f32_max(r0, strip);
    f32_binary(F32Binary::sub)(r0, r0, &most, strip, splat_second);
    f32_unary(F32Unary::exp)(r0, r0, strip);
    const float scale = 1 / f32_sum(r0, strip);
    f32_binary(F32Binary::mul)(r0, r0, &scale, strip, splat_second);
    pack(Format::dl16, r0, y, strip);
  });
}
BENCHMARK(softmax)->UseRealTime();

void layer_norm_384(benchmark::State& state) {
  const auto gain = values(384), bias = values(384);
  over_strips(state, [&](const uint16_t* x, uint16_t* y) {
    unpack(Format::dl16, x, r0, strip);
    for (int64_t row = 0; row + 384 <= strip; row += 384) {
      float* v = r0 + row;
      WelfordState w;
      welford(w, v, 384);
      const float scale = 1 / __builtin_sqrtf(w.m2 / 384 + 1e-12f);
      f32_binary(F32Binary::sub)(v, v, &w.mean, 384, splat_second);
      f32_binary(F32Binary::mul)(v, v, &scale, 384, splat_second);
      f32_fma(v, v, gain.data(), bias.data(), 384, splat_none);
    }
    pack(Format::dl16, r0, y, strip);
  });
}
BENCHMARK(layer_norm_384)->UseRealTime();

void silu_mul(benchmark::State& state) {
  over_strips(state, [&](const uint16_t* x, uint16_t* y) {
    unpack(Format::dl16, x, r0, strip);
    f32_unary(F32Unary::sigmoid)(r1, r0, strip);
    f32_binary(F32Binary::mul)(r1, r1, r0, strip, splat_none);
    f32_binary(F32Binary::mul)(r1, r1, r0, strip, splat_none);
    pack(Format::dl16, r1, y, strip);
  });
}
BENCHMARK(silu_mul)->UseRealTime();

template <F32Unary op>
void unary(benchmark::State& state) {
  const auto x = values(strip);
  for (auto _ : state) f32_unary(op)(r1, x.data(), strip);
  state.SetItemsProcessed(state.iterations() * strip);
}
BENCHMARK(unary<F32Unary::exp>);
BENCHMARK(unary<F32Unary::erf>);
BENCHMARK(unary<F32Unary::tanh>);
BENCHMARK(unary<F32Unary::sin>);
BENCHMARK(unary<F32Unary::log>);
BENCHMARK(unary<F32Unary::rsqrt>);

void sum(benchmark::State& state) {
  const auto x = values(strip);
  for (auto _ : state) benchmark::DoNotOptimize(f32_sum(x.data(), strip));
  state.SetItemsProcessed(state.iterations() * strip);
}
BENCHMARK(sum);

void unpack_dl16(benchmark::State& state) {
  const auto x = codes(strip);
  for (auto _ : state) unpack(Format::dl16, x.data(), r0, strip);
  state.SetItemsProcessed(state.iterations() * strip);
}
BENCHMARK(unpack_dl16);

void pack_dl16(benchmark::State& state) {
  std::vector<uint16_t> y(strip);
  std::fill_n(r0, strip, 1.5f);
  for (auto _ : state) pack(Format::dl16, r0, y.data(), strip);
  state.SetItemsProcessed(state.iterations() * strip);
}
BENCHMARK(pack_dl16);

void pack_b_transposed(benchmark::State& state) {
  const int64_t k = 512, n = 256;
  const auto b = codes(k * n);
  std::vector<float> panels(panel_elements(k, n));
  const Tile tile{Format::dl16, reinterpret_cast<const std::byte*>(b.data()), 128, n * 128};
  for (auto _ : state) pack_b(tile, true, k, 0, n, panels.data());
  state.SetItemsProcessed(state.iterations() * k * n);
}
BENCHMARK(pack_b_transposed);

}  // namespace
}  // namespace spyre::card::host

BENCHMARK_MAIN();
