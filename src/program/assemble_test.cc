#include <gtest/gtest.h>

#include "program/example_text.h"
#include "program/program.h"

namespace spyre::program {
namespace {

class Example : public testing::TestWithParam<const char*> {};

TEST_P(Example, PrintsAndAssemblesToAnEqualTree) {
  const Program program = assemble(example_text(GetParam()));
  const std::string text = print(program);
  const Program again = assemble(text);
  EXPECT_EQ(program, again) << text;
  EXPECT_EQ(text, print(again));
}

INSTANTIATE_TEST_SUITE_P(Worked, Example, testing::ValuesIn(example_names), [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace spyre::program
