// Launches against the interpreter; instances, keys, the disk.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/launch_for_test.h"

namespace spyre::engine {
namespace {

const char* const add_text = R"(
param p0 "alpha" f32
input v0 "x" f16 [5:70, 70:1]
input v1 "y" f16 [70:1]
v2 "out" f16 [5:70, 70:1] = map [5, 70] loads(v0[5:70, 70:1], v1[5:0, 70:1]) value(fma(p0, l1, l0)) at "aten.add" "m.py:1"
output v2[5:70, 70:1]
)";

struct Launch : testing::Test {
  OptionsForTest off;
};

TEST_F(Launch, AddBroadcastsAndTakesAParam) {
  for (double alpha : {1.0, -2.5}) expect_right(add_text, {.params = {alpha}});
}

TEST_F(Launch, AParamMayBeNaNOrInfinite) {
  Executor executor(graph::parse(add_text));
  for (double alpha : {std::nan(""), HUGE_VAL}) expect_right(executor, plain_device(), {}, {.params = {alpha}});
}

TEST_F(Launch, InPlaceAddChangesItsInput) {
  const char* const text = R"(
input v0 "x" f32 [9:33, 33:1]
input v1 "y" f32 [9:33, 33:1]
v2 f32 [9:33, 33:1] = map [9, 33] loads(v0[9:33, 33:1], v1[9:33, 33:1]) value(add(l0, l1)) at "aten.add_" "m.py:2"
mutate v0 = v2[9:33, 33:1]
)";
  expect_right(text);
  expect_right(text, {.offsets = {0, 7}});
  expect_right(text, {.offsets = {5, 0}});
  expect_right(text, {.offsets = {0, 0}, .memory = {0, 0}});   // x += x
  expect_right(text, {.offsets = {0, 33}, .memory = {0, 0}});  // x[:-1] += x[1:], as if x was read first
  expect_right(text, {.offsets = {33, 0}, .memory = {0, 0}});
  expect_right(text, {.offsets = {0, 400}, .memory = {0, 0}});  // apart
}

TEST_F(Launch, MutationsSwapInputs) {
  const char* const text = R"(
input v0 "x" f16 [40:1]
input v1 "y" f16 [40:1]
mutate v0 = v1[40:1]
mutate v1 = v0[40:1]
)";
  expect_right(text);
  expect_right(text, {.offsets = {3, 0}});
}

TEST_F(Launch, MatmulBiasGelu) {
  expect_right(R"(
input v0 "x" f16 [17:100, 100:1]
input v1 "w" f16 [48:100, 100:1]
input v2 "b" f16 [48:1]
v3 f32 [17:48, 48:1] = contract [17:m, 48:n, 100:k] a(v0[17:100, 48:0, 100:1]) b(v1[17:0, 48:100, 100:1]) at "aten.addmm" "m.py:3"
v4 f16 [17:48, 48:1] = map [17, 48] loads(v3[17:48, 48:1], v2[17:0, 48:1]) value(add(l0, l1)) at "aten.addmm" "m.py:3"
v5 f16 [17:48, 48:1] = map [17, 48] loads(v4[17:48, 48:1]) value(mul(mul(l0, 0.5), add(erf(mul(l0, 0.70710678)), 1.0))) at "aten.gelu" "m.py:4"
output v5[17:48, 48:1]
)");
}

TEST_F(Launch, Softmax) {
  expect_right(R"(
input v0 "x" f16 [6:200, 200:1]
v1 f32 [6:1], v2 f32 [6:1] = reduce logsumexp [6, 200] over(1) loads(v0[6:200, 200:1]) value(l0) at "aten._softmax" "m.py:5"
v3 f16 [6:200, 200:1] = map [6, 200] loads(v0[6:200, 200:1], v1[6:1, 200:0], v2[6:1, 200:0]) value(div(exp(sub(l0, l1)), l2)) at "aten._softmax" "m.py:5"
output v3[6:200, 200:1]
)");
}

