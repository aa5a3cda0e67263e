#include "runtime/devices.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "base/env.h"
#include "base/error.h"
#include "runtime/launch.h"
#include "runtime/memory.h"

namespace spyre::runtime {
namespace {

constexpr int most_devices = 64;
constexpr size_t streams_per_priority = 32;

std::atomic<bool> any_started{false};  // a Device exists or existed: a fork from now on leaves the child without one
std::atomic<bool> forked{false};

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    if (any_started.load(std::memory_order_relaxed)) forked.store(true, std::memory_order_relaxed);
  });
  if (registered != 0) fail(Fault::system, "cannot watch for forks: pthread_atfork returned {}", registered);
}

// The ordinals of the visible devices. Throws Error(configuration).
std::vector<int> visible_devices() {
  const std::string list = base::env_string("SPYRE_DEVICES", "");
  std::vector<int> ordinals;
  if (list.empty()) {
    const int64_t count = base::env_int("AIU_WORLD_SIZE", 1, 0, most_devices);
    for (int i = 0; i < count; ++i) ordinals.push_back(i);
    return ordinals;
  }
  const auto refuse = [&](const char* why) {
    fail(Fault::configuration, "SPYRE_DEVICES is '{}': {}; give device numbers separated by commas, as in \"0,1\"",
         list, why);
  };
  int64_t number = -1;
  for (const char c : list + ',') {
    if (c >= '0' && c <= '9') {
      number = std::max<int64_t>(number, 0) * 10 + (c - '0');
      if (number >= 1'000'000) refuse("a number is too large");
    } else if (c == ',') {
      if (number < 0) refuse("a number is missing");
      if (std::find(ordinals.begin(), ordinals.end(), number) != ordinals.end()) refuse("a device is there twice");
      if (ordinals.size() == most_devices) refuse("it has more than 64 entries");
      ordinals.push_back(static_cast<int>(number));
      number = -1;
    } else if (c != ' ') {
      refuse("only digits, commas and spaces are allowed");
    }
  }
  return ordinals;
}

struct Table {
  std::mutex mutex;
  std::array<std::atomic<Device*>, most_devices> devices{};  // set once, never destroyed
};
Table& table() {
  static Table* const made = new Table;
  return *made;
}

}  // namespace

int device_count() noexcept {
  try {
    return static_cast<int>(visible_devices().size());
  } catch (...) {
    return 0;
  }
}

bool started() noexcept {
  if (in_forked_child()) return false;
  for (const auto& device : table().devices)
    if (device.load(std::memory_order_acquire)) return true;
  return false;
}

bool in_forked_child() noexcept { return forked.load(std::memory_order_relaxed); }

void check_process() {
  if (in_forked_child())
    fail(Fault::user,
         "cannot use a spyre device in a forked child process, because the parent had started it before the fork: use "
         "the "
         "'spawn' start method (torch.multiprocessing.set_start_method('spawn')), or fork before the first device "
         "operation");
}

Device* started_device(int index) noexcept {
  if (index < 0 || index >= most_devices || in_forked_child()) return nullptr;
  return table().devices[static_cast<size_t>(index)].load(std::memory_order_acquire);
}

Device& device(int index) {
  if (Device* const found = started_device(index)) return *found;
  check_process();
  const std::vector<int> ordinals = visible_devices();
  if (index < 0 || index >= static_cast<int>(ordinals.size()))
    fail(Fault::user,
         "device index {} is out of range: this process sees {} spyre device(s) (SPYRE_DEVICES, AIU_WORLD_SIZE)", index,
         ordinals.size());
  std::lock_guard lock(table().mutex);
  auto& slot = table().devices[static_cast<size_t>(index)];
  Device* found = slot.load(std::memory_order_acquire);
  if (!found) {
    found = new Device(index, device::current_description(), ordinals[static_cast<size_t>(index)]);
    slot.store(found, std::memory_order_release);
  }
  return *found;
}

Device::Device(int index, const device::Description& description, int ordinal)
    : index_(index), ordinal_(ordinal < 0 ? index : ordinal), card_(description) {
  check_process();
  watch_forks();
  any_started.store(true, std::memory_order_relaxed);
  run_options_.checker = base::env_flag("SPYRE_CHECKER", false);
  const int64_t seed = base::env_int("SPYRE_RANDOM_ORDER", -1, -1, INT64_MAX);
  run_options_.random_order = seed >= 0;
  run_options_.seed = seed >= 0 ? static_cast<uint64_t>(seed) : 0;
  timing_only_ = base::env_flag("SPYRE_TIMING_ONLY", false);
  streams_.push_back(std::make_unique<Stream>(*this, 0, 0));
  default_stream_ = streams_[0].get();
  turn_.resize(static_cast<size_t>(lowest_priority - highest_priority + 1));
  allocator_ = std::make_unique<Allocator>(*this);
  program_memory_ = std::make_unique<ProgramMemory>(description);
}

Device::~Device() {
  for (Stream* stream : streams()) stream->drain();
}

Stream& Device::create_stream(int priority) {
  check_process();
  priority = std::clamp(priority, highest_priority, lowest_priority);
  std::lock_guard lock(mutex_);
  std::vector<Stream*> same;
  for (size_t i = 1; i < streams_.size(); ++i)
    if (streams_[i]->priority() == priority) same.push_back(streams_[i].get());
  if (same.size() == streams_per_priority)
    return *same[turn_[static_cast<size_t>(priority - highest_priority)]++ % streams_per_priority];
  streams_.push_back(std::make_unique<Stream>(*this, static_cast<int64_t>(streams_.size()), priority));
  return *streams_.back();
}

Stream& Device::stream(int64_t id) {
  if (id == 0) return *default_stream_;
  std::lock_guard lock(mutex_);
  if (id < 0 || id >= static_cast<int64_t>(streams_.size()))
    fail(Fault::user, "device {} has no stream {}: stream ids come from Stream objects", index_, id);
  return *streams_[static_cast<size_t>(id)];
}

std::vector<Stream*> Device::streams() const {
  std::lock_guard lock(mutex_);
  std::vector<Stream*> all;
  for (const auto& stream : streams_) all.push_back(stream.get());
  return all;
}

void Device::synchronize() {
  check_process();
  const std::vector<Stream*> all = streams();
  for (Stream* stream : all) stream->drain();
  std::exception_ptr first;
  for (Stream* stream : all) {
    const std::exception_ptr error = stream->take_error();
    if (!first) first = error;
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace spyre::runtime
