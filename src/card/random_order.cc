#include "card/random_order.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "card/checker.h"
#include "card/lx.h"
#include "card/touches.h"

namespace spyre::card {

namespace {

using Node = CompiledKernel::Node;

constexpr size_t most_instances = 500'000;
/// NaN in every format that has one, a large number in the others.
constexpr uint16_t poison = 0x7FFF;

/// A step instance of one core, or the gate of a buffer instance (node null), which frees and poisons its slot.
struct Instance {
  const Node* node = nullptr;
  int core = 0;
  int waits = 0;              // unfinished instances it depends on
  int group = -1;             // of a collective step
  Id buffer = program::none;  // gate
  std::vector<int> next;      // who depends on it
  std::vector<int64_t> vars;
  std::vector<std::byte*> buffers;
};

/// The cores of one instance of a collective step start together.
struct Group {
  std::vector<int> members;
  size_t size = 0, ready = 0;
};

/// One instance of a buffer on one core.
struct BufferInstance {
  Id buffer = program::none;
  std::byte* data = nullptr;
  int gate = -1;
  std::vector<int> touchers;
  struct Piece {
    int writer = -1;
    std::vector<int> readers;
  };
  std::map<int64_t, Piece> pieces;
};

class Scheduler {
 public:
  Scheduler(const CompiledKernel& kernel, KernelRun& run, uint64_t seed)
      : kernel_(kernel), run_(run), state_(seed * 2 + 1) {}

  void unroll(std::vector<Core>& cores, const std::vector<int64_t>& scalars) {
    for (Core& core : cores) {
      per_core_ = PerCore{};
      per_core_.instance.assign(kernel_.buffers().size(), nullptr);
      per_core_.history.resize(kernel_.buffers().size());
      for (Id b : kernel_.kernel().scope) declare(core, b);
      for (size_t n = 0; n < kernel_.nests().size(); ++n) {
        if (core.id >= kernel_.nests()[n].cores) continue;
        nest_ = static_cast<int>(n);
        kernel_.set_coordinates(core, nest_, scalars);
        walk(kernel_.nests()[n].body, core);
      }
    }
  }

  void execute(std::vector<Core>& cores) {
    std::vector<int> ready;
    size_t done = 0;
    auto became_ready = [&](int i) {
      const int g = instances_[i].group;
      if (g < 0) {
        ready.push_back(i);
      } else if (++groups_[g].ready == groups_[g].size) {
        ready.push_back(groups_[g].members[0]);
      }
    };
    for (size_t i = 0; i < instances_.size(); ++i)
      if (instances_[i].waits == 0) became_ready(static_cast<int>(i));
    auto finish = [&](int i) {
      ++done;
      for (int n : instances_[i].next)
        if (--instances_[n].waits == 0) became_ready(n);
    };
    while (!ready.empty()) {
      const size_t pick = random() % ready.size();
      const int i = ready[pick];
      ready[pick] = ready.back();
      ready.pop_back();
      const Instance& x = instances_[i];
      if (!x.node) {
        open(cores[x.core], x);
        finish(i);
      } else if (x.group < 0) {
        kernel_.run_step(*x.node, restore(cores, i));
        finish(i);
      } else {
        const auto members = groups_[x.group].members;
        if (x.node->collective) {
          std::vector<Core*> together;
          for (int m : members) together.push_back(&restore(cores, m));
          kernel_.run_collective(*x.node, together);
        } else {
          for (int m : members) kernel_.run_step(*x.node, restore(cores, m));
        }
        for (int m : members) finish(m);
      }
    }
    if (done != instances_.size())
      fail(Fault::program, "kernel {}: {} of {} step instances can never start", kernel_.kernel().name,
           instances_.size() - done, instances_.size());
  }

 private:
  struct PerCore {
    std::vector<BufferInstance*> instance;              // current one of each buffer
    std::vector<std::vector<BufferInstance*>> history;  // touched instances of each buffer, by slot the latest
    std::vector<int> memory_steps;                      // loads and stores since the last fence
    int fence = -1, ordered = -1;
    std::map<std::pair<const Node*, int>, int> occurrences;
  };

