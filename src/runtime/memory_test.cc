#include "runtime/memory.h"

#include <gtest/gtest.h>

#include <future>
#include <random>
#include <thread>

#include "base/error.h"
#include "runtime/test_device.h"

namespace spyre::runtime {
namespace {

constexpr int64_t mib = 1 << 20;

class MemoryTest : public testing::Test {
 protected:
  int64_t used() { return device_.allocator().statistics().allocated_bytes[0].current; }
  int64_t reserved() { return device_.allocator().statistics().reserved_bytes[0].current; }
  AllocationPtr make(int64_t bytes, Stream* stream = nullptr) {
    return device_.allocator().allocate(bytes, stream ? *stream : stream_);
  }
  // Holds `stream` until the returned promise is fulfilled.
  static std::promise<void> hold(Stream& stream) {
    std::promise<void> promise;
    stream.submit(big, [future = std::shared_future<void>(promise.get_future())] {
      future.wait();
      return int64_t{0};
    });
    return promise;
  }

  LayoutOption plain_{nullptr};  // sizes below are those of default layouts
  Device device_{0, small_description()};
  Stream& stream_ = device_.default_stream();
};

TEST_F(MemoryTest, LogicalAddressesAreDistinctAndFoundByAnyPointerInside) {
  std::vector<AllocationPtr> all;
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) all.push_back(make(random() % 5000));
  for (const auto& a : all) {
    const char* const start = static_cast<char*>(a->data());
    EXPECT_EQ(find(start), a);
    EXPECT_EQ(find(start + a->logical_bytes() / 2), a);
    EXPECT_EQ(find(start + a->logical_bytes()), a) << "one past the end";
    for (const auto& b : all) {
      const bool apart =
          a->logical() + a->logical_bytes() < b->logical() || b->logical() + b->logical_bytes() < a->logical();
      EXPECT_TRUE(a == b || apart);
    }
  }
  const void* const stale = all[7]->data();
  all.clear();
  EXPECT_EQ(find(stale), nullptr);
  int local = 0;
  EXPECT_EQ(find(&local), nullptr);
  EXPECT_EQ(find(nullptr), nullptr);
}

TEST_F(MemoryTest, AHostReadOfALogicalAddressFaults) {
  const auto a = make(4096);
  EXPECT_DEATH({ [[maybe_unused]] volatile char c = *static_cast<volatile char*>(a->data()); }, "");
}

TEST_F(MemoryTest, PhysicalPlacesAreAlignedAndDisjoint) {
  std::vector<AllocationPtr> all;
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) all.push_back(make(1 + random() % (i % 10 == 0 ? 3 * mib : 50'000)));
  std::map<uint64_t, int64_t> places;
  for (const auto& a : all) {
    const auto s = a->state();
    EXPECT_EQ(s.physical % device_.description().allocation_alignment_bytes, 0u);
    EXPECT_GE(s.physical_bytes, a->logical_bytes());
    EXPECT_TRUE(places.emplace(s.physical, s.physical_bytes).second);
  }
  uint64_t end = 0;
  for (const auto& [address, bytes] : places) {
    EXPECT_GE(address, end);
    end = address + bytes;
  }
  EXPECT_LE(end, static_cast<uint64_t>(7 * device_.description().segment_bytes)) << "segment 7 holds programs only";
}

TEST_F(MemoryTest, AnAllocationMayCrossSegments) {
  const auto a = make(40 * mib);
  EXPECT_GE(a->state().physical_bytes, 40 * mib);
}

TEST_F(MemoryTest, ZeroBytesTakeNoDeviceMemoryButHaveAnAddress) {
  const auto a = make(0), b = make(0);
  EXPECT_NE(a->data(), b->data());
  EXPECT_EQ(find(a->data()), a);
  EXPECT_EQ(used(), 0);
}

TEST_F(MemoryTest, HostileSizesAreRefused) {
  EXPECT_THROW(make(-1), Error);
  for (const int64_t bytes : {INT64_MAX, INT64_MAX - 4095, int64_t{1} << 50, 113 * mib}) {
    try {
      make(bytes);
      ADD_FAILURE() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::out_of_memory);
    }
  }
  EXPECT_THROW(device_.allocator().allocate_typed(10, stream_, Placement::linear(base::HostType::f32, 3, false)),
               Error);
  EXPECT_EQ(used(), 0);
}

TEST_F(MemoryTest, FreedMemoryIsReusedAtOnceByItsStreamOnly) {
  Stream& other = device_.create_stream();
  auto held = hold(stream_);
  auto a = make(100'000);
  const uint64_t place = a->state().physical;
  a.reset();
  auto b = make(100'000, &other);
  EXPECT_NE(b->state().physical, place);
  auto c = make(100'000);
  EXPECT_EQ(c->state().physical, place) << "the stream's order makes it safe";
  held.set_value();
}

TEST_F(MemoryTest, MemoryUsedOnAnotherStreamWaitsForIt) {
  Stream& other = device_.create_stream();
  auto a = make(100'000);
  const uint64_t place = a->state().physical;
  auto held = hold(other);
  a->note_use(other);
  a.reset();
  EXPECT_EQ(used(), 0);
  EXPECT_GT(device_.allocator().statistics().active_bytes[0].current, 0);
  auto b = make(100'000);
  EXPECT_NE(b->state().physical, place);
  held.set_value();
  other.synchronize();
  auto c = make(100'000);
  EXPECT_EQ(c->state().physical, place);
}

TEST_F(MemoryTest, QueuedWorkOnAnotherStreamKeepsItsBytesWithoutRecordStream) {
  Stream& other = device_.create_stream();
  auto held = hold(other);
  std::vector<float> out;
  std::vector<float> result(1000, -1);
  auto reader = std::make_unique<TestTensor>(device_, std::vector<int64_t>{1000}, base::HostType::f32);
  put(counting<float>(1000), reader->tensor(), stream_);
  TestTensor copy(device_, {1000}, base::HostType::f32, &other);
  copy_on_device(reader->tensor(), copy.tensor(), other);
  reader.reset();
  for (int i = 0; i < 20; ++i) {  // would overwrite the source if its place were free
    TestTensor t(device_, {1000}, base::HostType::f32);
    put(std::vector<float>(1000, 9), t.tensor(), stream_);
  }
  held.set_value();
  EXPECT_EQ(get<float>(copy.tensor(), other), counting<float>(1000));
}

TEST_F(MemoryTest, OutOfMemoryTellsTheSizesAndTheWayOutAndTheDeviceGoesOn) {
  std::vector<AllocationPtr> all;
  try {
    while (true) all.push_back(make(10 * mib));
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::out_of_memory);
    const std::string text = error.what();
    for (const char* part : {"out of memory", "10.00 MiB", "112.00 MiB", "largest free block", "empty_cache"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_GE(all.size(), 10u);
  EXPECT_EQ(device_.allocator().statistics().num_ooms, 1);
  all.clear();
  EXPECT_NO_THROW(make(100 * mib)) << "cached pieces are given back for a larger one";
}

TEST_F(MemoryTest, MemoryThatWaitsForAnotherStreamIsWaitedForBeforeGivingUp) {
  Stream& other = device_.create_stream();
  auto a = make(100 * mib);
  auto held = hold(other);
  a->note_use(other);
  a.reset();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    held.set_value();
  });
  EXPECT_NO_THROW(make(100 * mib));
  later.join();
}

TEST_F(MemoryTest, EmptyCacheGivesEverythingUnusedBack) {
  auto a = make(5 * mib), b = make(100);
  a.reset();
  EXPECT_GT(reserved(), 5 * mib);
  device_.allocator().empty_cache();
  EXPECT_LE(reserved(), 2 * mib);
  b.reset();
  device_.allocator().empty_cache();
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(device_.allocator().info().free_bytes, device_.allocator().info().total_bytes);
  EXPECT_EQ(device_.allocator().info().total_bytes, 112 * mib);
}

TEST_F(MemoryTest, StatisticsCountPhysicalBytes) {
  {
    TestTensor t(device_, {64, 64}, base::HostType::i64);  // 32 KiB on the host, 16 KiB as int32
    EXPECT_EQ(t.allocation->logical_bytes(), 32768);
    const auto s = device_.allocator().statistics();
    EXPECT_EQ(s.allocated_bytes[0].current, 16384);
    EXPECT_EQ(s.requested_bytes[0].current, 16384);
    EXPECT_EQ(s.allocation[0].current, 1);
    EXPECT_EQ(s.allocation[static_cast<int>(Pool::small)].current, 1);
    EXPECT_EQ(s.segment[0].current, 1);
    EXPECT_EQ(s.inactive_split_bytes[0].current, s.reserved_bytes[0].current - 16384);
  }
  auto s = device_.allocator().statistics();
  EXPECT_EQ(s.allocated_bytes[0].current, 0);
  EXPECT_EQ(s.allocated_bytes[0].peak, 16384);
  EXPECT_EQ(s.allocated_bytes[0].allocated, 16384);
  EXPECT_EQ(s.allocated_bytes[0].freed, 16384);
  EXPECT_EQ(s.inactive_split_bytes[0].current, 0);
  device_.allocator().reset_peak();
  device_.allocator().reset_accumulated();
  s = device_.allocator().statistics();
  EXPECT_EQ(s.allocated_bytes[0].peak, 0);
  EXPECT_EQ(s.allocated_bytes[0].allocated, 0);
  EXPECT_EQ(s.num_device_alloc, 0);
  EXPECT_GT(s.reserved_bytes[0].peak, 0);
  EXPECT_NE(device_.allocator().summary().find("allocated"), std::string::npos);
}

TEST_F(MemoryTest, RandomTrafficKeepsTheBooks) {
  const unsigned seed = 17;
  std::mt19937 random(seed);
  std::vector<Stream*> streams{&stream_, &device_.create_stream(), &device_.create_stream()};
  std::vector<AllocationPtr> live;
  for (int i = 0; i < 4000; ++i) {
    if (live.size() > 40 || (!live.empty() && random() % 2)) {
      std::swap(live[random() % live.size()], live.back());
      if (random() % 3 == 0) live.back()->note_use(*streams[random() % 3]);
      live.pop_back();
    } else {
      const int64_t bytes = random() % 8 == 0 ? random() % (2 * mib) : random() % 20'000;
      live.push_back(make(bytes, streams[random() % 3]));
    }
    if (i % 500 == 0) device_.allocator().empty_cache();
  }
  std::map<uint64_t, int64_t> places;
  int64_t sum = 0;
  for (const auto& a : live) {
    const auto s = a->state();
    if (s.physical_bytes == 0) continue;
    EXPECT_TRUE(places.emplace(s.physical, s.physical_bytes).second) << "seed " << seed;
    sum += s.physical_bytes;
  }
  uint64_t end = 0;
  for (const auto& [address, bytes] : places) {
    EXPECT_GE(address, end) << "seed " << seed;
    end = address + bytes;
  }
  EXPECT_EQ(used(), sum);
  live.clear();
  device_.allocator().empty_cache();
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(reserved(), 0);
  const auto s = device_.allocator().statistics();
  EXPECT_EQ(s.inactive_split[0].current, 0);
  EXPECT_EQ(s.inactive_split_bytes[0].current, 0);
  EXPECT_EQ(s.active[0].current, 0);
}

TEST_F(MemoryTest, ThreadsMayAllocateFreeAndFindAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Stream& stream = device_.create_stream();
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<AllocationPtr> live;
      for (int i = 0; i < 1500; ++i) {
        live.push_back(make(random() % 10'000, &stream));
        EXPECT_EQ(find(live.back()->data()), live.back());
        live.back()->note_use(stream_);
        if (live.size() > 10) live.erase(live.begin() + random() % 10);
        if (i % 400 == 0) device_.allocator().empty_cache();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(used(), 0);
}

TEST_F(MemoryTest, ADataPointersContextHoldsTheAllocation) {
  auto a = make(100);
  const std::weak_ptr<Allocation> watch = a;
  void* const first = a->retain_context();
  void* const second = a->retain_context();
  EXPECT_EQ(Allocation::from_context(first), a.get());
  a.reset();
  EXPECT_FALSE(watch.expired());
  Allocation::release_context(first);
  EXPECT_FALSE(watch.expired());
  Allocation::release_context(second);
  EXPECT_TRUE(watch.expired());
  Allocation::release_context(nullptr);
}

TEST(MemoryScramble, EveryTypedAllocationGetsAPlacementOfItsOwn) {
  const LayoutOption scramble("scramble");
  Device device(0, small_description());
  TestTensor a(device, {100, 300}, base::HostType::f32), b(device, {100, 300}, base::HostType::f32);
  EXPECT_NE(a.allocation->placement()->geometry, b.allocation->placement()->geometry);
  const auto values = counting<float>(30'000);
  put(values, a.tensor(), device.default_stream());
  copy_on_device(a.tensor(), b.tensor(), device.default_stream());
  EXPECT_EQ(get<float>(b.tensor(), device.default_stream()), values);
  const LayoutOption wrong("wrong");
  EXPECT_THROW(Device(0, small_description()), Error);
}

}  // namespace
}  // namespace spyre::runtime
