#include "program/place.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/error.h"
#include "program/program.h"

namespace spyre::program {
namespace {

std::map<std::string, int64_t> offsets(const std::string& body) {
  std::map<std::string, int64_t> at;
  const Program p = assemble("kernel k() cores 1 { " + body + " }");
  for (const Buffer& b : p.kernels[0].buffers) at[b.name] = b.lx_offset;
  return at;
}

TEST(Place, SlotsFollowEachOtherAndRowsAreWholeSticks) {
  const auto at = offsets("grid() { buf a f32[64,1] x2 buf b dl16[3,65] buf c i8[1] }");
  EXPECT_EQ(at.at("a"), 0);
  EXPECT_EQ(at.at("b"), 2 * 64 * 128);
  EXPECT_EQ(at.at("c"), 2 * 64 * 128 + 3 * 256);
}

TEST(Place, SiblingScopesShareBytesAndNestedOnesDoNot) {
  const auto at = offsets(
      "buf k f32[32] grid() { buf n f32[32] for i in 0..2 by 1 { buf a f32[64] for j in 0..2 by 1 { buf c f32[32] } }"
      " for i in 0..2 by 1 { buf b f32[32] } buf late f32[32] } grid() { buf other f32[32] }");
  EXPECT_EQ(at.at("k"), 0);
  EXPECT_EQ(at.at("n"), 128);
  EXPECT_EQ(at.at("late"), 256);  // lives while the loops before it run
  EXPECT_EQ(at.at("a"), 384);
  EXPECT_EQ(at.at("b"), 384);
  EXPECT_EQ(at.at("c"), 640);
  EXPECT_EQ(at.at("other"), 128);
}

TEST(Place, GivenOffsetsStayAndOthersGoAround) {
  const auto at =
      offsets("grid() { buf a f32[32] buf b f32[96] if 1 == 1 { buf fixed f32[32] x2 @128 buf c f32[32] } }");
  EXPECT_EQ(at.at("fixed"), 128);
  EXPECT_EQ(at.at("a"), 0);
  EXPECT_EQ(at.at("b"), 384);
  EXPECT_EQ(at.at("c"), 768);
}

/// Random scope trees: whoever lives at the same time shares no byte.
TEST(Place, NeverOverlapsBuffersThatLiveTogether) {
  const uint64_t seed = 42;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  struct Live {
    std::string name;
    std::string path;  // of its scope; a prefix of another path is a scope around it
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<Live> buffers;
    std::string text = "grid() { ", path = "/";
    int depth = 0;
    for (int i = 0; i < 30; ++i) {
      const auto what = random() % 4;
      if (what < 2) {
        const std::string name = "b" + std::to_string(i);
        text += "buf " + name + " f32[" + std::to_string(1 + random() % 200) + "] x" +
                std::to_string(1 + random() % 3) + " ";
        if (random() % 8 == 0 && path == "/" && buffers.empty())
          text += "@" + std::to_string(128 * (random() % 5)) + " ";
        buffers.push_back({name, path});
      } else if (what == 2) {
        text += "for i" + std::to_string(i) + " in 0..4 by 1 { ";
        path += std::to_string(i) + "/";
        ++depth;
      } else if (depth > 0) {
        text += "} ";
        path.erase(path.find_last_of('/', path.size() - 2) + 1);
        --depth;
      }
    }
    for (; depth >= 0; --depth) text += "} ";
    const Program p = assemble("kernel k() cores 1 { " + text + "}");
    const auto& placed = p.kernels[0].buffers;
    for (size_t a = 0; a < placed.size(); ++a) {
      EXPECT_EQ(placed[a].lx_offset % 128, 0);
      for (size_t b = 0; b < a; ++b) {
        if (!buffers[a].path.starts_with(buffers[b].path) && !buffers[b].path.starts_with(buffers[a].path)) continue;
        const bool apart = placed[a].lx_offset + placed[a].slots * placed[a].slot_bytes() <= placed[b].lx_offset ||
                           placed[b].lx_offset + placed[b].slots * placed[b].slot_bytes() <= placed[a].lx_offset;
        EXPECT_TRUE(apart) << placed[a].name << " and " << placed[b].name << " in " << text;
      }
    }
  }
}

}  // namespace
}  // namespace spyre::program
