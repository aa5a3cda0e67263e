// Operands of every kind of step: shapes, formats, register types.
#include <algorithm>
#include <cmath>
#include <limits>

#include "program/vector_rules.h"
#include "program/verify_context.h"

namespace spyre::program::verifier {
namespace {

class Checker {
 public:
  explicit Checker(const Context& context) : c_(context) {}

  void operator()(const Load& l) {
    memory(l.from, l.to, true);
    if (l.to.transposed) c_.fail("a load cannot transpose; use mv");
    grid(l.share, true);
    if (std::isnan(l.fill) && register_of(format(l.to)) == Reg::i32) c_.fail("the fill value of integers is NaN");
  }

  void operator()(const Store& s) {
    memory(s.to, s.from, false);
    if (s.from.transposed) c_.fail("a store cannot transpose; use mv");
    if (s.where_entry == none) return;
    if (s.where_entry < 0 || s.where_entry >= static_cast<Id>(s.to.entries.size()))
      c_.fail("`where` names entry {} of {}", s.where_entry, s.to.entries.size());
    const Entry& e = s.to.entries[s.where_entry];
    if (e.kind != Entry::Kind::affine) c_.fail("`where` selects rows of a range, not of an index");
    Entry index;
    index.kind = Entry::Kind::indexed;
    index.index = s.where_index;
    index.lo = s.where_lo;
    index.hi = s.where_hi;
    index.outside = OnOutside::skip;
    if (!agree(extent_of(c_, index), extent_of(c_, e)))
      c_.fail("`where` has a different number of indices than its range has rows");
  }

  void operator()(const MatMul& m) {
    const auto acc = matrix(m.acc), a = matrix(m.a), b = matrix(m.b);
    if (m.acc.transposed) c_.fail("the accumulator cannot be transposed");
    if (!agree(acc[0], a[0]) || !agree(acc[1], b[1]) || !agree(a[1], b[0]))
      c_.fail("operands do not agree: [{},{}] (+)= [{},{}] * [{},{}]", acc[0].max, acc[1].max, a[0].max, a[1].max,
              b[0].max, b[1].max);
    const Format f = format(m.acc), fa = format(m.a), fb = format(m.b);
    const bool fp8 = is_fp8(fa) && is_fp8(fb);
    bool right = false;
    if (m.on_pt)
      right = ((fp8 || (fa == fb && (fa == Format::dl16 || fa == Format::f16))) && f == Format::f32) ||
              (fa == Format::i8 && fb == Format::i8 && f == Format::i32);
    else
      right = fa == fb && fa == f && (f == Format::f32 || f == Format::i32);
    if (!right)
      c_.fail("formats do not agree: {} (+)= {} * {}; {}", base::format_name(f), base::format_name(fa),
              base::format_name(fb),
              m.on_pt ? "pt multiplies dl16, f16 or fp8 into f32, and i8 into i32" : "sfp.mm is all f32 or all i32");
    if (m.acc.buffer == m.a.buffer || m.acc.buffer == m.b.buffer) c_.fail("the accumulator is also an operand");
    if (!m.init.empty() && !m.accumulate) c_.fail("init needs +=");
    for (size_t i = 0; i < m.init.size(); ++i) {
      const Id r = m.init[i];
      if (r < 0 || r >= static_cast<Id>(c_.ranges.size()) || !c_.ranges[r].visible || c_.kernel.ranges[r].is_core)
        c_.fail("init names something that is no enclosing loop");
      if (std::find(m.init.begin(), m.init.begin() + i, r) != m.init.begin() + i)
        c_.fail("init names loop {} twice", c_.range_name(r));
    }
  }

  void operator()(const Vector& v) {
    if (v.to.empty() || v.to.size() != v.value.size())
      c_.fail("it has {} results and {} expressions", v.to.size(), v.value.size());
    const auto box = vector_box(c_, current());
    for (size_t i = 0; i < v.to.size(); ++i) {
      expression(v.value[i], box.size());
      for (size_t j = 0; j < i; ++j)
        if (v.to[i].buffer == v.to[j].buffer) c_.fail("buffer {} is a result twice", c_.buffer_name(v.to[i].buffer));
      for (const VecExpr& e : v.value) in_place(v.to[i], e);
    }
  }

