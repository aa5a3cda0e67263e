#include "graph/import_call.h"

#include <algorithm>

#include "graph/size_range.h"
#include "graph/walk.h"

namespace spyre::graph {
namespace {

std::string sizes_text(std::span<const Size> sizes) {
  std::string out = "[";
  for (const Size& s : sizes) out += (out.size() > 1 ? ", " : "") + s.text();
  return out + "]";
}

std::string arg_text(const Builder& builder, const Arg& arg) {
  struct Visitor {
    const Builder& builder;
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(const Ref& r) const { return shape_text(builder.type(r), r.sizes); }
    std::string operator()(const std::vector<Ref>& list) const {
      std::string out = "(";
      for (const Ref& r : list) out += (out.size() > 1 ? ", " : "") + (*this)(r);
      return out + ")";
    }
    std::string operator()(const std::vector<std::optional<Ref>>& list) const {
      std::string out = "(";
      for (const auto& r : list) out += (out.size() > 1 ? ", " : "") + (r ? (*this)(*r) : "None");
      return out + ")";
    }
    std::string operator()(const Size& s) const { return s.text(); }
    std::string operator()(const std::vector<Size>& list) const { return sizes_text(list); }
    std::string operator()(double x) const { return fmt::format("{}", x); }
    std::string operator()(const ParamArg& p) const { return fmt::format("param {}", p.param); }
    std::string operator()(bool b) const { return b ? "True" : "False"; }
    std::string operator()(HostType t) const { return std::string(base::host_name(t)); }
    std::string operator()(const std::string& s) const { return "'" + s + "'"; }
  };
  return std::visit(Visitor{builder}, arg);
}

}  // namespace

void Call::refuse_with(const std::string& why) const {
  std::string text;
  size_t last = args_.size();
  while (last > 0 && std::holds_alternative<std::monostate>(args_[last - 1])) --last;
  for (size_t i = 0; i < last; ++i) text += (i > 0 ? ", " : "") + arg_text(builder, args_[i]);
  throw Error(Fault::unimplemented, fmt::format("{}({}): {}", overload, text, why));
}

const Arg& Call::at(size_t i) const {
  static const Arg nothing;
  return i < args_.size() ? args_[i] : nothing;
}

Ref Call::tensor(size_t i) const {
  if (const Ref* r = std::get_if<Ref>(&at(i))) return *r;
  refuse("argument {} must be a tensor", i);
}

std::optional<Ref> Call::maybe_tensor(size_t i) const {
  if (!has(i)) return std::nullopt;
  return tensor(i);
}

std::vector<Ref> Call::tensors(size_t i) const {
  if (const auto* list = std::get_if<std::vector<Ref>>(&at(i))) return *list;
  if (const auto* list = std::get_if<std::vector<std::optional<Ref>>>(&at(i))) {
    std::vector<Ref> out;
    for (const auto& r : *list) {
      if (!r) refuse("argument {} must be a list of tensors", i);
      out.push_back(*r);
    }
    return out;
  }
  refuse("argument {} must be a list of tensors", i);
}

std::vector<std::optional<Ref>> Call::maybe_tensors(size_t i) const {
  if (const auto* list = std::get_if<std::vector<std::optional<Ref>>>(&at(i))) return *list;
  const std::vector<Ref> all = tensors(i);
  return {all.begin(), all.end()};
}

Size Call::integer(size_t i) const {
  if (const Size* s = std::get_if<Size>(&at(i))) return *s;
  if (const bool* b = std::get_if<bool>(&at(i))) return *b ? 1 : 0;
  refuse("argument {} must be an integer", i);
}

int64_t Call::constant(size_t i) const {
  const auto c = integer(i).constant();
  if (!c) refuse("argument {} must be the same for every size", i);
  return *c;
}

std::vector<Size> Call::integers(size_t i) const {
  const Arg& arg = at(i);
  if (const auto* list = std::get_if<std::vector<Size>>(&arg)) return *list;
  if (!has(i)) return {};
  if (const auto* list = std::get_if<std::vector<Ref>>(&arg); list && list->empty()) return {};
  if (std::holds_alternative<Size>(arg)) return {integer(i)};
  refuse("argument {} must be a list of integers", i);
}

std::vector<int64_t> Call::constants(size_t i) const {
  std::vector<int64_t> out;
  for (const Size& s : integers(i)) {
    const auto c = s.constant();
    if (!c) refuse("argument {} must be the same for every size", i);
    out.push_back(*c);
  }
  return out;
}

double Call::number(size_t i) const {
  if (const double* d = std::get_if<double>(&at(i))) return *d;
  return static_cast<double>(constant(i));
}

bool Call::flag(size_t i) const {
  if (!has(i)) return false;
  if (const bool* b = std::get_if<bool>(&at(i))) return *b;
  return constant(i) != 0;
}

std::optional<HostType> Call::dtype(size_t i) const {
  if (!has(i)) return std::nullopt;
  if (const HostType* t = std::get_if<HostType>(&at(i))) {
    if (*t == HostType::f64 || *t == HostType::c64)
      refuse("the device has no {}: cast to float32", base::host_name(*t));
    return *t;
  }
  refuse("argument {} must be a dtype", i);
}

std::string Call::text(size_t i) const {
  if (!has(i)) return {};
  if (const auto* s = std::get_if<std::string>(&at(i))) return *s;
  refuse("argument {} must be a string", i);
}

int32_t Call::wrap(int64_t dim, size_t rank) const {
  const auto n = static_cast<int64_t>(std::max<size_t>(rank, 1));
  if (dim < -n || dim >= n) refuse("dimension {} of {}", dim, rank);
  return static_cast<int32_t>(dim < 0 ? dim + n : dim);
}

std::vector<int32_t> Call::dims_or_all(size_t i, size_t rank) const {
  std::vector<int32_t> out;
  for (int64_t d : constants(i)) out.push_back(wrap(d, rank));
  if (out.empty() || rank == 0) {
    out.clear();
    for (size_t d = 0; d < rank; ++d) out.push_back(static_cast<int32_t>(d));
    return out;
  }
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) refuse("a dimension is given twice");
  return out;
}

Reg Call::reg(const Ref& ref) const { return register_of(type(ref)); }

bool Call::at_most(const Size& a, const Size& b) const { return provably_at_most(a, b, builder.graph().symbols); }

std::vector<Ref> Call::add(Kind kind, std::vector<HostType> types, std::vector<std::vector<Size>> strides) const {
  return builder.add(std::move(kind), std::move(types), loc_, std::move(strides));
}

SliceBounds slice_bounds(Call& call, const Size& size, const Size& from, const Size& to, int64_t step) {
  if (step < 1) call.refuse("a step of {}", step);
  const auto clipped = [&](const Size& given) -> Size {
    if (given.is(INT64_MAX) || given == size) return size;
    Size s = given;
    if (call.at_most(s, -1))
      s = s + size;
    else if (!call.at_most(0, s))
      call.refuse("whether {} is negative is not known for all instances", s.text());
    if (!call.at_most(0, s)) s = Size::max(s, 0);
    return call.at_most(s, size) ? s : Size::min(s, size);
  };
  const Size start = clipped(from), end = clipped(to);
  Size count = end - start;
  if (!call.at_most(start, end)) count = Size::max(count, 0);
  if (step != 1) count = Size::floor_div(count + (step - 1), step);
  return {start, count};
}

}  // namespace spyre::graph
