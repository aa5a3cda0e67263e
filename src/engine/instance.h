// Instance: one compiled program of an executor, loaded into the devices that asked for it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/compile.h"
#include "engine/engine.h"
#include "engine/repacks.h"
#include "runtime/launch.h"

namespace spyre::engine {

/// Thread-safe.
class Instance {
 public:
  /// Verifies the program: throws Error(program). `compiled`: kept for SPYRE_VERIFY, else null.
  Instance(Artifact artifact, const device::Description& description, std::shared_ptr<const Compiled> compiled);
  ~Instance();

  const Artifact& artifact() const { return artifact_; }
  const card::Executable& executable() const { return *executable_; }
  const Compiled* compiled() const { return compiled_.get(); }
  /// False: there is nothing to compute.
  bool launches() const { return !executable_->program().calls.empty(); }

  /// What is loaded into one device.
  struct Loaded {
    std::shared_ptr<runtime::LoadedProgram> program;
    std::vector<RepackProgram> repacks;
  };
  /// Loads at first need. Throws Error(out_of_memory).
  std::shared_ptr<const Loaded> on(runtime::Device& device);
  /// Forgets what is loaded, so that the devices' program memory can be used for others.
  void unload();

  /// Copies bound to a launch: held until it is enqueued.
  using Held = std::vector<runtime::AllocationPtr>;
  /// Appends a binding per symbol that is no temp. Makes repacked copies on `stream` as needed.
  void bind(const Loaded& loaded, runtime::Stream& stream, std::span<const TensorArg> inputs,
            std::span<const TensorArg> outputs, std::vector<runtime::Binding>& bindings, Held& held) const;

  /// Counts a launch with these scalar values (by program scalar).
  void count(std::span<const double> scalars);
  /// Adds what was counted and not asked for yet.
  void collect(int64_t& launches, int64_t& modelled_ps);

  std::atomic<uint64_t> used{0};  ///< the executor's clock at the last use

 private:
  struct Counted {
    std::vector<double> scalars;
    int64_t launches = 0;
  };
  int64_t price_counted();  // with mutex_ held

  const Artifact artifact_;
  std::shared_ptr<const card::Executable> executable_;
  const std::shared_ptr<const Compiled> compiled_;
  std::mutex mutex_;  // all below
  std::vector<std::pair<runtime::Device*, std::shared_ptr<const Loaded>>> loaded_;
  std::vector<Counted> counted_;
  int64_t launches_ = 0, modelled_ps_ = 0;
};

}  // namespace spyre::engine
