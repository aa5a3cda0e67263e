// The matmul form: loops over tiles of rows and lanes, in them loops over the terms into an accumulator tile for each
// product, behind them the Maps on these tiles.
#include "plan/matmul.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"
#include "lower/axis_formal.h"
#include "lower/element_program.h"

namespace spyre::lower {
namespace {

using base::Format;
using plan::MatmulShape;

class Matmul {
 public:
  Matmul(const Context& context, const plan::KernelPlan& kernel)
      : context_(context),
        kernel_(kernel),
        shape_(plan::matmul_shape(context, kernel.nodes)),
        order_(plan::matmul_order(shape_, kernel)),
        range_(shape_.axes.sizes.size(), none),
        core_(shape_.axes.sizes.size(), none),
        grid_(shape_.axes.sizes.size(), none) {
    for (const size_t n : shape_.products)
      products_.emplace_back(context.graph.nodes[static_cast<size_t>(kernel.nodes[n])]);
    const std::string& op = products_[0].node.loc.op;
    if (kernel.grid.size() != shape_.parallel.size() + 1 || kernel.tile.size() != 3)
      fail(Fault::program, "{}: a matmul over {} parallel axes has a grid of {} and a tile of {} numbers", op,
           shape_.parallel.size(), kernel.grid.size(), kernel.tile.size());
    if (kernel.grid.back() > 1 && shape_.sum != Format::f32)
      fail(Fault::program, "{}: integer sums are not divided between cores", op);
    // A part without terms would leave its core's accumulator unwritten.
    if (split_parts() > 1 && base::ceil_div(size(shape_.depth), length(shape_.depth)) != split_parts())
      fail(Fault::program, "{}: {} terms cannot be divided between {} cores", op, size(shape_.depth), split_parts());
    if (shape_.trap && kernel.tile[0] != 1) fail(Fault::program, "{}: int64 sums are made row by row", op);
    for (const int a : shape_.terms) terms_.push_back(a);
    if (length(shape_.depth) > tile(shape_.depth)) terms_.push_back(shape_.depth);
  }

  Emitted run() {
    std::vector<int32_t> grid;
    std::vector<std::pair<int, int64_t>> divided;  // axis and chunk
    int32_t cores = 1;
    for (size_t i = 0; i < kernel_.grid.size(); ++i) {
      const int a = i < shape_.parallel.size() ? shape_.parallel[i] : shape_.depth;
      if (kernel_.grid[i] <= 1) continue;
      grid_[static_cast<size_t>(a)] = static_cast<Id>(grid.size());
      divided.emplace_back(a, plan::matmul_chunk(shape_, a, kernel_.grid[i]));
      grid.push_back(kernel_.grid[i]);
      cores *= kernel_.grid[i];
    }
    KernelBuilder builder("matmul", cores);
    builder_ = &builder;
    ElementProgram elements(builder, context_, shape_.axes, emitted_);
    elements_ = &elements;
    declare();
    builder.nest(grid);
    for (const auto& [axis, chunk] : divided)
      core_[static_cast<size_t>(axis)] =
          builder.core(Bounds::of(0, size(axis)), chunk, grid_[static_cast<size_t>(axis)]);
    range_[static_cast<size_t>(shape_.depth)] = core_[static_cast<size_t>(shape_.depth)];
    tiles(0);
    emitted_.kernel = builder.finish();
    emitted_.locs = builder.locs();
    return std::move(emitted_);
  }

 private:
  struct Side {
    AxisFormal memory;
    MatmulShape::Tile tile;
    Format format = Format::dl16;
    Id share = none;
    size_t level = 0;  ///< inside that many loops
    Id buffer = none;  ///< in the format it is multiplied in
    const program::Loc* loc = nullptr;
    const char* name = "";
  };
  struct Product {
    explicit Product(const graph::Node& n) : node(n) {}
    const graph::Node& node;
    size_t sides[2] = {0, 0};  ///< in sides_
    AxisFormal result;         ///< if it is stored
    Format result_format = Format::dl16;
    bool stored = false, ordered = false;
    Id acc = none;
  };

  int64_t size(int axis) const { return shape_.axes.sizes[static_cast<size_t>(axis)]; }
  int64_t tile(int axis) const {
    return axis == shape_.row     ? kernel_.tile[0]
           : axis == shape_.lane  ? kernel_.tile[1]
           : axis == shape_.depth ? kernel_.tile[2]
                                  : 1;
  }
  /// Elements of one core.
  int64_t length(int axis) const {
    const auto at = std::find(shape_.parallel.begin(), shape_.parallel.end(), axis) - shape_.parallel.begin();
    return plan::matmul_chunk(shape_, axis, axis == shape_.depth ? kernel_.grid.back() : kernel_.grid[at]);
  }
  int32_t split_parts() const { return kernel_.grid.back(); }
  bool split() const { return grid_[static_cast<size_t>(shape_.depth)] != none; }
  const plan::Home& home(graph::Id value) const { return context_.plan.homes[static_cast<size_t>(value)]; }

