// One ATen call while it is imported: typed access to its arguments, and refusals that name overload, shapes and
// dtypes. For import_*.cc only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/import.h"

namespace spyre::graph {

/// Arguments beyond the ones given are None. Every accessor refuses (Error(unimplemented)) an argument of another kind.
class Call {
 public:
  Call(Builder& builder, std::string_view overload, const std::vector<Arg>& args, const Loc& loc)
      : builder(builder), overload(overload), args_(args), loc_(loc) {}

  Builder& builder;
  const std::string_view overload;

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    refuse_with(fmt::format(text, std::forward<Args>(args)...));
  }

  const Arg& at(size_t i) const;
  bool has(size_t i) const { return !std::holds_alternative<std::monostate>(at(i)); }
  Ref tensor(size_t i) const;
  std::optional<Ref> maybe_tensor(size_t i) const;
  std::vector<Ref> tensors(size_t i) const;
  /// A tensor per index, or none (index.Tensor).
  std::vector<std::optional<Ref>> maybe_tensors(size_t i) const;
  bool is_tensor(size_t i) const { return std::holds_alternative<Ref>(at(i)); }
  Size integer(size_t i) const;
  Size integer_or(size_t i, int64_t otherwise) const { return has(i) ? integer(i) : Size(otherwise); }
  /// An integer that is the same at every instance.
  int64_t constant(size_t i) const;
  int64_t constant_or(size_t i, int64_t otherwise) const { return has(i) ? constant(i) : otherwise; }
  std::vector<Size> integers(size_t i) const;  ///< None is empty, a single integer a list of one
  std::vector<int64_t> constants(size_t i) const;
  double number(size_t i) const;  ///< known now: a Param is refused
  double number_or(size_t i, double otherwise) const { return has(i) ? number(i) : otherwise; }
  bool flag(size_t i) const;  ///< None is false
  std::optional<HostType> dtype(size_t i) const;
  std::string text(size_t i) const;  ///< None is empty

  /// A dimension of `rank` ones, counted from the end when negative. A tensor without dimensions has one, for this
  /// purpose.
  int32_t wrap(int64_t dim, size_t rank) const;
  int32_t dim(size_t i, size_t rank) const { return wrap(constant(i), rank); }
  /// Ascending; None and the empty list are all.
  std::vector<int32_t> dims_or_all(size_t i, size_t rank) const;

  const Loc& loc() const { return loc_; }
  HostType type(const Ref& ref) const { return builder.type(ref); }
  Reg reg(const Ref& ref) const;
  bool at_most(const Size& a, const Size& b) const;  ///< provably a <= b
  std::vector<Ref> add(Kind kind, std::vector<HostType> types, std::vector<std::vector<Size>> strides = {}) const;

 private:
  [[noreturn]] void refuse_with(const std::string& why) const;

  const std::vector<Arg>& args_;
  const Loc& loc_;
};

/// A position that no schema has: the argument there is None.
constexpr size_t absent = 99;

using Importer = std::vector<Arg> (*)(Call&);
struct ImportEntry {
  std::string_view overload;
  Importer import;
};

// The table, by family: import_<family>.cc.
std::span<const ImportEntry> view_imports();
std::span<const ImportEntry> unary_imports();
std::span<const ImportEntry> activation_imports();
std::span<const ImportEntry> arithmetic_imports();
std::span<const ImportEntry> comparison_imports();
std::span<const ImportEntry> ternary_imports();
std::span<const ImportEntry> cast_imports();
std::span<const ImportEntry> creation_imports();
std::span<const ImportEntry> reduction_imports();
std::span<const ImportEntry> norm_imports();
std::span<const ImportEntry> contraction_imports();
std::span<const ImportEntry> convolution_imports();
std::span<const ImportEntry> attention_imports();
std::span<const ImportEntry> index_imports();
std::span<const ImportEntry> scatter_imports();
std::span<const ImportEntry> place_imports();
std::span<const ImportEntry> order_imports();
std::span<const ImportEntry> random_imports();

// ------------------------------------------------------------------------------------------------------------- element
// types

