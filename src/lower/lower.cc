#include "lower/lower.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "lower/forms.h"

namespace spyre::lower {

namespace {

using program::Direction;
using program::Kernel;
using program::Symbol;

std::vector<Emitted> emit(const Context& context, const plan::KernelPlan& kernel) {
  switch (kernel.form) {
    case plan::Form::rows:
      return emit_rows(context, kernel);
    case plan::Form::reduce:
      return emit_reduce(context, kernel);
    case plan::Form::matmul:
      return emit_matmul(context, kernel);
    case plan::Form::attention:
      return emit_attention(context, kernel);
    case plan::Form::place:
      return emit_place(context, kernel);
    case plan::Form::scatter:
      return emit_scatter(context, kernel);
    case plan::Form::scan:
      return emit_scan(context, kernel);
    case plan::Form::sort:
      return emit_sort(context, kernel);
  }
  fail(Fault::program, "a kernel plan of no form");
}

/// The kernel without what doesn't change its meaning: names and locs.
void strip(program::Block& block) {
  for (program::Stmt& stmt : block) {
    if (auto* loop = std::get_if<program::For>(&stmt.node)) strip(loop->body);
    if (auto* guard = std::get_if<program::If>(&stmt.node)) strip(guard->body);
    if (auto* step = std::get_if<program::Step>(&stmt.node)) step->loc = none;
  }
}
Kernel stripped(Kernel kernel) {
  kernel.name.clear();
  for (Symbol& s : kernel.formals) s.name.clear();
  for (program::Scalar& s : kernel.scalars) s.name.clear();
  for (program::Range& r : kernel.ranges) r.name.clear();
  for (program::Buffer& b : kernel.buffers) b.name.clear();
  for (program::Nest& nest : kernel.nests) {
    for (program::GridDim& g : nest.grid) g.name.clear();
    strip(nest.body);
  }
  return kernel;
}

/// Equal for equal kernels; cheap.
size_t hash_of(const Kernel& kernel) {
  size_t hash = kernel.nests.size() * 31 + kernel.ranges.size() * 7 + kernel.buffers.size();
  for (const Symbol& s : kernel.formals)
    hash = hash * 1'000'003 + s.geometry.hash() + static_cast<size_t>(s.view.offset);
  for (const program::Range& r : kernel.ranges) hash = hash * 31 + static_cast<size_t>(r.by);
  return hash;
}

void renumber_locs(program::Block& block, const std::vector<Id>& locs) {
  for (program::Stmt& stmt : block) {
    if (auto* loop = std::get_if<program::For>(&stmt.node)) renumber_locs(loop->body, locs);
    if (auto* guard = std::get_if<program::If>(&stmt.node)) renumber_locs(guard->body, locs);
    auto* step = std::get_if<program::Step>(&stmt.node);
    if (step && step->loc != none) step->loc = locs[step->loc];
  }
}

/// What a formal stands for, with homes looked through: the memory is an input's, a value's own, a repack's or scratch.
struct Memory {
  Emitted::Actual actual;
  size_t plan = 0;  ///< scratch: of which kernel plan
  auto operator<=>(const Memory&) const = default;
};

struct EmittedCall {
  Emitted emitted;
  std::vector<Memory> memory;  ///< per formal
  program::Loc loc;
};

class Lowering {
 public:
  Lowering(const graph::Graph& graph, const plan::Plan& plan, const device::Description& description)
      : context_{graph, plan, description} {}

  void add(const plan::KernelPlan& kernel) {
    const size_t number = plans_++;
    for (Emitted& e : emit(context_, kernel)) {
      if (e.kernel.nests.empty()) continue;
      EmittedCall call;
      for (const Emitted::Actual& actual : e.formals) call.memory.push_back(memory_of(actual, number));
      if (call.memory.size() != e.kernel.formals.size() || e.scalars.size() != e.kernel.scalars.size()) {
        fail(Fault::program, "kernel {} has {} formals and {} scalars, but {} and {} actuals", e.kernel.name,
             e.kernel.formals.size(), e.kernel.scalars.size(), call.memory.size(), e.scalars.size());
      }
      call.loc = loc_of(kernel);
      call.emitted = std::move(e);
      calls_.push_back(std::move(call));
    }
  }

