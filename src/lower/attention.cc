// The attention form: per tile of rows, a loop over blocks of keys that keeps the maximum, the sum and the weighted
// values so far. Scores are in LX only.
#include "plan/attention.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "lower/axis_formal.h"

namespace spyre::lower {
namespace {

using base::Format;
using program::Monoid;
using program::VecExpr;
using program::VecOp;
using Shape = plan::AttentionShape;

VecExpr less_infinity() { return number(-std::numeric_limits<double>::infinity()); }

class StreamingAttention {
 public:
  StreamingAttention(const Context& context, const plan::KernelPlan& kernel)
      : context_(context),
        kernel_(kernel),
        node_(context.graph.nodes[static_cast<size_t>(kernel.nodes[0])]),
        attention_(std::get<graph::Attention>(node_.kind)),
        shape_(plan::attention_shape(context, kernel.nodes[0], kernel.tile.size() == 3 ? kernel.tile[2] : 1)),
        range_(Shape::axis_count, none),
        core_(Shape::axis_count, none),
        grid_(Shape::axis_count, none),
        builder_("attention", cores_of(kernel)) {
    if (kernel.grid.size() != std::size(Shape::divided) + 1 || kernel.tile.size() != 3)
      fail(Fault::program, "{}: an attention kernel has 5 numbers of its grid and 3 of its tile", node_.loc.op);
    chunk_ = plan::attention_chunk(shape_, Shape::key, kernel.grid.back());
    split_ = kernel.grid.back() > 1;
    if (split_ && (attention_.causal || (size(Shape::key) + chunk_ - 1) / chunk_ != kernel.grid.back()))
      fail(Fault::program, "{}: {} keys are not divided in {} parts", node_.loc.op, size(Shape::key),
           kernel.grid.back());
    rows_ = std::min(kernel.tile[0],
                     plan::attention_chunk(shape_, shape_.row, kernel.grid[static_cast<size_t>(shape_.row)]));
    keys_ = std::min(kernel.tile[1], chunk_);
    single_ = keys_ >= chunk_;
    clipped_ = (split_ || !single_) && (size(Shape::key) % keys_ != 0 || chunk_ % keys_ != 0);
  }

  Emitted run() {
    std::vector<int32_t> grid;
    builder_.loc(node_.loc);
    const auto axis_of = [](size_t i) { return i < std::size(Shape::divided) ? Shape::divided[i] : Shape::key; };
    for (size_t i = 0; i < kernel_.grid.size(); ++i) {
      if (kernel_.grid[i] <= 1) continue;
      grid_[static_cast<size_t>(axis_of(i))] = static_cast<Id>(grid.size());
      grid.push_back(kernel_.grid[i]);
    }
    declare();
    builder_.nest(grid);
    for (size_t i = 0; i < kernel_.grid.size(); ++i) {
      const auto a = static_cast<size_t>(axis_of(i));
      if (grid_[a] == none) continue;
      core_[a] = builder_.core(Bounds::of(0, shape_.sizes[a]),
                               plan::attention_chunk(shape_, axis_of(i), kernel_.grid[i]), grid_[a]);
    }
    loops(0);
    emitted_.kernel = builder_.finish();
    emitted_.locs = builder_.locs();
    return std::move(emitted_);
  }

 private:
  struct Operand {
    AxisFormal memory;
    Format format = Format::dl16;
    bool turned = false;
    Id share = none;
  };

  /// The state of one head's rows.
  struct Head {
    Id max = none, sum = none;
  };
  /// What one head multiplies.
  struct Operands {
    BufRef q, k, v, acc;
    Id mask = none;
  };

  static int32_t cores_of(const plan::KernelPlan& kernel) {
    int32_t cores = 1;
    for (const int32_t p : kernel.grid) cores *= p;
    return cores;
  }
  int64_t size(int axis) const { return shape_.sizes[static_cast<size_t>(axis)]; }
  int64_t tile(int axis) const { return axis == shape_.row ? rows_ : axis == Shape::key ? keys_ : size(axis); }
  const layout::Geometry& geometry(const plan::AxisRef& ref) const {
    return context_.plan.homes[static_cast<size_t>(ref.value)].geometry;
  }
  bool causal_rows() const { return attention_.causal && shape_.row == Shape::query; }

