#include <gtest/gtest.h>

#include "lower/form_for_test.h"

namespace spyre::lower {
namespace {

using graph::HostType;

const std::vector<HostType> types = {HostType::f16, HostType::f32, HostType::i64,  HostType::u8,  HostType::b8,
                                     HostType::i16, HostType::i8,  HostType::e4m3, HostType::bf16};

std::vector<int64_t> random_sizes(Random& random) {
  const int64_t rank = pick(random, 0, 4);
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < rank; ++d)
    sizes.push_back(pick(random, 0, 3) == 0 ? pick(random, 1, 3) : pick(random, 1, 40));
  if (rank > 0 && pick(random, 0, 2) == 0) sizes.back() = pick(random, 1, 300);
  while (true) {
    int64_t numel = 1;
    for (const int64_t s : sizes) numel *= s;
    if (numel <= 20'000) return sizes;
    auto most = std::max_element(sizes.begin(), sizes.end());
    *most = (*most + 1) / 2;
  }
}

/// A random Place: cat of pieces, padding, or boxes with steps over a base. `read`: the output is a copy of it, so that
/// it is a temporary of which the verifier must see that all is written.
GraphMaker random_place(Random& random, bool read) {
  GraphMaker maker;
  const HostType type = one_of(random, types);
  graph::Place place;
  std::vector<int64_t> sizes = random_sizes(random);
  const auto piece = [&](const std::vector<int64_t>& box, std::vector<int64_t> start, std::vector<int64_t> step) {
    place.pieces.push_back({maker.random_input(random, type, box), as_sizes(start), as_sizes(step)});
  };
  const std::vector<int64_t> zeros(sizes.size(), 0), ones(sizes.size(), 1);
  if (!sizes.empty() && pick(random, 0, 2) == 0) {  // cat
    const auto dim = static_cast<size_t>(pick(random, 0, static_cast<int64_t>(sizes.size()) - 1));
    int64_t total = 0;
    for (int64_t n = pick(random, 1, 4); n > 0; --n) {
      std::vector<int64_t> box = sizes, start = zeros;
      box[dim] = pick(random, 0, 3) == 0 ? pick(random, 0, 2) * 64 : pick(random, 0, 20);
      start[dim] = total;
      total += box[dim];
      piece(box, start, ones);
    }
    sizes[dim] = total;
    if (total == 0) return random_place(random, read);
  } else {
    if (pick(random, 0, 1) == 0) {
      place.base = maker.random_input(random, type, sizes);
    } else {
      place.fill = type == HostType::b8 ? 1 : type == HostType::f16 ? -std::numeric_limits<double>::infinity() : 3;
    }
    for (int64_t n = pick(random, 0, 3); n > 0; --n) {
      std::vector<int64_t> box, start, step;
      for (const int64_t s : sizes) {
        step.push_back(pick(random, 0, 4) == 0 ? pick(random, 2, 3) : 1);
        start.push_back(pick(random, 0, 2) == 0 ? 0 : pick(random, 0, s - 1));
        const int64_t most = (s - start.back() + step.back() - 1) / step.back();
        box.push_back(pick(random, 0, 2) == 0 ? most : pick(random, 0, most));
      }
      piece(box, start, step);
    }
  }
  place.sizes = as_sizes(sizes);
  graph::Ref made = maker.add(std::move(place), {type}, dense_strides(random, sizes, pick(random, 0, 3) == 0))[0];
  if (read) {
    graph::Place copy;
    copy.sizes = as_sizes(sizes);
    copy.pieces.push_back({std::move(made), as_sizes(zeros), as_sizes(ones)});
    made = maker.add(std::move(copy), {type}, dense_strides(random, sizes, false))[0];
  }
  maker.output(std::move(made));
  return maker;
}

TEST(Place, RandomBoxesAsTheInterpreterHasThem) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const plan::KernelPlan plain{plan::Form::place, {0}, {1, 1}, {1 << 12, 1}, 2, 0};
    expect_a_candidate_runs(random_place(random, false), random, seed, plain, plan::place_candidates, nullptr);
    if (HasFailure()) return;
  }
}

TEST(Place, TemporariesAreProvedToBeWritten) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const plan::Prepared prepared = as_prepared(random_place(random, true).graph);
    const plan::KernelPlan plain{plan::Form::place, {0}, {1, 1}, {1 << 12, 1}, 2, 0};
    plan::KernelPlan reader = plain;
    reader.nodes = {1};
    RunSettings settings;
    settings.seed = seed;
    expect_runs_like_interpreter(prepared.graph, plain_plan(prepared, {plain, reader}), settings);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace spyre::lower
