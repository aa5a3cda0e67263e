// The size of a huge page of host memory, for areas that are read with long strides.
#pragma once

#include <cstdint>

namespace spyre::card {

constexpr int64_t huge_page = int64_t{2} << 20;  ///< bytes

}  // namespace spyre::card
