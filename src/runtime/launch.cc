#include "runtime/launch.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "layout/access.h"
#include "runtime/elements.h"
#include "runtime/trace.h"

namespace spyre::runtime {

using program::Direction;
using program::Id;

// A correction table in segment 7. Shared by the launches that use it, so it is never overwritten while in use.
struct Correction {
  Correction(Device& device, const std::vector<std::byte>& table, std::vector<double> values)
      : memory(device.program_memory()),
        address(memory.take(static_cast<int64_t>(table.size()))),
        scalars(std::move(values)) {
    const auto bytes = static_cast<int64_t>(table.size());
    if (bytes > 0) std::memcpy(device.card().memory().at(address, bytes), table.data(), table.size());
  }
  ~Correction() { memory.give(address); }
  Correction(const Correction&) = delete;
  Correction& operator=(const Correction&) = delete;

  ProgramMemory& memory;
  const uint64_t address;
  const std::vector<double> scalars;
};

// What a launch needs to know of a symbol, found once.
struct SymbolFacts {
  bool temp = false, written = false;
  int64_t first = 0, last = 0;  // device bytes that its views reach, in any call, relative to the allocation
  int64_t device_bytes = 0;     // of the whole geometry
  std::vector<layout::HostView> written_views;  // through which calls write it
};

struct Bound {
  Allocation* allocation = nullptr;
  PlacementPtr placement;
  uint64_t physical = 0;
  uint64_t first(const SymbolFacts& facts) const { return physical + static_cast<uint64_t>(facts.first); }
  uint64_t last(const SymbolFacts& facts) const { return physical + static_cast<uint64_t>(facts.last); }
};

// A symbol that overlaps another one, bound to a copy.
struct Staged {
  Id symbol = program::none;
  std::byte *real = nullptr, *copy = nullptr;
};

struct LoadedProgram::Impl {
  Impl(Device& d, std::shared_ptr<const card::Executable> e) : device(d), executable(std::move(e)) {}

  const program::Program& program() const { return executable->program(); }
  const program::Symbol& symbol(Id id) const { return program().symbols[static_cast<size_t>(id)]; }

  void bind(std::span<const Binding> bindings, Stream& stream);
  void check_scalars(std::span<const double> scalars) const;
  void check_placement(Id id, const Bound& bound) const;
  bool any_overlap() const;
  std::vector<Id> overlapping() const;
  int64_t run(const Stream& stream, const Correction& correction, const std::vector<Staged>& staged);

  Device& device;
  const std::shared_ptr<const card::Executable> executable;
  uint64_t image = 0;
  std::string name;
  std::unordered_map<std::string_view, Id> names;
  std::vector<SymbolFacts> facts;
  std::atomic<int64_t> host_ns{0};  // estimate of a run

