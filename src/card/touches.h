// Touches: which parts of which buffers a step reads and writes; what orders steps (docs/tile_program.md section 4,
// rule D). And how the steps of a block are visited.
#pragma once

#include <variant>
#include <vector>

#include "program/tree.h"

namespace spyre::card {

struct Touch {
  const program::BufRef* ref = nullptr;
  bool read = false, write = false;
};

/// Every buffer operand of the step, indices included; an operand may appear more than once.
std::vector<Touch> touches_of(const program::Step& step);

/// Calls fn(step) for each step of the block, also inside loops and branches, in the order of the text.
template <typename Fn>
void for_each_step(const program::Block& block, const Fn& fn) {
  for (const auto& s : block) {
    if (const auto* loop = std::get_if<program::For>(&s.node))
      for_each_step(loop->body, fn);
    else if (const auto* branch = std::get_if<program::If>(&s.node))
      for_each_step(branch->body, fn);
    else if (const auto* step = std::get_if<program::Step>(&s.node))
      fn(*step);
  }
}

}  // namespace spyre::card
