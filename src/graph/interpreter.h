// The reference interpreter: any graph on the host in double precision, with the error scale from which tolerances are
// derived.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace spyre::graph {

/// A tensor of the interpreter in the storage order of its Value (sum(stride x (size - 1)) + 1 elements, gaps
/// included). `scale[i]` is the error scale of value[i], in units of its device format's rounding (dl16: 2^-10
/// relative): the magnitude of the value and of the terms that made it, each with what their own rounding adds, taken
/// through every operation. A device result may differ by tolerance(). Empty: all exact, as inputs usually are; 0: the
/// device has exactly this value (copies, integers); infinite: nothing can be said (an index taken of values that are
/// equal up to rounding). Integers are exact in double; predicates are 0 and 1.
struct Tensor {
  std::vector<double> value, scale;
};

struct Numerics {
  /// Round every input and every produced value to its device format as the card does (dl16, f32, ...), so that
  /// differences show a bug, not the format. Infinities of half types become NaN, as dl16 reads them.
  bool round_to_device = true;
};

/// Values of all graph values (by value id; inputs included, mutations not applied). `graph` must be instantiated.
/// Numbers of arithmetic beyond f32's range are infinite. Throws Error(user) for out-of-bounds gathers and scatters,
/// int64 results outside int32 and integer division by zero, naming op and source line, as the card traps; for inputs
/// that are too short.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs, std::span<const double> params,
                              const Numerics& numerics = {});

/// The largest difference that a correct device result may have from `reference` at element i, held in `format`: two
/// roundings of its error scale.
double tolerance(const Tensor& reference, size_t i, base::Format format);
/// Whether `have` may be the device's element i: within tolerance(); of a NaN a NaN, of an infinity that infinity (or,
/// in 16 bits and less, NaN).
bool agrees(const Tensor& reference, size_t i, base::Format format, double have);

}  // namespace spyre::graph
