#include "card/huge_page.h"

#include <sys/mman.h>

#include "base/rounding.h"

namespace spyre::card {

namespace {
constexpr int64_t huge_page = int64_t{2} << 20;  // bytes; of x86-64, and no harm elsewhere
}  // namespace

HugeMemory huge_memory(int64_t bytes) {
  const auto whole = static_cast<size_t>(base::round_up(bytes, huge_page));
  HugeMemory memory(static_cast<std::byte*>(std::aligned_alloc(huge_page, whole)));
#ifdef MADV_HUGEPAGE
  if (memory) madvise(memory.get(), whole, MADV_HUGEPAGE);
#endif
  return memory;
}

}  // namespace spyre::card
