// Defined before read: what of each buffer instance has been written when a step reads it, followed through the
// statements.
//
// A buffer is defined as a whole, from 0 up to some position along one dimension, or at the boxes written in the
// present trips. A loop over a whole range that writes the range's box in every trip defines everything up to the
// range's end.
#include <algorithm>

#include "program/verify_context.h"

namespace spyre::program::verifier {
namespace {

using Op = IntExpr::Op;

/// The part of a buffer that a step reads or writes, in the buffer's own order of dimensions.
struct Part {
  std::vector<Affine> first, size;
};

struct Defined {
  bool whole = false;
  int dim = -1;  ///< else: positions 0 .. upto along dim, all of the others; -1 = nothing
  Affine upto;
  std::vector<Part> boxes;   ///< written in the present trips
  DimMask only_at_zero = 0;  ///< after psum to 0: defined on the cores with coordinate 0 of these only
  int64_t cores = 0;         ///< of the nest that wrote it
};

using State = std::vector<Defined>;

bool same(const Part& a, const Part& b) {
  for (size_t d = 0; d < a.first.size(); ++d)
    if (!a.first[d].equals(b.first[d]) || !a.size[d].equals(b.size[d])) return false;
  return true;
}

class Flow {
 public:
  explicit Flow(Context& context)
      : c_(context), state_(context.kernel.buffers.size()), depth_(state_.size()), branch_(state_.size()) {}

  void run() {
    alive_ = c_.kernel.scope;
    for (size_t n = 0; n < c_.kernel.nests.size(); ++n) {
      c_.revisit_nest(static_cast<Id>(n));
      cores_ = 1;
      for (const GridDim& g : c_.kernel.nests[n].grid) cores_ *= g.size;
      block(c_.kernel.nests[n].body);
      for (Defined& d : state_)  // coordinates mean something else in the next nest
        if (d.only_at_zero) d = Defined{};
      for (Defined& d : state_) d.boxes.clear();
    }
  }

 private:
  void block(const Block& statements) {
    const size_t outside = alive_.size();
    for (const Stmt& statement : statements) {
      const auto& node = statement.node;
      if (const auto* declare = std::get_if<Declare>(&node)) {
        state_[declare->buffer] = Defined{};
        alive_.push_back(declare->buffer);
        depth_[declare->buffer] = loops_.size();
        branch_[declare->buffer] = branches_;
      } else if (const auto* loop = std::get_if<For>(&node)) {
        run_loop(*loop);
      } else if (const auto* branch = std::get_if<If>(&node)) {
        run_branch(*branch);
      } else if (const auto* step = std::get_if<Step>(&node)) {
        if (++visits_ > visit_limit) c_.fail("it has too many nested loops around psum steps to be checked");
        run_step(*step);
      }
    }
    alive_.resize(outside);
  }

  /// Of the buffers in scope, in the order of alive_.
  State snapshot() const {
    State s;
    for (Id b : alive_) s.push_back(state_[b]);
    return s;
  }

  void run_loop(const For& loop) {
    const State before = snapshot();
    loops_.push_back(loop.range);
    block(loop.body);
    bool psum = false;
    for (size_t b = 0; b < before.size(); ++b) psum = psum || state_[alive_[b]].only_at_zero != before[b].only_at_zero;
    if (psum) block(loop.body);  // the second trip meets what the first left undefined
    loops_.pop_back();
    const RangeFacts& facts = c_.ranges[loop.range];
    for (size_t b = 0; b < before.size(); ++b) leave_loop(loop.range, facts, before[b], state_[alive_[b]]);
  }

