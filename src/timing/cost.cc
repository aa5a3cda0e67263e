#include "timing/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "timing/affine.h"
#include "timing/laws.h"
#include "timing/memory_cost.h"

namespace spyre::timing {

using layout::numel;
using program::BufRef;
using program::Monoid;
using program::Unit;
using program::VecExpr;
using program::VecOp;

namespace {

using Extents = std::vector<int64_t>;

int64_t rows(const Extents& e) { return e.empty() || e.back() == 0 ? 0 : numel(e) / e.back(); }

int op_cycles(VecOp op, const device::Description& d) {
  switch (op) {
    case VecOp::operand:
    case VecOp::constant_f:
    case VecOp::constant_i:
    case VecOp::integer:
    case VecOp::scalar:
    case VecOp::iota:
      return 0;
    case VecOp::div:
    case VecOp::fmod:
    case VecOp::rcp:
    case VecOp::sqrt:
    case VecOp::rsqrt:
    case VecOp::floor_div:
    case VecOp::remainder:
      return d.sfp_divide_cycles;
    case VecOp::exp:
    case VecOp::expm1:
    case VecOp::log:
    case VecOp::log1p:
    case VecOp::log2:
    case VecOp::exp2:
    case VecOp::sin:
    case VecOp::cos:
    case VecOp::tan:
    case VecOp::tanh:
    case VecOp::erf:
    case VecOp::pow:
      return d.sfp_function_cycles;
    case VecOp::philox:
      return d.sfp_philox_cycles;
    default:
      return d.sfp_simple_cycles;
  }
}

/// Cycles to combine one lane vector into a monoid's state.
int monoid_cycles(Monoid m, const device::Description& d) {
  switch (m) {
    case Monoid::argmax:
    case Monoid::argmin:
      return 3 * d.sfp_simple_cycles;
    case Monoid::welford:
      return 4 * d.sfp_simple_cycles + d.sfp_divide_cycles;
    case Monoid::logsumexp:
      return 3 * d.sfp_simple_cycles + 2 * d.sfp_function_cycles;
    default:
      return d.sfp_simple_cycles;
  }
}

/// Adds up one SFP step: lane vectors times cycles, and LX bytes of its operands (each once).
class Sfp {
 public:
  Sfp(const Sizes& sizes, const device::Description& d) : sizes_(sizes), d_(d) {}

  /// Sizes of an operand that is read; counts its bytes and makes the lanes narrow if it is wide.
  Extents read(const BufRef& ref) {
    Extents box = box_sizes(ref, sizes_);
    if (std::find(seen_.begin(), seen_.end(), &ref) == seen_.end() &&
        std::none_of(seen_.begin(), seen_.end(), [&](const BufRef* s) { return *s == ref; })) {
      seen_.push_back(&ref);
      lx_bytes_ += lx_box_bytes(box, format(ref));
    }
    widen(ref);
    return box;
  }
  Extents write(const BufRef& ref) {
    Extents box = state(ref);
    widen(ref);
    return box;
  }
  /// What is read or written from here on does not change how many lanes a vector has: the state of a reduction is
  /// wide, its values need not be.
  void fix_width() { fixed_ = true; }
  /// One way through the port.
  Extents state(const BufRef& ref) {
    Extents box = box_sizes(ref, sizes_);
    lx_bytes_ += lx_box_bytes(box, format(ref));
    return box;
  }
  /// Widest width of an expression's operands must be known before cycles are counted.
  void look(const VecExpr& e) {
    if (e.op == VecOp::operand) read(e.ref);
    for (const VecExpr& a : e.args) look(a);
  }
  /// Counts an expression's cycles; returns the sizes of its value (1 where broadcast), aligned to the last of
  /// `result`.
  Extents count(const VecExpr& e, const Extents& result) {
    Extents box(result.size(), 1);
    const auto widen = [&](const Extents& other) {
      for (size_t i = 0; i < other.size() && i < box.size(); ++i) {
        int64_t& mine = box[box.size() - 1 - i];
        mine = std::max(mine, other[other.size() - 1 - i]);
      }
    };
    if (e.op == VecOp::operand) widen(box_sizes(e.ref, sizes_));
    if (e.op == VecOp::iota && e.id >= 0 && static_cast<size_t>(e.id) < box.size()) box[e.id] = result[e.id];
    for (const VecExpr& a : e.args) widen(count(a, result));
    add(box, op_cycles(e.op, d_));
    return box;
  }
  void add(const Extents& box, double cycles) { vector_cycles_ += static_cast<double>(vectors(box)) * cycles; }
  int64_t vectors(const Extents& box) const {
    return box.empty() ? 1 : rows(box) * ceil_div(box.back(), wide_ ? d_.sfp_lanes_f32 : d_.sfp_lanes_f16);
  }
  /// Sticks as the SFP meets them: registers are f32 or the narrow width of the step.
  void add_lanes(const Extents& box) { lane_sticks_ += vectors(box); }

