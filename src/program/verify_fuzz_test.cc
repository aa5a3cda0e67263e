// Hostile trees: worked kernels with random fields changed. The verifier never crashes or hangs, and what it accepts
// keeps its promises when every instance of every step is tried: boxes inside buffers, no stick written by two cores.
#include <cstring>
#include <map>

#include "base/fuzz_for_test.h"
#include "program/example_text.h"
#include "program/interval.h"
#include "program/mutator_for_test.h"
#include "program/verify_context.h"
#include "program/verify_text.h"

namespace spyre::program {
namespace {

/// Runs all instances of a kernel on all cores, without data, for one value of each scalar.
class Trial {
 public:
  Trial(const Kernel& kernel, bool high) : k_(kernel) {
    for (auto* v : {&values_.start, &values_.size, &values_.trip}) v->resize(k_.ranges.size());
    for (const Scalar& s : k_.scalars)
      values_.scalar.push_back(Interval::point(s.is_float ? 0 : static_cast<int64_t>(high ? s.hi : s.lo)));
  }
  void run() {
    writers_.resize(k_.formals.size());
    for (const Nest& nest : k_.nests) {
      int cores = 1;
      for (const GridDim& g : nest.grid) cores *= g.size;
      values_.coordinate.resize(nest.grid.size());
      for (core_ = 0; core_ < cores && budget_ > 0; ++core_) {
        int rest = core_;
        for (size_t g = nest.grid.size(); g-- > 0; rest /= nest.grid[g].size)
          values_.coordinate[g] = Interval::point(rest % nest.grid[g].size);
        block(nest.body);
      }
    }
  }

 private:
  int64_t at(const IntExpr& e) const {
    const Interval v = evaluate(e, values_);
    EXPECT_TRUE(v.is_point());
    return v.lo;
  }
  void set(Id id, int64_t trip, int64_t start, int64_t hi) {
    values_.trip[id] = Interval::point(trip);
    values_.start[id] = Interval::point(start);
    values_.size[id] = Interval::point(std::clamp<int64_t>(hi - start, 0, k_.ranges[id].by));
  }
  void block(const Block& b) {
    for (const Stmt& s : b) {
      if (budget_ <= 0) return;
      if (const auto* c = std::get_if<CoreRange>(&s.node)) {
        const Range& r = k_.ranges[c->range];
        set(c->range, 0, at(r.lo) + r.by * values_.coordinate[r.grid].lo, at(r.hi));
      } else if (const auto* f = std::get_if<For>(&s.node)) {
        const Range& r = k_.ranges[f->range];
        const int64_t lo = at(r.lo), hi = at(r.hi);
        int64_t trips = ceil_div(std::max<int64_t>(0, hi - lo), r.by);
        if (r.uniform && r.parent != none) trips = ceil_div(k_.ranges[r.parent].by, r.by);
        EXPECT_LE(trips, 65535);
        for (int64_t t = 0; t < trips && budget_ > 0; ++t) {
          set(f->range, t, lo + t * r.by, hi);
          block(f->body);
        }
      } else if (const auto* i = std::get_if<If>(&s.node)) {
        bool holds = true;
        for (const Compare& c : i->condition) {
          const int64_t x = at(c.a), y = at(c.b);
          const bool results[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
          holds = holds && results[static_cast<int>(c.op)];
        }
        if (holds) block(i->body);
      } else if (const auto* step = std::get_if<Step>(&s.node)) {
        --budget_;
        for (const verifier::Use& u : verifier::uses_of(*step)) check(*u.ref);
        if (const auto* st = std::get_if<Store>(&step->op)) store(*st);
      }
    }
  }
  void check(const BufRef& ref) {
    for (size_t d = 0; d < ref.box.size(); ++d) {
      if (ref.box[d].kind != BufDim::Kind::box) continue;
      const int64_t first = at(ref.box[d].first), size = at(ref.box[d].size);
      EXPECT_GE(size, 0);
      if (size > 0) {
        EXPECT_GE(first, 0);
        EXPECT_LE(first + size, k_.buffers[ref.buffer].shape[d]);
      }
    }
  }
  void store(const Store& s) {
    const Symbol& symbol = k_.formals[s.to.symbol];
    if (s.where_entry != none) return;
    layout::Box box;
    for (size_t d = 0; d < s.to.entries.size(); ++d) {
      const Entry& e = s.to.entries[d];
      if (e.kind != Entry::Kind::affine) return;
      int64_t first = at(e.base), size = at(e.extent);
      while (size > 0 && first < 0) first += e.step, --size;
      while (size > 0 && first + e.step * (size - 1) >= symbol.view.sizes[d]) --size;
      if (size <= 0) return;
      box.start.push_back(first), box.size.push_back(size), box.step.push_back(e.step);
    }
    const layout::Access access(symbol.view, symbol.geometry);
    access.for_each_run(box, [&](const layout::Run& run) {
      --budget_;
      const auto [it, added] =
          writers_[s.to.symbol].try_emplace(run.device_element / base::elements_per_stick(symbol.format), core_);
      EXPECT_TRUE(added || it->second == core_) << "two cores write a stick of " << symbol.name;
    });
  }

  const Kernel& k_;
  LeafValues values_;
  std::vector<std::map<int64_t, int>> writers_;
  int core_ = 0;
  int64_t budget_ = 20000;
};

TEST(VerifyFuzz, WhatIsAcceptedKeepsItsPromises) {
  const uint64_t seed = base::fuzz_seed(20240612);
  const int64_t rounds = base::fuzz_cases(300, "SPYRE_FUZZ_ROUNDS");
  int accepted = 0, total = 0;
  for (const char* name : example_names) {
    const Program original = assemble(example_text(name));
    for (int64_t round = 0; round < rounds; ++round) {
      Mutator mutator(seed + static_cast<uint64_t>(round) * 7919);
      Program p = original;
      const int64_t changes = 1 + mutator.below(3);
      for (int64_t i = 0; i < changes; ++i) mutator.change(p);
      Mutator::bind(p);
      SCOPED_TRACE(fmt::format("{} seed {} round {}", name, seed, round));
      ++total;
      if (!verdict(p).empty()) continue;
      ++accepted;
      if (round % 4 == 0)
        for (const Kernel& k : p.kernels)
          for (bool high : {false, true}) Trial(k, high).run();
      if (testing::Test::HasFailure()) FAIL() << print(p);
    }
  }
  RecordProperty("accepted", accepted);
  EXPECT_GT(accepted, total / 50);  // else nothing was tried
  EXPECT_LT(accepted, total * 9 / 10);
}

}  // namespace
}  // namespace spyre::program
