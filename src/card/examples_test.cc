// The worked kernels of docs/tile_program.md section 6 against double-precision references, in every order.
#include "card/machine_for_test.h"
#include "program/example_text.h"

namespace spyre::card {
namespace {

using program::example_text;

/// Random places of an output to compare, so that references stay cheap.
std::vector<int64_t> some_of(int64_t n, int count) {
  std::vector<int64_t> places{0, n - 1};
  uint64_t x = 88172645463325252ull;
  for (int i = 0; i < count; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    places.push_back(static_cast<int64_t>(x % static_cast<uint64_t>(n)));
  }
  return places;
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

TEST(Examples, LinearWithGeluMatchesItsReference) {
  Machine m(example_text("linear"));
  const auto x = m.set("x", noise(1)), w = m.set("w", noise(2)), b = m.set("b", noise(3));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t p : some_of(1024 * 1536, 300)) {
    const int64_t i = p / 1536, j = p % 1536;
    double sum = b[j], scale = std::abs(b[j]);
    for (int64_t k = 0; k < 4096; ++k)
      sum += x[i * 4096 + k] * w[k * 1536 + j], scale += std::abs(x[i * 4096 + k] * w[k * 1536 + j]);
    EXPECT_NEAR(y[p], gelu(sum), std::abs(gelu(sum)) * dl16_rounding + scale * 1e-6) << i << "," << j;
  }
}

TEST(Examples, SplitKAddsItsPartsOverTheRing) {
  Machine m(example_text("split_k"));
  const auto x = m.set("x", noise(1)), w = m.set("w", noise(2));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t p : some_of(64 * 256, 300)) {
    double sum = 0, scale = 0;
    for (int64_t k = 0; k < 8192; ++k) {
      const double t = x[p / 256 * 8192 + k] * w[k * 256 + p % 256];
      sum += t, scale += std::abs(t);
    }
    EXPECT_NEAR(y[p], sum, std::abs(sum) * dl16_rounding + scale * 1e-6);
  }
}

void check_attention(int64_t len, bool every_way) {
  Machine m(example_text("attention"));
  const auto q = m.set("q", noise(1)), k = m.set("k", noise(2)), v = m.set("v", noise(3));
  const auto mask = m.set("mask", [](int64_t i) { return i % 7 == 3 || i / 1024 % 512 == 5 ? -INFINITY : 0.0; });
  m.scalar("len", static_cast<double>(len));
  m.scalar("scale", 0.125);
  if (every_way)
    m.run_every_way(false);
  else
    m.run();
  const auto y = m.get("y");
  for (int64_t p : some_of(96 * 512, 40)) {
    const int64_t h = p / 512, r = p % 512;
    std::vector<double> s(static_cast<size_t>(len)), out(64);
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < len; ++c) {
      double dot = 0;
      for (int64_t d = 0; d < 64; ++d) dot += q[(h * 512 + r) * 64 + d] * k[(h / 4 * 1024 + c) * 64 + d];
      s[c] = dot * 0.125 + mask[(h / 12 * 512 + r) * 1024 + c];
      top = std::max(top, s[c]);
    }
    for (int64_t c = 0; c < len; ++c) {
      const double e = top == -INFINITY ? 0 : std::exp(s[c] - top);
      sum += e;
      for (int64_t d = 0; d < 64; ++d) out[d] += e * v[(h / 4 * 1024 + c) * 64 + d];
    }
    for (int64_t d = 0; d < 64; ++d) {
      const double expected = sum > 0 ? out[d] / sum : 0;
      EXPECT_NEAR(y[p * 64 + d], expected, 3e-3) << "head " << h << " row " << r;
    }
  }
}

TEST(Examples, AttentionMasksPastAnOddLengthAndFullyMaskedRows) { check_attention(333, true); }
TEST(Examples, AttentionOfOneKey) { check_attention(1, false); }

