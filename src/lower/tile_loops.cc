#include "lower/tile_loops.h"

#include <algorithm>

#include "base/error.h"
#include "plan/rows.h"

namespace spyre::lower {

TileLoops::TileLoops(const plan::Axes& axes, const plan::KernelPlan& kernel, const std::vector<int64_t>& align)
    : axes_(axes), kernel_(kernel) {
  const size_t rank = axes.sizes.size();
  if (kernel.grid.size() != rank || kernel.tile.size() != rank)
    fail(Fault::program, "a kernel over {} axes has a grid of {} and a tile of {}", rank, kernel.grid.size(),
         kernel.tile.size());
  for (size_t a = 0; a < rank; ++a) {
    if (kernel.grid[a] < 1 || kernel.tile[a] < 1) fail(Fault::program, "a grid or tile has a size below 1");
    part_.push_back(plan::rows_part(axes.sizes[a], kernel.grid[a], align[a]));
    parts_.push_back((axes.sizes[a] + part_[a] - 1) / part_[a]);
    tile_.push_back(std::min(kernel.tile[a], part_[a]));
    moving_.push_back(tile_[a] < part_[a]);
  }
  range_.assign(rank, none);
}

int32_t TileLoops::cores() const {
  int64_t cores = 1;
  for (int64_t p : parts_) cores *= p;
  return static_cast<int32_t>(std::min<int64_t>(cores, 1 << 20));
}

void TileLoops::open(KernelBuilder& builder, int64_t max_trips) {
  builder_ = &builder;
  max_trips_ = max_trips;
  std::vector<int32_t> grid;
  for (int64_t p : parts_)
    if (p > 1) grid.push_back(static_cast<int32_t>(p));
  builder.nest(grid);
  Id g = 0;
  for (size_t a = 0; a < parts_.size(); ++a)
    if (parts_[a] > 1) range_[a] = builder.core(Bounds::of(0, axes_.sizes[a]), part_[a], g++, "c");
}

Id TileLoops::grid(int axis) const {
  if (parts_[axis] <= 1) return none;
  return static_cast<Id>(std::count_if(parts_.begin(), parts_.begin() + axis, [](int64_t p) { return p > 1; }));
}

void TileLoops::run(const std::vector<int>& order, const std::function<void()>& body) {
  std::function<void(size_t)> enter = [&](size_t i) {
    if (i == order.size()) return body();
    const int a = order[i];
    if (!moving_[a]) return enter(i + 1);
    const Id around = range_[a];
    Bounds bounds = around == none ? Bounds::of(0, axes_.sizes[a]) : Bounds::within(around);
    long_loop(*builder_, std::move(bounds), part_[a], tile_[a], max_trips_, [&](Id r) {
      range_[a] = r;
      enter(i + 1);
    });
    range_[a] = around;
  };
  enter(0);
}

Tile TileLoops::tile(int lane, int always) const {
  Tile t;
  t.range = range_;
  for (size_t a = 0; a < tile_.size(); ++a)
    if (static_cast<int>(a) != lane && (tile_[a] > 1 || static_cast<int>(a) == always))
      t.axes.push_back(static_cast<int>(a));
  if (lane >= 0) t.axes.push_back(lane);
  for (int a : t.axes) t.shape.push_back(tile_[a]);
  return t;
}

}  // namespace spyre::lower
