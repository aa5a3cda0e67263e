// RepackCache: copies of tensors in the order that a kernel reads (weights of matmuls), made once per contents.
//
// A copy is valid while its source's generation is the one it was made of, and goes when the source dies, when copies
// take more than their share of memory (least recently used first), or when the device is out of memory. It is made on
// the stream that asks first; other streams wait for that.
#pragma once

#include <cstdint>
#include <memory>

#include "base/hash.h"
#include "runtime/launch.h"
#include "runtime/memory.h"

namespace spyre::engine {

/// How a copy is made: symbol 0 is the source, symbol 1 the copy.
struct RepackProgram {
  std::shared_ptr<runtime::LoadedProgram> loaded;
  runtime::PlacementPtr placement;  ///< of the copy
  base::Hash128 hash;               ///< equal for programs that make the same copy
  /// Throws what card::Executable and LoadedProgram::load throw.
  static RepackProgram load(const program::Program& program, base::HostType type, runtime::Device& device);
};

/// Copies on one device. Thread-safe.
class RepackCache {
 public:
  /// `limit`: bytes of device memory that copies may take together.
  explicit RepackCache(int64_t limit);
  ~RepackCache();
  /// That of a device of this process.
  static RepackCache& of(runtime::Device& device);
  /// Gives the copies on all devices up. Returns whether there was one.
  static bool clear_all();

  /// The copy of `source` as it is at this point of `stream`; hold it until what reads it is enqueued. Throws what
  /// allocations and launches throw.
  runtime::AllocationPtr get(runtime::Allocation& source, const RepackProgram& program, runtime::Stream& stream);
  /// Gives all copies up (memory that enqueued work uses is reused behind it). Returns whether there was one.
  bool clear();
  int64_t bytes() const;
  int64_t made() const;  ///< copies made so far

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace spyre::engine