TEST(Examples, AttentionInRandomOrder) {
  Machine m(example_text("attention"));
  m.set("q", noise(1)), m.set("k", noise(2)), m.set("v", noise(3));
  m.scalar("len", 200);
  m.scalar("scale", 0.125);
  m.set("mask", [](int64_t) { return 0.0; });
  m.run();
  const auto y = m.bytes("y");
  m.run({.random_order = true, .seed = 7});
  EXPECT_TRUE(y == m.bytes("y"));
}

TEST(Examples, PagedDecodeFollowsItsBlockTable) {
  Machine m(example_text("paged_decode"));
  const auto q = m.set("q", noise(1)), k = m.set("kcache", noise(2)), v = m.set("vcache", noise(3));
  const auto table = m.set("table", [](int64_t i) { return static_cast<double>((i * 37 + 11) % 64); });
  const auto lens = m.set("lens", [](int64_t i) { return static_cast<double>(i * 9 + 1); });
  m.scalar("blocks", 5);
  m.scalar("scale", 0.125);
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t seq = 0; seq < 8; ++seq)
    for (int64_t h = 0; h < 4; ++h) {
      const auto len = static_cast<int64_t>(lens[seq]);
      std::vector<double> s(static_cast<size_t>(len)), out(64);
      double top = -INFINITY, sum = 0;
      auto at = [&](int64_t c, int64_t d) {
        return ((static_cast<int64_t>(table[seq * 32 + c / 16]) * 4 + h) * 16 + c % 16) * 64 + d;
      };
      for (int64_t c = 0; c < len; ++c) {
        double dot = 0;
        for (int64_t d = 0; d < 64; ++d) dot += q[(seq * 4 + h) * 64 + d] * k[at(c, d)];
        s[c] = dot * 0.125;
        top = std::max(top, s[c]);
      }
      for (int64_t c = 0; c < len; ++c) {
        sum += std::exp(s[c] - top);
        for (int64_t d = 0; d < 64; ++d) out[d] += std::exp(s[c] - top) * v[at(c, d)];
      }
      for (int64_t d = 0; d < 64; ++d) EXPECT_NEAR(y[(seq * 4 + h) * 64 + d], out[d] / sum, 3e-3);
    }
}

TEST(Examples, SoftmaxOfLongRowsGathersOverTheRing) {
  Machine m(example_text("softmax"));
  const auto x = m.set("x", noise(4));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t r = 0; r < 4; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < 1048576; ++i) sum += std::exp(x[r * 1048576 + i]);
    for (int64_t i : some_of(1048576, 100)) {
      const double e = std::exp(x[r * 1048576 + i]) / sum;
      EXPECT_NEAR(y[r * 1048576 + i], e, e * (dl16_rounding + 1e-5));
    }
  }
}

TEST(Examples, LayerNormMatchesItsReference) {
  Machine m(example_text("layer_norm"));
  const auto x = m.set("x", noise(1)), g = m.set("g", noise(2)), b = m.set("b", noise(3));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t r = 0; r < 512; ++r) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < 384; ++i) mean += x[r * 384 + i] / 384;
    for (int64_t i = 0; i < 384; ++i) var += (x[r * 384 + i] - mean) * (x[r * 384 + i] - mean) / 384;
    for (int64_t i = 0; i < 384; ++i) {
      const double e = (x[r * 384 + i] - mean) / std::sqrt(var + 1e-5) * g[i] + b[i];
      EXPECT_NEAR(y[r * 384 + i], e, std::abs(e) * dl16_rounding + 1e-5);
    }
  }
}

