// First pass over a kernel: what is in scope where, loops and grids, buffers in LX. Collects the steps for the later
// passes.
#include <algorithm>
#include <map>

#include "program/limits.h"
#include "program/verify_context.h"

namespace spyre::program::verifier {
namespace {

constexpr int depth_limit = 32;
constexpr int64_t step_limit = 8192;
constexpr int64_t instance_limit = int64_t{1} << 40;
constexpr int vec_depth_limit = 64;
constexpr int vec_node_limit = 2048;

bool vec_too_large(const VecExpr& e, int depth, int& nodes) {
  if (depth > vec_depth_limit || ++nodes > vec_node_limit) return true;
  return std::any_of(e.args.begin(), e.args.end(),
                     [&](const VecExpr& a) { return vec_too_large(a, depth + 1, nodes); });
}

class Walk {
 public:
  explicit Walk(Context& context) : c_(context), buffer_declared_(context.kernel.buffers.size(), false) {}

  void run() {
    check_kernel();
    for (Id b : c_.kernel.scope) declare_buffer(b);
    for (Id n = 0; n < static_cast<Id>(c_.kernel.nests.size()); ++n) {
      check_grid(n);
      c_.enter_nest(n);
      block(c_.kernel.nests[n].body, cores_, false);
    }
    c_.enter_nest(none);
  }

 private:
  void check_kernel() {
    if (c_.kernel.cores < 1 || c_.kernel.cores > c_.description.cores)
      c_.fail("it asks for {} cores; the device has {}", c_.kernel.cores, c_.description.cores);
  }

  void check_grid(Id n) {
    const auto& grid = c_.kernel.nests[n].grid;
    if (grid.size() > static_cast<size_t>(grid_dim_limit))
      c_.fail("nest {} has {} grid dimensions; at most {} are allowed", n, grid.size(), grid_dim_limit);
    cores_ = 1;
    for (const GridDim& g : grid) {
      if (g.size < 1) c_.fail("grid dimension {} of nest {} has size {}", g.name, n, g.size);
      cores_ *= g.size;
      if (cores_ > c_.kernel.cores)
        c_.fail("the grid of nest {} needs more than the kernel's {} cores", n, c_.kernel.cores);
    }
  }

  void declare_buffer(Id id) {
    if (id < 0 || id >= static_cast<Id>(c_.kernel.buffers.size())) c_.fail("buffer {} does not exist", id);
    const Buffer& b = c_.kernel.buffers[id];
    if (buffer_declared_[id]) c_.fail("buffer {} is declared twice", b.name);
    buffer_declared_[id] = true;
    if (static_cast<int>(b.format) >= base::format_count) c_.fail("buffer {} has an unknown format", b.name);
    if (b.shape.empty() || b.shape.size() > static_cast<size_t>(limits::buffer_rank))
      c_.fail("buffer {} has {} dimensions; 1 to {} are allowed", b.name, b.shape.size(), limits::buffer_rank);
    int64_t bytes = base::format_bytes(b.format);
    for (size_t d = 0; d < b.shape.size(); ++d) {
      if (b.shape[d] < 1) c_.fail("buffer {} has size {} in dimension {}", b.name, b.shape[d], d);
      const int64_t lanes = base::elements_per_stick(b.format);
      const bool last = d + 1 == b.shape.size();
      if (b.shape[d] > c_.description.lx_bytes) c_.fail("buffer {} is larger than LX", b.name);
      bytes = saturating_mul(bytes, last ? ceil_div(b.shape[d], lanes) * lanes : b.shape[d]);
    }
    if (b.slots < 1) c_.fail("buffer {} has {} slots; it needs at least 1", b.name, b.slots);
    const int64_t all = saturating_mul(bytes, b.slots);
    if (b.lx_offset < 0) c_.fail("buffer {} has no place in LX", b.name);
    if (b.lx_offset % base::stick_bytes != 0)
      c_.fail("buffer {} lies at LX byte {}, which is no multiple of {}", b.name, b.lx_offset, base::stick_bytes);
    if (b.lx_offset > c_.description.lx_usable_bytes || all > c_.description.lx_usable_bytes - b.lx_offset)
      c_.fail("buffer {} with {} slots takes LX bytes {}..{}, but only {} can be used", b.name, b.slots, b.lx_offset,
              all > value_limit ? value_limit : b.lx_offset + all, c_.description.lx_usable_bytes);
    if (b.piece_dim == -1 ? b.piece_size != 0
                          : b.piece_dim < 0 || b.piece_dim >= static_cast<int>(b.shape.size()) || b.piece_size < 1)
      c_.fail("buffer {} has pieces of {} along dimension {}", b.name, b.piece_size, b.piece_dim);
    // Enclosing scopes and this one hold disjoint bytes: look at the neighbours only.
    const int64_t end = b.lx_offset + all;
    auto next = placed_.lower_bound(b.lx_offset);
    const bool after = next != placed_.end() && next->first < end;
    const bool before = next != placed_.begin() && std::prev(next)->second.first > b.lx_offset;
    if (after || before) {
      const Id other = after ? next->second.second : std::prev(next)->second.second;
      c_.fail("buffers {} and {} share LX bytes, but are alive at the same time; only buffers of sibling scopes may",
              b.name, c_.buffer_name(other));
    }
    placed_[b.lx_offset] = {end, id};
    c_.buffer_visible[id] = true;
  }

