#include "runtime/launch.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "program/program.h"
#include "runtime/test_device.h"
#include "runtime/trace.h"
#include "runtime/transitions.h"

namespace spyre::runtime {
namespace {

using base::HostType;
using layout::HostView;

// o = x * alpha + y
constexpr const char* axpy_text = R"(
sym x: in f32 [64,256]
sym y: in f32 [64,256]
sym o: out f32 [64,256]
scalar alpha: f32 in -100.0..100.0
loc 0 "aten.add" "model.py:7"
kernel axpy(x: in f32 [64,256], y: in f32 [64,256], o: out f32 [64,256]; alpha: f32 in -100.0..100.0) cores 4 {
  grid(c:4) {
    core r in 0..64 by 16 on c
    buf a f32[16,256] x1
    ld a = x[r, 0..256] @loc(0)
    buf b f32[16,256] x1
    ld b = y[r, 0..256] @loc(0)
    buf s f32[16,256] x1
    sfp s = a * alpha + b @loc(0)
    st o[r, 0..256] = s @loc(0)
  }
}
call axpy(x, y, o; alpha) @loc(0)
)";

// o = 2 x through a temp.
constexpr const char* twice_text = R"(
sym x: in f32 [64,256]
sym t: temp f32 [64,256]
sym o: out f32 [64,256]
loc 0 "aten.mul" "model.py:8"
kernel twice(x: in f32 [64,256], o: out f32 [64,256]) cores 4 {
  grid(c:4) {
    core r in 0..64 by 16 on c
    buf a f32[16,256] x1
    ld a = x[r, 0..256] @loc(0)
    buf s f32[16,256] x1
    sfp s = a + a @loc(0)
    st o[r, 0..256] = s @loc(0)
  }
}
call twice(x, t) @loc(0)
call twice(t, o) @loc(0)
)";

// y = tab[ids], an index outside traps.
constexpr const char* rows_text = R"(
sym tab: in f32 [100,32]
sym ids: in i32 [32]
sym y: out f32 [32,32]
loc 0 "aten.embedding" "model.py:60"
kernel rows(tab: in f32 [100,32], ids: in i32 [32], y: out f32 [32,32]) cores 4 {
  grid(tc:4) {
    core t in 0..32 by 8 on tc
    buf ix i32[8] x1
    ld ix = ids[t] @loc(0)
    buf row f32[8,32] x1
    ld row = tab[ix in 0..100 trap, 0..32] @loc(0)
    st y[t, 0..32] = row @loc(0)
  }
}
call rows(tab, ids, y) @loc(0)
)";

std::shared_ptr<const card::Executable> executable(const std::string& text) {
  return std::make_shared<const card::Executable>(program::assemble(text), small_description());
}

class Launches : public testing::Test {
 protected:
  std::shared_ptr<LoadedProgram> load(const std::string& text) {
    return LoadedProgram::load(device_, executable(text));
  }
  TestTensor matrix(float first = 0) {
    TestTensor t(device_, {64, 256}, HostType::f32);
    put(counting<float>(64 * 256, first), t.tensor(), stream_);
    return t;
  }
  std::vector<float> values(const TestTensor& t) { return get<float>(t.tensor(), stream_); }
  void hold() {
    held_ = std::promise<void>();
    stream_.submit({"held", WorkKind::other, 1'000'000, false},
                   [future = std::shared_future<void>(held_.get_future())] {
                     future.wait();
                     return int64_t{0};
                   });
  }

  LayoutOption plain_{nullptr};  // the programs are written for default layouts
  Device device_{0, small_description()};
  Stream& stream_ = device_.default_stream();
  std::promise<void> held_;
};

std::vector<float> axpy(float alpha, float x0 = 0, float y0 = 0) {
  std::vector<float> out;
  for (int i = 0; i < 64 * 256; ++i) out.push_back((x0 + static_cast<float>(i)) * alpha + y0 + static_cast<float>(i));
  return out;
}

