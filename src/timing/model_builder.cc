// Builds a KernelModel from the tree: one pass over each nest.
#include <algorithm>
#include <set>

#include "timing/kernel_model.h"

namespace spyre::timing {

using program::BufDim;
using program::BufRef;
using program::Entry;
using program::IntExpr;
using program::none;
using program::VecExpr;

class ModelBuilder {
 public:
  explicit ModelBuilder(KernelModel& m) : m_(m), kernel_(m.kernel_) {}

  void build() {
    for (const program::Symbol& s : kernel_.formals) {
      m_.access_.push_back(std::make_unique<layout::Access>(s.view, s.geometry));
    }
    for (size_t r = 0; r < kernel_.ranges.size(); ++r) {
      m_.starts_.push_back(m_.expressions_.start(static_cast<Id>(r)));
      m_.extents_.push_back(m_.expressions_.extent(static_cast<Id>(r)));
    }
    find_overlaps();
    m_.range_nest_.assign(kernel_.ranges.size(), none);
    for (size_t n = 0; n < kernel_.nests.size(); ++n) {
      nest_ = static_cast<int>(n);
      m_.core_ranges_.emplace_back();
      m_.by_coordinate_.emplace_back(kernel_.nests[n].grid.size(), 0);
      start_bounds();
      m_.nest_blocks_.push_back(block(kernel_.nests[n].body));
    }
  }

 private:
  /// Bounds over all cores and trips of what stands around the current statement.
  void start_bounds() {
    bounds_.trip.assign(kernel_.ranges.size(), {});
    bounds_.size.assign(kernel_.ranges.size(), {});
    bounds_.coordinate.clear();
    for (const program::GridDim& g : kernel_.nests[nest_].grid) bounds_.coordinate.push_back({0, g.size - 1});
    bounds_.scalar = &m_.scalars_;
  }
  void enter_bounds(Id range) {
    const int64_t by = kernel_.ranges[range].by;
    const Interval extent = m_.expressions_.bounds(m_.extents_[range], bounds_);
    bounds_.size[range] = {0, std::min(by, std::max<int64_t>(extent.hi, 0))};
    bounds_.trip[range] = {0, std::max<int64_t>(ceil_div(extent.hi, by) - 1, 0)};
  }

  int block(const program::Block& statements) {
    const int index = static_cast<int>(m_.blocks_.size());
    m_.blocks_.emplace_back();
    BlockModel nodes;
    for (const program::Stmt& stmt : statements) nodes.push_back(node(stmt));
    m_.blocks_[index] = std::move(nodes);
    return index;
  }

  NodeModel node(const program::Stmt& stmt) {
    NodeModel n;
    if (const auto* declare = std::get_if<program::Declare>(&stmt.node)) {
      n.kind = NodeModel::Kind::declare;
      n.id = declare->buffer;
    } else if (const auto* core = std::get_if<program::CoreRange>(&stmt.node)) {
      n.kind = NodeModel::Kind::core_range;
      n.id = core->range;
      m_.range_nest_[core->range] = nest_;
      m_.core_ranges_[nest_].push_back(core->range);
      // A division that changes with the trips can't be told from the first trip's sizes.
      m_.expressions_.for_each_leaf(m_.extents_[core->range], [&](const Term& t) {
        if (t.kind == Leaf::trip) m_.by_coordinate_[nest_][kernel_.ranges[core->range].grid] = 1;
      });
      for (const int loop : chain_) m_.loops_[loop].inner.push_back(core->range);
      enter_bounds(core->range);
    } else if (const auto* loop = std::get_if<program::For>(&stmt.node)) {
      n.kind = NodeModel::Kind::loop;
      n.id = static_cast<Id>(m_.loops_.size());
      const Id range = loop->range;
      m_.range_nest_[range] = nest_;
      for (const int outer : chain_) m_.loops_[outer].inner.push_back(range);
      m_.loops_.push_back({range, nest_, m_.extents_[range], {}, {}});
      value(m_.loops_.back().extent);
      enter_bounds(range);
      chain_.push_back(n.id);
      n.body = block(loop->body);
      chain_.pop_back();
    } else if (const auto* branch = std::get_if<program::If>(&stmt.node)) {
      n.kind = NodeModel::Kind::branch;
      n.by_coordinate = true;
      for (const program::Compare& c : branch->condition) {
        CompareModel compare{c.op, Expressions::difference(m_.expressions_.of(c.a), m_.expressions_.of(c.b))};
        Sensitive item;
        item.kind = Sensitive::Kind::truth;
        item.compare = compare;
        item.a = compare.difference;
        add(item);
        m_.expressions_.for_each_leaf(compare.difference, [&](const Term& t) {
          if (t.kind != Leaf::coordinate && t.kind != Leaf::scalar) n.by_coordinate = false;
        });
        n.condition.push_back(std::move(compare));
      }
      n.body = block(branch->body);
    } else {
      n.kind = NodeModel::Kind::step;
      n.id = static_cast<Id>(m_.steps_.size());
      step(std::get<program::Step>(stmt.node));
    }
    return n;
  }

