#include <bit>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "program/container.h"
#include "program/container_fields.h"
#include "program/program.h"
#include "program/structure.h"

namespace spyre::program {

namespace container {

namespace {

/// Reads fields of bytes that nobody vouches for: every length is bounded by the bytes that are left, every enum by its
/// values, every recursion by limits.h; an integer has one encoding.
class Reader {
 public:
  static constexpr bool reading = true;
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t unsigned_integer() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = next();
      v |= (byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      if ((byte == 0 && shift > 0) || (shift == 63 && byte > 1)) break;
      return v;
    }
    refuse("a malformed integer");
  }
  void integer(int64_t& v) {
    const uint64_t u = unsigned_integer();
    v = static_cast<int64_t>((u >> 1) ^ (~(u & 1) + 1));
  }
  void integer(int32_t& v) {
    int64_t wide = 0;
    integer(wide);
    if (wide < std::numeric_limits<int32_t>::min() || wide > std::numeric_limits<int32_t>::max())
      refuse("a number that is too large");
    v = static_cast<int32_t>(wide);
  }
  void id(Id& v) {
    const uint64_t u = unsigned_integer();
    if (u > static_cast<uint64_t>(std::numeric_limits<Id>::max())) refuse("an id that is too large");
    v = static_cast<Id>(static_cast<int64_t>(u) - 1);
  }
  void flag(bool& v) { v = bounded(2) != 0; }
  template <typename E>
  void choice(E& v, int count) {
    v = static_cast<E>(bounded(count));
  }
  template <typename... T>
  void alternative(std::variant<T...>& v) {
    emplace(v, bounded(sizeof...(T)), std::index_sequence_for<T...>{});
  }
  void number(double& v) {
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits |= static_cast<uint64_t>(next()) << (8 * i);
    v = std::bit_cast<double>(bits);
  }
  void text(std::string& v) {
    const size_t size = length(1);
    v.resize(size);
    for (char& c : v) c = static_cast<char>(next());
  }
  template <typename T, typename Fn>
  void list(std::vector<T>& v, size_t least_bytes, Fn fn) {
    const size_t size = length(least_bytes);
    for (size_t i = 0; i < size; ++i) fn(v.emplace_back());
  }
  void depth(int depth, int most, const char* what) const {
    if (depth > most) refuse(std::string(what) + " with too many levels");
  }
  void expect_end() const {
    if (position_ != bytes_.size()) refuse("bytes after its end");
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(Fault::program, "program container: {} at payload byte {} of {}", what, position_, bytes_.size());
  }
  uint8_t next() {
    if (position_ == bytes_.size()) refuse("ends too early");
    return static_cast<uint8_t>(bytes_[position_++]);
  }
  int bounded(int count) {
    const int v = next();
    if (v >= count) refuse("a choice that does not exist");
    return v;
  }
  size_t length(size_t least_bytes) {
    const uint64_t size = unsigned_integer();
    if (size > (bytes_.size() - position_) / least_bytes) refuse("a length beyond its end");
    return static_cast<size_t>(size);
  }
  template <typename V, size_t... I>
  static void emplace(V& v, int index, std::index_sequence<I...>) {
    ((index == static_cast<int>(I) ? (void)v.template emplace<I>() : (void)0), ...);
  }

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace

std::span<const std::byte> open(std::span<const std::byte> bytes) {
  auto little_endian = [&](size_t at, int count) {
    uint64_t v = 0;
    for (int i = 0; i < count; ++i) v |= static_cast<uint64_t>(bytes[at + static_cast<size_t>(i)]) << (8 * i);
    return v;
  };
  if (bytes.size() < header_bytes)
    fail(Fault::program, "program container: {} bytes are too few for its header", bytes.size());
  for (size_t i = 0; i < sizeof magic; ++i) {
    if (static_cast<char>(bytes[i]) != magic[i]) fail(Fault::program, "program container: does not begin with SPTP");
  }
  const uint64_t found = little_endian(4, 4);
  if (found != version)
    fail(Fault::program, "program container: version {}, this build reads version {}", found, version);
  const std::span<const std::byte> payload = bytes.subspan(header_bytes);
  const uint64_t size = little_endian(8, 8);
  if (size != payload.size())
    fail(Fault::program, "program container: {} bytes of payload, its header says {}", payload.size(), size);
  if (little_endian(16, 4) != base::crc32(payload.data(), payload.size())) {
    fail(Fault::program, "program container: checksum mismatch, the bytes are damaged");
  }
  return payload;
}

}  // namespace container

Program read(std::span<const std::byte> bytes) {
  container::Reader reader(container::open(bytes));
  Program program;
  container::fields<container::Reader>(reader, program);
  reader.expect_end();
  check_structure(program);
  return program;
}

}  // namespace spyre::program
