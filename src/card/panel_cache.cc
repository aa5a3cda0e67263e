#include "card/panel_cache.h"

#include <cstdlib>
#include <new>

namespace spyre::card {

namespace {

/// Blocks given back, by size: a fresh block costs a page fault per 4 KB, more than decoding into it.
class BlockPool {
 public:
  float* take(int64_t bytes) {
    {
      std::lock_guard lock(mutex_);
      auto it = free_.find(bytes);
      if (it != free_.end()) {
        float* p = it->second;
        free_.erase(it);
        held_ -= bytes;
        return p;
      }
    }
    void* p = std::aligned_alloc(128, static_cast<size_t>((bytes + 127) / 128 * 128));
    if (!p) throw std::bad_alloc();
    return static_cast<float*>(p);
  }
  void give(float* p, int64_t bytes) {
    {
      std::lock_guard lock(mutex_);
      if (held_ + bytes <= limit) {
        free_.emplace(bytes, p);
        held_ += bytes;
        return;
      }
    }
    std::free(p);
  }
  static BlockPool& shared() {
    static BlockPool* pool = new BlockPool;
    return *pool;
  }

 private:
  static constexpr int64_t limit = int64_t{64} << 20;
  std::mutex mutex_;
  std::unordered_multimap<int64_t, float*> free_;
  int64_t held_ = 0;
};

}  // namespace

size_t PanelCache::Hash::operator()(const Key& key) const {
  uint64_t h = static_cast<uint64_t>(key.formal) * 4 + (key.panels ? 2 : 0) + (key.transposed ? 1 : 0);
  h = h * 31 + static_cast<uint64_t>(key.rows) * 65599 + static_cast<uint64_t>(key.cols);
  for (int d = 0; d < key.box.rank; ++d) {
    const auto& m = key.box.dims[d];
    for (int64_t x : {m.base, m.extent}) h = (h ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
  }
  return h;
}

PanelCache::Block PanelCache::get(const Key& key, int64_t elements, base::FunctionRef<void(float*)> build) {
  {
    std::lock_guard lock(mutex_);
    auto it = tiles_.find(key);
    if (it != tiles_.end()) return it->second.first;
  }
  const int64_t bytes = elements * static_cast<int64_t>(sizeof(float));
  Block block(BlockPool::shared().take(bytes), [bytes](float* p) { BlockPool::shared().give(p, bytes); });
  build(block.get());
  std::lock_guard lock(mutex_);
  const auto [it, inserted] = tiles_.try_emplace(key, block, bytes);
  if (!inserted) return it->second.first;
  order_.push_back(key);
  bytes_ += bytes;
  while (bytes_ > limit_ && order_.size() > 1) {
    auto old = tiles_.find(order_.front());
    bytes_ -= old->second.second;
    tiles_.erase(old);
    order_.pop_front();
  }
  return block;
}

}  // namespace spyre::card
