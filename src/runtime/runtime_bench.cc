// Host time of what every operation pays: allocation, enqueue, events, an empty launch; and of large copies.
#include <benchmark/benchmark.h>

#include <vector>

#include "program/program.h"
#include "runtime/copies.h"
#include "runtime/devices.h"
#include "runtime/launch.h"
#include "runtime/memory.h"

namespace spyre::runtime {
namespace {

using base::HostType;
using layout::HostView;

void allocate_free(benchmark::State& state) {
  Stream& stream = device(0).default_stream();
  const auto placement = Placement::of({64, 256}, {256, 1}, HostType::f16, false);
  for (auto _ : state) benchmark::DoNotOptimize(device(0).allocator().allocate_typed(64 * 256 * 2, stream, placement));
}
BENCHMARK(allocate_free);

void find_by_address(benchmark::State& state) {
  Stream& stream = device(0).default_stream();
  std::vector<AllocationPtr> all;
  for (int i = 0; i < 1000; ++i) all.push_back(device(0).allocator().allocate(1000, stream));
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(find(all[i++ % all.size()]->data()));
}
BENCHMARK(find_by_address);

void submit_inline(benchmark::State& state) {
  Stream& stream = device(0).default_stream();
  for (auto _ : state) stream.submit({"nothing", WorkKind::other, 0, false}, [] { return int64_t{0}; });
}
BENCHMARK(submit_inline);

// Per piece, in a burst that a worker takes.
void submit_queued(benchmark::State& state) {
  Stream& stream = device(0).default_stream();
  constexpr int burst = 512;
  while (state.KeepRunningBatch(burst)) {
    for (int i = 0; i < burst; ++i)
      stream.submit({"nothing", WorkKind::other, 1'000'000, false}, [] { return int64_t{0}; });
    stream.drain();
  }
}
BENCHMARK(submit_queued)->UseRealTime();

void event_record_and_wait(benchmark::State& state) {
  Stream& stream = device(0).default_stream();
  Stream& other = device(0).create_stream();
  Event event;
  for (auto _ : state) {
    event.record(stream);
    event.block(other);
  }
}
BENCHMARK(event_record_and_wait);

// A program that does next to nothing; `changed`: with another scalar each time, so that the table is made anew.
void empty_launch(benchmark::State& state) {
  Device& d = device(0);
  Stream& stream = d.default_stream();
  const char* const text = R"(
sym o: out f32 [1,32]
scalar a: f32 in 0..1000000000
loc 0 "none" "bench"
kernel k(o: out f32 [1,32]; a: f32 in 0..1000000000) cores 1 {
  grid(c:1) {
    core r in 0..1 by 1 on c
    buf s f32[1,32] x1
    sfp s = a @loc(0)
    st o[r, 0..32] = s @loc(0)
  }
}
call k(o; a) @loc(0)
)";
  const auto program =
      LoadedProgram::load(d, std::make_shared<card::Executable>(program::assemble(text), d.description()));
  const auto o = d.allocator().allocate_typed(128, stream, Placement::of({1, 32}, {32, 1}, HostType::f32, false));
  const bool changed = state.range(0) != 0, card = state.range(1) != 0;
  d.timing_only() = !card;
  double a = 1;
  const Binding bindings[] = {{0, o.get()}};
  for (auto _ : state) {
    if (changed) a += 1;
    program->launch(stream, bindings, std::span(&a, 1));
  }
  d.timing_only() = false;
}
BENCHMARK(empty_launch)->ArgsProduct({{0, 1}, {0, 1}})->ArgNames({"changed", "card"});

// 64 MiB of float16, contiguous on the host, in the default layout of a matrix.
void copy_large(benchmark::State& state) {
  Device& d = device(0);
  Stream& stream = d.default_stream();
  const bool up = state.range(0) != 0;
  const HostView view = HostView::contiguous({8192, 4096});
  const auto a = d.allocator().allocate_typed(view.numel() * 2, stream,
                                              Placement::of(view.sizes, view.strides, HostType::f16, false));
  std::vector<uint16_t> host(static_cast<size_t>(view.numel()), 0x3C00);
  const HostTensor h{host.data(), HostType::f16, view};
  const DeviceTensor t{a.get(), HostType::f16, view};
  copy_to_device(h, t, stream);
  for (auto _ : state) up ? copy_to_device(h, t, stream) : copy_to_host(t, h, stream);
  state.SetBytesProcessed(state.iterations() * view.numel() * 2);
}
BENCHMARK(copy_large)->Arg(1)->Arg(0)->ArgName("up")->UseRealTime()->Unit(benchmark::kMillisecond);

void copy_small(benchmark::State& state) {
  Device& d = device(0);
  Stream& stream = d.default_stream();
  const HostView view = HostView::contiguous({8, 64});
  const auto a = d.allocator().allocate_typed(view.numel() * 4, stream,
                                              Placement::of(view.sizes, view.strides, HostType::f32, false));
  std::vector<float> host(512);
  for (auto _ : state) copy_to_device({host.data(), HostType::f32, view}, {a.get(), HostType::f32, view}, stream);
}
BENCHMARK(copy_small);

}  // namespace
}  // namespace spyre::runtime

BENCHMARK_MAIN();
