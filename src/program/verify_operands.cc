// Boxes of operands: inside their buffers for all values, and how the boxes of one step agree.
#include <algorithm>

#include "program/conventions.h"
#include "program/verify_context.h"

namespace spyre::program::verifier {
namespace {

Extent extent_from(const Context& c, const IntExpr& size, int64_t limit) {
  Extent e;
  e.form = Affine::of(size);
  const Interval v = c.bounds(e.form);
  if (v.lo < 0) c.fail("a size can be {}, less than 0", v.lo);
  if (v.hi > limit) c.fail("a size can be {}, more than {}", v.hi, limit);
  e.max = v.hi;
  e.unclipped = static_maximum(size, c.kernel).value_or(v.hi);
  e.single = size.is_constant(1);
  return e;
}

/// The box of `a` and `b` together, where a size-1 one gives way. False when they don't agree.
bool join(Extent& a, const Extent& b) {
  if (b.single || a.single) {
    if (a.single) a = b;
    return true;
  }
  if (a.form.equals(b.form)) return true;
  if (a.constant() == b.constant()) return false;
  const Extent& fixed = a.constant() ? a : b;
  const Extent& clipped = a.constant() ? b : a;
  if (fixed.max != clipped.unclipped && fixed.max != clipped.max) return false;
  a = Extent(clipped);  // the step works on the valid size
  return true;
}

std::string text(const std::vector<Extent>& box) {
  std::string s;
  for (const Extent& e : box) s += fmt::format("{}{}{}", s.empty() ? "" : ",", e.constant() ? "" : "<=", e.max);
  return "[" + s + "]";
}

}  // namespace

std::vector<Extent> extents_of(const Context& c, const BufRef& ref) {
  if (ref.buffer < 0 || ref.buffer >= static_cast<Id>(c.kernel.buffers.size()))
    c.fail("buffer {} does not exist", ref.buffer);
  const Buffer& b = c.kernel.buffers[ref.buffer];
  if (!c.buffer_visible[ref.buffer]) c.fail("buffer {} is used out of its scope", b.name);
  if (!ref.box.empty() && ref.box.size() != b.shape.size())
    c.fail("operand of buffer {} names {} positions for {} dimensions", b.name, ref.box.size(), b.shape.size());
  std::vector<Extent> extents(b.shape.size());
  for (size_t d = 0; d < b.shape.size(); ++d) {
    Extent& e = extents[d];
    const bool boxed = !ref.box.empty() && ref.box[d].kind != BufDim::Kind::whole;
    if (!boxed) {
      e.form = Affine::of(b.shape[d]);
      e.max = e.unclipped = b.shape[d];
      e.single = b.shape[d] == 1;
      continue;
    }
    const BufDim& dim = ref.box[d];
    if (dim.kind != BufDim::Kind::box) c.fail("operand of buffer {} has an unknown kind of position", b.name);
    c.check(dim.first);
    c.check(dim.size);
    if (dim.range != none) {
      if (dim.range < 0 || dim.range >= static_cast<Id>(c.ranges.size()) || !c.ranges[dim.range].visible)
        c.fail("operand of buffer {} names a range that is not in scope", b.name);
    }
    e = extent_from(c, dim.size, b.shape[d]);
    e.single = e.single || b.shape[d] == 1;
    const Affine first = Affine::of(dim.first);
    const Id nonempty = range_of_size(dim.size);
    const int64_t low = c.bounds(first, nonempty).lo, high = c.bounds(first.plus(e.form), nonempty).hi;
    if (e.max > 0 && (low < 0 || high > b.shape[d]))
      c.fail("operand of buffer {} can reach positions {}..{} of dimension {}, which has {}", b.name, low, high, d,
             b.shape[d]);
  }
  if (ref.transposed) {
    if (extents.size() < 2) c.fail("buffer {} has one dimension and cannot be transposed", b.name);
    std::swap(extents[extents.size() - 2], extents[extents.size() - 1]);
  }
  return extents;
}

Extent extent_of(const Context& c, const Entry& entry) {
  if (entry.kind == Entry::Kind::affine) {
    if (entry.step < 1 || entry.step > value_limit) c.fail("an access has step {}; it must be at least 1", entry.step);
    c.check(entry.base);
    c.check(entry.extent);
    if (entry.range != none &&
        (entry.range < 0 || entry.range >= static_cast<Id>(c.ranges.size()) || !c.ranges[entry.range].visible))
      c.fail("an access names a range that is not in scope");
    const Extent e = extent_from(c, entry.extent, value_limit);
    c.bounds(Affine::of(entry.base).plus(e.form, entry.step));  // the last index does not overflow
    return e;
  }
  if (entry.kind != Entry::Kind::indexed) c.fail("an access has an unknown kind of entry");
  if (entry.outside > OnOutside::fill) c.fail("an access has an unknown rule for indices outside its bounds");
  const auto box = extents_of(c, entry.index);
  const Buffer& b = c.kernel.buffers[entry.index.buffer];
  if (b.format != Format::i32) c.fail("index buffer {} is {}; indices are i32", b.name, base::format_name(b.format));
  if (entry.index.transposed) c.fail("index buffer {} is transposed", b.name);
  for (size_t d = 0; d + 1 < box.size(); ++d)
    if (box[d].max > 1) c.fail("index buffer {} has more than one row", b.name);
  c.check(entry.lo);
  c.check(entry.hi);
  return box.back();
}

std::vector<int> tile_dims(const Context& c, const MemRef& ref, const BufRef& tile) {
  try {
    return tile_dimensions(ref, tile, c.kernel);
  } catch (const Error& error) {
    c.fail("{}", error.what());
  }
}

Id range_of_size(const IntExpr& size) {
  if (size.op == IntExpr::Op::size) return size.id;
  if (size.op != IntExpr::Op::min) return none;
  const Id first = range_of_size(size.args[0]);
  return first != none ? first : range_of_size(size.args[1]);
}

std::vector<Extent> vector_box(const Context& c, const Step& step) {
  std::vector<const BufRef*> operands, results;
  if (const auto* v = std::get_if<Vector>(&step.op)) {
    for (const VecExpr& e : v->value) for_each_operand(e, operands);
    for (const BufRef& r : v->to) results.push_back(&r);
  } else if (const auto* r = std::get_if<Reduce>(&step.op)) {
    for_each_operand(r->value, operands);
  } else if (const auto* s = std::get_if<Scan>(&step.op)) {
    for_each_operand(s->value, operands);
    results.push_back(&s->to);
  }
  std::vector<Extent> box;
  for (const BufRef* ref : results) {
    const auto extents = extents_of(c, *ref);
    if (box.empty()) {
      box = extents;
      continue;
    }
    bool same = extents.size() == box.size();
    for (size_t d = 0; same && d < box.size(); ++d) same = box[d].form.equals(extents[d].form);
    if (!same) c.fail("its results {} and {} have different boxes", text(box), text(extents));
  }
  const auto result = box;
  for (const BufRef* ref : operands) {
    auto extents = extents_of(c, *ref);
    if (extents.size() > box.size() && !results.empty())
      c.fail("operand {} has {} dimensions, its result {}", c.buffer_name(ref->buffer), extents.size(), box.size());
    if (box.size() < extents.size()) {
      Extent one;
      one.form = Affine::of(1);
      one.single = true;
      box.insert(box.begin(), extents.size() - box.size(), one);
    }
    const size_t shift = box.size() - extents.size();
    for (size_t d = 0; d < extents.size(); ++d) {
      Extent& joined = box[shift + d];
      const bool grows = !results.empty() && result[shift + d].single && !extents[d].single;
      if (grows || !join(joined, extents[d]))
        c.fail("operand {} has box {}, which does not broadcast to {}", c.buffer_name(ref->buffer), text(extents),
               text(results.empty() ? box : result));
    }
  }
  if (box.empty()) c.fail("its value names no buffer, so it has no box");
  return box;
}

}  // namespace spyre::program::verifier
