// SymbolMap: from indices of a symbol's view to elements of its allocation, fast enough to be asked for every stick.
//
// When the view's dimensions contribute to the device address independently of each other (nearly always), the element
// is a sum of one number per dimension; that is proved from strides and digits, not tried. Otherwise layout::Access
// makes runs.
#pragma once

#include <algorithm>
#include <vector>

#include "card/lazy_tile.h"
#include "layout/geometry.h"

namespace spyre::card {

class SymbolMap {
 public:
  explicit SymbolMap(const program::Symbol& symbol);
  const program::Symbol& symbol() const { return *symbol_; }
  const layout::Access& access() const { return access_; }
  int rank() const { return static_cast<int>(symbol_->view.sizes.size()); }
  int64_t size(int d) const { return symbol_->view.sizes[d]; }
  bool separable() const { return separable_; }
  int64_t element_bytes() const { return element_bytes_; }
  /// Separable only: what index i of dimension d adds to the device element; dimension -1 is the constant.
  int64_t part(int d, int64_t i) const {
    const Rule& r = rules_[d];
    if (i < r.block) return r.first + i * r.step;
    if (r.block > 0) return r.first + i / r.block * r.jump + i % r.block * r.step;
    const auto& t = tables_[d];
    return t.empty() ? slow_part(d, i) : t[i];
  }
  int64_t constant() const { return constant_; }
  /// Separable only: indices i, i + 1, ... of the last dimension that follow each other in memory (at least 1).
  int64_t run(int64_t i) const {
    if (const Rule& r = rules_.back(); r.block > 0 && r.step == 1)
      return std::min(r.block - i % r.block, size(rank() - 1) - i);
    return runs_.empty() ? slow_run(i) : runs_[i];
  }
  /// Separable only: device elements from one index of dimension d to the next among first..last, or -1 when that
  /// varies, is negative or isn't known. Rows of a batch that is merged into them are even within each of its items.
  int64_t even_step(int d, int64_t first, int64_t last) const {
    const Rule& r = rules_[d];
    if (r.block > 0) {
      if (last > first + 1 && first / r.block != last / r.block) return -1;
    } else if (tables_[d].empty() || even_until_[d][first] < last) {
      return -1;
    }
    return last > first ? std::max<int64_t>(part(d, first + 1) - part(d, first), -1) : 0;
  }
  /// Separable only: device elements from one stick of the last dimension to the next when all sticks of it but the
  /// last one hold stick_lanes() indices from lane 0 on; else -1.
  int64_t stick_step() const { return stick_step_; }
  int64_t stick_lanes() const { return stick_lanes_; }
  /// Lanes of padding that follow the last index of the last dimension in its stick, whatever the other indices are; 0
  /// when that differs.
  int64_t pad_after_last() const { return pad_; }
  /// Lanes of padding right after storage element o, up to the end of its stick.
  int64_t padding_after(int64_t o) const;

  /// Calls fn(tile_offset, device_element, count, last) for runs of the box that lie in the view: `count` elements that
  /// are neighbours in memory and `tile step` apart in the tile; last = the run ends at the view's last index of its
  /// last dimension. tile_offset counts elements from the tile's start.
  template <typename Fn>
  void walk(const MemBox& box, Fn&& fn) const;

  /// Positions of dimension d of the box that lie inside the view: [first, second).
  std::pair<int64_t, int64_t> inside(const MemBox& box, int d) const {
    const auto& m = box.dims[d];
    const int64_t n = size(d);
    const int64_t p0 = m.base >= 0 ? 0 : (-m.base + m.step - 1) / m.step;
    const int64_t p1 = m.base >= n ? 0 : std::min(m.extent, (n - 1 - m.base) / m.step + 1);
    return {p0, std::max(p0, p1)};
  }

 private:
  /// What index i of a dimension adds, where it is first + i div block * jump + i mod block * step. Nearly always it
  /// is: a table as long as the dimension would be out of the cache whenever it is asked.
  struct Rule {
    int64_t first = 0, block = 0, step = 0, jump = 0;  ///< block 0: there is none
  };
  static Rule rule_of(const std::vector<int64_t>& table);
  int64_t common_padding() const;
  int64_t slow_part(int d, int64_t i) const;
  int64_t slow_run(int64_t i) const;
  void prove();
  void find_runs(const std::vector<int64_t>& table);
  void find_stick_step(const std::vector<int64_t>& table);
  static std::vector<int64_t> find_even_steps(const std::vector<int64_t>& table);
  template <typename Fn>
  void walk_separable(const MemBox& box, int d, int64_t tile, int64_t device, const std::pair<int64_t, int64_t>* in,
                      Fn& fn) const;

