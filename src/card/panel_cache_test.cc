#include "card/panel_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace spyre::card {
namespace {

PanelCache::Key key(int formal) {
  PanelCache::Key k;
  k.formal = formal;
  return k;
}

TEST(PanelCache, EveryPartIsMadeOnceHoweverManyThreadsWantTheTile) {
  constexpr int parts = 64;
  for (int round = 0; round < 50; ++round) {
    PanelCache cache(1 << 20);
    std::vector<std::atomic<int>> made(parts);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        const auto tile = cache.get(key(0), parts, parts, [&](int part, float* to) {
          made[static_cast<size_t>(part)]++;
          to[part] = static_cast<float>(part);
        });
        for (int i = 0; i < parts; ++i) wrong += tile.get()[i] != static_cast<float>(i);
      });
    for (auto& t : threads) t.join();
    for (auto& m : made) EXPECT_EQ(m.load(), 1);
    EXPECT_EQ(wrong.load(), 0);
  }
}

TEST(PanelCache, AFailingPartFailsAllWhoWantTheTile) {
  PanelCache cache(1 << 20);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      try {
        cache.get(key(0), 8, 8, [](int part, float* to) {
          if (part == 5) throw std::runtime_error("part 5");
          to[part] = 0;
        });
      } catch (const std::runtime_error& e) {
        failures += std::string(e.what()) == "part 5";
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(failures.load(), 4);
}

TEST(PanelCache, TheOldestTilesGoAndThoseInUseStay) {
  PanelCache cache(3 * 256 * 4);
  int made = 0;
  const auto get = [&](int formal) {
    return cache.get(key(formal), 256, 1, [&](int, float* to) { ++made, to[0] = static_cast<float>(formal); });
  };
  const auto held = get(0);
  for (int formal = 1; formal < 6; ++formal) get(formal);
  EXPECT_EQ(made, 6);
  get(5);
  EXPECT_EQ(made, 6);
  EXPECT_EQ(held.get()[0], 0.0f);
  get(0);
  EXPECT_EQ(made, 7);
}

}  // namespace
}  // namespace spyre::card