  void declare() {
    std::vector<int> all(shape_.axes.sizes.size());
    for (size_t a = 0; a < all.size(); ++a) all[a] = static_cast<int>(a);
    uniform_ = split();
    for (size_t p = 0; p < products_.size() && !shape_.empty; ++p) {
      for (int side = 0; side < 2; ++side) {
        if (p > 0 && shape_.shared(side)) {
          products_[p].sides[side] = products_[0].sides[side];
          continue;
        }
        products_[p].sides[side] = sides_.size();
        sides_.push_back(declare_side(side, p, all));
      }
    }
    for (size_t p = 0; p < products_.size(); ++p) declare_result(p);
  }

  Side declare_side(int side, size_t product, std::span<const int> all) {
    Side s;
    s.loc = &products_[product].node.loc;
    s.name = side == 0 ? "a" : "t";
    s.tile = shape_.tile_of(side, product);
    const plan::AxisRef& ref = shape_.operand(side, product);
    const Id copy = shape_.repack_of(side, product);
    const layout::Geometry& geometry =
        copy != none ? context_.plan.repacks[static_cast<size_t>(copy)].geometry : home(ref.value).geometry;
    Emitted::Actual actual;
    (copy != none ? actual.repack : actual.value) = copy != none ? copy : ref.value;
    const int dims[] = {s.tile.outer, s.tile.inner};
    s.memory = add_formal(*builder_, emitted_, program::Direction::in, ref, shape_.axes.sizes, all, dims, geometry,
                          actual, side == 0 ? "x" : "w");
    s.format = geometry.format;
    for (const int a : shape_.parallel) {
      const auto at = static_cast<size_t>(a);
      const bool depends = ref.strides[at] != 0 || a == s.tile.outer || a == s.tile.inner;
      if (depends || grid_[at] == none || shape_.trap) continue;  // garbage of an extra trip could trap
      const auto parts = [&](Id g) { return static_cast<int64_t>(grid_size(g)); };
      if (s.share == none || parts(grid_[at]) > parts(s.share)) s.share = grid_[at];
    }
    uniform_ = uniform_ || s.share != none;
    for (size_t i = 0; i < order_.size() + terms_.size(); ++i) {
      const int a = i < order_.size() ? order_[i] : terms_[i - order_.size()];
      if (ref.strides[static_cast<size_t>(a)] != 0 || a == s.tile.outer || a == s.tile.inner) s.level = i + 1;
    }
    return s;
  }

  void declare_result(size_t product) {
    Product& p = products_[product];
    p.stored = plan::in_memory(home(p.node.results[0]).kind);
    if (!p.stored) return;
    const plan::AxisRef& ref = shape_.axes.nodes[shape_.products[product]].results[0];
    const layout::Geometry& geometry = home(ref.value).geometry;
    const int dims[] = {shape_.row, shape_.lane};
    Emitted::Actual actual;
    actual.value = ref.value;
    p.result = add_formal(*builder_, emitted_, program::Direction::out, ref, shape_.axes.sizes, shape_.parallel, dims,
                          geometry, actual, "y");
    p.result_format = geometry.format;
    p.ordered = must_be_ordered(ref, geometry);
  }

  int32_t grid_size(Id grid) const {
    for (size_t i = 0; i < kernel_.grid.size(); ++i) {
      const int a = i < shape_.parallel.size() ? shape_.parallel[i] : shape_.depth;
      if (grid_[static_cast<size_t>(a)] == grid) return kernel_.grid[i];
    }
    return 1;
  }

  /// Whether tiles of one core may share sticks.
  bool must_be_ordered(const plan::AxisRef& ref, const layout::Geometry& geometry) const {
    const plan::StoreShape store = plan::store_shape(ref, shape_.axes.sizes, shape_.parallel, geometry);
    if (!store.known) return true;
    return store.axis >= 0 && store.tiles_share_sticks(tile(store.axis), size(store.axis));
  }

  void tiles(size_t i) {
    load_at(i);
    if (i == order_.size()) return one_tile();
    loop(order_[i], [&] { tiles(i + 1); });
  }

  void loop(int axis, const std::function<void()>& body) {
    const auto at = static_cast<size_t>(axis);
    const Id core = core_[at];
    const Id before = range_[at];
    // Loops over terms are those in whose first trips the accumulator is overwritten.
    const bool term =
        axis == shape_.depth || std::find(shape_.terms.begin(), shape_.terms.end(), axis) != shape_.terms.end();
    long_loop(
        *builder_, core == none ? Bounds::of(0, size(axis)) : Bounds::within(core), length(axis), tile(axis),
        context_.description.max_trips,
        [&](Id r) {
          range_[at] = r;
          body();
        },
        uniform_ && core != none, term ? &init_ : nullptr);
    range_[at] = before;
  }

  void load_at(size_t level) {
    for (Side& s : sides_) {
      if (shape_.empty || s.level != level) continue;
      const std::vector<int64_t> dims{tile(s.tile.outer), tile(s.tile.inner)};
      builder_->loc(*s.loc);
      const Id loaded = builder_->buffer(s.format, dims, kernel_.slots, s.name);
      builder_->load(builder_->ref(loaded), s.memory.formal, s.memory.entries(range_, shape_.axes.sizes), 0, s.share);
      s.buffer = loaded;
      if (s.format == shape_.compute || shape_.trap) continue;
      s.buffer = builder_->buffer(shape_.compute, dims, kernel_.slots, "c");
      builder_->vector({builder_->ref(s.buffer)}, {builder_->use(builder_->ref(loaded))});
    }
  }

