#include "runtime/copies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <random>

#include "base/error.h"
#include "runtime/pinned.h"
#include "runtime/test_device.h"
#include "runtime/transitions.h"

namespace spyre::runtime {
namespace {

using base::HostType;
using layout::HostView;

class Copies : public testing::Test {
 protected:
  std::promise<void> hold(Stream& stream) {
    std::promise<void> promise;
    stream.submit({"held", WorkKind::other, 1'000'000, false},
                  [future = std::shared_future<void>(promise.get_future())] {
                    future.wait();
                    return int64_t{0};
                  });
    return promise;
  }
  Device device_{0, small_description()};
  Stream& stream_ = device_.default_stream();
};

std::vector<float> element_by_element(const std::vector<float>& storage, const HostView& view) {
  std::vector<float> out;
  std::vector<int64_t> index(view.sizes.size(), 0);
  for (int64_t i = 0; i < view.numel(); ++i) {
    int64_t at = view.offset, rest = i;
    for (size_t d = view.sizes.size(); d-- > 0;) {
      at += rest % view.sizes[d] * view.strides[d];
      rest /= view.sizes[d];
    }
    out.push_back(storage[static_cast<size_t>(at)]);
  }
  return out;
}

TEST_F(Copies, EveryDtypeComesBackAsItWent) {
  for (const HostType type : {HostType::f16, HostType::bf16, HostType::f32, HostType::b8, HostType::u8, HostType::i8,
                              HostType::i16, HostType::i32, HostType::i64, HostType::e4m3, HostType::e5m2}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{}, {1}, {63}, {3, 65}, {2, 3, 130}, {4, 1, 7}}) {
      TestTensor t(device_, sizes, type);
      const int width = base::host_bytes(type);
      const int64_t n = t.view.numel();
      std::vector<std::byte> in(static_cast<size_t>(n * width)), out(in.size());
      for (int64_t i = 0; i < n; ++i) {
        // Values that every format holds: 0 and 1 as the dtype writes them.
        int64_t one = 1;
        const uint16_t f16 = 0x3C00, bf16 = 0x3F80;
        const float f32 = 1.0f;
        const uint8_t e4m3 = 0x38, e5m2 = 0x3C;
        const void* source = type == HostType::f16    ? static_cast<const void*>(&f16)
                             : type == HostType::bf16 ? &bf16
                             : type == HostType::f32  ? &f32
                             : type == HostType::e4m3 ? &e4m3
                             : type == HostType::e5m2 ? &e5m2
                                                      : static_cast<const void*>(&one);
        if (i % 3 == 1) std::memcpy(in.data() + i * width, source, static_cast<size_t>(width));
      }
      copy_to_device({in.data(), type, t.view}, t.tensor(), stream_);
      copy_to_host(t.tensor(), {out.data(), type, t.view}, stream_);
      EXPECT_EQ(in, out) << base::host_name(type) << " " << t.view.to_text();
    }
  }
}

