#include "device/description.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/error.h"
#include "device/builtin.h"

namespace spyre::device {
namespace {

/// The built-in text with one replacement; the replaced text must be there.
std::string edited(const std::string& from, const std::string& to) {
  std::string text(builtin_json());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// The message of the configuration error that `call` throws.
template <typename F>
std::string refusal(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::configuration);
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}
std::string refusal_of(const std::string& json) {
  return refusal([&] { parse_description(json, "card.json"); });
}
void expect_refused(const std::string& json, const std::string& path, const std::string& why) {
  const std::string message = refusal_of(json);
  EXPECT_NE(message.find("card.json"), std::string::npos) << message;
  EXPECT_NE(message.find(path), std::string::npos) << message;
  EXPECT_NE(message.find(why), std::string::npos) << message;
}

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Description, TheBuiltInCardIsTheOneOfTheDocuments) {
  const Description d = parse_description(builtin_json(), "(built in)");
  EXPECT_EQ(d.cores, 32);
  EXPECT_EQ(d.lx_usable_bytes, 1984 * 1024);
  EXPECT_EQ(d.stack.lx_usable_bytes, 1587 * 1024);
  EXPECT_EQ(d.address_space_bytes, int64_t{128} << 30);
  EXPECT_EQ(d.memory_bytes, int64_t{112} << 30);
  EXPECT_EQ(d.span_bytes_per_core, 256 << 20);
  EXPECT_NEAR(2e-3 * d.cores * d.pt_macs_per_cycle_core * d.core_ghz, 72.1, 0.05);  // TFLOP/s
  EXPECT_NEAR(d.ring_bytes_per_cycle * d.ring_ghz, 166.4, 1e-9);
  EXPECT_NEAR(d.psum_bytes_per_cycle * d.core_ghz, 35.2, 1e-9);
  ASSERT_EQ(d.row_split.size(), 4u);
  EXPECT_EQ(d.row_split.back().stride_bytes, 256 * 1024);
}

TEST(Description, AWrongFieldIsNamedWithItsFile) {
  expect_refused(edited("\"cores\"", "\"kores\""), "chip.cores", "missing");
  expect_refused(edited("\"chip\": {", "\"chip\": {\"extra\": 1,"), "chip.extra", "unknown");
  expect_refused(edited("\"chip\": {", "\"chips\": {}, \"chip\": {"), "chips", "unknown");
  expect_refused(edited("{\"value\": 32, ", "{\"value\": 32, \"note\": \"\", "), "chip.cores.note", "unknown");
  expect_refused(edited("{\"value\": 32, ", "{\"value\": 32.5, "), "chip.cores.value", "integer");
  expect_refused(edited("{\"value\": 32, ", "{\"value\": \"32\", "), "chip.cores.value", "integer");
  expect_refused(edited("{\"value\": 1.1, ", "{\"value\": true, "), "chip.core_ghz.value", "number");
  expect_refused(edited("{\"value\": 32, ", "{"), "chip.cores.value", "missing");
  expect_refused(edited("\"unit\": \"GHz\"", "\"unit\": \"MHz\""), "chip.core_ghz.unit", "GHz");
  expect_refused(edited("\"kind\": \"machine\"", "\"kind\": \"stack\""), "chip.cores.kind", "machine");
  expect_refused(edited("\"sure\": \"high\"", "\"sure\": \"very\""), "chip.cores.sure", "medium");
  expect_refused(edited("{\"value\": 32, ", "{\"value\": 0, "), "chip.cores.value", "range");
  expect_refused(edited("{\"value\": 1.1, ", "{\"value\": -1.1, "), "chip.core_ghz.value", "range");
  expect_refused(edited("{\"value\": 1.1, ", "{\"value\": 1.1, \"value\": 1.2, "), "value", "twice");
  expect_refused(edited("[16384, 130.0]", "[8192, 130.0]"), "memory.row_split_gbps", "ascend");
  expect_refused(edited("[16384, 130.0]", "[16384]"), "memory.row_split_gbps", "pairs");
  expect_refused("[1, 2]", "", "object");
  expect_refused("{\"name\": \"x\"", "", "not valid JSON");
}

TEST(Description, ContradictionsAreRefused) {
  expect_refused(edited("2031616", "2097280"), "lx.usable_bytes", "lx.bytes");
  expect_refused(edited("1625088", "2097152"), "stack.lx_usable_bytes", "lx.usable_bytes");
  expect_refused(edited("137438953472", "137438953344"), "memory.address_space_bytes", "segments");
  expect_refused(edited("120259084288", "137438953472"), "memory.bytes", "programs");
  expect_refused(edited("{\"value\": 1024, ", "{\"value\": 1000, "), "pt.macs_per_cycle_core", "rows");
  expect_refused(edited("{\"value\": 32, ", "{\"value\": 31, "), "ring.nodes", "chip.cores");
}

TEST(Description, TheHashFollowsValuesNotText) {
  const std::string hash = parse_description(builtin_json(), "a").hash;
  EXPECT_EQ(hash.size(), 32u);
  EXPECT_EQ(hash, parse_description(edited("Spyre product page", "A page"), "b").hash);
  EXPECT_NE(hash, parse_description(edited("{\"value\": 364.0, ", "{\"value\": 365.0, "), "a").hash);
  EXPECT_NE(hash, parse_description(edited("130.0]", "131.0]"), "a").hash);
}

TEST(Description, TheFileOfSpyreDescriptionIsUsedOrRefused) {
  const std::string path = testing::TempDir() + "spyre_description_test.json";
  std::ofstream(path) << edited("{\"value\": 364.0, ", "{\"value\": 365.0, ");
  {
    const Variable file("SPYRE_DESCRIPTION", path);
    EXPECT_EQ(load_description().memory_latency_ns, 365);
  }
  std::remove(path.c_str());
  const Variable file("SPYRE_DESCRIPTION", path);
  EXPECT_NE(refusal([] { load_description(); }).find(path), std::string::npos);
}

TEST(Description, SencoresTakesFewerCoresOnly) {
  const std::string hash = load_description().hash;
  {
    const Variable cores("SENCORES", "8");
    EXPECT_EQ(load_description().cores, 8);
    EXPECT_NE(load_description().hash, hash);
  }
  for (const char* bad : {"0", "33", "-1", "many"}) {
    const Variable cores("SENCORES", bad);
    EXPECT_NE(refusal([] { load_description(); }).find("SENCORES"), std::string::npos) << bad;
  }
}

}  // namespace
}  // namespace spyre::device
