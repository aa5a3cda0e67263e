// LxImages: host memory that stands for the LX of cores, kept and reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "card/huge_page.h"

namespace spyre::card {

class LxImages {
 public:
  /// `count` images of `bytes` each (stick aligned, undefined content), taken from those given back if possible. Throws
  /// Error(system) when the host refuses memory.
  LxImages(int count, int64_t bytes);
  ~LxImages();
  LxImages(const LxImages&) = delete;
  LxImages& operator=(const LxImages&) = delete;
  std::byte* image(int i) const { return memory_.get() + i * stride_; }

  /// The calling thread's own image of at least `bytes`.
  static std::byte* mine(int64_t bytes);

 private:
  int64_t stride_, bytes_;
  HugeMemory memory_;
};

}  // namespace spyre::card
