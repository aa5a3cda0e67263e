#include "card/lx.h"

#include <sys/mman.h>

#include <mutex>

#include "base/error.h"
#include "card/huge_page.h"

namespace spyre::card {

namespace {

std::byte* map_bytes(int64_t bytes) {
  void* p = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail(Fault::system, "cannot get {} bytes of host memory for the scratchpads of cores", bytes);
#ifdef MADV_HUGEPAGE
  madvise(p, static_cast<size_t>(bytes), MADV_HUGEPAGE);
#endif
  return static_cast<std::byte*>(p);
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

}  // namespace

LxImages::LxImages(int count, int64_t bytes) : count_(count), stride_((bytes + 4095) / 4096 * 4096) {
  const int64_t total = stride_ * count_;
  {
    std::lock_guard lock(mutex);
    auto& list = kept();
    for (auto it = list.begin(); it != list.end(); ++it)
      if (it->bytes == total) {
        data_ = it->data;
        list.erase(it);
        return;
      }
  }
  data_ = map_bytes(total);
}

LxImages::~LxImages() {
  const int64_t total = stride_ * count_;
  {
    std::lock_guard lock(mutex);
    if (kept().size() < most_kept) {
      kept().push_back({data_, total});
      return;
    }
  }
  munmap(data_, static_cast<size_t>(total));
}

std::byte* LxImages::mine(int64_t bytes) {
  struct Own {
    std::byte* data = nullptr;
    int64_t bytes = 0, slack = 0;
    ~Own() {
      if (data) munmap(data, static_cast<size_t>(bytes + slack));
    }
  };
  static thread_local Own own;
  if (own.bytes < bytes) {
    if (own.data) munmap(own.data, static_cast<size_t>(own.bytes + own.slack));
    own.data = nullptr;
    own.slack = huge_page;
    own.bytes = 0;
    own.data = map_bytes(bytes + own.slack);
    own.bytes = bytes;
  }
  // On a huge page's boundary, so that one translation covers the image.
  auto at = reinterpret_cast<uintptr_t>(own.data);
  at = (at + huge_page - 1) / huge_page * huge_page;
  return reinterpret_cast<std::byte*>(at);
}

}  // namespace spyre::card
