// Size: a small integer expression over a graph's shape symbols: what sizes, strides and offsets are made of.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "program/int_expr.h"

namespace spyre::graph {

using program::Id;
using program::none;

/// An integer expression in normal form: a polynomial, sum of coefficient x product of atoms, where an atom is a symbol
/// or one of floor_div, min, max of expressions. Equal polynomials compare equal, whatever the order they were built
/// in. Coefficients are checked: arithmetic that leaves int64, or an expression of more than 1,000 terms, 32 factors in
/// a term or 32 levels of floor_div, min and max, throws Error(user). Constants take no memory allocation.
class Size {
 public:
  Size(int64_t value = 0);  // NOLINT: a number is a size
  static Size symbol(Id id);

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b);
  friend Size operator*(const Size& a, const Size& b);
  /// Rounds down. By a constant, or by an expression that is positive at every instance; exact polynomial division is
  /// done.
  static Size floor_div(const Size& a, const Size& b);
  /// a - b x floor_div(a, b), and kept as that.
  static Size mod(const Size& a, const Size& b);
  static Size min(const Size& a, const Size& b);
  static Size max(const Size& a, const Size& b);

  bool operator==(const Size& other) const;
  bool operator<(const Size& other) const;  ///< an arbitrary total order, for maps
  std::optional<int64_t> constant() const;
  bool is(int64_t value) const { return constant() == value; }

  /// The highest symbol id in the expression, or none.
  Id highest_symbol() const;
  /// The value for these symbols (symbol s is symbols[s]). Throws Error(user) on overflow, division by zero or a symbol
  /// that isn't there.
  int64_t eval(std::span<const int64_t> symbols) const;
  /// "8*s0 + 3", "floor_div(s0 + 63, 64)"; parse(text()) == *this.
  std::string text() const;
  /// Integers, s0, s1, ..., + - *, floor_div(a, b), mod(a, b), min(a, b), max(a, b) and parentheses. Throws
  /// Error(user).
  static Size parse(std::string_view text);

  struct Algebra;  ///< size.cc's own

 private:
  struct Polynomial;
  explicit Size(std::shared_ptr<const Polynomial> polynomial) : polynomial_(std::move(polynomial)) {}

  int64_t constant_ = 0;                          // when there is no polynomial
  std::shared_ptr<const Polynomial> polynomial_;  // shared, never changed; never a constant
};

}  // namespace spyre::graph