  Cost cost() const {
    Cost c;
    c.unit = Unit::sfp;
    c.lx_bytes = lx_bytes_;
    c.lx_ps = lx_port_ps(lx_bytes_, d_);
    c.unit_ps = std::max({sfp_ps(vector_cycles_, d_) + sfp_lanes_ps(lane_sticks_, d_), c.lx_ps}) +
                cycles_ps(d_.step_cycles, d_.core_ghz);
    return c;
  }

 private:
  void widen(const BufRef& ref) { wide_ = wide_ || (!fixed_ && base::format_bytes(format(ref)) > 2); }
  base::Format format(const BufRef& ref) const { return sizes_.kernel.buffers[ref.buffer].format; }

  const Sizes& sizes_;
  const device::Description& d_;
  std::vector<const BufRef*> seen_;
  bool wide_ = false, fixed_ = false;
  int64_t lx_bytes_ = 0, lane_sticks_ = 0;
  double vector_cycles_ = 0;
};

class Pricer {
 public:
  Pricer(const Sizes& sizes, const device::Description& d) : sizes_(sizes), d_(d) {}

  Cost operator()(const program::Load& s) const { return load_cost(s, sizes_, d_); }
  Cost operator()(const program::Store& s) const { return store_cost(s, sizes_, d_); }

  Cost operator()(const program::MatMul& s) const {
    const auto matrix = [&](const BufRef& ref) {
      Extents box = box_sizes(ref, sizes_);
      if (box.size() < 2) box.insert(box.begin(), 1);
      return ref.transposed ? std::pair(box[box.size() - 1], box[box.size() - 2])
                            : std::pair(box[box.size() - 2], box[box.size() - 1]);
    };
    const auto [m, k] = matrix(s.a);
    const auto [bk, n] = matrix(s.b);
    if (m <= 0 || n <= 0 || k <= 0 || bk <= 0) return {};
    Cost c;
    if (!s.on_pt) {
      Sfp sfp(sizes_, d_);
      sfp.read(s.a);
      sfp.read(s.b);
      if (s.accumulate) sfp.read(s.acc);
      sfp.write(s.acc);
      sfp.add({m, n}, static_cast<double>(k) * d_.sfp_simple_cycles);
      return sfp.cost();
    }
    const base::Format format = format_of(s.a);
    c.unit = Unit::pt;
    c.macs = m * n * k;
    c.lx_bytes = pt_lx_bytes(m, n, k, format, d_);
    int64_t turned = 0;  // bytes of transposed operands: moved first
    for (const BufRef* ref : {&s.a, &s.b}) {
      if (ref->transposed) turned += 2 * lx_box_bytes(box_sizes(*ref, sizes_), format_of(*ref));
    }
    c.lx_bytes += turned;
    c.lx_ps = lx_port_ps(c.lx_bytes, d_);
    c.unit_ps = std::max(pt_ps(m, n, k, format, d_) + lx_port_ps(turned, d_), c.lx_ps) + overhead();
    return c;
  }

