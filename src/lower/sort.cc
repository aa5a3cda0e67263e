// Sort: values and indices along one dimension, stable. Whole rows in LX; or, for the first k, parts of a row against
// the k best so far; or blocks of a row, sorted, then merged with their neighbours in as many rounds as there are
// blocks: neighbours only, so that equal values keep their order. plan/sort.cc says what grid and tile mean.
#include <algorithm>

#include "base/error.h"
#include "lower/boxes.h"
#include "lower/operands.h"

namespace spyre::lower {

namespace {

class SortKernels {
 public:
  SortKernels(const Context& context, const plan::KernelPlan& plan)
      : context_(context),
        node_(context.graph.nodes.at(static_cast<size_t>(plan.nodes.at(0)))),
        sort_(std::get<graph::Sort>(node_.kind)),
        from_(placed(context, sort_.from)),
        dim_(static_cast<size_t>(sort_.dim)) {
    if (plan.grid.size() != 1 || plan.tile.size() != 1) {
      fail(Fault::program, "{} ({}): a sort plan has a grid of 1 and a tile number", node_.loc.op, node_.loc.source);
    }
    cores_ = plan.grid[0];
    length_ = from_.view.sizes[dim_];
    kept_ = sort_.k ? plan::number(*sort_.k) : length_;
    part_ = std::min(plan.tile[0], length_);
    for (size_t d = 0; d < from_.view.sizes.size(); ++d) {
      if (d != dim_ && from_.view.sizes[d] != 1) order_.push_back(d), rows_.push_back(from_.view.sizes[d]);
    }
    if (order_.empty()) order_.push_back(no_dimension), rows_.push_back(1);
    order_.push_back(dim_);
    if (order_.size() > 8) {
      fail(Fault::unimplemented, "{} ({}): a sort of {} dimensions other than 1; it may have 8", node_.loc.op,
           node_.loc.source, order_.size());
    }
  }

  std::vector<Emitted> run() {
    std::vector<Emitted> kernels;
    if (kept_ == 0 || (!kept(0) && !kept(1))) return kernels;
    if (part_ == length_) {
      kernels.push_back(whole_rows());
    } else if (kept_ <= part_) {
      kernels.push_back(best());
    } else {
      blocks(kernels);
    }
    return kernels;
  }

 private:
  bool kept(size_t r) const {
    return plan::in_memory(context_.plan.homes.at(static_cast<size_t>(node_.results.at(r))).kind);
  }

  /// Rows one by one, or several when they are short, over all cores.
  Division rows_division(int64_t row_elements) const {
    std::vector<int64_t> sizes = rows_;
    sizes.push_back(row_elements);
    Shares shares{cores_, 1, std::max<int64_t>(context_.description.lx_usable_bytes / 32, row_elements * 4), {}, {}};
    shares.whole.assign(sizes.size(), false);
    shares.whole.back() = true;
    Division division = divide(sizes, Format::i32, shares);
    division.parts.pop_back(), division.share.pop_back(), division.tile.pop_back();
    return division;
  }

  Id source(Writer& w) {
    Placed from = from_;
    from.view = permuted(from_.view, order_);
    return w.formal(context_, from, program::Direction::in);
  }

  std::vector<int64_t> shape(const TileWalk& walk, int64_t lanes) const {
    std::vector<int64_t> all = walk.tile;
    all.push_back(lanes);
    return all;
  }
  /// All rows of a tile, `size` positions from `first` on.
  BufRef lanes(Writer& w, Id buffer, IntExpr first, IntExpr size, Id range = none) const {
    std::vector<BufDim> dims(rows_.size() + 1);
    dims.back() = box(std::move(first), std::move(size));
    dims.back().range = range;
    return w.builder.ref(buffer, std::move(dims));
  }

  void store_results(Writer& w, const TileWalk& walk, Id values, Id indices) {
    for (size_t r = 0; r < 2; ++r) {
      if (!kept(r)) continue;
      Placed to = placed(context_, node_.results[r]);
      to.view = permuted(to.view, order_);
      std::vector<Entry> entries = walk.entries();
      entries.push_back(span_of(constant(0), constant(kept_)));
      w.builder.store(w.formal(context_, to, program::Direction::out), std::move(entries),
                      lanes(w, r == 0 ? values : indices, constant(0), constant(kept_)), true);
    }
  }

