// What one does with a tile program: text to tree (assemble), tree to text (print), tree to bytes and back (the
// container), and the check that makes a tree safe to run (verify).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/description.h"
#include "program/tree.h"

namespace spyre::program {

/// Parses the text form. Unplaced buffers get LX offsets. Throws Error(program) with line and column.
Program assemble(std::string_view text);

/// The text form; assemble(print(p)) == p for every placed program.
std::string print(const Program& program);

/// Versioned, endian-neutral, checksummed bytes. write(read(b)) == b.
std::vector<std::byte> write(const Program& program);
/// Throws Error(program) on truncated, corrupt, or hostile bytes or another version; never allocates more than a small
/// multiple of bytes.size().
Program read(std::span<const std::byte> bytes);

/// Throws Error(program) naming kernel, step and loc for the first rule of docs/tile_program.md section 7 that the
/// program breaks. Everything that card/ and timing/ assume of a program is checked here; they accept only verified
/// ones.
void verify(const Program& program, const device::Description& description);

}  // namespace spyre::program
