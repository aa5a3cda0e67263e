// Lower: a plan becomes a tile program.
#pragma once

#include <string>
#include <vector>

#include "device/description.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "program/tree.h"

namespace spyre::lower {

/// A tile program and what its symbols and scalars stand for.
struct Lowered {
  program::Program program;
  /// Per program symbol the value in whose memory it lies, or `repack` of the plan's list. Values of home `replaces`
  /// lie in their input's memory. A temp may be shared by values that never live at once: then the first of them.
  struct Source {
    graph::Id value =
        graph::none;  ///< none: repacks[repack], or scratch memory of the launch (a temp) when that is none too
    int32_t repack = graph::none;
    bool operator==(const Source&) const = default;
  };
  std::vector<Source> symbols;
  /// Per program scalar the graph param.
  std::vector<graph::Id> scalars;
};

/// The whole plan, as calls in its order. Equal kernels share one template; one symbol per value (views are the
/// formals'), of its whole storage. The program is for program::verify to check, which card::Executable calls. Throws
/// Error(unimplemented) naming node and sizes for what no form can express.
Lowered lower(const graph::Graph& instance, const plan::Plan& plan, const device::Description& description);

/// One kernel alone, as a program of its calls: what a plan candidate is priced by. Throws Error(program) when it can't
/// be built so.
Lowered lower_kernel(const graph::Graph& instance, const plan::KernelPlan& kernel, const plan::Plan& plan,
                     const device::Description& description);

/// The program that makes a repacked copy: symbol 0 is the allocation of the input that is read, symbol 1 the copy.
program::Program lower_repack(const graph::Graph& instance, const plan::Repack& repack, const plan::Plan& plan,
                              const device::Description& description);

/// plan::Price by modelled time: lowers, verifies, walks; negative for what can't be built (Error(program) or
/// Error(unimplemented), whose message goes to `why`). Not memoised.
int64_t price(const graph::Graph& instance, const plan::KernelPlan& kernel, const plan::Plan& plan,
              const device::Description& description, std::string* why = nullptr);

}  // namespace spyre::lower
