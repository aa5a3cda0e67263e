// The attention form: streaming attention, a block of keys after the other, the state of each row in LX.
//
// KernelPlan::grid: parts of batch, kv heads, queries' heads of one kv head, queries, keys (whose parts are joined at
// the end). KernelPlan::tile: rows, keys, heads of one tile: heads that are shorter than a stick may be moved together.
#pragma once

#include <optional>
#include <vector>

#include "plan/forms.h"
#include "plan/matmul.h"

namespace spyre::plan {

/// An Attention over axes of its own: heads are kv head x the heads that share it.
struct AttentionShape {
  enum Axis { batch, kv_head, group, query, key, depth, value, one, axis_count };
  std::vector<int64_t> sizes;  ///< per axis; `one` has size 1; kv_head: of tiles, depth and value: of a tile's heads
  int64_t heads = 1;           ///< of one tile, next to each other in depth and value
  AxisRef q, k, v, out;        ///< strides per axis, 0 along axes of size 1
  std::optional<AxisRef> mask, logsumexp;
  bool keep_mask = false;  ///< of bools: true = keep
  bool on_pt = true;
  base::Format format = base::Format::dl16;  ///< of q, k, v
  int row = query;  ///< rows of a tile: queries, or, of a single query, the heads that share its keys
  std::vector<int64_t> align = std::vector<int64_t>(axis_count, 1);  ///< as MatmulShape::align

  static constexpr int divided[] = {batch, kv_head, group, query};  ///< the axes of the grid but the keys
};

/// With this many heads in a tile: 1, or heads_that_fill_sticks(). Throws Error(unimplemented) naming what the form
/// can't do.
AttentionShape attention_shape(const Context& context, graph::Id node, int64_t heads = 1);

/// How many heads, next to each other in memory, make whole sticks; 1 when one does, or when they can't be moved
/// together. `shape`: with one head a tile.
int64_t heads_that_fill_sticks(const AttentionShape& shape);

/// Elements of one part when an axis is divided in `parts`.
int64_t attention_chunk(const AttentionShape& shape, int axis, int64_t parts);

}  // namespace spyre::plan
