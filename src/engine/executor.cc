// The executor: finds or makes the instance of a launch, and launches it.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>

#include "base/error.h"
#include "engine/counters.h"
#include "engine/disk_cache.h"
#include "engine/dump.h"
#include "engine/engine.h"
#include "engine/instance.h"
#include "engine/options.h"
#include "engine/situation_key.h"
#include "engine/verify.h"
#include "program/program.h"

namespace spyre::engine {

namespace {

using InstancePtr = std::shared_ptr<Instance>;

/// The disk cache of the process, as the options say now; null without one.
std::shared_ptr<DiskCache> disk() {
  static auto* const mutex = new std::mutex;
  static auto* const cache = new std::shared_ptr<DiskCache>;
  static auto* const limit = new int64_t(-1);
  const Options& o = options();
  if (!o.cache || o.cache_dir.empty()) return nullptr;
  const std::lock_guard lock(*mutex);
  if (!*cache || (*cache)->directory() != o.cache_dir || *limit != o.cache_bytes) {
    *cache = std::make_shared<DiskCache>(o.cache_dir, o.cache_bytes);
    *limit = o.cache_bytes;
  }
  return *cache;
}

/// What a thread reuses from launch to launch.
struct Scratch {
  SituationKey key;
  std::vector<runtime::Binding> bindings;
  std::vector<double> scalars;
  Instance::Held held;
};

}  // namespace

Counters& counters() {
  static auto* const all = new Counters;
  return *all;
}

struct Executor::Impl {
  Impl(graph::Graph g) : graph(std::move(g)), hash(graph::content_hash(graph)) {
    graph::verify(graph);
    // Whether two inputs are one tensor matters where one is written; few inputs are cheap to compare anyway.
    merge = !graph.mutations.empty() || graph.inputs.size() <= 8;
  }

  InstancePtr find(const SituationKey& key, runtime::Device& device, std::shared_ptr<const Instance::Loaded>& loaded);
  InstancePtr make(const SituationKey& key, const Situation& situation, runtime::Device& device);
  InstancePtr build(const Situation& situation, const device::Description& description, const std::string& content);
  InstancePtr instance(Scratch& scratch, runtime::Device& device, std::span<const int64_t> symbols,
                       std::span<const TensorArg> inputs, std::span<const TensorArg> outputs,
                       std::shared_ptr<const Instance::Loaded>& loaded);
  std::shared_ptr<const Instance::Loaded> load(Instance& instance, runtime::Device& device);
  void check_outputs(std::span<const int64_t> symbols, std::span<const TensorArg> outputs);
  void check_params(std::span<const double> params) const;

  const graph::Graph graph;
  const std::string hash;
  bool merge = false;

  std::mutex specs_mutex;
  std::vector<std::pair<std::vector<int64_t>, std::shared_ptr<const std::vector<OutputSpec>>>> specs;

  std::atomic<uint64_t> clock{0};
  std::mutex making;        // one instance is made at a time
  std::shared_mutex mutex;  // all below
  std::map<std::string, InstancePtr> by_content;
  // The quick way: keys with placements by address, which are kept alive here. Loaded programs of one device.
  struct Known {
    std::vector<uint64_t> words;
    std::vector<runtime::PlacementPtr> placements;
    InstancePtr instance;
    std::shared_ptr<const Instance::Loaded> loaded;
  };
  std::unordered_multimap<uint64_t, Known> known;
};

namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Executor>> by_hash;
  std::set<Executor::Impl*> alive;
};
// Never destroyed: what runs at exit may still ask.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

}  // namespace

Executor::Executor(graph::Graph graph) : impl_(std::make_unique<Impl>(std::move(graph))) {
  const std::lock_guard lock(registry().mutex);
  registry().alive.insert(impl_.get());
}

Executor::~Executor() {
  const std::lock_guard lock(registry().mutex);
  registry().alive.erase(impl_.get());
}

const graph::Graph& Executor::graph() const { return impl_->graph; }
const std::string& Executor::hash() const { return impl_->hash; }

