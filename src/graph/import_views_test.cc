// Views, and the operations that move elements: every result against indices computed by hand.
#include "graph/import_for_test.h"
#include "graph/size_range.h"
#include "graph/views.h"

namespace spyre::graph {
namespace {

TEST(SizeRange, IntervalsOfExpressions) {
  const std::vector<Symbol> symbols = {{"n", 2, 10}, {"m", 0, INT64_MAX}};
  const Size n = Size::symbol(0), m = Size::symbol(1);
  const auto range = [&](const Size& s) {
    const SizeRange r = range_of(s, symbols);
    return std::pair(r.lo, r.hi);
  };
  EXPECT_EQ(range(n * 3 - 1), std::pair(int64_t{5}, int64_t{29}));
  EXPECT_EQ(range(Size(0) - m), std::pair(INT64_MIN, int64_t{0}));
  EXPECT_EQ(range(Size::floor_div(n - 4, 3)), std::pair(int64_t{-1}, int64_t{2}));
  EXPECT_EQ(range(Size::floor_div(n, n * 2 + 1)).second, 2);
  EXPECT_EQ(range(Size::min(m, n)).second, 10);
  EXPECT_TRUE(provably_at_most(n, 10, symbols));
  EXPECT_FALSE(provably_at_most(n, 9, symbols));
  EXPECT_TRUE(provably_at_most(n, n + m, symbols));
}

TEST(Views, DoNotAddNodes) {
  Import g;
  const Size n = Size::symbol(g.builder.symbol("n", 1, 100));
  const Ref x = g.in(f32, {n, 4, 6});
  const Ref heads = g.op("aten::permute", {g.op("aten::view", {x, Sizes{n, 4, 2, 3}}), Sizes{0, 2, 1, 3}});
  EXPECT_EQ(heads.sizes, (Sizes{n, 2, 4, 3}));
  EXPECT_EQ(heads.strides, (Sizes{24, 3, 6, 1}));
  EXPECT_EQ(g.op("aten::view", {x, Sizes{-1, 6}}).sizes, (Sizes{n * 4, 6}));
  EXPECT_EQ(g.op("aten::reshape", {g.op("aten::transpose.int", {heads, Size(1), Size(2)}), Sizes{n, 4, 6}}), x);
  const Ref last = g.op("aten::select.int", {x, Size(1), Size(-1)});
  EXPECT_EQ(last.offset, Size(18));
  EXPECT_EQ(g.op("aten::slice.Tensor", {x, Size(2), Size(1), Size(INT64_MAX), Size(2)}).sizes, (Sizes{n, 4, 3}));
  EXPECT_EQ(g.op("aten::slice.Tensor", {x, Size(2), Size(-2), None}).offset, Size(4));
  EXPECT_EQ(g.op("aten::slice.Tensor", {x, Size(2), Size(4), Size(2)}).sizes[2], Size(0));
  EXPECT_EQ(g.op("aten::expand", {g.op("aten::unsqueeze", {last, Size(1)}), Sizes{n, 5, -1}}).strides,
            (Sizes{24, 0, 1}));
  EXPECT_EQ(g.op("aten::squeeze.dim", {g.op("aten::unsqueeze", {last, Size(-1)}), Size(-1)}), last);
  EXPECT_EQ(g.op("aten::flatten.using_ints", {x, Size(1), Size(-1)}).sizes, (Sizes{n, 24}));
  EXPECT_EQ(std::get<std::vector<Ref>>(g.all("aten::split.Tensor", {x, Size(4), Size(-1)})[0])[1].sizes,
            (Sizes{n, 4, 2}));
  EXPECT_EQ(std::get<std::vector<Ref>>(g.all("aten::unbind.int", {x, Size(1)})[0])[3], last);
  EXPECT_EQ(g.op("aten::movedim.intlist", {x, Sizes{0}, Sizes{-1}}).sizes, (Sizes{4, 6, n}));
  EXPECT_TRUE(g.builder.graph().nodes.empty());
  refused(g, "aten::view", {x, Sizes{n, 23}}, "elements");
  refused(g, "aten::expand", {x, Sizes{n, 5, 6}}, "don't broadcast");
  refused(g, "aten::select.int", {x, Size(1), Size(4)}, "index 4 of 4");
  refused(g, "aten::unbind.int", {x, Size(0)}, "same for every size");
  refused(g, "aten::as_strided", {x, Sizes{2}, Sizes{1}, Size(0)}, "storage_offset");
}

TEST(Views, ASliceUsesWhatIsKnownOfSymbols) {
  Import g;
  const Size n = Size::symbol(g.builder.symbol("n", 1, 512)), m = Size::symbol(g.builder.symbol("m", 1, 1000));
  const Ref table = g.in(f32, {512, 2});
  EXPECT_EQ(g.op("aten::slice.Tensor", {table, Size(0), Size(0), n}).sizes[0], n);
  EXPECT_EQ(g.op("aten::slice.Tensor", {table, Size(0), Size(0), m}).sizes[0], Size::min(m, 512));
}

TEST(Views, AReshapeThatIsNoViewCopies) {
  Import g;
  const Size n = Size::symbol(g.builder.symbol("n", 1, 100));
  const Ref x = g.in(f32, {n, 3});
  const Ref y = g.op("aten::reshape", {g.op("aten::t", {x}), Sizes{n * 3}});
  EXPECT_EQ(g.builder.graph().nodes.size(), 1u);
  near(g.run(y, {{0, 1, 2, 3, 4, 5}}, {2}), {0, 3, 1, 4, 2, 5});
  near(g.run(y, {{0, 1, 2}}, {1}), {0, 1, 2});
}

TEST(Views, OfViewsReadTheRightElements) {
  Import g;
  const Ref x = g.in(f32, {4, 6});
  const Values in = count_up(24);
  const Ref part = g.op("aten::slice.Tensor", {g.op("aten::t", {x}), Size(0), Size(1), Size(6), Size(2)});
  near(g.run(g.op("aten::select.int", {part, Size(1), Size(2)}), {in}), {13, 15, 17});
  near(g.run(g.op("aten::diagonal", {x, Size(1)}), {in}), {1, 8, 15, 22});
  near(g.run(g.op("aten::diagonal", {x, Size(-2)}), {in}), {12, 19});
  near(g.run(g.op("aten::unfold", {g.op("aten::select.int", {x, Size(0), Size(1)}), Size(0), Size(3), Size(2)}), {in}),
       {6, 7, 8, 8, 9, 10});
  near(g.run(g.op("aten::as_strided", {x, Sizes{2, 2}, Sizes{7, 2}}), {in}), {0, 2, 7, 9});
}

TEST(Places, CatStackAndPad) {
  Import g;
  const Size n = Size::symbol(g.builder.symbol("n", 1, 100));
  const Ref x = g.in(f32, {n, 2}), y = g.in(i64, {n, 1}), empty = g.in(f32, {0});
  const std::vector<Values> in = {{1, 2, 3, 4}, {5, 6}, {}};
  near(g.run(g.op("aten::cat", {std::vector<Ref>{x, empty, y}, Size(-1)}), in, {2}), {1, 2, 5, 3, 4, 6});
  near(g.run(g.op("aten::cat", {std::vector<Ref>{x, x}}), {{1, 2}, {5}, {}}, {1}), {1, 2, 1, 2});
  near(g.run(g.op("aten::stack", {std::vector<Ref>{x, x}, Size(1)}), in, {2}), {1, 2, 1, 2, 3, 4, 3, 4});
  near(g.run(g.op("aten::constant_pad_nd", {x, Sizes{1, -1, 0, 1}, 9.0}), in, {2}), {9, 1, 9, 3, 9, 9});
  near(g.run(g.op("aten::slice_scatter", {x, g.op("aten::neg", {x}), Size(1), Size(0), Size(INT64_MAX)}), in, {2}),
       {-1, -2, -3, -4});
  near(g.run(g.op("aten::select_scatter", {x, g.op("aten::select.int", {x, Size(1), Size(0)}), Size(1), Size(1)}), in,
             {2}),
       {1, 1, 3, 3});
  refused(g, "aten::cat", {std::vector<Ref>{x, y}, Size(0)}, "known to be equal");
}

TEST(Places, RepeatFlipRollTriangles) {
  Import g;
  const Ref x = g.in(f32, {2, 3});
  const std::vector<Values> in = {{1, 2, 3, 4, 5, 6}};
  near(g.run(g.op("aten::repeat", {x, Sizes{2, 1, 2}}), in),
       {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  near(g.run(g.op("aten::flip", {x, Sizes{-1}}), in), {3, 2, 1, 6, 5, 4});
  near(g.run(g.op("aten::roll", {x, Sizes{1}, Sizes{1}}), in), {3, 1, 2, 6, 4, 5});
  near(g.run(g.op("aten::roll", {x, Sizes{-2}}), in), {3, 4, 5, 6, 1, 2});
  near(g.run(g.op("aten::tril", {x, Size(0)}), in), {1, 0, 0, 4, 5, 0});
  near(g.run(g.op("aten::triu", {x, Size(1)}), in), {0, 2, 3, 0, 0, 6});
}

TEST(Index, EmbeddingAndIndexSelect) {
  Import g;
  const Size n = Size::symbol(g.builder.symbol("n", 1, 100));
  const Ref w = g.in(f32, {4, 2}), ids = g.in(i64, {2, n});
  const Ref e = g.op("aten::embedding", {w, ids});
  near(g.run(e, {count_up(8), {3, 0}}, {1}), {6, 7, 0, 1});
  near(g.run(e, {count_up(8), {3, 0, 1, 1}}, {2}), {6, 7, 0, 1, 2, 3, 2, 3});
  EXPECT_THROW(g.run(e, {count_up(8), {4, 0}}, {1}), Error);
  EXPECT_THROW(g.run(e, {count_up(8), {-1, 0}}, {1}), Error);
  Import h;
  near(h.run(h.op("aten::index_select", {h.in(f32, {2, 3}), Size(1), h.in(i64, {2})}), {count_up(6), {2, 0}}),
       {2, 0, 5, 3});
}

TEST(Index, IndicesInEveryPlaceWrapAndTrap) {
  Import g;
  const Ref x = g.in(f32, {3, 4, 2}), i = g.in(i64, {2}), j = g.in(i64, {2, 1});
  using Indices = std::vector<std::optional<Ref>>;
  const Values in = count_up(24);
  const auto run = [&](Indices at, Values a = {2, -3}, Values b = {-1, 1}) {
    return g.run(g.op("aten::index.Tensor", {x, std::move(at)}), {in, a, b});
  };
  EXPECT_EQ(run({i}), (Values{16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(run({std::nullopt, i}, {3, 0}), (Values{6, 7, 0, 1, 14, 15, 8, 9, 22, 23, 16, 17}));
  EXPECT_EQ(run({i, j}), (Values{22, 23, 6, 7, 18, 19, 2, 3}));
  EXPECT_EQ(run({i, std::nullopt, j}, {0, 1}, {0, 1}), (Values{0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15}));
  EXPECT_THROW(run({i}, {3, 0}), Error);
  EXPECT_THROW(run({i}, {-4, 0}), Error);
  refused(g, "aten::index.Tensor", {x, Indices{g.in(b8, {3})}}, "indices of bool");
}

TEST(Index, GatherReadsAlongOneDimension) {
  Import g;
  const Ref y = g.op("aten::gather", {g.in(f32, {2, 3}), Size(1), g.in(i64, {2, 2})});
  EXPECT_EQ(g.run(y, {count_up(6), {2, 0, 1, 1}}), (Values{2, 0, 4, 4}));
}

TEST(Scatters, PutSetAddAndReduce) {
  Import g;
  using Indices = std::vector<std::optional<Ref>>;
  const Ref x = g.in(f32, {2, 3}), i = g.in(i64, {2}), v = g.in(f32, {2, 2}), k = g.in(i64, {2, 2});
  const std::vector<Values> in = {{0, 1, 2, 3, 4, 5}, {-1, 0}, {10, 20, 30, 40}, {2, 0, 1, 1}};
  EXPECT_EQ(g.run(g.op("aten::index_put", {x, Indices{std::nullopt, i}, v, false}), in),
            (Values{20, 1, 10, 40, 4, 30}));
  EXPECT_EQ(g.run(g.op("aten::index_put", {x, Indices{std::nullopt, i}, v, true}), in), (Values{20, 1, 12, 43, 4, 35}));
  EXPECT_EQ(g.run(g.op("aten::scatter.src", {x, Size(1), k, v}), in), (Values{20, 1, 10, 3, 40, 5}));
  EXPECT_EQ(g.run(g.op("aten::scatter.value", {x, Size(1), k, 7.0}), in), (Values{7, 1, 7, 3, 7, 5}));
  EXPECT_EQ(g.run(g.op("aten::scatter_add", {x, Size(1), k, v}), in), (Values{20, 1, 12, 3, 74, 5}));
  EXPECT_EQ(g.run(g.op("aten::scatter_reduce.two", {x, Size(1), k, v, std::string("amin"), true}), in),
            (Values{0, 1, 2, 3, 4, 5}));
  const Ref rows = g.in(i64, {1}), row = g.in(f32, {1, 3});
  std::vector<Values> more = in;
  more.push_back({1});
  more.push_back({1, 2, 3});
  EXPECT_EQ(g.run(g.op("aten::index_add", {x, Size(0), rows, row, 2.0}), more), (Values{0, 1, 2, 5, 8, 11}));
  EXPECT_EQ(g.run(g.op("aten::index_copy", {x, Size(0), rows, row}), more), (Values{0, 1, 2, 1, 2, 3}));
  refused(g, "aten::scatter_add", {k, Size(1), k, k}, "accumulation of int64");
}

TEST(Order, ScansAndSorts) {
  Import g;
  const Ref x = g.in(f32, {2, 3}), i = g.in(b8, {2, 3});
  const std::vector<Values> in = {{2, 1, 3, 4, 4, -1}, {1, 0, 1, 1, 1, 0}};
  EXPECT_EQ(g.run(g.op("aten::cumsum", {x, Size(-1)}), in), (Values{2, 3, 6, 4, 8, 7}));
  EXPECT_EQ(g.run(g.op("aten::cumprod", {x, Size(0)}), in), (Values{2, 1, 3, 8, 4, -3}));
  const Ref counted = g.op("aten::cumsum", {i, Size(1)});
  EXPECT_EQ(g.builder.type(counted), i64);
  EXPECT_EQ(g.run(counted, in), (Values{1, 1, 2, 1, 2, 2}));
  const auto top = g.all("aten::topk", {x, Size(2), Size(-1), true, true});
  EXPECT_EQ(g.run(std::get<Ref>(top[0]), in), (Values{3, 2, 4, 4}));
  EXPECT_EQ(g.run(std::get<Ref>(top[1]), in), (Values{2, 0, 0, 1}));
  EXPECT_EQ(g.run(std::get<Ref>(g.all("aten::sort.stable", {x, true, Size(1), false})[1]), in),
            (Values{1, 0, 2, 2, 0, 1}));
  EXPECT_EQ(g.run(std::get<Ref>(g.all("aten::cummax", {x, Size(1)})[1]), in), (Values{0, 0, 2, 0, 1, 1}));
  near(g.run(g.op("aten::logcumsumexp", {x, Size(0)}), in),
       {2, 1, 3, std::log(std::exp(2) + std::exp(4)), std::log(std::exp(1) + std::exp(4)),
        std::log(std::exp(3) + std::exp(-1))});
  EXPECT_EQ(g.run(g.op("aten::cumsum", {g.in(f32, {}), Size(0)}), {in[0], in[1], {3}}), (Values{3}));
  refused(g, "aten::topk", {x, Size(4)}, "at most the size");
}

}  // namespace
}  // namespace spyre::graph
