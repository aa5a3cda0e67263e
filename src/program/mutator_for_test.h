// Hostile trees for tests: a program with random fields changed.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "program/tree.h"

namespace spyre::program {

/// Addresses of the fields that a mutation may change.
struct Fields {
  std::vector<int64_t*> numbers;
  std::vector<int32_t*> ids;
  std::vector<bool*> flags;
  std::vector<IntExpr*> expressions;
  std::vector<Block*> blocks;

  void add(IntExpr& e) {
    expressions.push_back(&e);
    if (e.op == IntExpr::Op::constant) numbers.push_back(&e.value);
    if (e.id != none) ids.push_back(&e.id);
    for (IntExpr& a : e.args) add(a);
  }
  void add(BufRef& r) {
    if (r.buffer == none) return;
    ids.push_back(&r.buffer);
    flags.push_back(&r.transposed);
    for (BufDim& d : r.box)
      if (d.kind == BufDim::Kind::box) add(d.first), add(d.size);
  }
  void add(MemRef& m) {
    ids.push_back(&m.symbol);
    for (Entry& e : m.entries) {
      if (e.kind == Entry::Kind::affine)
        add(e.base), add(e.extent), numbers.push_back(&e.step);
      else
        add(e.index), add(e.lo), add(e.hi);
    }
  }
  void add(VecExpr& e) {
    if (e.op == VecOp::operand) add(e.ref);
    if (e.op == VecOp::integer) add(e.expr);
    if (e.op == VecOp::iota) ids.push_back(&e.id);
    for (VecExpr& a : e.args) add(a);
  }
  void operator()(Load& l) { add(l.to), add(l.from), ids.push_back(&l.share); }
  void operator()(Store& s) { add(s.to), add(s.from), flags.push_back(&s.ordered); }
  void operator()(MatMul& m) {
    add(m.acc), add(m.a), add(m.b), flags.push_back(&m.accumulate), flags.push_back(&m.on_pt);
    for (Id& i : m.init) ids.push_back(&i);
  }
  void operator()(Vector& v) {
    for (BufRef& r : v.to) add(r);
    for (VecExpr& e : v.value) add(e);
  }
  void operator()(Reduce& r) {
    for (BufRef& s : r.state) add(s);
    for (VecExpr& e : r.init) add(e);
    add(r.value), ids.push_back(&r.dim);
  }
  void operator()(Scan& s) { add(s.to), add(s.carry), add(s.value); }
  void operator()(Sort& s) { add(s.values), add(s.indices), add(s.from), add(s.from_indices); }
  void operator()(GatherScatter& g) {
    add(g.table), add(g.index), add(g.data), add(g.lo), add(g.hi), flags.push_back(&g.accumulate);
  }
  void operator()(Move& m) { add(m.to), add(m.from); }
  void operator()(Ring& r) { add(r.to), add(r.from), ids.push_back(&r.grid); }
  void operator()(PartialSum& p) { add(p.acc), ids.push_back(&p.grid), flags.push_back(&p.to_all); }
  void operator()(Fence& f) { ids.push_back(&f.grid); }
  void add(Block& b) {
    blocks.push_back(&b);
    for (Stmt& s : b) {
      if (auto* f = std::get_if<For>(&s.node)) add(f->body);
      if (auto* i = std::get_if<If>(&s.node)) {
        for (Compare& c : i->condition) add(c.a), add(c.b);
        add(i->body);
      }
      if (auto* step = std::get_if<Step>(&s.node)) std::visit(*this, step->op);
    }
  }
  explicit Fields(Program& p) {
    for (Kernel& k : p.kernels) {
      for (Symbol& s : k.formals) {
        for (int64_t& n : s.view.sizes) numbers.push_back(&n);
        for (int64_t& n : s.view.strides) numbers.push_back(&n);
        numbers.push_back(&s.view.offset);
      }
      for (Range& r : k.ranges)
        add(r.lo), add(r.hi), numbers.push_back(&r.by), flags.push_back(&r.uniform), ids.push_back(&r.parent);
      for (Buffer& b : k.buffers) {
        for (int64_t& n : b.shape) numbers.push_back(&n);
        numbers.push_back(&b.lx_offset), ids.push_back(&b.slots);
      }
      for (Nest& n : k.nests) {
        for (GridDim& g : n.grid) ids.push_back(&g.size);
        add(n.body);
      }
    }
  }
};

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  void change(Program& p) {
    Fields f(p);
    switch (below(8)) {
      case 0:
      case 1:
      case 2: {
        int64_t& n = *f.numbers[below(static_cast<int64_t>(f.numbers.size()))];
        const auto wrapped = static_cast<uint64_t>(n);  // a number already at the edge goes around
        const int64_t odd[] = {0,
                               1,
                               -1,
                               2,
                               static_cast<int64_t>(wrapped + 1),
                               static_cast<int64_t>(wrapped - 1),
                               n / 2,
                               n ^ 64,
                               INT64_MAX,
                               INT64_MIN,
                               int64_t{1} << 40,
                               65536};
        const int64_t value = odd[below(below(4) ? 8 : 12)];
        n = below(2) ? value : (n > INT64_MAX / 4 || n < INT64_MIN / 4 ? 0 : n * 2);
        break;
      }
      case 3:
      case 4: {
        int32_t& id = *f.ids[below(static_cast<int64_t>(f.ids.size()))];
        id = static_cast<int32_t>(below(6) ? id + below(3) - 1 : below(40) - 2);
        break;
      }
      case 5: {
        bool& flag = *f.flags[below(static_cast<int64_t>(f.flags.size()))];
        flag = !flag;
        break;
      }
      case 6: {
        IntExpr& a = *f.expressions[below(static_cast<int64_t>(f.expressions.size()))];
        const IntExpr b = *f.expressions[below(static_cast<int64_t>(f.expressions.size()))];
        const auto op = static_cast<IntExpr::Op>(static_cast<int>(IntExpr::Op::add) + below(5));
        a = below(2) ? b : IntExpr::binary(op, IntExpr(a), b);
        break;
      }
      default: {
        Block& block = *f.blocks[below(static_cast<int64_t>(f.blocks.size()))];
        if (block.empty()) break;
        const int64_t at = below(static_cast<int64_t>(block.size()));
        if (std::holds_alternative<Step>(block[at].node)) {
          if (below(2))
            block.erase(block.begin() + at);
          else
            std::swap(block[at], block[below(static_cast<int64_t>(block.size()))]);
        }
      }
    }
  }
  /// The program's symbols again equal the formals of its kernels.
  static void bind(Program& p) {
    for (const Call& c : p.calls)
      for (size_t f = 0; f < c.symbols.size(); ++f) {
        Symbol& s = p.symbols[c.symbols[f]];
        s.view = p.kernels[c.kernel].formals[f].view;
      }
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace spyre::program
