// MemAccess: the memory side of ld and st, ready to give boxes under a core's variables.
#pragma once

#include "card/core.h"
#include "card/symbol_map.h"

namespace spyre::card {

class MemAccess {
 public:
  /// Throws Error(program) when entries, view and buffer do not fit.
  MemAccess(const program::MemRef& ref, const program::BufRef& tile, const StepContext& context);

  Id formal() const { return formal_; }
  const SymbolMap& map() const { return *map_; }
  bool indexed() const { return indexed_; }
  bool entry_indexed(int d) const { return entries_[d].indexed; }
  /// True when an index of entry d outside its bounds leaves its position alone.
  bool skips(int d) const { return entries_[d].indexed && entries_[d].outside == program::OnOutside::skip; }

  /// One position after the other of the indexed entries, innermost last: calls fn(box, tile offset in elements,
  /// outside) with plain boxes; outside: an index was out of bounds and the step says fill. Positions to skip are not
  /// called. Without indexed entries there is one call. Throws Error(user) where an index out of bounds traps.
  template <typename Fn>
  void boxes(Core& core, const View& tile, Fn&& fn) const {
    MemBox box;
    box.rank = static_cast<int>(entries_.size());
    for (int d = 0; d < box.rank; ++d) {
      const Entry& e = entries_[d];
      auto& m = box.dims[d];
      m.stride = e.tile_dim < 0 ? 0 : tile.stride[e.tile_dim];
      if (e.indexed) {
        m.base = 0, m.step = 1, m.extent = 1;
        continue;
      }
      m.base = e.base(core.v());
      m.step = e.step;
      m.extent = e.extent(core.v());
      if (e.tile_dim >= 0) check_fits(m.extent, tile, e.tile_dim);
    }
    if (!indexed_)
      fn(box, int64_t{0}, false);
    else
      expand(core, tile, box, 0, 0, false, fn);
  }

  /// View dimension -> tile dimension, -1 for a dropped point.
  int tile_dim(int d) const { return entries_[d].tile_dim; }
  /// Number of positions of the tile that entry d makes.
  int64_t positions(const Core& core, int d) const {
    return entries_[d].indexed ? entries_[d].index.shape(core).numel() : entries_[d].extent(core.v());
  }

 private:
  struct Entry {
    bool indexed = false;
    int tile_dim = -1;
    Expr base, extent;
    int64_t step = 1;
    Operand index;
    Expr lo, hi;
    program::OnOutside outside = program::OnOutside::trap;
  };
  void check_fits(int64_t extent, const View& tile, int dim) const;
  [[noreturn]] void trap(int d, int64_t position, int64_t value, int64_t lo, int64_t hi) const;
  template <typename Fn>
  void expand(Core& core, const View& tile, MemBox& box, int d, int64_t offset, bool outside, Fn& fn) const {
    while (d < box.rank && !entries_[d].indexed) ++d;
    if (d == box.rank) {
      fn(box, offset, outside);
      return;
    }
    const Entry& e = entries_[d];
    const View ix = index_view(core, e.index);
    const int64_t lo = e.lo(core.v()), hi = e.hi(core.v()), stride = box.dims[d].stride;
    const int64_t n = ix.numel(), width = ix.last_size();
    if (e.tile_dim >= 0) check_fits(n, tile, e.tile_dim);
    for (int64_t p = 0; p < n; ++p) {
      const int64_t value = reinterpret_cast<const int32_t*>(ix.row(p / width))[p % width * ix.stride[ix.rank - 1]];
      const bool out = value < lo || value >= hi;
      if (out && e.outside == program::OnOutside::trap) trap(d, p, value, lo, hi);
      if (out && e.outside == program::OnOutside::skip) continue;
      box.dims[d].base = out ? 0 : value;
      expand(core, tile, box, d + 1, offset + p * stride, outside || out, fn);
    }
  }
  static View index_view(Core& core, const Operand& index);

  Id formal_ = program::none;
  const SymbolMap* map_ = nullptr;
  std::vector<Entry> entries_;
  bool indexed_ = false;
};

}  // namespace spyre::card
