#include "card/decoded_tiles.h"

#include <algorithm>
#include <new>

#include "base/rounding.h"

namespace spyre::card {

DecodedTiles& DecodedTiles::mine() {
  static thread_local DecodedTiles tiles;
  return tiles;
}

size_t DecodedTiles::Hash::operator()(const Key& key) const {
  uint64_t h = 0;
  const auto mix = [&](int64_t x) { h = (h ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15ull, h ^= h >> 29; };
  mix(key.formal), mix(key.rows), mix(key.cols), mix(key.first_row), mix(key.first_column);
  for (int d = 0; d < key.box.rank; ++d) mix(key.box.dims[d].base), mix(key.box.dims[d].extent);
  return h;
}

void DecodedTiles::Area::forget_all() {
  begins.clear();
  order.clear();
  used = 0;
}

void DecodedTiles::Area::forget_oldest() {
  begins.erase(order.front().second);
  order.pop_front();
}

/// Where a tile may be put; those that lay there are gone.
int64_t DecodedTiles::Area::take(int64_t size) {
  if (size > bytes) {
    forget_all();
    data.reset();
    bytes = 0;
    const int64_t wanted = std::max(size, kept_bytes);
    data = huge_memory(wanted);
    if (!data) throw std::bad_alloc();
    bytes = wanted;
  }
  if (bytes - used < size) {  // from the front again: what lies behind goes too
    while (!order.empty() && order.front().first >= used) forget_oldest();
    used = 0;
  }
  // Behind `used` lie tiles of the round before; those of this round, before it, are younger.
  while (!order.empty() && order.front().first >= used && order.front().first < used + size) forget_oldest();
  used += size;
  return used - size;
}

const float* DecodedTiles::get(uint64_t call, Form form, const Key& key, int64_t elements,
                               base::FunctionRef<void(float*)> build) {
  if (call != call_) {
    for (Area& a : areas_) a.forget_all();
    call_ = call;
  }
  Area& area = areas_[form];
  const auto floats = [&](int64_t begin) { return reinterpret_cast<float*>(area.data.get() + begin); };
  // Often the one before: what all trips of the innermost loop share.
  if (!area.order.empty() && area.order.back().second == key) return floats(area.order.back().first);
  if (const auto found = area.begins.find(key); found != area.begins.end()) return floats(found->second);
  const int64_t begin = area.take(base::round_up(std::max<int64_t>(elements, 1) * int64_t{sizeof(float)}, 128));
  build(floats(begin));
  area.order.emplace_back(begin, key);
  area.begins.emplace(key, begin);
  return floats(begin);
}

}  // namespace spyre::card