bool is_float(HostType type);       ///< f16, bf16, f32, fp8
bool is_arithmetic(HostType type);  ///< everything that ops compute with: not fp8, float64 or complex
bool is_integer(HostType type);     ///< bool excluded
/// The type torch gives to an operation of these two (torch.promote_types). Refuses fp8, float64 and complex of two
/// types.
HostType promote(const Call& call, HostType a, HostType b);
/// The type of the arguments `which` (tensors and numbers) together, as torch.result_type: tensors with dimensions
/// before tensors without, these before numbers.
HostType result_type(const Call& call, std::initializer_list<size_t> which);
/// That of a number argument alone: f32, i64 or bool.
HostType number_type(const Call& call, size_t i);

// ---------------------------------------------------------------------------------------------------------------
// expressions

Expr x1(VecOp op, Expr a);
Expr x2(VecOp op, Expr a, Expr b, bool trap = false);
Expr x3(VecOp op, Expr a, Expr b, Expr c);
Expr where(Expr condition, Expr then, Expr otherwise);
/// 1 / (1 + exp(-x))
Expr sigmoid(Expr x);
/// `e` as a value of this type: cast, and wrapped to its width when narrower than 32 bits.
Expr stored(Expr e, HostType type);
/// A number argument as a value of this type; refuses an integer outside int32.
Expr number_expr(const Call& call, size_t i, Reg type);
Expr integer_expr(const Call& call, const Size& value);
/// A number of elements as f32.
Expr count_expr(const Call& call, const Size& count);

/// The common size of two, or a refusal: equal, or one of them is 1.
std::vector<Size> broadcast(const Call& call, std::span<const Size> a, std::span<const Size> b);
/// `ref` seen with these sizes; refuses when they don't follow from it.
Ref expand_to(const Call& call, const Ref& ref, std::span<const Size> sizes);

/// A space of points over which a Map, Reduce, Scan or Scatter is written.
class Points {
 public:
  Points(Call& call, std::vector<Size> space) : call_(call), space_(std::move(space)) {}

  const std::vector<Size>& space() const { return space_; }
  /// The element of `ref`, broadcast to the space.
  Expr read(const Ref& ref);
  Expr read(const Ref& ref, Reg type) { return Expr::cast(read(ref), type); }
  /// Argument i, tensor or number, as an operand of an operation in `type`.
  Expr operand(size_t i, HostType type);
  /// The element of `ref` (which has the space's sizes) further on by index x stride.
  Expr gather(Ref ref, std::vector<Load::Gather> gathers);

  Ref map(Expr value, HostType type, std::vector<Size> strides = {});
  /// In the memory order of the tensors read, when they agree on a dense one: as torch's elementwise ops.
  Ref elementwise(Expr value, HostType type);
  /// Results of a reduction over `dims` (ascending).
  std::vector<Ref> reduce(Monoid monoid, std::vector<int32_t> dims, Expr value, std::vector<HostType> types,
                          bool trap = false);
  std::vector<Ref> scan(Monoid monoid, int32_t dim, Expr value, std::vector<HostType> types, bool trap = false);
  std::vector<Load> take_loads() { return std::move(loads_); }

 private:
  Call& call_;
  std::vector<Size> space_;
  std::vector<Load> loads_;
};

/// A copy of another type, or the tensor itself when it has the type.
Ref as_type(Call& call, const Ref& ref, HostType type);
/// A dense copy; contiguous unless strides are given.
Ref copy(Call& call, const Ref& ref, std::vector<Size> strides = {});
/// A view where there is one, else a view of a copy. Refuses when the numbers of elements differ, or may.
Ref reshaped(Call& call, const Ref& ref, const std::vector<Size>& sizes);
/// `sizes` with -1 replaced by what is left of `count` elements.
std::vector<Size> infer_size(const Call& call, std::vector<Size> sizes, const Size& count);
/// Several tensors along one dimension, of one type (import_place.cc).
Ref concatenate(Call& call, const std::vector<Ref>& parts, int32_t dim, HostType type);
/// The reduced dimensions as dimensions of size 1 again (import_reduce.cc).
Ref keep_dims(Ref ref, std::span<const int32_t> dims);
/// `fill` around the tensor: `before` and `after` per dimension, neither negative (import_place.cc).
Ref padded(Call& call, const Ref& ref, const std::vector<Size>& before, const std::vector<Size>& after, double fill);

/// What start:end:step takes of a dimension: negative ones count from the end, then both are clipped. Refuses a step
/// below 1, and bounds of which the sign isn't known for all instances.
struct SliceBounds {
  Size start, count;
};
SliceBounds slice_bounds(Call& call, const Size& size, const Size& start, const Size& end, int64_t step);

}  // namespace spyre::graph
