#include "timing/affine.h"

#include <algorithm>

#include "base/error.h"

namespace spyre::timing {

using program::IntExpr;
using IntOp = IntExpr::Op;

namespace {

bool same_terms(const Affine& a, const Affine& b) {
  if (a.constant != b.constant || a.terms.size() != b.terms.size()) return false;
  for (size_t i = 0; i < a.terms.size(); ++i) {
    const Term &s = a.terms[i], &t = b.terms[i];
    if (s.kind != t.kind || s.id != t.id || s.factor != t.factor) return false;
  }
  return true;
}

int64_t apply(IntOp op, int64_t a, int64_t b) {
  switch (op) {
    case IntOp::mul:
      return a * b;
    case IntOp::min:
      return std::min(a, b);
    case IntOp::max:
      return std::max(a, b);
    case IntOp::div:
      return floor_div(a, b);
    default:
      return a - floor_div(a, b) * b;
  }
}

}  // namespace

Affine Expressions::sum(const Affine& a, const Affine& b, int64_t factor) {
  Affine r = a;
  r.constant += factor * b.constant;
  for (const Term& t : b.terms) {
    const auto same =
        std::find_if(r.terms.begin(), r.terms.end(), [&](const Term& s) { return s.kind == t.kind && s.id == t.id; });
    if (same == r.terms.end()) {
      r.terms.push_back({t.kind, t.id, factor * t.factor});
    } else {
      same->factor += factor * t.factor;
      if (same->factor == 0) r.terms.erase(same);
    }
  }
  return r;
}

Affine Expressions::opaque(IntOp op, Affine a, Affine b) {
  if (a.is_constant() && b.is_constant()) return {apply(op, a.constant, b.constant), {}};
  for (size_t i = 0; i < opaque_.size(); ++i) {
    const Opaque& o = opaque_[i];
    if (o.op == op && same_terms(o.a, a) && same_terms(o.b, b)) return leaf(Leaf::opaque, static_cast<Id>(i));
  }
  opaque_.push_back({op, std::move(a), std::move(b)});
  return leaf(Leaf::opaque, static_cast<Id>(opaque_.size() - 1));
}

Affine Expressions::of(const IntExpr& e) {
  switch (e.op) {
    case IntOp::constant:
      return {e.value, {}};
    case IntOp::start:
      return start(e.id);
    case IntOp::size:
      return leaf(Leaf::size, e.id);
    case IntOp::trip:
      return leaf(Leaf::trip, e.id);
    case IntOp::coordinate:
      return leaf(Leaf::coordinate, e.id);
    case IntOp::scalar:
      return leaf(Leaf::scalar, e.id);
    default:
      break;
  }
  if (e.args.size() != 2) fail(Fault::program, "an expression has {} arguments, expected 2", e.args.size());
  const Affine a = of(e.args[0]), b = of(e.args[1]);
  switch (e.op) {
    case IntOp::add:
      return sum(a, b, 1);
    case IntOp::sub:
      return sum(a, b, -1);
    case IntOp::mul:
      if (b.is_constant()) return sum({}, a, b.constant);
      if (a.is_constant()) return sum({}, b, a.constant);
      return opaque(IntOp::mul, a, b);
    case IntOp::div:
    case IntOp::mod:
      if (!b.is_constant() || b.constant <= 0)
        fail(Fault::program, "division by something other than a positive constant");
      return opaque(e.op, a, b);
    default:
      return opaque(e.op, a, b);
  }
}

Affine Expressions::start(Id range) {
  const program::Range& r = kernel_.ranges.at(range);
  const Affine lo = r.parent != program::none ? start(r.parent) : of(r.lo);
  return r.is_core ? sum(lo, leaf(Leaf::coordinate, r.grid, r.by), 1) : sum(lo, leaf(Leaf::trip, range, r.by), 1);
}

Affine Expressions::extent(Id range) {
  const program::Range& r = kernel_.ranges.at(range);
  if (r.parent != program::none) return leaf(Leaf::size, r.parent);
  return sum(of(r.hi), of(r.lo), -1);
}

int64_t Expressions::value(const Affine& a, const Values& v) const {
  int64_t r = a.constant;
  for (const Term& t : a.terms) {
    int64_t x = 0;
    switch (t.kind) {
      case Leaf::trip:
        x = v.trip[t.id];
        break;
      case Leaf::size:
        x = v.size[t.id];
        break;
      case Leaf::coordinate:
        x = v.coordinate[t.id];
        break;
      case Leaf::scalar:
        x = v.scalar[t.id];
        break;
      case Leaf::opaque: {
        const Opaque& o = opaque_[t.id];
        x = apply(o.op, value(o.a, v), value(o.b, v));
        break;
      }
    }
    r += t.factor * x;
  }
  return r;
}

Interval Expressions::bounds(const Affine& a, const Bounds& b) const {
  Interval r{a.constant, a.constant};
  for (const Term& t : a.terms) {
    Interval x;
    switch (t.kind) {
      case Leaf::trip:
        x = b.trip[t.id];
        break;
      case Leaf::size:
        x = b.size[t.id];
        break;
      case Leaf::coordinate:
        x = b.coordinate[t.id];
        break;
      case Leaf::scalar:
        x = {(*b.scalar)[t.id], (*b.scalar)[t.id]};
        break;
      case Leaf::opaque: {
        const Opaque& o = opaque_[t.id];
        const Interval p = bounds(o.a, b), q = bounds(o.b, b);
        switch (o.op) {
          case IntOp::mul: {
            const auto [lo, hi] = std::minmax({p.lo * q.lo, p.lo * q.hi, p.hi * q.lo, p.hi * q.hi});
            x = {lo, hi};
            break;
          }
          case IntOp::min:
            x = {std::min(p.lo, q.lo), std::min(p.hi, q.hi)};
            break;
          case IntOp::max:
            x = {std::max(p.lo, q.lo), std::max(p.hi, q.hi)};
            break;
          case IntOp::div:
            x = {floor_div(p.lo, q.lo), floor_div(p.hi, q.lo)};
            break;
          default:
            x = {0, q.lo - 1};
            if (floor_div(p.lo, q.lo) == floor_div(p.hi, q.lo))
              x = {apply(IntOp::mod, p.lo, q.lo), apply(IntOp::mod, p.hi, q.lo)};
        }
        break;
      }
    }
    r.lo += t.factor * (t.factor > 0 ? x.lo : x.hi);
    r.hi += t.factor * (t.factor > 0 ? x.hi : x.lo);
  }
  return r;
}

}  // namespace spyre::timing