  void operator()(const Reduce& r) {
    const auto box = vector_box(c_, current());
    if (r.dim < 0 || r.dim >= static_cast<int>(box.size())) c_.fail("it reduces dimension {} of {}", r.dim, box.size());
    expression(r.value, box.size());
    auto reduced = box;
    reduced[r.dim] = Extent{Affine::of(1), 1, 1, true};
    std::vector<const BufRef*> operands;
    for_each_operand(r.value, operands);
    for (size_t i = 0; i < r.state.size(); ++i) {
      box_is(r.state[i], reduced, "state");
      for (size_t j = 0; j < i; ++j)
        if (r.state[i].buffer == r.state[j].buffer)
          c_.fail("buffer {} is a state twice", c_.buffer_name(r.state[i].buffer));
      for (const BufRef* o : operands)
        if (o->buffer == r.state[i].buffer) c_.fail("state {} is also reduced over", c_.buffer_name(o->buffer));
      for (const VecExpr& e : r.init) in_place(r.state[i], e);
    }
    for (const VecExpr& e : r.init) {
      expression(e, reduced.size());
      std::vector<const BufRef*> initial;
      for_each_operand(e, initial);
      for (const BufRef* o : initial) broadcasts(*o, reduced);
    }
  }

  void operator()(const Scan& s) {
    const auto box = vector_box(c_, current());
    expression(s.value, box.size());
    auto carried = box;
    carried.back() = Extent{Affine::of(1), 1, 1, true};
    box_is(s.carry, carried, "carry");
    in_place(s.to, s.value);
    std::vector<const BufRef*> operands;
    for_each_operand(s.value, operands);
    for (const BufRef* o : operands)
      if (o->buffer == s.carry.buffer) c_.fail("carry {} is also scanned", c_.buffer_name(o->buffer));
    if (s.carry.buffer == s.to.buffer) c_.fail("the carry is also the result");
  }

  void operator()(const Sort& s) {
    if (s.kind > Sort::Kind::topk) c_.fail("unknown kind of sort");
    const auto values = result(s.values), from = operand(s.from);
    if (format(s.values) != format(s.from)) c_.fail("its values and results have different formats");
    const bool whole = s.kind != Sort::Kind::topk;
    same(values, from, whole ? values.size() : values.size() - 1, "values and results");
    const bool indexed = s.indices.buffer != none;
    if (!indexed && s.from_indices.buffer != none) c_.fail("indices come in but do not go out");
    if (!indexed && s.kind == Sort::Kind::topk) c_.fail("topk needs a buffer of indices");
    if (indexed) {
      const auto indices = result(s.indices);
      same(values, indices, values.size(), "values and indices");
      if (format(s.indices) != Format::i32) c_.fail("indices are i32");
    }
    if (s.from_indices.buffer != none) {
      same(from, operand(s.from_indices), from.size(), "values and their indices");
      if (format(s.from_indices) != Format::i32) c_.fail("indices are i32");
    } else if (s.kind != Sort::Kind::sort && indexed) {
      c_.fail("merge and topk need the indices of their values");
    }
    distinct({&s.values, &s.indices, &s.from, &s.from_indices}, 2);
  }

  void operator()(const GatherScatter& g) {
    const auto table = g.scatter ? result(g.table) : operand(g.table);
    const auto data = g.scatter ? operand(g.data) : result(g.data);
    Entry index;
    index.kind = Entry::Kind::indexed;
    index.index = g.index;
    index.lo = g.lo;
    index.hi = g.hi;
    index.outside = g.outside;
    const Extent rows = extent_of(c_, index);
    if (g.table.transposed || g.data.transposed) c_.fail("gather and scatter cannot transpose");
    if (g.scatter && g.outside == OnOutside::fill) c_.fail("a scatter traps or skips; it cannot fill");
    if (!g.scatter && g.accumulate) c_.fail("a gather cannot accumulate");
    if (format(g.table) != format(g.data) &&
        !(g.scatter && g.accumulate && register_of(format(g.table)) == register_of(format(g.data))))
      c_.fail("table and data have different formats");
    if (table.size() != data.size()) c_.fail("table and data have different numbers of dimensions");
    if (!agree(data[0], rows)) c_.fail("it has {} indices for {} rows of data", rows.max, data[0].max);
    for (size_t d = 1; d < table.size(); ++d)
      if (!agree(table[d], data[d]))
        c_.fail("rows of table and data differ in dimension {}: {} and {}", d, table[d].max, data[d].max);
    const int64_t span = c_.bounds(Affine::of(g.hi).minus(Affine::of(g.lo))).hi;
    if (span > table[0].unclipped || span > c_.kernel.buffers[g.table.buffer].shape[0])
      c_.fail("indices of {} values reach {} rows of the table", span, table[0].max);
    distinct({&g.table, &g.index, &g.data}, 3);
  }