  // ----------------------------------------------------------------------------------------------------------- items

  void depend(const Affine& a, std::set<Id>& loops, bool& coordinate, std::vector<Id>& grids, int depth = 0) {
    m_.expressions_.for_each_leaf(a, [&](const Term& t) {
      if (t.kind == Leaf::trip) loops.insert(t.id);
      if (t.kind == Leaf::coordinate) coordinate = true, grids.push_back(t.id);
      if (t.kind == Leaf::size && depth < 64) {
        // A core range's size is part of what makes cores alike; its extent alone can bring in loops.
        std::vector<Id> ignored;
        bool ignore = false;
        const bool core = kernel_.ranges[t.id].is_core;
        depend(m_.extents_[t.id], loops, core ? ignore : coordinate, core ? ignored : grids, depth + 1);
      }
    });
  }

  void add(const Sensitive& item) {
    std::set<Id> loops;
    bool coordinate = false;
    std::vector<Id> grids;
    depend(item.a, loops, coordinate, grids);
    depend(item.b, loops, coordinate, grids);
    for (const Id g : grids) {
      if (static_cast<size_t>(g) < m_.by_coordinate_[nest_].size()) m_.by_coordinate_[nest_][g] = 1;
    }
    if (loops.empty()) return;
    const int index = static_cast<int>(m_.items_.size());
    m_.items_.push_back(item);
    for (const int loop : chain_) {
      if (loops.count(m_.loops_[loop].range)) m_.loops_[loop].sensitive.push_back(index);
    }
  }
  void value(const Affine& a) {
    Sensitive item;
    item.a = a;
    add(item);
  }
  void key(StepModel& s, const IntExpr& e) {
    const Affine a = m_.expressions_.of(e);
    if (a.is_constant()) return;
    value(a);
    s.key.push_back(a);
  }

  // ----------------------------------------------------------------------------------------------------------- steps

  void touch(StepModel& s, const BufRef& ref, bool read, bool write) {
    if (ref.buffer == none) return;
    const program::Buffer& buffer = kernel_.buffers[ref.buffer];
    Touch t{ref.buffer, read, write, true, {}, {}};
    for (size_t i = 0; i < ref.box.size(); ++i) {
      const BufDim& dim = ref.box[i];
      if (dim.kind != BufDim::Kind::box) continue;
      key(s, dim.size);
      if (buffer.piece_dim == static_cast<int32_t>(i) && buffer.piece_size > 0) {
        t.all = false;
        t.first = m_.expressions_.of(dim.first);
        t.size = m_.expressions_.of(dim.size);
        value(t.first);
      }
    }
    s.touches.push_back(std::move(t));
  }
  void touch(StepModel& s, const VecExpr& e) {
    if (e.op == program::VecOp::operand) touch(s, e.ref, true, false);
    for (const VecExpr& a : e.args) touch(s, a);
  }
  void memory(StepModel& s, const program::MemRef& ref) {
    s.memory = &ref;
    const program::Symbol& symbol = kernel_.formals[ref.symbol];
    for (size_t i = 0; i < ref.entries.size(); ++i) {
      const Entry& e = ref.entries[i];
      if (e.kind == Entry::Kind::indexed) {
        touch(s, e.index, true, false);
        if (e.outside != program::OnOutside::trap) {
          key(s, e.lo);
          key(s, e.hi);
        }
        s.bases.push_back({});
        continue;
      }
      const Affine base = m_.expressions_.of(e.base), extent = m_.expressions_.of(e.extent);
      if (!extent.is_constant()) {
        value(extent);
        s.key.push_back(extent);
      }
      s.bases.push_back(base);
      // Only a box that can leave the view is worth more when it does not.
      const Interval b = m_.expressions_.bounds(base, bounds_), n = m_.expressions_.bounds(extent, bounds_);
      const int64_t limit = symbol.view.sizes[i];
      if (b.lo >= 0 && b.hi + e.step * (std::max<int64_t>(n.hi, 1) - 1) < limit) continue;
      if (within_by_range(e, limit)) continue;
      if (base.is_constant() && extent.is_constant()) continue;
      Sensitive item;
      item.kind = Sensitive::Kind::clip;
      item.a = base;
      item.b = extent;
      item.step = e.step;
      item.limit = limit;
      add(item);
      s.clips.push_back({base, extent, e.step, limit});
    }
  }
  /// The usual entry: a range with its own size, which its bound keeps inside the view.
  bool within_by_range(const Entry& e, int64_t limit) {
    if (e.range == none || e.step != 1) return false;
    if (!(e.base == IntExpr::leaf(IntExpr::Op::start, e.range)) ||
        !(e.extent == IntExpr::leaf(IntExpr::Op::size, e.range))) {
      return false;
    }
    Id root = e.range;
    while (kernel_.ranges[root].parent != none) root = kernel_.ranges[root].parent;
    const program::Range& r = kernel_.ranges[root];
    return m_.expressions_.bounds(m_.expressions_.of(r.lo), bounds_).lo >= 0 &&
           m_.expressions_.bounds(m_.expressions_.of(r.hi), bounds_).hi <= limit;
  }

