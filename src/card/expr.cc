#include "card/expr.h"

#include <algorithm>

#include "base/error.h"

namespace spyre::card {

using program::IntExpr;

VarMap VarMap::of(const program::Kernel& kernel) {
  VarMap m;
  m.ranges = static_cast<int32_t>(kernel.ranges.size());
  m.scalars = static_cast<int32_t>(kernel.scalars.size());
  for (const auto& nest : kernel.nests) m.grid = std::max(m.grid, static_cast<int32_t>(nest.grid.size()));
  return m;
}

namespace {
int32_t leaf_position(const IntExpr& e, const VarMap& vars) {
  switch (e.op) {
    case IntExpr::Op::start:
      return vars.start(e.id);
    case IntExpr::Op::size:
      return vars.size(e.id);
    case IntExpr::Op::trip:
      return vars.trip(e.id);
    case IntExpr::Op::coordinate:
      return vars.coordinate(e.id);
    default:
      return vars.scalar(e.id);
  }
}
}  // namespace

Expr::Expr(const IntExpr& e, const VarMap& vars) {
  if (add_affine(e, vars, 1)) {
    std::erase_if(terms_, [](const auto& t) { return t.second == 0; });
    return;
  }
  constant_ = 0;
  terms_.clear();
  add_tree(e, vars);
}

bool Expr::add_affine(const IntExpr& e, const VarMap& vars, int64_t factor) {
  using Op = IntExpr::Op;
  switch (e.op) {
    case Op::constant:
      constant_ += factor * e.value;
      return true;
    case Op::start:
    case Op::size:
    case Op::trip:
    case Op::coordinate:
    case Op::scalar: {
      const int32_t p = leaf_position(e, vars);
      auto it = std::find_if(terms_.begin(), terms_.end(), [&](const auto& t) { return t.first == p; });
      if (it != terms_.end())
        it->second += factor;
      else
        terms_.emplace_back(p, factor);
      return true;
    }
    case Op::add:
      return add_affine(e.args[0], vars, factor) && add_affine(e.args[1], vars, factor);
    case Op::sub:
      return add_affine(e.args[0], vars, factor) && add_affine(e.args[1], vars, -factor);
    case Op::mul:
      for (int side = 0; side < 2; ++side) {
        const Expr k(e.args[side], vars);
        if (k.is_constant()) return add_affine(e.args[1 - side], vars, factor * k.constant_);
      }
      return false;
    default:
      return false;
  }
}

void Expr::add_tree(const IntExpr& e, const VarMap& vars) {
  using Op = IntExpr::Op;
  switch (e.op) {
    case Op::constant:
      tree_.push_back({e.op, e.value});
      return;
    case Op::start:
    case Op::size:
    case Op::trip:
    case Op::coordinate:
    case Op::scalar:
      tree_.push_back({Op::scalar, leaf_position(e, vars)});
      return;
    default:
      if (e.args.size() != 2)
        fail(Fault::program, "an integer expression has {} arguments instead of 2", e.args.size());
      add_tree(e.args[0], vars);
      add_tree(e.args[1], vars);
      tree_.push_back({e.op, 0});
  }
}

int64_t Expr::evaluate(const int64_t* v) const {
  using Op = IntExpr::Op;
  constexpr int depth_limit = 64;
  int64_t stack[depth_limit];
  int top = 0;
  for (const Node& n : tree_) {
    if (n.op == Op::constant || n.op == Op::scalar) {
      if (top == depth_limit)
        fail(Fault::unimplemented, "an integer expression nests deeper than {} levels", depth_limit);
      stack[top++] = n.op == Op::constant ? n.value : v[n.value];
      continue;
    }
    const int64_t b = stack[--top], a = stack[top - 1];
    int64_t& r = stack[top - 1];
    switch (n.op) {
      case Op::add:
        r = a + b;
        break;
      case Op::sub:
        r = a - b;
        break;
      case Op::mul:
        r = a * b;
        break;
      case Op::min:
        r = std::min(a, b);
        break;
      case Op::max:
        r = std::max(a, b);
        break;
      case Op::div:
        r = floor_div(a, b);
        break;
      default:
        r = a - floor_div(a, b) * b;
        break;
    }
  }
  return stack[0];
}

}  // namespace spyre::card