  AxisFormal formal(program::Direction direction, const plan::AxisRef& ref, int outer, int inner,
                    std::string_view name) {
    std::vector<int> all;
    for (int a = 0; a < Shape::one; ++a) all.push_back(a);
    const int dims[] = {outer, inner};
    Emitted::Actual actual;
    actual.value = ref.value;
    return add_formal(builder_, emitted_, direction, ref, shape_.sizes, all, dims, geometry(ref), actual, name);
  }

  /// A matrix [outer, inner], loaded as memory runs.
  Operand operand(const plan::AxisRef& ref, int outer, int inner, std::string_view name) {
    Operand o;
    const auto reach = [&](int a) {
      const int64_t stride = ref.strides[static_cast<size_t>(a)];
      return stride == 0 ? INT64_MAX : stride;
    };
    o.turned = reach(outer) < reach(inner);
    o.memory = o.turned ? formal(program::Direction::in, ref, inner, outer, name)
                        : formal(program::Direction::in, ref, outer, inner, name);
    o.format = geometry(ref).format;
    return o;
  }

  void declare() {
    q_ = operand(shape_.q, shape_.row, Shape::depth, "q");
    k_ = operand(shape_.k, Shape::key, Shape::depth, "k");
    v_ = operand(shape_.v, Shape::key, Shape::value, "v");
    if (shape_.mask) {
      const auto moves = [&](int a) { return shape_.mask->strides[static_cast<size_t>(a)] != 0; };
      mask_.memory = formal(program::Direction::in, *shape_.mask, moves(shape_.row) ? shape_.row : Shape::one,
                            moves(Shape::key) ? Shape::key : Shape::one, "mask");
      mask_.format = geometry(*shape_.mask).format;
    }
    // Cores that read the same keys at the same time: their loops run alike unless what is masked is left out.
    const bool key_loop_differs = causal_rows() && !single_;
    for (const int a : {Shape::group, Shape::query}) {
      const auto at = static_cast<size_t>(a);
      if (grid_[at] == none || key_loop_differs) continue;
      if (k_.share == none || kernel_.grid[2] < kernel_.grid[3]) k_.share = v_.share = grid_[at];
    }
    uniform_ = k_.share != none;
    out_ = formal(program::Direction::out, shape_.out, shape_.row, Shape::value, "y");
    out_ordered_ =
        must_be_ordered(shape_.out, {Shape::batch, Shape::kv_head, Shape::group, Shape::query, Shape::value});
    if (shape_.logsumexp) {
      logsumexp_ = formal(program::Direction::out, *shape_.logsumexp, Shape::one, shape_.row, "lse");
      logsumexp_ordered_ =
          must_be_ordered(*shape_.logsumexp, {Shape::batch, Shape::kv_head, Shape::group, Shape::query});
    }
    if (attention_.scale.leaf == graph::Expr::Leaf::param) {
      constexpr double infinity = std::numeric_limits<double>::infinity();
      scale_ = builder_.add_scalar("scale", true, -infinity, infinity);
      emitted_.scalars.push_back(attention_.scale.id);
    }
  }

  bool must_be_ordered(const plan::AxisRef& ref, std::initializer_list<int> walked) const {
    const plan::StoreShape store =
        plan::store_shape(ref, shape_.sizes, std::span(walked.begin(), walked.size()), geometry(ref));
    if (!store.known) return true;
    if (store.axis < 0) return false;
    const int64_t together = store.axis == shape_.row ? rows_ : store.axis == Shape::value ? size(Shape::value) : 1;
    return store.tiles_share_sticks(together, size(store.axis));
  }

  void loops(size_t i) {
    if (i == std::size(Shape::divided)) return tile_of_rows();
    // Rows innermost: the others change which keys are read.
    int order[std::size(Shape::divided)], n = 0;
    for (const int a : Shape::divided)
      if (a != shape_.row) order[n++] = a;
    order[n] = shape_.row;
    const int axis = order[i];
    const auto at = static_cast<size_t>(axis);
    const Id core = core_[at];
    const int64_t parts = grid_[at] == none ? 1 : kernel_.grid[static_cast<size_t>(axis)];
    long_loop(
        builder_, core == none ? Bounds::of(0, size(axis)) : Bounds::within(core),
        plan::attention_chunk(shape_, axis, parts), axis == shape_.row ? rows_ : 1, context_.description.max_trips,
        [&](Id r) {
          range_[at] = r;
          loops(i + 1);
          range_[at] = none;
        },
        uniform_ && core != none);
  }

