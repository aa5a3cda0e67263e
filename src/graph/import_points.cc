// Building blocks of imports: expressions, broadcast reads, maps and reductions over a space, copies and reshapes.
#include <algorithm>
#include <cmath>

#include <limits>

#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {

Expr x1(VecOp op, Expr a) {
  std::vector<Expr> args;
  args.push_back(std::move(a));
  return Expr::make(op, std::move(args));
}

Expr x2(VecOp op, Expr a, Expr b, bool trap) {
  std::vector<Expr> args;
  args.push_back(std::move(a));
  args.push_back(std::move(b));
  const bool traps = trap && args[0].type == Reg::i32;
  return Expr::make(op, std::move(args), traps);
}

Expr x3(VecOp op, Expr a, Expr b, Expr c) {
  std::vector<Expr> args;
  args.push_back(std::move(a));
  args.push_back(std::move(b));
  args.push_back(std::move(c));
  return Expr::make(op, std::move(args));
}

Expr where(Expr condition, Expr then, Expr otherwise) {
  return x3(VecOp::select, std::move(condition), std::move(then), std::move(otherwise));
}

Expr sigmoid(Expr x) {
  return x1(VecOp::rcp, x2(VecOp::add, Expr::f32(1), x1(VecOp::exp, x1(VecOp::neg, std::move(x)))));
}

Expr stored(Expr e, HostType type) {
  const Reg reg = register_of(type);
  e = Expr::cast(std::move(e), reg, type == HostType::i64);
  if (reg != Reg::i32 || e.leaf == Expr::Leaf::load) return e;  // an element has the width already
  const auto wrapped = [](Expr x, int64_t half, int64_t mask) {
    return x2(VecOp::sub, x2(VecOp::bit_and, x2(VecOp::add, std::move(x), Expr::i32(half)), Expr::i32(mask)),
              Expr::i32(half));
  };
  switch (type) {
    case HostType::u8:
      return x2(VecOp::bit_and, std::move(e), Expr::i32(255));
    case HostType::i8:
      return wrapped(std::move(e), 128, 255);
    case HostType::i16:
      return wrapped(std::move(e), 32768, 65535);
    default:
      return e;
  }
}

Expr integer_expr(const Call& call, const Size& value) {
  const auto c = value.constant();
  if (!c) return Expr::of_size(value);
  if (*c < INT32_MIN || *c > INT32_MAX) call.refuse("{} is outside the device's 32-bit integers", *c);
  return Expr::i32(*c);
}

Expr count_expr(const Call& call, const Size& count) {
  if (const auto c = count.constant()) return Expr::f32(static_cast<double>(*c));
  return Expr::cast(integer_expr(call, count), Reg::f32);
}

Expr number_expr(const Call& call, size_t i, Reg type) {
  const Arg& arg = call.at(i);
  if (const ParamArg* p = std::get_if<ParamArg>(&arg)) {
    const bool is_float = number_type(call, i) == HostType::f32;
    if (is_float && type != Reg::f32) call.refuse("argument {} is a float where an integer is needed", i);
    return Expr::cast(Expr::of_param(p->param, is_float), type);
  }
  if (const double* d = std::get_if<double>(&arg)) {
    if (type == Reg::f32) return Expr::f32(*d);
    if (type == Reg::pred) return Expr::pred(*d != 0);
    if (*d != std::floor(*d) || std::abs(*d) > INT32_MAX)
      call.refuse("argument {} is a float where an integer is needed", i);
    return Expr::i32(static_cast<int64_t>(*d));
  }
  const Size s = call.integer(i);
  const auto c = s.constant();
  if (!c) return Expr::cast(Expr::of_size(s), type);
  if (type == Reg::f32) return Expr::f32(static_cast<double>(*c));
  if (type == Reg::pred) return Expr::pred(*c != 0);
  return integer_expr(call, s);
}

std::vector<Size> broadcast(const Call& call, std::span<const Size> a, std::span<const Size> b) {
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<Size> out(a.begin(), a.end());
  const size_t lead = a.size() - b.size();
  for (size_t d = 0; d < b.size(); ++d) {
    Size& mine = out[lead + d];
    if (mine == b[d] || b[d].is(1)) continue;
    if (mine.is(1))
      mine = b[d];
    else if (mine.constant() && b[d].constant())
      call.refuse("sizes {} and {} don't broadcast", mine.text(), b[d].text());
    else
      call.refuse("whether sizes {} and {} are equal is not known for all instances", mine.text(), b[d].text());
  }
  return out;
}

Ref expand_to(const Call& call, const Ref& ref, std::span<const Size> sizes) {
  if (auto out = expanded(ref, sizes)) return *out;
  broadcast(call, ref.sizes, sizes);  // refuses with the sizes at fault
  call.refuse("a tensor does not have the sizes that the others ask for");
}

Expr Points::read(const Ref& ref) {
  Load load{expand_to(call_, ref, space_), {}, 0};
  const Reg reg = call_.reg(ref);
  for (size_t i = 0; i < loads_.size(); ++i) {
    if (loads_[i] == load) return Expr::load(static_cast<Id>(i), reg);
  }
  loads_.push_back(std::move(load));
  return Expr::load(static_cast<Id>(loads_.size() - 1), reg);
}