  void operator()(const Move& m) {
    const auto to = result(m.to), from = operand(m.from);
    if (m.to.transposed) c_.fail("the source of a move is transposed, not its result");
    same(to, from, to.size(), "source and result");
    if (register_of(format(m.to)) != register_of(format(m.from)))
      c_.fail("a move cannot turn integers into floating point or back");
    distinct({&m.to, &m.from}, 2);
  }

  void operator()(const Ring& r) {
    if (r.kind > Ring::Kind::remap) c_.fail("unknown ring step");
    const auto to = result(r.to), from = operand(r.from);
    if (r.to.transposed || r.from.transposed) c_.fail("a ring step cannot transpose");
    if (format(r.to) != format(r.from)) c_.fail("a ring step cannot change the format");
    distinct({&r.to, &r.from}, 2);
    grid(r.grid, r.kind == Ring::Kind::remap);
    if (to.size() != from.size()) c_.fail("source and result have different numbers of dimensions");
    if (r.kind == Ring::Kind::remap) return remap(r, to, from);
    if (!r.from_ranges.empty() || !r.to_ranges.empty()) c_.fail("only remap takes ranges");
    if (r.kind == Ring::Kind::shift) return same(to, from, to.size(), "source and result");
    const int64_t members = c_.nest().grid[r.grid].size;
    if (!from[0].constant() || !to[0].constant() || to[0].max != saturating_mul(from[0].max, members))
      c_.fail("gathering {} rows from each of {} cores does not make {} rows", from[0].max, members, to[0].max);
    for (size_t d = 1; d < to.size(); ++d)
      if (!agree(to[d], from[d]))
        c_.fail("source and result differ in dimension {}: {} and {}", d, from[d].max, to[d].max);
  }

  void operator()(const PartialSum& p) {
    result(p.acc);
    if (p.acc.transposed) c_.fail("psum cannot transpose");
    if (format(p.acc) != Format::f32) c_.fail("psum adds f32, not {}", base::format_name(format(p.acc)));
    grid(p.grid, false);
  }

  void operator()(const Fence& f) { grid(f.grid, true); }

  void run(const Step& step) {
    step_ = &step;
    std::visit(*this, step.op);
  }

 private:
  const Step& current() const { return *step_; }
  Format format(const BufRef& r) const { return c_.kernel.buffers[r.buffer].format; }
  static bool is_fp8(Format f) { return f == Format::e4m3 || f == Format::e5m2; }
  std::vector<Extent> operand(const BufRef& r) { return extents_of(c_, r); }
  std::vector<Extent> result(const BufRef& r) { return extents_of(c_, r); }