TEST_F(Launches, SymbolsBindByIdInAnyOrder) {
  const auto p = load(axpy_text);
  TestTensor x = matrix(), y = matrix(5), o = matrix();
  const double alpha[] = {3};
  const auto report = p->launch(stream_,
                                std::vector<Binding>{{p->symbol("o"), o.allocation.get()},
                                                     {p->symbol("x"), x.allocation.get()},
                                                     {p->symbol("y"), y.allocation.get()}},
                                alpha);
  EXPECT_TRUE(report.bindings_changed);
  EXPECT_EQ(report.staged_symbols, 0);
  EXPECT_EQ(values(o), axpy(3, 0, 5));
  EXPECT_THROW(p->symbol("z"), Error);
}

TEST_F(Launches, UnchangedBindingsSkipTheWorkAndChangedOnesDoNot) {
  const auto p = load(axpy_text);
  TestTensor x = matrix(), y = matrix(), o = matrix(), other = matrix(9);
  const auto run = [&](const TestTensor& a, double alpha) {
    const double scalars[] = {alpha};
    return p
        ->launch(stream_,
                 std::vector<Binding>{{0, a.allocation.get()}, {1, y.allocation.get()}, {2, o.allocation.get()}},
                 scalars)
        .bindings_changed;
  };
  EXPECT_TRUE(run(x, 2));
  EXPECT_FALSE(run(x, 2));
  EXPECT_TRUE(run(x, 4));
  EXPECT_EQ(values(o), axpy(4));
  EXPECT_TRUE(run(other, 4));
  EXPECT_EQ(values(o), axpy(4, 9));
  put(counting<float>(64 * 256, 1), other.tensor(), stream_);
  EXPECT_FALSE(run(other, 4)) << "new values in the same place";
  EXPECT_EQ(values(o), axpy(4, 1));
}

TEST_F(Launches, QueuedLaunchesKeepTheirOwnBindings) {
  const auto p = load(axpy_text);
  TestTensor x = matrix(), y = matrix();
  std::vector<TestTensor> outs;
  for (int i = 0; i < 20; ++i) outs.push_back(matrix());
  hold();
  for (int i = 0; i < 20; ++i) {
    const double alpha[] = {static_cast<double>(i)};
    p->launch(stream_,
              std::vector<Binding>{{0, x.allocation.get()}, {1, y.allocation.get()}, {2, outs[i].allocation.get()}},
              alpha);
  }
  held_.set_value();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(values(outs[i]), axpy(static_cast<float>(i))) << i;
}

TEST_F(Launches, TempsAreAllocatedPerLaunchAndGivenBackInStreamOrder) {
  const auto p = load(twice_text);
  TestTensor x = matrix(1), o = matrix();
  const int64_t before = device_.allocator().statistics().allocated_bytes[0].current;
  hold();
  for (int i = 0; i < 3; ++i)
    p->launch(stream_,
              std::vector<Binding>{{p->symbol("x"), x.allocation.get()}, {p->symbol("o"), o.allocation.get()}});
  EXPECT_EQ(device_.allocator().statistics().allocated_bytes[0].current, before);
  held_.set_value();
  auto expected = counting<float>(64 * 256, 1);
  for (float& v : expected) v *= 4;
  EXPECT_EQ(values(o), expected);
}

TEST_F(Launches, QueuedLaunchesSurviveTheReleaseOfTheirTensorsAndProgram) {
  auto p = load(axpy_text);
  const std::weak_ptr<LoadedProgram> watch = p;
  auto x = std::make_unique<TestTensor>(matrix()), y = std::make_unique<TestTensor>(matrix(5));
  TestTensor o = matrix();
  hold();
  const double alpha[] = {3};
  p->launch(stream_, std::vector<Binding>{{0, x->allocation.get()}, {1, y->allocation.get()}, {2, o.allocation.get()}},
            alpha);
  x.reset();
  y.reset();
  p.reset();
  EXPECT_FALSE(watch.expired());
  for (int i = 0; i < 10; ++i) matrix(777);
  held_.set_value();
  EXPECT_EQ(values(o), axpy(3, 0, 5));
  stream_.synchronize();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(device_.program_memory().used_bytes(), 0);
}

