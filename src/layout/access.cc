#include "layout/access.h"

#include <numeric>
#include <optional>

#include "base/error.h"
#include "layout/walk_detail.h"

namespace spyre::layout {

namespace {

// What one view dimension adds to a digit: gran x index when it moves evenly, else some function of the index whose
// values are multiples of gran. Values lie in 0..max.
struct Term {
  int64_t gran = 0;
  int64_t max = 0;
  bool uneven = false;
};

// A value as constant + one term per dimension, through the divisions and moduli of a digit.
class Sum {
 public:
  void start(const HostView& view) {
    constant_ = view.offset;
    terms_.assign(view.sizes.size(), {});
    for (size_t d = 0; d < terms_.size(); ++d) {
      if (view.sizes[d] > 1 && view.strides[d] > 0) {
        terms_[d] = {view.strides[d], view.strides[d] * (view.sizes[d] - 1), false};
      }
    }
  }
  const std::vector<Term>& terms() const { return terms_; }

  // Both return false when the result is no longer one term per dimension.
  bool divide(int64_t by) {
    if (by == 1) return true;
    const std::optional<int> lone = split(by);
    if (!lone) return false;
    const int64_t rest = constant_ % by;
    constant_ /= by;
    for (size_t d = 0; d < terms_.size(); ++d) {
      Term& t = terms_[d];
      if (t.gran % by == 0) {
        t.gran /= by;
        t.max /= by;
      } else if (static_cast<int>(d) == *lone) {
        t = {1, (rest + t.max) / by, true};
      } else {
        t = {};
      }
    }
    return true;
  }

  bool modulo(int64_t by) {
    for (Term& t : terms_) {
      if (t.gran % by == 0) t = {};
    }
    constant_ %= by;
    const std::optional<int> lone = split(by);
    if (!lone) return false;
    if (*lone >= 0) {
      Term& t = terms_[*lone];
      const int64_t gran = std::gcd(by, t.gran);
      t = {gran, by - gran, true};
      constant_ %= gran;
    }
    return true;
  }

 private:
  // The terms that are no multiples of `by`, and the constant's rest: -1 when together they stay below it (no carry);
  // the one dimension that may carry while all others stay below its grain; nothing when several carry into each other.
  std::optional<int> split(int64_t by) const {
    int64_t small = 0;
    for (const Term& t : terms_) {
      if (t.gran % by != 0) small += t.max;
    }
    if (constant_ % by + small < by) return -1;
    for (size_t d = 0; d < terms_.size(); ++d) {
      if (terms_[d].gran % by == 0) continue;
      const int64_t gran = std::gcd(by, terms_[d].gran);
      if (constant_ % gran + (small - terms_[d].max) < gran) return static_cast<int>(d);
    }
    return std::nullopt;
  }

  int64_t constant_ = 0;
  std::vector<Term> terms_;
};

}  // namespace

Access::Access(const HostView& view, const Geometry& geometry) : view_(view), geometry_(geometry) {
  view_.check();
  if (view_.extent().second > geometry_.storage_elements) {
    fail(Fault::user, "view with {} reaches past the {} elements of its storage", view_.to_text(),
         geometry_.storage_elements);
  }
  digits_ = detail::merged_digits(geometry_);
  analyse();
}

void Access::analyse() {
  const size_t rank = view_.sizes.size();
  even_.assign(rank, 1);
  even_step_.assign(rank, 0);
  if (rank > 0) {
    const Digit& lane = geometry_.digits.back();
    lane_step_ = lane.range(geometry_.storage_elements) > 1 && view_.strides.back() == lane.div1 * lane.div2;
  }
  if (view_.numel() == 0) return;
  Sum sum;
  for (const Digit& digit : digits_) {
    sum.start(view_);
    separable_ = separable_ && sum.divide(digit.div1) && sum.modulo(digit.mod1) && sum.divide(digit.div2) &&
                 sum.modulo(digit.mod2);
    if (!separable_) return;
    for (size_t d = 0; d < rank; ++d) {
      const Term& t = sum.terms()[d];
      if (t.uneven) even_[d] = 0;
      even_step_[d] += t.gran * digit.stride;
    }
  }
}

int64_t Access::device_element(const std::vector<int64_t>& index) const {
  int64_t o = view_.offset;
  for (size_t d = 0; d < index.size(); ++d) o += view_.strides[d] * index[d];
  return detail::place(digits_, o);
}

void Access::runs(const Box& box, std::vector<Run>& out) const {
  for_each_run(box, [&](const Run& run) { out.push_back(run); });
}

bool Access::contiguous_block(const Box& box, int64_t& first) const {
  Walk walk(*this, box, true);
  first = walk.empty() ? 0 : walk.device_first();
  if (walk.empty()) return true;
  if (!walk.repeats() || !walk.outer().empty() || walk.pattern().size() != 1) return false;
  return walk.pattern()[0].device_step == 1 || walk.pattern()[0].count == 1;
}

}  // namespace spyre::layout
