#include "base/error.h"
#include "lower/forms.h"

namespace spyre::lower {

std::vector<Emitted> emit_scatter(const Context&, const plan::KernelPlan&) {
  fail(Fault::unimplemented, "scatter isn't lowered yet");
}

}  // namespace spyre::lower
