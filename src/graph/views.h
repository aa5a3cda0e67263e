// Views: strided references made of other ones, as ATen's view ops make tensors of tensors. No node is added by any of
// them. Dimensions are in range and not negative; import_views.cc wraps and checks them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace spyre::graph {

/// Product of the sizes; 1 for none.
Size numel(std::span<const Size> sizes);

/// Dimension d of the result is dimension order[d].
Ref permuted(const Ref& ref, std::span<const int32_t> order);
/// A dimension of size 1 before dimension `dim`.
Ref unsqueezed(const Ref& ref, int32_t dim);
/// Without dimension `dim`, whose size is 1.
Ref squeezed(const Ref& ref, int32_t dim);
/// Indices start, start + step, ... of dimension `dim`, `size` of them.
Ref sliced(const Ref& ref, int32_t dim, const Size& start, const Size& size, const Size& step = 1);
/// Index `index` of dimension `dim`, which disappears.
Ref selected(const Ref& ref, int32_t dim, const Size& index);
/// To `sizes`, aligned at the last dimension: sizes 1 and missing dimensions are repeated (stride 0). Nothing when a
/// size is neither 1 nor equal.
std::optional<Ref> expanded(const Ref& ref, std::span<const Size> sizes);
/// Strides with which elements in row-major order have `sizes`, of as many elements; nothing when no view has them, or
/// none that can be found for all instances.
std::optional<std::vector<Size>> view_strides(const Ref& ref, std::span<const Size> sizes);
/// Dimension `dim` as several, whose product it is: always a view.
Ref unflattened(const Ref& ref, int32_t dim, std::span<const Size> sizes);
/// Windows of `size` every `step` indices of dimension `dim`, along a new last dimension.
Ref windows(const Ref& ref, int32_t dim, const Size& size, const Size& step);

/// Strides of a dense tensor in the order of these strides, if they are a permutation of contiguous ones (dimensions of
/// size 1 don't count).
bool is_dense(std::span<const Size> sizes, std::span<const Size> strides);
/// Dense strides of `sizes` whose dimensions are nested as `order` says, outermost first.
std::vector<Size> strides_in_order(std::span<const Size> sizes, std::span<const int32_t> order);
/// The dimensions, that of the greatest stride first, as far as the bounds of the symbols can tell (equal strides: in
/// order); nothing otherwise.
std::optional<std::vector<int32_t>> stride_order(const Ref& ref, std::span<const Symbol> symbols);

}  // namespace spyre::graph
