#include "program/verify_context.h"

#include <algorithm>

#include "program/conventions.h"

namespace spyre::program::verifier {

using Op = IntExpr::Op;

Context::Context(const Program& p, const Kernel& k, const device::Description& d)
    : program(p),
      kernel(k),
      description(d),
      ranges(k.ranges.size()),
      buffer_visible(k.buffers.size(), false),
      writers(k.buffers.size()) {
  leaves.start.resize(k.ranges.size());
  leaves.size.resize(k.ranges.size());
  leaves.trip.resize(k.ranges.size());
  for (const Scalar& s : k.scalars)
    leaves.scalar.push_back(s.is_float ? Interval{} : Interval{static_cast<int64_t>(s.lo), static_cast<int64_t>(s.hi)});
}

void Context::enter_nest(Id id) {
  nest_id_ = id;
  leaves.coordinate.clear();
  if (id == none) return;
  for (const GridDim& g : nest().grid) leaves.coordinate.push_back({0, g.size - 1});
  for (RangeFacts& r : ranges) r.visible = false;
}

void Context::revisit_nest(Id id) {
  enter_nest(id);
  for (RangeFacts& r : ranges) r.visible = r.declared;
  buffer_visible.assign(buffer_visible.size(), true);
}

Interval Context::check(const IntExpr& e) const {
  try {
    check_expression_size(e);
    for_each_leaf(e, [&](const IntExpr& l) {
      if (l.op == Op::start || l.op == Op::size || l.op == Op::trip) {
        if (l.id < 0 || l.id >= static_cast<Id>(ranges.size()))
          throw Error(Fault::program, "an expression names a range that does not exist");
        if (!ranges[l.id].visible)
          throw Error(Fault::program, "range " + range_name(l.id) + " is used out of its scope");
        if (l.op == Op::trip && kernel.ranges[l.id].is_core)
          throw Error(Fault::program, "core range " + range_name(l.id) + " has no trips");
      }
      if (l.op == Op::scalar && l.id >= 0 && l.id < static_cast<Id>(kernel.scalars.size()) &&
          kernel.scalars[l.id].is_float)
        throw Error(Fault::program, "scalar " + kernel.scalars[l.id].name + " is f32; an index needs an i32 one");
    });
    const Interval v = evaluate(e, leaves);
    expand(Affine::of(e));  // no coefficient overflows later
    return v;
  } catch (const Error& error) {
    fail("{}", error.what());
  }
}

Affine Context::expand(const Affine& form) const {
  Affine a = form;
  for (;;) {
    Id inner = none;
    for (const auto& t : a.terms)
      if (t.atom.op == Op::start && (inner == none || ranges[t.atom.id].order > ranges[inner].order)) inner = t.atom.id;
    if (inner == none) return a;
    const Range& r = kernel.ranges[inner];
    const IntExpr step = r.is_core ? IntExpr::leaf(Op::coordinate, r.grid) : IntExpr::leaf(Op::trip, inner);
    a = a.substitute(Op::start, inner, ranges[inner].lo.plus(Affine::of(step), r.by));
  }
}

Interval Context::bounds(const Affine& form, Id nonempty, const LeafValues& values) const {
  int budget = 200;
  return bounds(form, nonempty, values, budget);
}

Interval Context::bounds(const Affine& form, Id nonempty, const LeafValues& values, int& budget) const {
  --budget;
  Id inner = none;
  for (const auto& t : form.terms)
    if ((t.atom.op == Op::start || t.atom.op == Op::size) &&
        (inner == none || ranges[t.atom.id].order > ranges[inner].order))
      inner = t.atom.id;
  if (inner == none) return form.bounds(values);
  const int64_t c = form.coefficient(Op::start, inner), s = form.coefficient(Op::size, inner);
  const Interval plain = form.bounds(values);
  if (c == 0) {  // hide it: outer ranges may still cancel
    if (budget < 0) return plain;
    const Interval rest = bounds(form.substitute(Op::size, inner, Affine::of(0)), nonempty, values, budget);
    const Interval sum = rest + Interval::point(s) * values.size[inner];
    return {std::max(sum.lo, plain.lo), std::min(sum.hi, plain.hi)};
  }
  if (budget < 0) return plain;
  const Range& r = kernel.ranges[inner];
  const RangeFacts& f = ranges[inner];
  const IntExpr step = r.is_core ? IntExpr::leaf(Op::coordinate, r.grid) : IntExpr::leaf(Op::trip, inner);
  Interval b = bounds(form.substitute(Op::start, inner, f.lo.plus(Affine::of(step), r.by)), nonempty, values, budget);
  b = {std::max(b.lo, plain.lo), std::min(b.hi, plain.hi)};
  // start + size = end <= hi, where the range is not empty
  const bool starts_inside = inner == nonempty || (!r.is_core && !r.uniform) || values.size[inner].lo >= 1;
  if (c == s && starts_inside) {
    const Affine ended = form.substitute(Op::size, inner, Affine::of(0)).substitute(Op::start, inner, f.hi);
    const Interval e = bounds(ended, nonempty, values, budget);
    if (c > 0)
      b.hi = std::min(b.hi, e.hi);
    else
      b.lo = std::max(b.lo, e.lo);
  }
  if (b.lo > b.hi) b.lo = b.hi;  // nothing is left: an empty range
  return b;
}

DimMask Context::dims_of(const IntExpr& e) const {
  DimMask dims = 0;
  for_each_leaf(e, [&](const IntExpr& l) {
    if (l.op == Op::coordinate) dims |= DimMask{1} << l.id;
    if (l.op == Op::start) dims |= ranges[l.id].start_dims;
    if (l.op == Op::size) dims |= ranges[l.id].dims;
  });
  return dims;
}

void Context::leaf_values(Id id, LeafValues& v) const {
  const Range& r = kernel.ranges[id];
  const RangeFacts& f = ranges[id];
  const Interval lo = bounds(f.lo, none, v), hi = bounds(f.hi, none, v);
  const Interval length = bounds(f.hi.minus(f.lo), none, v);
  const Interval by = Interval::point(r.by);
  int64_t first_room = length.lo, last_room = length.hi;  // HI - start over all coordinates or trips
  if (r.is_core) {
    const Interval c = v.coordinate[r.grid];
    v.trip[id] = Interval::point(0);
    v.start[id] = lo + by * c;
    first_room = (Interval::point(length.lo) - by * Interval::point(c.hi)).lo;
    last_room = (Interval::point(length.hi) - by * Interval::point(c.lo)).hi;
    v.size[id] = {std::clamp<int64_t>(first_room, 0, r.by), std::clamp<int64_t>(last_room, 0, r.by)};
    return;
  }
  const int64_t trips = trips_of(r, kernel, length.hi);
  const int64_t last = std::max<int64_t>(0, trips - 1);
  v.trip[id] = {0, last};
  v.start[id] = lo + by * v.trip[id];
  const bool extra = r.uniform && ceil_div(std::max<int64_t>(0, length.lo), r.by) < trips;
  if (!r.uniform && v.start[id].hi >= hi.hi && hi.hi - 1 >= v.start[id].lo) v.start[id].hi = hi.hi - 1;
  v.size[id] = {extra ? 0 : 1, std::clamp<int64_t>(length.hi, extra ? 0 : 1, r.by)};
  if (!extra && length.is_point() && length.lo >= r.by && length.lo % r.by == 0) v.size[id] = by;
}

void Context::declare_range(Id id) {
  const Range& r = kernel.ranges[id];
  RangeFacts& f = ranges[id];
  if (r.by < 1 || r.by > value_limit) fail("range {} goes by {}; it must be at least 1", range_name(id), r.by);
  if (f.declared) fail("range {} is declared twice", range_name(id));
  check(r.lo);
  check(r.hi);
  if (r.is_core) {
    if (r.grid < 0 || r.grid >= static_cast<Id>(nest().grid.size()))
      fail("core range {} names grid dimension {} of {}", range_name(id), r.grid, nest().grid.size());
    if (r.uniform) fail("core range {} is uniform, which only loops can be", range_name(id));
  }
  f.lo = Affine::of(r.lo);
  f.hi = Affine::of(r.hi);
  if (r.parent != none) {
    const bool known = r.parent >= 0 && r.parent < static_cast<Id>(ranges.size());
    if (!known || !ranges[r.parent].visible) fail("range {} divides a range that is not in scope", range_name(id));
    const Affine start = Affine::of(IntExpr::leaf(Op::start, r.parent));
    const Affine end = start.plus(Affine::of(IntExpr::leaf(Op::size, r.parent)));
    if (!f.lo.equals(start) || !f.hi.equals(end))
      fail("range {} is written as range {} but has other bounds", range_name(id), range_name(r.parent));
  }
  f.declared = f.visible = true;
  f.nest = nest_id_;
  f.order = ++next_order_;
  f.start_dims = dims_of(r.lo);
  f.dims = f.start_dims | dims_of(r.hi);
  if (r.is_core) {
    f.start_dims |= DimMask{1} << r.grid;
    f.dims |= DimMask{1} << r.grid;
  }
  try {
    leaf_values(id, leaves);
    const Interval length = bounds(f.hi.minus(f.lo));
    if (!r.is_core) {
      f.max_trips = trips_of(r, kernel, length.hi);
      f.min_trips = trips_of(r, kernel, length.lo);
      if (r.uniform && r.parent == none) {
        DimMask length_dims = 0;
        for (const auto& t : f.hi.minus(f.lo).terms) length_dims |= dims_of(t.atom);
        if (length_dims != 0)
          fail("uniform loop {} has a length that differs between cores and divides no range: its trips are not known",
               range_name(id));
      }
      if (f.max_trips > description.max_trips)
        fail("loop {} makes up to {} trips; at most {} are allowed, use a larger step", range_name(id), f.max_trips,
             description.max_trips);
    }
    const Interval end = leaves.start[id] + leaves.size[id] + Interval::point(r.by);  // as k.last computes it
    (void)end;
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.rfind("kernel", 0) == 0) throw;
    fail("range {}: {}", range_name(id), text);
  }
}

