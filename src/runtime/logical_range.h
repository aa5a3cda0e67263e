// Logical addresses: ranges without access rights that data pointers show, and the table that finds their allocation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace spyre::runtime {

class Allocation;

/// The addresses of the process. Never destroyed. Thread-safe.
///
/// Ranges are cut from large reservations and kept for reuse by size class, four classes an octave, so that a tensor
/// costs no system call. Each is at least one byte longer than asked, so that the end of one is never the start of the
/// next.
class LogicalRange {
 public:
  static LogicalRange& shared();

  /// A range for `allocation` with at least `bytes` + 1 bytes, aligned to 512. Throws Error(system) when the host
  /// refuses.
  uint64_t take(int64_t bytes, Allocation* allocation);
  /// Forgets the allocation and keeps the range for reuse.
  void give(uint64_t address) noexcept;
  std::shared_ptr<Allocation> find(uint64_t address) const;

 private:
  struct Range {
    uint64_t size = 0;  // reserved
    size_t size_class = 0;
    Allocation* allocation = nullptr;
  };
  void reserve(uint64_t bytes);

  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Range> ranges_;  // by first address
  std::vector<std::vector<uint64_t>> free_;
  uint64_t next_ = 0, end_ = 0;  // of the current reservation
};

}  // namespace spyre::runtime
