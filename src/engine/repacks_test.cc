#include "engine/repacks.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/launch_for_test.h"
#include "program/program.h"

namespace spyre::engine {
namespace {

using runtime::AllocationPtr;
using runtime::TestTensor;

// A copy of 1 + x: contents of its own, so that a test sees whether it was made.
std::string copy_text(int64_t rows, const char* added = "1.0") {
  return fmt::format(R"(
sym x: in f32 [{0},32]
sym y: out f32 [{0},32]
loc 0 "repack" ""
kernel repack(x: in f32 [{0},32], y: out f32 [{0},32]) cores 4 {{
  grid(c:4) {{
    core r in 0..{0} by {1} on c
    for t in r by 16 {{
      buf a f32[16,32] x2
      ld a = x[t, 0..32] @loc(0)
      buf b f32[16,32] x2
      sfp b = a + {2} @loc(0)
      st y[t, 0..32] = b @loc(0)
    }}
  }}
}}
call repack(x, y) @loc(0)
)",
                     rows, rows / 4, added);
}

struct Repacks : testing::Test {
  runtime::Device device{3, runtime::small_description()};
  runtime::Stream& stream = device.default_stream();
  RepackProgram program = RepackProgram::load(program::assemble(copy_text(64)), base::HostType::f32, device);