  /// Equal sizes, or one that is clipped and a whole one of the unclipped size.
  static bool agree(const Extent& a, const Extent& b) {
    if (a.form.equals(b.form)) return true;
    if (a.constant() == b.constant()) return false;
    const Extent& fixed = a.constant() ? a : b;
    const Extent& clipped = a.constant() ? b : a;
    return fixed.max == clipped.unclipped || fixed.max == clipped.max;
  }
  void same(const std::vector<Extent>& a, const std::vector<Extent>& b, size_t dims, const char* what) {
    bool right = a.size() == b.size();
    for (size_t d = 0; right && d < dims; ++d) right = agree(a[d], b[d]);
    if (!right) c_.fail("{} have different shapes", what);
  }
  void box_is(const BufRef& ref, const std::vector<Extent>& box, const char* what) {
    const auto extents = extents_of(c_, ref);
    bool right = extents.size() == box.size();
    for (size_t d = 0; right && d < box.size(); ++d)
      right = agree(extents[d], box[d]) && extents[d].single == box[d].single;
    if (!right)
      c_.fail("{} {} does not have the shape of the value with size 1 in the reduced dimension", what,
              c_.buffer_name(ref.buffer));
  }
  void broadcasts(const BufRef& ref, const std::vector<Extent>& box) {
    const auto extents = extents_of(c_, ref);
    bool right = extents.size() <= box.size();
    for (size_t d = 0; right && d < extents.size(); ++d)
      right = extents[d].single || agree(extents[d], box[box.size() - extents.size() + d]);
    if (!right) c_.fail("operand {} does not broadcast to the state", c_.buffer_name(ref.buffer));
  }
  /// A buffer that is read and written by one step must be read at the very lanes that are written.
  void in_place(const BufRef& to, const VecExpr& value) {
    std::vector<const BufRef*> operands;
    for_each_operand(value, operands);
    for (const BufRef* o : operands) {
      if (o->buffer != to.buffer) continue;
      bool same_box = o->transposed == to.transposed;
      const auto a = extents_of(c_, *o), b = extents_of(c_, to);
      for (size_t d = 0; same_box && d < a.size(); ++d) {
        auto first = [&](const BufRef& r) {
          return r.box.empty() || r.box[d].kind == BufDim::Kind::whole ? Affine::of(0) : Affine::of(r.box[d].first);
        };
        same_box = a[d].form.equals(b[d].form) && first(*o).equals(first(to));
      }
      if (!same_box) c_.fail("buffer {} is read at other lanes than it is written", c_.buffer_name(to.buffer));
    }
  }
  /// The first `results` references name buffers that no other reference names.
  void distinct(std::vector<const BufRef*> refs, size_t results) {
    for (size_t i = 0; i < results; ++i)
      for (size_t j = 0; j < refs.size(); ++j)
        if (i != j && refs[i]->buffer != none && refs[i]->buffer == refs[j]->buffer)
          c_.fail("buffer {} is both result and operand", c_.buffer_name(refs[i]->buffer));
  }
  std::vector<Extent> matrix(const BufRef& ref) {
    auto e = operand(ref);
    if (e.size() < 2) c_.fail("operand {} of a matrix product has one dimension", c_.buffer_name(ref.buffer));
    for (size_t d = 0; d + 2 < e.size(); ++d)
      if (!e[d].single)
        c_.fail("operand {} of a matrix product has more than two dimensions", c_.buffer_name(ref.buffer));
    return {e[e.size() - 2], e[e.size() - 1]};
  }
  void grid(Id g, bool optional) {
    if (g == none && optional) return;
    if (g < 0 || g >= static_cast<Id>(c_.nest().grid.size()))
      c_.fail("it names grid dimension {} of {}", g, c_.nest().grid.size());
  }

