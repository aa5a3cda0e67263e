#include "engine/options.h"

#include <atomic>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>

#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "device/description.h"
#include "engine/engine.h"
#include "engine/sources_hash.h"

namespace spyre::engine {

namespace {

constexpr int64_t mib = 1 << 20;

std::string default_cache_dir() {
  const std::string cache = base::env_string("XDG_CACHE_HOME", "");
  if (!cache.empty()) return cache + "/openspyre";
  const std::string home = base::env_string("HOME", "");
  return home.empty() ? home : home + "/.cache/openspyre";
}

std::atomic<const Options*> current{nullptr};
std::mutex mutex;  // of changes to all below
std::function<void(const std::string&)> hook;
std::atomic<const std::string*> compiler{nullptr};

/// A copy that stays to the end of the process: whoever read the address before it was replaced may still use it.
template <typename T>
const T* kept(const T& value) {
  static auto* all = new std::deque<T>();  // under `mutex`
  all->push_back(value);
  return &all->back();
}

}  // namespace

Options Options::from_environment() {
  Options o;
  o.cache = base::env_flag("SPYRE_CACHE", true);
  o.cache_dir = base::env_string("SPYRE_CACHE_DIR", default_cache_dir());
  o.cache_bytes = base::env_int("SPYRE_CACHE_MB", 1024, 0, 1 << 30) * mib;
  o.instances = base::env_int("SPYRE_INSTANCES", 256, 1, 1 << 20);
  o.verify = base::env_flag("SPYRE_VERIFY", false);
  o.dump_dir = base::env_string("SPYRE_DUMP", "");
  o.plan_seed = static_cast<uint64_t>(base::env_int("SPYRE_PLAN_SEED", 0, 0, INT64_MAX));
  o.repack = base::env_flag("SPYRE_REPACK", true);
  const int64_t repack = base::env_int("SPYRE_REPACK_MB", -1, -1, 1 << 30);
  o.repack_bytes = repack < 0 ? -1 : repack * mib;
  const std::string numerics = base::env_string("SPYRE_NUMERICS", "dl16");
  if (numerics != "dl16" && numerics != "ieee")
    fail(Fault::configuration, "SPYRE_NUMERICS is '{}', not 'dl16' or 'ieee'", numerics);
  o.ieee = numerics == "ieee";
  return o;
}

const Options& options() {
  const Options* known = current.load(std::memory_order_acquire);
  if (known) return *known;
  const std::lock_guard lock(mutex);
  known = current.load(std::memory_order_acquire);
  if (!known) current.store(known = kept(Options::from_environment()), std::memory_order_release);
  return *known;
}

void set_options(const Options& options) {
  const std::lock_guard lock(mutex);
  current.store(kept(options), std::memory_order_release);
  compiler.store(nullptr, std::memory_order_release);
}

std::string code_hash() {
  const Options& o = options();
  return base::Hasher(1)
      .add(sources_hash)
      .add(o.plan_seed)
      .add(static_cast<uint64_t>(o.repack))
      .add(static_cast<uint64_t>(o.ieee))
      .finish()
      .hex();
}

const std::string& compiler_hash() {
  const std::string* known = compiler.load(std::memory_order_acquire);
  if (known) return *known;
  const std::string made = base::Hasher(2).add(code_hash()).add(device::current_description().hash).finish().hex();
  const std::lock_guard lock(mutex);
  known = compiler.load(std::memory_order_acquire);
  if (!known) compiler.store(known = kept(made), std::memory_order_release);
  return *known;
}

void set_warning_hook(std::function<void(const std::string&)> new_hook) {
  const std::lock_guard lock(mutex);
  hook = std::move(new_hook);
}

void warn(const std::string& message) {
  std::function<void(const std::string&)> now;
  {
    const std::lock_guard lock(mutex);
    now = hook;
  }
  if (now)
    now(message);
  else
    std::fprintf(stderr, "openspyre: %s\n", message.c_str());
}

}  // namespace spyre::engine
