#include "card/compiled_kernel.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "card/checker.h"
#include "card/lx.h"
#include "card/touches.h"
#include "program/conventions.h"

namespace spyre::card {

using program::Compare;

// ------------------------------------------------------------------------------------------------------------- compile

CompiledKernel::CompiledKernel(const program::Program& program, const program::Kernel& kernel)
    : program_(&program), kernel_(&kernel), vars_(VarMap::of(kernel)) {
  buffers_.reserve(kernel.buffers.size());
  for (const auto& b : kernel.buffers) buffers_.emplace_back(b);
  for (const auto& f : kernel.formals) symbols_.push_back(std::make_unique<SymbolMap>(f));
  nests_.reserve(kernel.nests.size());
  own_lx_ = !kernel.scope.empty();
  count_uses();
  for (const auto& nest : kernel.nests) {
    Nest n;
    n.source = &nest;
    n.cores = nest.cores();
    Scope scope{nest, grid_order(nest), {}};
    n.body = compile(nest.body, scope);
    n.order = core_order(nest, scope.grid_order);
    own_lx_ = own_lx_ || n.body.collective;
    nests_.push_back(std::move(n));
  }
  passing_.assign(buffers_.size(), false);
  for (const Nest& n : nests_)
    if (own_lx_) find_passing(n.body);
}

void CompiledKernel::count_uses() {
  uses_.assign(buffers_.size(), 0);
  numbers_only_.assign(buffers_.size(), true);
  const auto codes = [&](Id buffer) { numbers_only_[static_cast<size_t>(buffer)] = false; };
  for (Id b : kernel_->scope) codes(b);
  for (const auto& nest : kernel_->nests)
    for_each_step(nest.body, [&](const program::Step& step) {
      const auto* product = std::get_if<program::MatMul>(&step.op);
      const bool values =
          std::holds_alternative<program::Vector>(step.op) || std::holds_alternative<program::Reduce>(step.op);
      const std::vector<Touch> touches = touches_of(step);
      for (const Touch& t : touches) {
        const Id buffer = t.ref->buffer;
        if (buffer < 0 || buffer >= static_cast<Id>(uses_.size())) continue;
        ++uses_[buffer];
        const bool over_itself = t.write && std::any_of(touches.begin(), touches.end(), [&](const Touch& o) {
                                   return o.read && o.ref->buffer == buffer;
                                 });
        if (over_itself || (!values && !(product && t.ref == &product->a && !t.ref->transposed))) codes(buffer);
      }
    });
}

void CompiledKernel::find_passing(const Block& block) {
  const auto& nodes = block.nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<int> uses(buffers_.size(), 0);
    std::vector<Id> declared;
    const auto visit = [&](const auto& self, const Node& node) -> void {
      if (node.kind == Node::Kind::declare) declared.push_back(node.id);
      if (node.step)
        for (const Touch& t : touches_of(*node.step))
          if (t.ref->buffer >= 0) ++uses[static_cast<size_t>(t.ref->buffer)];
      if (node.body)
        for (const Node& inner : node.body->nodes) self(self, inner);
    };
    for (const size_t end = block.next_collective(i); i < end; ++i) visit(visit, nodes[i]);
    for (Id b : declared) passing_[b] = uses[b] == uses_[b];
    if (i < nodes.size() && nodes[i].body) find_passing(*nodes[i].body);
  }
}

std::vector<Id> CompiledKernel::grid_order(const program::Nest& nest) const {
  std::vector<Id> order(nest.grid.size());
  std::iota(order.rbegin(), order.rend(), 0);
  int64_t bytes = 0;
  Id shared = program::none;  // the dimension over which the largest tile is shared
  for_each_step(nest.body, [&](const program::Step& step) {
    const auto* load = std::get_if<program::Load>(&step.op);
    if (!load || load->share == program::none || buffers_.at(load->to.buffer).slot_bytes <= bytes) return;
    bytes = buffers_.at(load->to.buffer).slot_bytes;
    shared = load->share;
  });
  const auto at = std::find(order.begin(), order.end(), shared);
  if (at != order.end()) std::rotate(order.begin(), at, at + 1);
  return order;
}

std::vector<int> CompiledKernel::core_order(const program::Nest& nest, const std::vector<Id>& grid_order) {
  std::vector<int> distance(nest.grid.size(), 1);  // between cores that are neighbours in a dimension
  for (size_t d = distance.size(); d-- > 1;) distance[d - 1] = distance[d] * static_cast<int>(nest.grid[d].size);
  std::vector<int> order(static_cast<size_t>(nest.cores()));
  for (int turn = 0; turn < nest.cores(); ++turn) {
    int rest = turn;
    for (Id d : grid_order) {
      const int size = static_cast<int>(nest.grid[d].size);
      order[static_cast<size_t>(turn)] += rest % size * distance[d];
      rest /= size;
    }
  }
  return order;
}