  /// `alone`: values that no added kernel makes are given by the caller, those made are handed out.
  Lowered finish(bool alone) {
    find_lives();
    for (EmittedCall& call : calls_) {
      program::Call out;
      out.kernel = template_of(call.emitted);
      for (size_t f = 0; f < call.memory.size(); ++f) {
        out.symbols.push_back(symbol_of(call.memory[f], program().kernels[out.kernel].formals[f], alone));
      }
      for (size_t s = 0; s < call.emitted.scalars.size(); ++s) {
        out.scalars.push_back(scalar_of(call.emitted.scalars[s], program().kernels[out.kernel].scalars[s]));
      }
      out.loc = loc_id(call.loc);
      program().calls.push_back(std::move(out));
      ++now_;
    }
    return std::move(result_);
  }

 private:
  program::Program& program() { return result_.program; }

  const plan::Home& home(graph::Id value) const { return context_.plan.homes.at(static_cast<size_t>(value)); }

  Memory memory_of(Emitted::Actual actual, size_t number) const {
    using Kind = plan::Home::Kind;
    if (actual.value == graph::none) return {actual, actual.repack == graph::none ? number : 0};
    const plan::Home& h = home(actual.value);
    if (h.kind == Kind::replaces) actual.value = h.through.value;
    if (h.kind == Kind::resident || h.kind == Kind::folded || h.kind == Kind::dead) {
      fail(Fault::program, "a kernel names the memory of {}, which has none",
           context_.graph.values.at(static_cast<size_t>(actual.value)).name);
    }
    return {actual, 0};
  }

  /// The op a kernel is called by: its first node that is more than a Map, else its last.
  program::Loc loc_of(const plan::KernelPlan& kernel) const {
    for (const graph::Id id : kernel.nodes) {
      const graph::Node& node = context_.graph.nodes.at(static_cast<size_t>(id));
      if (!std::holds_alternative<graph::Map>(node.kind)) return node.loc;
    }
    return kernel.nodes.empty() ? program::Loc{} : context_.graph.nodes[static_cast<size_t>(kernel.nodes.back())].loc;
  }

  void find_lives() {
    for (size_t c = 0; c < calls_.size(); ++c) {
      for (size_t f = 0; f < calls_[c].memory.size(); ++f) {
        Life& life = lives_.try_emplace(calls_[c].memory[f]).first->second;
        life.last = c;
        life.written = life.written || calls_[c].emitted.kernel.formals[f].direction != Direction::in;
      }
    }
  }

  Id template_of(Emitted& emitted) {
    Kernel plain = stripped(emitted.kernel);
    const size_t hash = hash_of(plain);
    auto [begin, end] = templates_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (it->second.first == plain) return it->second.second;
    }
    const Id id = static_cast<Id>(program().kernels.size());
    templates_.emplace(hash, std::pair(std::move(plain), id));
    std::vector<Id> locs;
    for (const program::Loc& loc : emitted.locs) locs.push_back(loc_id(loc));
    for (program::Nest& nest : emitted.kernel.nests) renumber_locs(nest.body, locs);
    emitted.kernel.name = unique_name(emitted.kernel.name, kernel_names_);
    program().kernels.push_back(std::move(emitted.kernel));
    return id;
  }

