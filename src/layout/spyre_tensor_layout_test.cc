#include "layout/spyre_tensor_layout.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace spyre::layout {
namespace {

using base::HostType;
using Sizes = std::vector<int64_t>;

void expect_layout(const SpyreTensorLayout& layout, const Sizes& device_size, const Sizes& stride_map) {
  EXPECT_EQ(layout.device_size(), device_size);
  EXPECT_EQ(layout.stride_map(), stride_map);
}

template <typename Fn>
std::string error_of(Fault fault, Fn&& fn) {
  try {
    fn();
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), fault) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(SpyreTensorLayout, WorkedValuesOfTheInterface) {
  expect_layout({Sizes{1024, 256}, HostType::f16}, {4, 1024, 64}, {64, 256, 1});
  expect_layout({Sizes{1000, 200}, HostType::f16}, {4, 1000, 64}, {64, 200, 1});
  expect_layout({Sizes{5, 100, 150}, HostType::f16}, {100, 3, 5, 64}, {150, 64, 15000, 1});
  expect_layout({{5, 100, 150}, {15000, 150, 1}, HostType::f16, {1, 0, 2}}, {5, 3, 100, 64}, {15000, 64, 150, 1});
  expect_layout({Sizes{1, 1, 4096}, HostType::f32}, {1, 128, 1, 32}, {-1, 32, -1, 1});
  expect_layout({Sizes{1, 3, 128}, HostType::f16}, {3, 2, 1, 64}, {128, 64, -1, 1});
  expect_layout({Sizes{}, HostType::f16}, {1, 64}, {-1, -1});
  expect_layout({Sizes{50, 10, 200}, HostType::f16}, {10, 4, 50, 64}, {200, 64, 2000, 1});
  expect_layout({Sizes{256}, HostType::i64}, {8, 32}, {32, 1});
  expect_layout({Sizes{60}, HostType::f16}, {1, 64}, {64, 1});
}

TEST(SpyreTensorLayout, DefaultTemplateOfEachRank) {
  expect_layout({Sizes{2, 3, 4, 70}, HostType::f16}, {3, 4, 2, 2, 64}, {280, 70, 64, 840, 1});
  expect_layout({Sizes{2, 3, 4, 5, 70}, HostType::f16}, {3, 4, 5, 2, 2, 64}, {1400, 350, 70, 64, 4200, 1});
  expect_layout({Sizes{2, 3, 4, 5, 6, 70}, HostType::f16}, {3, 4, 5, 6, 2, 2, 64}, {8400, 2100, 420, 70, 64, 25200, 1});
}

TEST(SpyreTensorLayout, TrailingMinusOneIsSparse) {
  const SpyreTensorLayout layout({5, 7}, {7, 1}, HostType::f16, {0, 1, -1});
  expect_layout(layout, {7, 1, 5, 64}, {1, -1, 7, -1});
  EXPECT_EQ(layout.device_bytes(), 128 * 35);
  expect_layout({{5}, {1}, HostType::f32, {0, -1}}, {1, 5, 32}, {-1, 1, -1});
}

TEST(SpyreTensorLayout, EmptyTensorsTakeNoMemory) {
  expect_layout({Sizes{0, 5}, HostType::f16}, {1, 0, 64}, {64, 5, 1});
  EXPECT_EQ(SpyreTensorLayout(Sizes{0, 5}, HostType::f16).device_bytes(), 0);
  expect_layout({Sizes{0}, HostType::f16}, {0, 64}, {64, 1});
}

TEST(SpyreTensorLayout, BytesCountWholeSticks) {
  EXPECT_EQ(SpyreTensorLayout(Sizes{1000, 200}, HostType::f16).device_bytes(), 128 * 4 * 1000);
  EXPECT_EQ(SpyreTensorLayout(Sizes{}, HostType::f16).device_bytes(), 128);
}

TEST(SpyreTensorLayout, SevenDimensionsRaiseWithAdvice) {
  const std::string message =
      error_of(Fault::user, [] { SpyreTensorLayout(Sizes{1, 1, 1, 1, 1, 1, 2}, HostType::f16); });
  EXPECT_NE(message.find("Reshape"), std::string::npos);
}

TEST(SpyreTensorLayout, SizesThatAreNegativeOrLeave64BitsRaise) {
  error_of(Fault::user, [] { SpyreTensorLayout(Sizes{3, -1}, HostType::f16); });
  error_of(Fault::user, [] { SpyreTensorLayout(Sizes{int64_t{1} << 40, int64_t{1} << 40}, HostType::f16); });
  error_of(Fault::user, [] { SpyreTensorLayout(Sizes{INT64_MAX}, HostType::f16); });
  error_of(Fault::user, [] { SpyreTensorLayout(Sizes{int64_t{1} << 60, 1}, HostType::f16); });
  error_of(Fault::user, [] { SpyreTensorLayout({1 << 30, 1 << 30, 64}, {64, 64, 1}, DataFormats::SEN169_FP16); });
  error_of(Fault::user, [] { SpyreTensorLayout({0, 64}, {INT64_MAX, INT64_MAX}, HostType::f16, {0, 1}); });
}

TEST(SpyreTensorLayout, ListsThatDoNotFitRaise) {
  error_of(Fault::user, [] { SpyreTensorLayout({2, 3}, {3}, HostType::f16, {0, 1}); });
  error_of(Fault::user, [] { SpyreTensorLayout({2, 3}, {3, 1}, HostType::f16, {0, 0}); });
  error_of(Fault::user, [] { SpyreTensorLayout({2, 3}, {3, 1}, HostType::f16, {0}); });
  error_of(Fault::user, [] { SpyreTensorLayout({2, 3}, {3, 1}, HostType::f16, {0, 1, -2}); });
  error_of(Fault::user, [] { SpyreTensorLayout({2, 64}, {1}, DataFormats::SEN169_FP16); });
  error_of(Fault::user, [] { SpyreTensorLayout({2, 64}, {-2, 1}, DataFormats::SEN169_FP16); });
  error_of(Fault::user, [] { SpyreTensorLayout(Sizes{2}, HostType::f64); });
}

TEST(SpyreTensorLayout, EqualityAndHashSeeEveryField) {
  const SpyreTensorLayout a(Sizes{1000, 200}, HostType::f16),
      same({4, 1000, 64}, {64, 200, 1}, DataFormats::SEN169_FP16);
  EXPECT_EQ(a, same);
  EXPECT_EQ(a.hash(), same.hash());
  const SpyreTensorLayout tagged = a.with_element_arrangement(ElementArrangement::DL16_TO_FP32);
  EXPECT_NE(a, tagged);
  EXPECT_NE(a.hash(), tagged.hash());
  EXPECT_EQ(tagged.element_arrangement(), ElementArrangement::DL16_TO_FP32);
  EXPECT_EQ(tagged.with_element_arrangement(ElementArrangement::STANDARD), a);
  EXPECT_NE(a, SpyreTensorLayout({4, 1000, 64}, {64, 200, 1}, DataFormats::IEEE_FP16));
}

TEST(SpyreTensorLayout, ReprNamesEverything) {
  EXPECT_EQ(
      SpyreTensorLayout(Sizes{1000, 200}, HostType::f16).repr(),
      "SpyreTensorLayout(device_size=[4, 1000, 64], stride_map=[64, 200, 1], device_dtype=DataFormats.SEN169_FP16, "
      "element_arrangement=ElementArrangement.STANDARD)");
}

TEST(DataFormats, SticksAndStorage) {
  EXPECT_EQ(elems_per_stick(DataFormats::SEN169_FP16), 64);
  EXPECT_EQ(elems_per_stick(DataFormats::IEEE_FP32), 32);
  EXPECT_EQ(elems_per_stick(DataFormats::SENUINT32), 32);
  EXPECT_EQ(elems_per_stick(DataFormats::SENINT8), 128);
  EXPECT_EQ(elems_per_stick(DataFormats::SENINT4), 256);
  error_of(Fault::user, [] { elems_per_stick(DataFormats::INVALID); });
  error_of(Fault::user, [] { elems_per_stick(static_cast<DataFormats>(19)); });
  error_of(Fault::unimplemented, [] { storage_format(DataFormats::SENINT4); });
  for (HostType t : {HostType::f16, HostType::bf16, HostType::f32, HostType::b8, HostType::u8, HostType::i8,
                     HostType::i16, HostType::i32, HostType::i64, HostType::e4m3, HostType::e5m2}) {
    EXPECT_EQ(storage_format(data_format_of(t)), base::device_format(t)) << base::host_name(t);
    EXPECT_EQ(elems_per_stick(data_format_of(t)), base::elements_per_stick(base::device_format(t)));
  }
}

}  // namespace
}  // namespace spyre::layout
