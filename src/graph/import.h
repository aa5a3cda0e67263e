// Import: ATen onto the graph, by a table keyed by overload name. The eager path (values from the dispatcher) and the
// compiled path (nodes of a post-grad graph) use the same table. In-place and out= variants derive from the functional
// overload.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace spyre::graph {

/// A float known only at launch, by Param id.
struct ParamArg {
  Id param = none;
};
/// One argument of an ATen call, in the order of its schema with defaults filled in. monostate is None.
using Arg = std::variant<std::monostate, Ref, std::vector<Ref>, std::vector<std::optional<Ref>>, Size,
                         std::vector<Size>, double, ParamArg, bool, HostType, std::string>;

/// Builds a graph call by call.
class Builder {
 public:
  Id symbol(std::string name, int64_t lo, int64_t hi);
  Id param(std::string name, bool is_float);
  /// An input of these sizes and strides (elements); the returned reference is the whole tensor.
  Ref input(std::string name, HostType type, std::vector<Size> sizes, std::vector<Size> strides);
  /// Adds a node; results are dense, contiguous unless `strides` (per result; empty: contiguous) are given. Fields that
  /// expressions and loads don't use are cleared. Returns whole references. Throws Error(program) for a wrong number of
  /// types; finish() checks the rest.
  std::vector<Ref> add(Kind kind, std::vector<HostType> types, const Loc& loc,
                       std::vector<std::vector<Size>> strides = {});

  /// Imports `overload` ("aten::add.Tensor", "prims::iota"). Views return references without a node. Throws
  /// Error(unimplemented) naming the overload, shapes and dtypes when the table has no entry or the entry refuses the
  /// arguments; then the graph is unchanged.
  std::vector<Arg> call(std::string_view overload, const std::vector<Arg>& args, const Loc& loc);

  HostType type(const Ref& ref) const;
  /// Returned by the launch. What isn't the whole of a node's result, or is an output already, is copied by a node of
  /// its own.
  void output(const Ref& ref);
  /// At most once per input; `value` has its sizes and type.
  void mutate(Id input, const Ref& value);
  /// Verified (Error(program)), dead nodes removed.
  Graph finish() &&;
  const Graph& graph() const { return graph_; }

 private:
  Graph graph_;
};

/// True when the table has an entry for the overload.
bool importable(std::string_view overload);
/// The functional overload behind an in-place or out= one ("aten::add_.Tensor" -> "aten::add.Tensor"), or empty.
std::string_view functional_of(std::string_view overload);
/// All overloads of the table, sorted.
std::vector<std::string_view> importable_overloads();

}  // namespace spyre::graph
