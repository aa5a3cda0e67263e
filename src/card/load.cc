// ld: memory to LX.
#include <cstring>
#include <limits>

#include "base/error.h"
#include "card/checker.h"
#include "card/decoded_tiles.h"
#include "card/elements.h"
#include "card/mem_access.h"
#include "card/touches.h"
#include "layout/view.h"
#include "program/conventions.h"

namespace spyre::card {

namespace {

template <typename T>
void copy_box(const SymbolMap& map, const MemBox& box, const std::byte* memory, std::byte* tile) {
  const int64_t step = box.rank ? box.dims[box.rank - 1].stride : 1;
  T* to = reinterpret_cast<T*>(tile);
  const T* from = reinterpret_cast<const T*>(memory);
  map.walk(box, [&](int64_t at, int64_t device, int64_t n, bool) {
    if (step == 1 || n == 1) {
      if (n * static_cast<int64_t>(sizeof(T)) == base::stick_bytes)
        std::memcpy(to + at, from + device, base::stick_bytes);
      else
        std::memcpy(to + at, from + device, static_cast<size_t>(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) to[at + i * step] = from[device + i];
    }
  });
}

/// Fills the positions of the tile that no index inside the view makes, and rows up to `row_end`.
void fill_rest(const SymbolMap& map, const MemBox& box, const View& to, int64_t row_end, uint32_t fill, bool outside) {
  // Positions that are made, per tile dimension; entries keep their order, and those that are no tile dimension have
  // stride 0.
  std::array<std::pair<int64_t, int64_t>, max_rank> made;
  int t = to.rank;
  for (int d = box.rank - 1; d >= 0; --d)
    if (box.dims[d].stride != 0)
      made[--t] = map.inside(box, d);
    else if (const auto [p0, p1] = map.inside(box, d); p0 >= p1)
      outside = true;
  while (t > 0) made[--t] = {0, 1};
  const int64_t rows = to.rows(), bytes = base::format_bytes(to.format);
  const auto [first, last] = made[to.rank - 1];
  for (int64_t r = 0; r < rows; ++r) {
    bool inside = !outside;
    int64_t rest = r;
    for (int d = to.rank - 2; d >= 0 && inside; --d) {
      const int64_t p = rest % to.size[d];
      rest /= to.size[d];
      inside = p >= made[d].first && p < made[d].second;
    }
    std::byte* row = to.row(r);
    if (!inside || first >= last) {
      fill_elements(row, row_end, fill, to.format);
      continue;
    }
    fill_elements(row, first, fill, to.format);
    fill_elements(row + last * bytes, row_end - last, fill, to.format);
  }
}

/// Fills what a load must fill and copies the rest. `to` is the destination box; rows are filled up to `row_end`
/// elements.
void load_box(const SymbolMap& map, const MemBox& box, const std::byte* memory, const View& to, int64_t row_end,
              uint32_t fill, bool outside) {
  bool full = !outside && row_end == to.last_size();
  for (int d = 0; d < box.rank && full; ++d) {
    const auto [p0, p1] = map.inside(box, d);
    full = p0 == 0 && p1 == box.dims[d].extent;
  }
  if (full) {
    // Positions that no entry makes (a clipped trip in a whole buffer) are to be filled too.
    int64_t made = 1;
    for (int d = 0; d < box.rank; ++d)
      if (box.dims[d].stride != 0 || box.dims[d].extent == 0) made *= box.dims[d].extent;  // 0: a point of no index
    full = made == to.numel();
  }
  if (!full) fill_rest(map, box, to, row_end, fill, outside);
  if (outside) return;
  switch (map.element_bytes()) {
    case 1:
      copy_box<uint8_t>(map, box, memory, to.data);
      break;
    case 2:
      copy_box<uint16_t>(map, box, memory, to.data);
      break;
    default:
      copy_box<uint32_t>(map, box, memory, to.data);
      break;
  }
}

class LoadExec final : public StepExec {
 public:
  LoadExec(const program::Load& op, const StepContext& context)
      : to_(op.to, context.buffers, context.vars),
        access_(op.from, op.to, context),
        fill_(encode_element(op.fill, to_.info().format)) {
    if (op.to.transposed) fail(Fault::program, "a load into a transposed buffer");
    for (const auto& nest : context.kernel.nests)
      for_each_step(nest.body, [&](const program::Step& step) {
        const auto* store = std::get_if<program::Store>(&step.op);
        stored_ = stored_ || (store && store->to.symbol == op.from.symbol);
      });
    reused_ = reused(op.from, to_.info(), context);
  }

  void run(Core& core) const override {
    KernelRun& run = *core.run;
    if (run.lazy_loads) {
      if (to_.whole() && !access_.indexed() && !stored_) {
        LazyTile& lazy = core.lazy[to_.buffer()];
        lazy.to = to_.shape(core);
        bool same = lazy.map == &access_.map();
        access_.boxes(core, lazy.to, [&](const MemBox& box, int64_t, bool) {
          same = same && lazy.box == box;
          if (!same) lazy.box = box;
        });
        lazy.pending = true;
        lazy.reused = reused_;
        lazy.fill = fill_;
        // The tile that the buffer held last may be this one: nothing in the kernel changes it.
        if (same) return;
        lazy.decoded = false;
        lazy.even = LazyTile::Even::unknown;
        lazy.map = &access_.map();
        lazy.memory = run.symbol_base[access_.formal()];
        lazy.formal = access_.formal();
        return;
      }
      if (to_.whole() && !access_.indexed()) core.lazy[to_.buffer()].pending = false;
    }
    const View to = to_.view(core);
    const int64_t row_end = filled_row(core, to);
    const std::byte* memory = run.symbol_base[access_.formal()];
    const SymbolMap& map = access_.map();
    if (!access_.indexed()) {
      access_.boxes(core, to, [&](const MemBox& box, int64_t, bool) {
        if (run.checker) run.checker->load(core, map, access_.formal(), box);
        load_box(map, box, memory, to, row_end, fill_, false);
        if (run.checker) run.checker->write(core, to, row_end);
      });
      return;
    }
    // Indexed: one sub-tile a position. Rows that are skipped or that no position reaches get the fill value: a load
    // defines its whole box, whatever the indices are.
    bool all = true;
    for (int d = 0; d < map.rank(); ++d)
      if (access_.tile_dim(d) < 0 || !access_.entry_indexed(d))
        all = all && !access_.skips(d);
      else
        all = all && !access_.skips(d) && access_.positions(core, d) == to.size[access_.tile_dim(d)];
    if (!all && to.numel() > 0) {
      for (int64_t r = 0; r < to.rows(); ++r) fill_elements(to.row(r), row_end, fill_, to.format);
      if (run.checker) run.checker->write(core, to, row_end);
    }
    access_.boxes(core, to, [&](const MemBox& box, int64_t offset, bool outside) {
      View part = to;
      part.data += offset * map.element_bytes();
      for (int d = 0; d < map.rank(); ++d)
        if (access_.tile_dim(d) >= 0 && access_.entry_indexed(d)) part.size[access_.tile_dim(d)] = 1;
      const bool whole_row = part.last_size() == to.last_size();
      if (run.checker && !outside) run.checker->load(core, map, access_.formal(), box);
      load_box(map, box, memory, part, whole_row ? row_end : part.last_size(), fill_, outside);
      if (run.checker) run.checker->write(core, part, whole_row ? row_end : part.last_size());
    });
  }

 private:
  /// Adds the loops and grid dimensions that an expression's value depends on.
  static void depends(const program::IntExpr& e, const program::Kernel& kernel, std::vector<bool>& ranges,
                      std::vector<bool>& grid) {
    using Op = program::IntExpr::Op;
    if (e.op == Op::coordinate) grid[e.id] = true;
    if ((e.op == Op::start || e.op == Op::size || e.op == Op::trip) && !ranges[e.id]) {
      ranges[e.id] = true;
      const auto& r = kernel.ranges[e.id];
      if (r.is_core) grid[r.grid] = true;
      depends(r.lo, kernel, ranges, grid);
      depends(r.hi, kernel, ranges, grid);
    }
    for (const auto& a : e.args) depends(a, kernel, ranges, grid);
  }
  /// True when a thread wants the same box again before it has decoded DecodedTiles::kept_bytes of this operand: in the
  /// next trip of a loop that changes nothing in it, or for the next core of its grid dimension.
  static bool reused(const program::MemRef& from, const BufferInfo& to, const StepContext& context) {
    std::vector<bool> ranges(context.kernel.ranges.size()), grid(context.nest.grid.size());
    for (const auto& e : from.entries) {
      if (e.kind == program::Entry::Kind::indexed) return false;
      depends(e.base, context.kernel, ranges, grid);
      depends(e.extent, context.kernel, ranges, grid);
    }
    // Bytes until the next trip or core; they may be more than 64 bits count.
    double decoded = sizeof(float) * static_cast<double>(layout::numel(to.source->shape));
    const auto again = [&](bool changes, double times) {
      if (!changes && times > 1) return true;
      decoded *= times;
      return false;
    };
    constexpr auto most = static_cast<double>(DecodedTiles::kept_bytes);
    for (size_t l = context.loops.size(); l-- > 0;)
      if (again(ranges[context.loops[l]], most_trips(context.loops[l], context.kernel))) return decoded <= most;
    for (Id g : context.grid_order)
      if (again(grid[g], static_cast<double>(context.nest.grid[g].size))) return decoded <= most;
    return false;
  }
  static double most_trips(Id range, const program::Kernel& kernel) {
    const auto& r = kernel.ranges[range];
    const bool constant = r.lo.is_constant() && r.hi.is_constant();
    if (r.parent == program::none && !constant) return std::numeric_limits<double>::infinity();
    const int64_t length = constant ? r.hi.value - r.lo.value : kernel.ranges[r.parent].by;
    return static_cast<double>(program::trips_of(r, kernel, length));
  }
  /// Elements of a row that the load writes: a whole row or a clipped trip is filled up to the whole stick.
  int64_t filled_row(const Core& core, const View& to) const {
    const int last = to.rank - 1;
    if (to_.whole()) return to_.info().row_elements;
    const auto& b = to_.ref().box[last];
    if (b.kind == program::BufDim::Kind::whole) return to_.info().row_elements;
    if (b.range == program::none || to.size[last] == 0) return to.size[last];
    const int64_t per_stick = base::elements_per_stick(to.format);
    const int64_t first =
        (to.data - core.buffers[to_.buffer()]) / base::format_bytes(to.format) % to_.info().row_elements;
    const int64_t end = (first + to.size[last] + per_stick - 1) / per_stick * per_stick;
    const bool clipped = to.size[last] < core.run->kernel->ranges[b.range].by;
    return clipped ? end - first : to.size[last];
  }

  Operand to_;
  MemAccess access_;
  uint32_t fill_;
  bool stored_ = false, reused_ = false;
};

}  // namespace

void materialize(Core& core, Id buffer) {
  LazyTile& lazy = core.lazy[buffer];
  lazy.pending = false;
  const auto& info = lazy.to;
  if (lazy.has_values()) {
    for (int64_t r = 0; r < info.rows(); ++r)
      store_f32(lazy.rows.at(r, 0), info.row(r), info.format, 1, info.last_size());
    return;
  }
  const int64_t per_stick = base::elements_per_stick(info.format);
  const int64_t row_end = (info.last_size() + per_stick - 1) / per_stick * per_stick;
  load_box(*lazy.map, lazy.box, lazy.memory, lazy.to, row_end, lazy.fill, false);
}

std::unique_ptr<StepExec> make_load(const program::Load& op, const StepContext& context) {
  return std::make_unique<LoadExec>(op, context);
}

}  // namespace spyre::card