  void step(const program::Step& step) {
    StepModel s;
    s.step = &step;
    s.nest = nest_;
    s.unit = program::unit_of(step);
    std::visit([&](const auto& op) { describe(s, op); }, step.op);
    merge(s.touches);
    m_.steps_.push_back(std::move(s));
  }
  void describe(StepModel& s, const program::Load& op) {
    s.share = op.share;
    touch(s, op.to, false, true);
    memory(s, op.from);
  }
  void describe(StepModel& s, const program::Store& op) {
    s.ordered = op.ordered;
    touch(s, op.from, true, false);
    memory(s, op.to);
    touch(s, op.where_index, true, false);
  }
  void describe(StepModel& s, const program::MatMul& op) {
    touch(s, op.a, true, false);
    touch(s, op.b, true, false);
    touch(s, op.acc, op.accumulate, true);
  }
  void describe(StepModel& s, const program::Vector& op) {
    for (const VecExpr& e : op.value) touch(s, e);
    for (const BufRef& ref : op.to) touch(s, ref, false, true);
  }
  void describe(StepModel& s, const program::Reduce& op) {
    touch(s, op.value);
    for (const VecExpr& e : op.init) touch(s, e);
    for (const BufRef& ref : op.state) touch(s, ref, true, true);
  }
  void describe(StepModel& s, const program::Scan& op) {
    touch(s, op.value);
    touch(s, op.carry, true, true);
    touch(s, op.to, false, true);
  }
  void describe(StepModel& s, const program::Sort& op) {
    touch(s, op.from, true, false);
    touch(s, op.from_indices, true, false);
    const bool state = op.kind == program::Sort::Kind::topk;
    touch(s, op.values, state, true);
    touch(s, op.indices, state, true);
  }
  void describe(StepModel& s, const program::GatherScatter& op) {
    touch(s, op.index, true, false);
    touch(s, op.table, true, op.scatter);
    touch(s, op.data, op.scatter, !op.scatter);
  }
  void describe(StepModel& s, const program::Move& op) {
    touch(s, op.from, true, false);
    touch(s, op.to, false, true);
  }
  void describe(StepModel& s, const program::Ring& op) {
    touch(s, op.from, true, false);
    touch(s, op.to, false, true);
    for (const auto* ranges : {&op.from_ranges, &op.to_ranges}) {
      for (const Id r : *ranges) {
        if (r == none || m_.range_nest_[r] != nest_) continue;
        key(s, IntExpr::leaf(IntExpr::Op::start, r));
        key(s, IntExpr::leaf(IntExpr::Op::size, r));
      }
    }
  }
  void describe(StepModel& s, const program::PartialSum& op) { touch(s, op.acc, true, true); }
  void describe(StepModel&, const program::Fence&) {}

  /// One touch per buffer where pieces allow it.
  static void merge(std::vector<Touch>& touches) {
    std::vector<Touch> merged;
    for (Touch& t : touches) {
      const auto same = std::find_if(merged.begin(), merged.end(),
                                     [&](const Touch& o) { return o.buffer == t.buffer && (o.all || t.all); });
      if (same == merged.end()) {
        merged.push_back(std::move(t));
      } else {
        same->read |= t.read;
        same->write |= t.write;
        same->all = true;
      }
    }
    touches = std::move(merged);
  }

  void find_overlaps() {
    const auto& buffers = kernel_.buffers;
    m_.overlaps_.resize(buffers.size());
    for (size_t a = 0; a < buffers.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const int64_t a0 = buffers[a].lx_offset, b0 = buffers[b].lx_offset;
        if (a0 < 0 || b0 < 0) continue;
        if (a0 < b0 + buffers[b].slots * buffers[b].slot_bytes() &&
            b0 < a0 + buffers[a].slots * buffers[a].slot_bytes()) {
          m_.overlaps_[a].push_back(static_cast<Id>(b));
          m_.overlaps_[b].push_back(static_cast<Id>(a));
        }
      }
    }
  }

  KernelModel& m_;
  const program::Kernel& kernel_;
  int nest_ = 0;
  std::vector<int> chain_;  // loops around the current statement
  Bounds bounds_;
};

KernelModel::KernelModel(const program::Kernel& kernel, std::vector<int64_t> scalars, const device::Description& d)
    : kernel_(kernel), d_(d), scalars_(std::move(scalars)), expressions_(kernel) {
  ModelBuilder(*this).build();
}

}  // namespace spyre::timing
