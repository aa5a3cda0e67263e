// Oracle: what a program means, element by element, in double precision: no lanes, no layouts, no slots, no order but
// that of the text. Slow and simple, for tests. Its values are rounded where the contract says a value is held in a
// format.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "card/elements.h"
#include "program/conventions.h"
#include "program/interval.h"
#include "program/tree.h"

namespace spyre::card {

class Oracle {
 public:
  using Index = std::vector<int64_t>;

  /// `storage`: by program symbol, the values of all its storage elements; changed by run(). Scalars by program scalar.
  Oracle(const program::Program& p, std::vector<std::vector<double>>& storage, std::vector<double> scalars)
      : p_(p), storage_(storage), scalars_(std::move(scalars)) {}

  void run() {
    for (const auto& call : p_.calls) {
      call_ = &call;
      k_ = &p_.kernels[call.kernel];
      cores_.clear();
      for (int32_t id = 0; id < k_->cores; ++id) {
        CoreState c;
        c.id = id;
        for (auto* v : {&c.values.start, &c.values.size, &c.values.trip}) v->resize(k_->ranges.size());
        for (auto s : call.scalars) c.values.scalar.push_back(point(static_cast<int64_t>(scalars_[s])));
        c.buffers.resize(k_->buffers.size());
        cores_.push_back(std::move(c));
      }
      std::vector<CoreState*> all;
      for (auto& c : cores_) {
        all.push_back(&c);
        for (auto b : k_->scope) declare(c, b);
      }
      for (const auto& nest : k_->nests) {
        nest_ = &nest;
        std::vector<CoreState*> active(all.begin(), all.begin() + nest.cores());
        for (auto* c : active) {
          int64_t rest = c->id;
          c->values.coordinate.resize(nest.grid.size());
          for (size_t g = nest.grid.size(); g-- > 0; rest /= nest.grid[g].size)
            c->values.coordinate[g] = point(rest % nest.grid[g].size);
        }
        block(nest.body, active);
      }
    }
  }

 private:
  using Id = program::Id;
  using BufRef = program::BufRef;
  using VecExpr = program::VecExpr;
  using VecOp = program::VecOp;
  struct CoreState {
    int32_t id = 0;
    program::LeafValues values;
    std::vector<std::vector<double>> buffers;
  };

  static program::Interval point(int64_t v) { return program::Interval::point(v); }
  static int64_t eval(const program::IntExpr& e, const CoreState& c) { return program::evaluate(e, c.values).lo; }
  static double held(double v, Format f) {
    const uint32_t bits = encode(v, f);
    std::byte raw[4];
    std::memcpy(raw, &bits, 4);
    if (is_float(f)) {
      float out;
      load_f32(raw, f, 1, &out, 1);
      return out;
    }
    int32_t out;
    load_i32(raw, f, 1, &out, 1);
    return out;
  }
  static uint32_t encode(double v, Format f) {
    std::byte raw[4] = {};
    if (is_float(f)) {
      const auto x = static_cast<float>(v);
      store_f32(&x, raw, f, 1, 1);
    } else {
      const auto x = static_cast<int32_t>(v);
      store_i32(&x, raw, f, 1, 1);
    }
    uint32_t bits;
    std::memcpy(&bits, raw, 4);
    return bits;
  }

  void declare(CoreState& c, Id b) {
    int64_t n = 1;
    for (int64_t s : k_->buffers[b].shape) n *= s;
    c.buffers[b].assign(static_cast<size_t>(n), 77777.0);  // nobody may read it
  }

  // ---- operands: sizes and elements in the (transposed) order of the operand

