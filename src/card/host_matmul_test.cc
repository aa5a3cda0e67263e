// Tiles and matrix products. Operands are small integers where equality is asserted: then every order of additions is
// exact.
#include "card/host_matmul.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "card/host_matmul_simd.h"

namespace spyre::card::host {
namespace {

using base::Isa;

// A tile in memory: rows of sticks, or stick columns as device memory has them; bytes that hold no element are
// poisoned.
struct Stored {
  Format format;
  int64_t rows, cols;
  bool columns;
  std::vector<std::byte> bytes;
  int64_t row_stride, stick_stride;

  Stored(Format f, int64_t r, int64_t c, bool by_columns) : format(f), rows(r), cols(c), columns(by_columns) {
    const int64_t sticks = (c + base::elements_per_stick(f) - 1) / base::elements_per_stick(f);
    row_stride = columns ? 128 : sticks * 128 + 128;
    stick_stride = columns ? r * 128 + 256 : 128;
    bytes.assign(static_cast<size_t>(r * row_stride + sticks * stick_stride + 128), std::byte{0xFF});
  }
  std::byte* at(int64_t r, int64_t c) {
    const int64_t e = base::elements_per_stick(format);
    return bytes.data() + r * row_stride + c / e * stick_stride + c % e * base::format_bytes(format);
  }
  Tile tile() { return {format, bytes.data(), row_stride, stick_stride}; }
  MutableTile target() { return {format, bytes.data(), row_stride, stick_stride}; }
};

template <typename T>
std::vector<T> small_integers(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<T> out(n);
  for (T& v : out) v = static_cast<T>(static_cast<int>(random() % 9) - 4);
  return out;
}

template <typename T>
Stored stored(Format f, const std::vector<T>& values, int64_t rows, int64_t cols, bool by_columns) {
  Stored s(f, rows, cols, by_columns);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) pack(f, &values[static_cast<size_t>(r * cols + c)], s.at(r, c), 1);
  return s;
}

const Format real_formats[] = {Format::dl16, Format::f16, Format::f32, Format::e4m3, Format::e5m2};
const Format integer_formats[] = {Format::i32, Format::u32, Format::i16, Format::i8};

template <typename T>
void round_trip(Format f) {
  for (bool by_columns : {false, true})
    for (int64_t cols : {1, 15, 64, 128, 150})
      for (int64_t first : {0, 16, 5}) {
        const int64_t rows = 3, total = cols + first + 3;
        const auto values = small_integers<T>(static_cast<size_t>(rows * total), 1);
        Stored s = stored(f, values, rows, total, by_columns);
        std::vector<T> out(static_cast<size_t>(rows * (cols + 2)), T{77});
        unpack(s.tile(), rows, first, cols, out.data(), cols + 2);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < cols + 2; ++c)
            ASSERT_EQ(out[static_cast<size_t>(r * (cols + 2) + c)],
                      c < cols ? values[static_cast<size_t>(r * total + first + c)] : T{77});
        Stored t = s;
        std::vector<T> twice(out);
        for (T& v : twice) v = v + v;
        pack(twice.data(), cols + 2, rows, first, cols, t.target());
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < total; ++c) {
            T got;
            unpack(f, t.at(r, c), &got, 1);
            const T before = values[static_cast<size_t>(r * total + c)];
            ASSERT_EQ(got, c >= first && c < first + cols ? before + before : before)
                << base::format_name(f) << " " << c;
          }
      }
}

TEST(HostTile, BoxesOfEveryFormatUnpackAndPack) {
  for (Format f : real_formats) round_trip<float>(f);
  for (Format f : integer_formats) round_trip<int32_t>(f);
}

TEST(HostTile, StoresOverflowToInfinityAndWrap) {
  const float big = 1e30f;
  uint16_t code = 0;
  pack(Format::dl16, &big, &code, 1);
  EXPECT_EQ(code, 0x7FFF);
  std::vector<float> row(64, -1e30f);
  Stored s(Format::dl16, 1, 64, true);
  pack(row.data(), 64, 1, 0, 64, s.target());
  float back = 0;
  unpack(Format::dl16, s.at(0, 63), &back, 1);
  EXPECT_EQ(back, -INFINITY);
  const int32_t wide = 0x12345;
  int16_t half = 0;
  int8_t byte = 0;
  pack(Format::i16, &wide, &half, 1);
  pack(Format::i8, &wide, &byte, 1);
  EXPECT_EQ(half, 0x2345);
  EXPECT_EQ(byte, 0x45);
}