  Cost operator()(const program::Vector& s) const {
    Sfp sfp(sizes_, d_);
    for (const VecExpr& e : s.value) sfp.look(e);
    bool any = false;
    std::vector<Extents> results;
    for (const BufRef& to : s.to) {
      results.push_back(sfp.write(to));
      any = any || numel(results.back()) > 0;
    }
    if (!any) return {};
    for (size_t i = 0; i < s.value.size(); ++i) {
      const Extents& result = results[std::min(i, results.size() - 1)];
      const Extents box = sfp.count(s.value[i], result);
      if (box != result || s.value[i].args.empty()) sfp.add(result, d_.sfp_simple_cycles);  // a copy or broadcast
    }
    return sfp.cost();
  }

  Cost operator()(const program::Reduce& s) const {
    Sfp sfp(sizes_, d_);
    sfp.look(s.value);
    sfp.fix_width();
    for (const VecExpr& e : s.init) sfp.look(e);
    Extents state;
    for (const BufRef& ref : s.state) {
      sfp.state(ref);
      state = sfp.state(ref);
    }
    const Extents box = sfp.count(s.value, value_box(s.value, state));
    if (numel(box) == 0) return {};
    for (const VecExpr& e : s.init) sfp.count(e, state);
    const bool lanes = s.dim + 1 == static_cast<int32_t>(box.size());
    const int cycles = monoid_cycles(s.monoid, d_);
    if (lanes) {
      sfp.add_lanes(box);
      sfp.add(box, cycles - d_.sfp_simple_cycles);  // a plain combination is part of the lane reduction
      sfp.add(state, cycles);
    } else {
      sfp.add(box, cycles);
    }
    return sfp.cost();
  }

  Cost operator()(const program::Scan& s) const {
    Sfp sfp(sizes_, d_);
    sfp.look(s.value);
    const Extents to = sfp.write(s.to);
    if (s.carry.buffer != program::none) {
      sfp.read(s.carry);
      sfp.write(s.carry);
    }
    if (numel(to) == 0) return {};
    sfp.count(s.value, to);
    sfp.add_lanes(to);
    sfp.add(to, monoid_cycles(s.monoid, d_));
    return sfp.cost();
  }

  /// Sorting networks: each stage compares and exchanges value and index.
  Cost operator()(const program::Sort& s) const {
    Sfp sfp(sizes_, d_);
    const Extents from = sfp.read(s.from);
    if (s.from_indices.buffer != program::none) sfp.read(s.from_indices);
    if (s.values.buffer != program::none) sfp.write(s.values);
    if (s.indices.buffer != program::none) sfp.write(s.indices);
    if (numel(from) == 0) return {};
    const double depth = std::ceil(std::log2(static_cast<double>(std::max<int64_t>(from.back(), 2))));
    const double stages = s.kind == program::Sort::Kind::merge ? depth : depth * (depth + 1) / 2;
    constexpr int exchange = 4;  // compare, select value, select index, move
    sfp.add(from, stages * exchange * d_.sfp_simple_cycles);
    return sfp.cost();
  }

  Cost operator()(const program::GatherScatter& s) const {
    Sfp sfp(sizes_, d_);
    sfp.read(s.index);
    const Extents data = s.scatter ? sfp.read(s.data) : sfp.write(s.data);
    if (numel(data) == 0) return {};
    const int64_t count = numel(box_sizes(s.index, sizes_));
    sfp.add(data, (s.accumulate ? 3 : 1) * d_.sfp_simple_cycles);
    Cost c = sfp.cost();
    const int64_t more = lx_box_bytes(data, format_of(s.data)) * (s.accumulate ? 2 : 1);  // the table's rows
    c.lx_bytes += more;
    c.lx_ps += lx_port_ps(more, d_);
    c.unit_ps =
        std::max(c.unit_ps, c.lx_ps) + cycles_ps(static_cast<double>(count) * d_.sfp_element_cycles, d_.core_ghz);
    return c;
  }

