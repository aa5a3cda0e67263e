// Device memory of one soft card: an address space of segments whose host pages are committed only when written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/description.h"

namespace spyre::card {

class Memory {
 public:
  /// Reserves the address space (no pages). Throws Error(system) when the host refuses.
  explicit Memory(const device::Description& description);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int64_t size() const { return size_; }  ///< bytes of the whole address space
  /// Host view of device bytes [address, address + bytes). Throws Error(program) outside the address space.
  std::byte* at(uint64_t address, int64_t bytes) const;
  /// Gives pages back to the host; the bytes read as zero afterwards.
  void discard(uint64_t address, int64_t bytes);

 private:
  std::byte* base_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace spyre::card
