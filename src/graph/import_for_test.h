// Imports calls, runs the graph in the interpreter and gives the results in row-major order. For tests of imports.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/import.h"
#include "graph/interpreter.h"

namespace spyre::graph {

using Sizes = std::vector<Size>;
using Values = std::vector<double>;

struct Import {
  Builder builder;

  Ref in(HostType type, Sizes sizes, Sizes strides = {}) {
    if (strides.empty()) strides = contiguous(sizes);
    return builder.input("", type, std::move(sizes), std::move(strides));
  }
  std::vector<Arg> all(std::string_view overload, const std::vector<Arg>& args) {
    return builder.call(overload, args, {std::string(overload), "t.py:1"});
  }
  Ref op(std::string_view overload, const std::vector<Arg>& args) { return std::get<Ref>(all(overload, args).at(0)); }

  /// Elements of `outputs` in row-major order.
  std::vector<Values> run(const std::vector<Ref>& outputs, const std::vector<Values>& inputs,
                          const std::vector<int64_t>& symbols = {}, const Values& params = {}) const {
    Builder copy = builder;
    for (const Ref& r : outputs) copy.output(r);
    const Graph g = instantiate(std::move(copy).finish(), symbols);
    std::vector<Tensor> in;
    for (const Values& v : inputs) in.push_back({v, {}});
    const std::vector<Tensor> values = interpret(g, in, params, {false});
    std::vector<Values> out;
    for (const Ref& r : g.outputs) {
      out.emplace_back();
      elements(r, values[static_cast<size_t>(r.value)].value, 0, *r.offset.constant(), out.back());
    }
    return out;
  }
  Values run(const Ref& output, const std::vector<Values>& inputs, const std::vector<int64_t>& symbols = {},
             const Values& params = {}) const {
    return run(std::vector<Ref>{output}, inputs, symbols, params)[0];
  }

  static void elements(const Ref& r, const Values& storage, size_t dim, int64_t at, Values& out) {
    if (dim == r.sizes.size()) {
      out.push_back(storage[static_cast<size_t>(at)]);
      return;
    }
    for (int64_t i = 0; i < *r.sizes[dim].constant(); ++i)
      elements(r, storage, dim + 1, at + i * *r.strides[dim].constant(), out);
  }
};

/// 0, 1, 2, ... as a pattern of small numbers of both signs.
inline Values pattern(size_t n, double scale = 0.25) {
  Values out;
  for (size_t i = 0; i < n; ++i) out.push_back(scale * static_cast<double>(static_cast<int>(i * 7 % 17) - 8));
  return out;
}
inline Values count_up(size_t n) {
  Values out;
  for (size_t i = 0; i < n; ++i) out.push_back(static_cast<double>(i));
  return out;
}

inline void near(const Values& got, const Values& want, double error = 1e-5) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << i << ": " << got[i];
    else if (std::isinf(want[i]))
      EXPECT_EQ(got[i], want[i]) << i;
    else
      EXPECT_NEAR(got[i], want[i], error * (1 + std::abs(want[i]))) << i;
  }
}

template <typename Fn>
Values mapped(const Values& x, Fn&& fn) {
  Values out;
  for (double v : x) out.push_back(fn(v));
  return out;
}

/// The call is refused as unimplemented, says `why`, and leaves the graph as it was.
inline void refused(Import& g, std::string_view overload, const std::vector<Arg>& args, const std::string& why) {
  const std::string before = print(g.builder.graph());
  try {
    g.all(overload, args);
    FAIL() << overload << " was not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::unimplemented) << e.what();
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(overload), std::string::npos) << e.what();
  }
  EXPECT_EQ(print(g.builder.graph()), before);
}

constexpr std::monostate None{};
constexpr HostType f32 = HostType::f32, f16 = HostType::f16, bf16 = HostType::bf16, i64 = HostType::i64,
                   i32 = HostType::i32, b8 = HostType::b8;

}  // namespace spyre::graph
