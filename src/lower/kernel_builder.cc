#include "lower/kernel_builder.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/rounding.h"
#include "program/conventions.h"
#include "program/limits.h"
#include "program/place.h"
#include "program/vector_rules.h"

namespace spyre::lower {

using IOp = IntExpr::Op;
using program::Reg;
using program::Stmt;
using program::VecExpr;
using program::VecOp;

// -------------------------------------------------------------------------------------------- integer expressions

IntExpr constant(int64_t value) { return IntExpr::of(value); }

namespace {

/// The operation, or its value when both arguments are constants and the result is one.
IntExpr fold(IOp op, IntExpr a, IntExpr b) {
  IntExpr e = IntExpr::binary(op, std::move(a), std::move(b));
  if (const auto value = program::constant_value(e)) return constant(*value);
  return e;
}

}  // namespace

IntExpr operator+(IntExpr a, IntExpr b) {
  if (a.is_constant(0)) return b;
  if (b.is_constant(0)) return a;
  if (a.is_constant() && !b.is_constant()) std::swap(a, b);
  int64_t sum = 0;
  if (b.is_constant() && a.op == IOp::add && a.args[1].is_constant() &&
      !__builtin_add_overflow(a.args[1].value, b.value, &sum)) {
    return std::move(a.args[0]) + constant(sum);
  }
  return fold(IOp::add, std::move(a), std::move(b));
}

IntExpr operator-(IntExpr a, IntExpr b) {
  if (b.is_constant() && b.value != std::numeric_limits<int64_t>::min()) return std::move(a) + constant(-b.value);
  if (a == b) return constant(0);
  return fold(IOp::sub, std::move(a), std::move(b));
}

IntExpr operator*(IntExpr a, int64_t factor) {
  if (factor == 0) return constant(0);
  if (factor == 1) return a;
  return fold(IOp::mul, std::move(a), constant(factor));
}

IntExpr div(IntExpr a, int64_t divisor) {
  if (divisor == 1) return a;
  return fold(IOp::div, std::move(a), constant(divisor));
}

IntExpr mod(IntExpr a, int64_t divisor) {
  if (divisor == 1) return constant(0);
  return fold(IOp::mod, std::move(a), constant(divisor));
}

IntExpr min(IntExpr a, IntExpr b) { return a == b ? a : fold(IOp::min, std::move(a), std::move(b)); }
IntExpr max(IntExpr a, IntExpr b) { return a == b ? a : fold(IOp::max, std::move(a), std::move(b)); }
IntExpr start(Id range) { return IntExpr::leaf(IOp::start, range); }
IntExpr size(Id range) { return IntExpr::leaf(IOp::size, range); }
IntExpr trip(Id range) { return IntExpr::leaf(IOp::trip, range); }
IntExpr coordinate(Id grid) { return IntExpr::leaf(IOp::coordinate, grid); }
IntExpr scalar(Id scalar) { return IntExpr::leaf(IOp::scalar, scalar); }

Bounds Bounds::of(int64_t lo, int64_t hi) { return {constant(lo), constant(hi), none}; }
Bounds Bounds::of(IntExpr lo, IntExpr hi) { return {std::move(lo), std::move(hi), none}; }
Bounds Bounds::within(Id range) { return {program::lo_of(range), program::hi_of(range), range}; }

// ------------------------------------------------------------------------------------------------- entries and boxes

Entry along(Id range) { return span_of(start(range), size(range), 1, range); }
Entry at(IntExpr index) { return span_of(std::move(index), constant(1)); }

Entry span_of(IntExpr base, IntExpr extent, int64_t step, Id range) {
  Entry entry;
  entry.base = std::move(base);
  entry.extent = std::move(extent);
  entry.step = step;
  entry.range = range;
  return entry;
}

Entry indexed(BufRef index, IntExpr lo, IntExpr hi, program::OnOutside outside) {
  Entry entry;
  entry.kind = Entry::Kind::indexed;
  entry.index = std::move(index);
  entry.lo = std::move(lo);
  entry.hi = std::move(hi);
  entry.outside = outside;
  return entry;
}

BufDim all() { return {}; }

BufDim box(IntExpr first, IntExpr size) {
  BufDim dim;
  dim.kind = BufDim::Kind::box;
  dim.first = std::move(first);
  dim.size = std::move(size);
  return dim;
}

// ------------------------------------------------------------------------------------------------ vector expressions

VecExpr number(double value) {
  VecExpr e;
  e.op = VecOp::constant_f;
  e.number = value == value ? value : std::numeric_limits<double>::quiet_NaN();
  return e;
}

VecExpr integer(int64_t value) {
  VecExpr e;
  e.op = VecOp::constant_i;
  e.type = Reg::i32;
  e.integer = value;
  return e;
}

VecExpr integer_of(IntExpr expr) {
  constexpr int64_t least = std::numeric_limits<int32_t>::min(), most = std::numeric_limits<int32_t>::max();
  if (expr.is_constant() && expr.value >= least && expr.value <= most) return integer(expr.value);
  VecExpr e;
  e.op = VecOp::integer;
  e.type = Reg::i32;
  e.expr = std::move(expr);
  return e;
}

VecExpr iota(int dim) {
  VecExpr e;
  e.op = VecOp::iota;
  e.type = Reg::i32;
  e.id = dim;
  return e;
}

VecExpr apply(VecOp op, std::vector<VecExpr> args, bool trap) {
  VecExpr e;
  e.op = op;
  e.trap = trap;
  e.args = std::move(args);
  const program::TypeOrError result = program::result_type(e);
  if (!result.error.empty()) fail(Fault::program, "{}", result.error);
  e.type = result.type;
  return e;
}

VecExpr cast(VecExpr value, Reg type, bool trap) {
  if (value.type == type) return value;
  VecExpr e;
  e.op = VecOp::cast;
  e.type = type;
  e.trap = trap;
  e.args.push_back(std::move(value));
  const program::TypeOrError result = program::result_type(e);
  if (!result.error.empty()) fail(Fault::program, "{}", result.error);
  return e;
}

// ----------------------------------------------------------------------------------------------------------- builder

std::string legal_name(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, program::limits::name_length / 2)) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    out += good ? c : '_';
  }
  if (out.empty() || (out[0] >= '0' && out[0] <= '9')) out.insert(out.begin(), 'v');
  if (!program::is_name(out)) out.insert(out.begin(), 'v');
  return out;
}

