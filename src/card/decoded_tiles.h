// DecodedTiles: operands of products that a thread has decoded for the kernel call it is in, and will want again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>

#include "base/function_ref.h"
#include "card/huge_page.h"
#include "card/lazy_tile.h"

namespace spyre::card {

/// Each thread decodes for itself into memory of its own: what a thread wrote last is in its own cache, where decoding
/// again costs less than fetching what another thread has decoded (host_kernels.md).
class DecodedTiles {
 public:
  /// Form of a decoded tile: A's rows or B's panels. Tiles of one form never push out those of the other, so that both
  /// operands of a product stay.
  enum Form : uint8_t { rows, panels, forms };

  /// What a decoded tile is made of.
  struct Key {
    program::Id formal = program::none;
    bool transposed = false;
    int64_t rows = 0, cols = 0;
    int64_t first_row = 0, first_column = 0;  ///< of the box
    MemBox box;
    bool operator==(const Key&) const = default;
  };

  /// The calling thread's.
  static DecodedTiles& mine();

  /// The tile of `key` in kernel call `call` (KernelRun::call): `elements` floats, 128-byte aligned, made by
  /// build(floats) when they are not kept from before. Valid until the next call for the same form. The oldest tiles
  /// go when there are more than `kept_bytes`. Throws what build throws.
  const float* get(uint64_t call, Form form, const Key& key, int64_t elements, base::FunctionRef<void(float*)> build);

  /// Of each form: what a DL16 tile that fills a scratchpad of 2 MB decodes to. 0.5 to 4 MB were equally fast (with 1
  /// MB of second-level cache a thread).
  static constexpr int64_t kept_bytes = int64_t{4} << 20;

 private:
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  /// Memory that is filled from the front, again and again.
  struct Area {
    HugeMemory data;
    int64_t bytes = 0, used = 0;
    std::unordered_map<Key, int64_t, Hash> begins;  ///< where each tile begins
    std::deque<std::pair<int64_t, Key>> order;      ///< the same, the oldest first
    void forget_all();
    void forget_oldest();
    int64_t take(int64_t size);
  };
  Area areas_[forms];
  uint64_t call_ = 0;
};

}  // namespace spyre::card