TEST(HostTile, WrongKindOfFormatIsAnError) {
  float f = 0;
  int32_t i = 0;
  EXPECT_THROW(unpack(Format::i32, &i, &f, 1), Error);
  EXPECT_THROW(unpack(Format::dl16, &i, &i, 1), Error);
  EXPECT_THROW(pack(Format::i8, &f, &i, 1), Error);
  EXPECT_THROW(pack(Format::f32, &i, &f, 1), Error);
}

TEST(HostTile, Transpose) {
  for (int bytes : {1, 2, 4}) {
    const int64_t rows = 37, cols = 21, pitch = 40 * bytes;
    std::vector<uint8_t> a(static_cast<size_t>(rows * pitch)), b(static_cast<size_t>(cols * pitch), 0xEE);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(i * 7 + i / 256);
    transpose(bytes, a.data(), pitch, b.data(), pitch, rows, cols);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        ASSERT_EQ(std::memcmp(&a[static_cast<size_t>(r * pitch + c * bytes)],
                              &b[static_cast<size_t>(c * pitch + r * bytes)], static_cast<size_t>(bytes)),
                  0);
    EXPECT_EQ(b[static_cast<size_t>(rows * bytes)], 0xEE);
  }
  EXPECT_THROW(transpose(8, nullptr, 0, nullptr, 0, 0, 0), Error);
}

struct Shape {
  int64_t m, n, k;
};
const Shape shapes[] = {{1, 1, 1},     {1, 64, 64},  {2, 16, 3},  {3, 17, 5},    {6, 32, 256}, {7, 48, 257},
                        {12, 32, 100}, {13, 33, 40}, {25, 80, 7}, {1, 100, 513}, {5, 70, 300}, {64, 64, 512},
                        {16, 64, 512}, {0, 5, 5},    {5, 0, 5},   {4, 20, 0},    {1, 20, 0},   {128, 96, 64}};

template <typename T>
std::vector<T> reference(const Shape& s, const std::vector<T>& a, const std::vector<T>& b, const std::vector<T>& c) {
  std::vector<T> out = c;
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j)
      for (int64_t k = 0; k < s.k; ++k)
        out[static_cast<size_t>(i * s.n + j)] +=
            a[static_cast<size_t>(i * s.k + k)] * b[static_cast<size_t>(k * s.n + j)];
  return out;
}

template <typename T>
std::vector<T> transposed(const std::vector<T>& b, int64_t rows, int64_t cols) {
  std::vector<T> t(b.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) t[static_cast<size_t>(c * rows + r)] = b[static_cast<size_t>(r * cols + c)];
  return t;
}

TEST(HostMatmul, EveryShapeFormatAndOrientation) {
  for (const Shape& s : shapes) {
    const auto a = small_integers<float>(static_cast<size_t>(s.m * s.k), 2);
    const auto b = small_integers<float>(static_cast<size_t>(s.k * s.n), 3);
    const auto c = small_integers<float>(static_cast<size_t>(s.m * s.n), 4);
    for (Format f : real_formats)
      for (bool turned : {false, true})
        for (bool by_columns : {false, true})
          for (bool accumulate : {false, true}) {
            SCOPED_TRACE(testing::Message() << s.m << "x" << s.n << "x" << s.k << " " << base::format_name(f) << turned
                                            << by_columns << accumulate);
            const auto want = reference(s, a, b, accumulate ? c : std::vector<float>(c.size()));
            Stored store =
                turned ? stored(f, transposed(b, s.k, s.n), s.n, s.k, by_columns) : stored(f, b, s.k, s.n, by_columns);
            std::vector<float> panels(panel_elements(s.k, s.n)),
                got = accumulate ? c : std::vector<float>(c.size(), NAN);
            pack_b(store.tile(), turned, s.k, 0, s.n, panels.data());
            matmul(MatmulArgs{s.m, s.n, s.k, a.data(), s.k, panels.data(), got.data(), s.n, accumulate});
            ASSERT_EQ(got, want);
            got = accumulate ? c : std::vector<float>(c.size(), NAN);
            matmul(s.m, s.n, s.k, a.data(), s.k, store.tile(), turned, got.data(), s.n, accumulate);
            ASSERT_EQ(got, want);
          }
  }
}

