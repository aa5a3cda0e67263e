// Structural soundness of a tree: what everybody who walks one relies on before any rule of meaning is checked.
#pragma once

#include "program/tree.h"

namespace spyre::program {

/// Throws Error(program), naming kernel and place, unless
/// - every id is in range and in scope, tables are in text order (the i-th range or buffer that stands in a kernel has
/// id i),
///   vectors have the lengths that the tree demands, fields that a kind does not use have their default values;
/// - names are names and differ in scope; nesting, sizes and counts stay within limits.h;
/// - expressions are typed; views and geometries are well formed; a range with a parent has its parent's bounds;
/// - calls fit their kernels.
/// assemble(), read(), write(), print() and verify() all run it. Cost: linear in the tree.
void check_structure(const Program& program);

/// The parts of it that concern one symbol or one buffer alone.
void check_symbol(const Symbol& symbol);
void check_buffer(const Buffer& buffer);

}  // namespace spyre::program
