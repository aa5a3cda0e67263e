// The recursive-descent parser behind assemble(); docs/tile_program_text.md is its grammar. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "program/conventions.h"
#include "program/lexer.h"
#include "program/tree.h"

namespace spyre::program {

class Assembler {
 public:
  explicit Assembler(std::string_view text) : tokens_(lex(text)) {}
  Program run();

 private:
  struct Name {
    enum class Kind : uint8_t { formal, scalar, grid, range, buffer } kind;
    Id id;
  };
  /// An expression with what bounds its copies and its recursion.
  struct Vec {
    VecExpr expr;
    int depth = 1;
    int64_t nodes = 1;
    bool adaptable = false;  ///< made of integer literals only: becomes f32 where f32 is wanted
    Token at;
  };
  struct Int {
    IntExpr expr;
    int depth = 1;
  };

  // ---- assemble.cc: tokens, names, everything outside steps
  const Token& peek(size_t ahead = 0) const;
  Token next();
  bool accept(std::string_view word);
  Token expect(std::string_view word);
  std::string describe(const Token& token) const;
  int64_t integer(std::string_view what, int64_t lo, int64_t hi);
  double number(std::string_view what, bool infinite);
  Token new_name(std::string_view what);
  std::vector<int64_t> sizes(std::string_view what, int64_t least);

  void symbol_line();
  void scalar_line();
  void loc_line();
  void kernel();
  void call();
  Symbol symbol();
  Scalar scalar();
  void view(Symbol& symbol, const Token& at);
  Id find(const Token& token, const std::unordered_map<std::string_view, Id>& names, std::string_view what) const;

  void declare(const Token& token, Name name);
  void leave(size_t names);
  const Name* lookup(std::string_view text) const;
  Id expect_range(std::string_view what);
  Id expect_grid();
  void nest();
  void block(Block& out, bool braces);
  void statement(Block& out);
  void buffer(Id& id);
  void core_range(Block& out);
  void loop(Block& out);
  void bounds(Range& range);
  void condition(Condition& out);
  Id step_loc();

  // ---- assemble_access.cc: integer expressions, operands, memory accesses
  Int int_sum();
  Int int_product();
  Int int_factor();
  Int int_name();
  Int int_binary(IntExpr::Op op, Int a, Int b, const Token& at);
  IntExpr int_expr();
  int64_t int_constant(std::string_view what, int64_t lo, int64_t hi);
  void int_bounds(IntExpr& lo, IntExpr& hi);
  BufRef operand();
  BufDim position(Id buffer);
  MemRef access(Store* store);
  Entry entry();
  OnOutside outside();

  // ---- assemble_step.cc
  Step step();
  Op load();
  Op store();
  Op matmul(bool on_pt);
  Op sfp();
  Op reduce();
  Op scan();
  Op sort(Sort::Kind kind);
  Op gather_scatter(bool scatter);
  Op ring();
  Op psum();

  // ---- assemble_vector.cc
  VecExpr value_of(Reg want, bool to_buffer);
  Vec vec();
  Vec vec_or();
  Vec vec_xor();
  Vec vec_and();
  Vec vec_not();
  Vec vec_compare();
  Vec vec_shift();
  Vec vec_sum();
  Vec vec_product();
  Vec vec_unary();
  Vec vec_primary();
  Vec vec_name();
  Vec vec_function(const Token& name);
  Vec vec_cast(const Token& name);
  Vec macro(const Token& name, Vec x);
  Vec make(VecOp op, std::vector<Vec> args, const Token& at, bool trap = false, Reg type = Reg::f32);
  Vec leaf(VecExpr expr, const Token& at) const;
  Vec constant(double value, const Token& at) const;
  static void to_f32(VecExpr& expr);
  static void unify(Vec& a, Vec& b);

  /// Counts the levels of recursion while it lives; throws at a level that hostile text alone reaches.
  class Deeper {
   public:
    Deeper(Assembler& assembler, const Token& at);
    ~Deeper() { --assembler_.recursion_; }

   private:
    Assembler& assembler_;
  };

  std::vector<Token> tokens_;
  size_t position_ = 0;
  int recursion_ = 0;
  Program program_;
  std::unordered_map<std::string_view, Id> symbols_, scalars_, kernels_;

  Kernel* kernel_ = nullptr;  ///< the one being parsed
  std::unordered_map<std::string_view, Name> names_;
  std::vector<std::string_view> declared_;  ///< names in scope, oldest first
  std::vector<Id> ranges_in_scope_;
  std::vector<size_t> declared_under_;  ///< per buffer: how many of ranges_in_scope_ there were
  std::vector<std::unordered_map<std::string_view, Id>> core_ranges_;  ///< per nest
  std::vector<Id> bare_ranges_;  ///< ranges named without .start in the integer expression being parsed
  int blocks_ = 0;
};

}  // namespace spyre::program
