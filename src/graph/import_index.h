// Advanced indexing, for reading (import_index.cc) and writing (import_scatter.cc).
#pragma once

#include "graph/import_call.h"

namespace spyre::graph {

/// Where tensors of indices lie in a tensor: the result's dimensions are those of the tensor, with the indexed ones
/// replaced by the indices' common dimensions; at the first indexed dimension when they stand together, else in front.
struct Indexing {
  std::vector<std::optional<Ref>> index;  ///< per dimension of the tensor; tensors of integers, expanded to `common`
  std::vector<Size> common;               ///< the indices' broadcast sizes
  std::vector<Size> space;                ///< sizes of the result
  size_t first = 0;                       ///< where `common` begins in it
  std::vector<int32_t> dim;  ///< per dimension of the tensor that isn't indexed: its dimension of the space
};

/// Refuses indices of bool and other types than i64 and i32, whose result's size depends on data or is none of torch's.
Indexing indexing_of(Call& call, const Ref& tensor, std::vector<std::optional<Ref>> indices);
/// The index along dimension d at a point of the space, negative ones counted from the end.
Expr wrapped_index(Call& call, Points& points, const Indexing& indexing, size_t d, const Size& size);
/// `index`, of the sizes of `dims` dimensions of the space beginning at `first`, as a tensor over the whole space.
Ref over_space(const Ref& index, const std::vector<Size>& space, size_t first);

}  // namespace spyre::graph
