// Host memory on huge pages, for areas that are read with long strides: one translation covers much of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace spyre::card {

struct FreeHuge {
  void operator()(std::byte* p) const { std::free(p); }
};
using HugeMemory = std::unique_ptr<std::byte, FreeHuge>;

/// At least `bytes` (above 0) bytes of undefined content from the boundary of a huge page on, committed when written;
/// null when the host refuses them.
HugeMemory huge_memory(int64_t bytes);

}  // namespace spyre::card