  std::mutex mutex;  // all below
  std::vector<Bound> bound, previous;
  std::vector<uint64_t> addresses, previous_addresses;
  std::shared_ptr<Correction> correction;  // of previous_addresses; null when that launch was staged
};

LoadedProgram::LoadedProgram(Device& device, std::shared_ptr<const card::Executable> executable)
    : impl_(std::make_unique<Impl>(device, std::move(executable))) {}

std::shared_ptr<LoadedProgram> LoadedProgram::load(Device& device, std::shared_ptr<const card::Executable> executable) {
  check_process();
  if (!executable) fail(Fault::user, "load: no program");
  std::shared_ptr<LoadedProgram> loaded(new LoadedProgram(device, std::move(executable)));
  Impl& m = *loaded->impl_;
  const program::Program& program = m.program();
  int64_t bytes = 0;
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const program::Symbol& s = program.symbols[i];
    SymbolFacts facts;
    facts.temp = s.direction == Direction::temp;
    facts.written = s.direction == Direction::out || s.direction == Direction::inout;
    if (s.format != s.geometry.format)
      fail(Fault::program, "symbol {} is {} but its geometry is {}", s.name, base::format_name(s.format),
           base::format_name(s.geometry.format));
    const int width = base::format_bytes(s.format);
    const auto reach = [&](const layout::HostView& view) {
      const layout::Access access(view, s.geometry);  // checks that the view is inside
      const auto [first, last] = access.device_extent(layout::Box::whole(view));
      if (first == last) return;
      const bool none = facts.first == facts.last;
      facts.first = none ? first * width : std::min(facts.first, first * width);
      facts.last = none ? last * width : std::max(facts.last, last * width);
    };
    reach(s.view);
    // A kernel's formal has a view of its own, which may reach further than the symbol's.
    for (const program::Call& call : program.calls)
      for (size_t f = 0; f < call.symbols.size(); ++f) {
        if (call.symbols[f] != static_cast<Id>(i)) continue;
        const program::Symbol& formal = program.kernels[static_cast<size_t>(call.kernel)].formals[f];
        const bool writes = formal.direction != Direction::in;
        auto& views = facts.written_views;
        if (writes && std::find(views.begin(), views.end(), formal.view) != views.end()) continue;
        if (formal.view != s.view) reach(formal.view);
        if (writes) views.push_back(formal.view);
      }
    facts.device_bytes = s.geometry.device_bytes();
    bytes += facts.last - facts.first;
    m.facts.push_back(std::move(facts));
    m.names.emplace(s.name, static_cast<Id>(i));
  }
  m.name =
      program.kernels.size() == 1 ? program.kernels[0].name : fmt::format("program of {} calls", program.calls.size());
  m.host_ns.store(2000 + bytes / 2);  // until a run was timed
  m.image = device.program_memory().take(m.executable->image_bytes());
  return loaded;
}

LoadedProgram::~LoadedProgram() {
  if (impl_->image != 0 && !in_forked_child()) impl_->device.program_memory().give(impl_->image);
}

Device& LoadedProgram::device() const { return impl_->device; }
const card::Executable& LoadedProgram::executable() const { return *impl_->executable; }
uint64_t LoadedProgram::image_address() const { return impl_->image; }

Id LoadedProgram::symbol(std::string_view name) const {
  const auto place = impl_->names.find(name);
  if (place == impl_->names.end()) fail(Fault::user, "the program has no symbol '{}'", name);
  return place->second;
}

