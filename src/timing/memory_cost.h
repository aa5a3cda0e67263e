// Price of loads and stores: clipped boxes, sticks, bursts, indexed rows.
#pragma once

#include "timing/cost.h"

namespace spyre::timing {

Cost load_cost(const program::Load& load, const Sizes& sizes, const device::Description& d);
Cost store_cost(const program::Store& store, const Sizes& sizes, const device::Description& d);

/// Bytes of a box in LX: rows are whole sticks.
int64_t lx_box_bytes(const std::vector<int64_t>& box, base::Format format);

}  // namespace spyre::timing