std::shared_ptr<const std::vector<Executor::OutputSpec>> Executor::output_specs(
    std::span<const int64_t> symbols) const {
  Impl& m = *impl_;
  const graph::Graph& g = m.graph;
  constexpr size_t most = 256;
  const std::lock_guard lock(m.specs_mutex);
  for (size_t i = 0; i < m.specs.size(); ++i)
    if (std::equal(symbols.begin(), symbols.end(), m.specs[i].first.begin(), m.specs[i].first.end())) {
      if (i > 0) std::swap(m.specs[i], m.specs[i - 1]);  // those that are asked for often come first
      return m.specs[i > 0 ? i - 1 : 0].second;
    }
  if (symbols.size() != g.symbols.size())
    fail(Fault::user, "the graph has {} symbols, {} values are given", g.symbols.size(), symbols.size());
  for (size_t s = 0; s < symbols.size(); ++s)
    if (symbols[s] < g.symbols[s].lo || symbols[s] > g.symbols[s].hi)
      fail(Fault::user, "{} = {} is outside {}..{}, for which the graph was made", g.symbols[s].name, symbols[s],
           g.symbols[s].lo, g.symbols[s].hi);
  auto specs = std::make_shared<std::vector<OutputSpec>>();
  for (const graph::Ref& ref : g.outputs) {
    const graph::Value& value = g.values[static_cast<size_t>(ref.value)];
    OutputSpec spec;
    for (const graph::Size& n : value.sizes) spec.sizes.push_back(n.eval(symbols));
    for (const graph::Size& n : value.strides) spec.strides.push_back(n.eval(symbols));
    spec.type = value.type;
    specs->push_back(std::move(spec));
  }
  if (m.specs.size() >= most) m.specs.pop_back();
  m.specs.emplace_back(std::vector<int64_t>(symbols.begin(), symbols.end()), specs);
  return specs;
}

// ------------------------------------------------------------------------------------------------------- instances

