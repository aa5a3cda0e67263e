#include "card/core.h"

#include <new>

namespace spyre::card {

void* Scratch::bytes(int slot, int64_t count) {
  Block& b = blocks_[slot];
  if (b.bytes < count || !b.data) {
    std::free(b.data);
    b.bytes = (count + count / 4 + 4095) / 4096 * 4096;
    if (b.bytes == 0) b.bytes = 4096;
    b.data = std::aligned_alloc(128, static_cast<size_t>(b.bytes));
    if (!b.data) {
      b.bytes = 0;
      throw std::bad_alloc();
    }
  }
  return b.data;
}

Scratch& Scratch::mine() {
  static thread_local Scratch scratch;
  return scratch;
}

}  // namespace spyre::card
