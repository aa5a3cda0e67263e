// What the verifier knows of one kernel while it checks it: the bounds of its ranges, and every step with what encloses
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/description.h"
#include "program/affine.h"
#include "program/interval.h"
#include "program/tree.h"

namespace spyre::program::verifier {

/// Grid dimensions as bits.
using DimMask = uint32_t;
constexpr int grid_dim_limit = 16;

/// A range of a kernel once its statement has been met.
struct RangeFacts {
  bool declared = false;  ///< its statement has been met, in nest `nest`
  bool visible = false;   ///< in scope at the place being checked
  Id nest = none;
  int order = 0;  ///< outer ranges have smaller ones
  Affine lo, hi;
  int64_t min_trips = 1, max_trips = 1;
  DimMask dims = 0;        ///< coordinates that start and size depend on
  DimMask start_dims = 0;  ///< coordinates that start alone depends on, for a given trip
};

/// One step and where it stands.
struct Site {
  const Step* step = nullptr;
  Id nest = none;
  int order = 0;                                   ///< position in text order
  std::vector<Id> ranges;                          ///< enclosing core ranges and loops, outermost first
  std::vector<const Condition*> conditions;        ///< of the enclosing `if`s, outermost first
  std::vector<std::pair<const Block*, int>> path;  ///< block and position in it, from the nest's body down to the step
};

class Context {
 public:
  Context(const Program& program, const Kernel& kernel, const device::Description& description);

  const Program& program;
  const Kernel& kernel;
  const device::Description& description;

  std::vector<RangeFacts> ranges;
  std::vector<bool> buffer_visible;
  LeafValues leaves;  ///< over all cores and trips; coordinates are those of the current nest
  std::vector<Site> sites;
  std::vector<std::vector<int>> writers;  ///< by buffer: the sites that write it

  const Nest& nest() const { return kernel.nests[nest_id_]; }
  Id nest_id() const { return nest_id_; }
  /// Makes `nest` the current one: its coordinates are in scope and no range is.
  void enter_nest(Id nest);
  /// Once the whole tree has been met: the current nest, with everything in scope.
  void revisit_nest(Id nest);
  /// Computes the facts of a range whose statement has been met. Throws Error(program).
  void declare_range(Id range);
  /// Computes start, size and trip of a range from the values of what encloses it.
  void leaf_values(Id range, LeafValues& values) const;

  /// Checks that all leaves are in scope and that no value leaves +-value_limit. Returns its bounds.
  Interval check(const IntExpr& e) const;
  /// Bounds with the connection between start, size and end of a range. Assumes that range `nonempty` has a size of 1
  /// or more.
  Interval bounds(const Affine& form, Id nonempty = none) const { return bounds(form, nonempty, leaves); }
  Interval bounds(const Affine& form, Id nonempty, const LeafValues& values) const;
  /// With the starts of ranges replaced by trips and coordinates as far as they are affine.
  Affine expand(const Affine& form) const;
  /// Coordinates that a value depends on, at the same trips of all loops.
  DimMask dims_of(const IntExpr& e) const;

  /// `kernel 'linear', st y = o (aten.gelu model.py:13)`: what every message begins with.
  std::string where() const;
  std::string where(const Step& step) const;
  /// The step being checked: part of where() from then on; null for none.
  void set_step(const Step* step) { step_ = step; }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw Error(Fault::program, where() + ": " + fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void fail_at(const Step& step, fmt::format_string<Args...> text, Args&&... args) const {
    throw Error(Fault::program, where(step) + ": " + fmt::format(text, std::forward<Args>(args)...));
  }
  std::string range_name(Id id) const;
  std::string buffer_name(Id id) const;
  std::string formal_name(Id id) const;

 private:
  Interval bounds(const Affine& form, Id nonempty, const LeafValues& values, int& budget) const;

  Id nest_id_ = none;
  int next_order_ = 0;
  const Step* step_ = nullptr;
};

/// All buffers that a step names: fn(reference, written, read).
struct Use {
  const BufRef* ref = nullptr;
  bool writes = false, reads = false;
};
std::vector<Use> uses_of(const Step& step);
/// Memory access of a load or store, or null.
const MemRef* memory_of(const Step& step);
/// Calls fn(BufRef) for every operand leaf.
void for_each_operand(const VecExpr& e, std::vector<const BufRef*>& out);

/// Size of one dimension of a step's box.
struct Extent {
  Affine form;            ///< number of positions
  int64_t max = 1;        ///< its largest value
  int64_t unclipped = 1;  ///< `by` of the range that makes it, else max
  bool single = false;    ///< 1 by its text: broadcasts
  bool constant() const { return form.is_constant(); }
};
/// Box of a buffer operand, transposed as written. Throws Error(program) unless it lies inside the buffer for all
/// values.
std::vector<Extent> extents_of(const Context& context, const BufRef& ref);
/// Extent of one entry of a memory access.
Extent extent_of(const Context& context, const Entry& entry);
/// tile_dimensions() with the step named in its error.
std::vector<int> tile_dims(const Context& context, const MemRef& ref, const BufRef& tile);
/// The range that a size is the size of, perhaps clipped further by a min: empty when the range is. Else none.
Id range_of_size(const IntExpr& size);
/// The box a Vector, Reduce or Scan works on: operands and results joined by broadcasting. Throws Error(program).
std::vector<Extent> vector_box(const Context& context, const Step& step);

/// The passes, in this order; each throws Error(program) for the first rule broken.
void check_tree(Context& context);  ///< scopes, ranges, LX; fills context.sites and calls check_step
void check_step(const Context& context, const Step& step);  ///< operands: shapes, formats, registers
void check_collectives(Context& context);
void check_definitions(Context& context);  ///< defined before read
/// Device memory: spans, disjoint stores, hazards. Returns per formal whether the kernel writes all of it.
std::vector<bool> check_memory(Context& context);
/// Buffers whose contents depend only on symbols the kernel doesn't write and on no coordinate of `dims`.
bool same_on_all_cores(const Context& context, Id buffer, DimMask dims);

}  // namespace spyre::program::verifier