  Id f32(std::vector<int64_t> shape, std::string_view name) {
    return builder_.buffer(Format::f32, std::move(shape), kernel_.slots, name);
  }
  VecExpr use(Id buffer) const { return builder_.use(builder_.ref(buffer)); }
  void set(Id buffer, VecExpr value) { set(builder_.ref(buffer), std::move(value)); }
  void set(BufRef ref, VecExpr value) { builder_.vector({std::move(ref)}, {std::move(value)}); }

  Id load(const Operand& o, std::string_view name) {
    const Id buffer = builder_.buffer(o.format, {tile(o.memory.tile[0]), tile(o.memory.tile[1])}, kernel_.slots, name);
    builder_.load(builder_.ref(buffer), o.memory.formal, o.memory.entries(range_, shape_.sizes), 0, o.share);
    return buffer;
  }
  BufRef matrix(Id buffer, bool transposed) const { return turned(builder_.ref(buffer), transposed); }
  static BufRef turned(BufRef ref, bool transposed) {
    ref.transposed = transposed;
    return ref;
  }
  /// What belongs to one head of a tile whose rows have those of all its heads next to each other.
  BufRef part(Id buffer, int axis, int64_t head) const {
    if (shape_.heads == 1) return builder_.ref(buffer);
    const int64_t lanes = size(axis) / shape_.heads;
    return builder_.ref(buffer, {all(), box(constant(head * lanes), constant(lanes))});
  }

  void tile_of_rows() {
    const int64_t lanes = size(Shape::value);
    q_tile_ = load(q_, "qt");
    if (size(Shape::key) == 0) return nothing();
    heads_.assign(static_cast<size_t>(shape_.heads), {});
    for (Head& head : heads_) head = {f32({rows_, 1}, "m"), f32({rows_, 1}, "l")};
    acc_ = f32({rows_, lanes}, "acc");
    if (single_) {
      range_[Shape::key] = core_[Shape::key];
      block(core_[Shape::key], true);
      range_[Shape::key] = none;
    } else {
      for (const Head& head : heads_) {
        set(head.max, less_infinity());
        set(head.sum, number(0));
      }
      set(acc_, number(0));
      IntExpr end = constant(size(Shape::key));
      if (causal_rows()) end = min(end, start(range_[Shape::query]) + constant(rows_));
      if (attention_.causal && !causal_rows()) end = constant(std::min<int64_t>(1, size(Shape::key)));
      long_loop(builder_, split_ ? Bounds::within(core_[Shape::key]) : Bounds::of(constant(0), std::move(end)), chunk_,
                keys_, context_.description.max_trips, [&](Id c) {
                  range_[Shape::key] = c;
                  block(c, false);
                  range_[Shape::key] = none;
                });
    }
    if (!split_) return finish_rows();
    join_parts();
    builder_.when({{program::Compare::Op::eq, coordinate(grid_[Shape::key]), constant(0)}}, [&] { finish_rows(); });
  }

  /// Cores that had parts of the keys bring their sums to one maximum and add them up.
  void join_parts() {
    for (size_t h = 0; h < heads_.size(); ++h) join_parts(heads_[h], part(acc_, Shape::value, static_cast<int64_t>(h)));
    builder_.step(program::PartialSum{builder_.ref(acc_), grid_[Shape::key], false});
  }