  void leave_loop(Id range, const RangeFacts& facts, const Defined& before, Defined& after) {
    std::vector<Part> boxes;
    Defined covered = before;
    for (Part& p : after.boxes) {
      bool varies = false;
      int along = -1, partial = 0;
      for (size_t d = 0; d < p.first.size(); ++d) {
        const bool moves = mentions(p.first[d], range) || mentions(p.size[d], range);
        varies = varies || moves;
        if (moves) along = static_cast<int>(d), ++partial;
      }
      if (!varies) {
        boxes.push_back(p);
        continue;
      }
      // The box of every trip, one after the other, from where the buffer was defined before.
      if (partial != 1 || before.whole || !p.size[along].is_leaf(Op::size, range) || !others_whole(p, along)) continue;
      const Affine base = p.first[along].minus(Affine::of(IntExpr::leaf(Op::start, range)));
      if (mentions(base, range)) continue;
      const Affine from = before.dim == along ? before.upto : Affine::of(0);
      if (before.dim != -1 && before.dim != along) continue;
      if (!c_.expand(facts.lo.plus(base)).equals(c_.expand(from))) continue;
      covered.dim = along;
      covered.upto = facts.hi.plus(base);
      covered.cores = cores_;
    }
    if (facts.min_trips >= 1) {
      if (!after.whole && (covered.dim != -1)) {
        after.dim = covered.dim, after.upto = covered.upto, after.cores = covered.cores;
      }
      if (after.dim != -1 && mentions(after.upto, range)) after.dim = -1;
      after.boxes = std::move(boxes);
    } else {
      covered.only_at_zero |= after.only_at_zero;
      after = covered;
    }
  }

  /// True when the form depends on the range or on one declared inside it.
  bool mentions(const Affine& form, Id range) const {
    bool found = false;
    for (const auto& t : form.terms)
      for_each_leaf(t.atom, [&](const IntExpr& l) {
        const bool of_range = l.op == Op::start || l.op == Op::size || l.op == Op::trip;
        found = found || (of_range && c_.ranges[l.id].order >= c_.ranges[range].order);
      });
    return found;
  }

  bool others_whole(const Part& p, int along) const {
    for (size_t d = 0; d < p.first.size(); ++d)
      if (static_cast<int>(d) != along && !(p.first[d].is_constant() && p.first[d].constant == 0 &&
                                            p.size[d].is_constant() && p.size[d].constant == -1))
        return false;
    return true;
  }

  void run_branch(const If& branch) {
    const State before = snapshot();
    const DimMask zero_before = zero_;
    for (const Compare& compare : branch.condition) {
      if (compare.op != Compare::Op::eq) continue;
      if (compare.a.op == Op::coordinate && compare.b.is_constant(0)) zero_ |= DimMask{1} << compare.a.id;
      if (compare.b.op == Op::coordinate && compare.a.is_constant(0)) zero_ |= DimMask{1} << compare.b.id;
    }
    ++branches_;
    block(branch.body);
    --branches_;
    zero_ = zero_before;
    for (size_t b = 0; b < before.size(); ++b) {
      Defined& s = state_[alive_[b]];
      const DimMask undefined = s.only_at_zero;
      s = before[b];
      s.only_at_zero |= undefined;
    }
  }

  /// `limit`: the extents the step works on, in the order of the operand's (transposed) dimensions; missing leading
  /// ones are 1.
  Part part_of(const BufRef& ref, const std::vector<Extent>* limit) const {
    const Buffer& b = c_.kernel.buffers[ref.buffer];
    const size_t rank = b.shape.size();
    Part p;
    for (size_t d = 0; d < rank; ++d) {
      const bool boxed = !ref.box.empty() && ref.box[d].kind == BufDim::Kind::box;
      p.first.push_back(boxed ? Affine::of(ref.box[d].first) : Affine::of(0));
      p.size.push_back(boxed ? Affine::of(ref.box[d].size) : Affine::of(b.shape[d]));
      if (boxed || !limit) continue;
      size_t at = d;
      if (ref.transposed && d + 2 >= rank) at = d + 1 == rank ? d - 1 : d + 1;
      const int64_t position =
          static_cast<int64_t>(limit->size()) - static_cast<int64_t>(rank) + static_cast<int64_t>(at);
      if (position < 0 || b.shape[d] == 1) continue;
      const Extent& e = (*limit)[position];
      if (!e.constant()) p.size[d] = e.form;
    }
    return p;
  }

