// The worked kernels of the contract, timed: jumps against full walks, floors, overlap, scalars.
#include "timing/timeline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "program/program.h"

namespace spyre::timing {
namespace {

const device::Description& card() {
  static const device::Description d = device::load_description();
  return d;
}

program::Program example(const std::string& name) {
  std::ifstream file(std::string(SPYRE_PROGRAM_EXAMPLES) + "/" + name + ".tile");
  std::ostringstream text;
  text << file.rdbuf();
  return program::assemble(text.str());
}

ScalarValues middle(const program::Program& p) {
  ScalarValues v;
  for (const program::Scalar& s : p.scalars) v.push_back(s.is_float ? s.hi : s.lo + static_cast<int64_t>(s.hi - s.lo) / 2);
  return v;
}

TEST(Timeline, ProbeExamples) {
  for (const auto& entry : std::filesystem::directory_iterator(SPYRE_PROGRAM_EXAMPLES)) {
    if (entry.path().extension() != ".tile") continue;
    const program::Program p = example(entry.path().stem());
    const auto t0 = std::chrono::steady_clock::now();
    const Timeline fast = walk(p, middle(p), card());
    const auto t1 = std::chrono::steady_clock::now();
    const Timeline full = walk(p, middle(p), card(), {.jump = false});
    const auto t2 = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::milli> a = t1 - t0, b = t2 - t1;
    printf("%-16s %10.3f us  full %10.3f us  read %ld written %ld macs %ld pt %.3f us   host %.3f ms, full %.3f ms\n",
           entry.path().stem().c_str(), fast.total_ps * 1e-6, full.total_ps * 1e-6, fast.calls[0].bytes_read,
           fast.calls[0].bytes_written, fast.calls[0].macs, fast.calls[0].pt_busy_ps * 1e-6, a.count(), b.count());
    EXPECT_EQ(fast.total_ps, full.total_ps) << entry.path();
  }
}

}  // namespace
}  // namespace spyre::timing
