// DiskCache: compiled programs under their content, in a directory that several processes use at once.
//
// One file per key. A file is written beside its place and renamed into it, so readers see whole files only; what a
// crash left half-written is told from a whole one by its checksum (engine/artifact.h). When the directory holds more
// than its limit, the files that were not used for longest (by modification time, which every use renews) go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace spyre::engine {

/// Thread-safe. Nothing here throws: a cache that can't be used is warned about once and then left alone.
class DiskCache {
 public:
  /// `limit`: bytes that the directory may hold.
  DiskCache(std::string directory, int64_t limit);

  std::optional<std::vector<std::byte>> load(const std::string& key);
  void store(const std::string& key, std::span<const std::byte> bytes);
  /// Removes a file that turned out to be no good.
  void discard(const std::string& key);

  const std::string& directory() const { return directory_; }
  std::string path(const std::string& key) const;

 private:
  void trim();
  void unusable(const std::string& why);

  const std::string directory_;
  const int64_t limit_;
  std::mutex mutex_;  // all below
  bool ready_ = false, broken_ = false;
  int64_t since_trim_ = 0;
  uint64_t temporary_ = 0;
};

}  // namespace spyre::engine
