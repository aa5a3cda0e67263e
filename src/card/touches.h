// Touches: which parts of which buffers a step reads and writes; what orders steps (docs/tile_program.md section 4,
// rule D).
#pragma once

#include <vector>

#include "program/tree.h"

namespace spyre::card {

struct Touch {
  const program::BufRef* ref = nullptr;
  bool read = false, write = false;
};

/// Every buffer operand of the step, indices included; an operand may appear more than once.
std::vector<Touch> touches_of(const program::Step& step);

}  // namespace spyre::card