TEST_F(Launch, LayerNorm) {
  expect_right(R"(
input v0 "x" f16 [12:96, 96:1]
input v1 "w" f16 [96:1]
input v2 "b" f16 [96:1]
v3 f32 [12:1], v4 f32 [12:1], v5 f32 [12:1] = reduce welford [12, 96] over(1) loads(v0[12:96, 96:1]) value(l0) at "aten.native_layer_norm" "m.py:6"
v6 f16 [12:96, 96:1] = map [12, 96] loads(v0[12:96, 96:1], v3[12:1, 96:0], v4[12:1, 96:0], v1[12:0, 96:1], v2[12:0, 96:1]) value(add(mul(mul(sub(l0, l1), rsqrt(add(div(l2, 96.0), 1.0e-05))), l3), l4)) at "aten.native_layer_norm" "m.py:6"
output v6[12:96, 96:1]
)");
}

TEST_F(Launch, Attention) {
  const char* const text = R"(
input v0 "q" f16 [2:2048, 4:512, 8:64, 64:1]
input v1 "k" f16 [2:1024, 2:512, 8:64, 64:1]
input v2 "v" f16 [2:1024, 2:512, 8:64, 64:1]
v3 f16 [2:2048, 4:512, 8:64, 64:1] = attention q(v0[2:2048, 4:512, 8:64, 64:1]) k(v1[2:1024, 2:512, 8:64, 64:1]) v(v2[2:1024, 2:512, 8:64, 64:1]) causal scale(0.125) at "aten.sdpa" "m.py:7"
output v3[2:2048, 4:512, 8:64, 64:1]
)";
  expect_right(text);
}

TEST_F(Launch, ViewsWithOffsets) {
  const char* const text = R"(
input v0 "x" f16 [6:50, 10:3]
input v1 "y" f16 [10:1, 6:10]
v2 f16 [6:10, 10:1] = map [6, 10] loads(v0[6:50, 10:3], v1[6:10, 10:1]) value(mul(l0, l1)) at "aten.mul" "m.py:8"
v3 f16 [3:5, 5:1] = map [3, 5] loads(v0[3:100, 5:-6 @ 24]) value(neg(l0)) at "aten.flip" "m.py:9"
output v2[6:10, 10:1]
output v3[3:5, 5:1]
)";
  for (const auto& offsets : std::vector<std::vector<int64_t>>{{0, 0}, {64, 0}, {1, 2}, {0, 133}})
    expect_right(text, {.offsets = offsets});
  expect_right(text, {.offsets = {2, 40}, .memory = {0, 0}});
}

TEST_F(Launch, EmptyTensorsLaunchNothing) {
  const char* const text = R"(
symbol s0 "n" 0..100
input v0 "x" f16 [s0:8, 8:1]
v1 f16 [s0:8, 8:1] = map [s0, 8] loads(v0[s0:8, 8:1]) value(neg(l0)) at "aten.neg" "m.py:1"
v2 f32 [8:1] = reduce sum [s0, 8] over(0) loads(v0[s0:8, 8:1]) value(l0) at "aten.sum" "m.py:2"
output v1[s0:8, 8:1]
output v2[8:1]
)";
  Executor executor(graph::parse(text));
  for (int64_t n : {0, 3, 0}) expect_right(executor, plain_device(), {n});
  Executor nothing(
      graph::parse("input v0 f16 [0:8, 8:1]\nv1 f16 [0:8, 8:1] = map [0, 8] loads(v0[0:8, 8:1]) "
                   "value(neg(l0))\noutput v1[0:8, 8:1]"));
  expect_right(nothing, plain_device());
  const int64_t before = plain_device().default_stream().modelled_ps();
  expect_right(nothing, plain_device());
  EXPECT_EQ(plain_device().default_stream().modelled_ps(), before);
}

TEST_F(Launch, SymbolsMakeInstances) {
  const char* const text = R"(
symbol s0 "n" 1..500
input v0 "x" f16 [s0:64, 64:1]
input v1 "w" f16 [32:64, 64:1]
v2 f16 [s0:32, 32:1] = contract [s0:m, 32:n, 64:k] a(v0[s0:64, 32:0, 64:1]) b(v1[s0:0, 32:64, 64:1]) at "aten.mm" "m.py:1"
output v2[s0:32, 32:1]
)";
  Executor executor(graph::parse(text));
  reset_statistics();
  for (int round = 0; round < 2; ++round)
    for (int64_t n : {1, 7, 200}) expect_right(executor, plain_device(), {n}, {.seed = static_cast<uint64_t>(n)});
  EXPECT_EQ(statistics().instances, 3);
  EXPECT_EQ(statistics().launches, 6);
  EXPECT_GT(statistics().modelled_ps, 0);
  const auto specs = executor.output_specs(std::vector<int64_t>{7});
  EXPECT_EQ((*specs)[0].sizes, (std::vector<int64_t>{7, 32}));
  EXPECT_EQ(executor.output_specs(std::vector<int64_t>{7}), specs);
  EXPECT_THROW(executor.output_specs(std::vector<int64_t>{501}), Error);
  EXPECT_THROW(executor.output_specs({}), Error);
}