  void block(const Block& statements, int64_t instances, bool conditional) {
    if (++depth_ > depth_limit) c_.fail("statements are nested more than {} levels deep", depth_limit);
    const size_t ranges_before = enclosing_.size();
    std::vector<Id> buffers;
    for (size_t i = 0; i < statements.size(); ++i) {
      path_.emplace_back(&statements, static_cast<int>(i));
      const auto& node = statements[i].node;
      if (const auto* declare = std::get_if<Declare>(&node)) {
        declare_buffer(declare->buffer);
        buffers.push_back(declare->buffer);
      } else if (const auto* core = std::get_if<CoreRange>(&node)) {
        if (conditional) c_.fail("core range {} is declared under an `if`", c_.range_name(core->range));
        range(core->range, true);
      } else if (const auto* loop = std::get_if<For>(&node)) {
        range(loop->range, false);
        block(loop->body, saturating_mul(instances, c_.ranges[loop->range].max_trips), conditional);
        c_.ranges[loop->range].visible = false;
        enclosing_.pop_back();
      } else if (const auto* branch = std::get_if<If>(&node)) {
        condition(branch->condition);
        conditions_.push_back(&branch->condition);
        block(branch->body, instances, true);
        conditions_.pop_back();
      } else {
        step(std::get<Step>(node), instances);
      }
      path_.pop_back();
    }
    while (enclosing_.size() > ranges_before) {
      c_.ranges[enclosing_.back()].visible = false;
      enclosing_.pop_back();
    }
    for (Id b : buffers) {
      c_.buffer_visible[b] = false;
      placed_.erase(c_.kernel.buffers[b].lx_offset);
    }
    --depth_;
  }

  void range(Id id, bool core) {
    if (id < 0 || id >= static_cast<Id>(c_.ranges.size())) c_.fail("range {} does not exist", id);
    if (c_.kernel.ranges[id].is_core != core)
      c_.fail("range {} is {}", c_.range_name(id),
              core ? "a loop declared as a core range" : "a core range used as a loop");
    c_.declare_range(id);
    enclosing_.push_back(id);
  }

  void condition(const Condition& condition) {
    if (condition.size() > 64) c_.fail("a condition has {} comparisons", condition.size());
    for (const Compare& compare : condition) {
      if (compare.op > Compare::Op::ge) c_.fail("a condition has an unknown comparison");
      c_.check(compare.a);
      c_.check(compare.b);
    }
  }

  void step(const Step& step, int64_t instances) {
    int nodes = 0;
    auto check_size = [&](const VecExpr& e) {
      if (vec_too_large(e, 1, nodes))
        c_.fail("a vector expression is larger than {} levels or {} nodes", vec_depth_limit, vec_node_limit);
    };
    if (const auto* v = std::get_if<Vector>(&step.op)) std::for_each(v->value.begin(), v->value.end(), check_size);
    if (const auto* s = std::get_if<Scan>(&step.op)) check_size(s->value);
    if (const auto* r = std::get_if<Reduce>(&step.op)) {
      std::for_each(r->init.begin(), r->init.end(), check_size);
      check_size(r->value);
    }
    if (step.loc < none || step.loc >= static_cast<Id>(c_.program.locs.size()))
      c_.fail("a step has loc {}, which does not exist", step.loc);
    total_ += std::min(instances, 2 * instance_limit);
    if (total_ > instance_limit) c_.fail("it runs more than 2^40 step instances");
    if (static_cast<int64_t>(c_.sites.size()) == step_limit) c_.fail("it has more than {} steps", step_limit);
    Site site;
    site.step = &step;
    site.nest = c_.nest_id();
    site.order = static_cast<int>(c_.sites.size());
    site.ranges = enclosing_;
    site.conditions = conditions_;
    site.path = path_;
    c_.sites.push_back(std::move(site));
    for (const Use& use : uses_of(step))
      if (use.writes && use.ref->buffer >= 0 && use.ref->buffer < static_cast<Id>(c_.writers.size()))
        c_.writers[use.ref->buffer].push_back(static_cast<int>(c_.sites.size()) - 1);
    c_.set_step(&step);
    check_step(c_, step);
    c_.set_step(nullptr);
  }