TEST_F(Copies, AnyViewOnBothSidesAgainstElementByElement) {
  const unsigned seed = 5;
  std::mt19937 random(seed);
  for (int round = 0; round < 150; ++round) {
    std::vector<int64_t> sizes;
    for (unsigned r = 1 + random() % 4, d = 0; d < r; ++d) sizes.push_back(1 + random() % (d == 0 ? 9 : 70));
    TestTensor t(device_, sizes, HostType::f32);
    auto storage = counting<float>(t.view.numel(), 1);
    put(storage, t.tensor(), stream_);
    // A slice with steps, dimensions in another order, perhaps expanded.
    HostView view = t.view;
    for (size_t d = 0; d < view.sizes.size(); ++d) {
      const int64_t start = random() % view.sizes[d], step = 1 + random() % 3;
      view.offset += start * view.strides[d];
      view.sizes[d] = (view.sizes[d] - start + step - 1) / step;
      view.strides[d] *= step;
    }
    for (size_t d = view.sizes.size(); d > 1; --d) {
      const size_t other = random() % d;
      std::swap(view.sizes[d - 1], view.sizes[other]);
      std::swap(view.strides[d - 1], view.strides[other]);
    }
    // Download, into a host tensor with gaps.
    HostView host = HostView::contiguous(view.sizes);
    for (auto& stride : host.strides) stride *= 2;
    host.offset = 3;
    std::vector<float> out(static_cast<size_t>(2 * view.numel() + 3), -1);
    copy_to_host(t.tensor(view), host_tensor(out, host), stream_);
    EXPECT_EQ(element_by_element(out, host), element_by_element(storage, view))
        << "seed " << seed << " round " << round;
    // Upload through the view: nothing else changes.
    std::vector<float> fresh = counting<float>(2 * view.numel() + 3, 1000);
    copy_to_device(host_tensor(fresh, host), t.tensor(view), stream_);
    std::vector<float> expected = storage;
    const auto places = element_by_element(counting<float>(t.view.numel()), view);
    const auto values = element_by_element(fresh, host);
    for (size_t i = 0; i < places.size(); ++i) expected[static_cast<size_t>(places[i])] = values[i];
    EXPECT_EQ(get<float>(t.tensor(), stream_), expected) << "seed " << seed << " round " << round;
    // Device to device, from the view to a tensor of its own.
    TestTensor copy(device_, view.sizes, HostType::f32);
    copy_on_device(t.tensor(view), copy.tensor(), stream_);
    EXPECT_EQ(get<float>(copy.tensor(), stream_), element_by_element(expected, view))
        << "seed " << seed << " round " << round;
  }
}

