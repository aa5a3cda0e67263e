#include "base/trace_writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace spyre::base {
namespace {

std::string temporary(const std::string& name) { return testing::TempDir() + "/" + name; }

nlohmann::json parsed(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

TEST(TraceWriter, EventsReadBack) {
  const std::string path = temporary("spyre_trace_test.json");
  {
    TraceWriter trace(path);
    trace.name_process(1, "card \"0\"");
    trace.name_thread(1, 7, "core 0\tpt", 3);
    trace.complete(1, 7, "mm\\é\xff", "pt", 1234567, 1, {{"bytes", int64_t{128}}, {"rate", 0.5}, {"op", "aten.mm"}});
    trace.complete(1, 7, "none", "pt", 5, 6);
    trace.counter(1, "LX", 2000000, 3);
    trace.close();
  }
  const auto events = parsed(path)["traceEvents"];
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0]["args"]["name"], "card \"0\"");
  EXPECT_EQ(events[1]["args"]["name"], "core 0\tpt");
  EXPECT_EQ(events[2]["args"]["sort_index"], 3);
  EXPECT_EQ(events[3]["name"], "mm\\é\xEF\xBF\xBD");
  EXPECT_DOUBLE_EQ(events[3]["ts"].get<double>(), 1.234567);
  EXPECT_DOUBLE_EQ(events[3]["dur"].get<double>(), 0.000001);
  EXPECT_EQ(events[3]["args"]["bytes"], 128);
  EXPECT_EQ(events[3]["args"]["rate"], 0.5);
  EXPECT_EQ(events[3]["args"]["op"], "aten.mm");
  EXPECT_FALSE(events[4].contains("args"));
  EXPECT_EQ(events[5]["args"]["value"], 3);
}

TEST(TraceWriter, AnEmptyTraceIsValid) {
  const std::string path = temporary("spyre_trace_empty.json");
  { TraceWriter trace(path); }
  EXPECT_EQ(parsed(path)["traceEvents"].size(), 0u);
}

TEST(TraceWriter, LongTracesAreWhole) {
  const std::string path = temporary("spyre_trace_long.json");
  {
    TraceWriter trace(path);
    for (int i = 0; i < 20000; ++i) trace.complete(0, i % 7, "step", "sfp", i * int64_t{1000}, 999);
  }
  EXPECT_EQ(parsed(path)["traceEvents"].size(), 20000u);
}

TEST(TraceWriter, FailuresAreErrors) {
  EXPECT_THROW(TraceWriter(temporary("no/such/directory/trace.json")), Error);
  std::ifstream full("/dev/full");
  if (full) {
    TraceWriter trace("/dev/full");
    trace.complete(0, 0, "a", "b", 0, 1);
    EXPECT_THROW(trace.close(), Error);
  }
  TraceWriter closed(temporary("spyre_trace_closed.json"));
  closed.close();
  EXPECT_THROW(closed.counter(0, "a", 0, 0), Error);
}

TEST(TraceWriter, PicosecondsPrintExactly) {
  EXPECT_EQ(microseconds(0), "0.000000");
  EXPECT_EQ(microseconds(-1), "-0.000001");
  EXPECT_EQ(microseconds(std::numeric_limits<int64_t>::max()), "9223372036854.775807");
  EXPECT_EQ(microseconds(std::numeric_limits<int64_t>::min()), "-9223372036854.775808");
}

TEST(TraceWriter, InvalidUtf8BecomesTheReplacementCharacter) {
  EXPECT_EQ(json_string("a\xC0\x80z"), "\"a\\ufffd\\ufffdz\"");
  EXPECT_EQ(json_string("\xED\xA0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(json_string("\xF0\x9F\x98\x80"), "\"\xF0\x9F\x98\x80\"");
  EXPECT_EQ(json_string(std::string_view("\0\n", 2)), "\"\\u0000\\u000a\"");
}

}  // namespace
}  // namespace spyre::base