std::string unique_name(const std::string& name, std::set<std::string>& taken) {
  if (taken.insert(name).second) return name;
  for (int n = 2;; ++n) {
    std::string next = fmt::format("{}_{}", name, n);
    if (taken.insert(next).second) return next;
  }
}

KernelBuilder::KernelBuilder(std::string_view name, int32_t cores) {
  kernel_.name = legal_name(name);
  kernel_.cores = cores;
}

std::string KernelBuilder::unique(std::string_view name) { return unique_name(legal_name(name), names_); }

program::Block& KernelBuilder::block() {
  if (blocks_.empty()) fail(Fault::program, "kernel {}: a statement before its first nest", kernel_.name);
  return *blocks_.back();
}

Id KernelBuilder::formal(program::Direction direction, Format format, layout::HostView view, layout::Geometry geometry,
                         std::string_view name) {
  program::Symbol symbol;
  symbol.name = unique(name);
  symbol.direction = direction;
  symbol.format = format;
  symbol.view = std::move(view);
  symbol.geometry = std::move(geometry);
  kernel_.formals.push_back(std::move(symbol));
  return static_cast<Id>(kernel_.formals.size()) - 1;
}

Id KernelBuilder::add_scalar(std::string_view name, bool is_float, double lo, double hi) {
  kernel_.scalars.push_back({unique(name), is_float, lo, hi});
  return static_cast<Id>(kernel_.scalars.size()) - 1;
}

void KernelBuilder::loc(const program::Loc& loc) {
  const auto found = std::find(locs_.begin(), locs_.end(), loc);
  loc_ = static_cast<Id>(found - locs_.begin());
  if (found == locs_.end()) locs_.push_back(loc);
}

void KernelBuilder::nest(std::span<const int32_t> grid) {
  program::Nest nest;
  for (const int32_t size : grid) nest.grid.push_back({unique("g"), size});
  kernel_.nests.push_back(std::move(nest));
  blocks_ = {&kernel_.nests.back().body};
  ranges_in_scope_.clear();
}

Id KernelBuilder::add_range(program::Range range, const Bounds& bounds, int64_t by, std::string_view name) {
  range.name = unique(name);
  range.parent = bounds.parent;
  range.lo = bounds.lo;
  range.hi = bounds.hi;
  range.by = by;
  const Id id = static_cast<Id>(kernel_.ranges.size());
  kernel_.ranges.push_back(std::move(range));
  ranges_in_scope_.push_back(id);
  return id;
}

Id KernelBuilder::core(Bounds bounds, int64_t by, Id grid, std::string_view name) {
  program::Range range;
  range.is_core = true;
  range.grid = grid;
  program::Block& to = block();
  const Id id = add_range(std::move(range), bounds, by, name);
  to.emplace_back().node.emplace<program::CoreRange>().range = id;
  return id;
}

void KernelBuilder::enter(program::Block& inner, const std::function<void()>& body) {
  const size_t ranges = ranges_in_scope_.size();
  blocks_.push_back(&inner);
  body();
  blocks_.pop_back();
  ranges_in_scope_.resize(ranges);
}

Id KernelBuilder::loop(Bounds bounds, int64_t by, const std::function<void(Id range)>& body, bool uniform,
                       std::string_view name) {
  program::Range range;
  range.uniform = uniform;
  program::Block& to = block();
  program::For loop;
  const Id id = loop.range = add_range(std::move(range), bounds, by, name);
  enter(loop.body, [&] { body(id); });
  ranges_in_scope_.pop_back();
  to.emplace_back().node.emplace<program::For>(std::move(loop));
  return id;
}

