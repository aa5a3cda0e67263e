// TileLoops: axes divided over cores and cut into tiles, as ranges.
#pragma once

#include <functional>
#include <vector>

#include "lower/element_access.h"
#include "lower/kernel_builder.h"
#include "plan/axes.h"
#include "plan/plan.h"

namespace spyre::lower {

class TileLoops {
 public:
  /// grid and tile of the plan are per axis. Throws Error(program) when they aren't.
  TileLoops(const plan::Axes& axes, const plan::KernelPlan& kernel, const std::vector<int64_t>& align);

  int32_t cores() const;
  /// Opens the nest, with a range for each divided axis.
  void open(KernelBuilder& builder, int64_t max_trips);
  /// Axes whose indices change in run().
  const std::vector<bool>& moving() const { return moving_; }
  /// Runs `body` in loops over the axes in this order, those that a tile has not all at once.
  void run(const std::vector<int>& order, const std::function<void()>& body);
  /// The tile of now: its dimensions are the axes of which it has more than one index, and `always` (-1: none), with
  /// `lane` last.
  Tile tile(int lane, int always = -1) const;
  Id range(int axis) const { return range_[axis]; }
  /// Parts of an axis, and the grid dimension that they are on (none: one part).
  int64_t parts(int axis) const { return parts_[axis]; }
  Id grid(int axis) const;

 private:
  const plan::Axes& axes_;
  const plan::KernelPlan& kernel_;
  std::vector<int64_t> part_, parts_, tile_;
  std::vector<bool> moving_;
  std::vector<Id> range_;
  KernelBuilder* builder_ = nullptr;
  int64_t max_trips_ = 1;
};

}  // namespace spyre::lower
