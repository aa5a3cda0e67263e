#include "engine/instance.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "engine/counters.h"

namespace spyre::engine {

namespace {

// Launches with different scalars are priced together: most scalars don't steer time, but only the executable knows.
constexpr size_t most_counted = 64;

bool same(std::span<const double> a, std::span<const double> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace

Instance::Instance(Artifact artifact, const device::Description& description, std::shared_ptr<const Compiled> compiled)
    : artifact_(std::move(artifact)),
      executable_(std::make_shared<const card::Executable>(artifact_.program, description)),
      compiled_(std::move(compiled)) {}

Instance::~Instance() {
  int64_t launches = 0, modelled_ps = 0;
  try {
    collect(launches, modelled_ps);
  } catch (...) {  // figures only
  }
  counters().launches += launches;
  counters().modelled_ps += modelled_ps;
}

std::shared_ptr<const Instance::Loaded> Instance::on(runtime::Device& device) {
  const std::lock_guard lock(mutex_);
  for (const auto& [at, loaded] : loaded_)
    if (at == &device) return loaded;
  auto loaded = std::make_shared<Loaded>();
  loaded->program = runtime::LoadedProgram::load(device, executable_);
  for (const Artifact::Repack& repack : artifact_.repacks)
    loaded->repacks.push_back(RepackProgram::load(repack.program, repack.type, device));
  loaded_.emplace_back(&device, loaded);
  return loaded;
}

void Instance::unload() {
  std::vector<std::pair<runtime::Device*, std::shared_ptr<const Loaded>>> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(loaded_);
}

void Instance::bind(const Loaded& loaded, runtime::Stream& stream, std::span<const TensorArg> inputs,
                    std::span<const TensorArg> outputs, std::vector<runtime::Binding>& bindings, Held& held) const {
  using Kind = Artifact::Source::Kind;
  for (size_t s = 0; s < artifact_.symbols.size(); ++s) {
    const Artifact::Source& source = artifact_.symbols[s];
    const auto i = static_cast<size_t>(source.index);
    runtime::Allocation* allocation = nullptr;
    switch (source.kind) {
      case Kind::temp:
        continue;
      case Kind::input:
        allocation = inputs[i].allocation;
        break;
      case Kind::output:
        allocation = outputs[i].allocation;
        break;
      case Kind::repack: {
        runtime::Allocation& of = *inputs[static_cast<size_t>(artifact_.repacks[i].input)].allocation;
        held.push_back(RepackCache::of(stream.device()).get(of, loaded.repacks[i], stream));
        allocation = held.back().get();
        break;
      }
    }
    bindings.push_back({static_cast<program::Id>(s), allocation});
  }
}

void Instance::count(std::span<const double> scalars) {
  const std::lock_guard lock(mutex_);
  if (!counted_.empty() && same(counted_.back().scalars, scalars)) {
    ++counted_.back().launches;
    return;
  }
  if (counted_.size() >= most_counted) price_counted();
  counted_.push_back({{scalars.begin(), scalars.end()}, 1});
}

int64_t Instance::price_counted() {
  for (const Counted& c : counted_) {
    launches_ += c.launches;
    modelled_ps_ += c.launches * executable_->timeline(c.scalars).total_ps;
  }
  counted_.clear();
  return modelled_ps_;
}

void Instance::collect(int64_t& launches, int64_t& modelled_ps) {
  const std::lock_guard lock(mutex_);
  price_counted();
  launches += std::exchange(launches_, 0);
  modelled_ps += std::exchange(modelled_ps_, 0);
}

}  // namespace spyre::engine
