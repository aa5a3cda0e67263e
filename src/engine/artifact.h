// Artifact: what a compiled instance is, without graph and plan: what the disk keeps and a launch needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/tree.h"

namespace spyre::engine {

struct Artifact {
  program::Program program;
  /// What is bound to a program symbol.
  struct Source {
    enum class Kind : uint8_t { temp, input, output, repack };
    Kind kind = Kind::temp;
    int32_t index = -1;  ///< of the launch's inputs or outputs, or of `repacks`
    bool operator==(const Source&) const = default;
  };
  std::vector<Source> symbols;   ///< per program symbol
  std::vector<int32_t> scalars;  ///< per program scalar the graph's param
  /// A copy of elements of an input: `program` makes it, symbol 0 from the input, symbol 1 the copy.
  struct Repack {
    int32_t input = -1;
    base::HostType type = base::HostType::f16;
    program::Program program;
    bool operator==(const Repack&) const = default;
  };
  std::vector<Repack> repacks;
  std::string plan;  ///< its text, for people
  bool operator==(const Artifact&) const = default;
};

/// Throws Error(program) unless lengths agree and every index is inside a launch of so many inputs, outputs and params.
void check(const Artifact& artifact, size_t inputs, size_t outputs, size_t params);

/// Versioned, endian-neutral, checksummed bytes. `key` says what the artifact was made for.
std::vector<std::byte> write(const Artifact& artifact, std::string_view key);
/// Throws Error(program) for truncated, corrupt or hostile bytes, another version or another key; never allocates more
/// than a small multiple of bytes.size().
Artifact read(std::span<const std::byte> bytes, std::string_view key);

}  // namespace spyre::engine