  /// What a clipped trip has of a buffer with these axes: nobody reads the rest.
  BufRef valid(Id buffer, int outer, int inner) const {
    std::vector<program::BufDim> dims(2);
    bool whole = true;
    for (const int axis : {outer, inner}) {
      const Id range = axis < 0 ? none : range_[static_cast<size_t>(axis)];
      if (range == none || tile(axis) == 1 || shape_.trap || always_full(*builder_, range)) continue;
      dims[axis == inner] = box(constant(0), lower::size(range));
      whole = false;
    }
    return whole ? builder_->ref(buffer) : builder_->ref(buffer, std::move(dims));
  }
  BufRef valid_part(Id buffer) const { return valid(buffer, shape_.row, shape_.lane); }

  void one_tile() {
    KernelBuilder& b = *builder_;
    const std::vector<int64_t> dims{kernel_.tile[0], kernel_.tile[1]};
    for (Product& p : products_) {
      b.loc(p.node.loc);
      p.acc = b.buffer(shape_.sum, dims, kernel_.slots, "acc");
      if (shape_.empty || shape_.trap) b.vector({b.ref(p.acc)}, {shape_.sum == Format::f32 ? number(0) : integer(0)});
    }
    init_.clear();
    if (!shape_.empty) add_terms(0);
    if (!split()) return finish_tile();
    const Id g = grid_[static_cast<size_t>(shape_.depth)];
    for (const Product& p : products_) {
      b.loc(p.node.loc);
      b.step(program::PartialSum{valid_part(p.acc), g, false});
    }
    b.when({{program::Compare::Op::eq, coordinate(g), constant(0)}}, [&] { finish_tile(); });
  }

  void add_terms(size_t i) {
    if (i > 0) load_at(order_.size() + i);
    if (i < terms_.size()) return loop(terms_[i], [&] { add_terms(i + 1); });
    for (const Product& p : products_) multiply(p);
  }

  void multiply(const Product& p) {
    KernelBuilder& b = *builder_;
    b.loc(p.node.loc);
    const Side &left = sides_[p.sides[0]], &right = sides_[p.sides[1]];
    const auto operand = [&](const Side& s) {
      BufRef r = valid(s.buffer, s.tile.outer, s.tile.inner);
      r.transposed = s.tile.turned;
      return r;
    };
    if (shape_.trap) {  // [depth, 1] x [depth, lanes], summed over the first dimension
      program::VecExpr product =
          apply(program::VecOp::mul, {b.use(b.ref(left.buffer)), b.use(b.ref(right.buffer))}, true);
      b.reduce(program::Monoid::sum, true, {b.ref(p.acc)}, {b.use(b.ref(p.acc))}, std::move(product), 0);
      return;
    }
    b.matmul(shape_.on_pt, valid_part(p.acc), operand(left), operand(right), init_, !init_.empty());
  }

  /// Stores come last: what they replace has been read by then.
  void finish_tile() {
    for (const Product& p : products_) elements_->provide(p.node.results[0], builder_->ref(p.acc));
    if (kernel_.nodes.size() > products_.size()) {
      Tile t;
      t.axes = {shape_.row, shape_.lane};
      t.range = range_;
      for (const int a : shape_.terms) t.range[static_cast<size_t>(a)] = none;
      t.range[static_cast<size_t>(shape_.depth)] = none;
      t.shape = {kernel_.tile[0], kernel_.tile[1]};
      elements_->emit(1, kernel_.nodes.size(), t, kernel_.slots);
    }
    for (const Product& p : products_)
      if (p.stored) store(p);
  }

  void store(const Product& p) {
    KernelBuilder& b = *builder_;
    b.loc(p.node.loc);
    Id from = p.acc;
    if (p.result_format != shape_.sum) {
      from = b.buffer(p.result_format, {kernel_.tile[0], kernel_.tile[1]}, kernel_.slots, "o");
      b.vector({valid_part(from)}, {b.use(valid_part(p.acc))});
    }
    b.store(p.result.formal, p.result.entries(range_, shape_.axes.sizes), valid_part(from), p.ordered);
  }

  const Context& context_;
  const plan::KernelPlan& kernel_;
  const MatmulShape shape_;
  const std::vector<int> order_;
  std::vector<int> terms_;               ///< axes of loops over terms
  std::vector<Id> range_, core_, grid_;  ///< per axis
  Emitted emitted_;
  KernelBuilder* builder_ = nullptr;
  ElementProgram* elements_ = nullptr;
  std::vector<Side> sides_;  ///< what is loaded
  std::vector<Product> products_;
  bool uniform_ = false;
  std::vector<Id> init_;
};

}  // namespace

std::vector<Emitted> emit_matmul(const Context& context, const plan::KernelPlan& kernel) {
  return one_kernel(Matmul(context, kernel).run());
}

}  // namespace spyre::lower
