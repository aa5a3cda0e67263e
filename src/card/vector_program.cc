#include "card/vector_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "card/checker.h"
#include "card/elements.h"
#include "card/tile_in_memory.h"
#include "program/vector_rules.h"

namespace spyre::card {

using program::Reg;
using program::VecExpr;
using program::VecOp;

namespace {

host::F32Unary f32_unary_of(VecOp op) {
  using U = host::F32Unary;
  switch (op) {
    case VecOp::neg: return U::neg;
    case VecOp::abs: return U::abs;
    case VecOp::square: return U::square;
    case VecOp::sign: return U::sign;
    case VecOp::rcp: return U::rcp;
    case VecOp::floor: return U::floor;
    case VecOp::ceil: return U::ceil;
    case VecOp::round: return U::round;
    case VecOp::trunc: return U::trunc;
    case VecOp::exp: return U::exp;
    case VecOp::exp2: return U::exp2;
    case VecOp::expm1: return U::expm1;
    case VecOp::log: return U::log;
    case VecOp::log2: return U::log2;
    case VecOp::log1p: return U::log1p;
    case VecOp::sqrt: return U::sqrt;
    case VecOp::rsqrt: return U::rsqrt;
    case VecOp::sin: return U::sin;
    case VecOp::cos: return U::cos;
    case VecOp::tan: return U::tan;
    case VecOp::tanh: return U::tanh;
    case VecOp::erf: return U::erf;
    default: fail(Fault::unimplemented, "the card has no f32 operation `{}`", program::rule_of(op).name);
  }
}

host::F32Binary f32_binary_of(VecOp op) {
  using B = host::F32Binary;
  switch (op) {
    case VecOp::add: return B::add;
    case VecOp::sub: return B::sub;
    case VecOp::mul: return B::mul;
    case VecOp::div: return B::div;
    case VecOp::min: return B::min;
    case VecOp::max: return B::max;
    case VecOp::pow: return B::pow;
    case VecOp::fmod: return B::fmod;
    default: fail(Fault::unimplemented, "the card has no f32 operation `{}`", program::rule_of(op).name);
  }
}

host::I32Unary i32_unary_of(VecOp op) {
  using U = host::I32Unary;
  switch (op) {
    case VecOp::neg: return U::neg;
    case VecOp::abs: return U::abs;
    case VecOp::square: return U::square;
    case VecOp::sign: return U::sign;
    case VecOp::bit_not: return U::bit_not;
    default: fail(Fault::unimplemented, "the card has no i32 operation `{}`", program::rule_of(op).name);
  }
}

host::I32Binary i32_binary_of(VecOp op) {
  using B = host::I32Binary;
  switch (op) {
    case VecOp::add: return B::add;
    case VecOp::sub: return B::sub;
    case VecOp::mul: return B::mul;
    case VecOp::div: return B::div;
    case VecOp::floor_div: return B::floor_div;
    case VecOp::remainder: return B::remainder;
    case VecOp::min: return B::min;
    case VecOp::max: return B::max;
    case VecOp::bit_and: return B::bit_and;
    case VecOp::bit_or: return B::bit_or;
    case VecOp::bit_xor: return B::bit_xor;
    case VecOp::shl: return B::shl;
    case VecOp::shr: return B::shr;
    default: fail(Fault::unimplemented, "the card has no i32 operation `{}`", program::rule_of(op).name);
  }
}

host::Comparison comparison_of(VecOp op) {
  using C = host::Comparison;
  switch (op) {
    case VecOp::lt: return C::lt;
    case VecOp::le: return C::le;
    case VecOp::gt: return C::gt;
    case VecOp::ge: return C::ge;
    case VecOp::eq: return C::eq;
    default: return C::ne;
  }
}

}  // namespace

VectorProgram::VectorProgram(const std::vector<const VecExpr*>& roots, int rank, const StepContext& context)
    : rank_(rank) {
  if (rank < 1 || rank > max_rank) fail(Fault::program, "a vector expression over {} dimensions", rank);
  for (const VecExpr* e : roots) roots_.push_back(add(*e, context));
  for (const Operand& o : operands_) {
    const int shift = rank_ - o.info().rank;
    for (int d = 0; d < o.info().rank; ++d)
      if (!o.single(d)) sized_[d + shift] = true;
  }
  allocate();
}

int VectorProgram::add(const VecExpr& e, const StepContext& context) {
  Node n;
  n.expr = &e;
  n.type = e.type;
  for (const auto& a : e.args) {
    if (n.count == 3) fail(Fault::program, "operation `{}` has more than three arguments", program::rule_of(e.op).name);
    n.args[n.count++] = add(a, context);
  }
  const bool real = n.count > 0 && nodes_[n.args[0]].type == Reg::f32;
  using K = program::VecRule::Kind;
  switch (e.op) {
    case VecOp::operand: {
      n.kind = Kind::load;
      Operand operand(e.ref, context.buffers, context.vars);
      if (operand.info().rank > rank_)
        fail(Fault::program, "operand {} has {} dimensions in a box of {}", operand.info().source->name,
             operand.info().rank, rank_);
      if (e.type == Reg::pred) fail(Fault::program, "operand {} as a predicate", operand.info().source->name);
      bool all = true, but_last = true;
      for (int d = 0; d < operand.info().rank; ++d) {
        const bool last = d + 1 == operand.info().rank;
        all = all && operand.single(d);
        but_last = but_last && (!last || operand.single(d));
      }
      n.cls = all ? Class::once : but_last ? Class::row : Class::lane;
      n.source = static_cast<int>(operands_.size());
      operands_.push_back(std::move(operand));
      break;
    }
    case VecOp::constant_f:
    case VecOp::constant_i: n.kind = Kind::constant; break;
    case VecOp::integer:
      n.kind = Kind::integer;
      n.value = Expr(e.expr, context.vars);
      break;
    case VecOp::scalar:
      n.kind = Kind::scalar;
      if (e.id < 0 || e.id >= context.vars.scalars) fail(Fault::program, "a vector expression names scalar {}", e.id);
      break;
    case VecOp::iota:
      n.kind = Kind::iota;
      n.dim = e.id;
      if (e.id < 0 || e.id >= rank_) fail(Fault::program, "iota{} in a box of {} dimensions", e.id, rank_);
      n.cls = e.id + 1 == rank_ ? Class::lane : Class::row;
      break;
    case VecOp::fma: n.kind = Kind::fma; break;
    case VecOp::is_nan: n.kind = Kind::is_nan; break;
    case VecOp::select: n.kind = Kind::select; break;
    case VecOp::logical_and: n.kind = Kind::i2, n.op = static_cast<int>(host::I32Binary::bit_and); break;
    case VecOp::logical_or: n.kind = Kind::i2, n.op = static_cast<int>(host::I32Binary::bit_or); break;
    case VecOp::logical_not: n.kind = Kind::i1, n.op = static_cast<int>(host::I32Unary::bit_not); break;
    case VecOp::cast: {
      const Reg from = nodes_[n.args[0]].type;
      if (from == e.type) return n.args[0];
      if (e.type == Reg::pred) fail(Fault::program, "a cast to a predicate");
      n.kind = e.type == Reg::f32 ? (from == Reg::i32 ? Kind::cast_if : Kind::cast_mf)
                                  : (from == Reg::f32 ? Kind::cast_fi : Kind::cast_mi);
      break;
    }
    case VecOp::philox:
      n.kind = Kind::philox;
      if (e.integer < 0 || e.integer > 3) fail(Fault::program, "philox makes words 0 to 3, not {}", e.integer);
      break;
    default: {
      const auto& rule = program::rule_of(e.op);
      if (n.count != rule.arguments) fail(Fault::program, "operation `{}` has {} arguments", rule.name, n.count);
      if (rule.kind == K::compare) {
        n.kind = real ? Kind::fcmp : Kind::icmp;
        n.op = static_cast<int>(comparison_of(e.op));
      } else if (real) {
        n.kind = n.count == 1 ? Kind::f1 : Kind::f2;
        n.op = n.count == 1 ? static_cast<int>(f32_unary_of(e.op)) : static_cast<int>(f32_binary_of(e.op));
      } else {
        n.kind = n.count == 1 ? Kind::i1 : Kind::i2;
        n.op = n.count == 1 ? static_cast<int>(i32_unary_of(e.op)) : static_cast<int>(i32_binary_of(e.op));
      }
    }
  }
  for (int a = 0; a < n.count; ++a) n.cls = std::max(n.cls, nodes_[n.args[a]].cls);
  // The same value twice (macros repeat their arguments) is computed once.
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& o = nodes_[i];
    const VecExpr& x = *o.expr;
    if (o.kind != n.kind || o.op != n.op || o.type != n.type || !std::equal(o.args, o.args + 3, n.args)) continue;
    if (x.op == e.op && x.trap == e.trap && x.number == e.number && std::signbit(x.number) == std::signbit(e.number) &&
        x.integer == e.integer && x.id == e.id && x.ref == e.ref && x.expr == e.expr) {
      if (n.source >= 0) operands_.pop_back();
      return static_cast<int>(i);
    }
  }
  nodes_.push_back(std::move(n));
  return static_cast<int>(nodes_.size()) - 1;
}

