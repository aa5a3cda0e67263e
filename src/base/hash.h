// Content hashes and checksums; the same on every host, whatever its byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace spyre::base {

/// A 128-bit content hash, for cache keys.
struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  /// 32 lower-case hexadecimal digits, as file names use.
  std::string hex() const;
};

/// Hashes a stream of bytes given in pieces; how it was cut doesn't matter. Not for secrets: an adversary can collide
/// it. Numbers are added as little-endian bytes; text with its length first, so that ("ab", "c") and ("a", "bc")
/// differ.
class Hasher {
 public:
  explicit Hasher(uint64_t seed = 0);
  Hasher& add_bytes(const void* data, size_t bytes);
  Hasher& add(uint64_t value);
  Hasher& add(std::string_view text);
  /// The hash of what was added so far; more may be added after.
  Hash128 finish() const;

 private:
  void block(const uint8_t* p);

  static constexpr size_t block_bytes = 32;
  uint64_t state_[4];
  uint64_t length_ = 0;
  uint8_t pending_[block_bytes];
};

Hash128 hash_bytes(const void* data, size_t bytes);

/// CRC-32 (IEEE 802.3, reflected, as zlib's): crc32(b, crc32(a)) is the one of a followed by b.
uint32_t crc32(const void* data, size_t bytes, uint32_t crc = 0);

}  // namespace spyre::base

template <>
struct std::hash<spyre::base::Hash128> {
  size_t operator()(const spyre::base::Hash128& h) const noexcept { return static_cast<size_t>(h.low); }
};