  Index sizes(const BufRef& r, const CoreState& c) const {
    Index s = k_->buffers[r.buffer].shape;
    for (size_t d = 0; d < r.box.size(); ++d)
      if (r.box[d].kind == program::BufDim::Kind::box) s[d] = eval(r.box[d].size, c);
    if (r.transposed) std::swap(s[s.size() - 1], s[s.size() - 2]);
    return s;
  }
  std::vector<bool> singles(const BufRef& r) const {
    std::vector<bool> s;
    const auto& shape = k_->buffers[r.buffer].shape;
    for (size_t d = 0; d < shape.size(); ++d)
      s.push_back(shape[d] == 1 ||
                  (!r.box.empty() && r.box[d].kind == program::BufDim::Kind::box && r.box[d].size.is_constant(1)));
    if (r.transposed) {
      const bool last = s.back();
      s.back() = s[s.size() - 2];
      s[s.size() - 2] = last;
    }
    return s;
  }
  double& at(const BufRef& r, CoreState& c, Index i) const {
    const auto& shape = k_->buffers[r.buffer].shape;
    if (r.transposed) std::swap(i[i.size() - 1], i[i.size() - 2]);
    int64_t o = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t p = i[d];
      if (!r.box.empty() && r.box[d].kind == program::BufDim::Kind::box) p += eval(r.box[d].first, c);
      if (p < 0 || p >= shape[d]) throw std::out_of_range("oracle: " + k_->buffers[r.buffer].name);
      o = o * shape[d] + p;
    }
    return c.buffers[r.buffer].at(static_cast<size_t>(o));
  }
  Format format(const BufRef& r) const { return k_->buffers[r.buffer].format; }
  void put(const BufRef& r, CoreState& c, const Index& i, double v) const { at(r, c, i) = held(v, format(r)); }
  /// Calls fn(index) for all indices of a box.
  template <typename Fn>
  static void each(const Index& size, Fn&& fn) {
    int64_t n = 1;
    for (int64_t s : size) n *= std::max<int64_t>(s, 0);
    Index i(size.size());
    for (int64_t k = 0; k < n; ++k) {
      int64_t rest = k;
      for (size_t d = size.size(); d-- > 0; rest /= size[d]) i[d] = rest % size[d];
      fn(i);
    }
  }

  // ---- statements

