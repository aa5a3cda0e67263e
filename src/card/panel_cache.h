// PanelCache: decoded tiles of one kernel call, shared by its cores: equal tiles are unpacked once
// (docs/host_speed.md).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/function_ref.h"
#include "card/lazy_tile.h"

namespace spyre::card {

class PanelCache {
 public:
  /// What a decoded tile is made of.
  struct Key {
    program::Id formal = program::none;
    bool panels = false;  ///< B's packed form, else plain rows
    bool transposed = false;
    int64_t rows = 0, cols = 0;
    MemBox box;
    bool operator==(const Key&) const = default;
  };
  using Block = std::shared_ptr<float>;
  class Arena;

  /// Keeps at most `limit` bytes; the oldest go first.
  explicit PanelCache(int64_t limit_bytes) : limit_(limit_bytes) {}
  /// The tile of `key`, made by `build` (into `elements` floats, 128-byte aligned) when absent. Thread-safe; two
  /// threads may build the same tile at the same time, with equal results.
  Block get(const Key& key, int64_t elements, base::FunctionRef<void(float*)> build);

 private:
  Block take(int64_t bytes);
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  std::mutex mutex_;
  std::unordered_map<Key, std::pair<Block, int64_t>, Hash> tiles_;
  std::deque<Key> order_;
  int64_t bytes_ = 0, limit_;
  std::shared_ptr<Arena> arena_;  ///< where the next tiles go
  int64_t used_ = 0;              ///< bytes of it
};

}  // namespace spyre::card
