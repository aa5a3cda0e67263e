// Scatter: elements at places that data gives, combined with a base.
//
// Dimensions of the space are of three kinds. Those that are a target's index as they are, and that no other index
// depends on, are the payload: lanes and rows of a tile, which cores divide. Those that are a target's index but on
// which others depend are walked one by one, and cores may divide them too. All others are walked in order by one core,
// so that of equal places the last wins. Accumulation goes through scratch memory in f32 or i32: load, combine, store,
// point after point. plan/scatter.cc says what grid and tile mean.
#include <algorithm>
#include <functional>

#include "base/error.h"
#include "lower/boxes.h"
#include "lower/operands.h"

namespace spyre::lower {

using graph::Expr;
using program::Reg;
using program::VecExpr;
using program::VecOp;
using Mode = graph::Scatter::Mode;

namespace {

class ScatterKernels {
 public:
  ScatterKernels(const Context& context, const plan::KernelPlan& plan)
      : context_(context),
        plan_(plan),
        node_(context.graph.nodes.at(static_cast<size_t>(plan.nodes.at(0)))),
        scatter_(std::get<graph::Scatter>(node_.kind)),
        space_(plan::numbers(scatter_.space)),
        own_(space_.size(), no_dimension),
        own_target_(scatter_.targets.size(), false) {
    if (plan.grid.size() != 2 || plan.tile.empty()) {
      fail(Fault::program, "{} ({}): a scatter plan has a grid of 2 and a tile number", node_.loc.op, node_.loc.source);
    }
    analyse();
  }

  std::vector<Emitted> run() {
    const Placed result = placed(context_, node_.results.at(0)), base = placed(context_, scatter_.base);
    const base::HostType type = context_.graph.values[static_cast<size_t>(node_.results[0])].type;
    const BoxShares shares{plan_.grid[0], plan_.grid[1], plan_.tile[0], false};
    const bool points = std::find(space_.begin(), space_.end(), 0) == space_.end();
    std::vector<Emitted> kernels;
    if (scatter_.mode == Mode::set || !points) {
      if (base.value != result.value || base.view != result.view) {
        kernels.push_back(write_boxes(context_, node_.loc, result, {whole_copy(result, base)}, shares));
      }
      if (points) kernels.push_back(scatter(result));
      return kernels;
    }
    Placed sums;
    sums.scratch = 0;
    sums.view = layout::HostView::contiguous(result.view.sizes);
    sums.format = lx_format(type);
    sums.geometry =
        layout::default_placement(sums.view.sizes, sums.view.strides,
                                  sums.format == Format::f32 ? base::HostType::f32 : base::HostType::i32, false)
            .geometry;
    kernels.push_back(write_boxes(context_, node_.loc, sums, {whole_copy(sums, base)}, shares));
    kernels.push_back(scatter(sums));
    BoxPart back = whole_copy(result, sums);
    back.type = type;
    kernels.push_back(write_boxes(context_, node_.loc, result, {back}, shares));
    return kernels;
  }

 private:
  bool depends(const Expr& expr, size_t dim) const {
    if (expr.leaf == Expr::Leaf::iota) return static_cast<size_t>(expr.id) == dim;
    if (expr.leaf == Expr::Leaf::load) {
      return plan::number(scatter_.loads[static_cast<size_t>(expr.id)].ref.strides[dim]) != 0;
    }
    return std::any_of(expr.args.begin(), expr.args.end(), [&](const Expr& a) { return depends(a, dim); });
  }

  void analyse() {
    for (size_t t = 0; t < scatter_.targets.size(); ++t) {
      const Expr& index = scatter_.targets[t].index;
      if (index.leaf != Expr::Leaf::iota || own_[static_cast<size_t>(index.id)] != no_dimension) continue;
      if (space_[static_cast<size_t>(index.id)] > plan::number(scatter_.base.sizes[t])) continue;  // has to be checked
      own_[static_cast<size_t>(index.id)] = t;
      own_target_[t] = true;
    }
    for (size_t d = 0; d < space_.size(); ++d) {
      if (space_[d] == 1) continue;
      bool used = false;
      for (size_t t = 0; t < scatter_.targets.size(); ++t) {
        used = used || (!own_target_[t] && depends(scatter_.targets[t].index, d));
      }
      if (own_[d] == no_dimension) {
        walked_.push_back(d);
      } else {
        (used ? rows_ : payload_).push_back(d);
      }
    }
    inner_ = no_dimension;
    if (!walked_.empty()) inner_ = walked_.back(), walked_.pop_back();
    for (size_t t = 0; t < scatter_.targets.size(); ++t) {
      if (!own_target_[t]) indexed_.push_back(t);
    }
  }

