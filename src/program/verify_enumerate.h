// The stores of one symbol tried box by box, where the closed form does not decide.
#pragma once

#include <vector>

#include "program/verify_context.h"

namespace spyre::program::verifier {

/// Boxes that may be tried for one symbol of one kernel.
constexpr int64_t box_limit = 1000000;

struct Enumeration {
  bool exact = false;     ///< no box, trip or condition depended on a scalar
  int64_t elements = 0;   ///< sum over all boxes, clipped to the view
  bool overlaps = false;  ///< some element was written twice (by ordered stores of one core), or may have been
};

/// Throws Error(program) naming both steps when two cores write one stick, or two instances of one core do and not both
/// are ordered, and when there are more than box_limit boxes or they depend on scalars in a way that can't be bounded;
/// `reason` says in that message why the closed form failed.
Enumeration enumerate_stores(Context& context, Id formal, const std::vector<const Site*>& stores,
                             const std::string& reason);

}  // namespace spyre::program::verifier