Expr Points::operand(size_t i, HostType type) {
  const Reg reg = register_of(type);
  // A number becomes an element of the type first, as in torch: 300 is 44 beside uint8.
  if (!call_.is_tensor(i)) return stored(number_expr(call_, i, reg), type);
  return stored(read(call_.tensor(i), reg), type);
}

Expr Points::gather(Ref ref, std::vector<Load::Gather> gathers) {
  const Reg reg = call_.reg(ref);
  loads_.push_back({std::move(ref), std::move(gathers), 0});
  return Expr::load(static_cast<Id>(loads_.size() - 1), reg);
}

Ref Points::map(Expr value, HostType type, std::vector<Size> strides) {
  Map map;
  map.space = space_;
  map.loads = std::move(loads_);
  map.value.push_back(stored(std::move(value), type));
  std::vector<std::vector<Size>> all;
  if (!strides.empty()) all.push_back(std::move(strides));
  return call_.add(std::move(map), {type}, std::move(all))[0];
}

Ref Points::elementwise(Expr value, HostType type) {
  std::vector<Size> strides;
  for (const Load& load : loads_) {
    if (std::any_of(load.ref.strides.begin(), load.ref.strides.end(), [](const Size& s) { return s.is(0); })) continue;
    if (!strides.empty() && strides != load.ref.strides) return map(std::move(value), type);
    strides = load.ref.strides;
  }
  if (!strides.empty() && !is_dense(space_, strides)) strides.clear();
  return map(std::move(value), type, std::move(strides));
}

std::vector<Ref> Points::reduce(Monoid monoid, std::vector<int32_t> dims, Expr value, std::vector<HostType> types,
                                bool trap) {
  Reduce node;
  node.space = space_;
  node.dims = std::move(dims);
  node.monoid = monoid;
  node.trap = trap;
  node.loads = std::move(loads_);
  node.value = std::move(value);
  return call_.add(std::move(node), std::move(types));
}

std::vector<Ref> Points::scan(Monoid monoid, int32_t dim, Expr value, std::vector<HostType> types, bool trap) {
  Scan node;
  node.space = space_;
  node.dim = dim;
  node.monoid = monoid;
  node.trap = trap;
  node.loads = std::move(loads_);
  node.value = std::move(value);
  return call_.add(std::move(node), std::move(types));
}

Ref as_type(Call& call, const Ref& ref, HostType type) {
  if (call.type(ref) == type) return ref;
  Points p(call, ref.sizes);
  // A change between integer widths is an operation even though nothing is computed: the narrower one wraps.
  Expr e = p.read(ref);
  if (e.type == Reg::i32 && (type == HostType::u8 || type == HostType::i8 || type == HostType::i16))
    e = x2(VecOp::bit_and, std::move(e), Expr::i32(type == HostType::i16 ? 65535 : 255));
  // Infinities and NaN are the most negative integer, as torch on x86 has it, not a stop: they are often made (the
  // logarithm of 0) and discarded behind the cast.
  if (e.type == Reg::f32 && type == HostType::i64) {
    Expr finite = x2(VecOp::lt, x1(VecOp::abs, e), Expr::f32(std::numeric_limits<double>::infinity()));
    e = where(std::move(finite), std::move(e), Expr::f32(std::numeric_limits<int32_t>::min()));
  }
  return p.elementwise(std::move(e), type);
}

Ref copy(Call& call, const Ref& ref, std::vector<Size> strides) {
  Points p(call, ref.sizes);
  const Expr e = p.read(ref);
  return p.map(e, call.type(ref), std::move(strides));
}

std::vector<Size> infer_size(const Call& call, std::vector<Size> sizes, const Size& count) {
  Size others = 1;
  Size* unknown = nullptr;
  for (Size& s : sizes) {
    if (s.is(-1)) {
      if (unknown) call.refuse("two sizes are -1");
      unknown = &s;
    } else {
      others = others * s;
    }
  }
  if (unknown) {
    if (others.is(0)) call.refuse("a size of -1 beside a size of 0");
    *unknown = Size::floor_div(count, others);
  }
  return sizes;
}

Ref reshaped(Call& call, const Ref& ref, const std::vector<Size>& asked) {
  const Size count = numel(ref.sizes);
  std::vector<Size> sizes = infer_size(call, asked, count);
  if (sizes == ref.sizes) return ref;
  if (!(numel(sizes) == count)) call.refuse("{} elements into a shape of {}", count.text(), numel(sizes).text());
  if (auto strides = view_strides(ref, sizes)) return {ref.value, std::move(sizes), std::move(*strides), ref.offset};
  Ref made = copy(call, ref);
  auto strides = view_strides(made, sizes);
  // The copy is contiguous: row-major strides of any sizes of as many elements are right.
  return {made.value, sizes, strides ? std::move(*strides) : contiguous(sizes), made.offset};
}

}  // namespace spyre::graph
