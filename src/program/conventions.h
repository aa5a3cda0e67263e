// What short text means: the rules by which `x[2*oh + kh - 1, t]`, `xs[_, t]` and `k.first` stand for full trees. The
// assembler applies them, the printer uses the short form where it means exactly the tree it has. Grammar and the rules
// in words: docs/tile_program_text.md.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/tree.h"

namespace spyre::program {

/// LO and HI of a range whose bounds are written as range `parent`: its start, and its start + its size.
IntExpr lo_of(Id parent);
IntExpr hi_of(Id parent);

/// `k.first`: trip(k) == 0. `k.last`: start(k) + by >= hi.
Compare first_trip(Id range);
Compare last_trip(Id range, const Kernel& kernel);

/// Position `t` of a buffer operand: its start relative to the innermost of t and its parents that is among
/// `declared_under` (the ranges in scope where the buffer is declared), else relative to the outermost parent's LO.
BufDim position_of(Id range, const Kernel& kernel, std::span<const Id> declared_under);

/// True when the statements inside a range can run while its size is 0: a core range, or a loop marked uniform.
bool may_be_empty(const Range& range);

/// Trips of a loop whose range is `length` = HI - LO indices long on this core. A uniform loop that divides a range
/// makes the trips of a core where that range has its full size, whatever this core's length; those past the end have
/// size 0.
int64_t trips_of(const Range& range, const Kernel& kernel, int64_t length);

/// A memory entry written as one expression in which the names of `bare` stand for whole ranges:
/// - no bare range: a point;
/// - the one bare range that advances by more than 1, else the first bare range, makes the extent; its factor is the
/// step;
/// - another bare range (by 1) that may be empty makes the entry empty when it is.
/// Returns the entry, or in `error` why the expression has no such meaning.
struct EntryOrError {
  Entry entry;
  std::string error;  ///< empty = good
};
EntryOrError entry_of(IntExpr base, std::span<const Id> bare, const Kernel& kernel);

/// Ids of the ranges whose start the expression uses, in order of first appearance.
std::vector<Id> starts_in(const IntExpr& expr);

/// Levels of an expression; a leaf has 1.
int depth_of(const IntExpr& expr);

/// The value of an expression of constants alone; nothing if it has other leaves, overflows or divides by less than 1.
std::optional<int64_t> constant_value(const IntExpr& expr);

/// An upper bound of the expression known without scalars and coordinates (sizes count as their range's `by`), if there
/// is one.
std::optional<int64_t> static_maximum(const IntExpr& expr, const Kernel& kernel);

/// True when the entry never has more than one index.
bool is_point(const Entry& entry, const Kernel& kernel);

/// Which dimension of the tile's buffer each entry of a memory access walks; -1 = none, the entry is a point. Entries
/// and dimensions are matched in order; too many entries: points are dropped from the left; too few: the buffer's
/// leading dimensions must be 1. Throws Error(program) naming both when they can't be matched.
std::vector<int> tile_dimensions(const MemRef& access, const BufRef& tile, const Kernel& kernel);

/// Checks an identifier: letters, digits and _, no digit first, not reserved, not `_`, not too long.
bool is_name(std::string_view text);
/// Words that can't be names.
bool is_reserved(std::string_view text);

}  // namespace spyre::program
