// Structure outside steps: program tables, scopes, ranges, buffers, blocks.
#include "program/structure.h"

#include <cmath>
#include <limits>

#include "program/conventions.h"
#include "program/limits.h"
#include "program/structure_scope.h"

namespace spyre::program {

void check_symbol(const Symbol& s) {
  if (!is_name(s.name)) fail(Fault::program, "\"{}\" is no legal symbol name", s.name);
  if (s.view.sizes.size() > static_cast<size_t>(limits::view_rank)) {
    fail(Fault::program, "symbol {}: a view has at most {} dimensions", s.name, limits::view_rank);
  }
  try {
    s.view.check();
    s.geometry.check();
  } catch (const Error& e) {
    fail(Fault::program, "symbol {}: {}", s.name, e.what());
  }
  for (const auto* list : {&s.view.sizes, &s.view.strides}) {
    for (int64_t v : *list) {
      if (v > limits::elements) fail(Fault::program, "symbol {}: {} elements are too many", s.name, v);
    }
  }
  if (s.view.numel() > limits::elements || s.view.extent().second > limits::elements ||
      s.view.offset > limits::elements || s.geometry.device_elements > limits::elements ||
      s.geometry.storage_elements > limits::elements) {
    fail(Fault::program, "symbol {} has more than 2^48 elements", s.name);
  }
  if (s.geometry.format != s.format) {
    fail(Fault::program, "symbol {} is {} but its geometry holds {}", s.name, base::format_name(s.format),
         base::format_name(s.geometry.format));
  }
}

void check_buffer(const Buffer& b) {
  if (!is_name(b.name)) fail(Fault::program, "\"{}\" is no legal buffer name", b.name);
  if (b.shape.empty() || b.shape.size() > static_cast<size_t>(limits::buffer_rank)) {
    fail(Fault::program, "buffer {}: {} dimensions, it may have 1 to {}", b.name, b.shape.size(), limits::buffer_rank);
  }
  if (b.slots < 1) fail(Fault::program, "buffer {} has {} slots", b.name, b.slots);
  int64_t bytes = b.slots;
  for (int64_t size : b.shape) {
    if (size < 1 || size > limits::buffer_bytes) fail(Fault::program, "buffer {} has a dimension of {}", b.name, size);
  }
  for (size_t d = 0; d < b.shape.size(); ++d) {
    const int64_t factor = d + 1 < b.shape.size() ? b.shape[d] : b.row_elements() * base::format_bytes(b.format);
    if (__builtin_mul_overflow(bytes, factor, &bytes) || bytes > limits::buffer_bytes)
      fail(Fault::program, "buffer {} takes more than 2^31 bytes", b.name);
  }
  if (b.lx_offset < -1 || b.lx_offset > limits::buffer_bytes ||
      (b.lx_offset > 0 && b.lx_offset % base::stick_bytes != 0)) {
    fail(Fault::program, "buffer {}: LX offset {} is no multiple of {} bytes up to 2^31", b.name, b.lx_offset,
         base::stick_bytes);
  }
  if (b.piece_dim == -1 ? b.piece_size != 0
                        : b.piece_dim < 0 || b.piece_dim >= static_cast<int32_t>(b.shape.size()) || b.piece_size < 1 ||
                              b.piece_size > b.shape[b.piece_dim]) {
    fail(Fault::program, "buffer {}: pieces({}:{}) do not divide it", b.name, b.piece_dim, b.piece_size);
  }
}

namespace {

void check_scalar(const Scalar& s) {
  if (!is_name(s.name)) fail(Fault::program, "\"{}\" is no legal scalar name", s.name);
  if (!(s.lo <= s.hi)) fail(Fault::program, "scalar {}: bounds {}..{} are not in order", s.name, s.lo, s.hi);
  if (s.is_float) return;
  constexpr double least = std::numeric_limits<int32_t>::min(), most = std::numeric_limits<int32_t>::max();
  for (double bound : {s.lo, s.hi}) {
    if (!(bound >= least && bound <= most && bound == std::floor(bound) && !(bound == 0 && std::signbit(bound)))) {
      fail(Fault::program, "scalar {}: {} is no i32", s.name, bound);
    }
  }
}

}  // namespace

// -------------------------------------------------------------------------------------------------------------------
// scopes

StructureScope::StructureScope(const Program& program, const Kernel& kernel) : program_(program), kernel_(kernel) {}

void StructureScope::refuse(const std::string& what) const {
  std::string where = "kernel " + kernel_.name;
  if (step_) {
    where += fmt::format(", step {}", steps_ - 1);
    if (step_->loc >= 0 && step_->loc < static_cast<Id>(program_.locs.size())) {
      const Loc& loc = program_.locs[step_->loc];
      where += fmt::format(" ({} at {})", loc.op, loc.source);
    }
  }
  fail(Fault::program, "{}: {}", where, what);
}

void StructureScope::declare(std::string_view name) {
  if (!is_name(name)) refuse(fmt::format("\"{}\" is no legal name", name));
  if (!names_.insert(name).second) refuse(fmt::format("name {} means two things in one scope", name));
  declared_.push_back(name);
}

void StructureScope::leave(size_t names, size_t ranges, size_t buffers) {
  for (; declared_.size() > names; declared_.pop_back()) names_.erase(declared_.back());
  for (; range_stack_.size() > ranges; range_stack_.pop_back()) range_in_scope_[range_stack_.back()] = false;
  for (; buffer_stack_.size() > buffers; buffer_stack_.pop_back()) buffer_in_scope_[buffer_stack_.back()] = false;
}

void StructureScope::run() {
  const Kernel& k = kernel_;
  if (!is_name(k.name)) fail(Fault::program, "\"{}\" is no legal kernel name", k.name);
  if (k.cores < 1 || k.cores > limits::cores)
    refuse(fmt::format("{} cores, there may be 1 to {}", k.cores, limits::cores));
  if (k.buffers.size() > static_cast<size_t>(limits::kernel_buffers)) refuse("too many buffers");
  for (const Symbol& s : k.formals) {
    check_symbol(s);
    declare(s.name);
  }
  for (const Scalar& s : k.scalars) {
    check_scalar(s);
    declare(s.name);
  }
  range_in_scope_.assign(k.ranges.size(), false);
  range_nest_.assign(k.ranges.size(), none);
  buffer_in_scope_.assign(k.buffers.size(), false);
  for (Id id : k.scope) enter_buffer(id);
  for (nest_ = 0; nest_ < static_cast<Id>(k.nests.size()); ++nest_) {
    const Nest& nest = k.nests[nest_];
    const size_t names = declared_.size();
    core_names_.clear();
    if (nest.grid.size() > static_cast<size_t>(limits::grid_rank)) refuse("a grid has too many dimensions");
    int64_t cores = 1;
    for (const GridDim& g : nest.grid) {
      if (g.size < 1 || g.size > limits::cores) refuse(fmt::format("grid dimension {} of size {}", g.name, g.size));
      cores *= g.size;
      if (cores > k.cores) refuse(fmt::format("nest {} has more than the kernel's {} cores", nest_, k.cores));
      declare(g.name);
    }
    block(nest.body, 1);
    leave(names, range_stack_.size(), buffer_stack_.size());
  }
  if (next_range_ != static_cast<Id>(k.ranges.size())) refuse("a range stands nowhere");
  if (next_buffer_ != static_cast<Id>(k.buffers.size())) refuse("a buffer is declared nowhere");
}

void StructureScope::enter_buffer(Id id) {
  if (id != next_buffer_ || id >= static_cast<Id>(kernel_.buffers.size())) {
    refuse(fmt::format("buffer {} stands where buffer {} of {} belongs: ids follow the text", id, next_buffer_,
                       kernel_.buffers.size()));
  }
  ++next_buffer_;
  check_buffer(kernel_.buffers[id]);
  declare(kernel_.buffers[id].name);
  buffer_in_scope_[id] = true;
  buffer_stack_.push_back(id);
}

void StructureScope::enter_range(Id id, bool is_core) {
  if (id != next_range_ || id >= static_cast<Id>(kernel_.ranges.size())) {
    refuse(fmt::format("range {} stands where range {} of {} belongs: ids follow the text", id, next_range_,
                       kernel_.ranges.size()));
  }
  ++next_range_;
  const Range& r = kernel_.ranges[id];
  if (r.is_core != is_core)
    refuse(fmt::format("range {} is a core range in one place and a loop in the other", r.name));
  if (r.by < 1 || r.by > limits::elements) refuse(fmt::format("range {} advances by {}", r.name, r.by));
  if (is_core) {
    check_grid(r.grid);
    if (r.uniform) refuse(fmt::format("core range {} can't be uniform", r.name));
    if (!core_names_.insert(r.name).second) refuse(fmt::format("two core ranges of one nest are called {}", r.name));
  } else if (r.grid != none) {
    refuse(fmt::format("loop {} names a grid dimension", r.name));
  }
  integer(r.lo);
  integer(r.hi);
  if (r.parent != none) {
    check_range(r.parent);
    if (r.lo != lo_of(r.parent) || r.hi != hi_of(r.parent))
      refuse(fmt::format("range {} has not the bounds of its parent", r.name));
  }
  declare(r.name);
  range_in_scope_[id] = true;
  range_nest_[id] = nest_;
  range_stack_.push_back(id);
}

void StructureScope::block(const Block& body, int depth) {
  if (depth > limits::block_depth) refuse("blocks are nested too deeply");
  const size_t names = declared_.size(), ranges = range_stack_.size(), buffers = buffer_stack_.size();
  for (const Stmt& stmt : body) {
    if (const auto* d = std::get_if<Declare>(&stmt.node)) {
      enter_buffer(d->buffer);
    } else if (const auto* c = std::get_if<CoreRange>(&stmt.node)) {
      enter_range(c->range, true);
    } else if (const auto* f = std::get_if<For>(&stmt.node)) {
      const size_t outer_names = declared_.size(), outer_ranges = range_stack_.size();
      enter_range(f->range, false);
      block(f->body, depth + 1);
      leave(outer_names, outer_ranges, buffer_stack_.size());
    } else if (const auto* i = std::get_if<If>(&stmt.node)) {
      if (i->condition.empty()) refuse("an if without a condition");
      for (const Compare& c : i->condition) {
        integer(c.a);
        integer(c.b);
      }
      block(i->body, depth + 1);
    } else {
      step_ = &std::get<Step>(stmt.node);
      ++steps_;
      step(*step_);
      step_ = nullptr;
    }
  }
  leave(names, ranges, buffers);
}

void check_structure(const Program& program) {
  std::unordered_set<std::string_view> names;
  auto unique = [&](std::string_view name, std::string_view what) {
    if (!names.insert(name).second) fail(Fault::program, "two {} are called {}", what, name);
  };
  for (const Symbol& s : program.symbols) {
    check_symbol(s);
    unique(s.name, "symbols");
  }
  names.clear();
  for (const Scalar& s : program.scalars) {
    check_scalar(s);
    unique(s.name, "scalars");
  }
  names.clear();
  for (const Kernel& k : program.kernels) {
    unique(k.name, "kernels");
    StructureScope(program, k).run();
  }
  for (const Call& c : program.calls) {
    if (c.kernel < 0 || c.kernel >= static_cast<Id>(program.kernels.size()))
      fail(Fault::program, "a call names no kernel");
    const Kernel& k = program.kernels[c.kernel];
    if (c.symbols.size() != k.formals.size() || c.scalars.size() != k.scalars.size()) {
      fail(Fault::program, "a call of {} gives {} symbols and {} scalars, it takes {} and {}", k.name, c.symbols.size(),
           c.scalars.size(), k.formals.size(), k.scalars.size());
    }
    for (size_t i = 0; i < c.symbols.size(); ++i) {
      if (c.symbols[i] < 0 || c.symbols[i] >= static_cast<Id>(program.symbols.size())) {
        fail(Fault::program, "a call of {} names no symbol for {}", k.name, k.formals[i].name);
      }
      const Symbol& have = program.symbols[c.symbols[i]];
      const Symbol& want = k.formals[i];
      if (have.format != want.format || have.geometry != want.geometry) {
        fail(Fault::program, "call of {}: symbol {} and formal {} differ in format or geometry", k.name, have.name,
             want.name);
      }
    }
    for (size_t i = 0; i < c.scalars.size(); ++i) {
      if (c.scalars[i] < 0 || c.scalars[i] >= static_cast<Id>(program.scalars.size()) ||
          program.scalars[c.scalars[i]].is_float != k.scalars[i].is_float) {
        fail(Fault::program, "call of {}: no scalar of the type of {}", k.name, k.scalars[i].name);
      }
    }
    if (c.loc != none && (c.loc < 0 || c.loc >= static_cast<Id>(program.locs.size())))
      fail(Fault::program, "a call names no loc");
  }
}

}  // namespace spyre::program
