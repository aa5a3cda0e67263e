#include "card/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace spyre::card {

Memory::Memory(const device::Description& description) : size_(description.address_space_bytes) {
  void* p = mmap(nullptr, static_cast<size_t>(size_), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    fail(Fault::system,
         "cannot reserve {} bytes of address space for device memory: {}. Raise the limit on address space (ulimit -v) "
         "or "
         "allow overcommit (vm.overcommit_memory 0 or 1)",
         size_, std::strerror(errno));
  base_ = static_cast<std::byte*>(p);
#ifdef MADV_HUGEPAGE
  // Streaming reads of weights gain a third from huge pages; a refusal changes nothing but speed.
  madvise(p, static_cast<size_t>(size_), MADV_HUGEPAGE);
#endif
}

Memory::~Memory() {
  if (base_) munmap(base_, static_cast<size_t>(size_));
}

std::byte* Memory::at(uint64_t address, int64_t bytes) const {
  const uint64_t size = static_cast<uint64_t>(size_);
  if (bytes < 0 || address > size || static_cast<uint64_t>(bytes) > size - address)
    fail(Fault::program, "device address range [{:#x}, +{}) is outside the address space of {:#x} bytes", address,
         bytes, size);
  return base_ + address;
}

void Memory::discard(uint64_t address, int64_t bytes) {
  std::byte* begin = at(address, bytes);
  std::byte* end = begin + bytes;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* first = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page);
  auto* last = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(end) / page * page);
  if (first >= last) {
    std::memset(begin, 0, static_cast<size_t>(bytes));
    return;
  }
  std::memset(begin, 0, static_cast<size_t>(first - begin));
  std::memset(last, 0, static_cast<size_t>(end - last));
  if (madvise(first, static_cast<size_t>(last - first), MADV_DONTNEED) != 0)
    std::memset(first, 0, static_cast<size_t>(last - first));
}

}  // namespace spyre::card
