// Bytes of an artifact, little-endian whatever the host:
//   0  "SPEA"    4  version (u32)    8  length of the payload (u64)    16  CRC-32 of the payload (u32)    20  payload
// The payload: key, program (its own container), symbols, scalars, repacks, plan; numbers are 8 bytes, texts and lists
// stand behind their length.
#include "engine/artifact.h"

#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "program/program.h"

namespace spyre::engine {

namespace {

constexpr char magic[4] = {'S', 'P', 'E', 'A'};
constexpr uint32_t version = 1;  // raised with every change of the fields
constexpr size_t header_bytes = 20;

class Writer {
 public:
  void number(uint64_t v, int bytes = 8) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(v >> (8 * i)));
  }
  void text(std::string_view v) {
    number(v.size());
    for (char c : v) out.push_back(static_cast<std::byte>(c));
  }
  void program(const program::Program& p) {
    const std::vector<std::byte> bytes = program::write(p);
    number(bytes.size());
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> out;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  uint64_t number(size_t bytes = 8) {
    const auto part = take(bytes);
    uint64_t v = 0;
    for (size_t i = bytes; i-- > 0;) v = v << 8 | std::to_integer<uint64_t>(part[i]);
    return v;
  }
  /// A length of things that take at least `each` bytes.
  size_t length(size_t each) {
    const uint64_t n = number();
    if (n > rest_.size() / each) fail(Fault::program, "a cached program ends early");
    return static_cast<size_t>(n);
  }
  std::string text() {
    const auto part = take(length(1));
    return std::string(reinterpret_cast<const char*>(part.data()), part.size());
  }
  program::Program program() { return program::read(take(length(1))); }
  int32_t index() { return static_cast<int32_t>(static_cast<int64_t>(number())); }
  bool done() const { return rest_.empty(); }

 private:
  std::span<const std::byte> take(size_t n) {
    if (n > rest_.size()) fail(Fault::program, "a cached program ends early");
    const auto part = rest_.first(n);
    rest_ = rest_.subspan(n);
    return part;
  }
  std::span<const std::byte> rest_;
};

}  // namespace

void check(const Artifact& a, size_t inputs, size_t outputs, size_t params) {
  using Kind = Artifact::Source::Kind;
  const auto inside = [](int32_t index, size_t size) { return index >= 0 && static_cast<size_t>(index) < size; };
  bool good = a.symbols.size() == a.program.symbols.size() && a.scalars.size() == a.program.scalars.size();
  for (size_t s = 0; good && s < a.symbols.size(); ++s) {
    const Artifact::Source& source = a.symbols[s];
    const bool temp = a.program.symbols[s].direction == program::Direction::temp;
    good = temp == (source.kind == Kind::temp);
    if (source.kind == Kind::input) good = good && inside(source.index, inputs);
    if (source.kind == Kind::output) good = good && inside(source.index, outputs);
    if (source.kind == Kind::repack) good = good && inside(source.index, a.repacks.size());
  }
  for (int32_t param : a.scalars) good = good && inside(param, params);
  for (const Artifact::Repack& r : a.repacks) good = good && inside(r.input, inputs) && r.program.symbols.size() == 2;
  if (!good) fail(Fault::program, "a compiled program does not fit the launch that it was made for");
}

std::vector<std::byte> write(const Artifact& a, std::string_view key) {
  Writer payload;
  payload.text(key);
  payload.program(a.program);
  payload.number(a.symbols.size());
  for (const Artifact::Source& s : a.symbols) {
    payload.number(static_cast<uint64_t>(s.kind), 1);
    payload.number(static_cast<uint64_t>(static_cast<int64_t>(s.index)));
  }
  payload.number(a.scalars.size());
  for (int32_t s : a.scalars) payload.number(static_cast<uint64_t>(static_cast<int64_t>(s)));
  payload.number(a.repacks.size());
  for (const Artifact::Repack& r : a.repacks) {
    payload.number(static_cast<uint64_t>(static_cast<int64_t>(r.input)));
    payload.number(static_cast<uint64_t>(r.type), 1);
    payload.program(r.program);
  }
  payload.text(a.plan);

  Writer file;
  file.out.reserve(header_bytes + payload.out.size());
  for (char c : magic) file.out.push_back(static_cast<std::byte>(c));
  file.number(version, 4);
  file.number(payload.out.size());
  file.number(base::crc32(payload.out.data(), payload.out.size()), 4);
  file.out.insert(file.out.end(), payload.out.begin(), payload.out.end());
  return std::move(file.out);
}

Artifact read(std::span<const std::byte> bytes, std::string_view key) {
  if (bytes.size() < header_bytes || std::memcmp(bytes.data(), magic, sizeof magic) != 0)
    fail(Fault::program, "no cached program");
  Reader header(bytes.subspan(4, header_bytes - 4));
  if (const uint64_t v = header.number(4); v != version) fail(Fault::program, "a cached program of version {}", v);
  const auto payload = bytes.subspan(header_bytes);
  if (header.number() != payload.size()) fail(Fault::program, "a cached program has another length than it says");
  if (header.number(4) != base::crc32(payload.data(), payload.size()))
    fail(Fault::program, "a cached program has another checksum than it says");

  Reader in(payload);
  if (in.text() != key) fail(Fault::program, "a cached program that was made for something else");
  Artifact a;
  a.program = in.program();
  a.symbols.resize(in.length(9));
  for (Artifact::Source& s : a.symbols) {
    const uint64_t kind = in.number(1);
    if (kind > static_cast<uint64_t>(Artifact::Source::Kind::repack)) fail(Fault::program, "a symbol of no kind");
    s.kind = static_cast<Artifact::Source::Kind>(kind);
    s.index = in.index();
  }
  a.scalars.resize(in.length(8));
  for (int32_t& s : a.scalars) s = in.index();
  const size_t repacks = in.length(17);
  for (size_t r = 0; r < repacks; ++r) {
    Artifact::Repack repack;
    repack.input = in.index();
    const uint64_t type = in.number(1);
    if (type > static_cast<uint64_t>(base::HostType::e5m2)) fail(Fault::program, "a repacked copy of no type");
    repack.type = static_cast<base::HostType>(type);
    repack.program = in.program();
    a.repacks.push_back(std::move(repack));
  }
  a.plan = in.text();
  if (!in.done()) fail(Fault::program, "a cached program is longer than what it holds");
  return a;
}

}  // namespace spyre::engine