  void join_parts(Head& head, const BufRef& acc) {
    const Id g = grid_[Shape::key];
    const Id own = f32({1, rows_}, "m_row"), gathered = f32({kernel_.grid.back(), rows_}, "m_all");
    const Id best_row = f32({1, rows_}, "best_row"), best = f32({rows_, 1}, "best"),
             factor = f32({rows_, 1}, "to_best");
    builder_.step(program::Move{builder_.ref(own), matrix(head.max, true)});
    program::Ring gather;
    gather.kind = program::Ring::Kind::gather;
    gather.to = builder_.ref(gathered);
    gather.from = builder_.ref(own);
    gather.grid = g;
    builder_.step(std::move(gather));
    builder_.reduce(Monoid::max, false, {builder_.ref(best_row)}, {}, use(gathered), 0);
    builder_.step(program::Move{builder_.ref(best), matrix(best_row, true)});
    VecExpr nothing_yet = apply(VecOp::eq, {use(best), less_infinity()});
    VecExpr scale = apply(VecOp::exp, {apply(VecOp::sub, {use(head.max), use(best)})});
    set(factor, apply(VecOp::select, {std::move(nothing_yet), number(0), std::move(scale)}));
    set(head.sum, apply(VecOp::mul, {use(head.sum), use(factor)}));
    set(acc, apply(VecOp::mul, {builder_.use(acc), use(factor)}));
    builder_.step(program::PartialSum{builder_.ref(head.sum), g, false});
    head.max = best;
  }

  void finish_rows() {
    const int64_t lanes = size(Shape::value);
    const Id o = builder_.buffer(geometry(shape_.out).format, {rows_, lanes}, kernel_.slots, "o");
    for (size_t h = 0; h < heads_.size(); ++h) {
      const Id sum = heads_[h].sum;
      const auto its = [&](Id buffer) { return part(buffer, Shape::value, static_cast<int64_t>(h)); };
      set(its(o),
          apply(VecOp::select, {empty(sum), number(0), apply(VecOp::div, {builder_.use(its(acc_)), use(sum)})}));
    }
    builder_.store(out_.formal, out_.entries(range_, shape_.sizes), builder_.ref(o), out_ordered_);
    if (!shape_.logsumexp) return;
    const Head& head = heads_[0];
    const Id lse = f32({rows_, 1}, "lse");
    set(lse, apply(VecOp::select, {empty(head.sum), less_infinity(),
                                   apply(VecOp::add, {use(head.max), apply(VecOp::log, {use(head.sum)})})}));
    store_logsumexp(lse);
  }
  /// Of a row without keys.
  VecExpr empty(Id sum) const { return apply(VecOp::eq, {use(sum), number(0)}); }

  /// As a row: lanes in memory are rows here.
  void store_logsumexp(Id column) {
    const Id row = f32({1, rows_}, "lse_row");
    builder_.step(program::Move{builder_.ref(row), matrix(column, true)});
    builder_.store(logsumexp_.formal, logsumexp_.entries(range_, shape_.sizes), builder_.ref(row), logsumexp_ordered_);
  }

  /// Without keys.
  void nothing() {
    const Id o = builder_.buffer(geometry(shape_.out).format, {rows_, size(Shape::value)}, kernel_.slots, "o");
    set(o, number(0));
    builder_.store(out_.formal, out_.entries(range_, shape_.sizes), builder_.ref(o), out_ordered_);
    if (!shape_.logsumexp) return;
    const Id lse = f32({rows_, 1}, "lse");
    set(lse, less_infinity());
    store_logsumexp(lse);
  }

  VecExpr scaled(Id score) const {
    const VecExpr scale = scale_ != none ? builder_.use_scalar(scale_) : number(attention_.scale.number);
    return apply(VecOp::mul, {use(score), scale});
  }

  /// Scores of a block behind masks.
  VecExpr scores(Id score, Id block, Id mask) {
    VecExpr e = scaled(score);
    std::optional<VecExpr> keep;
    const auto also = [&](VecExpr x) {
      keep = keep ? apply(VecOp::logical_and, {std::move(*keep), std::move(x)}) : std::move(x);
    };
    if (attention_.causal) {  // key <= query
      VecExpr query = causal_rows() ? iota(0) : integer(0);
      IntExpr first = constant(0);
      if (block != none) first = start(block);
      if (causal_rows()) first = std::move(first) - start(range_[Shape::query]);
      VecExpr key = first.is_constant(0) ? iota(1) : apply(VecOp::add, {iota(1), integer_of(std::move(first))});
      also(apply(VecOp::le, {std::move(key), std::move(query)}));
    }
    if (clipped_) also(apply(VecOp::lt, {iota(1), integer_of(lower::size(block))}));
    if (mask != none) {
      if (shape_.keep_mask)
        also(apply(VecOp::ne, {use(mask), number(0)}));
      else
        e = apply(VecOp::add, {std::move(e), use(mask)});
    }
    if (keep) return apply(VecOp::select, {std::move(*keep), std::move(e), less_infinity()});
    return e;
  }