  Context& c_;
  std::vector<bool> buffer_declared_;
  std::map<int64_t, std::pair<int64_t, Id>> placed_;  // begin -> end, buffer: of this scope and the enclosing ones
  std::vector<Id> enclosing_;
  std::vector<const Condition*> conditions_;
  std::vector<std::pair<const Block*, int>> path_;
  int64_t cores_ = 1;
  int64_t total_ = 0;
  int depth_ = 0;
};

}  // namespace

void check_tree(Context& context) { Walk(context).run(); }

void check_collectives(Context& context) {
  for (const Site& site : context.sites) {
    if (site.nest != context.nest_id()) context.revisit_nest(site.nest);
    const Step& step = *site.step;
    const Id g = collective_of(step);
    const auto* ring = std::get_if<Ring>(&step.op);
    const bool all_cores = ring && ring->kind == Ring::Kind::remap && g == none;
    if (g == none && !all_cores) continue;
    const auto& grid = context.kernel.nests[site.nest].grid;
    const DimMask group = all_cores ? (DimMask{1} << grid.size()) - 1 : DimMask{1} << g;
    const std::string name = all_cores ? "all cores" : grid[g].name;
    for (Id r : site.ranges) {
      const Range& range = context.kernel.ranges[r];
      if (range.is_core || range.uniform) continue;
      DimMask dims = 0;  // of the number of trips
      for (const auto& t : context.ranges[r].hi.minus(context.ranges[r].lo).terms) dims |= context.dims_of(t.atom);
      if (dims & group)
        context.fail_at(
            step, "collective over {} inside loop {}, whose trips differ between its cores; mark the loop uniform",
            name, range.name);
    }
    for (const Condition* condition : site.conditions)
      for (const Compare& compare : *condition)
        if ((context.dims_of(compare.a) | context.dims_of(compare.b)) & group)
          context.fail_at(step, "collective over {} under a condition that differs between its cores", name);
    auto same_size = [&](const BufRef& ref) {
      DimMask dims = 0;
      for (const BufDim& d : ref.box)
        if (d.kind == BufDim::Kind::box) dims |= context.dims_of(d.size);
      if (dims & group)
        context.fail_at(step, "the size of its operand {} differs between the cores of {}",
                        context.buffer_name(ref.buffer), name);
    };
    for (const Use& use : uses_of(step)) same_size(*use.ref);
    if (const auto* load = std::get_if<Load>(&step.op)) {
      DimMask dims = 0;
      for (const Entry& e : load->from.entries) {
        if (e.kind == Entry::Kind::affine) {
          dims |= context.dims_of(e.base) | context.dims_of(e.extent);
        } else {
          dims |= context.dims_of(e.lo) | context.dims_of(e.hi);
          for (const BufDim& d : e.index.box)
            if (d.kind == BufDim::Kind::box) dims |= context.dims_of(d.first) | context.dims_of(d.size);
          if (!same_on_all_cores(context, e.index.buffer, group))
            context.fail_at(step, "share({}) needs equal indices on all cores, which buffer {} may not hold", name,
                            context.buffer_name(e.index.buffer));
        }
      }
      if (dims & group) context.fail_at(step, "share({0}), but its access depends on {0}", name);
    }
  }
}

bool same_on_all_cores(const Context& context, Id buffer, DimMask dims) {
  // Only loads of unwritten symbols count: their data can't differ when the addresses don't.
  for (int writer : context.writers[buffer]) {
    const Site& site = context.sites[writer];
    const auto* load = std::get_if<Load>(&site.step->op);
    if (!load || context.kernel.formals[load->from.symbol].direction != Direction::in) return false;
    DimMask used = 0;
    for (const BufDim& d : load->to.box)
      if (d.kind == BufDim::Kind::box) used |= context.dims_of(d.first) | context.dims_of(d.size);
    for (const Entry& e : load->from.entries) {
      if (e.kind != Entry::Kind::affine) return false;
      used |= context.dims_of(e.base) | context.dims_of(e.extent);
    }
    for (const Condition* condition : site.conditions)
      for (const Compare& c : *condition) used |= context.dims_of(c.a) | context.dims_of(c.b);
    if (used & dims) return false;
  }
  return !context.writers[buffer].empty();
}

}  // namespace spyre::program::verifier
