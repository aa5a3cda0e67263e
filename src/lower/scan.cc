// Scan: running results along one dimension. Two ways (plan/scan.cc says what grid and tile mean): along the lanes with
// sfp.scan; or position after position, each a vector step over the lanes of another dimension, for every monoid.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "lower/operands.h"
#include "program/vector_rules.h"

namespace spyre::lower {

using graph::Expr;
using program::Monoid;
using program::Reg;
using program::VecExpr;
using program::VecOp;

namespace {

class ScanKernel {
 public:
  ScanKernel(const Context& context, const plan::KernelPlan& plan)
      : context_(context),
        plan_(plan),
        node_(context.graph.nodes.at(static_cast<size_t>(plan.nodes.at(0)))),
        scan_(std::get<graph::Scan>(node_.kind)),
        space_(plan::numbers(scan_.space)),
        dim_(static_cast<size_t>(scan_.dim)) {
    if (plan.grid.size() != 2 || plan.tile.size() != 2) {
      fail(Fault::program, "{} ({}): a scan plan has a grid of 2 and 2 tile numbers", node_.loc.op, node_.loc.source);
    }
  }

  Emitted run() {
    const bool along = plan_.tile[1] == 0;
    if (along && !program::can_scan(scan_.monoid)) refuse();
    if (scan_.monoid == Monoid::welford || scan_.monoid == Monoid::any || scan_.monoid == Monoid::all) refuse();
    const Placed first = placed_result(0);
    // The other dimensions, the one of the sticks last.
    layout::HostView others = first.view;
    others.sizes[dim_] = 1;
    std::vector<size_t> rows = lanes_last(others, first.geometry);
    std::erase(rows, dim_);
    if (rows.size() > 7) {
      fail(Fault::unimplemented, "{} ({}): a scan of {} dimensions other than 1; it may have 8", node_.loc.op,
           node_.loc.source, rows.size() + 1);
    }
    std::vector<int64_t> sizes;
    if (rows.empty()) rows.push_back(no_dimension);
    for (const size_t d : rows) sizes.push_back(d == no_dimension ? 1 : space_[d]);
    Shares shares{plan_.grid[0], plan_.grid[1], plan_.tile[0], {}, {}};
    // Along the lanes every row has a tile of its own in the lanes, so the rows' last dimension is none of lanes.
    Division division;
    if (along) {
      std::vector<int64_t> all = sizes;
      all.push_back(space_[dim_]);
      shares.divisible.assign(all.size(), true);
      shares.divisible.back() = false;
      division = divide(all, Format::f32, shares);
      trips_by_ = division.tile.back();
      division.parts.pop_back(), division.share.pop_back(), division.tile.pop_back();
    } else {
      division = divide(sizes, Format::f32, shares);
      int64_t volume = 1;
      for (size_t d = 0; d < division.tile.size(); ++d) volume *= division.tile[d];
      volume = std::max<int64_t>(volume, base::elements_per_stick(Format::f32));
      const int64_t stick = base::elements_per_stick(first.format);
      trips_by_ = std::clamp<int64_t>(plan_.tile[0] / (volume * 4), 1, space_[dim_]);
      if (trips_by_ < space_[dim_] && trips_by_ > stick) trips_by_ = trips_by_ / stick * stick;
      trips_by_ = std::min<int64_t>(trips_by_, context_.description.max_trips);
    }
    Writer w(node_.loc.op, division.cores(), node_.loc);
    w_ = &w;
    order_ = rows;
    if (along) {
      order_.push_back(dim_);
    } else {
      order_.insert(order_.begin(), dim_);
    }
    w.builder.nest(division.grid());
    for_each_tile(w.builder, sizes, division, context_.description.max_trips, [&](const TileWalk& walk) {
      TileWalk inner = walk;
      const size_t at = along ? inner.sizes.size() : 0;
      const auto grown = [at](auto& list, auto value) { list.insert(list.begin() + static_cast<int64_t>(at), value); };
      grown(inner.sizes, space_[dim_]);
      grown(inner.tile, trips_by_);
      grown(inner.range, none);
      start_states(inner, at);
      long_loop(w.builder, Bounds::of(0, space_[dim_]), space_[dim_], trips_by_, context_.description.max_trips,
                [&](Id range) {
                  inner.range[at] = range;
                  along ? along_lanes(inner) : position_by_position(inner, range);
                });
    });
    return w.finish();
  }

