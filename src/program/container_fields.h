// What the container holds of each kind of node, once for both directions: an archive A either writes the fields of a
// tree or fills them. Only fields that a kind uses are stored, so that a tree has one encoding. Internal to this
// folder.
#pragma once

#include "program/conventions.h"
#include "program/limits.h"
#include "program/tree.h"
#include "program/vector_rules.h"

namespace spyre::program::container {

/// const T& for the writer, T& for the reader.
template <typename A, typename T>
using Ref = std::conditional_t<A::reading, T&, const T&>;

template <typename A>
void fields(A& a, Ref<A, layout::HostView> v) {
  a.list(v.sizes, 1, [&](auto& size) { a.integer(size); });
  a.list(v.strides, 1, [&](auto& stride) { a.integer(stride); });
  a.integer(v.offset);
}

template <typename A>
void fields(A& a, Ref<A, layout::Geometry> g) {
  a.choice(g.format, base::format_count);
  a.integer(g.storage_elements);
  a.integer(g.device_elements);
  a.list(g.digits, 5, [&](auto& d) {
    a.integer(d.div1);
    a.integer(d.mod1);
    a.integer(d.div2);
    a.integer(d.mod2);
    a.integer(d.stride);
  });
}

template <typename A>
void fields(A& a, Ref<A, Symbol> s) {
  a.text(s.name);
  a.choice(s.direction, 4);
  a.choice(s.format, base::format_count);
  fields<A>(a, s.view);
  fields<A>(a, s.geometry);
}

template <typename A>
void fields(A& a, Ref<A, Scalar> s) {
  a.text(s.name);
  a.flag(s.is_float);
  a.number(s.lo);
  a.number(s.hi);
}

template <typename A>
void fields(A& a, Ref<A, Loc> l) {
  a.text(l.op);
  a.text(l.source);
}

template <typename A>
void fields(A& a, Ref<A, IntExpr> e, int depth = 1) {
  a.depth(depth, limits::int_depth, "an integer expression");
  a.choice(e.op, static_cast<int>(IntExpr::Op::mod) + 1);
  if (e.op == IntExpr::Op::constant) return a.integer(e.value);
  if (e.op < IntExpr::Op::add) return a.id(e.id);
  if constexpr (A::reading) e.args.resize(2);
  for (auto& arg : e.args) fields<A>(a, arg, depth + 1);
}

template <typename A>
void fields(A& a, Ref<A, BufRef> r) {
  a.id(r.buffer);
  a.flag(r.transposed);
  a.list(r.box, 1, [&](auto& dim) {
    a.choice(dim.kind, 2);
    if (dim.kind == BufDim::Kind::whole) return;
    fields<A>(a, dim.first);
    fields<A>(a, dim.size);
    a.id(dim.range);
  });
}

template <typename A>
void fields(A& a, Ref<A, MemRef> r) {
  a.id(r.symbol);
  a.list(r.entries, 7, [&](auto& e) {
    a.choice(e.kind, 2);
    if (e.kind == Entry::Kind::affine) {
      fields<A>(a, e.base);
      a.integer(e.step);
      fields<A>(a, e.extent);
      a.id(e.range);
    } else {
      fields<A>(a, e.index);
      fields<A>(a, e.lo);
      fields<A>(a, e.hi);
      a.choice(e.outside, 3);
    }
  });
}

template <typename A>
void fields(A& a, Ref<A, VecExpr> e, int depth = 1) {
  a.depth(depth, limits::vec_depth, "an expression");
  a.choice(e.op, static_cast<int>(VecOp::philox) + 1);
  a.choice(e.type, 3);
  a.flag(e.trap);
  switch (e.op) {
    case VecOp::operand:
      fields<A>(a, e.ref);
      break;
    case VecOp::constant_f:
      a.number(e.number);
      break;
    case VecOp::constant_i:
    case VecOp::philox:
      a.integer(e.integer);
      break;
    case VecOp::integer:
      fields<A>(a, e.expr);
      break;
    case VecOp::scalar:
    case VecOp::iota:
      a.id(e.id);
      break;
    default:
      break;
  }
  if constexpr (A::reading) e.args.resize(static_cast<size_t>(rule_of(e.op).arguments));
  for (auto& arg : e.args) fields<A>(a, arg, depth + 1);
}

// -------------------------------------------------------------------------------------------------------------------
// steps

template <typename A>
void fields(A& a, Ref<A, Load> s) {
  fields<A>(a, s.to);
  fields<A>(a, s.from);
  a.number(s.fill);
  a.id(s.share);
}

template <typename A>
void fields(A& a, Ref<A, Store> s) {
  fields<A>(a, s.to);
  fields<A>(a, s.from);
  a.flag(s.ordered);
  a.id(s.where_entry);
  if (s.where_entry == none) return;
  fields<A>(a, s.where_index);
  fields<A>(a, s.where_lo);
  fields<A>(a, s.where_hi);
}

template <typename A>
void fields(A& a, Ref<A, MatMul> s) {
  a.flag(s.on_pt);
  fields<A>(a, s.acc);
  fields<A>(a, s.a);
  fields<A>(a, s.b);
  a.flag(s.accumulate);
  a.list(s.init, 1, [&](auto& id) { a.id(id); });
}

template <typename A>
void fields(A& a, Ref<A, Vector> s) {
  a.list(s.to, 3, [&](auto& ref) { fields<A>(a, ref); });
  a.list(s.value, 3, [&](auto& value) { fields<A>(a, value); });
}

template <typename A>
void fields(A& a, Ref<A, Reduce> s) {
  a.choice(s.monoid, static_cast<int>(Monoid::logsumexp) + 1);
  a.flag(s.trap);
  a.list(s.state, 3, [&](auto& ref) { fields<A>(a, ref); });
  a.list(s.init, 3, [&](auto& init) { fields<A>(a, init); });
  fields<A>(a, s.value);
  a.id(s.dim);
}

template <typename A>
void fields(A& a, Ref<A, Scan> s) {
  a.choice(s.monoid, static_cast<int>(Monoid::logsumexp) + 1);
  a.flag(s.trap);
  fields<A>(a, s.to);
  fields<A>(a, s.carry);
  fields<A>(a, s.value);
}

template <typename A>
void fields(A& a, Ref<A, Sort> s) {
  a.choice(s.kind, 3);
  a.flag(s.descending);
  fields<A>(a, s.values);
  fields<A>(a, s.indices);
  fields<A>(a, s.from);
  fields<A>(a, s.from_indices);
}

template <typename A>
void fields(A& a, Ref<A, GatherScatter> s) {
  a.flag(s.scatter);
  a.flag(s.accumulate);
  fields<A>(a, s.table);
  fields<A>(a, s.index);
  fields<A>(a, s.data);
  fields<A>(a, s.lo);
  fields<A>(a, s.hi);
  a.choice(s.outside, 3);
}

template <typename A>
void fields(A& a, Ref<A, Move> s) {
  fields<A>(a, s.to);
  fields<A>(a, s.from);
}

template <typename A>
void fields(A& a, Ref<A, Ring> s) {
  a.choice(s.kind, 3);
  fields<A>(a, s.to);
  fields<A>(a, s.from);
  a.id(s.grid);
  a.integer(s.by);
  a.list(s.from_ranges, 1, [&](auto& id) { a.id(id); });
  a.list(s.to_ranges, 1, [&](auto& id) { a.id(id); });
}

template <typename A>
void fields(A& a, Ref<A, PartialSum> s) {
  fields<A>(a, s.acc);
  a.id(s.grid);
  a.flag(s.to_all);
}

template <typename A>
void fields(A& a, Ref<A, Fence> s) {
  a.id(s.grid);
}

template <typename A>
void fields(A& a, Ref<A, Step> s) {
  a.alternative(s.op);
  std::visit([&](auto& op) { fields<A>(a, op); }, s.op);
  a.id(s.loc);
}

// --------------------------------------------------------------------------------------------------------------
// statements

template <typename A>
void block(A& a, Ref<A, Block> body, int depth) {
  a.depth(depth, limits::block_depth, "a block");
  a.list(body, 2, [&](auto& stmt) {
    a.alternative(stmt.node);
    if (auto* d = std::get_if<Declare>(&stmt.node)) {
      a.id(d->buffer);
    } else if (auto* c = std::get_if<CoreRange>(&stmt.node)) {
      a.id(c->range);
    } else if (auto* f = std::get_if<For>(&stmt.node)) {
      a.id(f->range);
      block<A>(a, f->body, depth + 1);
    } else if (auto* i = std::get_if<If>(&stmt.node)) {
      a.list(i->condition, 5, [&](auto& compare) {
        a.choice(compare.op, 6);
        fields<A>(a, compare.a);
        fields<A>(a, compare.b);
      });
      block<A>(a, i->body, depth + 1);
    } else {
      fields<A>(a, std::get<Step>(stmt.node));
    }
  });
}

template <typename A>
void fields(A& a, Ref<A, Range> r) {
  a.text(r.name);
  a.flag(r.is_core);
  a.id(r.parent);
  if (r.parent == none) {
    fields<A>(a, r.lo);
    fields<A>(a, r.hi);
  } else if constexpr (A::reading) {
    r.lo = lo_of(r.parent);
    r.hi = hi_of(r.parent);
  }
  a.integer(r.by);
  a.id(r.grid);
  a.flag(r.uniform);
}

template <typename A>
void fields(A& a, Ref<A, Buffer> b) {
  a.text(b.name);
  a.choice(b.format, base::format_count);
  a.list(b.shape, 1, [&](auto& size) { a.integer(size); });
  a.integer(b.slots);
  a.integer(b.lx_offset);
  a.id(b.piece_dim);
  a.integer(b.piece_size);
}

template <typename A>
void fields(A& a, Ref<A, Kernel> k) {
  a.text(k.name);
  a.list(k.formals, 10, [&](auto& s) { fields<A>(a, s); });
  a.list(k.scalars, 18, [&](auto& s) { fields<A>(a, s); });
  a.integer(k.cores);
  a.list(k.ranges, 6, [&](auto& r) { fields<A>(a, r); });
  a.list(k.buffers, 7, [&](auto& b) { fields<A>(a, b); });
  a.list(k.scope, 1, [&](auto& id) { a.id(id); });
  a.list(k.nests, 2, [&](auto& nest) {
    a.list(nest.grid, 2, [&](auto& g) {
      a.text(g.name);
      a.integer(g.size);
    });
    block<A>(a, nest.body, 1);
  });
}

template <typename A>
void fields(A& a, Ref<A, Program> p) {
  a.list(p.symbols, 10, [&](auto& s) { fields<A>(a, s); });
  a.list(p.scalars, 18, [&](auto& s) { fields<A>(a, s); });
  a.list(p.locs, 2, [&](auto& l) { fields<A>(a, l); });
  a.list(p.kernels, 7, [&](auto& k) { fields<A>(a, k); });
  a.list(p.calls, 4, [&](auto& c) {
    a.id(c.kernel);
    a.list(c.symbols, 1, [&](auto& id) { a.id(id); });
    a.list(c.scalars, 1, [&](auto& id) { a.id(id); });
    a.id(c.loc);
  });
}

}  // namespace spyre::program::container