namespace {

/// 0.0 and -0.0 are different scalars, a NaN is the same one again.
bool same_scalar(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

}  // namespace

int64_t LoadedProgram::modelled_ps(std::span<const double> scalars) const {
  impl_->check_scalars(scalars);
  return impl_->executable->timeline({scalars.begin(), scalars.end()}).total_ps;
}

void LoadedProgram::Impl::check_scalars(std::span<const double> scalars) const {
  const auto& declared = program().scalars;
  if (scalars.size() != declared.size())
    fail(Fault::user, "launch of {}: {} scalars given, the program has {}", name, scalars.size(), declared.size());
  for (size_t i = 0; i < declared.size(); ++i) {
    const program::Scalar& s = declared[i];
    const double v = scalars[i];
    // A float scalar may be infinite or NaN when its bounds are.
    const bool inside = s.is_float ? !(v < s.lo || v > s.hi) : v >= s.lo && v <= s.hi && v == std::floor(v);
    if (!inside)
      fail(Fault::user, "launch of {}: scalar {} is {}, which is not {} in {}..{}", name, s.name, v,
           s.is_float ? "a number" : "an integer", s.lo, s.hi);
  }
}

void LoadedProgram::Impl::check_placement(Id id, const Bound& b) const {
  const program::Symbol& s = symbol(id);
  if (!b.placement)
    fail(Fault::user, "launch of {}: the tensor bound to {} holds raw bytes; give it a dtype first (make_typed)", name,
         s.name);
  if (b.placement->geometry != s.geometry)
    fail(Fault::user,
         "launch of {}: the tensor bound to {} has another layout than the program was made for: {} instead of {}",
         name, s.name, b.placement->geometry.to_text(), s.geometry.to_text());
}

void LoadedProgram::Impl::bind(std::span<const Binding> bindings, Stream& stream) {
  const size_t count = facts.size();
  bound.assign(count, {});
  addresses.assign(count, 0);
  for (const Binding& b : bindings) {
    if (b.symbol < 0 || static_cast<size_t>(b.symbol) >= count)
      fail(Fault::user, "launch of {}: there is no symbol {}; it has {}", name, b.symbol, count);
    const auto i = static_cast<size_t>(b.symbol);
    if (facts[i].temp)
      fail(Fault::user, "launch of {}: {} is a temp, which the launch allocates", name, symbol(b.symbol).name);
    if (bound[i].allocation) fail(Fault::user, "launch of {}: {} is bound twice", name, symbol(b.symbol).name);
    if (!b.allocation) fail(Fault::user, "launch of {}: {} is bound to nothing", name, symbol(b.symbol).name);
    if (&b.allocation->device() != &device)
      fail(Fault::user, "launch of {} on device {}: the tensor bound to {} is on device {}", name, device.index(),
           symbol(b.symbol).name, b.allocation->device().index());
    Allocation::State state = b.allocation->use(stream);
    bound[i] = {b.allocation, std::move(state.placement), state.physical};
    addresses[i] = state.physical;
    // The same placement object as at the last launch has been checked then; it is kept alive, so the pointer tells.
    if (previous.size() != count || previous[i].placement != bound[i].placement || !bound[i].placement)
      check_placement(b.symbol, bound[i]);
  }
  for (size_t i = 0; i < count; ++i)
    if (!facts[i].temp && !bound[i].allocation)
      fail(Fault::user, "launch of {}: nothing is bound to {}", name, symbol(static_cast<Id>(i)).name);
}

// A sweep over the ranges by address: true when a written one meets any other.
bool LoadedProgram::Impl::any_overlap() const {
  std::vector<Id> order;
  for (size_t i = 0; i < facts.size(); ++i)
    if (!facts[i].temp && facts[i].last > facts[i].first) order.push_back(static_cast<Id>(i));
  const auto first = [&](Id i) { return bound[i].first(facts[i]); };
  std::sort(order.begin(), order.end(), [&](Id a, Id b) { return first(a) < first(b); });
  uint64_t all_end = 0, written_end = 0;
  for (const Id i : order) {
    if (first(i) < (facts[i].written ? all_end : written_end)) return true;
    all_end = std::max(all_end, bound[i].last(facts[i]));
    if (facts[i].written) written_end = std::max(written_end, bound[i].last(facts[i]));
  }
  return false;
}

// The symbols to bind to copies: inputs that meet a written symbol, and written ones that meet a written one of a lower
// id.
std::vector<Id> LoadedProgram::Impl::overlapping() const {
  std::vector<Id> found;
  const auto count = static_cast<Id>(facts.size());
  const auto meets = [&](Id a, Id b) {
    return !facts[a].temp && !facts[b].temp && bound[a].first(facts[a]) < bound[b].last(facts[b]) &&
           bound[b].first(facts[b]) < bound[a].last(facts[a]);
  };
  for (Id a = 0; a < count; ++a)
    for (Id b = 0; b < count; ++b) {
      if (b == a || !facts[b].written || !meets(a, b) || (facts[a].written && b > a)) continue;
      found.push_back(a);
      break;
    }
  return found;
}

// Step three, in the stream's order: returns the modelled picoseconds.
int64_t LoadedProgram::Impl::run(const Stream& stream, const Correction& correction,
                                 const std::vector<Staged>& staged) {
  int64_t staged_bytes = 0;
  const bool computes = !device.timing_only();
  for (const Staged& s : staged) {
    const SymbolFacts& f = facts[s.symbol];
    if (computes) copy_block(s.copy + f.first, s.real + f.first, f.last - f.first);
    staged_bytes += (f.last - f.first) * (f.written ? 2 : 1);
  }
  if (computes) {
    const auto start = std::chrono::steady_clock::now();
    device.card().start(*executable, correction.address, device.run_options());
    const int64_t took = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
    host_ns.store((host_ns.load(std::memory_order_relaxed) + took) / 2, std::memory_order_relaxed);
    for (const Staged& s : staged) {
      if (!facts[s.symbol].written) continue;
      for (const layout::HostView& view : facts[s.symbol].written_views) {
        Side from;  // element by element: the bytes between them may belong to the other symbol
        from.access.emplace(view, symbol(s.symbol).geometry);
        from.base = s.copy;
        from.format = symbol(s.symbol).format;
        Side to = from;
        to.base = s.real;
        transfer(from, to);
      }
    }
  }
  const timing::Timeline& timeline = executable->timeline(correction.scalars);
  if (tracing()) {
    const int64_t start = stream.modelled_ps();
    for (const timing::KernelTime& call : timeline.calls)
      if (call.kernel >= 0 && static_cast<size_t>(call.kernel) < program().kernels.size())
        trace_span(stream, program().kernels[static_cast<size_t>(call.kernel)].name, WorkKind::kernel,
                   start + call.start_ps, call.duration_ps, call.bytes_read + call.bytes_written);
  }
  return timeline.total_ps +
         static_cast<int64_t>(static_cast<double>(2 * staged_bytes) * 1000.0 / device.description().memory_gbps);
}

LaunchReport LoadedProgram::launch(Stream& stream, std::span<const Binding> bindings, std::span<const double> scalars) {
  Impl& m = *impl_;
  if (&stream.device() != &m.device)
    fail(Fault::user, "launch of {}: it is loaded into device {}, the stream belongs to device {}", m.name,
         m.device.index(), stream.device().index());
  LaunchReport report;
  std::vector<Workspace> workspaces;  // given back behind this launch in the stream's order
  std::vector<Staged> staged;
  std::shared_ptr<Correction> correction;
  std::unique_lock lock(m.mutex);
  m.check_scalars(scalars);
  m.bind(bindings, stream);
  card::Memory& memory = m.device.card().memory();
  for (size_t i = 0; i < m.facts.size(); ++i) {
    if (!m.facts[i].temp) continue;
    workspaces.emplace_back(stream, m.facts[i].device_bytes);
    m.addresses[i] = workspaces.back().address();
  }
  if (m.correction && m.addresses == m.previous_addresses &&
      std::equal(scalars.begin(), scalars.end(), m.correction->scalars.begin(), m.correction->scalars.end(),
                 same_scalar)) {
    correction = m.correction;
  } else {
    report.bindings_changed = true;
    m.correction = nullptr;  // until the table for these addresses is there
    m.previous_addresses = m.addresses;
    if (m.any_overlap()) {
      for (const Id id : m.overlapping()) {
        const SymbolFacts& facts = m.facts[id];
        workspaces.emplace_back(stream, facts.device_bytes);
        const uint64_t copy = workspaces.back().address();
        staged.push_back({id, memory.at(m.addresses[id], facts.last), memory.at(copy, facts.last)});
        m.addresses[id] = copy;
      }
    }
    std::vector<double> values(scalars.begin(), scalars.end());
    const auto table = card::correction_table(m.program(), m.addresses, values);
    correction = std::make_shared<Correction>(m.device, table, std::move(values));
    if (staged.empty()) m.correction = correction;
  }
  report.staged_symbols = static_cast<int>(staged.size());
  m.previous.swap(m.bound);
  for (size_t i = 0; i < m.facts.size(); ++i)
    if (m.facts[i].written) m.previous[i].allocation->bump_generation();
  WorkInfo info{m.name.c_str(), WorkKind::kernel, m.host_ns.load(std::memory_order_relaxed)};
  lock.unlock();
  stream.submit(info, [self = shared_from_this(), correction = std::move(correction), staged = std::move(staged),
                       &stream] { return self->impl_->run(stream, *correction, staged); });
  return report;
}

}  // namespace spyre::runtime