  bool is_whole(const Buffer& b, const Part& p, size_t d) const {
    return p.first[d].is_constant() && p.first[d].constant <= 0 && c_.bounds(p.size[d]).lo >= b.shape[d];
  }

  void write(const BufRef& ref, const std::vector<Extent>* limit) {
    const Buffer& b = c_.kernel.buffers[ref.buffer];
    Defined& s = state_[ref.buffer];
    Part p = part_of(ref, limit);
    int partial = 0, along = -1;
    for (size_t d = 0; d < p.first.size(); ++d) {
      if (is_whole(b, p, d)) {
        p.first[d] = Affine::of(0);
        p.size[d] = Affine::of(-1);  // stands for whole
      } else {
        ++partial;
        along = static_cast<int>(d);
      }
    }
    if (partial == 0) {
      s.cores = s.whole && !s.only_at_zero ? std::max(s.cores, cores_) : cores_;
      s.whole = true;
      s.only_at_zero = 0;
      s.boxes.clear();
      return;
    }
    if (s.whole) return;
    if (s.cores != cores_) s.dim = -1, s.boxes.clear();
    s.cores = cores_;
    if (partial == 1) {
      const Affine from = s.dim == along ? s.upto : Affine::of(0);
      if ((s.dim == -1 || s.dim == along) && p.first[along].equals(from)) {
        s.dim = along;
        s.upto = p.first[along].plus(p.size[along]);
        if (s.upto.is_constant() && s.upto.constant >= b.shape[along]) s.whole = true;
      }
    }
    if (s.boxes.size() < 64) s.boxes.push_back(std::move(p));
  }

  void read(const Step& step, const BufRef& ref, const std::vector<Extent>* limit, int64_t cores) {
    const Buffer& b = c_.kernel.buffers[ref.buffer];
    const Defined& s = state_[ref.buffer];
    if (s.only_at_zero & ~zero_)
      c_.fail_at(step,
                 "buffer {} is undefined after psum to 0, except where the coordinate is 0: read it under `if` "
                 "coordinate == 0",
                 b.name);
    Part p = part_of(ref, limit);
    bool defined = s.whole;
    if (!defined && s.dim != -1) {
      Id nonempty = none;
      if (p.size[s.dim].terms.size() == 1 && p.size[s.dim].constant == 0)
        nonempty = range_of_size(p.size[s.dim].terms[0].atom);
      defined = c_.bounds(p.first[s.dim].plus(p.size[s.dim]).minus(s.upto), nonempty).hi <= 0;
    }
    for (size_t d = 0; d < p.first.size(); ++d)
      if (is_whole(b, p, d)) p.first[d] = Affine::of(0), p.size[d] = Affine::of(-1);
    for (const Part& box : s.boxes) defined = defined || same(box, p);
    if (!defined)
      c_.fail_at(step,
                 "buffer {} is read before it is written: its first step must write all that is read, without `if`",
                 b.name);
    if (cores > s.cores)
      c_.fail_at(step, "buffer {} is read on {} cores, but was written in a nest of {}; use ring.remap", b.name, cores,
                 s.cores);
  }

  bool initialised(const Step& step, const MatMul& m) const {
    if (m.init.empty()) return false;
    const Id b = m.acc.buffer;
    size_t outermost = loops_.size();
    for (Id r : m.init) {
      const auto at = std::find(loops_.begin(), loops_.end(), r);
      const size_t position = at - loops_.begin();
      if (position < depth_[b])
        c_.fail_at(step, "init names loop {}, outside of which buffer {} would have to be declared", c_.range_name(r),
                   c_.buffer_name(b));
      outermost = std::min(outermost, position);
    }
    if (branches_ != branch_[b]) return false;  // under an `if` the first trip may be left out
    for (size_t i = outermost + 1; i < loops_.size(); ++i)
      if (c_.ranges[loops_[i]].min_trips < 1) return false;
    return true;
  }