void VectorProgram::allocate() {
  const int n = static_cast<int>(nodes_.size());
  std::vector<int> last(n, -1);
  for (int i = 0; i < n; ++i)
    for (int a = 0; a < nodes_[i].count; ++a) last[nodes_[i].args[a]] = i;
  for (int r : roots_) last[r] = n;
  std::vector<int> free;
  for (int i = 0; i < n; ++i) {
    Node& node = nodes_[i];
    for (int a = 0; a < node.count; ++a) {
      Node& arg = nodes_[node.args[a]];
      if (arg.cls == Class::row && node.cls == Class::lane && arg.spread_reg < 0) arg.spread_reg = registers_++;
      if (arg.cls != Class::lane || node.cls != Class::lane || last[node.args[a]] != i) continue;
      last[node.args[a]] = -2;  // an argument used twice is freed once
      free.push_back(arg.reg);
    }
    if (node.cls == Class::lane && !free.empty()) {
      node.reg = free.back();
      free.pop_back();
    } else {
      node.reg = registers_++;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------- runs

namespace {
constexpr int64_t strip_lanes = 1024;
/// Rows at least this long make a strip of their own: a value of the row then needs no copies.
constexpr int64_t own_strip = 192;
/// Padded off multiples of 4 KB, which would compete for the same cache sets.
constexpr int64_t register_bytes = strip_lanes * 4 + 128;

/// One 32-bit value per row to all lanes of the row.
void spread(const void* values, void* to, int64_t rows, int64_t cols) {
  typedef int32_t Lanes __attribute__((vector_size(64)));
  constexpr int64_t width = sizeof(Lanes) / 4;
  const auto* v = static_cast<const int32_t*>(values);
  auto* t = static_cast<int32_t*>(to);
  for (int64_t r = 0; r < rows; ++r, t += cols) {
    const Lanes all = Lanes{} + v[r];
    int64_t i = 0;
    for (; i + width <= cols; i += width) std::memcpy(t + i, &all, sizeof all);
    for (; i < cols; ++i) t[i] = v[r];
  }
}
}  // namespace

VectorProgram::Run::Run(const VectorProgram& program, Core& core, const std::vector<View>& results)
    : program_(program), core_(core) {
  for (int d = 0; d < program.rank_; ++d) sizes_[d] = program.sized_[d] ? INT64_MAX : 1;
  sources_.reserve(program.operands_.size());
  for (const Operand& o : program.operands_) {
    Source s;
    s.view = o.shape(core);
    const Id buffer = o.buffer();
    if (core.run->lazy_loads && core.lazy[buffer].pending) {
      bool written = false;
      for (const View& r : results) written = written || r.buffer == buffer;
      s.in_memory = !written && o.whole() && !o.ref().transposed && s.view.rank <= 2 && !o.single(s.view.rank - 1) &&
                    tile_in_memory(core.lazy[buffer], s.tile);
      if (!s.in_memory) materialize(core, buffer);
    }
    const int shift = program.rank_ - s.view.rank;
    for (int d = 0; d < s.view.rank; ++d) {
      if (s.view.single[d]) continue;
      s.stride[d + shift] = s.view.stride[d];
      sizes_[d + shift] = std::min(sizes_[d + shift], s.view.size[d]);
    }
    const int last = program.rank_ - 1;
    s.unit = s.stride[last] == 1;
    for (const View& r : results) direct_ = direct_ && (results.size() == 1 || r.buffer != s.view.buffer);
    sources_.push_back(s);
  }
}

void VectorProgram::Run::start() {
  const int rank = program_.rank_;
  cols_ = sizes_[rank - 1];
  rows_ = 1;
  for (int d = 0; d + 1 < rank; ++d) rows_ *= sizes_[d];
  if (empty()) return;
  strip_cols_ = std::min(cols_, strip_lanes);
  strip_rows_ = cols_ >= own_strip ? 1 : std::max<int64_t>(1, strip_lanes / cols_);
  for (Source& s : sources_) {
    if (core_.run->checker) check_read(s);
    // Rows follow each other without gaps when every leading dimension's stride is what a packed box would have.
    int64_t packed = cols_;
    s.dense = s.unit || cols_ == 1;
    for (int d = rank - 2; d >= 0; --d) {
      if (sizes_[d] != 1 && s.stride[d] != packed) s.dense = false;
      packed *= sizes_[d];
    }
  }
  registers_ = Scratch::mine().get<std::byte>(Scratch::registers, (program_.registers_ + 1) * register_bytes);
  data_.assign(program_.nodes_.size(), nullptr);
  spread_.assign(program_.nodes_.size(), nullptr);
  for (size_t i = 0; i < program_.nodes_.size(); ++i)
    if (program_.nodes_[i].cls == Class::once) execute(static_cast<int>(i), 1, 0, 1, 0, 1);
}

void* VectorProgram::Run::reg(int number) const { return registers_ + number * register_bytes; }

const std::byte* VectorProgram::Run::at(const Source& s, int64_t row) const {
  int64_t offset = 0;
  for (int d = program_.rank_ - 2; d >= 0; --d) {
    if (d == 0) {
      offset += row * s.stride[0];
      break;
    }
    offset += row % sizes_[d] * s.stride[d];
    row /= sizes_[d];
  }
  return s.view.data + offset * base::format_bytes(s.view.format);
}

void VectorProgram::Run::strip(int64_t r, int64_t nr, int64_t c, int64_t nc) {
  const auto& nodes = program_.nodes_;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].cls == Class::once) continue;
    spread_[i] = nullptr;
    execute(static_cast<int>(i), nodes[i].cls == Class::row ? nr : nr * nc, r, nr, c, nc);
  }
}