std::string Context::range_name(Id id) const {
  if (id < 0 || id >= static_cast<Id>(kernel.ranges.size())) return fmt::format("#{}", id);
  return kernel.ranges[id].name;
}
std::string Context::buffer_name(Id id) const {
  if (id < 0 || id >= static_cast<Id>(kernel.buffers.size())) return fmt::format("#{}", id);
  return kernel.buffers[id].name;
}
std::string Context::formal_name(Id id) const {
  if (id < 0 || id >= static_cast<Id>(kernel.formals.size())) return fmt::format("#{}", id);
  return kernel.formals[id].name;
}

std::string Context::where() const { return step_ ? where(*step_) : fmt::format("kernel '{}'", kernel.name); }

std::string Context::where(const Step& step) const {
  const char* const names[] = {"ld",       "st",         "pt", "sfp",  "sfp.red", "sfp.scan",
                               "sfp.sort", "sfp.gather", "mv", "ring", "psum",    "fence"};
  std::string to, from;
  auto append = [](std::string& list, const std::string& name) { list += (list.empty() ? "" : ", ") + name; };
  const MemRef* memory = memory_of(step);
  if (memory) append(std::holds_alternative<Store>(step.op) ? to : from, formal_name(memory->symbol));
  for (const Use& u : uses_of(step)) append(u.writes ? to : from, buffer_name(u.ref->buffer));
  std::string name = names[step.op.index()];
  if (const auto* m = std::get_if<MatMul>(&step.op); m && !m->on_pt) name = "sfp.mm";
  if (const auto* s = std::get_if<Sort>(&step.op))
    name = s->kind == Sort::Kind::merge ? "sfp.merge" : s->kind == Sort::Kind::topk ? "sfp.topk" : "sfp.sort";
  if (const auto* g = std::get_if<GatherScatter>(&step.op); g && g->scatter) name = "sfp.scatter";
  if (const auto* f = std::get_if<Fence>(&step.op); f && f->grid != none) name = "barrier";
  std::string text = fmt::format("kernel '{}', {}", kernel.name, name);
  if (!to.empty()) text += " " + to;
  if (!from.empty()) text += (to.empty() ? " " : " = ") + from;
  if (step.loc >= 0 && step.loc < static_cast<Id>(program.locs.size()))
    text += fmt::format(" ({} {})", program.locs[step.loc].op, program.locs[step.loc].source);
  return text;
}

}  // namespace spyre::program::verifier
