#include "runtime/logical_range.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "runtime/memory.h"

namespace spyre::runtime {
namespace {

constexpr uint64_t granule = 512;
constexpr uint64_t usual_reservation = uint64_t{1} << 40;

// Sizes of class c: (4 + c mod 4) << (c div 4), in granules, from 4 on; 1 to 3 granules are rounded up to 4.
struct SizeClass {
  size_t index;
  uint64_t bytes;
};
SizeClass size_class(uint64_t bytes) {
  const uint64_t granules = std::max<uint64_t>(4, (bytes + granule - 1) / granule);
  int shift = std::bit_width(granules) - 3;
  uint64_t head = (granules + (uint64_t{1} << shift) - 1) >> shift;
  if (head == 8) head = 4, ++shift;
  return {static_cast<size_t>(shift) * 4 + head - 4, (head << shift) * granule};
}

}  // namespace

LogicalRange& LogicalRange::shared() {
  static LogicalRange* const made = new LogicalRange;
  return *made;
}

void LogicalRange::reserve(uint64_t bytes) {
  uint64_t size = std::max(usual_reservation, bytes);
  void* p = MAP_FAILED;
  while (true) {
    p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) break;
    if (size / 2 < bytes)
      fail(Fault::system, "cannot reserve {} bytes of address space for device pointers: {}. Raise ulimit -v", bytes,
           std::strerror(errno));
    size /= 2;
  }
  next_ = reinterpret_cast<uintptr_t>(p);
  end_ = next_ + size;
}

uint64_t LogicalRange::take(int64_t bytes, Allocation* allocation) {
  const SizeClass wanted = size_class(static_cast<uint64_t>(bytes) + 1);
  std::lock_guard lock(mutex_);
  if (free_.size() <= wanted.index) free_.resize(wanted.index + 1);
  auto& list = free_[wanted.index];
  uint64_t address = 0;
  if (!list.empty()) {
    address = list.back();
    list.pop_back();
  } else {
    if (end_ - next_ < wanted.bytes) reserve(wanted.bytes);
    address = next_;
    next_ += wanted.bytes;
  }
  ranges_[address] = {wanted.bytes, wanted.index, allocation};
  return address;
}

void LogicalRange::give(uint64_t address) noexcept {
  std::lock_guard lock(mutex_);
  const auto place = ranges_.find(address);
  if (place == ranges_.end()) return;
  free_[place->second.size_class].push_back(address);
  ranges_.erase(place);
}

std::shared_ptr<Allocation> LogicalRange::find(uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto place = ranges_.upper_bound(address);
  if (place == ranges_.begin()) return nullptr;
  --place;
  const Allocation* const allocation = place->second.allocation;
  if (address - place->first > static_cast<uint64_t>(allocation->logical_bytes())) return nullptr;
  return place->second.allocation->weak_from_this().lock();
}

}  // namespace spyre::runtime
