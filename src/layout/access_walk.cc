#include "layout/access_walk.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "layout/walk_detail.h"

namespace spyre::layout {

namespace {

// Rows longer than this are cut into pieces, so that a pattern stays in the cache.
constexpr int64_t piece_elements = 1 << 15;
// An uneven dimension with more indices than this gets no table.
constexpr int64_t table_limit = 1 << 20;

int64_t step_of(const Box& box, size_t d) { return box.step.empty() ? 1 : box.step[d]; }

}  // namespace

namespace detail {

void check_box(const HostView& view, const Box& box) {
  const size_t rank = view.sizes.size();
  bool inside = box.start.size() == rank && box.size.size() == rank && (box.step.empty() || box.step.size() == rank);
  for (size_t d = 0; inside && d < rank; ++d) {
    const int64_t step = step_of(box, d);
    inside = box.start[d] >= 0 && box.size[d] >= 0 && step > 0 &&
             (box.size[d] == 0 || (box.start[d] < view.sizes[d] &&
                                   (box.size[d] == 1 || (view.sizes[d] - 1 - box.start[d]) / step >= box.size[d] - 1)));
  }
  if (!inside) {
    fail(Fault::user, "box start [{}] size [{}] step [{}] does not lie in the view with {}", fmt::join(box.start, ", "),
         fmt::join(box.size, ", "), fmt::join(box.step, ", "), view.to_text());
  }
}

void check_equal_boxes(const Box& a, const Box& b) {
  if (a.size != b.size) {
    fail(Fault::user, "boxes of size [{}] and [{}] can't be paired", fmt::join(a.size, ", "), fmt::join(b.size, ", "));
  }
}

}  // namespace detail

Walk::Walk(const Access& access, const Box& box, bool across_rows) : access_(&access) {
  const HostView& view = access.view_;
  detail::check_box(view, box);
  const size_t rank = view.sizes.size();
  int64_t storage = view.offset;
  for (size_t d = 0; d < rank; ++d) {
    if (box.size[d] == 0) {
      empty_ = true;
      return;
    }
    storage += view.strides[d] * box.start[d];
  }
  const int64_t base = detail::place(access.digits_, storage);
  const size_t last = rank == 0 ? 0 : rank - 1;
  row_size_ = rank == 0 ? 1 : box.size[last];
  row_step_ = rank == 0 ? 0 : view.strides[last] * step_of(box, last);

  repeats_ = access.separable_;
  if (repeats_) {
    if (row_size_ == 1 || access.even_[last]) {
      pattern_.push_back({0, 0, row_size_, row_size_ == 1 ? 1 : access.even_step_[last] * step_of(box, last)});
    } else if (row_size_ <= piece_elements) {
      detail::append_strips(access.digits_, storage, row_step_, row_size_, 0, base, pattern_);
    } else {
      repeats_ = false;
    }
    for (size_t d = 0; repeats_ && d < last; ++d) {
      repeats_ = box.size[d] == 1 || access.even_[d] || box.size[d] <= table_limit;
    }
  }

  int64_t box_step = row_size_;
  for (size_t d = last; d-- > 0;) {
    const int64_t size = box.size[d], step = view.strides[d] * step_of(box, d);
    if (size == 1) continue;
    Outer outer{size, 0, {}, box_step, 0};
    box_step *= size;
    if (!repeats_) {
      outer.step = step;
    } else if (access.even_[d]) {
      outer.step = access.even_step_[d] * step_of(box, d);
    } else {
      std::vector<Strip> strips;
      detail::append_strips(access.digits_, storage, step, size, 0, base, strips);
      if (strips.size() == 1) {
        outer.step = strips[0].device_step;
      } else {
        outer.table.reserve(static_cast<size_t>(size));
        for (const Strip& s : strips) {
          for (int64_t i = 0; i < s.count; ++i) outer.table.push_back(s.device_element + i * s.device_step);
        }
      }
    }
    // outer_ is built from the inside out and turned round below.
    const bool even = outer.table.empty();
    if (even && !outer_.empty() && outer_.back().table.empty() &&
        outer.step == outer_.back().step * outer_.back().size) {
      outer_.back().size *= size;
    } else {
      outer_.push_back(std::move(outer));
    }
  }
  if (repeats_ && across_rows && pattern_.size() == 1) {
    Strip& strip = pattern_[0];
    size_t joined = 0;
    while (joined < outer_.size() && outer_[joined].table.empty()) {
      const Outer& o = outer_[joined];
      if (strip.count == 1) {
        strip.device_step = o.step;
      } else if (o.step != strip.count * strip.device_step) {
        break;
      }
      strip.count *= o.size;
      ++joined;
    }
    outer_.erase(outer_.begin(), outer_.begin() + static_cast<std::ptrdiff_t>(joined));
  }
  std::reverse(outer_.begin(), outer_.end());
  device_base_ = repeats_ ? base : 0;
  row_storage_ = storage;
  at_ = pattern_.size();
}

bool Walk::next_row() {
  if (empty_) return false;
  if (!repeats_ && !first_row_ && row_done_ < row_size_) return next_piece();
  if (first_row_) {
    first_row_ = false;
    at_ = 0;
    return repeats_ || next_piece();
  }
  for (size_t d = outer_.size(); d-- > 0;) {
    Outer& o = outer_[d];
    const bool wraps = o.at + 1 == o.size;
    const int64_t next = wraps ? 0 : o.at + 1;
    const int64_t moved = o.table.empty() ? (next - o.at) * o.step : o.table[next] - o.table[o.at];
    const int64_t box_moved = (next - o.at) * o.box_step;
    o.at = next;
    if (repeats_) {
      device_base_ += moved;
      box_base_ += box_moved;
    } else {
      row_storage_ += moved;
      row_box_ += box_moved;
    }
    if (wraps) continue;
    at_ = 0;
    row_done_ = 0;
    return repeats_ || next_piece();
  }
  empty_ = true;
  return false;
}

bool Walk::next_piece() {
  int64_t count = std::min(row_size_ - row_done_, piece_elements);
  pattern_.clear();
  at_ = 0;
  box_base_ = row_box_;
  detail::append_strips(access_->digits_, row_storage_ + row_done_ * row_step_, row_step_, count, row_done_, 0,
                        pattern_);
  if (row_done_ + count < row_size_) {
    // End at a stick's end, or with a whole strip: the cut must not make runs of its own.
    Strip& last = pattern_.back();
    if (pattern_.size() > 1) {
      count = last.box_index - row_done_;
      pattern_.pop_back();
    } else if (last.device_step == 1) {
      const int64_t over = (last.device_element + last.count) % base::elements_per_stick(access_->geometry_.format);
      last.count -= over;
      count -= over;
    }
  }
  row_done_ += count;
  return true;
}

}  // namespace spyre::layout
