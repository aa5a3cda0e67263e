// HostView: a tensor's view of its storage, and whether two of its indices can meet.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace spyre::layout {

/// The product of the sizes.
int64_t numel(const std::vector<int64_t>& sizes);

/// A tensor's view of its storage, in elements. sizes and strides have equal length; strides may be 0 (expand) and, in
/// reads, overlap; never negative.
struct HostView {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  bool operator==(const HostView&) const = default;
  int64_t numel() const;
  bool empty() const;  ///< some size is 0
  /// Smallest and one past the largest storage element touched; {0, 0} when numel() is 0.
  std::pair<int64_t, int64_t> extent() const;
  /// Throws Error(user) when lengths differ, something is negative, or numel() or extent() leaves int64.
  void check() const;
  std::string to_text() const;  ///< "sizes [2, 3] strides [3, 1] offset 0", for messages
  /// Row-major strides. Throws as check().
  static HostView contiguous(std::vector<int64_t> sizes);
};

/// A box of a view: per view dimension first index, number of indices and step (> 0). Indices outside the view are the
/// caller's to clip; an empty dimension makes an empty box.
struct Box {
  std::vector<int64_t> start, size, step;  ///< step empty = all 1
  static Box whole(const HostView& view);
  int64_t numel() const;
};

/// True when two different indices of the view name the same storage element: a write through it has no defined result.
/// Exact when strides nest (every view of a contiguous tensor by slicing, transposing, splitting), when only two
/// dimensions interleave, and up to 2^16 indices; beyond that interleaved strides count as overlapping.
bool writes_overlap(const HostView& view);

}  // namespace spyre::layout