  Cost operator()(const program::Move& s) const {
    const Extents from = box_sizes(s.from, sizes_), to = box_sizes(s.to, sizes_);
    if (numel(from) == 0 || numel(to) == 0) return {};
    return port(Unit::mv, lx_box_bytes(from, format_of(s.from)) + lx_box_bytes(to, format_of(s.to)));
  }

  Cost operator()(const program::Ring& s) const {
    const Extents from = box_sizes(s.from, sizes_), to = box_sizes(s.to, sizes_);
    if (numel(from) == 0 && numel(to) == 0) return {};
    const int64_t bytes = lx_box_bytes(from, format_of(s.from));
    Cost c = port(Unit::ring, bytes + lx_box_bytes(to, format_of(s.to)));
    const RingLoad load = ring_load(s, bytes, sizes_, d_);
    c.link_bytes = static_cast<int64_t>(load.link_bytes);
    c.unit_ps = std::max(c.unit_ps, ring_ps(load.link_bytes, load.hops, d_)) + overhead();
    return c;
  }

  Cost operator()(const program::PartialSum& s) const {
    const Extents box = box_sizes(s.acc, sizes_);
    if (numel(box) == 0) return {};
    const int64_t bytes = lx_box_bytes(box, format_of(s.acc));
    Cost c = port(Unit::psum, 2 * bytes);
    const int64_t group = sizes_.nest.grid.at(s.grid).size, stride = grid_stride(sizes_.nest, s.grid);
    c.unit_ps = std::max(c.unit_ps, (s.to_all ? 2 : 1) * psum_ps(bytes, group, stride, d_)) + overhead();
    c.link_bytes = bytes * std::bit_width(static_cast<uint64_t>(group - 1));
    return c;
  }

  Cost operator()(const program::Fence& s) const {
    Cost c;
    c.unit = Unit::sync;
    c.latency_ps = std::llround(d_.memory_latency_ns * 1000);
    if (s.grid != program::none) c.latency_ps += ring_ps(0, d_.ring_nodes / 2, d_);
    return c;
  }

 private:
  base::Format format_of(const BufRef& ref) const { return sizes_.kernel.buffers[ref.buffer].format; }
  int64_t overhead() const { return cycles_ps(d_.step_cycles, d_.core_ghz); }
  Cost port(Unit unit, int64_t bytes) const {
    Cost c;
    c.unit = unit;
    c.lx_bytes = bytes;
    c.lx_ps = lx_port_ps(bytes, d_);
    c.unit_ps = c.lx_ps + overhead();
    return c;
  }
  /// The box an expression covers: the largest sizes of its operands (a reduction's result does not tell).
  Extents value_box(const VecExpr& e, const Extents& state) const {
    Extents box = state;
    const auto visit = [&](const auto& self, const VecExpr& node) -> void {
      if (node.op == VecOp::operand) {
        const Extents other = box_sizes(node.ref, sizes_);
        if (other.size() > box.size()) box.insert(box.begin(), other.size() - box.size(), 1);
        for (size_t i = 0; i < other.size(); ++i) {
          int64_t& mine = box[box.size() - other.size() + i];
          if (other[i] == 0) mine = 0;
          if (mine != 0) mine = std::max(mine, other[i]);
        }
      }
      for (const VecExpr& a : node.args) self(self, a);
    };
    visit(visit, e);
    return box;
  }

  const Sizes& sizes_;
  const device::Description& d_;
};

}  // namespace

std::vector<int64_t> box_sizes(const BufRef& ref, const Sizes& sizes) {
  const program::Buffer& buffer = sizes.kernel.buffers.at(ref.buffer);
  std::vector<int64_t> box = buffer.shape;
  for (size_t i = 0; i < ref.box.size() && i < box.size(); ++i) {
    if (ref.box[i].kind == program::BufDim::Kind::box)
      box[i] = std::clamp<int64_t>(sizes.value(ref.box[i].size), 0, box[i]);
  }
  return box;
}

Cost cost(const program::Step& step, const Sizes& sizes, const device::Description& description) {
  return std::visit(Pricer(sizes, description), step.op);
}

}  // namespace spyre::timing