  Id symbol_of(const Memory& memory, const Symbol& formal, bool alone) {
    const auto found = symbols_.find(memory);
    if (found != symbols_.end()) return found->second;
    const Life& life = lives_.at(memory);
    Symbol symbol;
    symbol.format = formal.format;
    symbol.geometry = formal.geometry;
    symbol.view = {{symbol.geometry.storage_elements}, {1}, 0};
    const graph::Id value = memory.actual.value;
    std::string name = memory.actual.repack != graph::none ? "repacked" : "scratch";
    if (value != graph::none) {
      using Kind = plan::Home::Kind;
      name = context_.graph.values[static_cast<size_t>(value)].name;
      const Kind kind = home(value).kind;
      if (kind == Kind::input) symbol.direction = life.written ? Direction::inout : Direction::in;
      if (kind == Kind::output) symbol.direction = Direction::out;
      if (kind == Kind::temp) symbol.direction = Direction::temp;
      if (alone && kind != Kind::input) symbol.direction = life.written ? Direction::out : Direction::in;
    } else {
      symbol.direction = memory.actual.repack != graph::none ? Direction::in : Direction::temp;
    }
    Id id = none;
    if (symbol.direction == Direction::temp) {
      for (Temp& temp : temps_) {
        const Symbol& other = program().symbols[static_cast<size_t>(temp.symbol)];
        if (temp.last >= now_ || other.geometry != symbol.geometry) continue;
        temp.last = life.last;
        id = temp.symbol;
        break;
      }
    }
    if (id == none) {
      id = static_cast<Id>(program().symbols.size());
      symbol.name = unique_name(legal_name(name), symbol_names_);
      if (symbol.direction == Direction::temp) temps_.push_back({id, life.last});
      program().symbols.push_back(std::move(symbol));
      result_.symbols.push_back({memory.actual.value, memory.actual.repack});
    }
    symbols_.emplace(memory, id);
    return id;
  }

  Id scalar_of(graph::Id param, const program::Scalar& formal) {
    const auto found = std::find(result_.scalars.begin(), result_.scalars.end(), param);
    const Id id = static_cast<Id>(found - result_.scalars.begin());
    if (found == result_.scalars.end()) {
      const graph::Param& p = context_.graph.params.at(static_cast<size_t>(param));
      program().scalars.push_back(
          {unique_name(legal_name(p.name), scalar_names_), formal.is_float, formal.lo, formal.hi});
      result_.scalars.push_back(param);
    }
    program::Scalar& scalar = program().scalars[static_cast<size_t>(id)];
    scalar.lo = std::max(scalar.lo, formal.lo);
    scalar.hi = std::min(scalar.hi, formal.hi);
    return id;
  }

  Id loc_id(const program::Loc& loc) {
    const auto [it, added] = locs_.try_emplace({loc.op, loc.source}, static_cast<Id>(program().locs.size()));
    if (added) program().locs.push_back(loc);
    return it->second;
  }

  struct Life {
    size_t last = 0;  ///< the last call that names it
    bool written = false;
  };
  struct Temp {
    Id symbol = none;
    size_t last = 0;  ///< the last call of the memory that has it now
  };

  Context context_;
  Lowered result_;
  std::vector<EmittedCall> calls_;
  std::map<Memory, Life> lives_;
  std::map<Memory, Id> symbols_;
  std::vector<Temp> temps_;
  std::unordered_multimap<size_t, std::pair<Kernel, Id>> templates_;
  std::map<std::pair<std::string, std::string>, Id> locs_;
  std::set<std::string> kernel_names_, symbol_names_, scalar_names_;
  size_t plans_ = 0, now_ = 0;
};

}  // namespace

Lowered lower(const graph::Graph& instance, const plan::Plan& plan, const device::Description& description) {
  Lowering lowering(instance, plan, description);
  for (const plan::KernelPlan& kernel : plan.kernels) lowering.add(kernel);
  return lowering.finish(false);
}

Lowered lower_kernel(const graph::Graph& instance, const plan::KernelPlan& kernel, const plan::Plan& plan,
                     const device::Description& description) {
  Lowering lowering(instance, plan, description);
  lowering.add(kernel);
  return lowering.finish(true);
}

}  // namespace spyre::lower