  const program::Symbol* symbol_;
  layout::Access access_;
  int64_t element_bytes_;
  bool separable_ = false;
  std::vector<int64_t> offsets_;  // storage elements that belong to each dimension (its share of the view's offset)
  int64_t constant_ = 0;
  std::vector<Rule> rules_;  // by dimension
  // Where there is no rule, for dimensions that are not too long:
  std::vector<std::vector<int64_t>> tables_;
  std::vector<std::vector<int64_t>> even_until_;  // by dimension and index: the last one that the same step reaches
  std::vector<int64_t> runs_;
  int64_t stick_step_ = -1, stick_lanes_ = 0;
  int64_t pad_ = 0;
};

template <typename Fn>
void SymbolMap::walk_separable(const MemBox& box, int d, int64_t tile, int64_t device,
                               const std::pair<int64_t, int64_t>* in, Fn& fn) const {
  const auto& m = box.dims[d];
  const auto [p0, p1] = in[d];
  if (d + 2 == box.rank && box.dims[d + 1].step == 1) {
    // Stick column by stick column: its rows usually lie next to each other, while columns are far apart and may
    // compete for the same cache sets.
    const auto& c = box.dims[d + 1];
    const auto [c0, c1] = in[d + 1];
    const int64_t end = size(d + 1);
    for (int64_t q = c0; q < c1;) {
      const int64_t i = c.base + q, n = std::min(run(i), c1 - q), column = device + part(d + 1, i);
      for (int64_t p = p0; p < p1; ++p)
        fn(tile + p * m.stride + q * c.stride, column + part(d, m.base + m.step * p), n, i + n == end);
      q += n;
    }
    return;
  }
  if (d + 1 < box.rank) {
    for (int64_t p = p0; p < p1; ++p)
      walk_separable(box, d + 1, tile + p * m.stride, device + part(d, m.base + m.step * p), in, fn);
    return;
  }
  const int64_t end = size(d);
  if (m.step == 1) {
    for (int64_t p = p0; p < p1;) {
      const int64_t i = m.base + p, n = std::min(run(i), p1 - p);
      fn(tile + p * m.stride, device + part(d, i), n, i + n == end);
      p += n;
    }
  } else {
    for (int64_t p = p0; p < p1; ++p) {
      const int64_t i = m.base + m.step * p;
      fn(tile + p * m.stride, device + part(d, i), int64_t{1}, i + 1 == end);
    }
  }
}

template <typename Fn>
void SymbolMap::walk(const MemBox& box, Fn&& fn) const {
  std::pair<int64_t, int64_t> in[max_rank];
  for (int d = 0; d < box.rank; ++d) {
    in[d] = inside(box, d);
    if (in[d].first >= in[d].second) return;
  }
  if (box.rank == 0) {
    fn(int64_t{0}, access_.geometry().device_element(symbol_->view.offset), int64_t{1}, true);
    return;
  }
  if (separable_) {
    walk_separable(box, 0, 0, constant_, in, fn);
    return;
  }
  layout::Box b;
  for (int d = 0; d < box.rank; ++d) {
    const auto& m = box.dims[d];
    b.start.push_back(m.base + m.step * in[d].first);
    b.size.push_back(in[d].second - in[d].first);
    b.step.push_back(m.step);
  }
  std::vector<layout::Run> runs;
  access_.runs(b, runs);
  const int last = box.rank - 1;
  for (const auto& r : runs) {
    int64_t rest = r.box_index, tile = 0, i_last = 0;
    for (int d = last; d >= 0; --d) {
      const int64_t p = rest % b.size[d];
      rest /= b.size[d];
      tile += (p + in[d].first) * box.dims[d].stride;
      if (d == last) i_last = b.start[d] + b.step[d] * (p + r.count - 1);
    }
    fn(tile, r.device_element, r.count, i_last + 1 == size(last));
  }
}

}  // namespace spyre::card