  uint64_t random() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545F4914F6CDD1Dull >> 16;
  }

  Core& restore(std::vector<Core>& cores, int i) {
    Core& core = cores[instances_[i].core];
    core.vars = instances_[i].vars;
    core.buffers = instances_[i].buffers;
    return core;
  }

  void open(Core& core, const Instance& gate) {
    const BufferInfo& b = kernel_.buffers()[gate.buffer];
    auto* to = reinterpret_cast<uint16_t*>(gate.buffers[0]);
    std::fill_n(to, b.slot_bytes / 2, poison);
    if (!run_.checker) return;
    core.buffers[gate.buffer] = gate.buffers[0];
    run_.checker->declare(core, gate.buffer);
  }

  void edge(int from, int to) {
    if (from < 0 || from == to) return;
    auto& next = instances_[from].next;
    if (!next.empty() && next.back() == to) return;
    next.push_back(to);
    ++instances_[to].waits;
  }

  int add(Instance x) {
    if (instances_.size() >= most_instances)
      fail(Fault::unimplemented, "kernel {} has more than {} step instances: too many for the random order",
           kernel_.kernel().name, most_instances);
    instances_.push_back(std::move(x));
    return static_cast<int>(instances_.size()) - 1;
  }

  void declare(Core& core, Id buffer) {
    kernel_.declare(core, buffer);
    buffer_instances_.push_back(std::make_unique<BufferInstance>());
    BufferInstance& b = *buffer_instances_.back();
    b.buffer = buffer;
    b.data = core.buffers[buffer];
    per_core_.instance[buffer] = &b;
  }

  /// The gate of a buffer instance: waits for all touchers of what held its bytes before.
  int gate(Core& core, BufferInstance& b) {
    if (b.gate >= 0) return b.gate;
    Instance x;
    x.core = core.id;
    x.buffer = b.buffer;
    x.buffers = {b.data};
    b.gate = add(std::move(x));
    edge(per_core_.fence, b.gate);
    const std::byte* end = b.data + kernel_.buffers()[b.buffer].slot_bytes;
    for (auto& list : per_core_.history)
      for (BufferInstance* old : list) {
        if (old == &b || old->data >= end || old->data + kernel_.buffers()[old->buffer].slot_bytes <= b.data) continue;
        for (int t : old->touchers) edge(t, b.gate);
      }
    auto& mine = per_core_.history[b.buffer];
    std::erase_if(mine, [&](const BufferInstance* old) { return old->data == b.data; });
    mine.push_back(&b);
    return b.gate;
  }

  void touch(Core& core, int instance, const Touch& t) {
    BufferInstance& b = *per_core_.instance[t.ref->buffer];
    edge(gate(core, b), instance);
    if (b.touchers.empty() || b.touchers.back() != instance) b.touchers.push_back(instance);
    const auto& source = kernel_.kernel().buffers[t.ref->buffer];
    int64_t first = 0, last = 0;
    if (source.piece_dim >= 0) {
      const auto [at, size] = Operand(*t.ref, kernel_.buffers(), kernel_.vars()).positions(core, source.piece_dim);
      if (size <= 0) return;
      first = at / source.piece_size;
      last = (at + size - 1) / source.piece_size;
    }
    for (int64_t p = first; p <= last; ++p) {
      auto& piece = b.pieces[p];
      edge(piece.writer, instance);
      if (t.write) {
        for (int r : piece.readers) edge(r, instance);
        piece.readers.clear();
        piece.writer = instance;
      } else {
        piece.readers.push_back(instance);
      }
    }
  }

