#include "graph/verify_expr.h"

#include "base/error.h"
#include "program/limits.h"
#include "program/vector_rules.h"

namespace spyre::graph {

namespace {

using program::register_name;
using Leaf = Expr::Leaf;

struct Checker {
  const Graph& graph;
  size_t rank;
  std::span<const Load> loads;
  int64_t nodes = 0;

  template <typename... Args>
  [[noreturn]] static void refuse(fmt::format_string<Args...> text, Args&&... args) {
    fail(Fault::program, text, std::forward<Args>(args)...);
  }

  void check(const Expr& e, int depth) {
    if (depth > program::limits::vec_depth) refuse("an expression of more than {} levels", program::limits::vec_depth);
    if (++nodes > program::limits::vec_nodes) refuse("an expression of more than {} nodes", program::limits::vec_nodes);
    unused_fields(e);
    for (const Expr& a : e.args) check(a, depth + 1);
    Reg expected = e.type;
    switch (e.leaf) {
      case Leaf::none:
        expected = operation(e);
        break;
      case Leaf::load:
        expected = load(e);
        break;
      case Leaf::constant:
        if (e.type == Reg::i32 && (e.integer < INT32_MIN || e.integer > INT32_MAX))
          refuse("constant {} is outside int32", e.integer);
        if (e.type == Reg::pred && e.integer != 0 && e.integer != 1)
          refuse("a predicate constant {}: 0 or 1", e.integer);
        break;
      case Leaf::size:
        expected = Reg::i32;
        break;
      case Leaf::param:
        if (e.id < 0 || static_cast<size_t>(e.id) >= graph.params.size()) refuse("there is no param p{}", e.id);
        expected = graph.params[static_cast<size_t>(e.id)].is_float ? Reg::f32 : Reg::i32;
        break;
      case Leaf::iota:
        if (e.id < 0 || static_cast<size_t>(e.id) >= rank) refuse("iota({}) in a space of {} dimensions", e.id, rank);
        expected = Reg::i32;
        break;
    }
    if (expected != e.type)
      refuse("an expression of type {} is marked {}", register_name(expected), register_name(e.type));
  }

  static void unused_fields(const Expr& e) {
    const bool number = e.leaf == Leaf::constant && e.type == Reg::f32;
    const bool integer = (e.leaf == Leaf::constant && !number) || (e.leaf == Leaf::none && e.op == VecOp::philox);
    const bool id = e.leaf == Leaf::load || e.leaf == Leaf::param || e.leaf == Leaf::iota;
    const bool leaf = e.leaf != Leaf::none;
    if ((!number && e.number != 0) || (!integer && e.integer != 0) || (!id && e.id != none) ||
        (e.leaf != Leaf::size && !e.size.is(0)) || (leaf && (e.op != VecOp::add || e.trap || !e.args.empty())))
      refuse("an expression has a field set that its leaf or operation doesn't use (Builder::add clears them)");
  }

  Reg load(const Expr& e) const {
    if (e.id < 0 || static_cast<size_t>(e.id) >= loads.size()) refuse("there is no load l{} here", e.id);
    const Id value = loads[static_cast<size_t>(e.id)].ref.value;
    return register_of(graph.values[static_cast<size_t>(value)].type);
  }

  static Reg operation(const Expr& e) {
    program::VecExpr shape;
    shape.op = e.op;
    shape.type = e.type;
    shape.trap = e.trap;
    const program::VecRule& rule = program::rule_of(e.op);
    if (rule.kind == program::VecRule::Kind::leaf) refuse("operation '{}' belongs to tile programs", rule.name);
    if (e.op == VecOp::philox && (e.integer < 0 || e.integer > 3)) refuse("philox has words 0 to 3, not {}", e.integer);
    for (const Expr& a : e.args) {
      shape.args.emplace_back();
      shape.args.back().type = a.type;
    }
    const program::TypeOrError result = program::result_type(shape);
    if (!result.error.empty()) refuse("{}", result.error);
    return result.type;
  }
};

}  // namespace

void verify_expr(const Graph& graph, const Expr& expr, size_t rank, std::span<const Load> loads) {
  Checker{graph, rank, loads}.check(expr, 0);
}

}  // namespace spyre::graph
