#include "card/touches.h"

namespace spyre::card {

namespace {

using program::BufRef;

struct Collector {
  std::vector<Touch> out;

  void read(const BufRef& r) { add(r, true, false); }
  void write(const BufRef& r) { add(r, false, true); }
  void both(const BufRef& r) { add(r, true, true); }
  void add(const BufRef& r, bool reads, bool writes) {
    if (r.buffer != program::none) out.push_back({&r, reads, writes});
  }
  void entries(const program::MemRef& m) {
    for (const auto& e : m.entries)
      if (e.kind == program::Entry::Kind::indexed) read(e.index);
  }
  void expression(const program::VecExpr& e) {
    if (e.op == program::VecOp::operand) read(e.ref);
    for (const auto& a : e.args) expression(a);
  }

  void operator()(const program::Load& s) {
    entries(s.from);
    write(s.to);
  }
  void operator()(const program::Store& s) {
    read(s.from);
    entries(s.to);
    if (s.where_entry != program::none) read(s.where_index);
  }
  void operator()(const program::MatMul& s) {
    read(s.a);
    read(s.b);
    both(s.acc);
  }
  void operator()(const program::Vector& s) {
    for (const auto& v : s.value) expression(v);
    for (const auto& t : s.to) write(t);
  }
  void operator()(const program::Reduce& s) {
    for (const auto& v : s.init) expression(v);
    expression(s.value);
    for (const auto& t : s.state) write(t);
  }
  void operator()(const program::Scan& s) {
    expression(s.value);
    both(s.carry);
    write(s.to);
  }
  void operator()(const program::Sort& s) {
    read(s.from);
    read(s.from_indices);
    const bool topk = s.kind == program::Sort::Kind::topk;
    add(s.values, topk, true);
    add(s.indices, topk, true);
  }
  void operator()(const program::GatherScatter& s) {
    read(s.index);
    if (s.scatter) {
      read(s.data);
      both(s.table);
    } else {
      read(s.table);
      both(s.data);
    }
  }
  void operator()(const program::Move& s) {
    read(s.from);
    write(s.to);
  }
  void operator()(const program::Ring& s) {
    read(s.from);
    write(s.to);
  }
  void operator()(const program::PartialSum& s) { both(s.acc); }
  void operator()(const program::Fence&) {}
};

}  // namespace

std::vector<Touch> touches_of(const program::Step& step) {
  Collector c;
  std::visit(c, step.op);
  return std::move(c.out);
}

}  // namespace spyre::card