 private:
  [[noreturn]] void refuse() const {
    fail(Fault::unimplemented, "{} ({}): a running {} {}", node_.loc.op, node_.loc.source,
         program::monoid_name(scan_.monoid), plan_.tile[1] == 0 ? "along lanes" : "");
  }

  Placed placed_result(size_t r) const {
    // A result that nobody keeps has its own strides all the same.
    return placed(context_, node_.results.at(r));
  }
  bool kept(size_t r) const {
    return plan::in_memory(context_.plan.homes.at(static_cast<size_t>(node_.results[r])).kind);
  }
  base::HostType type_of(size_t r) const { return context_.graph.values[static_cast<size_t>(node_.results[r])].type; }

  Reg reg() const { return scan_.value.type == Reg::pred ? Reg::i32 : scan_.value.type; }
  Format format() const { return reg() == Reg::i32 ? Format::i32 : Format::f32; }

  VecExpr neutral(size_t state) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const bool real = reg() == Reg::f32;
    const auto both = [&](double f, int64_t i) { return real ? number(f) : integer(i); };
    if (state == 1) return scan_.monoid == Monoid::logsumexp ? number(0) : integer(0);
    switch (scan_.monoid) {
      case Monoid::prod:
        return both(1, 1);
      case Monoid::max:
      case Monoid::argmax:
      case Monoid::logsumexp:
        return both(-infinity, std::numeric_limits<int32_t>::min());
      case Monoid::min:
      case Monoid::argmin:
        return both(infinity, std::numeric_limits<int32_t>::max());
      default:
        return both(0, 0);
    }
  }

  void start_states(const TileWalk& walk, size_t at) {
    states_.clear();
    std::vector<int64_t> shape = walk.tile;
    shape[at] = 1;
    for (int s = 0; s < program::states_of(scan_.monoid); ++s) {
      const bool index = s == 1 && scan_.monoid != Monoid::logsumexp;
      states_.push_back(w_->builder.buffer(index ? Format::i32 : format(), shape, 1, "carry"));
      w_->builder.vector({w_->builder.ref(states_.back())}, {neutral(static_cast<size_t>(s))});
    }
  }

  Id result_formal(size_t r) {
    Placed to = placed_result(r);
    to.view = permuted(to.view, order_);
    return w_->formal(context_, to, program::Direction::out);
  }

  void along_lanes(const TileWalk& walk) {
    const Expr* const exprs[] = {&scan_.value};
    const Operands operands(*w_, context_, node_.loc, scan_.loads, exprs, order_, walk);
    const size_t last = walk.sizes.size() - 1;
    VecExpr value = cast(operands.expression(scan_.value), reg());
    if (walk.sizes[last] % walk.tile[last] != 0) {  // lanes behind the row must not count
      value = apply(VecOp::select, {apply(VecOp::lt, {iota(static_cast<int>(last)), integer_of(walk.count(last))}),
                                    std::move(value), neutral(0)});
    }
    const Id out = w_->builder.buffer(format(), walk.tile, 2, "y");
    program::Scan step;
    step.monoid = scan_.monoid;
    step.trap = scan_.trap && reg() == Reg::i32;
    step.to = w_->builder.ref(out);
    step.carry = w_->builder.ref(states_[0]);
    step.value = std::move(value);
    w_->builder.step(std::move(step));
    const Placed to = placed_result(0);
    const Id rounded = w_->builder.buffer(to.format, walk.tile, 2, "o");
    w_->builder.vector({w_->builder.ref(rounded)}, {wrapped(w_->builder.use(w_->builder.ref(out)), type_of(0))});
    w_->builder.store(result_formal(0), walk.entries(), w_->builder.ref(rounded), true);
  }