  Emitted scatter(const Placed& to) {
    const bool set = scatter_.mode == Mode::set;
    // The payload's lanes last; without any, one lane.
    const std::vector<size_t> lanes = lanes_last(to.view, to.geometry);
    if (!lanes.empty()) {
      const auto at = std::find_if(payload_.begin(), payload_.end(), [&](size_t d) { return own_[d] == lanes.back(); });
      if (at != payload_.end()) std::rotate(at, at + 1, payload_.end());
    }
    if (payload_.empty()) payload_.push_back(no_dimension);

    // Memory dimensions: points, then what data gives, then the payload.
    std::vector<size_t> targets;
    std::vector<size_t> fixed;
    for (size_t t = 0; t < scatter_.targets.size(); ++t) {
      const auto dim = static_cast<size_t>(scatter_.targets[t].index.id);
      if (own_target_[t] && space_[dim] == 1) fixed.push_back(t);
    }
    targets = fixed;
    for (const size_t d : rows_) targets.push_back(own_[d]);
    targets.insert(targets.end(), indexed_.begin(), indexed_.end());
    for (const size_t d : payload_) targets.push_back(d == no_dimension ? no_dimension : own_[d]);
    Placed memory = to;
    memory.view = permuted(to.view, targets);

    // Buffer dimensions: rows and walked ones (one index each), the inner walked one, the payload.
    std::vector<size_t> order = walked_;
    order.insert(order.end(), rows_.begin(), rows_.end());
    const size_t inner_at = order.size();
    order.push_back(inner_);
    order.insert(order.end(), payload_.begin(), payload_.end());
    if (order.size() > 8) {
      fail(Fault::unimplemented, "{} ({}): a scatter over {} dimensions; it may have 8", node_.loc.op, node_.loc.source,
           order.size());
    }

    // Rows and payload are divided over cores; rows one by one.
    std::vector<int64_t> sizes;
    for (const size_t d : rows_) sizes.push_back(space_[d]);
    for (const size_t d : payload_) sizes.push_back(size_of(d));
    const size_t rows = rows_.size();
    Division division = divide(sizes, to.format, {plan_.grid[0], plan_.grid[1], plan_.tile[0], {}, {}});
    int64_t volume = 1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (d < rows) division.tile[d] = 1;
      volume *= division.tile[d];
    }
    volume = std::max<int64_t>(volume, base::elements_per_stick(to.format)) * base::format_bytes(to.format);
    // Every index has a row of its own in LX.
    const int64_t tile = std::clamp<int64_t>(plan_.tile[0] / (volume + base::stick_bytes), 1, size_of(inner_));

    Writer w(node_.loc.op, division.cores(), node_.loc);
    const auto direction = set ? program::Direction::out : program::Direction::inout;
    const Id formal = w.formal(context_, memory, direction);
    w.builder.nest(division.grid());
    const int64_t max_trips = context_.description.max_trips;
    for_each_tile(w.builder, sizes, division, max_trips, [&](const TileWalk& own) {
      TileWalk walk;
      const auto put = [&](Id range, int64_t size, int64_t part) {
        walk.range.push_back(range), walk.sizes.push_back(size), walk.tile.push_back(part);
      };
      for (const size_t d : walked_) put(none, space_[d], 1);
      for (size_t d = 0; d < rows; ++d) put(own.range[d], own.sizes[d], 1);
      put(none, size_of(inner_), tile);
      for (size_t d = rows; d < sizes.size(); ++d) put(own.range[d], own.sizes[d], own.tile[d]);
      const std::function<void(size_t)> enter = [&](size_t depth) {
        const bool last = depth == walked_.size();
        const size_t at = last ? inner_at : depth;
        long_loop(w.builder, Bounds::of(0, walk.sizes[at]), walk.sizes[at], walk.tile[at], max_trips, [&](Id range) {
          walk.range[at] = range;
          last ? points(w, formal, memory, fixed.size(), order, inner_at, walk) : enter(depth + 1);
        });
      };
      enter(0);
    });
    return w.finish();
  }

  int64_t size_of(size_t dim) const { return dim == no_dimension ? 1 : space_[dim]; }

