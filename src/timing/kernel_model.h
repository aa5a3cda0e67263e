// KernelModel: a kernel with its scalars bound, made ready to be walked: canonical expressions, what each step touches,
// which expressions can make one trip of a loop differ from the next, and which cores behave alike.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/description.h"
#include "layout/access.h"
#include "program/tree.h"
#include "timing/affine.h"
#include "timing/cost.h"

namespace spyre::timing {

/// A buffer that a step touches, in pieces first/piece_size .. (first + size - 1)/piece_size; `all` = every piece.
struct Touch {
  Id buffer = program::none;
  bool read = false, write = false, all = true;
  Affine first, size;
};

/// A dimension of a memory access whose box base, base + step, ... (extent indices) may leave the view.
struct Clip {
  Affine base, extent;
  int64_t step = 1, limit = 0;  ///< limit: of the view's dimension
};

struct StepModel {
  const program::Step* step = nullptr;
  int nest = 0;
  program::Unit unit = program::Unit::sync;
  std::vector<Touch> touches;
  std::vector<Affine> key;  ///< sizes that the price depends on, constants left out
  std::vector<Clip> clips;  ///< and what is clipped off where
  const program::MemRef* memory = nullptr;
  std::vector<Affine> bases;  ///< of `memory`, per entry (0 for indexed ones)
  Id share = program::none;
  bool ordered = false;
};

struct CompareModel {
  program::Compare::Op op = program::Compare::Op::eq;
  Affine difference;  ///< a - b
  bool holds(int64_t d) const;
  /// 1 true, 0 false for all values of the interval, -1 undecided.
  int decide(const Interval& d) const;
};

struct NodeModel {
  enum class Kind : uint8_t { declare, core_range, loop, branch, step };
  Kind kind = Kind::step;
  Id id = program::none;  ///< buffer, range, or number of loop or step
  int body = -1;          ///< block of a loop or branch
  std::vector<CompareModel> condition;
  bool by_coordinate = false;  ///< the condition depends on coordinates and scalars only
};
using BlockModel = std::vector<NodeModel>;

/// An expression whose change between trips changes times: see KernelModel::same_until.
struct Sensitive {
  enum class Kind : uint8_t { value, truth, clip } kind = Kind::value;
  Affine a, b;  ///< value: a; truth: compare.difference; clip: base a, extent b
  CompareModel compare;
  int64_t step = 1, limit = 0;  ///< clip: of the view's dimension
};

struct LoopModel {
  Id range = program::none;
  int nest = 0;
  Affine extent;
  std::vector<int> sensitive;  ///< items inside that depend on which trip this is
  std::vector<Id> inner;       ///< ranges inside, outer ones first
};

class KernelModel {
 public:
  /// `scalars`: by kernel scalar; f32 ones may be anything. The kernel must outlive the model.
  KernelModel(const program::Kernel& kernel, std::vector<int64_t> scalars, const device::Description& d);

  const program::Kernel& kernel() const { return kernel_; }
  const device::Description& description() const { return d_; }
  const Expressions& expressions() const { return expressions_; }
  const std::vector<StepModel>& steps() const { return steps_; }
  const std::vector<LoopModel>& loops() const { return loops_; }
  const BlockModel& block(int i) const { return blocks_[i]; }
  int nest_block(int nest) const { return nest_blocks_[nest]; }
  const layout::Access& access(Id formal) const { return *access_[formal]; }
  /// Buffers that share LX bytes with another buffer.
  const std::vector<Id>& overlapping(Id buffer) const { return overlaps_[buffer]; }

  /// Values of a core before its first step: coordinates of nest `nest` and scalars.
  Values values(int nest, int core) const;
  /// The same in the last trip of every loop of the nest.
  Values last_values(int nest, int core) const;
  /// Sets values.size of a core range for values.coordinate.
  void enter_core_range(Id range, Values& values) const;
  /// Start and size of a core range on a core; false when that core is not in the range's nest.
  bool slice(Id range, int core, int64_t& start, int64_t& size) const;
  /// Trips of a loop under the values of its surroundings.
  int64_t trips(const LoopModel& loop, const Values& values) const;

  /// Largest trip number t1 <= `last` such that the trips t0 .. t1 of the loop cost the same, all else under `values`
  /// being as it is; t0 - 1 when not even one is known to.
  int64_t same_until(const LoopModel& loop, const Values& values, int64_t t0, int64_t last) const;

  /// Cores that run alike, the first of which is followed.
  struct Class {
    int core = 0, count = 0;
  };
  std::vector<Class> classes() const;
  /// Per nest and grid dimension: how many times the followed core's data all cores along it have.
  std::vector<std::vector<double>> copies(int core) const;
  /// Part of the cores of the nest for which a coordinate-only condition holds.
  double share_of_cores(int nest, const NodeModel& branch) const;

 private:
  friend class ModelBuilder;
  bool same(const LoopModel& loop, const Bounds& bounds) const;
  void set_inner(const LoopModel& loop, Bounds& bounds) const;

  const program::Kernel& kernel_;
  const device::Description& d_;
  std::vector<int64_t> scalars_;
  Expressions expressions_;
  std::vector<StepModel> steps_;
  std::vector<LoopModel> loops_;
  std::vector<BlockModel> blocks_;
  std::vector<int> nest_blocks_;
  std::vector<Sensitive> items_;
  std::vector<Affine> starts_, extents_;  ///< by range
  std::vector<int> range_nest_;
  std::vector<std::vector<Id>> core_ranges_;      ///< by nest
  std::vector<std::vector<char>> by_coordinate_;  ///< by nest and grid dimension: more than sizes depend on it
  std::vector<std::vector<Id>> overlaps_;
  std::vector<std::unique_ptr<layout::Access>> access_;
};

}  // namespace spyre::timing
