// Division and multiples, rounded up.
#pragma once

#include <cstdint>

namespace spyre::base {

/// a / b rounded up; a >= 0, b >= 1, and a + b within int64.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// The least multiple of b that is not below a; as ceil_div.
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace spyre::base
