#include "engine/artifact.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "program/example_text.h"
#include "program/program.h"

namespace spyre::engine {
namespace {

Artifact example() {
  Artifact a;
  a.program = program::assemble(program::example_text("softmax"));
  using Kind = Artifact::Source::Kind;
  for (size_t s = 0; s < a.program.symbols.size(); ++s) a.symbols.push_back({Kind::input, static_cast<int32_t>(s)});
  a.scalars.assign(a.program.scalars.size(), 0);
  a.repacks.push_back({1, base::HostType::bf16, a.program});
  a.plan = "a plan\nof two lines";
  return a;
}

TEST(Artifact, IsReadAsItWasWritten) {
  const Artifact a = example();
  const auto bytes = write(a, "key");
  EXPECT_EQ(read(bytes, "key"), a);
  EXPECT_EQ(write(read(bytes, "key"), "key"), bytes);
}

TEST(Artifact, AnotherKeyIsRefused) {
  const auto bytes = write(example(), "key");
  EXPECT_THROW(read(bytes, "kez"), Error);
}

TEST(Artifact, DamageIsRefused) {
  const auto bytes = write(example(), "key");
  for (size_t n = 0; n < bytes.size(); n += 7) EXPECT_THROW(read(std::span(bytes).first(n), "key"), Error) << n;
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_THROW(read(damaged, "key"), Error) << i;
  }
  auto longer = bytes;
  longer.push_back({});
  EXPECT_THROW(read(longer, "key"), Error);
  EXPECT_THROW(read({}, "key"), Error);
}

TEST(Artifact, IndicesOutsideTheLaunchAreRefused) {
  Artifact a = example();
  const size_t inputs = a.program.symbols.size();
  a.repacks.clear();
  EXPECT_NO_THROW(check(a, inputs, 0, 1));
  EXPECT_THROW(check(a, inputs - 1, 0, 1), Error);
  a.symbols[0] = {Artifact::Source::Kind::output, 0};
  EXPECT_THROW(check(a, inputs, 0, 1), Error);
  EXPECT_NO_THROW(check(a, inputs, 1, 1));
  a.symbols[0] = {Artifact::Source::Kind::repack, 0};
  EXPECT_THROW(check(a, inputs, 1, 1), Error);
  a.symbols[0] = {Artifact::Source::Kind::temp, -1};
  EXPECT_THROW(check(a, inputs, 1, 1), Error);
}

}  // namespace
}  // namespace spyre::engine
