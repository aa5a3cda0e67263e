#include "engine/repacks.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/counters.h"
#include "engine/options.h"
#include "program/program.h"

namespace spyre::engine {

using runtime::Allocation;
using runtime::AllocationPtr;

namespace {

/// Names and source lines don't matter to a copy.
base::Hash128 content_of(program::Program program) {
  for (size_t s = 0; s < program.symbols.size(); ++s) program.symbols[s].name = fmt::format("s{}", s);
  for (program::Loc& loc : program.locs) loc = {};
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    program.kernels[k].name = fmt::format("k{}", k);
    for (size_t f = 0; f < program.kernels[k].formals.size(); ++f)
      program.kernels[k].formals[f].name = fmt::format("f{}", f);
  }
  const std::vector<std::byte> bytes = program::write(program);
  return base::hash_bytes(bytes.data(), bytes.size());
}

}  // namespace

RepackProgram RepackProgram::load(const program::Program& program, base::HostType type, runtime::Device& device) {
  if (program.symbols.size() != 2) fail(Fault::program, "a repacking program has {} symbols", program.symbols.size());
  RepackProgram out;
  out.placement =
      std::make_shared<const runtime::Placement>(runtime::Placement{type, program.symbols[1].geometry, std::nullopt});
  out.hash = content_of(program);
  out.loaded =
      runtime::LoadedProgram::load(device, std::make_shared<const card::Executable>(program, device.description()));
  return out;
}

struct RepackCache::State {
  explicit State(int64_t most) : limit(most) {}

  struct Entry {
    base::Hash128 program;
    uint64_t generation = 0;
    AllocationPtr copy;
    int64_t bytes = 0;
    bool computed = true;                     // false: made while launches computed nothing
    std::shared_ptr<runtime::Signal> signal;  // null: the copy is there
    uint64_t used = 0;
  };
  using Entries = std::vector<Entry>;
  // Dies with the source.
  struct Guard {
    Guard(std::weak_ptr<State> s, uint64_t n) : state(std::move(s)), serial(n) {}
    ~Guard() {
      if (runtime::in_forked_child()) return;
      if (const auto live = state.lock()) live->forget(serial);
    }
    std::weak_ptr<State> state;
    uint64_t serial;
  };

  void forget(uint64_t serial) {
    Entries dropped;  // memory is given back behind the lock
    const std::lock_guard lock(mutex);
    const auto place = sources.find(serial);
    if (place == sources.end()) return;
    dropped = std::move(place->second);
    for (const Entry& e : dropped) bytes -= e.bytes;
    sources.erase(place);
  }

  // An entry is good when the copy was really made: what stood behind a failure in its stream was dropped.
  static bool good(Entry& e, uint64_t generation, bool computes) {
    if (e.generation != generation || (computes && !e.computed)) return false;
    if (e.signal && e.signal->reached()) {
      if (e.signal->failure()) return false;
      e.signal = nullptr;
    }
    return true;
  }

  void make_room(int64_t wanted, Entries& dropped) {
    while (bytes + wanted > limit && bytes > 0) {
      Entries* from = nullptr;
      size_t oldest = 0;
      for (auto& [serial, entries] : sources)
        for (size_t i = 0; i < entries.size(); ++i)
          if (!from || entries[i].used < (*from)[oldest].used) from = &entries, oldest = i;
      if (!from) return;
      take_out(*from, oldest, dropped);
    }
  }

  void take_out(Entries& entries, size_t i, Entries& dropped) {
    bytes -= entries[i].bytes;
    dropped.push_back(std::move(entries[i]));
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
  }

  const int64_t limit;
  mutable std::mutex mutex;                       // all below
  std::unordered_map<uint64_t, Entries> sources;  // by serial; one that is here has its guard
  int64_t bytes = 0, made = 0;
  uint64_t clock = 0;
};

RepackCache::RepackCache(int64_t limit) : state_(std::make_shared<State>(limit)) {}
RepackCache::~RepackCache() = default;