void KernelBuilder::when(program::Condition condition, const std::function<void()>& body) {
  program::Block& to = block();
  program::If guard;
  guard.condition = std::move(condition);
  enter(guard.body, body);
  to.emplace_back().node.emplace<program::If>(std::move(guard));
}

Id KernelBuilder::buffer(Format format, std::vector<int64_t> shape, int32_t slots, std::string_view name) {
  program::Buffer buffer;
  buffer.name = unique(name);
  buffer.format = format;
  buffer.shape = std::move(shape);
  buffer.slots = slots;
  const Id id = static_cast<Id>(kernel_.buffers.size());
  kernel_.buffers.push_back(std::move(buffer));
  declared_under_.push_back(ranges_in_scope_);
  if (blocks_.empty()) {
    kernel_.scope.push_back(id);
  } else {
    block().emplace_back().node.emplace<program::Declare>().buffer = id;
  }
  return id;
}

BufRef KernelBuilder::ref(Id buffer) const {
  BufRef r;
  r.buffer = buffer;
  return r;
}

BufRef KernelBuilder::ref(Id buffer, std::span<const Id> ranges) const {
  BufRef r = ref(buffer);
  r.box.resize(kernel_.buffers[buffer].shape.size());
  bool whole = true;
  for (size_t d = 0; d < ranges.size() && d < r.box.size(); ++d) {
    if (ranges[d] == none) continue;
    r.box[d] = program::position_of(ranges[d], kernel_, declared_under_[buffer]);
    whole = false;
  }
  if (whole) r.box.clear();
  return r;
}

BufRef KernelBuilder::ref(Id buffer, std::vector<BufDim> box) const {
  BufRef r = ref(buffer);
  r.box = std::move(box);
  return r;
}

const program::Buffer& KernelBuilder::buffer_of(Id buffer) const { return kernel_.buffers[buffer]; }
const program::Range& KernelBuilder::range_of(Id range) const { return kernel_.ranges[range]; }
const program::Symbol& KernelBuilder::formal_of(Id formal) const { return kernel_.formals[formal]; }

VecExpr KernelBuilder::use(BufRef ref) const {
  VecExpr e;
  e.op = VecOp::operand;
  e.type = program::register_of(kernel_.buffers[ref.buffer].format);
  e.ref = std::move(ref);
  return e;
}

VecExpr KernelBuilder::use_scalar(Id scalar) const {
  VecExpr e;
  e.op = VecOp::scalar;
  e.type = kernel_.scalars[scalar].is_float ? Reg::f32 : Reg::i32;
  e.id = scalar;
  return e;
}

// ------------------------------------------------------------------------------------------------------------- steps

void KernelBuilder::step(program::Op op) {
  program::Step step;
  step.op = std::move(op);
  step.loc = loc_;
  block().emplace_back().node.emplace<program::Step>(std::move(step));
}

void KernelBuilder::load(BufRef to, Id formal, std::vector<Entry> entries, double fill, Id share) {
  step(program::Load{std::move(to), {formal, std::move(entries)}, fill, share});
}

void KernelBuilder::store(Id formal, std::vector<Entry> entries, BufRef from, bool ordered) {
  program::Store store;
  store.to = {formal, std::move(entries)};
  store.from = std::move(from);
  store.ordered = ordered;
  step(std::move(store));
}

void KernelBuilder::vector(std::vector<BufRef> to, std::vector<VecExpr> value) {
  step(program::Vector{std::move(to), std::move(value)});
}

void KernelBuilder::reduce(program::Monoid monoid, bool trap, std::vector<BufRef> state, std::vector<VecExpr> init,
                           VecExpr value, int dim) {
  step(program::Reduce{monoid, trap, std::move(state), std::move(init), std::move(value), dim});
}

void KernelBuilder::matmul(bool on_pt, BufRef acc, BufRef a, BufRef b, std::vector<Id> init_loops, bool accumulate) {
  program::MatMul m;
  m.on_pt = on_pt;
  m.acc = std::move(acc);
  m.a = std::move(a);
  m.b = std::move(b);
  m.accumulate = accumulate;
  m.init = std::move(init_loops);
  step(std::move(m));
}

program::Kernel KernelBuilder::finish() {
  program::place(kernel_);
  blocks_.clear();
  return std::move(kernel_);
}

void long_loop(KernelBuilder& builder, Bounds bounds, int64_t length, int64_t by, int64_t max_trips,
               const std::function<void(Id range)>& body, bool uniform, std::vector<Id>* levels) {
  const int64_t trips = base::ceil_div(length, by);
  const int64_t outer = std::max<int64_t>(1, base::ceil_div(trips, max_trips)) * by;  // what one trip here covers
  builder.loop(
      std::move(bounds), outer,
      [&](Id range) {
        if (levels) levels->push_back(range);
        if (trips <= max_trips) return body(range);
        long_loop(builder, Bounds::within(range), outer, by, max_trips, body, uniform, levels);
      },
      uniform);
}

}  // namespace spyre::lower
