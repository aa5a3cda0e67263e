#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/isa.h"

namespace spyre::base {
namespace {

TEST(Env, UnsetAndEmptyGiveTheDefault) {
  unsetenv("SPYRE_TEST_VARIABLE");
  EXPECT_EQ(env_int("SPYRE_TEST_VARIABLE", 7, 0, 9), 7);
  setenv("SPYRE_TEST_VARIABLE", "", 1);
  EXPECT_EQ(env_string("SPYRE_TEST_VARIABLE", "x"), "x");
  EXPECT_TRUE(env_flag("SPYRE_TEST_VARIABLE", true));
}

TEST(Env, BadValuesNameTheVariableAndWhatIsExpected) {
  for (const char* bad : {"x", "1x", "10", "-1", "99999999999999999999"}) {
    setenv("SPYRE_TEST_VARIABLE", bad, 1);
    try {
      env_int("SPYRE_TEST_VARIABLE", 7, 0, 9);
      FAIL() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::configuration);
      EXPECT_NE(std::string(e.what()).find("SPYRE_TEST_VARIABLE"), std::string::npos);
      EXPECT_NE(std::string(e.what()).find("0 to 9"), std::string::npos);
    }
  }
  setenv("SPYRE_TEST_VARIABLE", "maybe", 1);
  EXPECT_THROW(env_flag("SPYRE_TEST_VARIABLE", false), Error);
  setenv("SPYRE_TEST_VARIABLE", "on", 1);
  EXPECT_TRUE(env_flag("SPYRE_TEST_VARIABLE", false));
  setenv("SPYRE_TEST_VARIABLE", "-5", 1);
  EXPECT_EQ(env_int("SPYRE_TEST_VARIABLE", 7, -9, 9), -5);
}

TEST(Error, CarriesItsFaultAndMessage) {
  try {
    fail(Fault::user, "mm: [{}, {}]", 2, 3);
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "mm: [2, 3]");
    EXPECT_STREQ(fault_name(e.fault()), "user error");
  }
}

TEST(Isa, TheChosenOneIsAvailable) {
  EXPECT_TRUE(isa_available(host_isa()));
  EXPECT_TRUE(isa_available(Isa::baseline));
}

}  // namespace
}  // namespace spyre::base