  Emitted whole_rows() {
    const Division division = rows_division(length_);
    Writer w(node_.loc.op, division.cores(), node_.loc);
    w.builder.nest(division.grid());
    for_each_tile(w.builder, rows_, division, context_.description.max_trips, [&](const TileWalk& walk) {
      const Id x = w.builder.buffer(from_.format, shape(walk, length_), 1, "x");
      std::vector<Entry> entries = walk.entries();
      entries.push_back(span_of(constant(0), constant(length_)));
      w.builder.load(w.builder.ref(x), source(w), std::move(entries));
      const Id values = w.builder.buffer(from_.format, shape(walk, length_), 1, "v");
      const Id indices = w.builder.buffer(Format::i32, shape(walk, length_), 1, "i");
      program::Sort step;
      step.descending = sort_.descending;
      step.values = w.builder.ref(values);
      step.indices = w.builder.ref(indices);
      step.from = w.builder.ref(x);
      w.builder.step(std::move(step));
      store_results(w, walk, values, indices);
    });
    return w.finish();
  }

  /// The k best of each row, part after part.
  Emitted best() {
    const Division division = rows_division(part_ + kept_);
    Writer w(node_.loc.op, division.cores(), node_.loc);
    w.builder.nest(division.grid());
    for_each_tile(w.builder, rows_, division, context_.description.max_trips, [&](const TileWalk& walk) {
      const Id values = w.builder.buffer(from_.format, shape(walk, kept_), 1, "v");
      const Id indices = w.builder.buffer(Format::i32, shape(walk, kept_), 1, "i");
      const bool real = w.builder.use(w.builder.ref(values)).type == program::Reg::f32;
      w.builder.vector({w.builder.ref(values)}, {real ? number(0) : integer(0)});
      w.builder.vector({w.builder.ref(indices)}, {integer(-1)});  // a place that holds nothing yet
      long_loop(w.builder, Bounds::of(0, length_), length_, part_, context_.description.max_trips, [&](Id t) {
        const Id x = w.builder.buffer(from_.format, shape(walk, part_), 1, "x");
        std::vector<Entry> entries = walk.entries();
        entries.push_back(along(t));
        w.builder.load(w.builder.ref(x), source(w), std::move(entries));
        const Id at = w.builder.buffer(Format::i32, shape(walk, part_), 1, "xi");
        w.builder.vector({w.builder.ref(at)}, {position(t)});
        program::Sort step;
        step.kind = program::Sort::Kind::topk;
        step.descending = sort_.descending;
        step.values = w.builder.ref(values);
        step.indices = w.builder.ref(indices);
        step.from = lanes(w, x, constant(0), size(t), t);
        step.from_indices = lanes(w, at, constant(0), size(t), t);
        w.builder.step(std::move(step));
      });
      store_results(w, walk, values, indices);
    });
    return w.finish();
  }

  program::VecExpr position(Id range) const {
    return apply(program::VecOp::add, {iota(static_cast<int>(rows_.size())), integer_of(start(range))});
  }

  // ---- blocks

  /// Scratch memory of all rows: 0 the values, 1 their indices.
  Id scratch(Writer& w, int32_t number, program::Direction direction) const {
    return w.formal(context_, scratch_place(number), direction);
  }
  Placed scratch_place(int32_t number) const {
    std::vector<int64_t> sizes = rows_;
    sizes.push_back(length_);
    Placed memory;
    memory.scratch = number;
    memory.view = layout::HostView::contiguous(sizes);
    const base::HostType type =
        number == 1 ? base::HostType::i32 : context_.graph.values[static_cast<size_t>(node_.results[0])].type;
    memory.geometry = layout::default_placement(sizes, memory.view.strides, type, from_.format == Format::f16).geometry;
    memory.format = memory.geometry.format;
    return memory;
  }

  /// One kernel over the blocks [first + n x by, + by) of every row; rows and blocks over the cores.
  template <typename Body>
  Emitted over_blocks(int64_t first, int64_t by, const Body& body) {
    std::vector<int64_t> sizes = rows_;
    const int64_t count = (length_ - first + by - 1) / by;
    Shares shares{cores_, 1, 1, {}, {}};
    Division division = divide(sizes, Format::i32, shares);
    for (size_t d = 0; d < sizes.size(); ++d) division.tile[d] = 1;
    // The last row dimension is divided as `lanes` by divide(): give it cores here.
    division.parts.back() = 1, division.share.back() = sizes.back();
    int32_t used = division.cores();
    const auto block_cores = static_cast<int32_t>(std::clamp<int64_t>(cores_ / used, 1, count));
    std::vector<int32_t> grid = division.grid();
    if (used == 1) grid.clear();
    grid.push_back(block_cores);
    Writer w(node_.loc.op, used * block_cores, node_.loc);
    w.builder.nest(grid);
    const int64_t each = (count + block_cores - 1) / block_cores * by;
    const Id mine = w.builder.core(Bounds::of(first, length_), each, static_cast<Id>(grid.size()) - 1, "blocks");
    for_each_tile(w.builder, sizes, division, context_.description.max_trips, [&](const TileWalk& walk) {
      long_loop(w.builder, Bounds::within(mine), each, by, context_.description.max_trips,
                [&](Id t) { body(w, walk, t); });
    });
    return w.finish();
  }

