#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "base/formats.h"
#include "runtime/launch.h"
#include "runtime/space.h"

namespace spyre::runtime {

struct ProgramMemory::Impl {
  Impl(uint64_t first, int64_t bytes) : total(bytes), space(first, bytes) {}
  const int64_t total;
  std::mutex mutex;  // all below
  Space space;
  std::unordered_map<uint64_t, int64_t> taken;
  int64_t used = 0;
};

ProgramMemory::ProgramMemory(const device::Description& description) {
  const int64_t first = (description.segments - 1) * description.segment_bytes;
  impl_ = std::make_unique<Impl>(static_cast<uint64_t>(first), description.address_space_bytes - first);
}

ProgramMemory::~ProgramMemory() = default;

uint64_t ProgramMemory::take(int64_t bytes) {
  constexpr int64_t stick = base::stick_bytes;
  const int64_t size = std::max(stick, (bytes + stick - 1) / stick * stick);
  std::lock_guard lock(impl_->mutex);
  uint64_t address = 0;
  if (!impl_->space.take(size, address))
    fail(Fault::out_of_memory,
         "no room for {} bytes in the segment of programs and correction tables: {} of {} bytes are in use. Drop "
         "compiled "
         "programs (torch.compiler.reset()) or synchronise to finish queued launches",
         bytes, impl_->used, impl_->total);
  impl_->taken[address] = size;
  impl_->used += size;
  return address;
}

void ProgramMemory::give(uint64_t address) noexcept {
  std::lock_guard lock(impl_->mutex);
  const auto place = impl_->taken.find(address);
  if (place == impl_->taken.end()) return;
  impl_->space.give(address, place->second);
  impl_->used -= place->second;
  impl_->taken.erase(place);
}

int64_t ProgramMemory::used_bytes() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->used;
}

int64_t ProgramMemory::total_bytes() const { return impl_->total; }

}  // namespace spyre::runtime
