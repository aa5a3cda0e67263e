#include "base/hash.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

namespace spyre::base {
namespace {

// Odd 64-bit constants with about half of their bits set: digits of the square roots of 2, 3, 5 and 7.
constexpr uint64_t k0 = 0x6A09E667F3BCC909, k1 = 0xBB67AE8584CAA73B, k2 = 0x3C6EF372FE94F82B, k3 = 0xA54FF53A5F1D36F1;

uint64_t read64(const uint8_t* p) {
  uint64_t v = 0;
  for (int i = 0; i < 8; ++i) v |= static_cast<uint64_t>(p[i]) << (8 * i);
  return v;
}

// The two halves of the 128-bit product, folded: every input bit reaches every output bit.
uint64_t mix(uint64_t a, uint64_t b) {
  const uint64_t al = a & 0xFFFFFFFF, ah = a >> 32, bl = b & 0xFFFFFFFF, bh = b >> 32;
  const uint64_t ll = al * bl, lh = al * bh, hl = ah * bl, hh = ah * bh;
  const uint64_t middle = (ll >> 32) + (lh & 0xFFFFFFFF) + (hl & 0xFFFFFFFF);
  const uint64_t low = (middle << 32) | (ll & 0xFFFFFFFF);
  const uint64_t high = hh + (lh >> 32) + (hl >> 32) + (middle >> 32);
  return low ^ high;
}

uint64_t avalanche(uint64_t v) {
  v ^= v >> 32;
  v *= k3 | 1;
  v ^= v >> 29;
  v *= k0 | 1;
  return v ^ v >> 32;
}

}  // namespace

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hasher::Hasher(uint64_t seed) : state_{seed ^ k0, seed ^ k1, seed + k2, seed + k3} {}

// Two independent lanes of two words each: a word pair that makes one product zero still enters the other additively.
void Hasher::block(const uint8_t* p) {
  const uint64_t a = read64(p), b = read64(p + 8), c = read64(p + 16), d = read64(p + 24);
  const uint64_t s0 = state_[0], s1 = state_[1], s2 = state_[2], s3 = state_[3];
  state_[0] = mix(a ^ k0 ^ s0, b ^ k1 ^ s1) + c;
  state_[1] = mix(c ^ k2 ^ s1, d ^ k3 ^ s0) + a + s2;
  state_[2] = mix(a ^ k3 ^ s2, d ^ k0 ^ s3) + b;
  state_[3] = mix(b ^ k1 ^ s3, c ^ k2 ^ s2) + d + s1;
}

Hasher& Hasher::add_bytes(const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  size_t used = length_ % block_bytes;
  length_ += bytes;
  if (used) {
    const size_t count = std::min(bytes, block_bytes - used);
    std::memcpy(pending_ + used, p, count);
    p += count;
    bytes -= count;
    if (used + count < block_bytes) return *this;
    block(pending_);
  }
  for (; bytes >= block_bytes; p += block_bytes, bytes -= block_bytes) block(p);
  if (bytes) std::memcpy(pending_, p, bytes);
  return *this;
}

Hasher& Hasher::add(uint64_t value) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  return add_bytes(bytes, 8);
}

Hasher& Hasher::add(std::string_view text) {
  add(static_cast<uint64_t>(text.size()));
  return add_bytes(text.data(), text.size());
}

Hash128 Hasher::finish() const {
  Hasher last = *this;
  const size_t used = length_ % block_bytes;
  std::memset(last.pending_ + used, 0, block_bytes - used);
  last.block(last.pending_);
  last.state_[0] ^= length_;
  last.state_[2] += length_;
  for (int round = 0; round < 2; ++round) {  // lets every word reach all four
    const uint64_t s0 = last.state_[0], s1 = last.state_[1], s2 = last.state_[2], s3 = last.state_[3];
    last.state_[0] = mix(s0 ^ k1, s2 ^ k2) + avalanche(s1);
    last.state_[1] = mix(s1 ^ k3, s3 ^ k0) + avalanche(s2);
    last.state_[2] = mix(s2 ^ k0, s1 ^ k3) + avalanche(s3);
    last.state_[3] = mix(s3 ^ k2, s0 ^ k1) + avalanche(s0);
  }
  return {avalanche(last.state_[0] ^ last.state_[3]), avalanche(last.state_[1] + last.state_[2])};
}

Hash128 hash_bytes(const void* data, size_t bytes) { return Hasher().add_bytes(data, bytes).finish(); }

namespace {

// tables[k][b]: the CRC of byte b followed by k zero bytes, so that eight bytes go in one step.
struct CrcTables {
  std::array<std::array<uint32_t, 256>, 8> t;
  constexpr CrcTables() : t{} {
    for (uint32_t b = 0; b < 256; ++b) {
      uint32_t v = b;
      for (int bit = 0; bit < 8; ++bit) v = v >> 1 ^ (v & 1 ? 0xEDB88320u : 0);
      t[0][b] = v;
    }
    for (int k = 1; k < 8; ++k)
      for (uint32_t b = 0; b < 256; ++b) t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 0xFF];
  }
};
constexpr CrcTables crc_tables;

}  // namespace

uint32_t crc32(const void* data, size_t bytes, uint32_t crc) {
  const auto* p = static_cast<const uint8_t*>(data);
  const auto& t = crc_tables.t;
  crc = ~crc;
  for (; bytes >= 8; p += 8, bytes -= 8) {
    const uint32_t x = crc ^ (p[0] | p[1] << 8 | p[2] << 16 | static_cast<uint32_t>(p[3]) << 24);
    crc = t[7][x & 0xFF] ^ t[6][x >> 8 & 0xFF] ^ t[5][x >> 16 & 0xFF] ^ t[4][x >> 24] ^ t[3][p[4]] ^ t[2][p[5]] ^
          t[1][p[6]] ^ t[0][p[7]];
  }
  for (; bytes; ++p, --bytes) crc = crc >> 8 ^ t[0][(crc ^ *p) & 0xFF];
  return ~crc;
}

}  // namespace spyre::base
