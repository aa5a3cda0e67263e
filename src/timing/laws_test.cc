// The laws against the numbers of docs/hardware.md, and prices of single steps.
#include "timing/laws.h"

#include <gtest/gtest.h>

#include "timing/test_programs.h"

namespace spyre::timing {
namespace {

using base::Format;

constexpr double us = 1e-6;

TEST(Laws, PeakMatrixRateIsThatOfTheCard) {
  // 512 rows per weight block: 72.1 TFLOP/s less 16 of 528 rows for loading weights.
  const double seconds = static_cast<double>(pt_ps(512, 128, 4096, Format::dl16, card())) * 1e-12;
  const double tflops = 2e-12 * 32 * 512 * 128 * 4096 / seconds;
  EXPECT_NEAR(tflops, 72.1 * 512 / 528, 0.1);
  EXPECT_NEAR(static_cast<double>(pt_ps(512, 128, 4096, Format::e4m3, card())) * 2,
              static_cast<double>(pt_ps(512, 128, 4096, Format::dl16, card())), 10);
}

TEST(Laws, WeightLoadingRulesSmallM) {
  const int64_t one = pt_ps(1, 128, 512, Format::dl16, card()), sixteen = pt_ps(16, 128, 512, Format::dl16, card());
  EXPECT_NEAR(static_cast<double>(one) / static_cast<double>(sixteen), 17.0 / 32, 1e-3);
}

TEST(Laws, MemoryRates) {
  MemoryWork w;
  w.core_bytes = 1 << 20;
  w.copies = 32;
  EXPECT_NEAR(static_cast<double>(memory_time(w, card()).unit_ps) * us, 32.0 * (1 << 20) / 150e3, 0.01);
  w.copies = 1;
  EXPECT_NEAR(static_cast<double>(memory_time(w, card()).unit_ps) * us, (1 << 20) / 45e3, 0.01);
  w.copies = 32;
  for (const auto& [stride, gbps] :
       {std::pair<int64_t, double>{4096, 150}, {8192, 150}, {16384, 130}, {32768, 118}, {1 << 20, 115}}) {
    w.row_split_bytes = stride;
    EXPECT_NEAR(static_cast<double>(memory_time(w, card()).unit_ps) * us, 32.0 * (1 << 20) / (gbps * 1e3), 0.01)
        << stride;
  }
}

TEST(Laws, MulticastIsBoundByItsStreams) {
  MemoryWork w;
  w.core_bytes = 1 << 20;
  w.multicast = true;
  for (const int streams : {1, 2, 3, 4, 8}) {
    w.copies = streams;
    const double gbps =
        streams * static_cast<double>(w.core_bytes) / (static_cast<double>(memory_time(w, card()).unit_ps) * 1e-3);
    // A single stream is also one core's stream.
    EXPECT_NEAR(gbps, std::min(150.0, std::min(46.0, card().memory_core_gbps) * streams), 0.1) << streams;
  }
}

TEST(Laws, ScatteredSticksAreBoundByRequestsInFlight) {
  MemoryWork w;
  w.core_bytes = 16384;
  w.requests = 4;
  const int64_t bursts = memory_time(w, card()).unit_ps;
  w.requests = 128;
  EXPECT_GT(memory_time(w, card()).unit_ps, 20 * bursts);
}

TEST(Laws, PartialSumsMeetInPairs) {
  const double one = 64 * 64 * 4 / 35.2;
  for (const auto& [group, steps] : {std::pair(1, 0), {2, 1}, {3, 2}, {8, 3}, {32, 5}}) {
    EXPECT_NEAR(static_cast<double>(psum_ps(64 * 64 * 4, group, 1, card())) * 1e-3, steps * one, 1) << group;
  }
}

TEST(Laws, RingAndPortRates) {
  EXPECT_NEAR(static_cast<double>(ring_ps(1e6, 0, card())) * 1e-3, 1e6 / 166.4, 1);
  EXPECT_NEAR(static_cast<double>(lx_port_ps(1'000'000, card())) * 1e-3, 1e6 / (128 * 1.1 * 0.8), 1);
}

int64_t time_of(const std::string& step, const std::string& buffers) {
  return timed(kernel(4096, 1024, 8,
                      fmt::format("grid(a:2, b:4) {{ core m in 0..4096 by 2048 on a {} {} }}", buffers, step)))
      .total_ps;
}

TEST(Prices, RingStepsFollowTheFullestLink) {
  const std::string buffers = "buf p f32[64,64] x1 buf q f32[64,64] x1 buf g f32[4,64,64] x1 ";
  // Along b neighbours are one node apart, along a four: more of the shifts meet on one link.
  EXPECT_GT(time_of("ring.shift q = p over a by 1", buffers), time_of("ring.shift q = p over b by 1", buffers));
  EXPECT_GT(time_of("psum p over a to all", buffers), time_of("psum p over a to 0", buffers));
}

TEST(Prices, LanesAndFunctions) {
  const std::string buffers =
      "buf p f32[64,64] x1 buf q f32[64,64] x1 buf h dl16[64,64] x1 buf i dl16[64,64] x1 buf s f32[64,1] x1 buf r "
      "f32[1,64] x1 ";
  EXPECT_GT(time_of("sfp q = exp(p)", buffers), time_of("sfp q = p + p", buffers));
  EXPECT_GT(time_of("sfp q = exp(p)", buffers), time_of("sfp i = exp(h)", buffers));
  // Across lanes a stick takes longer than across rows.
  EXPECT_GT(time_of("sfp.red s = sum(p over 1)", buffers), time_of("sfp.red r = sum(p over 0)", buffers));
}

TEST(Prices, ATransposedMatrixOperandIsMovedFirst) {
  const std::string buffers = "buf p f32[64,64] x1 buf h dl16[64,64] x1 buf i dl16[64,64] x1 ";
  EXPECT_GT(time_of("pt p += h * i^T", buffers), time_of("pt p += h * i", buffers));
}

TEST(Prices, ATransposedViewIsGatheredElementByElement) {
  const auto with = [](const char* view) {
    return timed(program::assemble(fmt::format("sym x: in {0}\nsym y: out dl16 [512,512]\nkernel k(x: in {0}, y: out "
                                               "dl16 [512,512]) cores 1 {{ grid(a:1) {{"
                                               " core m in 0..512 by 512 on a for i in m by 64 {{ buf t dl16[64,512] "
                                               "x2 ld t = x[i, 0..512] st y[i, 0..512] = t }} }} }}\n"
                                               "call k(x, y)\n",
                                               view)))
        .total_ps;
  };
  EXPECT_GT(with("dl16 [512,512] strides [1,512]"), 3 * with("dl16 [512,512]"));
}

}  // namespace
}  // namespace spyre::timing