  TestTensor tensor(float value) {
    TestTensor t(device, {64, 32}, base::HostType::f32);
    runtime::put(std::vector<float>(64 * 32, value), t.tensor(), stream);
    return t;
  }
  float first_of(const AllocationPtr& copy) {
    return runtime::get<float>({copy.get(), base::HostType::f32, layout::HostView::contiguous({64, 32})}, stream)[0];
  }
};

TEST_F(Repacks, AreMadeOncePerContents) {
  RepackCache cache(1 << 20);
  const TestTensor x = tensor(1), z = tensor(5);
  const AllocationPtr copy = cache.get(*x.allocation, program, stream);
  EXPECT_EQ(first_of(copy), 2);
  EXPECT_EQ(cache.get(*x.allocation, program, stream), copy);
  EXPECT_EQ(cache.made(), 1);
  EXPECT_EQ(first_of(cache.get(*z.allocation, program, stream)), 6);
  EXPECT_EQ(cache.made(), 2);
  runtime::put(std::vector<float>(64 * 32, 7), x.tensor(), stream);
  EXPECT_EQ(first_of(cache.get(*x.allocation, program, stream)), 8);
  EXPECT_EQ(cache.made(), 3);
  EXPECT_EQ(cache.bytes(), 2 * copy->state().physical_bytes);
}

TEST_F(Repacks, OneSourceHasACopyPerProgram) {
  RepackCache cache(1 << 20);
  const TestTensor x = tensor(1);
  const RepackProgram same =
      RepackProgram::load(program::assemble([] {
                            std::string text = copy_text(64);
                            for (size_t at = 0; (at = text.find("repack", at)) != std::string::npos;)
                              text.replace(at, 6, "other_name");
                            return text;
                          }()),
                          base::HostType::f32, device);
  const RepackProgram other = RepackProgram::load(program::assemble(copy_text(64, "2.0")), base::HostType::f32, device);
  const AllocationPtr copy = cache.get(*x.allocation, program, stream);
  EXPECT_EQ(cache.get(*x.allocation, same, stream), copy);
  EXPECT_EQ(first_of(cache.get(*x.allocation, other, stream)), 3);
  EXPECT_EQ(cache.get(*x.allocation, program, stream), copy);
  EXPECT_EQ(cache.made(), 2);
}

TEST_F(Repacks, DieWithTheirSource) {
  RepackCache cache(1 << 20);
  const int64_t before = device.allocator().statistics().allocated_bytes[0].current;
  {
    const TestTensor x = tensor(1);
    cache.get(*x.allocation, program, stream);
    EXPECT_GT(cache.bytes(), 0);
  }
  EXPECT_EQ(cache.bytes(), 0);
  EXPECT_EQ(device.allocator().statistics().allocated_bytes[0].current, before);
}

TEST_F(Repacks, SourcesMayOutliveTheCache) {
  const TestTensor x = tensor(1);
  { RepackCache(1 << 20).get(*x.allocation, program, stream); }
  RepackCache again(1 << 20);
  EXPECT_EQ(first_of(again.get(*x.allocation, program, stream)), 2);
}

TEST_F(Repacks, TheLeastRecentlyUsedGoBeyondTheLimit) {
  const TestTensor a = tensor(1), b = tensor(2), c = tensor(3);
  const int64_t each = a.allocation->state().physical_bytes;
  RepackCache cache(2 * each);
  cache.get(*a.allocation, program, stream);
  cache.get(*b.allocation, program, stream);
  cache.get(*a.allocation, program, stream);
  cache.get(*c.allocation, program, stream);  // b goes
  EXPECT_EQ(cache.bytes(), 2 * each);
  cache.get(*a.allocation, program, stream);
  EXPECT_EQ(cache.made(), 3);
  EXPECT_EQ(first_of(cache.get(*b.allocation, program, stream)), 3);
  EXPECT_EQ(cache.made(), 4);

  RepackCache none(each - 1);  // a copy that is too large is made for its launch only
  EXPECT_EQ(first_of(none.get(*a.allocation, program, stream)), 2);
  EXPECT_EQ(none.bytes(), 0);
}

TEST_F(Repacks, OtherStreamsWaitForTheCopy) {
  runtime::Stream& other = device.create_stream();
  RepackCache cache(1 << 20);
  for (int round = 0; round < 20; ++round) {
    const TestTensor x = tensor(static_cast<float>(round));
    // Work that keeps the first stream busy, so that the copy is queued.
    stream.submit({"sleep", runtime::WorkKind::other, int64_t{1} << 40},
                  [] { return std::this_thread::sleep_for(std::chrono::milliseconds(2)), int64_t{0}; });
    const AllocationPtr copy = cache.get(*x.allocation, program, stream);
    EXPECT_EQ(cache.get(*x.allocation, program, other), copy);
    const float got =
        runtime::get<float>({copy.get(), base::HostType::f32, layout::HostView::contiguous({64, 32})}, other)[0];
    EXPECT_EQ(got, static_cast<float>(round) + 1);
    device.synchronize();
  }
}

TEST_F(Repacks, ACopyBehindAFailureIsMadeAgain) {
  RepackCache cache(1 << 20);
  const TestTensor x = tensor(1);
  device.synchronize();
  stream.submit({"fail", runtime::WorkKind::other, int64_t{1} << 40}, []() -> int64_t {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    throw Error(Fault::user, "a failure");
  });
  try {
    cache.get(*x.allocation, program, stream);
  } catch (const Error&) {  // the failure was quicker
  }
  EXPECT_THROW(device.synchronize(), Error);
  EXPECT_EQ(first_of(cache.get(*x.allocation, program, stream)), 2);
}

TEST_F(Repacks, ACopyThatWasOnlyTimedIsMadeAgain) {
  RepackCache cache(1 << 20);
  const TestTensor x = tensor(1);
  device.timing_only() = true;
  cache.get(*x.allocation, program, stream);
  cache.get(*x.allocation, program, stream);
  EXPECT_EQ(cache.made(), 1);
  device.timing_only() = false;
  EXPECT_EQ(first_of(cache.get(*x.allocation, program, stream)), 2);
  EXPECT_EQ(cache.made(), 2);
}

TEST_F(Repacks, GoWhenMemoryIsShort) {
  RepackCache& cache = RepackCache::of(device);
  cache.clear();
  const RepackProgram large = RepackProgram::load(program::assemble(copy_text(400'000)), base::HostType::f32, device);
  const TestTensor x(device, {400'000, 32}, base::HostType::f32);  // 49 MiB
  device.timing_only() = true;
  // The quarter of the memory that copies may take has no room for this one.
  cache.get(*x.allocation, large, stream);
  EXPECT_EQ(cache.bytes(), 0);
  const RepackProgram medium = RepackProgram::load(program::assemble(copy_text(200'000)), base::HostType::f32, device);
  const TestTensor y(device, {200'000, 32}, base::HostType::f32);  // 24 MiB, and its copy 24
  cache.get(*y.allocation, medium, stream);
  EXPECT_GT(cache.bytes(), 0);
  // 98 of 112 MiB are taken: the next tensor fits only without the copy.
  const int64_t free_bytes = device.allocator().info().free_bytes;
  const TestTensor last(device, {static_cast<int64_t>(free_bytes / 128) + 10'000, 32}, base::HostType::f32);
  EXPECT_EQ(cache.bytes(), 0);
}

}  // namespace
}  // namespace spyre::engine
