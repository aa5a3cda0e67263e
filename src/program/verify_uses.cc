// Which buffers and which memory a step touches.
#include "program/verify_context.h"

namespace spyre::program::verifier {
namespace {

struct Collector {
  std::vector<Use> uses;

  void writes(const BufRef& r) { uses.push_back({&r, true, false}); }
  void reads(const BufRef& r) { uses.push_back({&r, false, true}); }
  void updates(const BufRef& r) { uses.push_back({&r, true, true}); }
  void reads(const VecExpr& e) {
    std::vector<const BufRef*> operands;
    for_each_operand(e, operands);
    for (const BufRef* r : operands) reads(*r);
  }
  void reads(const std::vector<Entry>& entries) {
    for (const Entry& e : entries)
      if (e.kind == Entry::Kind::indexed) reads(e.index);
  }

  void operator()(const Load& l) { reads(l.from.entries), writes(l.to); }
  void operator()(const Store& s) {
    reads(s.to.entries), reads(s.from);
    if (s.where_entry != none) reads(s.where_index);
  }
  void operator()(const MatMul& m) {
    reads(m.a), reads(m.b);
    m.accumulate ? updates(m.acc) : writes(m.acc);
  }
  void operator()(const Vector& v) {
    for (const VecExpr& e : v.value) reads(e);
    for (const BufRef& r : v.to) writes(r);
  }
  void operator()(const Reduce& r) {
    for (const VecExpr& e : r.init) reads(e);
    reads(r.value);
    for (const BufRef& s : r.state) writes(s);
  }
  void operator()(const Scan& s) { reads(s.value), updates(s.carry), writes(s.to); }
  void operator()(const Sort& s) {
    reads(s.from);
    if (s.from_indices.buffer != none) reads(s.from_indices);
    const bool state = s.kind == Sort::Kind::topk;  // the best so far
    state ? updates(s.values) : writes(s.values);
    if (s.indices.buffer != none) state ? updates(s.indices) : writes(s.indices);
  }
  void operator()(const GatherScatter& g) {
    reads(g.index);
    if (g.scatter)
      reads(g.data), updates(g.table);
    else
      reads(g.table), writes(g.data);
  }
  void operator()(const Move& m) { reads(m.from), writes(m.to); }
  void operator()(const Ring& r) { reads(r.from), writes(r.to); }
  void operator()(const PartialSum& p) { updates(p.acc); }
  void operator()(const Fence&) {}
};

}  // namespace

void for_each_operand(const VecExpr& e, std::vector<const BufRef*>& out) {
  if (e.op == VecOp::operand) out.push_back(&e.ref);
  for (const VecExpr& a : e.args) for_each_operand(a, out);
}

std::vector<Use> uses_of(const Step& step) {
  Collector collector;
  std::visit(collector, step.op);
  return std::move(collector.uses);
}

const MemRef* memory_of(const Step& step) {
  if (const auto* l = std::get_if<Load>(&step.op)) return &l->from;
  if (const auto* s = std::get_if<Store>(&step.op)) return &s->to;
  return nullptr;
}

}  // namespace spyre::program::verifier