CompiledKernel::Block CompiledKernel::compile(const program::Block& block, Scope& scope) {
  Block out;
  for (const auto& stmt : block) {
    Node node;
    if (const auto* d = std::get_if<program::Declare>(&stmt.node)) {
      node.kind = Node::Kind::declare;
      node.id = d->buffer;
    } else if (const auto* step = std::get_if<program::Step>(&stmt.node)) {
      node.step = step;
      node.exec = compile(*step, scope);
      node.collective = node.exec->collective();
      const auto* ring = std::get_if<program::Ring>(&step->op);
      remaps_ = remaps_ || (ring && ring->kind == program::Ring::Kind::remap);
    } else if (const auto* branch = std::get_if<program::If>(&stmt.node)) {
      node.kind = Node::Kind::branch;
      for (const auto& c : branch->condition) node.tests.push_back({c.op, Expr(c.a, vars_), Expr(c.b, vars_)});
      node.body = std::make_unique<Block>(compile(branch->body, scope));
      node.collective = node.body->collective;
    } else {
      const auto* loop = std::get_if<program::For>(&stmt.node);
      node.kind = loop ? Node::Kind::loop : Node::Kind::core_range;
      node.id = loop ? loop->range : std::get<program::CoreRange>(stmt.node).range;
      const auto& r = kernel_->ranges.at(node.id);
      node.lo = Expr(r.lo, vars_);
      node.hi = Expr(r.hi, vars_);
      node.by = r.by;
      if (r.by < 1) fail(Fault::program, "range {} advances by {}", r.name, r.by);
      if (!loop) {
        node.grid = r.grid;  // the grid dimension whose coordinate it follows
      } else {
        node.range = &r;
        node.kernel = kernel_;
        scope.loops.push_back(node.id);
        node.body = std::make_unique<Block>(compile(loop->body, scope));
        scope.loops.pop_back();
        node.collective = node.body->collective;
      }
    }
    if (node.step && !out.nodes.empty() && out.nodes.back().step && forwards(*out.nodes.back().step, *node.step))
      out.nodes.back().exec->forward_to(node.exec.get());
    out.collective = out.collective || node.collective;
    out.nodes.push_back(std::move(node));
  }
  return out;
}

bool CompiledKernel::forwards(const program::Step& a, const program::Step& b) const {
  const auto* vector = std::get_if<program::Vector>(&a.op);
  const auto* store = std::get_if<program::Store>(&b.op);
  if (!vector || !store || vector->to.size() != 1 || store->where_entry != program::none) return false;
  const auto& to = vector->to[0];
  if (to.buffer < 0 || to.buffer >= static_cast<Id>(uses_.size()) || uses_[to.buffer] != 2) return false;
  if (to != store->from || to.transposed) return false;
  for (const auto& e : store->to.entries)
    if (e.kind == program::Entry::Kind::indexed) return false;
  return true;
}

namespace {

[[noreturn]] void rethrow_with(const program::Program& program, Id loc, const Error& e) {
  if (loc < 0 || loc >= static_cast<Id>(program.locs.size())) throw e;
  const auto& l = program.locs[loc];
  throw Error(e.fault(), fmt::format("{} ({}): {}", l.op, l.source, e.what()));
}

}  // namespace

std::unique_ptr<StepExec> CompiledKernel::compile(const program::Step& step, const Scope& scope) {
  const StepContext context{*program_, *kernel_,    scope.nest,       vars_,         buffers_,
                            symbols_,  scope.loops, scope.grid_order, numbers_only_, uses_};
  struct Visitor {
    const StepContext& c;
    std::unique_ptr<StepExec> operator()(const program::Load& s) const { return make_load(s, c); }
    std::unique_ptr<StepExec> operator()(const program::Store& s) const { return make_store(s, c); }
    std::unique_ptr<StepExec> operator()(const program::MatMul& s) const { return make_matmul(s, c); }
    std::unique_ptr<StepExec> operator()(const program::Vector& s) const { return make_vector(s, c); }
    std::unique_ptr<StepExec> operator()(const program::Reduce& s) const { return make_reduce(s, c); }
    std::unique_ptr<StepExec> operator()(const program::Scan& s) const { return make_scan(s, c); }
    std::unique_ptr<StepExec> operator()(const program::Sort& s) const { return make_sort(s, c); }
    std::unique_ptr<StepExec> operator()(const program::GatherScatter& s) const { return make_gather_scatter(s, c); }
    std::unique_ptr<StepExec> operator()(const program::Move& s) const { return make_move(s, c); }
    std::unique_ptr<StepExec> operator()(const program::Ring& s) const { return make_ring(s, c); }
    std::unique_ptr<StepExec> operator()(const program::PartialSum& s) const { return make_partial_sum(s, c); }
    std::unique_ptr<StepExec> operator()(const program::Fence& s) const { return make_fence(s, c); }
  };
  try {
    return std::visit(Visitor{context}, step.op);
  } catch (const Error& e) {
    rethrow_with(*program_, step.loc, e);
  }
}