  void run_step(const Step& step) {
    // Boxes that the step works on, where a whole operand goes with a clipped one.
    std::vector<Extent> box;
    const std::vector<Extent>* limit = nullptr;
    if (std::holds_alternative<Vector>(step.op) || std::holds_alternative<Scan>(step.op) ||
        std::holds_alternative<Reduce>(step.op)) {
      box = vector_box(c_, step);
      limit = &box;
    }
    if (const auto* m = std::get_if<MatMul>(&step.op)) return run_matmul(step, *m);
    if (const auto* s = std::get_if<Store>(&step.op)) {
      std::vector<Extent> entries;
      for (const Entry& e : s->to.entries) entries.push_back(extent_of(c_, e));
      const size_t rank = c_.kernel.buffers[s->from.buffer].shape.size();
      const auto dims = tile_dims(c_, s->to, s->from);
      box.assign(rank, Extent{Affine::of(1), 1, 1, true});
      for (size_t e = 0; e < entries.size(); ++e)
        if (dims[e] >= 0) box[dims[e]] = entries[e];
      read(step, s->from, &box, cores_);
      for (const Use& u : uses_of(step))
        if (u.ref != &s->from) read(step, *u.ref, nullptr, cores_);
      return;
    }
    if (const auto* r = std::get_if<Reduce>(&step.op)) {
      std::vector<Extent> reduced = box;
      reduced[r->dim] = Extent{Affine::of(1), 1, 1, true};
      std::vector<const BufRef*> operands, initial;
      for_each_operand(r->value, operands);
      for (const VecExpr& e : r->init) for_each_operand(e, initial);
      for (const BufRef* o : operands) read(step, *o, &box, cores_);
      for (const BufRef* o : initial) read(step, *o, &reduced, cores_);
      for (const BufRef& s : r->state) write(s, &reduced);
      return;
    }
    if (const auto* m = std::get_if<Move>(&step.op)) box = extents_of(c_, m->from), limit = &box;
    if (const auto* g = std::get_if<GatherScatter>(&step.op); g && !g->scatter && g->outside == OnOutside::skip)
      read(step, g->data, nullptr, cores_);
    if (const auto* p = std::get_if<PartialSum>(&step.op)) {
      read(step, p->acc, nullptr, cores_);
      if (!p->to_all) state_[p->acc.buffer].only_at_zero |= DimMask{1} << p->grid;
      return;
    }
    int64_t readers = cores_;
    if (const auto* r = std::get_if<Ring>(&step.op); r && r->kind == Ring::Kind::remap)
      for (Id id : r->from_ranges)
        if (id != none) readers = nest_cores(c_.ranges[id].nest);
    const auto uses = uses_of(step);
    for (const Use& u : uses)
      if (u.reads) read(step, *u.ref, limit, readers);
    for (const Use& u : uses)
      if (u.writes) write(*u.ref, limit);
  }

  void run_matmul(const Step& step, const MatMul& m) {
    auto a = extents_of(c_, m.a), b = extents_of(c_, m.b);
    const Extent k = b[b.size() - 2].constant() ? a.back() : b[b.size() - 2];
    std::vector<Extent> acc = {a[a.size() - 2], b.back()}, left = {a[a.size() - 2], k}, right = {k, b.back()};
    read(step, m.a, &left, cores_);
    read(step, m.b, &right, cores_);
    if (m.accumulate && !initialised(step, m)) read(step, m.acc, &acc, cores_);
    write(m.acc, &acc);
  }

  int64_t nest_cores(Id nest) const {
    int64_t n = 1;
    for (const GridDim& g : c_.kernel.nests[nest].grid) n *= g.size;
    return n;
  }

  static constexpr int64_t visit_limit = 1000000;
  Context& c_;
  State state_;
  std::vector<Id> alive_;      ///< buffers in scope
  std::vector<size_t> depth_;  ///< by buffer: loops around its declaration
  std::vector<int> branch_;    ///< by buffer: `if`s around its declaration
  std::vector<Id> loops_;
  DimMask zero_ = 0;  ///< coordinates known to be 0
  int branches_ = 0;
  int64_t cores_ = 1;
  int64_t visits_ = 0;
};

}  // namespace

void check_definitions(Context& context) { Flow(context).run(); }

}  // namespace spyre::program::verifier
