// PanelCache: decoded tiles of one kernel call, shared by its cores: equal tiles are unpacked once
// (docs/host_speed.md).
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/function_ref.h"
#include "card/lazy_tile.h"

namespace spyre::card {

/// Decoded tiles that one kernel call may keep.
constexpr int64_t panel_bytes = int64_t{48} << 20;

class PanelCache {
 public:
  /// What a decoded tile is made of.
  struct Key {
    program::Id formal = program::none;
    bool panels = false;  ///< B's packed form, else plain rows
    bool transposed = false;
    int64_t rows = 0, cols = 0;
    int64_t first_row = 0, first_column = 0;  ///< of the box
    MemBox box;
    bool operator==(const Key&) const = default;
  };
  using Block = std::shared_ptr<float>;
  class Arena;

  /// Keeps at most `limit` bytes; the oldest go first.
  explicit PanelCache(int64_t limit_bytes = panel_bytes) : limit_(limit_bytes) {}
  /// The tile of `key`, `elements` floats, 128-byte aligned. When absent it is made by build(part, floats) for each
  /// part below `parts`; threads that want it at the same time share the parts. Throws what build throws.
  Block get(const Key& key, int64_t elements, int parts, base::FunctionRef<void(int, float*)> build);

 private:
  /// A tile, complete once all its parts are.
  struct Entry {
    Block block;
    int64_t bytes = 0;
    std::atomic<int> next{0}, finished{0};
    std::atomic<bool> failed{false};
  };
  Block take(int64_t bytes);
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<Entry>, Hash> tiles_;
  std::deque<Key> order_;
  int64_t bytes_ = 0, limit_;
  /// Where the next tiles go that a thread decodes: memory that it had before, whose lines no other core has to give
  /// back.
  struct Place {
    std::shared_ptr<Arena> arena;
    int64_t used = 0;  ///< bytes of it
  };
  std::unordered_map<std::thread::id, Place> places_;
};

}  // namespace spyre::card
