#include "base/hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <set>
#include <vector>

namespace spyre::base {
namespace {

TEST(Crc32, KnownVectors) {
  EXPECT_EQ(crc32("", 0), 0u);
  EXPECT_EQ(crc32("123456789", 9), 0xCBF43926u);
  EXPECT_EQ(crc32("The quick brown fox jumps over the lazy dog", 43), 0x414FA339u);
  EXPECT_EQ(crc32("6789", 4, crc32("12345", 5)), 0xCBF43926u);
}

TEST(Hash128, IsPinnedSoThatCachesAndHostsAgree) {
  EXPECT_EQ(hash_bytes("", 0).hex(), "c157d7d3e1c9c2e824d7363a590d1dde");
  EXPECT_EQ(hash_bytes("spyre", 5).hex(), "3f1f2901b587f9b48952739f43dd1b51");
  EXPECT_EQ(Hasher().add(0x0102030405060708).finish(), hash_bytes("\x08\x07\x06\x05\x04\x03\x02\x01", 8));
}

TEST(Hash128, HowTheBytesWereCutDoesNotMatter) {
  std::vector<uint8_t> data(1000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 31);
  const Hash128 whole = hash_bytes(data.data(), data.size());
  for (size_t step : {1, 7, 31, 32, 33, 64, 999}) {
    Hasher h;
    for (size_t i = 0; i < data.size(); i += step) h.add_bytes(data.data() + i, std::min(step, data.size() - i));
    EXPECT_EQ(h.finish(), whole) << step;
  }
}

TEST(Hash128, FinishDoesNotEndTheStream) {
  Hasher h;
  h.add_bytes("ab", 2).finish();
  h.add_bytes("c", 1);
  EXPECT_EQ(h.finish(), hash_bytes("abc", 3));
}

TEST(Hash128, LengthsAndZerosDiffer) {
  const std::vector<uint8_t> zeros(300);
  std::set<Hash128> seen;
  for (size_t n = 0; n <= zeros.size(); ++n) seen.insert(hash_bytes(zeros.data(), n));
  EXPECT_EQ(seen.size(), zeros.size() + 1);
  EXPECT_NE(Hasher().add("ab").add("c").finish(), Hasher().add("a").add("bc").finish());
  EXPECT_NE(Hasher(1).finish(), Hasher(2).finish());
}

// Every input bit flips each output bit about half of the time, at any position and length.
TEST(Hash128, EveryInputBitReachesEveryOutputBit) {
  std::mt19937_64 random(20240607);
  for (size_t length : {1, 8, 31, 32, 33, 64, 100}) {
    for (size_t bit = 0; bit < length * 8; bit += length > 40 ? 5 : 1) {
      int flips[128] = {};
      constexpr int trials = 200;
      for (int t = 0; t < trials; ++t) {
        std::vector<uint8_t> data(length);
        for (auto& b : data) b = static_cast<uint8_t>(random());
        const Hash128 a = hash_bytes(data.data(), length);
        data[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
        const Hash128 b = hash_bytes(data.data(), length);
        for (int i = 0; i < 64; ++i) {
          flips[i] += (a.low ^ b.low) >> i & 1;
          flips[64 + i] += (a.high ^ b.high) >> i & 1;
        }
      }
      for (int i = 0; i < 128; ++i) {  // six standard deviations
        ASSERT_GT(flips[i], trials / 2 - 43) << length << " " << bit << " " << i;
        ASSERT_LT(flips[i], trials / 2 + 43) << length << " " << bit << " " << i;
      }
    }
  }
}

// Sparse inputs (few bits set in long zeros) in 64 bits of the hash: no collision among half a million.
TEST(Hash128, SparseInputsDoNotCollide) {
  std::set<uint64_t> low, high;
  std::vector<uint8_t> data(96);
  size_t count = 0;
  for (size_t i = 0; i < 96 * 8; ++i)
    for (size_t j = i + 1; j < 96 * 8; j += 3) {
      data[i / 8] ^= static_cast<uint8_t>(1 << i % 8);
      data[j / 8] ^= static_cast<uint8_t>(1 << j % 8);
      const Hash128 h = hash_bytes(data.data(), data.size());
      low.insert(h.low);
      high.insert(h.high);
      ++count;
      data[i / 8] ^= static_cast<uint8_t>(1 << i % 8);
      data[j / 8] ^= static_cast<uint8_t>(1 << j % 8);
    }
  EXPECT_EQ(low.size(), count);
  EXPECT_EQ(high.size(), count);
}

}  // namespace
}  // namespace spyre::base