  void position_by_position(const TileWalk& walk, Id range) {
    KernelBuilder& b = w_->builder;
    const Expr* const exprs[] = {&scan_.value};
    const Operands operands(*w_, context_, node_.loc, scan_.loads, exprs, order_, walk);
    std::vector<Id> outs(node_.results.size(), none);
    for (size_t r = 0; r < outs.size(); ++r) {
      if (!kept(r)) continue;
      std::vector<int64_t> shape = walk.tile;
      outs[r] = b.buffer(placed_result(r).format, shape, 2, "o");
    }
    std::vector<int64_t> row = walk.tile;
    row[0] = 1;
    b.loop(Bounds::within(range), 1, [&](Id i) {
      const VecExpr value = cast(operands.expression(scan_.value, i), reg());
      step_states(value, i, row);
      const Id ranges[] = {i};
      for (size_t r = 0; r < outs.size(); ++r) {
        if (outs[r] == none) continue;
        b.vector({b.ref(outs[r], ranges)}, {wrapped(b.use(state_ref(r)), type_of(r))});
      }
    });
    const Id ranges[] = {range};
    for (size_t r = 0; r < outs.size(); ++r) {
      if (outs[r] == none) continue;
      std::vector<Entry> entries = walk.entries();
      b.store(result_formal(r), std::move(entries), b.ref(outs[r], ranges), true);
    }
  }

  BufRef state_ref(size_t s) const { return w_->builder.ref(states_[s]); }

  /// The states with one more value.
  void step_states(const VecExpr& value, Id i, const std::vector<int64_t>& row) {
    KernelBuilder& b = w_->builder;
    const VecExpr c = b.use(state_ref(0));
    const bool real = reg() == Reg::f32;
    switch (scan_.monoid) {
      case Monoid::sum:
        return b.vector({state_ref(0)}, {apply(VecOp::add, {c, value}, scan_.trap && !real)});
      case Monoid::prod:
        return b.vector({state_ref(0)}, {apply(VecOp::mul, {c, value}, scan_.trap && !real)});
      case Monoid::max:
        return b.vector({state_ref(0)}, {apply(VecOp::max, {c, value})});
      case Monoid::min:
        return b.vector({state_ref(0)}, {apply(VecOp::min, {c, value})});
      case Monoid::argmax:
      case Monoid::argmin: {
        // NaN wins over every number, and of equals the last.
        VecExpr better = apply(scan_.monoid == Monoid::argmax ? VecOp::ge : VecOp::le, {value, c});
        if (real) {
          better = apply(
              VecOp::logical_or,
              {apply(VecOp::is_nan, {value}),
               apply(VecOp::logical_and, {apply(VecOp::logical_not, {apply(VecOp::is_nan, {c})}), std::move(better)})});
        }
        const Id pick = b.buffer(Format::i32, row, 2, "p");
        b.vector({b.ref(pick)}, {std::move(better)});
        const VecExpr picked = apply(VecOp::ne, {b.use(b.ref(pick)), integer(0)});
        b.vector({state_ref(0)}, {apply(VecOp::select, {picked, value, c})});
        return b.vector({state_ref(1)}, {apply(VecOp::select, {picked, integer_of(start(i)), b.use(state_ref(1))})});
      }
      case Monoid::logsumexp: {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        const Id most = b.buffer(Format::f32, row, 2, "m");
        const VecExpr any_nan = apply(VecOp::logical_or, {apply(VecOp::is_nan, {value}), apply(VecOp::is_nan, {c})});
        b.vector({b.ref(most)}, {apply(VecOp::select, {any_nan, number(std::numeric_limits<double>::quiet_NaN()),
                                                       apply(VecOp::max, {c, value})})});
        const VecExpr m = b.use(b.ref(most)), s = b.use(state_ref(1));
        const VecExpr old = apply(VecOp::mul, {s, apply(VecOp::exp, {apply(VecOp::sub, {c, m})})});
        const VecExpr fresh = apply(VecOp::select, {apply(VecOp::eq, {value, m}), number(1),
                                                    apply(VecOp::exp, {apply(VecOp::sub, {value, m})})});
        b.vector(
            {state_ref(1)},
            {apply(VecOp::select, {apply(VecOp::eq, {m, number(-infinity)}), s, apply(VecOp::add, {old, fresh})})});
        return b.vector({state_ref(0)}, {m});
      }
      default:
        refuse();
    }
  }

  const Context& context_;
  const plan::KernelPlan& plan_;
  const graph::Node& node_;
  const graph::Scan& scan_;
  std::vector<int64_t> space_;
  size_t dim_;
  Writer* w_ = nullptr;
  std::vector<size_t> order_;  ///< dimensions of the space in the buffers' order
  int64_t trips_by_ = 1;       ///< positions of a tile along the scanned dimension
  std::vector<Id> states_;
};

}  // namespace

std::vector<Emitted> emit_scan(const Context& context, const plan::KernelPlan& kernel) {
  return one_kernel(ScanKernel(context, kernel).run());
}

}  // namespace spyre::lower