InstancePtr Executor::Impl::find(const SituationKey& key, runtime::Device&,
                                 std::shared_ptr<const Instance::Loaded>& loaded) {
  const std::shared_lock lock(mutex);
  const auto [begin, end] = known.equal_range(key.hash());
  for (auto it = begin; it != end; ++it) {
    const Known& k = it->second;
    if (!std::equal(k.words.begin(), k.words.end(), key.words().begin(), key.words().end())) continue;
    k.instance->used.store(clock.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    loaded = k.loaded;
    return k.instance;
  }
  return nullptr;
}

InstancePtr Executor::Impl::build(const Situation& situation, const device::Description& description,
                                  const std::string& content) {
  const Options& o = options();
  const std::string code = code_hash();
  const std::string key = base::Hasher(4).add(content).add(hash).add(description.hash).add(code).finish().hex();
  const auto cache = o.verify ? nullptr : disk();
  if (cache && o.dump_dir.empty()) {
    if (const auto bytes = cache->load(key)) {
      try {
        Artifact artifact = read(*bytes, key);
        check(artifact, graph.inputs.size(), graph.outputs.size(), graph.params.size());
        auto made = std::make_shared<Instance>(std::move(artifact), description, nullptr);
        ++counters().disk_hits;
        return made;
      } catch (const Error& error) {
        ++counters().rebuilt;
        cache->discard(key);
        warn(fmt::format("{} is no good ({}): the program is compiled anew", cache->path(key), error.what()));
      }
    }
  }
  auto compiled = std::make_shared<Compiled>(compile(graph, situation, description));
  auto made = std::make_shared<Instance>(compiled->artifact, description, o.verify ? compiled : nullptr);
  ++counters().instances;
  if (!o.dump_dir.empty()) dump(o.dump_dir, hash, key, graph, *compiled, made->executable(), description);
  if (cache) cache->store(key, write(made->artifact(), key));
  return made;
}

InstancePtr Executor::Impl::make(const SituationKey& key, const Situation& situation, runtime::Device& device) {
  const std::string content = situation.hash().hex() + device.description().hash;
  const std::lock_guard one(making);
  InstancePtr found;
  {
    const std::shared_lock lock(mutex);
    const auto place = by_content.find(content);
    if (place != by_content.end()) found = place->second;
  }
  if (!found) found = build(situation, device.description(), content);
  auto loaded = found->launches() ? load(*found, device) : nullptr;
  found->used.store(clock.fetch_add(1) + 1);

  std::vector<InstancePtr> dropped;  // destroyed behind the lock
  std::vector<Known> forgotten;
  const std::unique_lock lock(mutex);
  by_content[content] = found;
  const auto forget = [&](const Instance* instance) {
    for (auto it = known.begin(); it != known.end();) {
      if (instance && it->second.instance.get() != instance) {
        ++it;
        continue;
      }
      forgotten.push_back(std::move(it->second));
      it = known.erase(it);
    }
  };
  while (static_cast<int64_t>(by_content.size()) > options().instances) {
    const auto oldest = std::min_element(by_content.begin(), by_content.end(), [](const auto& a, const auto& b) {
      return a.second->used.load() < b.second->used.load();
    });
    if (oldest->second == found) break;
    forget(oldest->second.get());
    dropped.push_back(std::move(oldest->second));
    by_content.erase(oldest);
  }
  // Keys by address multiply when every allocation has a placement of its own.
  if (static_cast<int64_t>(known.size()) >= 4 * options().instances) forget(nullptr);
  known.emplace(key.hash(), Known{{key.words().begin(), key.words().end()}, key.placements(), found, loaded});
  return found;
}

std::shared_ptr<const Instance::Loaded> Executor::Impl::load(Instance& instance, runtime::Device& device) {
  try {
    return instance.on(device);
  } catch (const Error& error) {
    if (error.fault() != Fault::out_of_memory) throw;
  }
  // Programs that can be loaded again make room.
  std::vector<Known> forgotten;
  {
    const std::lock_guard all(registry().mutex);
    for (Impl* other : registry().alive) {
      const std::unique_lock lock(other->mutex);
      for (auto& [hash, k] : other->known) forgotten.push_back(std::move(k));
      other->known.clear();
      for (auto& [content, old] : other->by_content)
        if (old.get() != &instance) old->unload();
    }
  }
  forgotten.clear();
  return instance.on(device);
}

void Executor::Impl::check_outputs(std::span<const int64_t> symbols, std::span<const TensorArg> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const graph::Value& value = graph.values[static_cast<size_t>(graph.outputs[i].value)];
    const layout::HostView& view = outputs[i].view;
    layout::HostView wanted;
    for (const graph::Size& n : value.sizes) wanted.sizes.push_back(n.eval(symbols));
    for (const graph::Size& n : value.strides) wanted.strides.push_back(n.eval(symbols));
    bool good = view.sizes == wanted.sizes && view.strides.size() == wanted.strides.size();
    if (good && wanted.numel() > 0) {
      good = view.offset == 0;
      for (size_t d = 0; good && d < view.sizes.size(); ++d)
        good = view.sizes[d] == 1 || view.strides[d] == wanted.strides[d];
      good = good && wanted.extent().second <= outputs[i].allocation->placement()->geometry.storage_elements;
    }
    if (!good)
      fail(Fault::user, "output {} ({}) of a compiled graph is {}, but the graph makes {}", i, value.name,
           view.to_text(), wanted.to_text());
  }
}

void Executor::Impl::check_params(std::span<const double> params) const {
  if (params.size() != graph.params.size())
    fail(Fault::user, "the graph has {} params, {} are given", graph.params.size(), params.size());
}

InstancePtr Executor::Impl::instance(Scratch& scratch, runtime::Device& device, std::span<const int64_t> symbols,
                                     std::span<const TensorArg> inputs, std::span<const TensorArg> outputs,
                                     std::shared_ptr<const Instance::Loaded>& loaded) {
  scratch.key.gather(graph, device, symbols, inputs, outputs, merge);
  InstancePtr found = find(scratch.key, device, loaded);
  if (!found) {
    if (symbols.size() != graph.symbols.size())
      fail(Fault::user, "the graph has {} symbols, {} values are given", graph.symbols.size(), symbols.size());
    check_outputs(symbols, outputs);
    const Situation situation = scratch.key.situation(graph, symbols, inputs, outputs);
    found = make(scratch.key, situation, device);
    if (found->launches()) loaded = found->on(device);
  }
  scratch.key.clear();
  return found;
}

// ------------------------------------------------------------------------------------------------------- launches

