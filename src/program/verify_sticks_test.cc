// Which elements share sticks, against trying every pair; and the closed form of store boxes against the enumeration.
#include "program/verify_sticks.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace spyre::program::verifier {
namespace {

using layout::Geometry;
using layout::HostView;

std::vector<int64_t> index_of(const HostView& view, int64_t linear) {
  std::vector<int64_t> index(view.sizes.size());
  for (size_t d = index.size(); d-- > 0; linear /= view.sizes[d]) index[d] = linear % view.sizes[d];
  return index;
}

/// What StickShape promises, for every pair of elements that share a stick.
void expect_promise(const HostView& view, const Geometry& g) {
  const StickShape shape = stick_shape(view, g);
  if (!shape.known) return;
  const int64_t lanes = base::elements_per_stick(g.format);
  std::map<int64_t, std::vector<int64_t>> block_of_stick;
  for (int64_t n = 0; n < view.numel(); ++n) {
    auto index = index_of(view, n);
    int64_t o = view.offset;
    for (size_t d = 0; d < index.size(); ++d) o += index[d] * view.strides[d];
    if (shape.lane_dim >= 0) index[shape.lane_dim] = (index[shape.lane_dim] + shape.phase) / shape.block;
    const auto [it, added] = block_of_stick.try_emplace(g.device_element(o) / lanes, index);
    ASSERT_TRUE(added || (shape.lane_dim >= 0 && it->second == index)) << view.to_text() << " in " << g.to_text();
  }
}

TEST(VerifySticks, TheShapeKeepsItsPromise) {
  const uint64_t seed = 20240611;
  std::mt19937_64 random(seed);
  int known = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<int64_t> sizes;
    const size_t rank = 1 + random() % 4;
    for (size_t d = 0; d < rank; ++d) sizes.push_back(1 + static_cast<int64_t>(random() % (d + 1 == rank ? 150 : 9)));
    HostView view = HostView::contiguous(sizes);
    const auto type = random() % 2 ? base::HostType::f16 : base::HostType::f32;
    Geometry g = layout::default_placement(view.sizes, view.strides, type, false).geometry;
    if (random() % 3 == 0) g = Geometry::linear(g.format, view.numel());
    if (random() % 2) g = g.scrambled(random());
    for (size_t d = 0; d < rank; ++d) {  // slice, step, swap
      if (random() % 3 == 0) {
        const int64_t first = static_cast<int64_t>(random() % view.sizes[d]);
        view.offset += first * view.strides[d];
        view.sizes[d] -= first;
      }
      if (random() % 5 == 0) {
        view.sizes[d] = (view.sizes[d] + 1) / 2;
        view.strides[d] *= 2;
      }
      const size_t e = random() % rank;
      std::swap(view.sizes[d], view.sizes[e]);
      std::swap(view.strides[d], view.strides[e]);
    }
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    expect_promise(view, g);
    known += stick_shape(view, g).known;
  }
  EXPECT_GT(known, 200);
}

TEST(VerifySticks, DefaultAndScrambledLayoutsOfAnySizeAreKnown) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> sizes;
    for (size_t d = 0, rank = 1 + random() % 4; d < rank; ++d)
      sizes.push_back(1 + static_cast<int64_t>(random() % 3000));
    const HostView view = HostView::contiguous(sizes);
    Geometry g = layout::default_placement(view.sizes, view.strides, base::HostType::f16, false).geometry;
    EXPECT_TRUE(stick_shape(view, g).known) << g.to_text();
    g = g.scrambled(random());
    EXPECT_TRUE(stick_shape(view, g).known) << g.to_text();
  }
}

TEST(VerifySticks, TwoElementsInOnePlaceAreFound) {
  Geometry g = Geometry::linear(base::Format::f32, 256);
  EXPECT_TRUE(places_are_distinct(g));
  g.digits[0].stride = 0;
  EXPECT_FALSE(places_are_distinct(g));
  EXPECT_FALSE(stick_shape(HostView::contiguous({256}), g).known);
}

}  // namespace
}  // namespace spyre::program::verifier
