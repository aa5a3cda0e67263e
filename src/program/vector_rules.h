// The operations of SFP expressions: name in text, number and types of arguments. One table for assembler, printer and
// checks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "program/tree.h"

namespace spyre::program {

struct VecRule {
  VecOp op;
  enum class Kind : uint8_t {
    leaf,
    arithmetic,  ///< all arguments f32 or all i32; result the same
    floats,      ///< f32 -> f32
    integers,    ///< i32 -> i32
    compare,     ///< two f32 or two i32 -> pred
    is_nan,      ///< f32 -> pred
    logical,     ///< pred -> pred
    select,      ///< pred, two of one type -> that type
    cast,        ///< any -> f32 or i32
  } kind;
  int arguments;
  std::string_view name;  ///< function name; for operators the symbol
  bool is_operator;       ///< written infix or prefix
  bool may_trap;          ///< `!` allowed (on an i32 result)
};

const VecRule& rule_of(VecOp op);
/// The rule of a function name (`exp`, `fma`, ...), or null. `i32`, `f32`, `cast`, `int` and macros are the
/// assembler's.
const VecRule* function_of(std::string_view name);

/// Type a buffer's lanes have in registers: f32 for dl16 f16 f32 e4m3 e5m2, i32 for i32 u32 i16 i8.
Reg register_of(Format format);
std::string_view register_name(Reg reg);  ///< "f32", "i32", "pred"

/// The result type of an operation on arguments of these types, or in `error` what is wrong with them.
struct TypeOrError {
  Reg type = Reg::f32;
  std::string error;  ///< empty = good
};
TypeOrError result_type(const VecExpr& expr);

/// State values of a monoid (1 to 3), its name, and the type of the reduced value and of state `i`, given the first
/// state buffer's register type. Stores of a predicate write 1 or 0.
int states_of(Monoid monoid);
std::string_view monoid_name(Monoid monoid);
std::optional<Monoid> monoid_from_name(std::string_view name);
Reg value_type(Monoid monoid, Reg first_state);
Reg init_type(Monoid monoid, int state, Reg first_state);
/// The register type that state buffer `i` must have, or nothing when any will do.
std::optional<Reg> state_type(Monoid monoid, int state);
/// Monoids that sfp.scan knows: sum prod max min.
bool can_scan(Monoid monoid);

}  // namespace spyre::program