TEST_F(Copies, AnExpandedSourceIsReadAndAnExpandedDestinationRefused) {
  TestTensor row(device_, {5}, HostType::f32), all(device_, {3, 5}, HostType::f32);
  put(counting<float>(5), row.tensor(), stream_);
  const HostView expanded{{3, 5}, {0, 1}, 0};
  copy_on_device(row.tensor(expanded), all.tensor(), stream_);
  EXPECT_EQ(get<float>(all.tensor(), stream_), (std::vector<float>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  auto host = counting<float>(15);
  EXPECT_THROW(copy_to_device(host_tensor(host, HostView::contiguous({3, 5})), row.tensor(expanded), stream_), Error);
  EXPECT_THROW(copy_on_device(all.tensor(), row.tensor(expanded), stream_), Error);
  EXPECT_THROW(copy_to_host(all.tensor(), host_tensor(host, expanded), stream_), Error);
}

TEST(SelfOverlap, IsFoundExactly) {
  EXPECT_NO_THROW(check_no_self_overlap({{4, 5}, {5, 1}, 0}, "t"));
  EXPECT_NO_THROW(check_no_self_overlap({{4, 0}, {0, 0}, 0}, "t"));
  EXPECT_NO_THROW(check_no_self_overlap({{2, 3}, {3, 2}, 0}, "t"));  // 0 2 4 3 5 7
  EXPECT_THROW(check_no_self_overlap({{3, 3}, {2, 1}, 0}, "t"), Error);
  EXPECT_NO_THROW(
      check_no_self_overlap({{300, 2, 299}, {2, 601, 600}, 0}, "t"));  // interleaved, larger than 2^16, apart
}

TEST_F(Copies, NeighboursInTheSameStickKeepTheirValues) {
  TestTensor t(device_, {2, 100}, HostType::f16);
  const std::vector<uint16_t> ones(200, 0x3C00), twos(3, 0x4000);
  copy_to_device({const_cast<uint16_t*>(ones.data()), HostType::f16, t.view}, t.tensor(), stream_);
  copy_to_device({const_cast<uint16_t*>(twos.data()), HostType::f16, HostView::contiguous({1, 3})},
                 t.tensor({{1, 3}, {100, 1}, 130}), stream_);
  std::vector<uint16_t> out(200), expected = ones;
  for (int i = 130; i < 133; ++i) expected[static_cast<size_t>(i)] = 0x4000;
  copy_to_host(t.tensor(), {out.data(), HostType::f16, t.view}, stream_);
  EXPECT_EQ(out, expected);
}

TEST_F(Copies, OverlappingViewsOfOneStorageCopyAsIfReadFirst) {
  for (const int64_t shift : {1, 7, 64, -1, -64}) {
    TestTensor t(device_, {400}, HostType::i32);
    const auto values = counting<int32_t>(400);
    put(values, t.tensor(), stream_);
    const int64_t from = shift > 0 ? 0 : -shift, to = shift > 0 ? shift : 0, n = 400 - std::abs(shift);
    copy_on_device(t.tensor({{n}, {1}, from}), t.tensor({{n}, {1}, to}), stream_);
    auto expected = values;
    for (int64_t i = 0; i < n; ++i) expected[static_cast<size_t>(to + i)] = values[static_cast<size_t>(from + i)];
    EXPECT_EQ(get<int32_t>(t.tensor(), stream_), expected) << shift;
  }
  TestTensor square(device_, {70, 70}, HostType::f32);
  put(counting<float>(4900), square.tensor(), stream_);
  copy_on_device(square.tensor({{70, 70}, {1, 70}, 0}), square.tensor(), stream_);
  const auto out = get<float>(square.tensor(), stream_);
  for (int64_t i = 0; i < 4900; ++i) ASSERT_EQ(out[static_cast<size_t>(i)], static_cast<float>(i % 70 * 70 + i / 70));
}

TEST_F(Copies, DtypesAreConvertedOnTheDevice) {
  TestTensor f(device_, {6}, HostType::f32);
  put<float>({-1.7f, 0.0f, 3.9f, 300.0f, 1e6f, -0.0f}, f.tensor(), stream_);
  const auto converted = [&]<typename T>(HostType type, T) {
    TestTensor t(device_, {6}, type);
    copy_on_device(f.tensor(), t.tensor(), stream_);
    std::vector<T> out(6);
    copy_to_host(t.tensor(), {out.data(), type, t.view}, stream_);
    return out;
  };
  EXPECT_EQ(converted(HostType::i32, int32_t{}), (std::vector<int32_t>{-1, 0, 3, 300, 1000000, 0}));
  EXPECT_EQ(converted(HostType::i64, int64_t{}), (std::vector<int64_t>{-1, 0, 3, 300, 1000000, 0}));
  EXPECT_EQ(converted(HostType::u8, uint8_t{}), (std::vector<uint8_t>{255, 0, 3, 44, 64, 0}));
  EXPECT_EQ(converted(HostType::i8, int8_t{}), (std::vector<int8_t>{-1, 0, 3, 44, 64, 0}));
  EXPECT_EQ(converted(HostType::b8, uint8_t{}), (std::vector<uint8_t>{1, 0, 1, 1, 1, 0}));
  EXPECT_EQ(converted(HostType::f16, uint16_t{})[2], 0x43CC);  // 3.9 through DL16: 3.8984375
}

TEST_F(Copies, IntegersBecomeRealsAndTruthValues) {
  TestTensor i(device_, {4}, HostType::i64), f(device_, {4}, HostType::f32), b(device_, {4}, HostType::b8),
      j(device_, {4}, HostType::i16);
  put<int64_t>({0, -5, 70000, 16777217}, i.tensor(), stream_);
  copy_on_device(i.tensor(), f.tensor(), stream_);
  EXPECT_EQ(get<float>(f.tensor(), stream_), (std::vector<float>{0, -5, 70000, 16777216}));
  copy_on_device(i.tensor(), b.tensor(), stream_);
  std::vector<uint8_t> out(4);
  copy_to_host(b.tensor(), {out.data(), HostType::b8, b.view}, stream_);
  EXPECT_EQ(out, (std::vector<uint8_t>{0, 1, 1, 1}));
  copy_on_device(i.tensor(), j.tensor(), stream_);
  EXPECT_EQ(get<int16_t>(j.tensor(), stream_), (std::vector<int16_t>{0, -5, 4464, 1}));
}

TEST_F(Copies, ValuesThatInt64CannotHoldOnTheDeviceAreRefused) {
  TestTensor i(device_, {2}, HostType::i64), f(device_, {2}, HostType::f32), j(device_, {2}, HostType::i32);
  EXPECT_THROW(put<int64_t>({1, int64_t{1} << 40}, i.tensor(), stream_), Error);
  for (const float bad : {3e9f, -3e9f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    put<float>({1, bad}, f.tensor(), stream_);
    EXPECT_THROW(copy_on_device(f.tensor(), i.tensor(), stream_), Error) << bad;
    copy_on_device(f.tensor(), j.tensor(), stream_);
    EXPECT_EQ(get<int32_t>(j.tensor(), stream_)[1], std::numeric_limits<int32_t>::min());
  }
  EXPECT_NO_THROW(stream_.synchronize());
}

TEST_F(Copies, AConversionErrorIsThrownAtTheCallEvenBehindQueuedWork) {
  TestTensor i(device_, {2}, HostType::i64);
  auto held = hold(stream_);
  EXPECT_THROW(put<int64_t>({1, int64_t{1} << 40}, i.tensor(), stream_), Error);
  held.set_value();
  EXPECT_NO_THROW(stream_.synchronize());
}

TEST_F(Copies, ASourceMayBeReusedOnReturnAlsoBehindQueuedWork) {
  TestTensor t(device_, {1000}, HostType::f32), raw(device_, {1000}, HostType::f32);
  make_raw(*raw.allocation, stream_);
  auto held = hold(stream_);
  for (const TestTensor* tensor : {&t, &raw})
    for (const bool non_blocking : {false, true}) {
      auto values = counting<float>(1000, non_blocking ? 5.0f : 1.0f);
      copy_to_device(host_tensor(values, t.view), tensor->tensor(), stream_, non_blocking);
      std::fill(values.begin(), values.end(), -1.0f);
    }
  held.set_value();
  EXPECT_EQ(get<float>(t.tensor(), stream_), counting<float>(1000, 5));
  EXPECT_EQ(get<float>(raw.tensor(), stream_), counting<float>(1000, 5));
}

TEST_F(Copies, PinnedMemoryIsCopiedAfterTheCall) {
  TestTensor t(device_, {1000}, HostType::f32);
  auto* const pinned = static_cast<float*>(allocate_pinned(4000));
  const HostTensor host{pinned, HostType::f32, t.view};
  auto held = hold(stream_);
  std::fill(pinned, pinned + 1000, 1.0f);
  copy_to_device(host, t.tensor(), stream_, true);
  std::fill(pinned, pinned + 1000, 2.0f);  // before the copy has run: that is what non_blocking means
  held.set_value();
  EXPECT_EQ(get<float>(t.tensor(), stream_), std::vector<float>(1000, 2.0f));
  auto again = hold(stream_);
  std::fill(pinned, pinned + 1000, 0.0f);
  copy_to_host(t.tensor(), host, stream_, true);
  EXPECT_EQ(pinned[0], 0.0f);
  again.set_value();
  stream_.synchronize();
  EXPECT_EQ(pinned[999], 2.0f);
  free_pinned(pinned);
}

TEST_F(Copies, APinnedBufferIsNotReusedBeforeItsCopies) {
  TestTensor t(device_, {1000}, HostType::f32);
  void* const pinned = allocate_pinned(4096);
  EXPECT_TRUE(is_pinned(static_cast<char*>(pinned) + 4095));
  std::fill_n(static_cast<float*>(pinned), 1000, 3.0f);
  auto held = hold(stream_);
  copy_to_device({pinned, HostType::f32, t.view}, t.tensor(), stream_, true);
  free_pinned(pinned);
  EXPECT_FALSE(is_pinned(pinned));
  void* const other = allocate_pinned(4096);
  EXPECT_NE(other, pinned);
  std::fill_n(static_cast<float*>(other), 1000, 4.0f);
  held.set_value();
  EXPECT_EQ(get<float>(t.tensor(), stream_), std::vector<float>(1000, 3.0f));
  void* const third = allocate_pinned(4096);
  EXPECT_EQ(third, pinned);
  free_pinned(other);
  free_pinned(third);
  int local = 0;
  free_pinned(&local);
  free_pinned(nullptr);
  EXPECT_FALSE(is_pinned(&local));
  EXPECT_EQ(pinned_statistics().buffers, 0);
  empty_pinned_cache();
  EXPECT_EQ(pinned_statistics().cached_bytes, 0);
}

TEST_F(Copies, DevicesExchangeData) {
  Device other(1, small_description());
  TestTensor a(device_, {100, 70}, HostType::f32), b(other, {100, 70}, HostType::f32);
  put(counting<float>(7000), a.tensor(), stream_);
  other.default_stream().wait(stream_.record());
  copy_on_device(a.tensor(), b.tensor(), other.default_stream());
  EXPECT_EQ(get<float>(b.tensor(), other.default_stream()), counting<float>(7000));
  // On the source's stream, and through another dtype: the destination turns raw on a stream of the other device.
  copy_on_device(a.tensor({{10}, {1}, 5}), {b.allocation.get(), HostType::i32, {{10}, {1}, 0}}, stream_);
  other.default_stream().wait(stream_.record());
  EXPECT_EQ(get<int32_t>({b.allocation.get(), HostType::i32, {{10}, {1}, 0}}, other.default_stream()),
            counting<int32_t>(10, 5));
  EXPECT_EQ(get<float>(b.tensor({{20}, {1}, 10}), other.default_stream()), counting<float>(20, 10));
  const auto clone = clone_storage(*a.allocation, other.default_stream());
  EXPECT_EQ(&clone->device(), &other);
  EXPECT_EQ(get<float>({clone.get(), HostType::f32, a.view}, other.default_stream()), counting<float>(7000));
}

TEST_F(Copies, AViewOfAnotherDtypeReadsTheLogicalBytes) {
  TestTensor f(device_, {3, 50}, HostType::f32);
  auto values = counting<float>(150, 0.5f);
  put(values, f.tensor(), stream_);
  std::vector<int32_t> expected(150);
  std::memcpy(expected.data(), values.data(), 600);
  EXPECT_EQ(get<int32_t>({f.allocation.get(), HostType::i32, f.view}, stream_), expected);
  EXPECT_TRUE(f.allocation->typed()) << "a read changes nothing";
  TestTensor i(device_, {3, 50}, HostType::i32);
  copy_on_device({f.allocation.get(), HostType::i32, f.view}, i.tensor(), stream_);
  EXPECT_EQ(get<int32_t>(i.tensor(), stream_), expected);
}

TEST_F(Copies, AWriteThroughAnotherDtypeKeepsTheOtherBytes) {
  TestTensor f(device_, {40}, HostType::f32);
  auto values = counting<float>(40, 0.5f);
  put(values, f.tensor(), stream_);
  put<int16_t>({1, 2, 3}, {f.allocation.get(), HostType::i16, {{3}, {2}, 5}}, stream_);  // half words 5, 7, 9
  EXPECT_FALSE(f.allocation->typed());
  int16_t half = 0;
  for (int16_t k = 0; k < 3; ++k) {
    half = static_cast<int16_t>(k + 1);
    std::memcpy(reinterpret_cast<char*>(values.data()) + (5 + 2 * k) * 2, &half, 2);
  }
  const auto out = get<float>(f.tensor(), stream_);
  EXPECT_EQ(std::memcmp(out.data(), values.data(), 160), 0);
}

TEST_F(Copies, OneStorageMayBeSourceAndDestinationThroughTwoDtypes) {
  TestTensor f(device_, {64}, HostType::i32);
  put(counting<int32_t>(64), f.tensor(), stream_);
  // Bytes 0..63 read as bytes, written as int32 values over the whole: overlapping.
  copy_on_device({f.allocation.get(), HostType::u8, {{64}, {1}, 0}}, f.tensor(), stream_);
  auto bytes = counting<int32_t>(64);
  std::vector<int32_t> expected(64);
  for (size_t i = 0; i < 64; ++i) expected[i] = reinterpret_cast<const uint8_t*>(bytes.data())[i];
  EXPECT_EQ(get<int32_t>(f.tensor(), stream_), expected);
  copy_on_device(f.tensor({{16}, {1}, 0}), {f.allocation.get(), HostType::i16, {{16}, {1}, 8}}, stream_);
  auto wide = expected;
  for (int16_t i = 0; i < 16; ++i) {
    const auto v = static_cast<int16_t>(expected[static_cast<size_t>(i)]);
    std::memcpy(reinterpret_cast<char*>(wide.data()) + (8 + i) * 2, &v, 2);
  }
  EXPECT_EQ(get<int32_t>(f.tensor(), stream_), wide);
}

TEST_F(Copies, FillReachesTheViewOnly) {
  TestTensor t(device_, {10, 100}, HostType::f32);
  put(counting<float>(1000), t.tensor(), stream_);
  const float value = -2.5f;
  fill(t.tensor({{3, 40}, {200, 2}, 105}), &value, stream_);
  auto expected = counting<float>(1000);
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t c = 0; c < 40; ++c) expected[static_cast<size_t>(105 + 200 * r + 2 * c)] = value;
  EXPECT_EQ(get<float>(t.tensor(), stream_), expected);
  make_raw(*t.allocation, stream_);
  fill(t.tensor({{1000}, {1}, 0}), &value, stream_);
  EXPECT_EQ(get<float>(t.tensor(), stream_), std::vector<float>(1000, value));
}

TEST_F(Copies, WritesRaiseTheGenerationAndReadsDoNot) {
  TestTensor t(device_, {8}, HostType::f32);
  const auto g0 = t.allocation->generation();
  put(counting<float>(8), t.tensor(), stream_);
  const auto g1 = t.allocation->generation();
  EXPECT_GT(g1, g0);
  get<float>(t.tensor(), stream_);
  EXPECT_EQ(t.allocation->generation(), g1);
  const float value = 0;
  fill(t.tensor(), &value, stream_);
  EXPECT_GT(t.allocation->generation(), g1);
}

TEST_F(Copies, IllegalRequestsNameTheViews) {
  TestTensor t(device_, {4, 4}, HostType::f32);
  auto host = counting<float>(16);
  EXPECT_THROW(copy_to_device(host_tensor(host, HostView::contiguous({16})), t.tensor(), stream_), Error);
  EXPECT_THROW(copy_to_device(host_tensor(host, t.view), t.tensor({{4, 4}, {4, 1}, 1}), stream_), Error);
  EXPECT_THROW(copy_to_host(t.tensor({{2}, {INT64_MAX}, 0}), host_tensor(host, HostView::contiguous({2})), stream_),
               Error);
  EXPECT_THROW(copy_to_host(t.tensor({{2}, {-1}, 1}), host_tensor(host, HostView::contiguous({2})), stream_), Error);
  EXPECT_THROW(copy_to_device({host.data(), HostType::i32, t.view}, t.tensor(), stream_), Error);
  EXPECT_THROW(copy_on_device({nullptr, HostType::f32, t.view}, t.tensor(), stream_), Error);
}

TEST_F(Copies, EmptyAndScalarTensorsAreLegal) {
  TestTensor none(device_, {0, 5}, HostType::f32), one(device_, {}, HostType::f32);
  std::vector<float> nothing;
  copy_to_device(host_tensor(nothing, none.view), none.tensor(), stream_);
  copy_to_host(none.tensor(), host_tensor(nothing, none.view), stream_);
  put<float>({7}, one.tensor(), stream_);
  EXPECT_EQ(get<float>(one.tensor(), stream_), std::vector<float>{7});
}

TEST_F(Copies, LargeCopiesUseThePoolAndStayRight) {
  TestTensor t(device_, {700, 1500}, HostType::f32), turned(device_, {1500, 700}, HostType::f32);
  const auto values = counting<float>(700 * 1500);
  put(values, t.tensor(), stream_);
  copy_on_device(t.tensor({{1500, 700}, {1, 1500}, 0}), turned.tensor(), stream_);
  const auto out = get<float>(turned.tensor(), stream_);
  for (int64_t i = 0; i < 1500; i += 7)
    for (int64_t j = 0; j < 700; j += 3)
      ASSERT_EQ(out[static_cast<size_t>(i * 700 + j)], static_cast<float>(j * 1500 + i));
  EXPECT_EQ(get<float>(t.tensor(), stream_), values);
}

TEST_F(Copies, CopiesAdvanceModelledTimeByTheirBytes) {
  TestTensor t(device_, {1 << 20}, HostType::f32);
  const int64_t before = stream_.modelled_ps();
  put(counting<float>(1 << 20), t.tensor(), stream_);
  const double expected = (4 << 20) * 1000.0 / device_.description().host_transfer_gbps;
  EXPECT_NEAR(static_cast<double>(stream_.modelled_ps() - before), expected, 1.0);
}

}  // namespace
}  // namespace spyre::runtime
