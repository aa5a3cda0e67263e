// Speed of uploads and downloads: 64 MB of halves on SPYRE_THREADS threads.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/formats.h"
#include "base/hash.h"
#include "base/thread_pool.h"

namespace spyre::base {
namespace {

constexpr size_t elements = 32 << 20, parts = 64;

void upload_f16(benchmark::State& state) {
  std::vector<uint16_t> src(elements, 0x3C01), dst(elements);
  for (auto _ : state)
    ThreadPool::shared().for_each(parts, [&](int i) {
      const size_t at = static_cast<size_t>(i) * (elements / parts);
      upload(HostType::f16, src.data() + at, Format::dl16, dst.data() + at, elements / parts);
    });
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(elements * 2));
}
BENCHMARK(upload_f16)->UseRealTime();

void download_f16(benchmark::State& state) {
  std::vector<uint16_t> src(elements, 0x3E01), dst(elements);
  for (auto _ : state)
    ThreadPool::shared().for_each(parts, [&](int i) {
      const size_t at = static_cast<size_t>(i) * (elements / parts);
      download(Format::dl16, src.data() + at, HostType::f16, dst.data() + at, elements / parts);
    });
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(elements * 2));
}
BENCHMARK(download_f16)->UseRealTime();

void hash(benchmark::State& state) {
  const std::vector<uint8_t> data(1 << 20, 7);
  for (auto _ : state) benchmark::DoNotOptimize(hash_bytes(data.data(), data.size()));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(data.size()));
}
BENCHMARK(hash);

void crc(benchmark::State& state) {
  const std::vector<uint8_t> data(1 << 20, 7);
  for (auto _ : state) benchmark::DoNotOptimize(crc32(data.data(), data.size()));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(data.size()));
}
BENCHMARK(crc);

void pool_hand_over(benchmark::State& state) {
  for (auto _ : state) ThreadPool::shared().for_each(2, [](int) {});
}
BENCHMARK(pool_hand_over)->UseRealTime();

}  // namespace
}  // namespace spyre::base

BENCHMARK_MAIN();
