#include <algorithm>
#include <numeric>

#include "graph/import_for_test.h"

namespace spyre::graph {
namespace {

double mean(const Values& v) { return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size()); }

Values random(const std::string& mode, double seed, const Sizes& sizes) {
  Import g;
  const Ref seeds = g.in(HostType::i64, {2});
  const Ref own = g.op("prims::inductor_lookup_seed", {seeds, Size(1)});
  return g.run(g.op("prims::inductor_random", {sizes, own, mode, std::monostate()}), {{7, seed}});
}

TEST(ImportRandom, UniformNumbersFillTheUnitInterval) {
  const Values v = random("rand", 42, {40, 50});
  EXPECT_GE(*std::min_element(v.begin(), v.end()), 0);
  EXPECT_LT(*std::max_element(v.begin(), v.end()), 1);
  EXPECT_NEAR(mean(v), 0.5, 0.03);
  EXPECT_EQ(v, random("rand", 42, {2000}));  // by seed and linear index only
  EXPECT_NE(v, random("rand", 43, {2000}));
}

TEST(ImportRandom, NormalNumbersHaveTheirMoments) {
  Values v = random("randn", -5, {3000});
  EXPECT_NEAR(mean(v), 0, 0.06);
  for (double& x : v) x *= x;
  EXPECT_NEAR(mean(v), 1, 0.1);
}

TEST(ImportRandom, IntegersStayInTheirRange) {
  Import g;
  const Ref seed = g.in(HostType::i64, {});
  const Values v = g.run(g.op("prims::inductor_randint", {Size(-3), Size(4), Sizes{500}, seed}), {{9}});
  for (int64_t n = -3; n < 4; ++n) EXPECT_GT(std::count(v.begin(), v.end(), static_cast<double>(n)), 30) << n;
  EXPECT_EQ(*std::min_element(v.begin(), v.end()), -3);
  EXPECT_EQ(*std::max_element(v.begin(), v.end()), 3);
}

TEST(ImportRandom, WhatItCanNotGiveIsRefused) {
  Import g;
  const Ref seed = g.in(HostType::i64, {});
  EXPECT_THROW(g.op("prims::inductor_random", {Sizes{4}, seed, "rand", HostType::f32}), Error);
  EXPECT_THROW(g.op("prims::inductor_randint", {Size(4), Size(4), Sizes{4}, seed}), Error);
}

}  // namespace
}  // namespace spyre::graph