const void* VectorProgram::Run::argument(int node, Class consumer, int64_t nr, int64_t nc, host::Splat bit,
                                         host::Splat& splat) {
  const Node& n = program_.nodes_[node];
  if (n.cls == consumer) return data_[node];
  if (n.cls == Class::once || nr == 1) {
    splat |= bit;
    return data_[node];
  }
  if (!spread_[node]) {
    spread_[node] = reg(n.spread_reg);
    spread(data_[node], spread_[node], nr, nc);
  }
  return spread_[node];
}

void VectorProgram::Run::load(int node, int64_t r, int64_t nr, int64_t c, int64_t nc) {
  const Node& n = program_.nodes_[node];
  const Source& s = sources_[n.source];
  const Format f = s.view.format;
  const int64_t bytes = base::format_bytes(f);
  const int64_t step = s.stride[program_.rank_ - 1];
  const bool real = n.type == Reg::f32;
  const bool wide = bytes == 4 && real == (f == Format::f32);
  const bool per_row = n.cls != Class::lane;
  if (!per_row && !s.in_memory && direct_ && wide && (nr == 1 ? s.unit : s.dense)) {
    data_[node] = at(s, r) + c * 4;
    return;
  }
  void* to = reg(n.reg);
  data_[node] = to;
  if (s.in_memory) {
    host::Tile tile = s.tile;
    const bool broadcast = s.stride[0] == 0 && program_.rank_ > 1;  // one row for all
    if (!broadcast) tile.data += r * tile.row_stride;
    for (int64_t i = 0; i < (broadcast ? nr : 1); ++i) {
      const int64_t rows = broadcast ? 1 : nr, first = i * nc;
      if (real)
        host::unpack(tile, rows, c, nc, static_cast<float*>(to) + first, nc);
      else
        host::unpack(tile, rows, c, nc, static_cast<int32_t*>(to) + first, nc);
    }
    return;
  }
  auto put = [&](const std::byte* from, int64_t stride, int64_t first, int64_t count) {
    if (real)
      load_f32(from, f, stride, static_cast<float*>(to) + first, count);
    else
      load_i32(from, f, stride, static_cast<int32_t*>(to) + first, count);
  };
  if (n.cls == Class::once) return put(s.view.data, 1, 0, 1);
  if (per_row) {
    if (wide && program_.rank_ == 2) {
      const std::byte* from = at(s, r);
      const int64_t stride = s.stride[0];
      for (int64_t i = 0; i < nr; ++i) std::memcpy(static_cast<char*>(to) + 4 * i, from + i * stride * 4, 4);
      return;
    }
    for (int64_t i = 0; i < nr; ++i) put(at(s, r + i), 1, i, 1);
    return;
  }
  if (nr > 1 && s.dense) return put(at(s, r), 1, 0, nr * nc);
  for (int64_t i = 0; i < nr; ++i) put(at(s, r + i) + c * step * bytes, step, i * nc, nc);
}