TEST_F(Launches, LaunchOnAnotherStreamThanTheTensorsKeepsThemAlive) {
  Stream& other = device_.create_stream();
  const auto p = load(axpy_text);
  auto x = std::make_unique<TestTensor>(matrix());
  TestTensor y = matrix(5), o(device_, {64, 256}, HostType::f32, &other);
  std::promise<void> held;
  other.submit({"held", WorkKind::other, 1'000'000, false}, [future = std::shared_future<void>(held.get_future())] {
    future.wait();
    return int64_t{0};
  });
  const double alpha[] = {3};
  p->launch(other, std::vector<Binding>{{0, x->allocation.get()}, {1, y.allocation.get()}, {2, o.allocation.get()}},
            alpha);
  x.reset();
  for (int i = 0; i < 10; ++i) matrix(777);  // takes no memory that the launch still reads
  held.set_value();
  EXPECT_EQ(get<float>(o.tensor(), other), axpy(3, 0, 5));
}

TEST_F(Launches, IllegalLaunchesAreRefusedBeforeAnythingRuns) {
  const auto p = load(axpy_text);
  TestTensor x = matrix(), y = matrix(), o = matrix(), narrow(device_, {64, 255}, HostType::f32),
             half(device_, {64, 256}, HostType::f16);
  const auto raw = device_.allocator().allocate(64 * 256 * 4, stream_);
  Device elsewhere(1, small_description());
  TestTensor foreign(elsewhere, {64, 256}, HostType::f32);
  const double good[] = {1};
  const auto refused = [&](std::vector<Binding> bindings, std::span<const double> scalars, const char* part) {
    try {
      p->launch(stream_, bindings, scalars);
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::user);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const Binding bx{0, x.allocation.get()}, by{1, y.allocation.get()}, bo{2, o.allocation.get()};
  refused({bx, by}, good, "nothing is bound to o");
  refused({bx, by, bo, by}, good, "y is bound twice");
  refused({bx, by, {3, o.allocation.get()}}, good, "no symbol 3");
  refused({bx, by, {-1, o.allocation.get()}}, good, "no symbol -1");
  refused({bx, by, {2, nullptr}}, good, "bound to nothing");
  refused({bx, by, {2, narrow.allocation.get()}}, good, "another layout");
  refused({bx, by, {2, half.allocation.get()}}, good, "another layout");
  refused({bx, by, {2, raw.get()}}, good, "raw bytes");
  refused({bx, by, {2, foreign.allocation.get()}}, good, "on device 1");
  refused({bx, by, bo}, {}, "0 scalars");
  for (const double bad : {101.0, -101.0, std::numeric_limits<double>::infinity()})
    refused({bx, by, bo}, std::vector<double>{bad}, "alpha");
  try {
    p->launch(elsewhere.default_stream(), std::vector<Binding>{bx, by, bo}, good);
    ADD_FAILURE();
  } catch (const Error&) {
  }
  EXPECT_NO_THROW(p->launch(stream_, std::vector<Binding>{bx, by, bo}, good));
}

TEST_F(Launches, ATrapNamesItsOpAndTheDeviceGoesOn) {
  const auto p = load(rows_text);
  TestTensor table(device_, {100, 32}, HostType::f32), ids(device_, {32}, HostType::i32),
      y(device_, {32, 32}, HostType::f32);
  put(counting<float>(3200), table.tensor(), stream_);
  auto index = counting<int32_t>(32);
  index[17] = 100;
  put(index, ids.tensor(), stream_);
  const std::vector<Binding> bindings{{0, table.allocation.get()}, {1, ids.allocation.get()}, {2, y.allocation.get()}};
  const auto message = [&](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  hold();
  p->launch(stream_, bindings);
  p->launch(stream_, bindings);
  held_.set_value();
  EXPECT_NE(message([&] { stream_.synchronize(); }).find("aten.embedding"), std::string::npos);
  EXPECT_EQ(message([&] { stream_.synchronize(); }), "");
  // At once, when it runs on the caller.
  EXPECT_NE(message([&] {
              p->launch(stream_, bindings);
              stream_.synchronize();
            }).find("model.py:60"),
            std::string::npos);
  index[17] = 99;
  put(index, ids.tensor(), stream_);
  p->launch(stream_, bindings);
  EXPECT_EQ(get<float>(y.tensor(), stream_)[17 * 32], 99 * 32.0f);
}

// o = x + 1 for two views of storages with 2,048 elements in a row.
std::string shifted(int64_t x_offset, int64_t o_offset, const char* o_direction = "out") {
  const std::string geometry = layout::Geometry::linear(base::Format::f32, 2048).to_text();
  const auto symbol = [&](const char* name, const char* direction, int64_t offset) {
    return fmt::format("{}: {} f32 [1000]{} {}", name, direction, offset ? fmt::format(" offset {}", offset) : "",
                       geometry);
  };
  const std::string x = symbol("x", "in", x_offset), o = symbol("o", o_direction, o_offset);
  return fmt::format(R"(
sym {0}
sym {1}
loc 0 "aten.add" "model.py:9"
kernel shift({0}, {1}) cores 4 {{
  grid(c:4) {{
    core t in 0..1000 by 256 on c
    buf a f32[256] x1
    ld a = x[t] @loc(0)
    buf s f32[256] x1
    sfp s = a + 1.0 @loc(0)
    st o[t] = s @loc(0)
  }}
}}
call shift(x, o) @loc(0)
)",
                     x, o);
}

TEST_F(Launches, OverlappingSymbolsReadTheirInputsFirst) {
  for (const int64_t from : {0, 32, 96, 992, 1024}) {
    const int64_t to = 96;
    const auto p = load(shifted(from, to));
    const auto a = device_.allocator().allocate_typed(2048 * 4, stream_, Placement::linear(HostType::f32, 2048, false));
    const DeviceTensor all{a.get(), HostType::f32, HostView::contiguous({2048})};
    put(counting<float>(2048), all, stream_);
    for (int round = 0; round < 2; ++round) {
      const auto before = get<float>(all, stream_);
      const auto report = p->launch(stream_, std::vector<Binding>{{0, a.get()}, {1, a.get()}});
      auto expected = before;
      for (int64_t i = 0; i < 1000; ++i)
        expected[static_cast<size_t>(to + i)] = before[static_cast<size_t>(from + i)] + 1;
      EXPECT_EQ(get<float>(all, stream_), expected) << from;
      // The last elements of the two views share no byte when the one begins where the other ends.
      EXPECT_EQ(report.staged_symbols, from < to + 1000 && to < from + 1000 ? 1 : 0) << from;
    }
  }
}

TEST_F(Launches, OverlappingOutputsAreWrittenBackInTheOrderOfTheirIds) {
  const std::string geometry = layout::Geometry::linear(base::Format::f32, 2048).to_text();
  const std::string text = fmt::format(R"(
sym a: out f32 [64] {0}
sym b: out f32 [64] offset 32 {0}
loc 0 "aten.fill" "model.py:9"
kernel put(o: out f32 [64] {0}) cores 1 {{
  grid(c:1) {{
    core t in 0..64 by 64 on c
    buf s f32[64] x1
    sfp s = 1.0 @loc(0)
    st o[t] = s @loc(0)
  }}
}}
kernel put2(o: out f32 [64] offset 32 {0}) cores 1 {{
  grid(c:1) {{
    core t in 0..64 by 64 on c
    buf s f32[64] x1
    sfp s = 2.0 @loc(0)
    st o[t] = s @loc(0)
  }}
}}
call put2(b) @loc(0)
call put(a) @loc(0)
)",
                                       geometry);
  const auto p = load(text);
  const auto s = device_.allocator().allocate_typed(2048 * 4, stream_, Placement::linear(HostType::f32, 2048, false));
  const DeviceTensor all{s.get(), HostType::f32, HostView::contiguous({128})};
  put(std::vector<float>(128, 0), all, stream_);
  EXPECT_EQ(p->launch(stream_, std::vector<Binding>{{0, s.get()}, {1, s.get()}}).staged_symbols, 1);
  std::vector<float> expected(128, 0);
  std::fill(expected.begin(), expected.begin() + 32, 1.0f);
  std::fill(expected.begin() + 32, expected.begin() + 96, 2.0f);
  EXPECT_EQ(get<float>(all, stream_), expected);
}

