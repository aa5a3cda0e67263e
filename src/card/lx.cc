#include "card/lx.h"

#include <sys/mman.h>

#include <mutex>

#include "base/error.h"
#include "base/rounding.h"
#include "card/huge_page.h"

namespace spyre::card {

namespace {

/// Memory at the boundary of a huge page, so that one translation covers much of it. `bytes`: whole huge pages.
std::byte* map_huge(int64_t bytes) {
  const int64_t all = bytes + huge_page;
  void* p = mmap(nullptr, static_cast<size_t>(all), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  if (p == MAP_FAILED) fail(Fault::system, "cannot get {} bytes of host memory for the scratchpads of cores", bytes);
  auto* const begin = static_cast<std::byte*>(p);
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const auto before = static_cast<int64_t>(-address & static_cast<uintptr_t>(huge_page - 1));
  if (before > 0) munmap(begin, static_cast<size_t>(before));
  if (before < huge_page) munmap(begin + before + bytes, static_cast<size_t>(huge_page - before));
#ifdef MADV_HUGEPAGE
  madvise(begin + before, static_cast<size_t>(bytes), MADV_HUGEPAGE);
#endif
  return begin + before;
}

struct Kept {
  std::byte* data;
  int64_t bytes;
};
std::mutex mutex;
std::vector<Kept>& kept() {
  static auto* list = new std::vector<Kept>;
  return *list;
}
constexpr size_t most_kept = 2;

/// Between the images of two cores: about as large as a second-level cache, they would otherwise have the same buffer
/// in the same sets of it.
constexpr int64_t stagger = int64_t{13} * 4096;

}  // namespace

LxImages::LxImages(int count, int64_t bytes)
    : stride_(base::round_up(bytes, 4096) + stagger), bytes_(base::round_up(stride_ * count, huge_page)) {
  {
    std::lock_guard lock(mutex);
    auto& list = kept();
    for (auto it = list.begin(); it != list.end(); ++it)
      if (it->bytes == bytes_) {
        data_ = it->data;
        list.erase(it);
        return;
      }
  }
  data_ = map_huge(bytes_);
}

LxImages::~LxImages() {
  {
    std::lock_guard lock(mutex);
    if (kept().size() < most_kept) {
      kept().push_back({data_, bytes_});
      return;
    }
  }
  munmap(data_, static_cast<size_t>(bytes_));
}

std::byte* LxImages::mine(int64_t bytes) {
  struct Own {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    void free() {
      if (data) munmap(data, static_cast<size_t>(bytes));
      data = nullptr;
      bytes = 0;
    }
    ~Own() { free(); }
  };
  static thread_local Own own;
  if (own.bytes < bytes) {
    own.free();
    const int64_t whole = base::round_up(bytes, huge_page);
    own.data = map_huge(whole);
    own.bytes = whole;
  }
  return own.data;
}

}  // namespace spyre::card
