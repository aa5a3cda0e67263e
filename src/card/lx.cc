#include "card/lx.h"

#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"

namespace spyre::card {

namespace {

HugeMemory memory_of(int64_t bytes) {
  HugeMemory memory = huge_memory(bytes);
  if (!memory) fail(Fault::system, "cannot get {} bytes of host memory for the scratchpads of cores", bytes);
  return memory;
}

struct Kept {
  HugeMemory memory;
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

LxImages::LxImages(int count, int64_t bytes) : stride_(base::round_up(bytes, 4096) + stagger), bytes_(stride_ * count) {
  {
    std::lock_guard lock(mutex);
    auto& list = kept();
    for (auto it = list.begin(); it != list.end(); ++it)
      if (it->bytes == bytes_) {
        memory_ = std::move(it->memory);
        list.erase(it);
        return;
      }
  }
  memory_ = memory_of(bytes_);
}

LxImages::~LxImages() {
  std::lock_guard lock(mutex);
  if (kept().size() < most_kept) kept().push_back({std::move(memory_), bytes_});
}

std::byte* LxImages::mine(int64_t bytes) {
  static thread_local Kept own{nullptr, 0};
  if (own.bytes < bytes) {
    own = {nullptr, 0};  // before more is asked for
    own = {memory_of(bytes), bytes};
  }
  return own.memory.get();
}

}  // namespace spyre::card
