#include <algorithm>

#include "base/error.h"
#include "layout/geometry.h"

namespace spyre::layout {

namespace {

// SplitMix64: the same sequence on every host, which std distributions do not promise.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }

 private:
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

}  // namespace

Geometry Geometry::scrambled(uint64_t seed) const {
  if (storage_elements == 0) return *this;
  Random random(seed);
  Geometry g = *this;
  const Digit lane = g.digits.back();
  g.digits.pop_back();

  // Cutting a digit into two lets a permutation of digits permute the sticks inside one dimension as well.
  std::vector<Digit> parts;
  for (Digit d : g.digits) {
    const int64_t count = d.range(storage_elements);
    if (count == 1) continue;
    const bool whole = d.range(storage_elements) < d.mod2 ||
                       Digit{d.div1, d.mod1, d.div2, INT64_MAX, 0}.range(storage_elements) <= d.mod2;
    const int64_t cut = 2 + random.below(4);
    if (count >= 2 * cut && (whole || d.mod2 % cut == 0)) {
      const int64_t all = whole ? count / cut + (count % cut != 0) : d.mod2 / cut;
      parts.push_back({d.div1, d.mod1, d.div2 * cut, all, 0});
      parts.push_back({d.div1, d.mod1, d.div2, cut, 0});
    } else {
      parts.push_back({d.div1, d.mod1, d.div2, d.mod2, 0});
    }
  }
  for (size_t i = parts.size(); i > 1; --i) std::swap(parts[i - 1], parts[random.below(static_cast<int64_t>(i))]);
  int64_t stride = base::elements_per_stick(format);
  for (size_t i = parts.size(); i-- > 0;) {
    parts[i].stride = stride;
    const int64_t size = parts[i].range(storage_elements) + random.below(2);
    if (__builtin_mul_overflow(stride, size, &stride)) {
      fail(Fault::user, "a scrambled layout of {} leaves 64 bits", to_text());
    }
  }
  stride += base::elements_per_stick(format) * random.below(3);
  g.device_elements = stride;
  parts.push_back(lane);
  g.digits = std::move(parts);
  g.check();
  return g;
}

}  // namespace spyre::layout