  void memory(const MemRef& m, const BufRef& buffer, bool load) {
    if (m.symbol < 0 || m.symbol >= static_cast<Id>(c_.kernel.formals.size()))
      c_.fail("symbol {} does not exist", m.symbol);
    const Symbol& s = c_.kernel.formals[m.symbol];
    if (load && s.direction == Direction::out)
      c_.fail("{} is an out symbol and cannot be loaded; make it inout or temp", s.name);
    if (!load && s.direction == Direction::in) c_.fail("{} is an in symbol and cannot be stored", s.name);
    if (m.entries.size() != s.view.sizes.size())
      c_.fail("access to {} has {} entries for {} dimensions", s.name, m.entries.size(), s.view.sizes.size());
    const auto tile = extents_of(c_, buffer);
    if (format(buffer) != s.format)
      c_.fail("buffer {} is {} and {} is {}; ld and st do not convert", c_.buffer_name(buffer.buffer),
              base::format_name(format(buffer)), s.name, base::format_name(s.format));
    std::vector<Extent> entries;
    for (const Entry& e : m.entries) {
      entries.push_back(extent_of(c_, e));
      if (!load && e.kind == Entry::Kind::indexed && e.outside == OnOutside::fill)
        c_.fail("a store cannot fill what lies outside");
      if (load && e.kind == Entry::Kind::indexed && e.index.buffer == buffer.buffer)
        c_.fail("the index buffer is also the result");
    }
    const auto dims = tile_dims(c_, m, buffer);
    std::vector<bool> made(tile.size(), false);
    for (size_t e = 0; e < entries.size(); ++e) {
      if (dims[e] < 0) continue;
      made[dims[e]] = true;
      if (!agree(entries[e], tile[dims[e]]))
        c_.fail("entry {} of {} has {} indices for {} positions of buffer {}", e, s.name, entries[e].max,
                tile[dims[e]].max, c_.buffer_name(buffer.buffer));
    }
    for (size_t d = 0; d < tile.size(); ++d)
      if (!made[d] && !tile[d].single)
        c_.fail("dimension {} of buffer {} has no entry in the access to {}", d, c_.buffer_name(buffer.buffer), s.name);
  }

  void remap(const Ring& r, const std::vector<Extent>& to, const std::vector<Extent>& from) {
    if (r.from_ranges.size() != from.size() || r.to_ranges.size() != to.size())
      c_.fail("remap needs one range for each dimension");
    if (r.by != 0) c_.fail("only shift goes by a distance");
    auto side = [&](const std::vector<Id>& ids, const std::vector<Extent>& box, const char* what) {
      Id nest = none;
      for (size_t d = 0; d < ids.size(); ++d) {
        if (ids[d] == none) continue;
        if (ids[d] < 0 || ids[d] >= static_cast<Id>(c_.ranges.size()) || !c_.ranges[ids[d]].declared ||
            !c_.kernel.ranges[ids[d]].is_core)
          c_.fail("remap {} names something that is no core range declared before", what);
        const Range& range = c_.kernel.ranges[ids[d]];
        if (!range.lo.is_constant() || !range.hi.is_constant())
          c_.fail("remap {} {}, whose bounds are no constants", what, range.name);
        if (nest != none && nest != c_.ranges[ids[d]].nest) c_.fail("remap {} ranges of two nests", what);
        nest = c_.ranges[ids[d]].nest;
        if (!box[d].constant() || box[d].max < std::min(range.by, range.hi.value - range.lo.value))
          c_.fail("remap {} {}: the buffer has {} positions for its {}", what, range.name, box[d].max, range.by);
      }
      return nest;
    };
    const Id to_nest = side(r.to_ranges, to, "to");
    side(r.from_ranges, from, "from");
    if (to_nest != none && to_nest != c_.nest_id()) c_.fail("remap to ranges of another nest");
    for (size_t d = 0; d < to.size(); ++d) {
      auto whole = [&](Id id, const Extent& e) {
        if (id == none) return std::pair<int64_t, int64_t>{0, e.max};
        return std::pair<int64_t, int64_t>{c_.kernel.ranges[id].lo.value, c_.kernel.ranges[id].hi.value};
      };
      if (whole(r.from_ranges[d], from[d]) != whole(r.to_ranges[d], to[d]))
        c_.fail("remap changes the whole of dimension {}", d);
    }
  }

  void expression(const VecExpr& e, size_t rank);

  const Context& c_;
  const Step* step_ = nullptr;
};

void Checker::expression(const VecExpr& e, size_t rank) {
  for (const VecExpr& a : e.args) expression(a, rank);
  if (e.op == VecOp::iota && e.id >= static_cast<Id>(rank)) c_.fail("iota counts along dimension {} of {}", e.id, rank);
  if (e.op != VecOp::integer) return;
  const Interval v = c_.check(e.expr);
  if (v.lo < std::numeric_limits<int32_t>::min() || v.hi > std::numeric_limits<int32_t>::max())
    c_.fail("an integer expression can be {}..{}, which leaves int32", v.lo, v.hi);
}

}  // namespace

void check_step(const Context& context, const Step& step) { Checker(context).run(step); }

}  // namespace spyre::program::verifier