TEST(Examples, ConvolutionClipsAtItsBorders) {
  Machine m(example_text("conv"));
  const auto x = m.set("x", noise(1)), w = m.set("w", noise(2));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t p : some_of(2 * 15 * 15 * 128, 300)) {
    const int64_t f = p % 128, ow = p / 128 % 15, oh = p / 128 / 15 % 15, n = p / 128 / 225;
    double sum = 0, scale = 0;
    for (int64_t kh = 0; kh < 3; ++kh)
      for (int64_t kw = 0; kw < 3; ++kw) {
        const int64_t ih = 2 * oh + kh - 1, iw = 2 * ow + kw - 1;
        if (ih < 0 || ih >= 30 || iw < 0 || iw >= 30) continue;
        for (int64_t c = 0; c < 80; ++c) {
          const double t = x[((n * 30 + ih) * 30 + iw) * 80 + c] * w[((kh * 3 + kw) * 80 + c) * 128 + f];
          sum += t, scale += std::abs(t);
        }
      }
    EXPECT_NEAR(y[p], sum, std::abs(sum) * dl16_rounding + scale * 1e-6) << n << " " << oh << " " << ow << " " << f;
  }
}

TEST(Examples, EmbeddingGathersRowsAndTrapsOutside) {
  Machine m(example_text("embedding"));
  const auto tab = m.set("tab", noise(1));
  const auto ids = m.set("ids", [](int64_t i) { return static_cast<double>(i * 7919 % 1000); });
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t t = 0; t < 250; ++t)
    for (int64_t c = 0; c < 576; ++c) ASSERT_EQ(y[t * 576 + c], tab[static_cast<int64_t>(ids[t]) * 576 + c]);
  m.set("ids", [](int64_t i) { return i == 77 ? 1000.0 : 0.0; });
  for (const RunOptions& options : {RunOptions{}, RunOptions{.checker = true}, RunOptions{.random_order = true}}) {
    try {
      m.run(options);
      FAIL() << "an index outside the table was accepted";
    } catch (const Error& e) {
      const std::string text = e.what();
      EXPECT_EQ(e.fault(), Fault::user);
      EXPECT_NE(text.find("aten.embedding"), std::string::npos) << text;
      EXPECT_NE(text.find("model.py:60"), std::string::npos) << text;
      EXPECT_NE(text.find("1000"), std::string::npos) << text;
    }
  }
  m.set("ids", ids);
  m.run();
  EXPECT_EQ(m.get("y")[576], tab[static_cast<int64_t>(ids[1]) * 576]);
}

TEST(Examples, CacheUpdateKeepsTheLastOfEqualPositions) {
  Machine m(example_text("kv_put"));
  auto cache = m.set("cache", noise(1));
  const auto kn = m.set("kn", noise(2));
  const auto pos = m.set("pos", [](int64_t i) { return static_cast<double>(i % 5 * 100 + 3); });
  m.run_every_way();
  for (int64_t h = 0; h < 4; ++h)
    for (int64_t t = 0; t < 16; ++t)
      for (int64_t d = 0; d < 64; ++d)
        cache[(h * 1024 + static_cast<int64_t>(pos[t])) * 64 + d] = kn[(h * 16 + t) * 64 + d];
  EXPECT_EQ(m.get("cache"), cache);
}

TEST(Examples, IndexAddCountsEveryDuplicate) {
  Machine m(example_text("index_add"));
  auto out = m.set("out", noise(1));
  const auto src = m.set("src", noise(2));
  const auto ids = m.set("ids", [](int64_t i) { return static_cast<double>(i * i % 4000); });
  m.run_every_way();
  for (int64_t t = 0; t < 500; ++t)
    for (int64_t d = 0; d < 96; ++d) out[static_cast<int64_t>(ids[t]) * 96 + d] += src[t * 96 + d];
  const auto got = m.get("out");
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(got[i], out[i], 1e-5) << i;
}

TEST(Examples, LongCumulativeSumCarriesOverCores) {
  Machine m(example_text("cumsum"));
  const auto x = m.set("x", noise(9));
  m.run_every_way();
  const auto y = m.get("y");
  double sum = 0, scale = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += x[i], scale += std::abs(x[i]);
    ASSERT_NEAR(y[i], sum, scale * 1e-6) << i;
  }
}

}  // namespace
}  // namespace spyre::card