void VectorProgram::Run::iota(int node, int64_t r, int64_t nr, int64_t c, int64_t nc) {
  const Node& n = program_.nodes_[node];
  auto* to = static_cast<int32_t*>(reg(n.reg));
  data_[node] = to;
  if (n.cls == Class::lane) {
    for (int64_t i = 0; i < nr; ++i)
      host::iota(to + i * nc, static_cast<int32_t>(c), 1, static_cast<size_t>(nc));
    return;
  }
  int64_t inner = 1;
  for (int d = n.dim + 1; d + 1 < program_.rank_; ++d) inner *= sizes_[d];
  for (int64_t i = 0; i < nr; ++i) to[i] = static_cast<int32_t>((r + i) / inner % sizes_[n.dim]);
}

void VectorProgram::Run::execute(int node, int64_t lanes, int64_t r, int64_t nr, int64_t c, int64_t nc) {
  const Node& x = program_.nodes_[node];
  const auto n = static_cast<size_t>(lanes);
  if (x.kind == Kind::load) return load(node, r, nr, c, nc);
  if (x.kind == Kind::iota) return iota(node, r, nr, c, nc);
  void* to = reg(x.reg);
  auto* f = static_cast<float*>(to);
  auto* i = static_cast<int32_t*>(to);
  host::Splat splat = host::splat_none;
  const void* a = x.count > 0 ? argument(x.args[0], x.cls, nr, nc, host::splat_first, splat) : nullptr;
  const void* b = x.count > 1 ? argument(x.args[1], x.cls, nr, nc, host::splat_second, splat) : nullptr;
  const void* d = x.count > 2 ? argument(x.args[2], x.cls, nr, nc, host::splat_third, splat) : nullptr;
  auto fl = [](const void* p) { return static_cast<const float*>(p); };
  auto in = [](const void* p) { return static_cast<const int32_t*>(p); };
  host::I32Status status = host::i32_exact;
  switch (x.kind) {
    case Kind::constant:
      if (x.type == Reg::f32)
        *f = static_cast<float>(x.expr->op == VecOp::constant_f ? x.expr->number : static_cast<double>(x.expr->integer));
      else
        *i = static_cast<int32_t>(x.expr->integer);
      break;
    case Kind::integer: *i = static_cast<int32_t>(x.value(core_.v())); break;
    case Kind::scalar:
      if (x.type == Reg::f32)
        *f = core_.run->float_scalars[x.expr->id];
      else
        *i = static_cast<int32_t>(core_.v()[core_.run->vars.scalar(x.expr->id)]);
      break;
    case Kind::f1: host::f32_unary(static_cast<host::F32Unary>(x.op))(f, fl(a), n); break;
    case Kind::f2: host::f32_binary(static_cast<host::F32Binary>(x.op))(f, fl(a), fl(b), n, splat); break;
    case Kind::fcmp: host::f32_compare(static_cast<host::Comparison>(x.op))(i, fl(a), fl(b), n, splat); break;
    case Kind::icmp: host::i32_compare(static_cast<host::Comparison>(x.op))(i, in(a), in(b), n, splat); break;
    case Kind::fma: host::f32_fma(f, fl(a), fl(b), fl(d), n, splat); break;
    case Kind::is_nan: host::f32_is_nan(i, fl(a), n); break;
    case Kind::i1: status = host::i32_unary(static_cast<host::I32Unary>(x.op))(i, in(a), n); break;
    case Kind::i2: status = host::i32_binary(static_cast<host::I32Binary>(x.op))(i, in(a), in(b), n, splat); break;
    case Kind::select: host::select(to, in(a), b, d, n, splat); break;
    case Kind::cast_fi: status = host::cast_f32_i32(i, fl(a), n); break;
    case Kind::cast_if: host::cast_i32_f32(f, in(a), n); break;
    case Kind::cast_mf: host::cast_mask_f32(f, in(a), n); break;
    case Kind::cast_mi: host::cast_mask_i32(i, in(a), n); break;
    case Kind::philox: host::philox(i, in(a), in(b), in(d), static_cast<int>(x.expr->integer), n, splat); break;
    default: break;
  }
  if (x.expr->trap && status != host::i32_exact) {
    if (status & host::i32_zero_division) fail(Fault::user, "integer division by zero");
    fail(Fault::user, "an integer result of `{}` is outside int32, in which this device holds int64 values",
         x.kind == Kind::cast_fi ? "cast" : program::rule_of(x.expr->op).name);
  }
  data_[node] = to;
}

VectorProgram::Value VectorProgram::Run::value(int root) const {
  const int node = program_.roots_[root];
  return {data_[node], program_.nodes_[node].cls, program_.nodes_[node].type};
}

const void* VectorProgram::Run::lanes(int root, void* to, int64_t nr, int64_t nc) const {
  const Value v = value(root);
  if (v.cls == Class::lane || (v.cls == Class::row && nc == 1)) return v.data;
  if (v.cls == Class::row)
    spread(v.data, to, nr, nc);
  else
    spread(v.data, to, 1, nr * nc);
  return to;
}

void VectorProgram::Run::check_read(const Source& s) const {
  View v = s.view;
  const int shift = program_.rank_ - v.rank;
  for (int d = 0; d < v.rank; ++d)
    if (!v.single[d]) v.size[d] = std::min(v.size[d], sizes_[d + shift]);
  core_.run->checker->read(core_, v);
}

}  // namespace spyre::card