  void block(const program::Block& b, const std::vector<CoreState*>& cores) {
    for (const auto& s : b) {
      if (const auto* d = std::get_if<program::Declare>(&s.node)) {
        for (auto* c : cores) declare(*c, d->buffer);
      } else if (const auto* r = std::get_if<program::CoreRange>(&s.node)) {
        for (auto* c : cores) enter(*c, r->range, c->values.coordinate[k_->ranges[r->range].grid].lo);
      } else if (const auto* f = std::get_if<program::For>(&s.node)) {
        const auto& range = k_->ranges[f->range];
        std::vector<int64_t> trips;
        int64_t most = 0;
        for (auto* c : cores) {
          const int64_t length = eval(range.hi, *c) - eval(range.lo, *c);
          int64_t n = std::max<int64_t>(0, program::floor_div(length + range.by - 1, range.by));
          if (range.uniform && range.parent != program::none)
            n = (k_->ranges[range.parent].by + range.by - 1) / range.by;
          trips.push_back(n);
          most = std::max(most, n);
        }
        for (int64_t t = 0; t < most; ++t) {
          std::vector<CoreState*> active;
          for (size_t i = 0; i < cores.size(); ++i)
            if (t < trips[i]) enter(*cores[i], f->range, t), active.push_back(cores[i]);
          block(f->body, active);
        }
      } else if (const auto* i = std::get_if<program::If>(&s.node)) {
        std::vector<CoreState*> active;
        for (auto* c : cores)
          if (holds(i->condition, *c)) active.push_back(c);
        if (!active.empty()) block(i->body, active);
      } else {
        const auto& step = std::get<program::Step>(s.node);
        std::visit([&](const auto& op) { collective(op, cores); }, step.op);
      }
    }
  }
  void enter(CoreState& c, Id r, int64_t trip) {
    const auto& range = k_->ranges[r];
    const int64_t start = eval(range.lo, c) + trip * range.by, hi = eval(range.hi, c);
    c.values.start[r] = point(start);
    c.values.trip[r] = point(range.is_core ? 0 : trip);
    c.values.size[r] = point(std::clamp<int64_t>(hi - start, 0, range.by));
  }
  static bool holds(const program::Condition& condition, const CoreState& c) {
    for (const auto& t : condition) {
      const int64_t a = eval(t.a, c), b = eval(t.b, c);
      const bool r[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
      if (!r[static_cast<int>(t.op)]) return false;
    }
    return true;
  }

  template <typename Op>
  void collective(const Op& op, const std::vector<CoreState*>& cores) {
    for (auto* c : cores) step(op, *c);
  }
  /// The cores that differ only in coordinate g, in its order.
  std::vector<std::vector<CoreState*>> groups(const std::vector<CoreState*>& cores, Id g) const {
    std::map<Index, std::vector<CoreState*>> by;
    for (auto* c : cores) {
      Index key;
      for (size_t d = 0; d < nest_->grid.size(); ++d)
        key.push_back(static_cast<Id>(d) == g ? 0 : c->values.coordinate[d].lo);
      by[key].push_back(c);
    }
    std::vector<std::vector<CoreState*>> out;
    for (auto& [k, v] : by) out.push_back(v);
    return out;
  }
  void collective(const program::PartialSum& op, const std::vector<CoreState*>& cores) {
    for (const auto& group : groups(cores, op.grid))
      each(sizes(op.acc, *group[0]), [&](const Index& i) {
        float sum = static_cast<float>(at(op.acc, *group[0], i));
        for (size_t n = 1; n < group.size(); ++n) sum += static_cast<float>(at(op.acc, *group[n], i));
        for (size_t n = 0; n < group.size(); ++n) at(op.acc, *group[n], i) = n == 0 || op.to_all ? sum : 77777.0;
      });
  }
  void collective(const program::Ring& op, const std::vector<CoreState*>& cores) {
    if (op.kind == program::Ring::Kind::remap) throw std::logic_error("oracle: no ring.remap");
    for (const auto& group : groups(cores, op.grid)) {
      const auto n = static_cast<int64_t>(group.size());
      std::vector<std::vector<double>> from;
      for (auto* c : group) {
        from.emplace_back();
        each(sizes(op.from, *c), [&](const Index& i) { from.back().push_back(at(op.from, *c, i)); });
      }
      for (int64_t g = 0; g < n; ++g) {
        size_t next = 0;
        if (op.kind == program::Ring::Kind::shift) {
          const auto& source = from[static_cast<size_t>(program::floor_mod(g - op.by, n))];
          each(sizes(op.to, *group[g]), [&](const Index& i) { put(op.to, *group[g], i, source[next++]); });
        } else {  // parts one after the other along the first dimension
          each(sizes(op.to, *group[g]), [&](const Index& i) {
            put(op.to, *group[g], i, from[next / from[0].size()][next % from[0].size()]);
            ++next;
          });
        }
      }
    }
  }

  // ---- steps of one core

  /// Calls fn(index in the tile, storage element or -1) for every position the access makes.
  template <typename Fn>
  void access(const program::MemRef& m, const BufRef& tile, CoreState& c, Fn&& fn) {
    const auto& formal = k_->formals[m.symbol];
    const auto dims = program::tile_dimensions(m, tile, *k_);
    const Index box = sizes(tile, c);
    Index extent;
    std::vector<std::vector<double>> index(m.entries.size());
    for (size_t e = 0; e < m.entries.size(); ++e) {
      const auto& entry = m.entries[e];
      if (entry.kind == program::Entry::Kind::affine) {
        extent.push_back(eval(entry.extent, c));
      } else {
        each(sizes(entry.index, c), [&](const Index& i) { index[e].push_back(at(entry.index, c, i)); });
        extent.push_back(static_cast<int64_t>(index[e].size()));
      }
    }
    each(extent, [&](const Index& p) {
      Index t(box.size(), 0);
      int64_t o = formal.view.offset;
      bool inside = true, skip = false;
      for (size_t e = 0; e < p.size(); ++e) {
        const auto& entry = m.entries[e];
        int64_t i;
        if (entry.kind == program::Entry::Kind::affine) {
          i = eval(entry.base, c) + entry.step * p[e];
        } else {
          i = static_cast<int64_t>(index[e][static_cast<size_t>(p[e])]);
          if (i < eval(entry.lo, c) || i >= eval(entry.hi, c)) {
            if (entry.outside == program::OnOutside::trap) throw Trap();
            inside = false;
            skip = true;
          }
        }
        if (dims[e] >= 0) t[dims[e]] = p[e];
        inside = inside && i >= 0 && i < formal.view.sizes[e];
        o += i * formal.view.strides[e];
      }
      if (!skip || inside) fn(t, inside ? o : -1, p);
    });
  }
  void step(const program::Load& op, CoreState& c) {
    auto& from = storage_[call_->symbols[op.from.symbol]];
    each(sizes(op.to, c), [&](const Index& i) { put(op.to, c, i, op.fill); });
    access(op.from, op.to, c, [&](const Index& t, int64_t o, const Index&) {
      if (o >= 0) at(op.to, c, t) = from.at(static_cast<size_t>(o));
    });
  }
  void step(const program::Store& op, CoreState& c) {
    auto& to = storage_[call_->symbols[op.to.symbol]];
    std::vector<double> where;
    if (op.where_entry != program::none)
      each(sizes(op.where_index, c), [&](const Index& i) { where.push_back(at(op.where_index, c, i)); });
    access(op.to, op.from, c, [&](const Index& t, int64_t o, const Index& p) {
      if (op.where_entry != program::none) {
        const auto n = static_cast<size_t>(p[op.where_entry]);
        if (n >= where.size() || where[n] < static_cast<double>(eval(op.where_lo, c)) ||
            where[n] >= static_cast<double>(eval(op.where_hi, c)))
          return;
      }
      if (o >= 0) to.at(static_cast<size_t>(o)) = at(op.from, c, t);
    });
  }
  static Index matrix(size_t rank, int64_t r, int64_t col) {
    Index i(rank, 0);
    i[rank - 2] = r, i[rank - 1] = col;
    return i;
  }
  void step(const program::MatMul& op, CoreState& c) {
    const Index sa = sizes(op.a, c), sb = sizes(op.b, c), so = sizes(op.acc, c);
    bool first = !op.init.empty();
    for (Id r : op.init) first = first && c.values.trip[r].lo == 0;
    const int64_t m = std::min(sa[sa.size() - 2], so[so.size() - 2]), n = std::min(sb.back(), so.back()),
                  kk = std::min(sa.back(), sb[sb.size() - 2]);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < kk; ++k)
          sum += at(op.a, c, matrix(sa.size(), i, k)) * at(op.b, c, matrix(sb.size(), k, j));
        const Index o = matrix(so.size(), i, j);
        if (op.accumulate && !first) sum += at(op.acc, c, o);
        put(op.acc, c, o, sum);
      }
  }
  void step(const program::Move& op, CoreState& c) {
    std::vector<double> values;
    const Index box = sizes(op.from, c);
    each(box, [&](const Index& i) { values.push_back(at(op.from, c, i)); });
    size_t n = 0;
    each(box, [&](const Index& i) { put(op.to, c, i, values[n++]); });
  }

  void operands(const VecExpr& e, std::vector<const BufRef*>& out) const {
    if (e.op == VecOp::operand) out.push_back(&e.ref);
    for (const auto& a : e.args) operands(a, out);
  }
  /// Joins the sizes of operands into `box` (INT64_MAX: not known yet).
  void join(const VecExpr& e, CoreState& c, Index& box) const {
    std::vector<const BufRef*> refs;
    operands(e, refs);
    for (const auto* r : refs) join(*r, c, box);
  }
  void join(const BufRef& r, CoreState& c, Index& box) const {
    const Index s = sizes(r, c);
    const auto one = singles(r);
    for (size_t d = 0; d < s.size(); ++d)
      if (!one[d]) box[box.size() - s.size() + d] = std::min(box[box.size() - s.size() + d], s[d]);
  }
  static void close(Index& box) {
    for (int64_t& s : box)
      if (s == INT64_MAX) s = 1;
  }
  void step(const program::Vector& op, CoreState& c) {
    Index box(k_->buffers[op.to[0].buffer].shape.size(), INT64_MAX);
    for (const auto& e : op.value) join(e, c, box);
    for (const auto& t : op.to) join(t, c, box);
    close(box);
    each(box, [&](const Index& i) {
      std::vector<double> v;
      for (const auto& e : op.value) v.push_back(value(e, c, i));
      for (size_t n = 0; n < v.size(); ++n) put(op.to[n], c, i, v[n]);
    });
  }
  void step(const program::Reduce& op, CoreState& c) {
    std::vector<const BufRef*> refs;
    operands(op.value, refs);
    size_t rank = k_->buffers[op.state[0].buffer].shape.size();
    for (const auto* r : refs) rank = std::max(rank, k_->buffers[r->buffer].shape.size());
    Index box(rank, INT64_MAX);
    join(op.value, c, box);
    close(box);
    Index outer = box;
    outer[op.dim] = 1;
    each(outer, [&](const Index& o) {
      const bool integer = op.value.type == program::Reg::i32;
      using M = program::Monoid;
      double s = 0, place = -1;
      switch (op.monoid) {
        case M::sum:
          s = 0;
          break;
        case M::max:
        case M::argmax:
          s = integer ? INT32_MIN : -INFINITY;
          break;
        case M::min:
        case M::argmin:
          s = integer ? INT32_MAX : INFINITY;
          break;
        default:
          throw std::logic_error("oracle: no such monoid");
      }
      if (!op.init.empty()) {
        s = value(op.init[0], c, o);
        if (op.init.size() > 1) place = value(op.init[1], c, o);
      }
      for (int64_t d = 0; d < box[op.dim]; ++d) {
        Index i = o;
        i[op.dim] = d;
        const double v = value(op.value, c, i);
        switch (op.monoid) {
          case M::sum:
            s += v;
            break;
          case M::max:
            s = std::max(s, v);
            break;
          case M::min:
            s = std::min(s, v);
            break;
          default:
            if (place < 0 || (op.monoid == M::argmax ? v > s : v < s)) s = v, place = static_cast<double>(d);
        }
      }
      put(op.state[0], c, o, s);
      if (op.state.size() > 1) put(op.state[1], c, o, place);
    });
  }
  void step(const program::Scan& op, CoreState& c) {
    Index box(k_->buffers[op.to.buffer].shape.size(), INT64_MAX);
    join(op.value, c, box);
    join(op.to, c, box);
    close(box);
    Index outer = box;
    outer.back() = 1;
    each(outer, [&](const Index& o) {
      double s = at(op.carry, c, o);
      for (int64_t d = 0; d < box.back(); ++d) {
        Index i = o;
        i.back() = d;
        const double v = value(op.value, c, i);
        s = op.monoid == program::Monoid::sum   ? s + v
            : op.monoid == program::Monoid::max ? std::max(s, v)
                                                : std::min(s, v);
        put(op.to, c, i, s);
      }
      put(op.carry, c, o, s);
    });
  }
  void step(const program::GatherScatter& op, CoreState& c) {
    std::vector<double> index;
    each(sizes(op.index, c), [&](const Index& i) { index.push_back(at(op.index, c, i)); });
    Index data = sizes(op.data, c);
    const int64_t lo = eval(op.lo, c), hi = eval(op.hi, c);
    each(data, [&](const Index& i) {
      if (static_cast<size_t>(i[0]) >= index.size()) return;
      const auto row = static_cast<int64_t>(index[static_cast<size_t>(i[0])]);
      Index t = i;
      t[0] = row - lo;
      if (row < lo || row >= hi) {
        if (op.outside == program::OnOutside::trap) throw Trap();
        if (!op.scatter && op.outside == program::OnOutside::fill) put(op.data, c, i, 0);
        return;
      }
      if (!op.scatter)
        put(op.data, c, i, at(op.table, c, t));
      else
        put(op.table, c, t, at(op.data, c, i) + (op.accumulate ? at(op.table, c, t) : 0));
    });
  }
  void step(const program::Fence&, CoreState&) {}
  void step(const program::Sort&, CoreState&) { throw std::logic_error("oracle: no sort"); }
  void step(const program::PartialSum&, CoreState&) {}
  void step(const program::Ring&, CoreState&) {}

  /// f32 registers round each result; predicates are 1 and 0.
  double value(const VecExpr& e, CoreState& c, const Index& i) {
    auto arg = [&](size_t n) { return value(e.args[n], c, i); };
    const bool real = e.type == program::Reg::f32;
    auto round = [&](double v) { return real ? static_cast<double>(static_cast<float>(v)) : v; };
    switch (e.op) {
      case VecOp::operand: {
        const Index s = sizes(e.ref, c);
        const auto one = singles(e.ref);
        Index at_index;
        for (size_t d = 0; d < s.size(); ++d) at_index.push_back(one[d] ? 0 : i[i.size() - s.size() + d]);
        return at(e.ref, c, at_index);
      }
      case VecOp::constant_f:
        return round(e.number);
      case VecOp::constant_i:
        return static_cast<double>(e.integer);
      case VecOp::integer:
        return static_cast<double>(eval(e.expr, c));
      case VecOp::scalar:
        return round(scalars_[call_->scalars[e.id]]);
      case VecOp::iota:
        return static_cast<double>(i[e.id]);
      case VecOp::add:
        return round(arg(0) + arg(1));
      case VecOp::sub:
        return round(arg(0) - arg(1));
      case VecOp::mul:
        return round(arg(0) * arg(1));
      case VecOp::min:
        return std::min(arg(0), arg(1));
      case VecOp::max:
        return std::max(arg(0), arg(1));
      case VecOp::abs:
        return std::abs(arg(0));
      case VecOp::neg:
        return -arg(0);
      case VecOp::lt:
        return arg(0) < arg(1);
      case VecOp::le:
        return arg(0) <= arg(1);
      case VecOp::gt:
        return arg(0) > arg(1);
      case VecOp::ge:
        return arg(0) >= arg(1);
      case VecOp::eq:
        return arg(0) == arg(1);
      case VecOp::ne:
        return arg(0) != arg(1);
      case VecOp::select:
        return arg(0) != 0 ? arg(1) : arg(2);
      case VecOp::cast:
        return round(arg(0));
      default:
        throw std::logic_error("oracle: no such operation");
    }
  }

 public:
  struct Trap {};

 private:
  const program::Program& p_;
  std::vector<std::vector<double>>& storage_;
  std::vector<double> scalars_;
  const program::Call* call_ = nullptr;
  const program::Kernel* k_ = nullptr;
  const program::Nest* nest_ = nullptr;
  std::vector<CoreState> cores_;
};

}  // namespace spyre::card