// -------------------------------------------------------------------------------------------------------------- nodes

bool CompiledKernel::Node::holds(const int64_t* v) const {
  for (const Test& t : tests) {
    const int64_t a = t.a(v), b = t.b(v);
    bool ok = true;
    switch (t.op) {
      case Compare::Op::eq:
        ok = a == b;
        break;
      case Compare::Op::ne:
        ok = a != b;
        break;
      case Compare::Op::lt:
        ok = a < b;
        break;
      case Compare::Op::le:
        ok = a <= b;
        break;
      case Compare::Op::gt:
        ok = a > b;
        break;
      case Compare::Op::ge:
        ok = a >= b;
        break;
    }
    if (!ok) return false;
  }
  return true;
}

int64_t CompiledKernel::Node::trips(const int64_t* v) const {
  return program::trips_of(*range, *kernel, hi(v) - lo(v));
}

void CompiledKernel::Node::enter(const VarMap& vars, int64_t* v, int64_t trip) const {
  const int64_t start = lo(v) + by * trip, size = std::clamp<int64_t>(hi(v) - start, 0, by);
  v[vars.start(id)] = start;
  v[vars.size(id)] = size;
  v[vars.trip(id)] = trip;
}

void CompiledKernel::declare(Core& core, Id buffer) const {
  const BufferInfo& b = buffers_[buffer];
  const int64_t instance = core.instances[buffer]++;
  const int64_t slot = core.run->real_slots ? instance % b.slots : 0;
  // What no other core or thread sees may lie where the thread had it for the core before: still in its cache.
  std::byte* const lx =
      passing_[buffer] && !core.run->real_slots ? LxImages::mine(core.run->description->lx_bytes) : core.lx;
  core.buffers[buffer] = lx + b.lx_offset + slot * b.slot_bytes;
  core.lazy[buffer].pending = false;
  if (core.run->checker) core.run->checker->declare(core, buffer);
}

void CompiledKernel::run_step(const Node& node, Core& core) const {
  try {
    node.exec->run(core);
  } catch (const Error& e) {
    rethrow_with(*program_, node.step->loc, e);
  }
}

void CompiledKernel::run_collective(const Node& node, std::span<Core* const> cores) const {
  try {
    node.exec->run_all(cores);
  } catch (const Error& e) {
    rethrow_with(*program_, node.step->loc, e);
  }
}

// ---------------------------------------------------------------------------------------------------------------- run

void CompiledKernel::run_block(const Block& block, size_t first, size_t last, Core& core) const {
  for (size_t i = first; i < last; ++i) {
    const Node& n = block.nodes[i];
    switch (n.kind) {
      case Node::Kind::declare:
        declare(core, n.id);
        break;
      case Node::Kind::core_range:
        n.enter(vars_, core.vars.data(), core.vars[vars_.coordinate(n.grid)]);
        break;
      case Node::Kind::loop: {
        const int64_t trips = n.trips(core.v());
        for (int64_t t = 0; t < trips; ++t) {
          n.enter(vars_, core.vars.data(), t);
          run_block(*n.body, 0, n.body->nodes.size(), core);
        }
        break;
      }
      case Node::Kind::branch:
        if (n.holds(core.v())) run_block(*n.body, 0, n.body->nodes.size(), core);
        break;
      case Node::Kind::step:
        run_step(n, core);
        break;
    }
  }
}

namespace {
/// fn(0) to fn(n - 1), by all threads of the pool when `parallel`.
void for_each_core(int n, bool parallel, base::FunctionRef<void(int)> fn) {
  if (parallel) return base::ThreadPool::shared().for_each(n, fn);
  for (int k = 0; k < n; ++k) fn(k);
}
}  // namespace

void CompiledKernel::run_together(const Block& block, std::span<Core* const> cores, bool parallel) const {
  const auto& nodes = block.nodes;
  for (size_t i = 0; i < nodes.size();) {
    if (const size_t end = block.next_collective(i); end > i) {
      for_each_core(static_cast<int>(cores.size()), parallel, [&](int k) { run_block(block, i, end, *cores[k]); });
      i = end;
      continue;
    }
    const Node& n = nodes[i++];
    if (n.kind == Node::Kind::step) {
      run_collective(n, cores);
    } else if (n.kind == Node::Kind::branch) {
      std::vector<Core*> active;
      for (Core* c : cores)
        if (n.holds(c->v())) active.push_back(c);
      if (!active.empty()) run_together(*n.body, active, parallel);
    } else {
      std::vector<int64_t> trips;
      int64_t most = 0;
      for (Core* c : cores) most = std::max(most, trips.emplace_back(n.trips(c->v())));
      for (int64_t t = 0; t < most; ++t) {
        std::vector<Core*> active;
        for (size_t k = 0; k < cores.size(); ++k)
          if (t < trips[k]) active.push_back(cores[k]), n.enter(vars_, cores[k]->vars.data(), t);
        run_together(*n.body, active, parallel);
      }
    }
  }
}

