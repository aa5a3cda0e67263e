// Walk: the engine below Access's loops. It yields the strips of a box one by one, so that two boxes can be paired.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "layout/access.h"

namespace spyre::layout {

/// Yields the strips of one box in ascending box_index. Holds pointers into the access: keep it alive.
class Walk {
 public:
  /// Throws Error(user) when the box does not lie inside the view.
  Walk(const Access& access, const Box& box, bool across_rows);

  /// The next strip; false after the last one.
  bool next(Strip& strip) {
    while (at_ == pattern_.size()) {
      if (!next_row()) return false;
    }
    const Strip& s = pattern_[at_++];
    strip = {box_base_ + s.box_index, device_base_ + s.device_element, s.count, s.device_step};
    return true;
  }

  /// A box dimension outside the pattern.
  struct Outer {
    int64_t size = 0;
    int64_t step = 0;            // device elements, when `table` is empty; else storage elements when not separable
    std::vector<int64_t> table;  // device elements relative to the first index
    int64_t box_step = 0;        // box elements
    int64_t at = 0;
  };
  /// True when every row has the same strips, relative to its start; then the members below describe the whole box.
  bool repeats() const { return repeats_; }
  const std::vector<Outer>& outer() const { return outer_; }
  const std::vector<Strip>& pattern() const { return pattern_; }
  int64_t device_first() const { return device_base_; }
  bool empty() const { return empty_; }

 private:
  bool next_row();
  bool next_piece();

  const Access* access_ = nullptr;
  std::vector<Strip> pattern_;
  std::vector<Outer> outer_;
  size_t at_ = 0;
  int64_t box_base_ = 0, device_base_ = 0;
  bool empty_ = false, repeats_ = true, first_row_ = true;
  // Only when rows do not repeat: the row's storage element, and how far it has been cut into pieces.
  int64_t row_storage_ = 0, row_box_ = 0, row_size_ = 0, row_step_ = 0, row_done_ = 0;
};

template <typename Fn>
void Access::for_each_strip(const Box& box, bool across_rows, Fn&& fn) const {
  Walk walk(*this, box, across_rows);
  Strip strip;
  while (walk.next(strip)) fn(static_cast<const Strip&>(strip));
}

template <typename Fn>
void Access::for_each_run(const Box& box, Fn&& fn) const {
  const int64_t lanes = base::elements_per_stick(geometry_.format);
  Walk walk(*this, box, false);
  Strip strip;
  while (walk.next(strip)) {
    Run run{strip.box_index, strip.device_element, 1};
    if (strip.device_step == 1) {
      int64_t left = strip.count;
      int64_t room = lanes - (run.device_element & (lanes - 1));  // lanes is a power of two
      while (left > 0) {
        run.count = std::min(left, room);
        fn(static_cast<const Run&>(run));
        run.box_index += run.count;
        run.device_element += run.count;
        left -= run.count;
        room = lanes;
      }
    } else {
      for (int64_t i = 0; i < strip.count; ++i) {
        fn(static_cast<const Run&>(run));
        ++run.box_index;
        run.device_element += strip.device_step;
      }
    }
  }
}

template <typename Fn>
void Access::for_each_patch(const Box& box, Fn&& fn) const {
  Walk walk(*this, box, true);
  if (walk.empty()) return;
  const auto& outer = walk.outer();
  if (!walk.repeats() || outer.empty() || !outer.back().table.empty()) {
    Strip s;
    while (walk.next(s)) {
      fn(static_cast<const Patch&>(Patch{s.box_index, s.device_element, 1, 0, 0, s.count, s.device_step}));
    }
    return;
  }
  const Walk::Outer& rows = outer.back();
  std::vector<int64_t> index(outer.size(), 0);
  int64_t box_base = 0, device_base = walk.device_first();
  while (true) {
    for (const Strip& s : walk.pattern()) {
      fn(static_cast<const Patch&>(Patch{box_base + s.box_index, device_base + s.device_element, rows.size,
                                         rows.box_step, rows.step, s.count, s.device_step}));
    }
    size_t d = outer.size() - 1;
    for (; d-- > 0;) {
      const Walk::Outer& o = outer[d];
      const int64_t before = o.table.empty() ? index[d] * o.step : o.table[index[d]];
      const int64_t next = index[d] + 1 < o.size ? index[d] + 1 : 0;
      const int64_t after = o.table.empty() ? next * o.step : o.table[next];
      box_base += (next - index[d]) * o.box_step;
      device_base += after - before;
      index[d] = next;
      if (next != 0) break;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

namespace detail {
void check_equal_boxes(const Box& a, const Box& b);
}

template <typename Fn>
void for_each_common_strip(const Access& src, const Box& src_box, const Access& dst, const Box& dst_box, Fn&& fn) {
  detail::check_equal_boxes(src_box, dst_box);
  Walk from(src, src_box, true), to(dst, dst_box, true);
  Strip a, b;
  if (!from.next(a) || !to.next(b)) return;
  while (true) {
    const int64_t count = std::min(a.count, b.count);
    fn(a.device_element, a.device_step, b.device_element, b.device_step, count);
    a.count -= count;
    b.count -= count;
    a.device_element += count * a.device_step;
    b.device_element += count * b.device_step;
    const bool more = a.count > 0 || from.next(a);
    if (b.count == 0 && !to.next(b)) return;
    if (!more) return;
  }
}

template <typename Fn>
void for_each_common_run(const Access& src, const Box& src_box, const Access& dst, const Box& dst_box, Fn&& fn) {
  for_each_common_strip(src, src_box, dst, dst_box,
                        [&](int64_t s, int64_t s_step, int64_t d, int64_t d_step, int64_t count) {
                          if (s_step == 1 && d_step == 1) {
                            fn(s, d, count);
                            return;
                          }
                          for (int64_t i = 0; i < count; ++i) fn(s + i * s_step, d + i * d_step, int64_t{1});
                        });
}

}  // namespace spyre::layout
