// The reference interpreter: any graph on the host in double precision, with the error scale from which tolerances are derived.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace spyre::graph {

/// A tensor of the interpreter in the storage order of its Value (sum(stride x index) + 1 elements at most, gaps included).
/// `scale[i]` is the sum of the magnitudes of the terms that made value[i]: a device result may differ by a few units of its
/// format's rounding times scale. Integers are exact in double; predicates are 0 and 1.
struct Tensor {
  std::vector<double> value, scale;
};

struct Numerics {
  /// Round every produced value to its device format as the card does (dl16, f32, ...), so that differences show a bug, not the format.
  bool round_to_device = true;
};

/// Values of all graph values (by value id; inputs included, mutations not applied). `graph` must be instantiated.
/// Throws Error(user) for out-of-bounds gathers and int64 overflow, naming op and source line, as the card traps.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs, std::span<const double> params,
                              const Numerics& numerics = {});

/// The largest difference that a correct device result may have from `reference` at element i.
double tolerance(const Tensor& reference, size_t i, base::Format format);

}  // namespace spyre::graph
