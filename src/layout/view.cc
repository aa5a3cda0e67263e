#include "layout/view.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace spyre::layout {

int64_t numel(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

int64_t HostView::numel() const { return layout::numel(sizes); }

bool HostView::empty() const { return std::find(sizes.begin(), sizes.end(), 0) != sizes.end(); }

std::pair<int64_t, int64_t> HostView::extent() const {
  int64_t last = offset;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return {0, 0};
    last += (sizes[d] - 1) * strides[d];
  }
  return {offset, last + 1};
}

std::string HostView::to_text() const {
  return fmt::format("sizes [{}] strides [{}] offset {}", fmt::join(sizes, ", "), fmt::join(strides, ", "), offset);
}

void HostView::check() const {
  if (sizes.size() != strides.size()) {
    fail(Fault::user, "view with {}: sizes and strides differ in length", to_text());
  }
  bool bad = offset < 0;
  for (size_t d = 0; d < sizes.size(); ++d) bad = bad || sizes[d] < 0 || strides[d] < 0;
  if (bad) fail(Fault::user, "view with {}: sizes, strides and offset may not be negative", to_text());
  int64_t n = 1, last = offset;
  bool over = false;
  const bool nothing = empty();
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t reach = 0;
    over = over || __builtin_mul_overflow(n, std::max<int64_t>(sizes[d], 1), &n);
    if (nothing) continue;
    over =
        over || __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) || __builtin_add_overflow(last, reach, &last);
  }
  if (over || last == INT64_MAX) fail(Fault::user, "view with {}: more than 2^63 elements", to_text());
}

HostView HostView::contiguous(std::vector<int64_t> sizes) {
  HostView view;
  view.sizes = std::move(sizes);
  view.strides.assign(view.sizes.size(), 1);
  int64_t stride = 1;
  for (size_t d = view.sizes.size(); d-- > 0;) {
    view.strides[d] = stride;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(view.sizes[d], 1), &stride)) {
      fail(Fault::user, "a tensor of sizes [{}] has more than 2^63 elements", fmt::join(view.sizes, ", "));
    }
  }
  view.check();
  return view;
}

Box Box::whole(const HostView& view) { return {std::vector<int64_t>(view.sizes.size(), 0), view.sizes, {}}; }

int64_t Box::numel() const { return layout::numel(size); }

bool writes_overlap(const HostView& view) {
  struct Dim {
    int64_t stride, size;
  };
  std::vector<Dim> dims;
  if (std::find(view.sizes.begin(), view.sizes.end(), 0) != view.sizes.end()) return false;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 1) continue;
    if (view.strides[d] == 0) return true;
    dims.push_back({view.strides[d], view.sizes[d]});
  }
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
  // A stride larger than the reach of all smaller ones can't meet them: those dimensions drop out from the top.
  std::vector<int64_t> reach(dims.size() + 1, 0);
  for (size_t i = 0; i < dims.size(); ++i) reach[i + 1] = reach[i] + dims[i].stride * (dims[i].size - 1);
  size_t open = dims.size();
  while (open > 0 && dims[open - 1].stride > reach[open - 1]) --open;
  if (open == 0) return false;
  if (open == 2) {
    // s0 x a = s1 x b with |a| < n0, |b| < n1: the smallest solution is a = s1 / g, b = s0 / g.
    const int64_t g = std::gcd(dims[0].stride, dims[1].stride);
    return dims[1].stride / g < dims[0].size && dims[0].stride / g < dims[1].size;
  }
  int64_t numel = 1;
  for (size_t i = 0; i < open; ++i) numel *= dims[i].size;
  if (numel > (int64_t{1} << 16)) return true;
  if (numel > reach[open] + 1) return true;
  std::vector<int64_t> seen{0}, next;
  for (size_t i = 0; i < open; ++i) {
    next.clear();
    for (int64_t k = 0; k < dims[i].size; ++k) {
      for (int64_t o : seen) next.push_back(o + k * dims[i].stride);
    }
    seen.swap(next);
  }
  std::sort(seen.begin(), seen.end());
  return std::adjacent_find(seen.begin(), seen.end()) != seen.end();
}

}  // namespace spyre::layout
