#include "base/error.h"
#include "lower/forms.h"

namespace spyre::lower {

std::vector<Emitted> emit_scan(const Context&, const plan::KernelPlan&) {
  fail(Fault::unimplemented, "scan isn't lowered yet");
}

}  // namespace spyre::lower
