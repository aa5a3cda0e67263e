// How the elements of a symbol share sticks, in terms of the indices of its view.
#pragma once

#include <cstdint>

#include "program/tree.h"

namespace spyre::program::verifier {

/// Two elements of a view lie in one stick only if all their indices are equal but that along `lane_dim`, and there
/// (index + phase) div block is equal. Without lane_dim every element has a stick of its own.
struct StickShape {
  bool known = false;  ///< false: nothing is known (the view overlaps itself, or its rows do not follow sticks)
  int lane_dim = -1;
  int64_t block = 1;  ///< indices
  int64_t phase = 0;
};

/// Proved from the digits of the geometry; costs nothing that grows with the sizes.
StickShape stick_shape(const layout::HostView& view, const layout::Geometry& geometry);

/// True when no two storage elements have the same place: proved from the digits, or by trying all up to 2^20 elements.
bool places_are_distinct(const layout::Geometry& geometry);

}  // namespace spyre::program::verifier
