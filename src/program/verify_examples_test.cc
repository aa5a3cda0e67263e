// The verifier on the worked examples: every one passes, quickly.
#include <gtest/gtest.h>

#include "device/description.h"
#include "program/example_text.h"
#include "program/program.h"

namespace spyre::program {
namespace {

TEST(VerifyExamples, EveryWorkedKernelIsLegal) {
  const device::Description description = device::load_description();
  for (const std::string name : example_names) {
    SCOPED_TRACE(name);
    try {
      verify(assemble(example_text(name)), description);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

}  // namespace
}  // namespace spyre::program