TEST_F(Launches, OutputsRaiseTheGenerationOfWhatTheyAreBoundTo) {
  const auto p = load(axpy_text);
  TestTensor x = matrix(), y = matrix(), o = matrix();
  const auto gx = x.allocation->generation(), go = o.allocation->generation();
  const double alpha[] = {1};
  p->launch(stream_, std::vector<Binding>{{0, x.allocation.get()}, {1, y.allocation.get()}, {2, o.allocation.get()}},
            alpha);
  EXPECT_EQ(x.allocation->generation(), gx);
  EXPECT_GT(o.allocation->generation(), go);
}

TEST_F(Launches, AChangedLayoutIsNoticed) {
  const auto p = load(axpy_text);
  TestTensor x = matrix(), y = matrix(), o = matrix();
  const std::vector<Binding> bindings{{0, x.allocation.get()}, {1, y.allocation.get()}, {2, o.allocation.get()}};
  const double alpha[] = {1};
  p->launch(stream_, bindings, alpha);
  relayout(*x.allocation, Placement::linear(HostType::f32, 64 * 256, false), stream_);
  EXPECT_THROW(p->launch(stream_, bindings, alpha), Error);
  relayout(*x.allocation, y.allocation->placement(), stream_);
  EXPECT_NO_THROW(p->launch(stream_, bindings, alpha));
  EXPECT_EQ(values(o), axpy(1));
}

