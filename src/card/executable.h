// Executable::Impl: a program's kernels in the card's own form, and its cached timelines.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "card/card.h"
#include "card/compiled_kernel.h"

namespace spyre::card {

struct Executable::Impl {
  Impl(program::Program p, const device::Description& d);
  const program::Program program;
  const device::Description description;
  std::vector<std::unique_ptr<CompiledKernel>> kernels;
  int64_t image_bytes = 0;
  std::vector<bool> timed_scalars;  ///< program scalars that loop bounds, conditions or accesses use
  mutable std::mutex mutex;
  mutable std::map<timing::ScalarValues, std::unique_ptr<timing::Timeline>> timelines;
};

}  // namespace spyre::card
