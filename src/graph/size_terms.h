// What a Size is made of: terms of atoms. For size*.cc only; everybody else uses graph/size.h.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/size.h"

namespace spyre::graph {

constexpr size_t max_size_terms = 1000;
constexpr size_t max_size_factors = 32;
constexpr int max_size_depth = 32;
constexpr int64_t max_size_weight = 20'000;

struct SizeAtom {
  enum class Op : uint8_t { symbol, floor_div, min, max };
  Op op = Op::symbol;
  Id symbol = none;
  Size a, b;  // operands of the functions
};

/// coefficient x the product of the atoms, which are sorted.
struct SizeTerm {
  std::vector<SizeAtom> atoms;
  int64_t coefficient = 1;
};
/// A sum; sorted by monomial, the leading term last.
using SizeTerms = std::vector<SizeTerm>;

/// The terms of a size; those of a constant are made in `room`.
const SizeTerms& size_terms(const Size& s, SizeTerms& room);

/// Total orders: negative, 0 or positive.
int compare(const Size& a, const Size& b);
int compare(const SizeAtom& a, const SizeAtom& b);
int compare(const std::vector<SizeAtom>& a, const std::vector<SizeAtom>& b);

/// Throw Error(user) when the result leaves int64.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);

}  // namespace spyre::graph