  std::vector<Entry> block(const TileWalk& walk, Id t) const {
    std::vector<Entry> entries = walk.entries();
    entries.push_back(along(t));
    return entries;
  }

  void blocks(std::vector<Emitted>& kernels) {
    const int64_t stick = base::stick_bytes;  // at most one element a byte
    const int64_t half = std::max<int64_t>(stick, part_ / 2 / stick * stick);
    kernels.push_back(over_blocks(0, half, [&](Writer& w, const TileWalk& walk, Id t) {
      const Id x = w.builder.buffer(from_.format, shape(walk, half), 1, "x");
      w.builder.load(w.builder.ref(x), source(w), block(walk, t));
      const Id at = w.builder.buffer(Format::i32, shape(walk, half), 1, "xi");
      w.builder.vector({w.builder.ref(at)}, {position(t)});
      sorted_block(w, walk, t, half, x, at, program::Sort::Kind::sort, program::Direction::out);
    }));
    const int64_t count = (length_ + half - 1) / half;
    for (int64_t round = 0; round < count; ++round) {
      const int64_t first = round % 2 * half;
      if (length_ - first <= half) continue;
      kernels.push_back(over_blocks(first, 2 * half, [&](Writer& w, const TileWalk& walk, Id t) {
        const Id x = w.builder.buffer(from_.format, shape(walk, 2 * half), 1, "x");
        const Id at = w.builder.buffer(Format::i32, shape(walk, 2 * half), 1, "xi");
        w.builder.load(w.builder.ref(x), scratch(w, 0, program::Direction::inout), block(walk, t));
        w.builder.load(w.builder.ref(at), scratch(w, 1, program::Direction::inout), block(walk, t));
        sorted_block(w, walk, t, 2 * half, x, at, program::Sort::Kind::merge, program::Direction::inout);
      }));
    }
    for (size_t r = 0; r < 2; ++r) {
      if (!kept(r)) continue;
      Placed from = scratch_place(static_cast<int32_t>(r)), to = placed(context_, node_.results[r]);
      to.view = permuted(to.view, order_);
      from.view.sizes.back() = kept_;
      kernels.push_back(write_boxes(context_, node_.loc, to, {whole_copy(to, from)},
                                    {cores_, 1, context_.description.lx_usable_bytes / 32, false}));
    }
  }

  void sorted_block(Writer& w, const TileWalk& walk, Id t, int64_t size_of_block, Id x, Id at, program::Sort::Kind kind,
                    program::Direction direction) {
    const Id values = w.builder.buffer(from_.format, shape(walk, size_of_block), 1, "v");
    const Id indices = w.builder.buffer(Format::i32, shape(walk, size_of_block), 1, "i");
    program::Sort step;
    step.kind = kind;
    step.descending = sort_.descending;
    step.values = lanes(w, values, constant(0), size(t), t);
    step.indices = lanes(w, indices, constant(0), size(t), t);
    step.from = lanes(w, x, constant(0), size(t), t);
    step.from_indices = lanes(w, at, constant(0), size(t), t);
    w.builder.step(std::move(step));
    w.builder.store(scratch(w, 0, direction), block(walk, t), lanes(w, values, constant(0), size(t), t));
    w.builder.store(scratch(w, 1, direction), block(walk, t), lanes(w, indices, constant(0), size(t), t));
  }

  const Context& context_;
  const graph::Node& node_;
  const graph::Sort& sort_;
  Placed from_;
  size_t dim_;
  std::vector<size_t> order_;  ///< rows, then the sorted dimension
  std::vector<int64_t> rows_;  ///< sizes of the rows' dimensions, at least one
  int32_t cores_ = 1;
  int64_t length_ = 0, kept_ = 0, part_ = 0;
};

}  // namespace

std::vector<Emitted> emit_sort(const Context& context, const plan::KernelPlan& kernel) {
  return SortKernels(context, kernel).run();
}

}  // namespace spyre::lower
