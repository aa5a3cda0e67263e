// The table, promotion of types, elementwise operations.
#include <algorithm>
#include <random>

#include "graph/import_for_test.h"

namespace spyre::graph {
namespace {

TEST(ImportTable, NamesLeadToEntries) {
  EXPECT_TRUE(importable("aten::add.Tensor"));
  EXPECT_TRUE(importable("aten::exp.default"));
  EXPECT_TRUE(importable("prims::iota"));
  EXPECT_FALSE(importable("aten::nonzero"));
  EXPECT_EQ(functional_of("aten::add_.Tensor"), "aten::add.Tensor");
  EXPECT_EQ(functional_of("aten::add.out"), "aten::add.Tensor");
  EXPECT_EQ(functional_of("aten::exp.out"), "aten::exp");
  EXPECT_EQ(functional_of("aten::relu_"), "aten::relu");
  EXPECT_EQ(functional_of("aten::mean.out"), "aten::mean.dim");
  EXPECT_EQ(functional_of("aten::eq.Scalar_out"), "aten::eq.Scalar");
  EXPECT_EQ(functional_of("aten::_softmax.out"), "aten::_softmax");
  EXPECT_EQ(functional_of("aten::max.out"), "aten::max.other");
  EXPECT_EQ(functional_of("aten::zeros.out"), "") << "whose dtype is the result's";
  EXPECT_EQ(functional_of("aten::nonzero.out"), "");
  EXPECT_EQ(functional_of("aten::add.Tensor"), "");
  const auto all = importable_overloads();
  EXPECT_GT(all.size(), 250u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  Import g;
  refused(g, "aten::nonzero", {g.in(f32, {4})}, "no entry");
}

TEST(ImportTypes, PromotionFollowsTorch) {
  const auto add = [](HostType a, Sizes sa, HostType b, Sizes sb) {
    Import g;
    return g.builder.type(g.op("aten::add.Tensor", {g.in(a, sa), g.in(b, sb)}));
  };
  EXPECT_EQ(add(f16, {4}, f32, {4}), f32);
  EXPECT_EQ(add(f16, {4}, bf16, {4}), f32);
  EXPECT_EQ(add(f16, {4}, f32, {}), f16);
  EXPECT_EQ(add(i64, {4}, f32, {}), f32);
  EXPECT_EQ(add(i32, {4}, i64, {}), i32);
  EXPECT_EQ(add(i32, {4}, i64, {4}), i64);
  EXPECT_EQ(add(HostType::u8, {4}, HostType::i8, {4}), HostType::i16);
  EXPECT_EQ(add(b8, {4}, i64, {}), i64);
  EXPECT_EQ(add(b8, {4}, b8, {4}), b8);
  Import g;
  const Ref half = g.in(f16, {4}), whole = g.in(i64, {4}), truth = g.in(b8, {4}), tiny = g.in(HostType::e4m3, {4});
  EXPECT_EQ(g.builder.type(g.op("aten::add.Tensor", {half, 1.5})), f16);
  EXPECT_EQ(g.builder.type(g.op("aten::add.Tensor", {whole, 1.5})), f32);
  EXPECT_EQ(g.builder.type(g.op("aten::add.Tensor", {whole, Size(1)})), i64);
  EXPECT_EQ(g.builder.type(g.op("aten::mul.Tensor", {truth, Size(1)})), i64);
  EXPECT_EQ(g.builder.type(g.op("aten::div.Tensor", {whole, whole})), f32);
  EXPECT_EQ(g.builder.type(g.op("aten::exp", {whole})), f32);
  EXPECT_EQ(g.builder.type(g.op("aten::lt.Scalar", {whole, 0.5})), b8);
  refused(g, "aten::add.Tensor", {tiny, tiny}, "cast to float32");
  refused(g, "aten::sub.Tensor", {truth, truth}, "bools");
}

TEST(ImportPointwise, BroadcastsAndRefusesWhatItCannotDecide) {
  Import g;
  const Size n = Size::symbol(g.builder.symbol("n", 1, 100)), m = Size::symbol(g.builder.symbol("m", 1, 100));
  const Ref x = g.in(f32, {n, 3}), row = g.in(f32, {3}), column = g.in(f32, {n, 1}), other = g.in(f32, {m, 3});
  const Ref y = g.op("aten::add.Tensor", {x, g.op("aten::mul.Tensor", {row, column}), Size(2)});
  for (const int64_t size : {1, 4}) {
    const auto count = static_cast<size_t>(size);
    const Values xs = pattern(count * 3), rows = {1, 2, 3}, columns = pattern(count);
    Values want;
    for (size_t i = 0; i < count * 3; ++i) want.push_back(xs[i] + 2 * rows[i % 3] * columns[i / 3]);
    near(g.run(y, {xs, rows, columns, {0, 0, 0}}, {size, 1}), want);
  }
  refused(g, "aten::add.Tensor", {x, other}, "not known for all instances");
  refused(g, "aten::add.Tensor", {row, g.in(f32, {4})}, "don't broadcast");
}

TEST(ImportPointwise, UnaryFunctions) {
  const Values x = {-3, -1.5, -0.5, 0.25, 0.5, 2.5};
  const auto check = [&](std::string_view op, double (*want)(double)) {
    SCOPED_TRACE(op);
    Import g;
    near(g.run(g.op(op, {g.in(f32, {6})}), {x}), mapped(x, want));
  };
  check("aten::exp", [](double v) { return std::exp(v); });
  check("aten::expm1", [](double v) { return std::expm1(v); });
  check("aten::log", [](double v) { return std::log(v); });
  check("aten::log10", [](double v) { return std::log10(v); });
  check("aten::sqrt", [](double v) { return std::sqrt(v); });
  check("aten::rsqrt", [](double v) { return 1 / std::sqrt(v); });
  check("aten::reciprocal", [](double v) { return 1 / v; });
  check("aten::sinh", [](double v) { return std::sinh(v); });
  check("aten::cosh", [](double v) { return std::cosh(v); });
  check("aten::sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); });
  check("aten::silu", [](double v) { return v / (1 + std::exp(-v)); });
  check("aten::mish", [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  check("aten::log_sigmoid", [](double v) { return -std::log1p(std::exp(-v)); });
  check("aten::relu", [](double v) { return std::max(v, 0.0); });
  check("aten::gelu", [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); });
  check("aten::hardswish", [](double v) { return v * std::min(std::max(v + 3, 0.0), 6.0) / 6; });
  check("aten::hardtanh", [](double v) { return std::min(std::max(v, -1.0), 1.0); });
  check("aten::leaky_relu", [](double v) { return v > 0 ? v : 0.01 * v; });
  check("aten::elu", [](double v) { return v > 0 ? v : std::expm1(v); });
  check("aten::softplus", [](double v) { return std::log1p(std::exp(v)); });
  check("aten::round", [](double v) { return std::nearbyint(v); });
  check("aten::sign", [](double v) { return v > 0 ? 1.0 : -1.0; });
  check("aten::isfinite", [](double) { return 1.0; });
  check("aten::logical_not", [](double) { return 0.0; });
  Import g;
  near(g.run(g.op("aten::gelu", {g.in(f16, {6}), std::string("tanh")}), {x}),
       mapped(x, [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); }));
}

TEST(ImportPointwise, BinaryFunctionsOfFloats) {
  const Values x = {7, -7, 7, -7, 0.75, -6}, y = {2, 2, -2, -2, 0.25, 3};
  const auto check = [&](std::string_view op, const std::vector<Arg>& more, double (*want)(double, double)) {
    SCOPED_TRACE(op);
    Import g;
    std::vector<Arg> args{g.in(f32, {6}), g.in(f32, {6})};
    args.insert(args.end(), more.begin(), more.end());
    Values wanted;
    for (size_t i = 0; i < 6; ++i) wanted.push_back(want(x[i], y[i]));
    near(g.run(g.op(op, args), {x, y}), wanted);
  };
  check("aten::sub.Tensor", {2.0}, [](double a, double b) { return a - 2 * b; });
  check("aten::rsub.Tensor", {2.0}, [](double a, double b) { return b - 2 * a; });
  check("aten::div.Tensor", {}, [](double a, double b) { return a / b; });
  check("aten::div.Tensor_mode", {std::string("trunc")}, [](double a, double b) { return std::trunc(a / b); });
  check("aten::floor_divide", {}, [](double a, double b) { return std::floor(a / b); });
  check("aten::fmod.Tensor", {}, [](double a, double b) { return std::fmod(a, b); });
  check("aten::maximum", {}, [](double a, double b) { return std::max(a, b); });
  check("aten::fmin", {}, [](double a, double b) { return std::min(a, b); });
  check("aten::lt.Tensor", {}, [](double a, double b) { return a < b ? 1.0 : 0.0; });
  Import g;
  const Values rest =
      g.run(g.op("aten::remainder.Tensor", {g.in(f32, {4}), g.in(f32, {4})}), {{7, -7, 7, -7}, {2, 2, -2, -2}});
  EXPECT_EQ(rest, (Values{1, 1, -1, -1}));
}

TEST(ImportPointwise, BinaryFunctionsOfIntegers) {
  const Values x = {7, -7, 7, -7}, y = {2, 2, -2, -2};
  const auto run = [&](std::string_view op, std::vector<Arg> more = {}) {
    Import g;
    std::vector<Arg> args{g.in(i64, {4}), g.in(i64, {4})};
    args.insert(args.end(), more.begin(), more.end());
    return g.run(g.op(op, args), {x, y});
  };
  EXPECT_EQ(run("aten::floor_divide"), (Values{3, -4, -4, 3}));
  EXPECT_EQ(run("aten::div.Tensor_mode", {std::string("trunc")}), (Values{3, -3, -3, 3}));
  EXPECT_EQ(run("aten::remainder.Tensor"), (Values{1, 1, -1, -1}));
  EXPECT_EQ(run("aten::fmod.Tensor"), (Values{1, -1, 1, -1}));
  EXPECT_EQ(run("aten::bitwise_and.Tensor"), (Values{2, 0, 6, -8}));
  EXPECT_EQ(run("aten::div.Tensor"), (Values{3.5, -3.5, -3.5, 3.5}));
  EXPECT_EQ(run("aten::maximum"), (Values{7, 2, 7, -2}));
}

TEST(ImportPointwise, IntegerWidths) {
  const auto run = [](HostType type, const Values& x, std::string_view op, const Arg& other) {
    Import g;
    return g.run(g.op(op, {g.in(type, {static_cast<int64_t>(x.size())}), other}), {x});
  };
  EXPECT_EQ(run(HostType::u8, {250, 3}, "aten::add.Tensor", Size(10)), (Values{4, 13}));
  EXPECT_EQ(run(HostType::u8, {250, 3}, "aten::sub.Tensor", Size(10)), (Values{240, 249}));
  EXPECT_EQ(run(HostType::i8, {120, -120}, "aten::mul.Tensor", Size(2)), (Values{-16, 16}));
  EXPECT_EQ(run(HostType::i16, {32767, 0}, "aten::add.Tensor", Size(1)), (Values{-32768, 1}));
  EXPECT_EQ(run(i32, {2147483647, 0}, "aten::add.Tensor", Size(1)), (Values{-2147483648.0, 1}));
  EXPECT_THROW(run(i64, {2147483647, 0}, "aten::add.Tensor", Size(1)), Error);
  Import g;
  refused(g, "aten::add.Tensor", {g.in(i64, {2}), Size(int64_t{1} << 40)}, "32-bit");
}

TEST(ImportPointwise, PowersByExponent) {
  const Values x = {0.5, 2, 3};
  for (const double e : {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 2.5}) {
    Import g;
    near(g.run(g.op("aten::pow.Tensor_Scalar", {g.in(f32, {3}), e}), {x}),
         mapped(x, [&](double v) { return std::pow(v, e); }));
  }
  Import g;
  const Ref i = g.in(i64, {3});
  EXPECT_EQ(g.run(g.op("aten::pow.Tensor_Scalar", {i, Size(5)}), {{2, -3, 0}}), (Values{32, -243, 0}));
  near(g.run(g.op("aten::pow.Scalar", {2.0, i}), {{2, -3, 0}}), {4, 0.125, 1});
  refused(g, "aten::pow.Tensor_Scalar", {i, Size(-1)}, "powers");
}

TEST(ImportPointwise, SelectionClampingAndThreeOperands) {
  Import g;
  const Ref c = g.in(b8, {4}), x = g.in(f32, {4}), y = g.in(f32, {4}), i = g.in(i64, {4});
  const std::vector<Values> in = {{1, 0, 1, 0}, {1, -2, 3, NAN}, {5, 6, 7, 8}, {1, 2, 3, 4}};
  near(g.run(g.op("aten::where.self", {c, x, y}), in), {1, 6, 3, 8});
  near(g.run(g.op("aten::where.ScalarOther", {c, i, Size(0)}), in), {1, 0, 3, 0});
  near(g.run(g.op("aten::masked_fill.Scalar", {x, c, -infinity}), in), {-infinity, -2, -infinity, NAN});
  near(g.run(g.op("aten::clamp", {x, -1.0, 2.0}), in), {1, -1, 2, NAN});
  near(g.run(g.op("aten::clamp_min", {x, Size(0)}), in), {1, 0, 3, NAN});
  near(g.run(g.op("aten::clamp_max.Tensor", {i, i}), in), {1, 2, 3, 4});
  near(g.run(g.op("aten::lerp.Scalar", {y, y, 0.25}), in), {5, 6, 7, 8});
  near(g.run(g.op("aten::addcmul", {y, y, y, 2.0}), in), {55, 78, 105, 136});
  near(g.run(g.op("aten::addcdiv", {y, y, y, 2.0}), in), {7, 8, 9, 10});
  refused(g, "aten::masked_fill.Scalar", {i, c, 0.5}, "integer");
  refused(g, "aten::where.self", {i, x, y}, "bool");
}

TEST(ImportPointwise, ParamsAreReadAtLaunch) {
  Import g;
  const Ref x = g.in(f32, {2}), i = g.in(i64, {2});
  const ParamArg alpha{g.builder.param("alpha", true)}, step{g.builder.param("step", false)};
  near(g.run(g.op("aten::add.Tensor", {x, x, alpha}), {{1, 2}, {3, 4}}, {}, {0.5, 2}), {1.5, 3});
  near(g.run(g.op("aten::mul.Tensor", {i, step}), {{1, 2}, {3, 4}}, {}, {0.5, 2}), {6, 8});
  refused(g, "aten::add.Tensor", {i, i, alpha}, "float where an integer");
}

TEST(ImportPointwise, ResultsKeepAPermutedOrder) {
  Import g;
  const Ref x = g.in(f32, {2, 3}, {1, 2}), y = g.in(f32, {2, 3});
  EXPECT_EQ(g.op("aten::exp", {x}).strides, (Sizes{1, 2}));
  EXPECT_EQ(g.op("aten::add.Tensor", {x, y}).strides, (Sizes{3, 1}));
  near(g.run(g.op("aten::add.Tensor", {x, y}), {{0, 3, 1, 4, 2, 5}, {0, 1, 2, 3, 4, 5}}), {0, 2, 4, 6, 8, 10});
}

TEST(ImportCasts, EveryKindOfType) {
  const auto cast = [](HostType from, HostType to, const Values& x) {
    Import g;
    return g.run(g.op("prims::convert_element_type", {g.in(from, {static_cast<int64_t>(x.size())}), to}), {x});
  };
  EXPECT_EQ(cast(f32, i64, {1.9, -1.9, 0}), (Values{1, -1, 0}));
  EXPECT_EQ(cast(f32, b8, {0.5, 0, NAN}), (Values{1, 0, 1}));
  EXPECT_EQ(cast(i64, HostType::u8, {257, -1}), (Values{1, 255}));
  EXPECT_EQ(cast(i32, HostType::i8, {200, -200}), (Values{-56, 56}));
  EXPECT_EQ(cast(f32, HostType::i16, {40000}), (Values{-25536}));
  EXPECT_EQ(cast(b8, f16, {1, 0}), (Values{1, 0}));
  EXPECT_THROW(cast(f32, i64, {1e12}), Error);
  Import g;
  const Ref x = g.in(f32, {2, 3}, {1, 2});
  EXPECT_EQ(g.op("prims::convert_element_type", {x, f32}), x);
  EXPECT_EQ(g.op("aten::clone", {x, std::string("contiguous_format")}).strides, (Sizes{3, 1}));
  EXPECT_EQ(g.op("aten::clone", {x}).strides, (Sizes{1, 2}));
  EXPECT_EQ(g.op("aten::_to_copy", {x, f16, None, None, None, None, None}).strides, (Sizes{1, 2}));
  EXPECT_EQ(g.op("aten::clone", {g.in(f32, {1, 2, 3, 4}), std::string("torch.channels_last")}).strides,
            (Sizes{24, 1, 8, 2}));
  refused(g, "aten::_to_copy", {x, HostType::f64}, "cast to float32");
}

TEST(ImportCreation, ConstantsAndRanges) {
  Import g;
  const Size n = Size::symbol(g.builder.symbol("n", 1, 100));
  EXPECT_EQ(g.run(g.op("aten::full", {Sizes{2}, -infinity, f16}), {}, {1}), (Values{-infinity, -infinity}));
  EXPECT_EQ(g.builder.type(g.op("aten::full", {Sizes{}, true})), b8);
  EXPECT_EQ(g.builder.type(g.op("aten::full", {Sizes{}, Size(3)})), i64);
  EXPECT_EQ(g.run(g.op("prims::iota", {n, Size(2), Size(3), i64}), {}, {4}), (Values{2, 5, 8, 11}));
  EXPECT_EQ(g.run(g.op("aten::arange.start_step", {Size(7), Size(0), Size(-3)}), {}, {1}), (Values{7, 4, 1}));
  EXPECT_EQ(g.run(g.op("aten::arange", {n}), {}, {3}), (Values{0, 1, 2}));
  EXPECT_EQ(g.run(g.op("aten::arange.start_step", {Size(0), 1.0, 0.25}), {}, {1}), (Values{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(g.run(g.op("aten::eye", {Size(2)}), {}, {1}), (Values{1, 0, 0, 1}));
  EXPECT_EQ(g.run(g.op("aten::scalar_tensor", {2.5}), {}, {1}), (Values{2.5}));
}

}  // namespace
}  // namespace spyre::graph