TEST_F(Launch, StreamsAndThreadsShareInstances) {
  Executor executor(graph::parse(add_text));
  std::vector<std::thread> threads;
  reset_statistics();
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&executor, t] {
      for (int i = 0; i < 5; ++i)
        expect_right(executor, plain_device(), {},
                     {.seed = static_cast<uint64_t>(10 * t + i),
                      .params = {1.0 + t},
                      .stream = t == 0 ? nullptr : &plain_device().create_stream()});
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(statistics().instances, 1);
  EXPECT_EQ(statistics().launches, 15);
}

// ------------------------------------------------------------------------------------------------------- what is
// refused

void refused(const std::function<void()>& launch, const std::string& why) {
  try {
    launch();
    ADD_FAILURE() << "accepted: " << why;
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::user);
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
  }
}

TEST_F(Launch, TensorsThatDoNotFitAreRefused) {
  Executor executor(graph::parse(add_text));
  const LaunchTensors good = make_tensors(executor, plain_device(), {}, {});
  runtime::Stream& stream = plain_device().default_stream();
  const std::vector<double> params = {1};
  const auto run = [&](const auto& change, std::span<const double> p) {
    LaunchTensors t = good;
    change(t);
    executor.run(stream, {}, t.inputs, t.outputs, p);
  };
  refused([&] { run([](auto& t) { t.inputs[0].view.sizes = {5, 69}; }, params); }, "sizes [5, 70]");
  refused([&] { run([](auto& t) { t.inputs[0].view.strides = {71, 1}; }, params); }, "strides [71, 1]");
  refused([&] { run([](auto& t) { t.inputs[0].view.offset = 1; }, params); }, "leaves its memory");
  refused([&] { run([](auto& t) { t.inputs.pop_back(); }, params); }, "1 and 1 tensors");
  refused([&] { run([](auto& t) { t.inputs[0].allocation = nullptr; }, params); }, "no memory");
  refused([&] { run([](auto& t) { t.outputs[0].view.offset = 1; }, params); }, "output 0");
  refused([&] { run([](auto& t) { t.outputs[0].view.sizes = {5, 71}; }, params); }, "output 0");
  refused([&] { run([](auto&) {}, {}); }, "1 params, 0");
  const auto f32 = plain_device().allocator().allocate_typed(
      5 * 70 * 4, stream, runtime::Placement::of({5, 70}, {70, 1}, base::HostType::f32, false));
  refused([&] { run([&](auto& t) { t.inputs[0].allocation = f32.get(); }, params); }, "float32");
  const auto raw = plain_device().allocator().allocate(5 * 70 * 4, stream);
  refused([&] { run([&](auto& t) { t.inputs[0].allocation = raw.get(); }, params); }, "raw bytes");
  const auto away = scrambled_device().allocator().allocate_typed(
      5 * 70 * 2, scrambled_device().default_stream(),
      runtime::Placement::of({5, 70}, {70, 1}, base::HostType::f16, false));
  refused([&] { run([&](auto& t) { t.inputs[0].allocation = away.get(); }, params); }, "device 1");
}

// --------------------------------------------------------------------------------------------------------- the caches

TEST(Caches, InstancesAreFewAndTheOldestGo) {
  const OptionsForTest few([](Options& o) { o.instances = 2; });
  Executor executor(
      graph::parse("symbol s0 \"n\" 1..9\ninput v0 f32 [s0:1]\nv1 f32 [s0:1] = map [s0] loads(v0[s0:1]) "
                   "value(neg(l0))\noutput v1[s0:1]"));
  reset_statistics();
  for (int64_t n : {1, 2, 1, 3, 1, 2}) expect_right(executor, plain_device(), {n});
  EXPECT_EQ(statistics().instances, 4);  // 1, 2, 3 and 2 again
  EXPECT_EQ(statistics().launches, 6);
}

