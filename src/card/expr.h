// Expr: an IntExpr with its leaves resolved to positions in a core's variables; affine ones are a coefficient list.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "program/tree.h"

namespace spyre::card {

/// Where each leaf of an IntExpr lives in a core's variable array.
struct VarMap {
  int32_t ranges = 0, grid = 0, scalars = 0;
  int32_t start(program::Id r) const { return 3 * r; }
  int32_t size(program::Id r) const { return 3 * r + 1; }
  int32_t trip(program::Id r) const { return 3 * r + 2; }
  int32_t coordinate(program::Id g) const { return 3 * ranges + g; }
  int32_t scalar(program::Id s) const { return 3 * ranges + grid + s; }
  int32_t count() const { return 3 * ranges + grid + scalars; }
  static VarMap of(const program::Kernel& kernel);
};

class Expr {
 public:
  Expr() = default;
  Expr(const program::IntExpr& e, const VarMap& vars);
  /// Value under a core's variables.
  int64_t operator()(const int64_t* v) const {
    if (!tree_.empty()) return evaluate(v);
    int64_t sum = constant_;
    for (const auto& [var, factor] : terms_) sum += v[var] * factor;
    return sum;
  }
  bool is_constant() const { return tree_.empty() && terms_.empty(); }
  bool is_constant(int64_t c) const { return is_constant() && constant_ == c; }

 private:
  struct Node {
    program::IntExpr::Op op;
    int64_t value;  // constant, or variable position
  };
  int64_t evaluate(const int64_t* v) const;
  bool add_affine(const program::IntExpr& e, const VarMap& vars, int64_t factor);
  void add_tree(const program::IntExpr& e, const VarMap& vars);

  int64_t constant_ = 0;
  std::vector<std::pair<int32_t, int64_t>> terms_;
  std::vector<Node> tree_;  // postfix
};

/// Rounds towards minus infinity; b > 0.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace spyre::card
