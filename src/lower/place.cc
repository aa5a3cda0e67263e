#include "base/error.h"
#include "lower/forms.h"

namespace spyre::lower {

std::vector<Emitted> emit_place(const Context&, const plan::KernelPlan&) {
  fail(Fault::unimplemented, "place isn't lowered yet");
}

}  // namespace spyre::lower
