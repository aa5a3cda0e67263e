// st: LX to memory.
#include <cstring>

#include "base/error.h"
#include "card/checker.h"
#include "card/mem_access.h"
#include "card/tile_in_memory.h"

namespace spyre::card {

namespace {

template <typename T>
void copy_box(const SymbolMap& map, const MemBox& box, std::byte* memory, const std::byte* tile) {
  const int64_t step = box.rank ? box.dims[box.rank - 1].stride : 1;
  const T* from = reinterpret_cast<const T*>(tile);
  T* to = reinterpret_cast<T*>(memory);
  const int64_t pad = map.pad_after_last();
  map.walk(box, [&](int64_t at, int64_t device, int64_t n, bool last) {
    if (step == 1 || n == 1) {
      if (n * static_cast<int64_t>(sizeof(T)) == base::stick_bytes)
        std::memcpy(to + device, from + at, base::stick_bytes);
      else
        std::memcpy(to + device, from + at, static_cast<size_t>(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) to[device + i] = from[at + i * step];
    }
    // Lanes after the view's last one that no element of the allocation owns.
    if (last && pad > 0) std::memset(to + device + n, 0, static_cast<size_t>(pad) * sizeof(T));
  });
}

class StoreExec final : public StepExec {
 public:
  StoreExec(const program::Store& op, const StepContext& context)
      : from_(op.from, context.buffers, context.vars), access_(op.to, op.from, context), where_(op.where_entry) {
    if (where_ == program::none) return;
    if (where_ >= access_.map().rank() || access_.entry_indexed(where_) || access_.tile_dim(where_) < 0)
      fail(Fault::program, "`where` of a store to {} must name an entry that is a range", access_.map().symbol().name);
    where_index_ = Operand(op.where_index, context.buffers, context.vars);
    if (where_index_.info().format != Format::i32)
      fail(Fault::program, "index buffer {} of a store holds {}, not i32", where_index_.info().source->name,
           base::format_name(where_index_.info().format));
    lo_ = Expr(op.where_lo, context.vars);
    hi_ = Expr(op.where_hi, context.vars);
  }

  bool destination(Core& core, host::MutableTile& tile) const override {
    bool even = false;
    const View from = from_.shape(core);
    access_.boxes(core, from, [&](const MemBox& box, int64_t, bool) {
      even = store_in_memory(access_.map(), core.run->symbol_base[access_.formal()], box, from, tile);
    });
    return even;
  }

  void run(Core& core) const override {
    if (core.forwarded) {
      core.forwarded = false;
      return;
    }
    const View from = from_.view(core);
    if (where_ == program::none) {
      access_.boxes(core, from, [&](const MemBox& box, int64_t offset, bool) { store(core, from, box, offset); });
      return;
    }
    const View ix = where_index_.view(core);
    if (core.run->checker) core.run->checker->read(core, ix);
    const int64_t lo = lo_(core.v()), hi = hi_(core.v()), width = ix.last_size(), n = ix.numel();
    access_.boxes(core, from, [&](const MemBox& box, int64_t offset, bool) {
      const auto& m = box.dims[where_];
      const int64_t rows = std::min(m.extent, n);
      for (int64_t p = 0; p < rows; ++p) {
        const int32_t value = reinterpret_cast<const int32_t*>(ix.row(p / width))[p % width * ix.stride[ix.rank - 1]];
        if (value < lo || value >= hi) continue;
        MemBox one = box;
        one.dims[where_].base = m.base + p * m.step;
        one.dims[where_].extent = 1;
        store(core, from, one, offset + p * m.stride);
      }
    });
  }

 private:
  void store(Core& core, const View& from, const MemBox& box, int64_t offset) const {
    const SymbolMap& map = access_.map();
    if (core.run->checker) {
      core.run->checker->read_box(core, from, map, box, offset);
      core.run->checker->store(core, map, access_.formal(), box);
    }
    std::byte* memory = core.run->symbol_base[access_.formal()];
    const std::byte* tile = from.data + offset * map.element_bytes();
    switch (map.element_bytes()) {
      case 1:
        copy_box<uint8_t>(map, box, memory, tile);
        break;
      case 2:
        copy_box<uint16_t>(map, box, memory, tile);
        break;
      default:
        copy_box<uint32_t>(map, box, memory, tile);
        break;
    }
  }

  Operand from_;
  MemAccess access_;
  Id where_;
  Operand where_index_;
  Expr lo_, hi_;
};

}  // namespace

std::unique_ptr<StepExec> make_store(const program::Store& op, const StepContext& context) {
  return std::make_unique<StoreExec>(op, context);
}

}  // namespace spyre::card
