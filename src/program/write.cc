#include <bit>
#include <string>

#include "base/hash.h"
#include "program/container.h"
#include "program/container_fields.h"
#include "program/program.h"
#include "program/structure.h"

namespace spyre::program {

namespace container {

namespace {

class Writer {
 public:
  static constexpr bool reading = false;

  void unsigned_integer(uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_.push_back(static_cast<std::byte>(v | 0x80));
    out_.push_back(static_cast<std::byte>(v));
  }
  void integer(int64_t v) { unsigned_integer((static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63)); }
  void id(Id v) { unsigned_integer(static_cast<uint64_t>(static_cast<int64_t>(v) + 1)); }
  void flag(bool v) { out_.push_back(static_cast<std::byte>(v)); }
  template <typename E>
  void choice(E v, int) {
    out_.push_back(static_cast<std::byte>(v));
  }
  template <typename... T>
  void alternative(const std::variant<T...>& v) {
    out_.push_back(static_cast<std::byte>(v.index()));
  }
  void number(double v) {
    const auto bits = std::bit_cast<uint64_t>(v);
    for (int i = 0; i < 8; ++i) out_.push_back(static_cast<std::byte>(bits >> (8 * i)));
  }
  void text(const std::string& v) {
    unsigned_integer(v.size());
    for (char c : v) out_.push_back(static_cast<std::byte>(c));
  }
  template <typename T, typename Fn>
  void list(const std::vector<T>& v, size_t, Fn fn) {
    unsigned_integer(v.size());
    for (const T& item : v) fn(item);
  }
  void depth(int, int, const char*) {}  // check_structure() has seen to it

  const std::vector<std::byte>& out() const { return out_; }

 private:
  std::vector<std::byte> out_;
};

}  // namespace

std::vector<std::byte> seal(std::span<const std::byte> payload) {
  std::vector<std::byte> out;
  out.reserve(header_bytes + payload.size());
  auto little_endian = [&](uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(v >> (8 * i)));
  };
  for (char c : magic) out.push_back(static_cast<std::byte>(c));
  little_endian(version, 4);
  little_endian(payload.size(), 8);
  little_endian(base::crc32(payload.data(), payload.size()), 4);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

}  // namespace container

std::vector<std::byte> write(const Program& program) {
  check_structure(program);
  container::Writer writer;
  container::fields<container::Writer>(writer, program);
  return container::seal(writer.out());
}

}  // namespace spyre::program
