#include "card/mem_access.h"

#include "base/error.h"
#include "card/checker.h"
#include "program/conventions.h"

namespace spyre::card {

MemAccess::MemAccess(const program::MemRef& ref, const program::BufRef& tile, const StepContext& context)
    : formal_(ref.symbol) {
  if (formal_ < 0 || formal_ >= static_cast<Id>(context.symbols.size()))
    fail(Fault::program, "an access names formal {} of {}", formal_, context.symbols.size());
  map_ = context.symbols[formal_].get();
  const auto& symbol = map_->symbol();
  const BufferInfo& buffer = context.buffers.at(tile.buffer);
  if (symbol.format != buffer.format)
    fail(Fault::program, "{} holds {} and buffer {} holds {}: loads and stores do not convert", symbol.name,
         base::format_name(symbol.format), buffer.source->name, base::format_name(buffer.format));
  const int n = static_cast<int>(ref.entries.size());
  if (n != map_->rank())
    fail(Fault::program, "access to {} has {} entries for {} dimensions", symbol.name, n, map_->rank());
  for (const auto& e : ref.entries) {
    Entry entry;
    entry.indexed = e.kind == program::Entry::Kind::indexed;
    if (entry.indexed) {
      indexed_ = true;
      entry.index = Operand(e.index, context.buffers, context.vars);
      if (entry.index.info().format != Format::i32)
        fail(Fault::program, "index buffer {} of an access to {} holds {}, not i32", entry.index.info().source->name,
             symbol.name, base::format_name(entry.index.info().format));
      entry.lo = Expr(e.lo, context.vars);
      entry.hi = Expr(e.hi, context.vars);
      entry.outside = e.outside;
    } else {
      entry.base = Expr(e.base, context.vars);
      entry.extent = Expr(e.extent, context.vars);
      entry.step = e.step;
    }
    entries_.push_back(std::move(entry));
  }
  const std::vector<int> dims = program::tile_dimensions(ref, tile, context.kernel);
  for (int d = 0; d < n; ++d) entries_[d].tile_dim = dims[d];
}

void MemAccess::check_fits(int64_t extent, const View& tile, int dim) const {
  if (extent > tile.size[dim])
    fail(Fault::program, "an access to {} makes {} positions along dimension {} of a tile that has {}",
         map_->symbol().name, extent, dim, tile.size[dim]);
}

void MemAccess::trap(int d, int64_t position, int64_t value, int64_t lo, int64_t hi) const {
  fail(Fault::user, "index {} at position {} is out of range [{}, {}) for dimension {} of {}", value, position, lo, hi,
       d, map_->symbol().name);
}

View MemAccess::index_view(Core& core, const Operand& index) {
  const View v = index.view(core);
  if (core.run->checker) core.run->checker->read(core, v);
  return v;
}

}  // namespace spyre::card
