#include "program/verify_coverage.h"

#include <algorithm>
#include <functional>

namespace spyre::program::verifier {
namespace {

constexpr int64_t most_parts = 10'000;

struct Dim {
  int64_t size, stride;
};

/// Calls fn(first, end) for the contiguous parts of a view; false, without a call, when there are too many.
bool for_each_part(const layout::HostView& view, const std::function<void(int64_t, int64_t)>& fn) {
  if (view.numel() == 0) return true;
  std::vector<Dim> dims;
  for (size_t d = 0; d < view.sizes.size(); ++d)
    if (view.sizes[d] > 1 && view.strides[d] > 0) dims.push_back({view.sizes[d], view.strides[d]});
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
  // Dimensions that continue each other, from the innermost one.
  int64_t length = 1;
  size_t first = 0;
  while (first < dims.size() && dims[first].stride <= length)
    length += dims[first].stride * (dims[first].size - 1), ++first;
  int64_t parts = 1;
  for (size_t d = first; d < dims.size(); ++d)
    if (dims[d].size > most_parts || (parts *= dims[d].size) > most_parts) return false;
  for (int64_t i = 0; i < parts; ++i) {
    int64_t rest = i, at = view.offset;
    for (size_t d = first; d < dims.size(); rest /= dims[d].size, ++d) at += rest % dims[d].size * dims[d].stride;
    fn(at, at + length);
  }
  return true;
}

}  // namespace

void Coverage::add(const layout::HostView& view) {
  const bool listed = for_each_part(view, [&](int64_t first, int64_t end) { add(first, end); });
  if (!listed) many_parts_.push_back(view);
}

void Coverage::add(int64_t first, int64_t end) {
  auto it = written_.upper_bound(first);
  if (it != written_.begin() && std::prev(it)->second >= first) --it;
  while (it != written_.end() && it->first <= end) {
    first = std::min(first, it->first);
    end = std::max(end, it->second);
    it = written_.erase(it);
  }
  written_[first] = end;
}

bool Coverage::covers(int64_t first, int64_t end) const {
  auto it = written_.upper_bound(first);
  return it != written_.begin() && std::prev(it)->second >= end;
}

bool Coverage::covers(const layout::HostView& view) const {
  const auto [first, end] = view.extent();
  if (first >= end || covers(first, end)) return true;
  if (std::find(many_parts_.begin(), many_parts_.end(), view) != many_parts_.end()) return true;
  bool all = true;
  return for_each_part(view, [&](int64_t f, int64_t e) { all = all && covers(f, e); }) && all;
}

}  // namespace spyre::program::verifier
