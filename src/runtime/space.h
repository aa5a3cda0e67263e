// Space: a range of device addresses, cut into pieces and put together again. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace spyre::runtime {

class Space {
 public:
  Space(uint64_t first, int64_t bytes) {
    if (bytes > 0) free_[first] = bytes;
  }

  /// The smallest free range that is long enough is cut; false when there is none.
  bool take(int64_t bytes, uint64_t& address) {
    auto best = free_.end();
    for (auto range = free_.begin(); range != free_.end(); ++range)
      if (range->second >= bytes && (best == free_.end() || range->second < best->second)) best = range;
    if (best == free_.end()) return false;
    address = best->first;
    const int64_t rest = best->second - bytes;
    free_.erase(best);
    if (rest > 0) free_[address + static_cast<uint64_t>(bytes)] = rest;
    return true;
  }

  /// A range that take() gave, or the end of one.
  void give(uint64_t address, int64_t bytes) {
    auto next = free_.lower_bound(address);
    if (next != free_.end() && address + static_cast<uint64_t>(bytes) == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + static_cast<uint64_t>(previous->second) == address) {
        previous->second += bytes;
        return;
      }
    }
    free_[address] = bytes;
  }

  int64_t largest() const {
    int64_t most = 0;
    for (const auto& [address, bytes] : free_) most = std::max(most, bytes);
    return most;
  }

 private:
  std::map<uint64_t, int64_t> free_;  // by address
};

}  // namespace spyre::runtime