void Executor::run(runtime::Stream& stream, std::span<const int64_t> symbols, std::span<const TensorArg> inputs,
                   std::span<const TensorArg> outputs, std::span<const double> params) {
  Impl& m = *impl_;
  runtime::Device& device = stream.device();
  thread_local Scratch scratch;
  struct Clean {  // nothing is kept alive from launch to launch
    ~Clean() {
      scratch.key.clear();
      scratch.held.clear();
    }
    Scratch& scratch;
  } clean{scratch};

  m.check_params(params);
  std::shared_ptr<const Instance::Loaded> loaded;
  const InstancePtr instance = m.instance(scratch, device, symbols, inputs, outputs, loaded);
  if (!instance->launches()) return;
  const Artifact& artifact = instance->artifact();
  scratch.scalars.clear();
  for (int32_t param : artifact.scalars) scratch.scalars.push_back(params[static_cast<size_t>(param)]);
  if (instance->compiled() && !device.timing_only()) {
    run_verified(*instance, stream, inputs, outputs, params);
  } else {
    scratch.bindings.clear();
    instance->bind(*loaded, stream, inputs, outputs, scratch.bindings, scratch.held);
    loaded->program->launch(stream, scratch.bindings, scratch.scalars);
  }
  instance->count(scratch.scalars);
}

Executor::Description Executor::describe(runtime::Device& device, std::span<const int64_t> symbols,
                                         std::span<const TensorArg> inputs, std::span<const TensorArg> outputs,
                                         std::span<const double> params, const std::string& trace_path) {
  impl_->check_params(params);
  Scratch scratch;
  std::shared_ptr<const Instance::Loaded> loaded;
  const InstancePtr instance = impl_->instance(scratch, device, symbols, inputs, outputs, loaded);
  const program::Program& program = instance->executable().program();
  timing::ScalarValues scalars;
  for (int32_t param : instance->artifact().scalars) scalars.push_back(params[static_cast<size_t>(param)]);
  Description out;
  out.plan = instance->artifact().plan;
  out.program = program::print(program);
  out.timeline = instance->executable().timeline(scalars);
  for (const program::Call& call : program.calls) {
    out.kernel_names.push_back(program.kernels[static_cast<size_t>(call.kernel)].name);
    out.kernel_ops.push_back(call.loc == program::none ? "" : program.locs[static_cast<size_t>(call.loc)].op);
  }
  if (!trace_path.empty()) write_trace(trace_path, program, scalars, device.description());
  return out;
}

// ----------------------------------------------------------------------------------------------------- the process

std::shared_ptr<Executor> executor(graph::Graph graph) {
  std::string hash = graph::content_hash(graph);
  if (auto found = find_executor(hash)) return found;
  auto made = std::make_shared<Executor>(std::move(graph));
  const std::lock_guard lock(registry().mutex);
  return registry().by_hash.try_emplace(std::move(hash), made).first->second;
}

std::shared_ptr<Executor> find_executor(std::string_view hash) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().by_hash.find(std::string(hash));
  return found == registry().by_hash.end() ? nullptr : found->second;
}

Statistics statistics() {
  Counters& c = counters();
  Statistics s;
  {
    const std::lock_guard all(registry().mutex);
    for (Executor::Impl* executor : registry().alive) {
      const std::shared_lock lock(executor->mutex);
      int64_t launches = 0, modelled_ps = 0;
      for (const auto& [content, instance] : executor->by_content) instance->collect(launches, modelled_ps);
      c.launches += launches;
      c.modelled_ps += modelled_ps;
    }
  }
  s.instances = c.instances;
  s.disk_hits = c.disk_hits;
  s.rebuilt = c.rebuilt;
  s.launches = c.launches;
  s.repacks = c.repacks;
  s.modelled_ps = c.modelled_ps;
  return s;
}

void reset_statistics() {
  statistics();  // what living instances have counted
  Counters& c = counters();
  for (std::atomic<int64_t>* figure : {&c.instances, &c.disk_hits, &c.rebuilt, &c.launches, &c.modelled_ps, &c.repacks})
    figure->store(0);
}

void release_memory() { RepackCache::clear_all(); }

}  // namespace spyre::engine