void CompiledKernel::set_coordinates(Core& core, int nest, const std::vector<int64_t>& scalars) const {
  int rest = core.id;
  const auto& grid = nests_[nest].source->grid;
  for (size_t d = grid.size(); d-- > 0;) {
    core.vars[vars_.coordinate(static_cast<Id>(d))] = rest % grid[d].size;
    rest /= grid[d].size;
  }
  for (size_t s = 0; s < scalars.size(); ++s) core.vars[vars_.scalar(static_cast<Id>(s))] = scalars[s];
}

void CompiledKernel::prepare(Core& core, KernelRun& run, int id, std::byte* lx) const {
  core.id = id;
  core.run = &run;
  core.lx = lx;
  core.forwarded = false;
  core.vars.assign(static_cast<size_t>(vars_.count()), 0);
  core.buffers.assign(buffers_.size(), nullptr);
  core.instances.assign(buffers_.size(), 0);
  core.lazy.resize(buffers_.size());
  for (auto& l : core.lazy) l.pending = false, l.map = nullptr;
}

void CompiledKernel::fill_core_ranges(KernelRun& run, const std::vector<int64_t>& scalars) const {
  run.nest_core_ranges.assign(nests_.size(), {});
  Core core;
  for (size_t n = 0; n < nests_.size(); ++n) {
    auto& table = run.nest_core_ranges[n];
    table.assign(static_cast<size_t>(nests_[n].cores) * vars_.ranges * 2, 0);
    for (int id = 0; id < nests_[n].cores; ++id) {
      prepare(core, run, id, nullptr);
      set_coordinates(core, static_cast<int>(n), scalars);
      for (const Node& node : nests_[n].body.nodes) {
        if (node.kind != Node::Kind::core_range) continue;
        node.enter(vars_, core.vars.data(), core.vars[vars_.coordinate(node.grid)]);
        auto* at = &table[(static_cast<size_t>(id) * vars_.ranges + node.id) * 2];
        at[0] = core.vars[vars_.start(node.id)];
        at[1] = core.vars[vars_.size(node.id)];
      }
    }
  }
}

void CompiledKernel::run(KernelRun& run, const std::vector<int64_t>& scalars) const {
  const bool parallel = run.checker == nullptr;
  const int64_t lx_bytes = run.description->lx_bytes;
  if (remaps_) fill_core_ranges(run, scalars);
  if (!own_lx_ && parallel) {
    for (size_t n = 0; n < nests_.size(); ++n) {
      base::ThreadPool::shared().for_each(nests_[n].cores, [&](int turn) {
        static thread_local Core core;
        const int id = nests_[n].order[static_cast<size_t>(turn)];
        prepare(core, run, id, LxImages::mine(lx_bytes));
        set_coordinates(core, static_cast<int>(n), scalars);
        run_block(nests_[n].body, 0, nests_[n].body.nodes.size(), core);
      });
    }
    return;
  }
  int most = 1;
  for (const auto& n : nests_) most = std::max(most, n.cores);
  const LxImages images(most, lx_bytes);
  // Kept from call to call: their memory is asked for, cleared and given back more slowly than most steps run.
  static thread_local std::vector<Core> kept;
  if (kept.size() < static_cast<size_t>(most)) kept.resize(static_cast<size_t>(most));
  std::vector<Core>& cores = kept;  // this thread's, for the others too
  for (int id = 0; id < most; ++id) run.all_cores.push_back(&cores[id]);
  for_each_core(most, parallel, [&](int id) {
    prepare(cores[id], run, id, images.image(id));
    for (Id b : kernel_->scope) declare(cores[id], b);
  });
  for (size_t n = 0; n < nests_.size(); ++n) {
    std::vector<Core*> turns;
    for (int turn = 0; turn < nests_[n].cores; ++turn) {
      turns.push_back(&cores[parallel ? nests_[n].order[static_cast<size_t>(turn)] : turn]);
      set_coordinates(*turns.back(), static_cast<int>(n), scalars);
    }
    if (run.checker) run.checker->barrier();
    run_together(nests_[n].body, turns, parallel);
  }
  run.all_cores.clear();
}

}  // namespace spyre::card