  void step(const Node& node, Core& core) {
    Instance x;
    x.node = &node;
    x.core = core.id;
    x.vars = core.vars;
    x.buffers = core.buffers;
    const int i = add(std::move(x));
    edge(per_core_.fence, i);
    auto touches = touches_of(*node.step);
    // Reads first: a step that reads and writes one buffer does not wait for itself.
    std::stable_sort(touches.begin(), touches.end(), [](const Touch& a, const Touch& b) { return a.write < b.write; });
    for (const Touch& t : touches) touch(core, i, t);
    const auto& op = node.step->op;
    if (std::holds_alternative<program::Load>(op) || std::holds_alternative<program::Store>(op))
      per_core_.memory_steps.push_back(i);
    if (const auto* st = std::get_if<program::Store>(&op); st && st->ordered) {
      edge(per_core_.ordered, i);
      per_core_.ordered = i;
    }
    if (std::holds_alternative<program::Fence>(op)) {
      for (int m : per_core_.memory_steps) edge(m, i);
      per_core_.memory_steps.clear();
      per_core_.fence = i;
    }
    join_group(node, core, i);
  }

  void join_group(const Node& node, const Core& core, int i) {
    const auto& nest = *kernel_.nests()[nest_].source;
    Id grid = program::collective_of(*node.step);
    const auto* ring = std::get_if<program::Ring>(&node.step->op);
    const bool all = ring && ring->kind == program::Ring::Kind::remap;
    if (grid == program::none && !all) return;
    int size = nest.cores(), first = 0;
    if (!all) {
      int stride = 1;
      for (size_t d = grid + 1; d < nest.grid.size(); ++d) stride *= nest.grid[d].size;
      size = nest.grid[grid].size;
      first = core.id - core.id / stride % size * stride;
    }
    const int n = per_core_.occurrences[{&node, first}]++;
    const auto [it, fresh] = group_of_.try_emplace({&node, first, n}, static_cast<int>(groups_.size()));
    if (fresh) {
      groups_.emplace_back();
      groups_.back().size = static_cast<size_t>(size);
    }
    instances_[i].group = it->second;
    groups_[it->second].members.push_back(i);
  }

  void walk(const CompiledKernel::Block& block, Core& core) {
    for (const Node& n : block.nodes) switch (n.kind) {
        case Node::Kind::declare:
          declare(core, n.id);
          break;
        case Node::Kind::core_range:
          n.enter(kernel_.vars(), core.vars.data(), core.vars[kernel_.vars().coordinate(n.grid)]);
          break;
        case Node::Kind::loop: {
          const int64_t trips = n.trips(core.v());
          for (int64_t t = 0; t < trips; ++t) {
            n.enter(kernel_.vars(), core.vars.data(), t);
            walk(*n.body, core);
          }
          break;
        }
        case Node::Kind::branch:
          if (n.holds(core.v())) walk(*n.body, core);
          break;
        case Node::Kind::step:
          step(n, core);
          break;
      }
  }

  const CompiledKernel& kernel_;
  KernelRun& run_;
  uint64_t state_;
  int nest_ = 0;
  PerCore per_core_;
  std::vector<Instance> instances_;
  std::vector<Group> groups_;
  std::map<std::tuple<const Node*, int, int>, int> group_of_;
  std::vector<std::unique_ptr<BufferInstance>> buffer_instances_;
};

}  // namespace

void run_random_order(const CompiledKernel& kernel, KernelRun& run, const std::vector<int64_t>& scalars,
                      uint64_t seed) {
  int most = 1;
  for (const auto& n : kernel.nests()) most = std::max(most, n.cores);
  const LxImages images(most, run.description->lx_bytes);
  std::vector<Core> cores(most);
  kernel.fill_core_ranges(run, scalars);
  for (int id = 0; id < most; ++id) {
    kernel.prepare(cores[id], run, id, images.image(id));
    run.all_cores.push_back(&cores[id]);
  }
  Checker* checker = run.checker;
  run.checker = nullptr;  // instances are declared when their gates open
  Scheduler scheduler(kernel, run, seed);
  scheduler.unroll(cores, scalars);
  run.checker = checker;
  scheduler.execute(cores);
  run.all_cores.clear();
}

}  // namespace spyre::card