TEST(HostMatmul, PartsOfATileStartAnywhere) {
  const int64_t k = 20, total = 200;
  const auto b = small_integers<float>(static_cast<size_t>(k * total), 5);
  Stored straight = stored(Format::dl16, b, k, total, true),
         turned = stored(Format::dl16, transposed(b, k, total), total, k, false);
  for (int64_t first : {0, 5, 16, 48, 64, 70})
    for (int64_t n : {1, 16, 30, 100}) {
      std::vector<float> p(panel_elements(k, n), NAN), q(panel_elements(k, n), NAN);
      pack_b(straight.tile(), false, k, first, n, p.data());
      pack_b(turned.tile(), true, k, first, n, q.data());
      for (int64_t j = 0; j < (n + 15) / 16 * 16; ++j)
        for (int64_t i = 0; i < k; ++i) {
          const float want = j < n ? b[static_cast<size_t>(i * total + first + j)] : 0.0f;
          ASSERT_EQ(p[static_cast<size_t>((j / 16 * k + i) * 16 + j % 16)], want);
          ASSERT_EQ(q[static_cast<size_t>((j / 16 * k + i) * 16 + j % 16)], want);
        }
    }
}

TEST(HostMatmul, RowsFarApartAndPlainOperands) {
  const Shape s{9, 70, 300};
  const auto a = small_integers<float>(static_cast<size_t>(s.m * s.k), 6);
  const auto b = small_integers<float>(static_cast<size_t>(s.k * s.n), 7);
  std::vector<float> wide(static_cast<size_t>(s.m) * 1024, NAN), panels(panel_elements(s.k, s.n)),
      c(static_cast<size_t>(s.m) * 80, 55);
  for (int64_t i = 0; i < s.m; ++i)
    std::copy_n(&a[static_cast<size_t>(i * s.k)], s.k, &wide[static_cast<size_t>(i) * 1024]);
  pack_b(b.data(), s.n, false, s.k, s.n, panels.data());
  matmul(MatmulArgs{s.m, s.n, s.k, wide.data(), 1024, panels.data(), c.data(), 80, false});
  const auto want = reference(s, a, b, std::vector<float>(static_cast<size_t>(s.m * s.n)));
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < 80; ++j)
      ASSERT_EQ(c[static_cast<size_t>(i * 80 + j)], j < s.n ? want[static_cast<size_t>(i * s.n + j)] : 55);
}

TEST(HostMatmul, IntegersWrap) {
  for (const Shape& s : shapes) {
    std::mt19937 random(8);
    std::vector<int32_t> a(static_cast<size_t>(s.m * s.k)), b(static_cast<size_t>(s.k * s.n)),
        c(static_cast<size_t>(s.m * s.n), 3);
    for (auto& v : a) v = static_cast<int32_t>(random());
    for (auto& v : b) v = static_cast<int32_t>(random());
    std::vector<uint32_t> want(c.begin(), c.end());
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j)
        for (int64_t k = 0; k < s.k; ++k)
          want[static_cast<size_t>(i * s.n + j)] += static_cast<uint32_t>(a[static_cast<size_t>(i * s.k + k)]) *
                                                    static_cast<uint32_t>(b[static_cast<size_t>(k * s.n + j)]);
    for (bool turned : {false, true}) {
      Stored store = turned ? stored(Format::i32, transposed(b, s.k, s.n), s.n, s.k, false)
                            : stored(Format::i32, b, s.k, s.n, true);
      std::vector<int32_t> panels(panel_elements(s.k, s.n)), got = c;
      pack_b(store.tile(), turned, s.k, 0, s.n, panels.data());
      matmul(MatmulI32Args{s.m, s.n, s.k, a.data(), s.k, panels.data(), got.data(), s.n, true});
      ASSERT_EQ(std::vector<uint32_t>(got.begin(), got.end()), want);
    }
  }
}

TEST(HostMatmul, Int8Products) {
  const Shape s{5, 40, 33};
  const auto a = small_integers<int32_t>(static_cast<size_t>(s.m * s.k), 9),
             b = small_integers<int32_t>(static_cast<size_t>(s.k * s.n), 10);
  Stored store = stored(Format::i8, b, s.k, s.n, false);
  std::vector<int32_t> panels(panel_elements(s.k, s.n)), got(static_cast<size_t>(s.m * s.n), -9);
  pack_b(store.tile(), false, s.k, 0, s.n, panels.data());
  matmul(MatmulI32Args{s.m, s.n, s.k, a.data(), s.k, panels.data(), got.data(), s.n, false});
  EXPECT_EQ(got, reference(s, a, b, std::vector<int32_t>(got.size())));
}

