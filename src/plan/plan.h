// The plan: which nodes of a concrete graph form which kernel, on which cores, in which tiles. Data: it can be printed,
// parsed and fuzzed; lower/ turns it into a tile program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "device/description.h"
#include "graph/graph.h"
#include "layout/geometry.h"

namespace spyre::plan {

using graph::at;
using graph::Id;
using graph::none;

/// Where a value of the instance is during a launch.
struct Home {
  enum class Kind : uint8_t {
    input,     ///< a tensor of the launch
    output,    ///< returned by the launch; its memory is allocated for it
    temp,      ///< device memory of this launch
    replaces,  ///< stored into the memory of an input that it mutates (`through`, with the input's strides and offset)
    resident,  ///< only in LX, within one kernel
    folded,    ///< never made, in no kernel: a pure copy that its readers absorb (see `through`)
    dead,      ///< nobody reads it, or it has no elements
  };
  Kind kind = Kind::temp;
  layout::Geometry geometry;  ///< input, output, temp, replaces: of its allocation, over the storage elements of the
                              ///< value (replaces: of the input)
  /// folded, replaces: the value, index by index (its own sizes), as a view of another value in memory (one step is
  /// enough; refine() takes it). A Scatter or Place whose result is at exactly the memory of its base (`replaces` of
  /// that input) works in place and copies nothing.
  graph::Ref through;
  bool operator==(const Home&) const = default;
};

/// Whether a value of this home is stored by the kernel that makes it.
constexpr bool in_memory(Home::Kind kind) {
  return kind == Home::Kind::output || kind == Home::Kind::temp || kind == Home::Kind::replaces;
}

/// The form of a kernel: one file in plan/ (its candidates) and one in lower/ (its steps) each.
enum class Form : uint8_t {
  rows,       ///< Maps, and Reduces over common trailing axes, whose rows are resident in LX
  reduce,     ///< one Reduce of any shape: loops over the reduced axes, state in LX
  matmul,     ///< Contracts of one `a` and the Maps behind them, on their accumulator tiles
  attention,  ///< an Attention
  place,      ///< a Place
  scatter,
  scan,
  sort,
};
std::string_view form_name(Form form);
std::string_view home_name(Home::Kind kind);

/// One kernel. What the numbers of `grid` and `tile` mean is the form's to say, in plan/<form>.h.
struct KernelPlan {
  Form form = Form::rows;
  std::vector<Id> nodes;      ///< node ids, ascending
  std::vector<int32_t> grid;  ///< parts per parallel dimension of the form; product <= cores
  std::vector<int64_t> tile;  ///< elements per tile dimension
  int32_t slots = 2;          ///< of streamed buffers
  int64_t cost_ps = 0;        ///< what `price` said
  bool operator==(const KernelPlan&) const = default;
};

/// An input whose elements a kernel reads in another order than memory has them: the engine keeps a copy in this
/// geometry, made once per contents (weights of matmuls).
struct Repack {
  Id node = none;             ///< the reader
  int32_t read = 0;           ///< which of graph::reads(kind)
  layout::Geometry geometry;  ///< of the copy, whose storage is the reference's elements, contiguous in its sizes
                              ///< without the strides of 0
  bool operator==(const Repack&) const = default;
};

struct Plan {
  std::vector<KernelPlan> kernels;  ///< in launch order
  std::vector<Home> homes;          ///< per graph value
  std::vector<Repack> repacks;
  bool operator==(const Plan&) const = default;
};

/// The modelled picoseconds of one kernel with these homes and repacks (`plan.kernels` is not looked at), or a negative
/// number when it can't be built so (LX overfull, stores not disjoint): such a candidate is dropped.
using Price = base::FunctionRef<int64_t(const KernelPlan&, const Plan&)>;

struct Options {
  uint64_t random_seed = 0;  ///< not 0: a random legal grouping and candidate instead of the best (plan fuzzing)
  bool repack = true;
  const std::string* why = nullptr;  ///< where `price` leaves the reason of its last refusal, for the error's text
  bool ieee = false;  ///< float16 of temps (and of outputs without a given geometry) is stored as IEEE half
};

/// The instance as choose(), lower() and price() take it: with a copy (an identity Map at the end) for each mutation,
/// so that plan and lower know no mutations; the results of these Maps, or what they copy, get the home `replaces`.
/// No node has an empty space: what makes no elements is dropped (such a value has no producer), sums over nothing are
/// constants. Small Maps without loads (full, arange) are part of the expressions that read them.
struct Prepared {
  graph::Graph graph;               ///< no mutations
  std::vector<graph::Id> replaces;  ///< per value the input that it replaces, or none
  // Filled by the caller behind prepare(); empty means as said.
  std::vector<int64_t> offsets;  ///< per graph input the storage offset of its tensor, which the references to it have
                                 ///< in them already: where the `through` of a `replaces` home starts. Empty: all 0
  std::vector<layout::Geometry> outputs;  ///< per graph output the geometry of its allocation. Empty: by default
                                          ///< placement
};
Prepared prepare(graph::Graph instance);

/// Divides the instance (graph::instantiate) into kernels and chooses among candidates by price. `inputs`: per graph
/// input the geometry of its allocation. Deterministic. Throws Error(unimplemented) naming node, sizes and limit when a
/// node has no legal candidate.
Plan choose(const Prepared& prepared, const std::vector<layout::Geometry>& inputs,
            const device::Description& description, Price price, const Options& options = {});

/// For people and tests: one line a kernel, with op names, grid, tiles and cost; then homes. parse(print(p, g)) is p.
std::string print(const Plan& plan, const graph::Graph& instance);
/// Throws Error(program) with line and column.
Plan parse(std::string_view text);

}  // namespace spyre::plan
