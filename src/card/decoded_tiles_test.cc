#include "card/decoded_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace spyre::card {
namespace {

constexpr int64_t kept_floats = DecodedTiles::kept_bytes / int64_t{sizeof(float)};

DecodedTiles::Key key(int formal) {
  DecodedTiles::Key k;
  k.formal = formal;
  return k;
}

/// Asks for tiles that hold their formal's number, and counts how many had to be made.
struct Tiles {
  DecodedTiles tiles;
  uint64_t call = 1;
  int made = 0;
  const float* get(int formal, int64_t elements, DecodedTiles::Form form = DecodedTiles::rows) {
    const float* tile = tiles.get(call, form, key(formal), elements, [&](float* to) {
      ++made;
      std::fill_n(to, elements, static_cast<float>(formal));
    });
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tile) % 128, 0u);
    EXPECT_TRUE(std::all_of(tile, tile + elements, [&](float x) { return x == static_cast<float>(formal); }))
        << "tile " << formal << " holds another one's values";
    return tile;
  }
};

TEST(DecodedTiles, AreMadeOnceForTheirCallAndAgainForTheNext) {
  Tiles t;
  for (int formal : {0, 1, 0, 1}) t.get(formal, 100);
  EXPECT_EQ(t.made, 2);
  t.call = 2;
  t.get(0, 100);
  EXPECT_EQ(t.made, 3);
}

TEST(DecodedTiles, TheOldestGoWhenThereIsNoRoom) {
  Tiles t;
  for (int formal = 0; formal < 5; ++formal) t.get(formal, kept_floats / 4);  // the fifth lies where the first was
  EXPECT_EQ(t.made, 5);
  for (int formal : {1, 2, 3, 4}) t.get(formal, kept_floats / 4);
  EXPECT_EQ(t.made, 5);
  t.get(0, kept_floats / 4);
  EXPECT_EQ(t.made, 6);
}

TEST(DecodedTiles, OfEverySizeKeepTheirValues) {
  Tiles t;
  uint32_t random = 1;
  for (int i = 0; i < 2000; ++i) {
    random = random * 1664525 + 1013904223;
    const int formal = static_cast<int>(random >> 24) % 24;
    t.get(formal, 1 + kept_floats / 9 * formal / 23);  // a formal's size is always the same
  }
  EXPECT_GT(t.made, 24);
  EXPECT_LT(t.made, 2000);
}

TEST(DecodedTiles, OneForEachOperandOfAProductStays) {
  Tiles t;
  const float* a = t.get(0, kept_floats / 2, DecodedTiles::rows);
  for (int formal = 1; formal < 8; ++formal) t.get(formal, kept_floats / 2, DecodedTiles::panels);
  EXPECT_EQ(a[kept_floats / 2 - 1], 0.0f);
  EXPECT_EQ(t.get(0, kept_floats / 2, DecodedTiles::rows), a);
}

TEST(DecodedTiles, MayBeLargerThanWhatIsKept) {
  Tiles t;
  t.get(0, 100);
  t.get(1, 3 * kept_floats);
  t.get(1, 3 * kept_floats);
  EXPECT_EQ(t.made, 2);
  t.get(0, 100);
  EXPECT_EQ(t.made, 3);
}

TEST(DecodedTiles, AreNotKeptWhenMakingThemFails) {
  Tiles t;
  EXPECT_THROW(t.tiles.get(1, DecodedTiles::rows, key(0), 100, [](float*) { throw std::runtime_error("no"); }),
               std::runtime_error);
  t.get(0, 100);
  EXPECT_EQ(t.made, 1);
}

TEST(DecodedTiles, BelongToOneThread) {
  const DecodedTiles* other = nullptr;
  std::thread([&] { other = &DecodedTiles::mine(); }).join();
  EXPECT_NE(other, &DecodedTiles::mine());
}

}  // namespace
}  // namespace spyre::card