int64_t RepackCache::bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bytes;
}
int64_t RepackCache::made() const {
  const std::lock_guard lock(state_->mutex);
  return state_->made;
}

AllocationPtr RepackCache::get(Allocation& source, const RepackProgram& program, runtime::Stream& stream) {
  State& m = *state_;
  const bool computes = !stream.device().timing_only();
  const uint64_t generation = source.generation();
  State::Entries dropped;
  AllocationPtr copy;
  std::shared_ptr<runtime::Signal> wait;
  {
    const std::lock_guard lock(m.mutex);
    const auto place = m.sources.find(source.serial());
    if (place != m.sources.end()) {
      for (size_t i = 0; i < place->second.size(); ++i) {
        State::Entry& e = place->second[i];
        if (e.program != program.hash) continue;
        if (!State::good(e, generation, computes)) {
          m.take_out(place->second, i, dropped);
          break;
        }
        e.used = ++m.clock;
        copy = e.copy;
        if (e.signal && &e.signal->stream() != &stream) wait = e.signal;
        break;
      }
    }
  }
  dropped.clear();
  if (wait) stream.wait(std::move(wait));
  if (copy) return copy;

  // Without the lock: memory may be short, and then clear() is called.
  const runtime::PlacementPtr& placement = program.placement;
  copy = stream.device().allocator().allocate_exact(
      placement->geometry.storage_elements * base::host_bytes(placement->type), stream, placement);
  const runtime::Binding bindings[] = {{0, &source}, {1, copy.get()}};
  program.loaded->launch(stream, bindings);
  State::Entry entry{program.hash, generation, copy, copy->state().physical_bytes, computes, stream.record(), 0};
  if (entry.bytes > m.limit) return copy;

  bool guarded = true;
  {
    const std::lock_guard lock(m.mutex);
    ++m.made;
    ++counters().repacks;
    m.make_room(entry.bytes, dropped);
    const auto [place, added] = m.sources.try_emplace(source.serial());
    guarded = !added;
    for (size_t i = 0; i < place->second.size(); ++i)  // another thread was quicker
      if (place->second[i].program == program.hash) m.take_out(place->second, i--, dropped);
    entry.used = ++m.clock;
    m.bytes += entry.bytes;
    place->second.push_back(std::move(entry));
  }
  if (!guarded) source.attach(std::make_shared<State::Guard>(state_, source.serial()));
  return copy;
}

bool RepackCache::clear() {
  std::vector<State::Entries> dropped;
  const std::lock_guard lock(state_->mutex);
  for (auto& [serial, entries] : state_->sources)
    if (!entries.empty()) dropped.push_back(std::exchange(entries, {}));
  state_->bytes = 0;
  return !dropped.empty();
}

namespace {

struct Caches {
  std::mutex mutex;
  std::unordered_map<const runtime::Device*, std::unique_ptr<RepackCache>> of;
};
// Never destroyed: allocations may die after it.
Caches& caches() {
  static auto* const all = new Caches;
  return *all;
}

bool reclaim(runtime::Device& device) {
  RepackCache* cache = nullptr;
  {
    const std::lock_guard lock(caches().mutex);
    const auto place = caches().of.find(&device);
    if (place != caches().of.end()) cache = place->second.get();
  }
  return cache && cache->clear();
}

}  // namespace

RepackCache& RepackCache::of(runtime::Device& device) {
  const std::lock_guard lock(caches().mutex);
  std::unique_ptr<RepackCache>& cache = caches().of[&device];
  if (!cache) {
    const int64_t asked = options().repack_bytes;
    cache = std::make_unique<RepackCache>(asked >= 0 ? asked : device.description().memory_bytes / 4);
    runtime::Allocator::set_reclaim(reclaim);
  }
  return *cache;
}

bool RepackCache::clear_all() {
  std::vector<RepackCache*> all;
  {
    const std::lock_guard lock(caches().mutex);
    for (const auto& [device, cache] : caches().of) all.push_back(cache.get());
  }
  bool any = false;
  for (RepackCache* cache : all) any = cache->clear() || any;
  return any;
}

}  // namespace spyre::engine
