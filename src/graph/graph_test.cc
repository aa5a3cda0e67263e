// The text form, the rules, instances, hashes and the builder.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "graph/import.h"
#include "graph/text.h"

namespace spyre::graph {
namespace {

// Every kind of node, and every form of expression that has its own syntax.
const char* const everything = R"(
symbol s0 "batch" 1..4096
param p0 "alpha" f32
param p1 "seed" i32
input v0 "x" f16 [s0:64, 64:1]
input v1 "w" f16 [32:64, 64:1]
input v2 "ids" i64 [s0:1]
input v3 "q" bf16 [2:4096, 4:1024, 16:64, 64:1]
input v4 "kv" f16 [2:2048, 2:1024, 16:64, 64:1]
v5 f16 [s0:32, 32:1] = contract [s0:m, 32:n, 64:k] a(v0[s0:64, 32:0, 64:1]) b(v1[s0:0, 32:64, 64:1]) at "aten.mm" "model.py:1"
v6 f16 [s0:32, 32:1], v7 b8 [s0:32, 32:1] = map [s0, 32] loads(v5[s0:32, 32:1], v2[s0:1, 32:0], v1[s0:0, 32:1] gather(l1, 32, 64, trap) gather(add(iota(0), -1), s0, 0, fill) fill -1.5) value(fma(p0, l0, mul(l2, 1.0e-07)), select(lt(l1, size(2*s0 + 1)), true, is_nan(l0))) at "aten.add" ""
v8 f32 [s0:1], v9 i64 [s0:1] = reduce argmax [s0, 32] over(1) loads(v6[s0:32, 32:1]) value(l0)
v10 i64 [] = reduce sum! [s0] over(0) loads(v9[s0:1]) value(mul!(l0, i32!(floor(2.5))))
v11 bf16 [2:4096, 4:64, 16:256, 64:1], v12 f32 [2:64, 4:16, 16:1] = attention q(v3[2:4096, 4:1024, 16:64, 64:1]) k(v4[2:2048, 2:1024, 16:64, 64:1]) v(v4[2:2048, 2:1024, 16:64, 64:1]) mask(v3[2:0, 4:0, 16:0, 16:1 @ 7]) causal scale(0.125) logsumexp
v13 f16 [s0:96, 96:1] = place [s0, 96] fill(-inf) piece(v0[s0:64, 64:1] at [0:1, 0:1]) piece(v5[s0:32, 16:2] at [0:1, 64:2])
v14 f16 [s0:64, 64:1] = scatter add [s0, 64] base(v0[s0:64, 64:1]) loads(v2[s0:1, 64:0], v0[s0:64, 64:1]) value(l1) target(l0, skip) target(iota(1), trap)
v15 i32 [s0:32, 32:1] = scan sum [s0, 32] over(0) loads() value(philox2(p1, 0, add(mul(iota(0), 32), iota(1))))
v16 f16 [s0:10, 10:1], v17 i64 [s0:10, 10:1] = sort from(v6[s0:32, 32:1]) over(1) descending first(10)
output v7[s0:32, 32:1]
output v10[]
output v13[s0:96, 96:1]
output v16[s0:10, 10:1]
output v11[2:4096, 4:64, 16:256, 64:1]
mutate v0 = v14[s0:64, 64:1]
)";

TEST(GraphText, PrintsWhatItReads) {
  const Graph g = parse(everything);
  const std::string text = print(g);
  EXPECT_EQ(print(parse(text)), text);
  EXPECT_EQ(g.nodes.size(), 8u + 1u);
  EXPECT_EQ(g.nodes[1].loc.op, "aten.add");
  const Graph again = parse(text);
  EXPECT_EQ(std::get<Map>(again.nodes[1].kind).value, std::get<Map>(g.nodes[1].kind).value);
  EXPECT_EQ(std::get<Map>(again.nodes[1].kind).loads, std::get<Map>(g.nodes[1].kind).loads);
  EXPECT_EQ(std::get<Attention>(again.nodes[4].kind).mask, std::get<Attention>(g.nodes[4].kind).mask);
}

TEST(GraphText, NumbersKeepEveryBit) {
  for (double x : {0.1, -0.0, 1e300, 5e-324, 1.0, 123456789012345678.0, 1.0 / 3, -2.2250738585072011e-308}) {
    const std::string text = number_text(x);
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), x) << text;
    const Graph g = parse("v0 f32 [] = map [] loads() value(" + text + ")\noutput v0[]\n");
    const double back = std::get<Map>(g.nodes[0].kind).value[0].number;
    EXPECT_EQ(back, x);
    EXPECT_EQ(std::signbit(back), std::signbit(x));
  }
}

