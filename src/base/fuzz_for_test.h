// How many random cases a fuzz test tries and from which seed, for every folder's tests alike.
#pragma once

#include <cstdint>
#include <cstdio>

#include "base/env.h"

namespace spyre::base {

/// The number in `variable`, or `usual`: few enough for every run of the tests. Throws Error(configuration) for what is
/// no number above 0.
inline int64_t fuzz_cases(int64_t usual, const char* variable = "SPYRE_FUZZ") {
  return env_int(variable, usual, 1, 1'000'000'000);
}

/// SPYRE_FUZZ_SEED, or `usual`; printed, so that a failing run can be repeated. Throws as fuzz_cases does.
inline uint64_t fuzz_seed(int64_t usual) {
  const auto seed = static_cast<uint64_t>(env_int("SPYRE_FUZZ_SEED", usual, 0, INT64_MAX));
  std::printf("SPYRE_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace spyre::base
