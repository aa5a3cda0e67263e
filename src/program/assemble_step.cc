// The text form of steps.
#include <limits>

#include "program/assembler.h"
#include "program/limits.h"
#include "program/vector_rules.h"

namespace spyre::program {

Step Assembler::step() {
  const Token at = next();
  Step s;
  if (at.is("ld")) {
    s.op = load();
  } else if (at.is("st")) {
    s.op = store();
  } else if (at.is("pt")) {
    s.op = matmul(true);
  } else if (at.is("sfp")) {
    s.op = sfp();
  } else if (at.is("mv")) {
    Move move;
    move.to = operand();
    expect("=");
    move.from = operand();
    s.op = std::move(move);
  } else if (at.is("ring")) {
    s.op = ring();
  } else if (at.is("psum")) {
    s.op = psum();
  } else if (at.is("fence")) {
    s.op = Fence{};
  } else if (at.is("barrier")) {
    expect("over");
    s.op = Fence{expect_grid()};
  } else {
    fail_at(at, "expected a statement (buf core for if ld st pt sfp mv ring psum fence barrier) or '}}', found {}",
            describe(at));
  }
  s.loc = step_loc();
  return s;
}

Op Assembler::load() {
  Load load;
  load.to = operand();
  expect("=");
  load.from = access(nullptr);
  if (accept("fill")) load.fill = number("the fill value", true);
  if (accept("share")) {
    expect("(");
    load.share = expect_grid();
    expect(")");
  }
  return load;
}

Op Assembler::store() {
  Store store;
  store.to = access(&store);
  expect("=");
  store.from = operand();
  store.ordered = accept("ordered");
  return store;
}

Op Assembler::matmul(bool on_pt) {
  MatMul m;
  m.on_pt = on_pt;
  m.acc = operand();
  m.accumulate = peek().is("+=");
  if (!m.accumulate && !peek().is("=")) fail_at(peek(), "expected = or +=, found {}", describe(peek()));
  next();
  m.a = operand();
  expect("*");
  m.b = operand();
  if (peek().is("init")) {
    const Token at = next();
    if (!m.accumulate) fail_at(at, "init belongs to +=");
    expect("(");
    do {
      const Token name = peek();
      m.init.push_back(expect_range("a loop"));
      if (kernel_->ranges[m.init.back()].is_core) fail_at(name, "{} is a core range, init takes loops", name.text);
    } while (accept(","));
    expect(")");
  }
  return m;
}

Op Assembler::sfp() {
  if (accept(".")) {
    const Token kind = next();
    if (kind.is("red")) return reduce();
    if (kind.is("scan")) return scan();
    if (kind.is("sort")) return sort(Sort::Kind::sort);
    if (kind.is("merge")) return sort(Sort::Kind::merge);
    if (kind.is("topk")) return sort(Sort::Kind::topk);
    if (kind.is("gather")) return gather_scatter(false);
    if (kind.is("scatter")) return gather_scatter(true);
    if (kind.is("mm")) return matmul(false);
    fail_at(kind, "expected sfp.red scan sort merge topk gather scatter or mm, found sfp.{}", kind.text);
  }
  Vector v;
  do {
    v.to.push_back(operand());
  } while (accept(","));
  const Token at = expect("=");
  for (size_t i = 0; i < v.to.size(); ++i) {
    if (i > 0 && !peek().is(",")) fail_at(at, "{} results need as many expressions, found {}", v.to.size(), i);
    if (i > 0) next();
    v.value.push_back(value_of(register_of(kernel_->buffers[v.to[i].buffer].format), true));
  }
  if (peek().is(",")) fail_at(peek(), "more expressions than the {} results", v.to.size());
  return v;
}

Op Assembler::reduce() {
  Reduce r;
  do {
    r.state.push_back(operand());
  } while (accept(","));
  expect("=");
  const Token name = next();
  const auto monoid = monoid_from_name(name.text);
  if (name.kind != Token::Kind::name || !monoid) {
    fail_at(name, "expected sum prod max min any all argmax argmin welford or logsumexp, found {}", describe(name));
  }
  r.monoid = *monoid;
  const size_t states = static_cast<size_t>(states_of(r.monoid));
  if (r.state.size() != states) fail_at(name, "{} has {} state buffers, not {}", name.text, states, r.state.size());
  r.trap = accept("!");
  const Reg first = register_of(kernel_->buffers[r.state[0].buffer].format);
  if (r.trap && !((r.monoid == Monoid::sum || r.monoid == Monoid::prod) && first == Reg::i32)) {
    fail_at(name, "! belongs to sum and prod of i32");
  }
  expect("(");
  // The value comes last, behind the initial states if there are any; each is parsed again once its place is known.
  const size_t start = position_;
  size_t values = 1;
  vec();
  while (accept(",")) {
    vec();
    ++values;
  }
  if (values != 1 && values != states + 1) {
    fail_at(name, "{} takes the value, or {} initial state(s) and the value; found {} expressions", name.text, states,
            values);
  }
  position_ = start;
  for (size_t i = 0; i + 1 < values; ++i) {
    r.init.push_back(value_of(init_type(r.monoid, static_cast<int>(i), first), false));
    expect(",");
  }
  r.value = value_of(value_type(r.monoid, first), false);
  expect("over");
  r.dim = static_cast<int32_t>(integer("a dimension", 0, limits::buffer_rank - 1));
  expect(")");
  return r;
}

Op Assembler::scan() {
  Scan s;
  s.to = operand();
  expect(",");
  s.carry = operand();
  expect("=");
  const Token name = next();
  const auto monoid = monoid_from_name(name.text);
  if (name.kind != Token::Kind::name || !monoid || !can_scan(*monoid)) {
    fail_at(name, "expected sum prod max or min, found {}", describe(name));
  }
  s.monoid = *monoid;
  s.trap = accept("!");
  const Reg type = register_of(kernel_->buffers[s.carry.buffer].format);
  if (s.trap && !(s.monoid <= Monoid::prod && type == Reg::i32)) fail_at(name, "! belongs to sum and prod of i32");
  expect("(");
  s.value = value_of(type, false);
  expect(",");
  const Token again = peek();
  if (operand() != s.carry)
    fail_at(again, "the second argument must be the carry {}", kernel_->buffers[s.carry.buffer].name);
  expect(")");
  return s;
}

Op Assembler::sort(Sort::Kind kind) {
  Sort s;
  s.kind = kind;
  s.values = operand();
  if (accept(",")) s.indices = operand();
  expect("=");
  s.from = operand();
  if (accept(",")) s.from_indices = operand();
  s.descending = accept("descending");
  return s;
}

Op Assembler::gather_scatter(bool scatter) {
  GatherScatter g;
  g.scatter = scatter;
  auto table = [&] {
    const Token token = next();
    const Name* name = token.kind == Token::Kind::name ? lookup(token.text) : nullptr;
    if (!name || name->kind != Name::Kind::buffer) fail_at(token, "expected a buffer, found {}", describe(token));
    g.table.buffer = name->id;
    expect("[");
    g.index = operand();
    expect("in");
    int_bounds(g.lo, g.hi);
    g.outside = outside();
    expect("]");
  };
  if (scatter) {
    table();
    g.accumulate = peek().is("+=");
    if (!g.accumulate && !peek().is("=")) fail_at(peek(), "expected = or +=, found {}", describe(peek()));
    next();
    g.data = operand();
  } else {
    g.data = operand();
    expect("=");
    table();
  }
  return g;
}

Op Assembler::ring() {
  expect(".");
  const Token kind = next();
  Ring r;
  if (!kind.is("shift") && !kind.is("gather") && !kind.is("remap")) {
    fail_at(kind, "expected ring.shift ring.gather or ring.remap, found ring.{}", kind.text);
  }
  r.to = operand();
  expect("=");
  r.from = operand();
  if (!kind.is("remap")) {
    expect("over");
    r.grid = expect_grid();
    r.kind = Ring::Kind::gather;
    if (kind.is("shift")) {
      r.kind = Ring::Kind::shift;
      expect("by");
      r.by = static_cast<int32_t>(integer("a distance", -limits::cores, limits::cores));
    }
    return r;
  }
  r.kind = Ring::Kind::remap;
  auto ranges = [&](std::string_view word, const BufRef& ref, std::vector<Id>& out) {
    const Token at = expect(word);
    expect("(");
    do {
      if (accept("_")) {
        out.push_back(none);
        continue;
      }
      if (!peek(1).is("@")) {
        out.push_back(expect_range("a range, name@nest, or _"));
        continue;
      }
      const Token name = next();
      next();
      const int64_t nest = integer("the number of a nest", 0, static_cast<int64_t>(core_ranges_.size()) - 1);
      out.push_back(find(name, core_ranges_[nest], "a core range of that nest"));
    } while (accept(","));
    expect(")");
    const size_t rank = kernel_->buffers[ref.buffer].shape.size();
    if (out.size() != rank) fail_at(at, "{} names {} dimensions, its buffer has {}", word, out.size(), rank);
  };
  ranges("from", r.from, r.from_ranges);
  ranges("to", r.to, r.to_ranges);
  return r;
}

Op Assembler::psum() {
  PartialSum p;
  p.acc = operand();
  expect("over");
  p.grid = expect_grid();
  expect("to");
  p.to_all = accept("all");
  if (!p.to_all) integer("0 or all: the destination", 0, 0);
  return p;
}

}  // namespace spyre::program
