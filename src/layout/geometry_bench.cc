// Runs, strips and set-up per second. Items are runs (or pieces) unless a name says otherwise; bytes are DL16 bytes.
#include <benchmark/benchmark.h>

#include <cstring>

#include "layout/geometry.h"

namespace spyre::layout {
namespace {

using base::HostType;
using Sizes = std::vector<int64_t>;

Geometry default_geometry(const Sizes& sizes) {
  return default_placement(sizes, HostView::contiguous(sizes).strides, HostType::f16, false).geometry;
}

// Walks all runs of `view`, the tensor being `sizes` in default layout; sums something so that nothing is optimised
// away.
void walk_runs(benchmark::State& state, const Sizes& sizes, const HostView& view) {
  const Access access(view, default_geometry(sizes));
  const Box box = Box::whole(view);
  int64_t runs = 0;
  for (auto _ : state) {
    int64_t sum = 0;
    access.for_each_run(box, [&](const Run& run) {
      sum += run.device_element ^ run.box_index;
      ++runs;
    });
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(runs);
}

void bm_runs_whole(benchmark::State& s) { walk_runs(s, {4096, 512}, {{4096, 512}, {512, 1}, 0}); }
void bm_runs_odd_rows(benchmark::State& s) { walk_runs(s, {4096, 500}, {{4000, 333}, {500, 1}, 4007}); }
void bm_runs_heads(benchmark::State& s) { walk_runs(s, {4, 1024, 512}, {{4, 8, 1024, 64}, {524288, 64, 512, 1}, 0}); }
void bm_runs_coupled(benchmark::State& s) { walk_runs(s, {4096, 500}, {{8192, 250}, {250, 1}, 0}); }
void bm_runs_flat_padded(benchmark::State& s) { walk_runs(s, {4096, 500}, {{4096 * 500}, {1}, 0}); }
void bm_elements_transposed(benchmark::State& s) { walk_runs(s, {1024, 512}, {{512, 1024}, {1, 512}, 0}); }

// A 64 MB upload's copies, without conversion: row order in runs, and column order in patches.
void bm_copy_runs(benchmark::State& state) {
  const Sizes sizes{32768, 1024};
  const HostView view = HostView::contiguous(sizes);
  const Access access(view, default_geometry(sizes));
  std::vector<uint16_t> host(view.numel()), device(access.geometry().device_elements);
  for (auto _ : state) {
    access.for_each_run(Box::whole(view), [&](const Run& run) {
      std::memcpy(&device[run.device_element], &host[run.box_index], run.count * 2);
    });
  }
  state.SetBytesProcessed(state.iterations() * view.numel() * 2);
}

void bm_copy_patches(benchmark::State& state) {
  const Sizes sizes{32768, 1024};
  const HostView view = HostView::contiguous(sizes);
  const Access access(view, default_geometry(sizes));
  std::vector<uint16_t> host(view.numel()), device(access.geometry().device_elements);
  for (auto _ : state) {
    access.for_each_patch(Box::whole(view), [&](const Patch& p) {
      for (int64_t r = 0; r < p.rows; ++r) {
        std::memcpy(&device[p.device_element + r * p.device_row_step], &host[p.box_index + r * p.box_row_step],
                    p.count * 2);
      }
    });
  }
  state.SetBytesProcessed(state.iterations() * view.numel() * 2);
}

void bm_memcpy(benchmark::State& state) {
  std::vector<uint16_t> host(32 << 20), device(32 << 20);
  for (auto _ : state) std::memcpy(device.data(), host.data(), host.size() * 2);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(host.size()) * 2);
}

void bm_make_access(benchmark::State& state) {
  const Geometry g = default_geometry({8, 1024, 512});
  const HostView view{{8, 8, 1024, 64}, {524288, 64, 512, 1}, 0};
  for (auto _ : state) benchmark::DoNotOptimize(Access(view, g));
}

void bm_tile_traffic(benchmark::State& state) {
  const HostView view = HostView::contiguous({4096, 1536});
  const Access access(view, default_geometry({4096, 1536}));
  const Box box{{128, 512}, {128, 512}, {}};
  for (auto _ : state) benchmark::DoNotOptimize(access.traffic(box));
}

void bm_tile_runs(benchmark::State& state) {
  const HostView view = HostView::contiguous({4096, 1536});
  const Access access(view, default_geometry({4096, 1536}));
  const Box box{{128, 512}, {1, 64}, {}};
  for (auto _ : state) access.for_each_run(box, [](const Run& run) { benchmark::DoNotOptimize(run.device_element); });
}

void bm_make_geometry(benchmark::State& state) {
  const Sizes sizes{8, 1024, 500}, strides = HostView::contiguous(sizes).strides;
  for (auto _ : state) benchmark::DoNotOptimize(default_placement(sizes, strides, HostType::f16, false));
}

BENCHMARK(bm_runs_whole);
BENCHMARK(bm_runs_odd_rows);
BENCHMARK(bm_runs_heads);
BENCHMARK(bm_runs_coupled);
BENCHMARK(bm_runs_flat_padded);
BENCHMARK(bm_elements_transposed);
BENCHMARK(bm_copy_runs);
BENCHMARK(bm_copy_patches);
BENCHMARK(bm_memcpy);
BENCHMARK(bm_make_access);
BENCHMARK(bm_tile_traffic);
BENCHMARK(bm_tile_runs);
BENCHMARK(bm_make_geometry);

}  // namespace
}  // namespace spyre::layout

BENCHMARK_MAIN();