  /// Adds the keys of one block (c none: all there are). `first`: of the only one.
  void block(Id c, bool first) {
    const Id k_tile = load(k_, "kt"), v_tile = load(v_, "vt");
    const Id mask = shape_.mask ? load(mask_, "mk") : none;
    for (int64_t h = 0; h < shape_.heads; ++h) {
      const Operands of{turned(part(q_tile_, Shape::depth, h), q_.turned),
                        turned(part(k_tile, Shape::depth, h), !k_.turned),
                        turned(part(v_tile, Shape::value, h), v_.turned), part(acc_, Shape::value, h), mask};
      block(c, first, heads_[static_cast<size_t>(h)], of);
    }
  }

  void block(Id c, bool first, const Head& head, const Operands& of) {
    const Id s = f32({rows_, keys_}, "s");
    builder_.matmul(shape_.on_pt, builder_.ref(s), of.q, of.k, {}, false);
    VecExpr score = scores(s, c, of.mask);
    if (attention_.causal || clipped_ || shape_.keep_mask) {  // selected once; a sum is as cheap as a buffer
      set(s, std::move(score));
      score = use(s);
    }
    const Id best = first ? head.max : f32({rows_, 1}, "mn");
    builder_.reduce(Monoid::max, false, {builder_.ref(best)},
                    first ? std::vector<VecExpr>{} : std::vector<VecExpr>{use(head.max)}, score, 1);
    // Of a row without any key so far the maximum is -inf: then 0 stands for it, and all its weights are 0.
    VecExpr from = apply(VecOp::select, {apply(VecOp::eq, {use(best), less_infinity()}), number(0), use(best)});
    const Id base = f32({rows_, 1}, "mz");
    Id factor = none;
    if (first) {
      set(base, std::move(from));
    } else {
      factor = f32({rows_, 1}, "al");
      builder_.vector({builder_.ref(base), builder_.ref(factor), builder_.ref(head.max)},
                      {from, apply(VecOp::exp, {apply(VecOp::sub, {use(head.max), from})}), use(best)});
    }
    const Id p = builder_.buffer(shape_.format, {rows_, keys_}, kernel_.slots, "p");
    VecExpr weight = apply(VecOp::exp, {apply(VecOp::sub, {std::move(score), use(base)})});
    Id summed = p;  // of weights as they are multiplied; a logarithm that is asked for shows their rounding
    if (shape_.logsumexp && shape_.format != Format::f32) {
      summed = s;
      set(s, std::move(weight));
      weight = use(s);
    }
    set(p, std::move(weight));
    std::vector<VecExpr> sum_so_far;
    if (!first) sum_so_far.push_back(apply(VecOp::mul, {use(head.sum), use(factor)}));
    builder_.reduce(Monoid::sum, false, {builder_.ref(head.sum)}, std::move(sum_so_far), use(summed), 1);
    if (!first) set(of.acc, apply(VecOp::mul, {builder_.use(of.acc), use(factor)}));
    builder_.matmul(shape_.on_pt, of.acc, builder_.ref(p), of.v, {}, !first);
  }

  const Context& context_;
  const plan::KernelPlan& kernel_;
  const graph::Node& node_;
  const graph::Attention& attention_;
  const Shape shape_;
  int64_t rows_ = 1, keys_ = 1;
  int64_t chunk_ = 1;  ///< keys of one core
  bool single_ = false, split_ = false, clipped_ = false, uniform_ = false, out_ordered_ = false,
       logsumexp_ordered_ = false;
  std::vector<Id> range_, core_, grid_;  ///< per axis
  KernelBuilder builder_;
  Emitted emitted_;
  Operand q_, k_, v_, mask_;
  AxisFormal out_, logsumexp_;
  std::vector<Head> heads_;  ///< of the tile
  Id scale_ = none, q_tile_ = none, acc_ = none;
};

}  // namespace

std::vector<Emitted> emit_attention(const Context& context, const plan::KernelPlan& kernel) {
  return one_kernel(StreamingAttention(context, kernel).run());
}

}  // namespace spyre::lower