TEST(HostGemv, SpecialCodesAndEveryFiniteOne) {
  // Row k holds 64 consecutive codes; a selects one row at a time.
  std::vector<uint16_t> codes(65536);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  const int64_t k = 5;
  for (size_t start = 0; start + 64 * k <= codes.size(); start += 64 * k) {
    std::vector<float> a(k, 0.0f), c(64);
    a[static_cast<size_t>(start / 64 % k)] = 1.0f;
    Tile t{Format::dl16, reinterpret_cast<const std::byte*>(codes.data() + start), 128, 128};
    gemv(64, k, a.data(), t, c.data(), false);
    for (size_t j = 0; j < 64; ++j) {
      double want = 0;
      for (size_t i = 0; i < k; ++i) want += a[i] * base::dl16_to_f32(codes[start + i * 64 + j]);
      ASSERT_TRUE(c[j] == want || (std::isnan(c[j]) && std::isnan(want)))
          << start << " " << j << " " << c[j] << " " << want;
    }
  }
  float c[64];
  const float a[1] = {1};
  Tile wrong{Format::f32, nullptr, 128, 128};
  EXPECT_THROW(gemv(64, 1, a, wrong, c, false), Error);
}

class HostMatrix : public testing::TestWithParam<Isa> {};

// One special code among finite ones in turn, and tiles of nothing else: all are looked for at once.
TEST_P(HostMatrix, UnpacksEveryCode) {
  if (!base::isa_available(GetParam())) GTEST_SKIP() << "not on this machine";
  std::vector<uint16_t> codes(65536);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i * 40503);  // all of them, mixed
  for (int count : {1, 2, 3, 4})
    for (int64_t rows : {1, 7, 1024}) {
      std::vector<float> to(static_cast<size_t>(rows * 64));
      for (size_t start = 0; start + to.size() <= codes.size(); start += to.size()) {
        std::fill(to.begin(), to.end(), 77.0f);
        matmul_table(GetParam()).unpack_dl16(codes.data() + start, 64, rows, count, to.data(), 16, rows * 16);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < 64; ++c) {
            const float got = to[static_cast<size_t>(c / 16 * rows * 16 + r * 16 + c % 16)];
            const float want =
                c < count * 16 ? base::dl16_to_f32(codes[start + static_cast<size_t>(r * 64 + c)]) : 77.0f;
            ASSERT_TRUE(std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want))
                << got << " for " << want << ", " << count << " groups of " << rows << " rows, row " << r << " lane "
                << c;
          }
      }
    }
}

// DL16 products are exact in float32, so that only the order of the additions could tell instruction sets apart.
TEST_P(HostMatrix, EveryInstructionSetGivesTheBaselinesNumbers) {
  if (!base::isa_available(GetParam())) GTEST_SKIP() << "not on this machine";
  const MatmulTable &t = matmul_table(GetParam()), &reference = matmul_table(Isa::baseline);
  const int64_t k = 100, n = 96;
  std::mt19937 random(12);
  const auto value = [&] { return base::dl16_to_f32(static_cast<uint16_t>((random() & 0x83FF) | 0x3C00)); };
  std::vector<float> a(20 * k), b(static_cast<size_t>(n * k));
  for (float& v : a) v = value();
  for (float& v : b) v = value();
  for (int64_t m = 1; m <= 20; ++m) {
    std::vector<float> c(static_cast<size_t>(m * n)), d(c.size());
    for (bool accumulate : {false, true}) {
      t.block_f32(m, n, k, a.data(), k, b.data(), k * 16, c.data(), n, accumulate, b.data());
      reference.block_f32(m, n, k, a.data(), k, b.data(), k * 16, d.data(), n, accumulate, b.data());
      ASSERT_EQ(c, d) << m;
    }
  }
  std::vector<uint16_t> codes(64 * 70);
  for (auto& v : codes) v = base::f32_to_dl16(value(), base::Overflow::saturate);
  float x[64], y[64];
  for (int64_t rows : {0, 1, 3, 4, 70}) {
    t.gemv_dl16(codes.data(), 64, rows, a.data(), x);
    reference.gemv_dl16(codes.data(), 64, rows, a.data(), y);
    EXPECT_EQ(std::memcmp(x, y, sizeof x), 0) << rows;
  }
  for (int64_t depth : {1, 8, 16, 37}) {
    std::vector<float> panel(static_cast<size_t>(depth) * 16);
    t.transpose_panel(a.data(), k, depth, panel.data());
    for (int64_t i = 0; i < depth; ++i)
      for (int64_t r = 0; r < 16; ++r)
        ASSERT_EQ(panel[static_cast<size_t>(i * 16 + r)], a[static_cast<size_t>(r * k + i)]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostMatrix, testing::Values(Isa::baseline, Isa::avx2, Isa::avx512),
                         [](const auto& info) { return std::string(base::isa_name(info.param)); });

}  // namespace
}  // namespace spyre::card::host
