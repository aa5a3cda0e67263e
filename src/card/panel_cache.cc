#include "card/panel_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "card/huge_page.h"

namespace spyre::card {

namespace {

constexpr int64_t usual_bytes = 4 * huge_page;
/// Arenas that are free before one is used again, the longest unused first, rather one that the thread had before.
/// Lines that another core has read are slow to write (a fifth of the speed) until they have left its cache.
constexpr size_t rested = 4;

}  // namespace

/// Memory of many tiles, on huge pages: decoded tiles are read with long strides, and small pages cost a tenth of the
/// speed of a product. Kept from launch to launch, since a fresh page costs more to get than to decode into.
class PanelCache::Arena {
 public:
  explicit Arena(int64_t bytes) : bytes_(bytes) {
    if (bytes == usual_bytes) {
      std::lock_guard lock(free().mutex);
      auto& list = free().list;
      const auto own = std::find_if(list.begin(), list.end(), [&](const Kept& k) { return k.owner == owner_; });
      if (list.size() >= rested) {
        const auto kept = own != list.end() ? own : list.begin();
        data_ = kept->data;
        list.erase(kept);
        return;
      }
    }
    data_ = static_cast<std::byte*>(std::aligned_alloc(huge_page, static_cast<size_t>(bytes)));
    if (!data_) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(data_, static_cast<size_t>(bytes), MADV_HUGEPAGE);
#endif
  }
  ~Arena() {
    if (bytes_ == usual_bytes) {
      std::lock_guard lock(free().mutex);
      if (free().list.size() < most_kept()) {
        free().list.push_back({data_, owner_});
        return;
      }
    }
    std::free(data_);
  }
  Arena(const Arena&) = delete;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  /// Two a thread: from 64 to 512 MB, of which only what was used is committed.
  static size_t most_kept() {
    return std::clamp<size_t>(2 * static_cast<size_t>(base::ThreadPool::shared().size()), 8, 64);
  }
  struct Kept {
    std::byte* data;
    std::thread::id owner;
  };
  struct Free {
    std::mutex mutex;
    std::vector<Kept> list;
    Free() { list.reserve(most_kept()); }
  };
  static Free& free() {
    static Free* list = new Free;
    return *list;
  }
  std::byte* data_ = nullptr;
  int64_t bytes_;
  std::thread::id owner_ = std::this_thread::get_id();
};

/// Called under the lock.
PanelCache::Block PanelCache::take(int64_t bytes) {
  bytes = (bytes + 127) / 128 * 128;
  auto& [arena, used] = places_[std::this_thread::get_id()];
  if (!arena || arena->bytes() - used < bytes) {
    arena =
        std::make_shared<Arena>(bytes <= usual_bytes ? usual_bytes : (bytes + huge_page - 1) / huge_page * huge_page);
    used = 0;
  }
  // Shares the arena's ownership: it lives as long as one of its tiles.
  Block block(arena, reinterpret_cast<float*>(arena->data() + used));
  used += bytes;
  return block;
}

size_t PanelCache::Hash::operator()(const Key& key) const {
  uint64_t h = static_cast<uint64_t>(key.formal) * 4 + (key.panels ? 2 : 0) + (key.transposed ? 1 : 0);
  h = h * 31 + static_cast<uint64_t>(key.rows) * 65599 + static_cast<uint64_t>(key.cols);
  h = h * 31 + static_cast<uint64_t>(key.first_row) * 65599 + static_cast<uint64_t>(key.first_column);
  for (int d = 0; d < key.box.rank; ++d) {
    const auto& m = key.box.dims[d];
    for (int64_t x : {m.base, m.extent}) h = (h ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
  }
  return h;
}

PanelCache::Block PanelCache::get(const Key& key, int64_t elements, int parts,
                                  base::FunctionRef<void(int, float*)> build) {
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    auto& found = tiles_[key];
    if (!found) {
      found = std::make_shared<Entry>();
      found->bytes = elements * static_cast<int64_t>(sizeof(float));
      found->block = take(found->bytes);
      order_.push_back(key);
      bytes_ += found->bytes;
    }
    entry = found;
    while (bytes_ > limit_ && order_.size() > 1) {
      const auto old = tiles_.find(order_.front());
      bytes_ -= old->second->bytes;
      tiles_.erase(old);
      order_.pop_front();
    }
  }
  for (int i; (i = entry->next.fetch_add(1, std::memory_order_relaxed)) < parts;) {
    try {
      build(i, entry->block.get());
    } catch (...) {
      entry->failed.store(true);
      entry->finished.fetch_add(1);
      throw;
    }
    entry->finished.fetch_add(1, std::memory_order_release);
  }
  // Parts that others have begun take microseconds; on a shared machine such a thread may have lost its core.
  for (int spin = 1; entry->finished.load(std::memory_order_acquire) < parts && !entry->failed.load(); ++spin)
    if (spin % 256 == 0) std::this_thread::yield();
  if (entry->failed.load())
    for (int i = 0; i < parts; ++i) build(i, entry->block.get());  // fails here as it did there
  return entry->block;
}

}  // namespace spyre::card
