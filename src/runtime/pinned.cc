#include "runtime/pinned.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "runtime/devices.h"

namespace spyre::runtime {
namespace {

constexpr size_t alignment = 64, smallest = 512;

// Never destroyed, so that buffers freed at exit still find it.
struct Registry {
  struct Buffer {
    size_t size = 0;
    bool in_use = false;
    std::vector<Stream*> uses;                     // while in use
    std::vector<std::shared_ptr<Signal>> pending;  // while free
  };
  std::mutex mutex;
  std::map<uintptr_t, Buffer> buffers;  // all, by address
  PinnedStatistics statistics;

  static Registry& shared() {
    static Registry* const made = new Registry;
    return *made;
  }
  // The buffer in use that holds the address, or end().
  auto find(const void* pointer) {
    auto place = buffers.upper_bound(reinterpret_cast<uintptr_t>(pointer));
    if (place == buffers.begin()) return buffers.end();
    --place;
    const uintptr_t at = reinterpret_cast<uintptr_t>(pointer) - place->first;
    return at < place->second.size && place->second.in_use ? place : buffers.end();
  }
  static bool ready(Buffer& buffer) {
    std::erase_if(buffer.pending, [](const auto& signal) { return signal->reached(); });
    return buffer.pending.empty();
  }
};

}  // namespace

void* allocate_pinned(size_t bytes) {
  if (bytes > size_t{1} << 46) fail(Fault::system, "cannot get {} bytes of host memory", bytes);
  const size_t size = std::bit_ceil(std::max(bytes, smallest));
  Registry& registry = Registry::shared();
  std::lock_guard lock(registry.mutex);
  PinnedStatistics& s = registry.statistics;
  ++s.buffers;
  s.bytes += static_cast<int64_t>(size);
  for (auto& [address, buffer] : registry.buffers) {
    if (buffer.in_use || buffer.size != size || !Registry::ready(buffer)) continue;
    buffer.in_use = true;
    --s.cached_buffers;
    s.cached_bytes -= static_cast<int64_t>(size);
    return reinterpret_cast<void*>(address);
  }
  void* const made = std::aligned_alloc(alignment, size);
  if (!made) {
    --s.buffers;
    s.bytes -= static_cast<int64_t>(size);
    fail(Fault::system, "cannot get {} bytes of host memory", bytes);
  }
  registry.buffers[reinterpret_cast<uintptr_t>(made)] = {size, true, {}, {}};
  return made;
}

void free_pinned(void* pointer) noexcept {
  if (!pointer || in_forked_child()) return;
  Registry& registry = Registry::shared();
  std::lock_guard lock(registry.mutex);
  const auto place = registry.find(pointer);
  if (place == registry.buffers.end() || place->first != reinterpret_cast<uintptr_t>(pointer)) return;
  Registry::Buffer& buffer = place->second;
  for (Stream* stream : buffer.uses) {
    auto signal = stream->record();
    if (!signal->reached()) buffer.pending.push_back(std::move(signal));
  }
  buffer.uses.clear();
  buffer.in_use = false;
  PinnedStatistics& s = registry.statistics;
  --s.buffers;
  ++s.cached_buffers;
  s.bytes -= static_cast<int64_t>(buffer.size);
  s.cached_bytes += static_cast<int64_t>(buffer.size);
}

bool is_pinned(const void* pointer) {
  Registry& registry = Registry::shared();
  std::lock_guard lock(registry.mutex);
  return registry.find(pointer) != registry.buffers.end();
}

bool note_pinned_use(const void* pointer, Stream& stream) {
  Registry& registry = Registry::shared();
  std::lock_guard lock(registry.mutex);
  const auto place = registry.find(pointer);
  if (place == registry.buffers.end()) return false;
  auto& uses = place->second.uses;
  if (std::find(uses.begin(), uses.end(), &stream) == uses.end()) uses.push_back(&stream);
  return true;
}

void empty_pinned_cache() {
  Registry& registry = Registry::shared();
  std::lock_guard lock(registry.mutex);
  for (auto place = registry.buffers.begin(); place != registry.buffers.end();) {
    Registry::Buffer& buffer = place->second;
    if (buffer.in_use || !Registry::ready(buffer)) {
      ++place;
      continue;
    }
    --registry.statistics.cached_buffers;
    registry.statistics.cached_bytes -= static_cast<int64_t>(buffer.size);
    std::free(reinterpret_cast<void*>(place->first));
    place = registry.buffers.erase(place);
  }
}

PinnedStatistics pinned_statistics() {
  Registry& registry = Registry::shared();
  std::lock_guard lock(registry.mutex);
  return registry.statistics;
}

}  // namespace spyre::runtime
