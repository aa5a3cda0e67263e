#include "base/error.h"
#include "lower/forms.h"

namespace spyre::lower {

std::vector<Emitted> emit_sort(const Context&, const plan::KernelPlan&) {
  fail(Fault::unimplemented, "sort isn't lowered yet");
}

}  // namespace spyre::lower
