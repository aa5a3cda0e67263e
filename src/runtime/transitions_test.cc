#include "runtime/transitions.h"

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <random>

#include "base/error.h"
#include "runtime/test_device.h"

namespace spyre::runtime {
namespace {

using base::HostType;
using layout::HostView;

class Transitions : public testing::Test {
 protected:
  std::vector<uint8_t> bytes_of(Allocation& a) {
    std::vector<uint8_t> out(static_cast<size_t>(a.logical_bytes()));
    read_bytes(a, 0, a.logical_bytes(), out.data(), stream_);
    return out;
  }
  Device device_{0, small_description()};
  Stream& stream_ = device_.default_stream();
};

TEST_F(Transitions, RawBecomesTypedWithItsValuesAndBack) {
  const auto values = counting<float>(6 * 70, 0.25f);
  const auto a = device_.allocator().allocate(6 * 70 * 4, stream_);
  write_bytes(*a, 0, a->logical_bytes(), values.data(), stream_);
  EXPECT_FALSE(a->typed());
  const auto placement = Placement::of({6, 70}, {70, 1}, HostType::f32, false);
  make_typed(*a, placement, stream_);
  EXPECT_EQ(a->placement()->type, HostType::f32);
  EXPECT_EQ(get<float>({a.get(), HostType::f32, HostView::contiguous({6, 70})}, stream_), values);
  make_raw(*a, stream_);
  EXPECT_FALSE(a->typed());
  std::vector<float> out(values.size());
  read_bytes(*a, 0, a->logical_bytes(), out.data(), stream_);
  EXPECT_EQ(out, values);
}

TEST_F(Transitions, TypedForAnotherDtypeGoesThroughLogicalBytes) {
  TestTensor t(device_, {40}, HostType::i32);
  put(counting<int32_t>(40, 0x3F800000), t.tensor(), stream_);
  make_typed(*t.allocation, Placement::linear(HostType::f32, 40, false), stream_);
  const auto out = get<float>({t.allocation.get(), HostType::f32, t.view}, stream_);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_GT(out[1], 1.0f);
}

TEST_F(Transitions, BytesBehindTheLastElementSurvive) {
  std::vector<uint8_t> bytes = counting<uint8_t>(103);
  const auto a = device_.allocator().allocate(103, stream_);
  write_bytes(*a, 0, 103, bytes.data(), stream_);
  make_typed(*a, Placement::linear(HostType::i32, 25, false), stream_);
  EXPECT_EQ(bytes_of(*a), bytes);
  make_typed(*a, Placement::linear(HostType::i16, 10, false), stream_);  // a layout of a part: the rest stays raw
  EXPECT_EQ(bytes_of(*a), bytes);
  const uint8_t other[5] = {200, 201, 202, 203, 204};
  std::vector<uint8_t> part(7);
  read_bytes(*a, 17, 7, part.data(), stream_);  // crosses the border, and cuts an element
  EXPECT_EQ(part, std::vector<uint8_t>(bytes.begin() + 17, bytes.begin() + 24));
  write_bytes(*a, 99, 4, other, stream_);
  std::copy(other, other + 4, bytes.begin() + 99);
  EXPECT_EQ(bytes_of(*a), bytes);
}

TEST_F(Transitions, RelayoutKeepsTheValues) {
  TestTensor t(device_, {30, 50}, HostType::f16);
  std::vector<uint16_t> values(1500), out(1500);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(0x3C00 + 2 * (i % 200));
  copy_to_device({values.data(), HostType::f16, t.view}, t.tensor(), stream_);
  const layout::SpyreTensorLayout turned({30, 50}, {50, 1}, HostType::f16, {1, 0});
  const auto placement = std::make_shared<const Placement>(
      Placement{HostType::f16, layout::Geometry::of(turned, {30, 50}, {50, 1}), turned});
  relayout(*t.allocation, placement, stream_);
  EXPECT_EQ(t.allocation->placement()->user_layout, turned);
  copy_to_host(t.tensor(), {out.data(), HostType::f16, t.view}, stream_);
  EXPECT_EQ(out, values);
  EXPECT_THROW(relayout(*t.allocation, Placement::linear(HostType::f32, 100, false), stream_), Error);
}

TEST_F(Transitions, QueuedWorkGoesOnWithTheOldForm) {
  TestTensor t(device_, {1000}, HostType::f32), before(device_, {1000}, HostType::f32);
  put(counting<float>(1000), t.tensor(), stream_);
  std::promise<void> held;
  stream_.submit({"held", WorkKind::other, 1'000'000, false}, [future = std::shared_future<void>(held.get_future())] {
    future.wait();
    return int64_t{0};
  });
  copy_on_device(t.tensor(), before.tensor(), stream_);
  make_raw(*t.allocation, stream_);
  for (int i = 0; i < 10; ++i) {  // would take the old place if it were free too early
    TestTensor other(device_, {1000}, HostType::f32);
    put(std::vector<float>(1000, 9), other.tensor(), stream_);
  }
  held.set_value();
  EXPECT_EQ(get<float>(before.tensor(), stream_), counting<float>(1000));
  EXPECT_EQ(get<float>(t.tensor(), stream_), counting<float>(1000));
}

TEST_F(Transitions, AFailedTransitionLeavesTheOldForm) {
  const std::vector<int64_t> values{1, int64_t{1} << 40, 3};
  const auto a = device_.allocator().allocate(24, stream_);
  write_bytes(*a, 0, 24, values.data(), stream_);
  EXPECT_THROW(make_typed(*a, Placement::linear(HostType::i64, 3, false), stream_), Error);
  EXPECT_FALSE(a->typed());
  std::vector<int64_t> out(3);
  read_bytes(*a, 0, 24, out.data(), stream_);
  EXPECT_EQ(out, values);
  EXPECT_THROW(make_typed(*a, Placement::linear(HostType::f32, 7, false), stream_), Error);
  EXPECT_THROW(make_typed(*a, nullptr, stream_), Error);
}

TEST_F(Transitions, ACloneIsEqualAndApart) {
  for (const bool typed : {true, false}) {
    TestTensor t(device_, {9, 33}, HostType::i32);
    put(counting<int32_t>(297), t.tensor(), stream_);
    if (!typed) make_raw(*t.allocation, stream_);
    const auto clone = clone_storage(*t.allocation, stream_);
    EXPECT_EQ(clone->placement(), t.allocation->placement());
    const int32_t zero = 0;
    fill(t.tensor(), &zero, stream_);
    EXPECT_EQ(get<int32_t>({clone.get(), HostType::i32, t.view}, stream_), counting<int32_t>(297));
  }
}

TEST_F(Transitions, ResizeKeepsLogicalBytes) {
  TestTensor t(device_, {6, 70}, HostType::f32);
  const auto values = counting<float>(420);
  put(values, t.tensor(), stream_);
  const auto grown = resize(*t.allocation, 1001 * 4 + 2, stream_);
  EXPECT_EQ(get<float>({grown.get(), HostType::f32, {{420}, {1}, 0}}, stream_), values);
  const auto shrunk = resize(*grown, 10, stream_);
  EXPECT_EQ(get<float>({shrunk.get(), HostType::f32, {{2}, {1}, 0}}, stream_), (std::vector<float>{0, 1}));
  const auto shaped = resize(*t.allocation, 840 * 4, stream_, Placement::of({12, 70}, {70, 1}, HostType::f32, false));
  EXPECT_EQ(get<float>({shaped.get(), HostType::f32, {{6, 70}, {70, 1}, 0}}, stream_), values);
  const auto raw = resize(*device_.allocator().allocate(16, stream_), 64, stream_);
  EXPECT_FALSE(raw->typed());
  EXPECT_EQ(resize(*t.allocation, 0, stream_)->logical_bytes(), 0);
  EXPECT_THROW(resize(*t.allocation, -4, stream_), Error);
}

TEST_F(Transitions, StorageCopiesOfAnyForms) {
  TestTensor a(device_, {40}, HostType::f32), b(device_, {40}, HostType::i16), c(device_, {40}, HostType::f32);
  put(counting<float>(40), a.tensor(), stream_);
  put(counting<float>(40, 100), c.tensor(), stream_);
  copy_bytes(*a.allocation, 0, *c.allocation, 0, 160, stream_);  // whole, same size: takes over the form
  EXPECT_TRUE(c.allocation->typed());
  EXPECT_EQ(get<float>(c.tensor(), stream_), counting<float>(40));
  put(counting<int16_t>(40), b.tensor(), stream_);
  const auto expected = [&] {
    auto bytes = bytes_of(*a.allocation);
    const auto other = bytes_of(*b.allocation);
    std::copy(other.begin() + 3, other.begin() + 14, bytes.begin() + 81);
    return bytes;
  }();
  copy_bytes(*b.allocation, 3, *a.allocation, 81, 11, stream_);
  EXPECT_EQ(bytes_of(*a.allocation), expected);
  auto moved = expected;
  std::copy(expected.begin() + 10, expected.begin() + 60, moved.begin() + 20);
  copy_bytes(*a.allocation, 10, *a.allocation, 20, 50, stream_);  // overlap
  EXPECT_EQ(bytes_of(*a.allocation), moved);
  EXPECT_THROW(copy_bytes(*b.allocation, 0, *a.allocation, 0, 81, stream_), Error);
  EXPECT_THROW(copy_bytes(*b.allocation, -1, *a.allocation, 0, 8, stream_), Error);
  EXPECT_THROW(copy_bytes(*b.allocation, 1, *a.allocation, 0, INT64_MAX, stream_), Error);
}

TEST_F(Transitions, AWholeCopyGivesTheDestinationTheSourcesForm) {
  TestTensor a(device_, {8, 20}, HostType::f16);
  const auto raw = device_.allocator().allocate(320, stream_);
  std::vector<uint16_t> values(160, 0x3C00), out(160);
  copy_to_device({values.data(), HostType::f16, a.view}, a.tensor(), stream_);
  copy_bytes(*a.allocation, 0, *raw, 0, 320, stream_);
  EXPECT_EQ(raw->placement(), a.allocation->placement());
  copy_to_host({raw.get(), HostType::f16, a.view}, {out.data(), HostType::f16, a.view}, stream_);
  EXPECT_EQ(out, values);
}

TEST_F(Transitions, ZeroReachesAllForms) {
  TestTensor t(device_, {33}, HostType::i64);
  put(counting<int64_t>(33, 1), t.tensor(), stream_);
  zero_bytes(*t.allocation, stream_);
  EXPECT_EQ(get<int64_t>(t.tensor(), stream_), std::vector<int64_t>(33, 0));
}

TEST_F(Transitions, RandomSequencesKeepTheLogicalBytes) {
  const unsigned seed = 23;
  std::mt19937 random(seed);
  Stream& second = device_.create_stream();
  for (int round = 0; round < 40; ++round) {
    const int64_t n = 1 + random() % 3000;
    std::vector<int16_t> values(static_cast<size_t>(n));
    for (auto& v : values) v = static_cast<int16_t>(random());
    AllocationPtr a = device_.allocator().allocate(n * 2, stream_);
    write_bytes(*a, 0, n * 2, values.data(), stream_);
    std::vector<uint8_t> expected(static_cast<size_t>(n * 2));
    std::memcpy(expected.data(), values.data(), expected.size());
    for (int step = 0; step < 12; ++step) {
      Stream& stream = random() % 2 ? stream_ : second;
      stream.wait((&stream == &stream_ ? second : stream_).record());
      switch (random() % 6) {
        case 0:
          make_typed(*a, Placement::linear(HostType::i16, n, false), stream);
          break;
        case 1:
          make_typed(*a, Placement::linear(HostType::i32, n / 2, false), stream);
          break;
        case 2:
          make_typed(*a, Placement::linear(HostType::u8, n, false), stream);
          break;
        case 3:
          make_raw(*a, stream);
          break;
        case 4:
          a = clone_storage(*a, stream);
          break;
        default:
          a = resize(*a, n * 2, stream);
      }
      stream_.wait(second.record());
      ASSERT_EQ(bytes_of(*a), expected) << "seed " << seed << " round " << round << " step " << step;
    }
  }
}

}  // namespace
}  // namespace spyre::runtime