  void points(Writer& w, Id formal, const Placed& memory, size_t fixed, const std::vector<size_t>& order,
              size_t inner_at, const TileWalk& walk) {
    KernelBuilder& b = w.builder;
    const Expr* const value_exprs[] = {&scatter_.value};
    const Operands operands(w, context_, node_.loc, scatter_.loads, value_exprs, order, walk);
    const Id value = b.buffer(memory.format, walk.tile, 2, "v");
    const base::HostType type = context_.graph.values[static_cast<size_t>(node_.results[0])].type;
    b.vector({b.ref(value)}, {wrapped(operands.expression(scatter_.value), type)});
    // Indices lie in one row: the walked dimension is their lanes.
    TileWalk index_walk = walk;
    index_walk.range.resize(inner_at + 1), index_walk.sizes.resize(inner_at + 1), index_walk.tile.resize(inner_at + 1);
    std::vector<const Expr*> index_exprs;
    for (const size_t t : indexed_) index_exprs.push_back(&scatter_.targets[t].index);
    const Operands index_operands(w, context_, node_.loc, scatter_.loads, index_exprs,
                                  std::span(order).first(inner_at + 1), index_walk);
    std::vector<Id> indices;
    for (const Expr* expr : index_exprs) {
      indices.push_back(b.buffer(Format::i32, index_walk.tile, 2, "ix"));
      b.vector({b.ref(indices.back())}, {index_operands.expression(*expr)});
    }
    const auto boxed = [&](Id buffer, BufDim dim) {
      std::vector<BufDim> box(b.buffer_of(buffer).shape.size());
      box[inner_at] = std::move(dim);
      return b.ref(buffer, std::move(box));
    };
    const auto entries = [&](const BufDim& dim) {
      std::vector<Entry> all;
      size_t m = 0;
      for (; m < fixed; ++m) all.push_back(at(constant(0)));
      for (size_t r = 0; r < rows_.size(); ++r, ++m) all.push_back(walk.entry(walked_.size() + r));
      for (size_t i = 0; i < indices.size(); ++i, ++m) {
        all.push_back(indexed(boxed(indices[i], dim), constant(0), constant(memory.view.sizes[m]),
                              scatter_.targets[indexed_[i]].outside));
      }
      for (size_t p = inner_at + 1; p < walk.tile.size(); ++p) all.push_back(walk.entry(p));
      return all;
    };
    const Id range = walk.range[inner_at];
    if (scatter_.mode == Mode::set && indices.size() == 1) {
      BufDim rows = box(constant(0), size(range));
      rows.range = range;
      b.store(formal, entries(rows), boxed(value, rows), true);
      return;
    }
    b.loop(Bounds::within(range), 1, [&](Id j) {
      const Id ranges[] = {j};
      std::vector<Id> by_dim(inner_at, none);
      by_dim.push_back(ranges[0]);
      const BufDim row = box(b.ref(value, by_dim).box[inner_at].first, constant(1));  // one index a trip
      if (scatter_.mode == Mode::set) {
        b.store(formal, entries(row), boxed(value, row), true);
        return;
      }
      std::vector<int64_t> one = walk.tile;
      one[inner_at] = 1;
      const Id now = b.buffer(memory.format, one, 1, "acc");
      b.step(program::Fence{});
      b.load(b.ref(now), formal, entries(row));
      const VecOp op = scatter_.mode == Mode::add    ? VecOp::add
                       : scatter_.mode == Mode::prod ? VecOp::mul
                       : scatter_.mode == Mode::max  ? VecOp::max
                                                     : VecOp::min;
      b.vector({b.ref(now)}, {apply(op, {b.use(b.ref(now)), b.use(boxed(value, row))})});
      b.step(program::Fence{});
      b.store(formal, entries(row), b.ref(now), true);
    });
  }

  const Context& context_;
  const plan::KernelPlan& plan_;
  const graph::Node& node_;
  const graph::Scatter& scatter_;
  std::vector<int64_t> space_;
  std::vector<size_t> own_;       ///< per space dimension the target that it is the index of, or no_dimension
  std::vector<bool> own_target_;  ///< per target
  std::vector<size_t> walked_, rows_, payload_, indexed_;
  size_t inner_ = no_dimension;  ///< the last walked dimension
};

}  // namespace

std::vector<Emitted> emit_scatter(const Context& context, const plan::KernelPlan& kernel) {
  return ScatterKernels(context, kernel).run();
}

}  // namespace spyre::lower