TEST_F(Launches, ModelledTimeIsTheTimelinesAndTimingOnlyComputesNothing) {
  const auto p = load(axpy_text);
  TestTensor x = matrix(), y = matrix(), o = matrix(42);
  const std::vector<Binding> bindings{{0, x.allocation.get()}, {1, y.allocation.get()}, {2, o.allocation.get()}};
  const double alpha[] = {1};
  Event begin, end;
  device_.timing_only() = true;
  begin.record(stream_);
  p->launch(stream_, bindings, alpha);
  end.record(stream_);
  stream_.synchronize();
  device_.timing_only() = false;
  EXPECT_GT(p->modelled_ps(alpha), 0);
  EXPECT_DOUBLE_EQ(begin.elapsed_ms(end), static_cast<double>(p->modelled_ps(alpha)) * 1e-9);
  EXPECT_EQ(values(o), counting<float>(64 * 256, 42));
}

TEST_F(Launches, ProgramMemoryIsGivenBackAndItsEndIsAnError) {
  {
    const auto p = load(axpy_text), q = load(axpy_text);
    EXPECT_NE(p->image_address(), q->image_address());
    EXPECT_GE(static_cast<int64_t>(p->image_address()), 7 * device_.description().segment_bytes);
    EXPECT_GE(device_.program_memory().used_bytes(), 2 * p->executable().image_bytes());
  }
  EXPECT_EQ(device_.program_memory().used_bytes(), 0);
  try {
    device_.program_memory().take(17 << 20);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::out_of_memory);
  }
}

TEST_F(Launches, ThreadsAndStreamsMayLaunchOneProgramAtOnce) {
  const auto p = load(axpy_text);
  TestTensor x = matrix(), y = matrix();
  stream_.synchronize();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      Stream& stream = device_.create_stream();
      for (int i = 0; i < 30; ++i) {
        TestTensor o(device_, {64, 256}, HostType::f32, &stream);
        const double alpha[] = {static_cast<double>(t * 100 + i) / 10};
        p->launch(stream,
                  std::vector<Binding>{{0, x.allocation.get()}, {1, y.allocation.get()}, {2, o.allocation.get()}},
                  alpha);
        wrong += std::abs(get<float>(o.tensor(), stream)[1000] - (1000 * static_cast<float>(alpha[0]) + 1000)) > 0.01f;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Launches, ATraceShowsKernelsCopiesAndStreams) {
  const std::string path = std::filesystem::temp_directory_path() / fmt::format("spyre_trace_{}.json", getpid());
  EXPECT_THROW(stop_trace(), Error);
  start_trace(path);
  EXPECT_THROW(start_trace(path), Error);
  const auto p = load(twice_text);
  TestTensor x = matrix(), o = matrix();
  p->launch(stream_, std::vector<Binding>{{p->symbol("x"), x.allocation.get()}, {p->symbol("o"), o.allocation.get()}});
  stream_.synchronize();
  stop_trace();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  for (const char* part : {"\"twice\"", "copy to device", "default stream", "spyre:0"})
    EXPECT_NE(text.str().find(part), std::string::npos) << part;
  std::filesystem::remove(path);
  EXPECT_THROW(start_trace("/nowhere/at/all.json"), Error);
  EXPECT_FALSE(tracing());
}

}  // namespace
}  // namespace spyre::runtime
