// The price of a plan's candidate: what the card would take for it.
#include <algorithm>

#include "base/error.h"
#include "lower/lower.h"
#include "program/program.h"
#include "timing/timeline.h"

namespace spyre::lower {

int64_t price(const graph::Graph& instance, const plan::KernelPlan& kernel, const plan::Plan& plan,
              const device::Description& description, std::string* why) {
  try {
    const Lowered lowered = lower_kernel(instance, kernel, plan, description);
    program::verify(lowered.program, description);
    timing::ScalarValues scalars;
    for (const program::Scalar& s : lowered.program.scalars) scalars.push_back(std::clamp(0.0, s.lo, s.hi));
    timing::WalkOptions options;  // the kernels before have just written what the instance makes
    for (const Lowered::Source& source : lowered.symbols)
      options.written.push_back(source.value != graph::none &&
                                instance.values[graph::at(source.value)].node != graph::none);
    return timing::walk(lowered.program, scalars, description, options).total_ps;
  } catch (const Error& e) {
    if (e.fault() != Fault::program && e.fault() != Fault::unimplemented) throw;
    if (why) *why = e.what();
    return -1;
  }
}

}  // namespace spyre::lower
