// Reductions, normalisations, products, convolution and attention against double references.
#include <algorithm>
#include <functional>

#include "graph/import_for_test.h"

namespace spyre::graph {
namespace {

TEST(Reductions, OverDimensionsAndAll) {
  Import g;
  const Size n = Size::symbol(g.builder.symbol("n", 1, 100));
  const Ref x = g.in(f32, {n, 3});
  const std::vector<Values> in = {{1, 5, 3, -2, 7, 0}};
  const auto run = [&](std::string_view op, std::vector<Arg> more, size_t result = 0) {
    std::vector<Arg> args{x};
    args.insert(args.end(), more.begin(), more.end());
    return g.run(std::get<Ref>(g.all(op, args).at(result)), in, {2});
  };
  near(run("aten::sum", {}), {14});
  near(run("aten::sum.dim_IntList", {Sizes{0}, false}), {-1, 12, 3});
  near(run("aten::mean.dim", {Sizes{0}, true}), {-0.5, 6, 1.5});
  near(run("aten::mean", {}), {14.0 / 6});
  near(run("aten::amax", {Sizes{-1}, true}), {5, 7});
  near(run("aten::amin", {Sizes{}}), {-2});
  near(run("aten::max.dim", {Size(1)}, 1), {1, 1});
  near(run("aten::min.dim", {Size(0)}, 0), {-2, 5, 0});
  near(run("aten::argmax", {}), {4});
  near(run("aten::prod.dim_int", {Size(1)}), {15, 0});
  near(run("aten::any", {}), {1});
  near(run("aten::all.dim", {Size(1)}), {1, 0});
  near(run("aten::logsumexp", {Sizes{0}}),
       {std::log(std::exp(1) + std::exp(-2)), std::log(std::exp(5) + std::exp(7)), std::log(std::exp(3) + 1)});
  near(run("aten::linalg_vector_norm", {Size(2), Sizes{1}}), {std::sqrt(35.0), std::sqrt(53.0)});
  near(run("aten::linalg_vector_norm", {infinity, Sizes{1}}), {5, 7});
  near(run("aten::linalg_vector_norm", {3.0, None}), {std::cbrt(1 + 125 + 27 + 8 + 343.0)});
  near(run("aten::var.correction", {Sizes{0}, Size(1), false}), {4.5, 2, 4.5});
  near(run("aten::std.correction", {Sizes{0}, Size(0), false}), {1.5, 1, 1.5});
  near(run("aten::var_mean.correction", {Sizes{1}, Size(0), true}, 1), {3, 5.0 / 3});
  EXPECT_EQ(g.op("aten::var_mean.correction", {x, Sizes{1}, Size(0), true}).sizes, (Sizes{n, 1}));
  EXPECT_EQ(g.run(g.op("aten::mean.dim", {x, Sizes{0}}), {{1, 2, 3}}, {1}), (Values{1, 2, 3}));
  refused(g, "aten::sum.dim_IntList", {x, Sizes{0, 0}}, "twice");
  refused(g, "aten::mean", {g.in(i64, {2})}, "mean of int64");
}

TEST(Reductions, OfIntegersAndBools) {
  Import g;
  const Ref i = g.in(i64, {3}), b = g.in(b8, {3}), none_at_all = g.in(f32, {0});
  const std::vector<Values> in = {{2, -3, 4}, {1, 0, 1}, {}};
  const Ref total = g.op("aten::sum", {b});
  EXPECT_EQ(g.builder.type(total), i64);
  EXPECT_EQ(g.run(total, in), (Values{2}));
  EXPECT_EQ(g.run(g.op("aten::prod", {i}), in), (Values{-24}));
  EXPECT_EQ(g.run(g.op("aten::amax", {b, Sizes{0}}), in), (Values{1}));
  EXPECT_EQ(g.run(g.op("aten::sum", {none_at_all}), in), (Values{0}));
  EXPECT_EQ(g.run(g.op("aten::any", {b}), in), (Values{1}));
  EXPECT_THROW(g.run(g.op("aten::sum", {i}), {{2147483647, 1, 0}, {0, 0, 0}, {}}), Error);
  refused(g, "aten::amax", {none_at_all, Sizes{0}}, "no elements");
}

TEST(Norms, SoftmaxOfMaskedRows) {
  Import g;
  const Ref x = g.in(f16, {3, 2});
  const std::vector<Values> in = {{1, 3, -infinity, 2, -infinity, -infinity}};
  const double e = 1 / (1 + std::exp(2));
  near(g.run(g.op("aten::_softmax", {x, Size(-1), false}), in), {e, 1 - e, 0, 1, NAN, NAN});
  near(g.run(g.op("aten::_safe_softmax", {x, Size(-1)}), in), {e, 1 - e, 0, 1, 0, 0});
  near(g.run(g.op("aten::_log_softmax", {x, Size(-1), true}), in),
       {std::log(e), std::log(1 - e), -infinity, 0, NAN, NAN});
  EXPECT_EQ(g.builder.type(g.op("aten::_softmax", {x, Size(-1), true})), f32);
  near(g.run(g.op("aten::_softmax", {x, Size(0), false}), {{0, 1, 0, 1, 0, 1}}), Values(6, 1.0 / 3));
}

struct Rows {
  Values out, mean, rstd;
};
Rows normalised(const Values& x, size_t width, double eps) {
  Rows r;
  for (size_t row = 0; row < x.size(); row += width) {
    double mean = 0, var = 0;
    for (size_t i = 0; i < width; ++i) mean += x[row + i] / static_cast<double>(width);
    for (size_t i = 0; i < width; ++i) var += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<double>(width);
    r.mean.push_back(mean);
    r.rstd.push_back(1 / std::sqrt(var + eps));
    for (size_t i = 0; i < width; ++i) r.out.push_back((x[row + i] - mean) * r.rstd.back());
  }
  return r;
}

TEST(Norms, LayerGroupBatchAndRms) {
  Import g;
  const Size n = Size::symbol(g.builder.symbol("n", 1, 100));
  const Ref x = g.in(f32, {n, 4, 3}), w = g.in(f32, {3}), b = g.in(f32, {3}), c = g.in(f32, {4});
  const std::vector<Values> in = {pattern(24), {1, 2, 3}, {0.5, 0, -0.5}, {1, 2, 3, 4}};
  const auto layer = g.all("aten::native_layer_norm", {x, Sizes{3}, w, b, 1e-5});
  const Rows rows = normalised(in[0], 3, 1e-5);
  Values want = rows.out;
  for (size_t i = 0; i < want.size(); ++i) want[i] = want[i] * in[1][i % 3] + in[2][i % 3];
  near(g.run(std::get<Ref>(layer[0]), in, {2}), want);
  near(g.run(std::get<Ref>(layer[2]), in, {2}), rows.rstd);
  EXPECT_EQ(std::get<Ref>(layer[1]).sizes, (Sizes{n, 4, 1}));

  const auto group = g.all("aten::native_group_norm", {x, c, None, n, Size(4), Size(3), Size(2), 1e-5});
  const Rows groups = normalised(in[0], 6, 1e-5);
  want = groups.out;
  for (size_t i = 0; i < want.size(); ++i) want[i] *= in[3][i / 3 % 4];
  near(g.run(std::get<Ref>(group[0]), in, {2}), want);
  near(g.run(std::get<Ref>(group[1]), in, {2}), groups.mean);
  EXPECT_EQ(std::get<Ref>(group[1]).sizes, (Sizes{n, 2}));

  want.clear();
  for (size_t i = 0; i < 24; ++i)
    want.push_back((in[0][i] - in[3][i / 3 % 4]) / std::sqrt(in[3][i / 3 % 4] + 0.1) * in[3][i / 3 % 4]);
  near(g.run(g.op("aten::_native_batch_norm_legit_no_training", {x, c, None, c, c, 0.1, 0.1}), in, {2}), want);

  want.clear();
  for (size_t i = 0; i < 24; ++i) {
    const size_t row = i / 3 * 3;
    const double square =
        (in[0][row] * in[0][row] + in[0][row + 1] * in[0][row + 1] + in[0][row + 2] * in[0][row + 2]) / 3;
    want.push_back(in[0][i] / std::sqrt(square + 1e-6) * in[1][i % 3]);
  }
  near(g.run(g.op("aten::_fused_rms_norm", {x, Sizes{3}, w, 1e-6}), in, {2}), want);
  refused(g, "aten::native_layer_norm", {x, Sizes{4}, None, None, 1e-5}, "normalized_shape");
}

/// [m, k] x [k, n]
Values product(const Values& a, const Values& b, size_t m, size_t k, size_t n) {
  Values out(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t l = 0; l < k; ++l) out[i * n + j] += a[i * k + l] * b[l * n + j];
  return out;
}

TEST(Products, MatricesOfViews) {
  Import g;
  const Size m = Size::symbol(g.builder.symbol("m", 1, 100));
  const Ref a = g.in(f16, {m, 3}), w = g.in(f16, {4, 3}), bias = g.in(f16, {4});
  const Values wt = {-2, -0.25, 1.5, -1, 0.75, -1.75, 0, 1.75, -0.75, 1, -1.5, 0.25}, bs = {1, 2, 3, 4};
  Values w_transposed(12);
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = 0; j < 3; ++j) w_transposed[j * 4 + i] = wt[i * 3 + j];
  const Ref t = g.op("aten::t", {w});
  for (const int64_t rows : {1, 5}) {
    const auto r = static_cast<size_t>(rows);
    const Values x = pattern(r * 3), plain = product(x, w_transposed, r, 3, 4);
    near(g.run(g.op("aten::mm", {a, t}), {x, wt, bs}, {rows}), plain);
    near(g.run(g.op("aten::matmul", {a, t}), {x, wt, bs}, {rows}), plain);
    Values want = plain, scaled = plain;
    for (size_t i = 0; i < want.size(); ++i) want[i] += bs[i % 4], scaled[i] = 2 * plain[i] + 0.5 * bs[i % 4];
    near(g.run(g.op("aten::addmm", {bias, a, t, Size(1), Size(1)}), {x, wt, bs}, {rows}), want);
    near(g.run(g.op("aten::linear", {a, w, bias}), {x, wt, bs}, {rows}), want);
    near(g.run(g.op("aten::addmm", {bias, a, t, 0.5, 2.0}), {x, wt, bs}, {rows}), scaled);
    near(g.run(g.op("aten::addmm", {bias, a, t, Size(0), Size(1)}), {x, wt, {NAN, NAN, NAN, NAN}}, {rows}), plain);
  }
  refused(g, "aten::mm", {a, w}, "must be equal");
  refused(g, "aten::mm", {a, g.in(f32, {3, 4})}, "two types");
}

TEST(Products, BatchesVectorsAndOuterProducts) {
  Import g;
  const Ref a = g.in(f32, {2, 1, 2, 3}), b = g.in(f32, {2, 3, 2}), v = g.in(f32, {3});
  const std::vector<Values> in = {pattern(12), pattern(12, 0.5), {1, 2, 3}};
  Values want;
  for (size_t i = 0; i < 2; ++i)
    for (size_t j = 0; j < 2; ++j) {
      const auto begin = [](const Values& x, size_t at) {
        return Values(x.begin() + static_cast<long>(at), x.begin() + static_cast<long>(at) + 6);
      };
      const Values p = product(begin(in[0], i * 6), begin(in[1], j * 6), 2, 3, 2);
      want.insert(want.end(), p.begin(), p.end());
    }
  near(g.run(g.op("aten::matmul", {a, b}), in), want);
  near(g.run(g.op("aten::bmm", {g.op("aten::squeeze.dim", {a, Size(1)}), b}), in), [&] {
    Values w(want.begin(), want.begin() + 4);
    w.insert(w.end(), want.begin() + 12, want.end());
    return w;
  }());
  near(g.run(g.op("aten::matmul", {v, b}), in), [&] {
    Values w;
    for (size_t j = 0; j < 2; ++j)
      for (size_t n = 0; n < 2; ++n)
        w.push_back(in[1][j * 6 + n] + 2 * in[1][j * 6 + 2 + n] + 3 * in[1][j * 6 + 4 + n]);
    return w;
  }());
  near(g.run(g.op("aten::dot", {v, v}), in), {14});
  near(g.run(g.op("aten::matmul", {v, v}), in), {14});
  const Ref column = g.op("aten::unsqueeze", {v, Size(1)}), row = g.op("aten::unsqueeze", {v, Size(0)});
  const size_t before = g.builder.graph().nodes.size();
  near(g.run(g.op("aten::mm", {column, row}), in), {1, 2, 3, 2, 4, 6, 3, 6, 9});
  EXPECT_EQ(g.builder.graph().nodes[before].kind.index(), 0u) << "an outer product is a map";
  Import h;
  const Ref i = h.in(i64, {1, 2});
  EXPECT_EQ(h.run(h.op("aten::mm", {i, h.op("aten::t", {i})}), {{3, 4}}), (Values{25}));
  EXPECT_THROW(h.run(h.op("aten::mm", {i, h.op("aten::t", {i})}), {{46341, 4}}), Error);
}

TEST(Convolution, PaddingStrideDilationGroupsAndBias) {
  for (const int groups : {1, 2}) {
    for (const int variant : {0, 1, 2}) {
      SCOPED_TRACE(groups * 10 + variant);
      const int stride = variant == 1 ? 2 : 1, padding = variant == 0 ? 0 : 1, dilation = variant == 2 ? 2 : 1;
      const int batch = 2, channels = 2, outputs = 4, height = 5, width = 6, kh = 2, kw = 3, cg = channels / groups,
                og = outputs / groups;
      Import g;
      const Size n = Size::symbol(g.builder.symbol("n", 1, 100));
      const Ref x = g.in(f32, {n, channels, height, width}), w = g.in(f32, {outputs, cg, kh, kw}),
                b = g.in(f32, {outputs});
      const Ref y = g.op("aten::convolution", {x, w, b, Sizes{stride, stride}, Sizes{padding, padding},
                                               Sizes{dilation, dilation}, false, Sizes{0, 0}, Size(groups)});
      const Values xs = pattern(static_cast<size_t>(batch * channels * height * width)),
                   ws = pattern(static_cast<size_t>(outputs * cg * kh * kw), 0.5), bs = {1, 2, 3, 4};
      const int oh = (height + 2 * padding - dilation * (kh - 1) - 1) / stride + 1,
                ow = (width + 2 * padding - dilation * (kw - 1) - 1) / stride + 1;
      Values want;
      for (int i = 0; i < batch; ++i)
        for (int o = 0; o < outputs; ++o)
          for (int r = 0; r < oh; ++r)
            for (int s = 0; s < ow; ++s) {
              double sum = bs[static_cast<size_t>(o)];
              for (int c = 0; c < cg; ++c)
                for (int u = 0; u < kh; ++u)
                  for (int v = 0; v < kw; ++v) {
                    const int h = r * stride - padding + u * dilation, q = s * stride - padding + v * dilation,
                              ci = o / og * cg + c;
                    if (h < 0 || h >= height || q < 0 || q >= width) continue;
                    sum += xs[static_cast<size_t>(((i * channels + ci) * height + h) * width + q)] *
                           ws[static_cast<size_t>(((o * cg + c) * kh + u) * kw + v)];
                  }
              want.push_back(sum);
            }
      EXPECT_EQ(y.sizes, (Sizes{n, outputs, oh, ow}));
      near(g.run(y, {xs, ws, bs}, {batch}), want);
    }
  }
  Import g;
  refused(g, "aten::convolution",
          {g.in(f32, {1, 1, 4}), g.in(f32, {1, 1, 2}), None, Sizes{1}, Sizes{0}, Sizes{1}, true, Sizes{0}, Size(1)},
          "transposed");
}

TEST(Convolution, Pooling) {
  Import g;
  const Ref x = g.in(f32, {1, 4, 4});
  const Values in = count_up(16);
  near(g.run(g.op("aten::avg_pool2d", {x, Sizes{2, 2}}), {in}), {2.5, 4.5, 10.5, 12.5});
  near(g.run(g.op("aten::max_pool2d", {x, Sizes{3}, Sizes{2}, Sizes{1}}), {in}), {5, 7, 13, 15});
}

struct AttentionCase {
  size_t heads, groups;
  bool causal;
  int mask;  // 0 none, 1 float, 2 bool
};

TEST(AttentionImport, VariantsMasksAndGroups) {
  const size_t batch = 2, sq = 3, sk = 3, d = 4, dv = 2;
  for (const AttentionCase& c : {AttentionCase{2, 2, false, 0}, {4, 2, false, 1}, {4, 1, false, 2}, {2, 2, true, 0}}) {
    SCOPED_TRACE(c.heads * 100 + c.groups * 10 + static_cast<size_t>(c.mask));
    Import g;
    const auto size = [](size_t n) { return Size(static_cast<int64_t>(n)); };
    // q comes as [B, S, H, D], seen as [B, H, S, D].
    const Ref q =
        g.op("aten::transpose.int", {g.in(f32, {size(batch), size(sq), size(c.heads), size(d)}), Size(1), Size(2)});
    const Ref k = g.in(f32, {size(batch), size(c.groups), size(sk), size(d)}),
              v = g.in(f32, {size(batch), size(c.groups), size(sk), size(dv)});
    const Ref mask = g.in(c.mask == 2 ? b8 : f32, {size(batch), 1, 1, size(sk)});
    const Values qs = pattern(batch * sq * c.heads * d), ks = pattern(batch * c.groups * sk * d, 0.5),
                 vs = pattern(batch * c.groups * sk * dv);
    Values ms = c.mask == 2 ? Values{1, 0, 1, 0, 0, 0} : Values{0, -infinity, 0.5, 1, 0, -1};
    Values want, sums;
    for (size_t b = 0; b < batch; ++b)
      for (size_t h = 0; h < c.heads; ++h)
        for (size_t i = 0; i < sq; ++i) {
          Values row(dv);
          double sum = 0;
          for (size_t j = 0; j < sk; ++j) {
            const size_t kv = (b * c.groups + h / (c.heads / c.groups)) * sk + j;
            double score = 0;
            for (size_t e = 0; e < d; ++e) score += 0.5 * qs[((b * sq + i) * c.heads + h) * d + e] * ks[kv * d + e];
            if (c.mask == 1) score += ms[b * sk + j];
            const double p = (c.mask == 2 && ms[b * sk + j] == 0) || (c.causal && j > i) ? 0 : std::exp(score);
            sum += p;
            for (size_t e = 0; e < dv; ++e) row[e] += p * vs[kv * dv + e];
          }
          for (size_t e = 0; e < dv; ++e) want.push_back(sum == 0 ? 0 : row[e] / sum);
          sums.push_back(std::log(sum));
        }
    const Arg m = c.mask ? Arg(mask) : Arg(None);
    const std::vector<Values> in = {qs, ks, vs, ms};
    const auto flash = g.all("aten::_scaled_dot_product_flash_attention_for_cpu", {q, k, v, 0.0, c.causal, m});
    const Ref out = std::get<Ref>(flash[0]);
    near(g.run(out, in), want);
    near(g.run(std::get<Ref>(flash[1]), in), sums);
    EXPECT_EQ(out.strides[1], size(dv)) << "laid out as q";
    near(g.run(g.op("aten::scaled_dot_product_attention", {q, k, v, m, 0.0, c.causal, 0.5, true}), in), want);
    near(g.run(g.op("aten::_scaled_dot_product_fused_attention_overrideable", {q, k, v, m, 0.0, c.causal, false}), in),
         want);
    refused(g, "aten::scaled_dot_product_attention", {q, k, v, m, 0.1, false}, "dropout");
  }
}

TEST(AttentionImport, TheLogarithmsCostNothingWhenNobodyReadsThem) {
  Import g;
  const Ref q = g.in(f16, {1, 2, 3, 4});
  g.builder.output(g.op("aten::_scaled_dot_product_flash_attention_for_cpu", {q, q, q}));
  const Graph graph = std::move(g.builder).finish();
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_FALSE(std::get<Attention>(graph.nodes[0].kind).with_logsumexp);
}

}  // namespace
}  // namespace spyre::graph