TEST(Caches, ASecondExecutorCompilesNothing) {
  const TemporaryDirectory dir;
  const OptionsForTest on([&](Options& o) { o.cache = true, o.cache_dir = dir.path, o.cache_bytes = 1 << 30; });
  reset_statistics();
  for (int i = 0; i < 2; ++i) {
    Executor executor(graph::parse(add_text));
    expect_right(executor, plain_device(), {}, {.params = {2.0}});
  }
  EXPECT_EQ(statistics().instances, 1);
  EXPECT_EQ(statistics().disk_hits, 1);
  // Everything in the key tells.
  Executor executor(graph::parse(add_text));
  expect_right(executor, plain_device(), {}, {.params = {2.0}, .offsets = {1, 0}});
  EXPECT_EQ(statistics().instances, 2);
}

TEST(Caches, CorruptFilesAreMadeAnew) {
  const TemporaryDirectory dir;
  const OptionsForTest on([&](Options& o) { o.cache = true, o.cache_dir = dir.path, o.cache_bytes = 1 << 30; });
  std::vector<std::string> warnings;
  set_warning_hook([&](const std::string& text) { warnings.push_back(text); });
  reset_statistics();
  for (int i = 0; i < 4; ++i) {
    Executor executor(graph::parse(add_text));
    expect_right(executor, plain_device(), {}, {.params = {2.0}});
    for (const auto& file : std::filesystem::directory_iterator(dir.path)) {
      if (i == 0) std::filesystem::resize_file(file.path(), file.file_size() / 2);
      if (i == 1) {
        std::fstream f(file.path(), std::ios::in | std::ios::out | std::ios::binary);
        f.seekp(static_cast<std::streamoff>(file.file_size() / 2));
        f.put('\x55');
        f.put('\xaa');
      }
    }
  }
  set_warning_hook(nullptr);
  EXPECT_EQ(statistics().instances, 3);
  EXPECT_EQ(statistics().rebuilt, 2);
  EXPECT_EQ(statistics().disk_hits, 1);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("anew"), std::string::npos);
}

TEST(Caches, ADumpHasEveryForm) {
  const TemporaryDirectory dir;
  const OptionsForTest on([&](Options& o) { o.dump_dir = dir.path + "/d"; });
  Executor executor(graph::parse(add_text));
  expect_right(executor, plain_device(), {}, {.params = {2.0}});
  std::set<std::string> found;
  for (const auto& file : std::filesystem::directory_iterator(dir.path + "/d")) {
    found.insert(file.path().extension());
    EXPECT_GT(file.file_size(), 20u);
  }
  EXPECT_EQ(found, (std::set<std::string>{".graph", ".instance", ".plan", ".tile", ".json"}));
}

TEST(Caches, TheProcessHasOneExecutorPerContent) {
  const auto a = executor(graph::parse(add_text));
  EXPECT_EQ(executor(graph::parse(add_text)), a);
  EXPECT_EQ(find_executor(a->hash()), a);
  EXPECT_EQ(find_executor("nothing"), nullptr);
  EXPECT_EQ(compiler_hash().size(), 32u);
  EXPECT_EQ(compiler_hash(), compiler_hash());
}

TEST_F(Launch, DescribesItself) {
  const TemporaryDirectory dir;
  Executor executor(graph::parse(add_text));
  const LaunchTensors t = make_tensors(executor, plain_device(), {}, {});
  const std::vector<double> params = {1};
  const auto d = executor.describe(plain_device(), {}, t.inputs, t.outputs, params, dir.path + "/trace.json");
  EXPECT_FALSE(d.plan.empty());
  EXPECT_NE(d.program.find("kernel"), std::string::npos);
  EXPECT_GT(d.timeline.total_ps, 0);
  ASSERT_EQ(d.kernel_names.size(), 1u);
  EXPECT_EQ(d.kernel_ops[0], "aten.add");
  EXPECT_GT(std::filesystem::file_size(dir.path + "/trace.json"), 100u);
}

}  // namespace
}  // namespace spyre::engine