TEST(GraphText, ErrorsNameLineAndColumn) {
  try {
    parse("input v0 f16 [4:1]\nv1 f16 [4:1] = map [4] loads(v0[4:1]) value(frob(l0))\n");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::program);
    EXPECT_NE(std::string(e.what()).find("2:45"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("frob"), std::string::npos) << e.what();
  }
}

TEST(GraphText, DamagedTextGivesAnErrorOrAGraph) {
  const std::string text = everything;
  for (size_t cut = 0; cut < text.size(); cut += 3) {
    for (const std::string& damaged :
         {text.substr(0, cut), text.substr(0, cut) + text.substr(std::min(cut + 2, text.size())),
          text.substr(0, cut) + "(" + text.substr(cut), text.substr(0, cut) + "9" + text.substr(cut)}) {
      try {
        parse(damaged);
      } catch (const Error& e) {
        EXPECT_TRUE(e.fault() == Fault::program || e.fault() == Fault::user) << e.what();
      }
    }
  }
}

TEST(GraphText, DeepNestingIsRefused) {
  std::string deep = "1.0";
  for (int i = 0; i < 200; ++i) deep = "neg(" + deep + ")";
  EXPECT_THROW(parse("v0 f32 [] = map [] loads() value(" + deep + ")"), Error);
  EXPECT_THROW(parse("v0 f32 [" + std::string(100'000, '(') + ":1] = map [] loads() value(1.0)"), Error);
  EXPECT_THROW(parse("v0 f32 [] = map [] loads() value(" + std::string(100'000, '-') + "1.0)"), Error);
}

void refused(const std::string& text, const std::string& why) {
  try {
    parse(text);
    FAIL() << "accepted: " << text;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
  }
}

TEST(GraphRules, BrokenOnesAreNamed) {
  const std::string x = "input v0 \"x\" f16 [4:8, 8:1]\ninput v1 \"i\" i64 [4:1]\n";
  refused(x + "v2 f16 [4:8, 8:1] = map [4, 8] loads(v0[4:8, 8:2]) value(l0)", "reads elements 0 to 38");
  refused(x + "v2 f16 [4:8, 8:1] = map [4, 8] loads(v0[4:8, 8:1 @ -1]) value(l0)", "reads elements -1");
  refused(x + "v2 f16 [4:8, 8:1] = map [4, 8] loads(v0[4:8, 4:1]) value(l0)", "a load is [4, 4], not [4, 8]");
  refused(x + "v2 f16 [4:8, 8:1] = map [4, 8] loads(v0[4:8, 8:1]) value(1)", "a value is i32, not f32");
  refused(x + "v2 f16 [4:9, 8:1] = map [4, 8] loads(v0[4:8, 8:1]) value(l0)", "not dense");
  refused(x + "v2 f16 [4:8, 7:1] = map [4, 8] loads(v0[4:8, 8:1]) value(l0)", "shape of a result");
  refused(x + "v2 f64 [4:8, 8:1] = map [4, 8] loads(v0[4:8, 8:1]) value(l0)", "float64");
  refused(x + "v2 i64 [4:1] = map [4] loads(v1[4:1]) value(add(l0, 1.0))", "+ takes f32 or i32");
  refused(x + "v2 i64 [4:1] = map [4] loads(v1[4:1]) value(add(l0, iota(1)))", "iota(1)");
  refused(x + "v2 i64 [4:1] = map [4] loads(v1[4:1]) value(add(l0, 4000000000))", "outside int32");
  refused(x + "v2 f16 [4:1] = map [4] loads(v1[4:1], v0[4:8] gather(l1, 8, 1, trap)) value(l1)", "l1");
  refused(x + "v2 f16 [4:1] = map [4] loads(v1[4:1], v0[4:8] gather(l0, 9, 1, trap)) value(l1)",
          "reads elements 0 to 32");
  refused(x + "v2 f16 [] = reduce sum [4, 8] over(1, 0) loads(v0[4:8, 8:1]) value(l0)", "ascending");
  refused(x + "v2 f16 [] = reduce any [4, 8] over(0, 1) loads(v0[4:8, 8:1]) value(l0)", "any of f32");
  refused(x + "v2 f16 [8:1] = reduce sum! [4, 8] over(0) loads(v0[4:8, 8:1]) value(l0)", "trap");
  refused(x + "v2 f16 [4:4, 4:1] = contract [4:m, 4:n, 4:k] a(v0[4:8, 4:1, 4:1]) b(v0[4:0, 4:8, 4:1])", "which is n");
  refused(x + "v2 f16 [4:1] = contract [4:m, 8:k] a(v0[4:8, 8:1]) b(v1[4:0, 8:0])", "both floats");
  refused(x + "v2 f16 [4:8, 8:1] = place [4, 8] fill(0.0) piece(v0[4:8, 8:1] at [1:1, 0:1])", "lands at 1 to 4");
  refused(x + "v2 f16 [4:8, 8:1] = scatter add [4, 8] base(v0[4:8, 8:1]) loads() value(1.0) target(iota(0), trap)",
          "1 targets for 2");
  refused(x + "v2 f16 [4:9, 9:1], v3 i64 [4:9, 9:1] = sort from(v0[4:8, 8:1]) over(1) first(9)", "first 9 of 8");
  refused(x + "output v0[4:8, 8:1]", "is an input");
  refused(x + "v2 f16 [4:8, 8:1] = map [4, 8] loads(v0[4:8, 8:1]) value(l0)\noutput v2[4:8, 4:1]", "not the whole");
  refused(x + "v2 f16 [4:8, 8:1] = map [4, 8] loads(v3[4:8, 8:1]) value(l0)", "not defined above");
  refused(x + "input v2 \"x\" f16 [s0:1]", "symbol");
  refused(x + "input v2 \"x\" f16 [1:1]", "two things are named");
  refused(x + "v2 f16 [4:1] = map [4] loads() value(l0)", "no load l0");
  refused(x + "v3 f16 [4:1] = map [4] loads() value(1.0)", "v2 is missing");
  refused(x + "mutate v0 = v1[4:1, 8:0]", "mutated to int64");
  refused(x + "v2 f16 [4:1] = map [4] loads() value(select(l0, 1.0, 2.0))", "no load");
  refused(x + "v2 i16 [4:1] = map [4] loads() value(philox4(1, 2, 3))", "philox has words");
  refused("input v0 f16 [9223372036854775807:9223372036854775807, 3:1]", "too large");
  refused("input v0 f16 [-1:1]", "negative");
}

TEST(GraphRules, ErrorsNameNodeOpAndLine) {
  refused("input v0 f16 [4:1]\nv1 f16 [4:1] = map [4] loads(v0[4:2]) value(l0) at \"aten.add\" \"model.py:7\"",
          "node 0 (map, aten.add at model.py:7)");
}

TEST(Instantiate, SizesBecomeConstantsAndBoundsAreChecked) {
  const Graph g = parse(everything);
  const Graph i = instantiate(g, std::vector<int64_t>{5});
  EXPECT_TRUE(i.symbols.empty());
  EXPECT_TRUE(i.values[0].sizes[0].is(5));
  EXPECT_TRUE(std::get<Map>(i.nodes[1].kind).loads[2].gathers[1].bound.is(5));
  EXPECT_THROW(instantiate(g, std::vector<int64_t>{0}), Error);
  EXPECT_THROW(instantiate(g, std::vector<int64_t>{4097}), Error);
  EXPECT_THROW(instantiate(g, {}), Error);
}

TEST(Instantiate, AReferenceThatLeavesItsTensorIsTheUsersError) {
  const Graph g = parse(
      "symbol s0 \"n\" 1..100\ninput v0 f16 [8:1]\nv1 f16 [s0:1] = map [s0] loads(v0[s0:1]) value(l0) at "
      "\"aten.slice\" \"a.py:1\"\noutput "
      "v1[s0:1]");
  EXPECT_NO_THROW(instantiate(g, std::vector<int64_t>{8}));
  try {
    instantiate(g, std::vector<int64_t>{9});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::user);
    EXPECT_NE(std::string(e.what()).find("aten.slice at a.py:1"), std::string::npos) << e.what();
  }
}

TEST(ContentHash, NamesAndLinesDoNotCountAndAllElseDoes) {
  const std::string a =
      "input v0 \"x\" f16 [4:1]\nv1 f16 [4:1] = map [4] loads(v0[4:1]) value(mul(l0, 0.1)) at \"a\" \"b\"\noutput "
      "v1[4:1]";
  const std::string b = "input v0 f16 [4:1]\nv1 f16 [4:1] = map [4] loads(v0[4:1]) value(mul(l0, 0.1))\noutput v1[4:1]";
  const std::string c =
      "input v0 f16 [4:1]\nv1 f16 [4:1] = map [4] loads(v0[4:1]) value(mul(l0, 0.10000000000000002))\noutput v1[4:1]";
  EXPECT_EQ(content_hash(parse(a)), content_hash(parse(b)));
  EXPECT_NE(content_hash(parse(a)), content_hash(parse(c)));
  EXPECT_EQ(content_hash(parse(a)).size(), 32u);
}

TEST(Builder, RemovesWhatNobodyReadsAndKeepsInputs) {
  Builder b;
  const Ref x = b.input("x", HostType::f16, {4}, {1}), unused = b.input("unused", HostType::f32, {2}, {1});
  const auto map = [&](const Ref& from) {
    Map m;
    m.space = from.sizes;
    m.loads.push_back({from, {}, 0});
    m.value.push_back(Expr::make(VecOp::neg, {Expr::load(0, Reg::f32)}));
    return b.add(m, {HostType::f16}, {"neg", ""})[0];
  };
  const Ref dead = map(x), live = map(x), last = map(live);
  map(dead);
  b.output(last);
  const Graph g = std::move(b).finish();
  EXPECT_EQ(g.nodes.size(), 2u);
  EXPECT_EQ(g.inputs.size(), 2u);
  EXPECT_EQ(g.values.size(), 4u);
  EXPECT_EQ(g.outputs[0].value, 3);
  EXPECT_EQ(unused.value, 1);
  verify(g);
}

TEST(Builder, OutputsThatAreViewsInputsOrTwiceAreCopied) {
  Builder b;
  const Ref x = b.input("x", HostType::i64, {4, 2}, {2, 1});
  const Ref column{x.value, {4}, {2}, 1};
  b.output(x);
  b.output(column);
  b.output(b.graph().outputs[0]);
  const Graph g = std::move(b).finish();
  EXPECT_EQ(g.nodes.size(), 3u);
  EXPECT_EQ(g.outputs[1].sizes, (std::vector<Size>{4}));
}

TEST(Builder, ClearsFieldsThatExpressionsDoNotUse) {
  Builder b;
  Map m;
  m.space = {2};
  Expr e = Expr::f32(1.5);
  e.integer = 7;
  e.id = 3;
  m.value = {e};
  b.output(b.add(m, {HostType::f32}, {})[0]);
  const Graph g = std::move(b).finish();
  EXPECT_EQ(std::get<Map>(g.nodes[0].kind).value[0], Expr::f32(1.5));
}

}  // namespace
}  // namespace spyre::graph
