#include "program/conventions.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "program/limits.h"

namespace spyre::program {

using IOp = IntExpr::Op;

IntExpr lo_of(Id parent) { return IntExpr::leaf(IOp::start, parent); }
IntExpr hi_of(Id parent) {
  return IntExpr::binary(IOp::add, IntExpr::leaf(IOp::start, parent), IntExpr::leaf(IOp::size, parent));
}

Compare first_trip(Id range) { return {Compare::Op::eq, IntExpr::leaf(IOp::trip, range), IntExpr::of(0)}; }
Compare last_trip(Id range, const Kernel& kernel) {
  const Range& r = kernel.ranges[range];
  return {Compare::Op::ge, IntExpr::binary(IOp::add, IntExpr::leaf(IOp::start, range), IntExpr::of(r.by)), r.hi};
}

BufDim position_of(Id range, const Kernel& kernel, std::span<const Id> declared_under) {
  BufDim dim;
  dim.kind = BufDim::Kind::box;
  dim.range = range;
  dim.size = IntExpr::leaf(IOp::size, range);
  Id root = range;
  for (Id id = range; id != none; id = kernel.ranges[id].parent) {
    if (std::find(declared_under.begin(), declared_under.end(), id) != declared_under.end()) {
      dim.first = id == range
                      ? IntExpr::of(0)
                      : IntExpr::binary(IOp::sub, IntExpr::leaf(IOp::start, range), IntExpr::leaf(IOp::start, id));
      return dim;
    }
    root = id;
  }
  const IntExpr& lo = kernel.ranges[root].lo;
  dim.first = IntExpr::leaf(IOp::start, range);
  if (!lo.is_constant(0)) dim.first = IntExpr::binary(IOp::sub, std::move(dim.first), lo);
  return dim;
}

bool may_be_empty(const Range& range) { return range.is_core || range.uniform; }

int64_t trips_of(const Range& range, const Kernel& kernel, int64_t length) {
  if (range.uniform && range.parent != none) length = std::max(length, kernel.ranges[range.parent].by);
  return length <= 0 ? 0 : length / range.by + (length % range.by != 0 ? 1 : 0);
}

namespace {

void collect_starts(const IntExpr& expr, std::vector<Id>& out) {
  if (expr.op == IOp::start && std::find(out.begin(), out.end(), expr.id) == out.end()) out.push_back(expr.id);
  for (const IntExpr& arg : expr.args) collect_starts(arg, out);
}

bool uses_start(const IntExpr& expr, Id range) {
  if (expr.op == IOp::start && expr.id == range) return true;
  return std::any_of(expr.args.begin(), expr.args.end(), [&](const IntExpr& a) { return uses_start(a, range); });
}

/// The factor of the range's start in an expression linear in it.
std::optional<int64_t> factor_of(const IntExpr& expr, Id range) {
  if (!uses_start(expr, range)) return 0;
  int64_t result = 0;
  switch (expr.op) {
    case IOp::start:
      return 1;
    case IOp::add:
    case IOp::sub: {
      const auto a = factor_of(expr.args[0], range), b = factor_of(expr.args[1], range);
      if (!a || !b) return std::nullopt;
      const bool overflow =
          expr.op == IOp::add ? __builtin_add_overflow(*a, *b, &result) : __builtin_sub_overflow(*a, *b, &result);
      return overflow ? std::nullopt : std::optional(result);
    }
    case IOp::mul:
      for (int side = 0; side < 2; ++side) {
        if (!expr.args[side].is_constant()) continue;
        const auto f = factor_of(expr.args[1 - side], range);
        if (f && !__builtin_mul_overflow(*f, expr.args[side].value, &result)) return result;
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::vector<Id> starts_in(const IntExpr& expr) {
  std::vector<Id> ids;
  collect_starts(expr, ids);
  return ids;
}

EntryOrError entry_of(IntExpr base, std::span<const Id> bare, const Kernel& kernel) {
  Entry entry;
  entry.extent = IntExpr::of(1);
  if (bare.empty()) {
    entry.base = std::move(base);
    return {std::move(entry), {}};
  }
  Id widest = none;
  for (Id id : bare) {
    if (kernel.ranges[id].by == 1) continue;
    if (widest != none) {
      return {{},
              "has two ranges that advance by more than 1 (" + kernel.ranges[widest].name + " and " +
                  kernel.ranges[id].name + "): one entry can walk only one; write .start for the other"};
    }
    widest = id;
  }
  if (widest != none) {
    const auto factor = factor_of(base, widest);
    if (!factor || *factor < 1) {
      return {{},
              "walks range " + kernel.ranges[widest].name +
                  ", which must enter with a constant factor >= 1 outside div, mod, min and max"};
    }
    entry.step = *factor;
  } else {
    widest = bare.front();
  }
  entry.range = widest;
  entry.extent = IntExpr::leaf(IOp::size, widest);
  for (Id id : bare) {
    if (id == widest || !may_be_empty(kernel.ranges[id])) continue;
    IntExpr other = IntExpr::leaf(IOp::size, id);
    const int64_t by = kernel.ranges[widest].by;
    if (by != 1) other = IntExpr::binary(IOp::mul, IntExpr::of(by), std::move(other));
    entry.extent = IntExpr::binary(IOp::min, std::move(entry.extent), std::move(other));
  }
  entry.base = std::move(base);
  return {std::move(entry), {}};
}

int depth_of(const IntExpr& expr) {
  int most = 0;
  for (const IntExpr& arg : expr.args) most = std::max(most, depth_of(arg));
  return 1 + most;
}

std::optional<int64_t> constant_value(const IntExpr& expr) {
  if (expr.op == IOp::constant) return expr.value;
  if (expr.args.size() != 2) return std::nullopt;
  const auto a = constant_value(expr.args[0]), b = constant_value(expr.args[1]);
  if (!a || !b) return std::nullopt;
  int64_t result = 0;
  bool overflow = false;
  switch (expr.op) {
    case IOp::add:
      overflow = __builtin_add_overflow(*a, *b, &result);
      break;
    case IOp::sub:
      overflow = __builtin_sub_overflow(*a, *b, &result);
      break;
    case IOp::mul:
      overflow = __builtin_mul_overflow(*a, *b, &result);
      break;
    case IOp::min:
      result = std::min(*a, *b);
      break;
    case IOp::max:
      result = std::max(*a, *b);
      break;
    case IOp::div:
    case IOp::mod: {
      if (*b < 1) return std::nullopt;
      const int64_t rest = *a % *b, down = rest < 0 ? 1 : 0;
      result = expr.op == IOp::mod ? rest + down * *b : *a / *b - down;
      break;
    }
    default:
      return std::nullopt;
  }
  return overflow ? std::nullopt : std::optional(result);
}

std::optional<int64_t> static_maximum(const IntExpr& expr, const Kernel& kernel) {
  int64_t result = 0;
  switch (expr.op) {
    case IOp::constant:
      return expr.value;
    case IOp::size:
      return kernel.ranges[expr.id].by;
    case IOp::min: {
      const auto a = static_maximum(expr.args[0], kernel), b = static_maximum(expr.args[1], kernel);
      if (a && b) return std::min(*a, *b);
      return a ? a : b;
    }
    case IOp::max:
    case IOp::add: {
      const auto a = static_maximum(expr.args[0], kernel), b = static_maximum(expr.args[1], kernel);
      if (!a || !b) return std::nullopt;
      if (expr.op == IOp::max) return std::max(*a, *b);
      return __builtin_add_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
    }
    case IOp::mul:
      for (int side = 0; side < 2; ++side) {
        const IntExpr& factor = expr.args[side];
        if (!factor.is_constant() || factor.value < 0) continue;
        const auto a = static_maximum(expr.args[1 - side], kernel);
        if (a && !__builtin_mul_overflow(*a, factor.value, &result)) return result;
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

bool is_point(const Entry& entry, const Kernel& kernel) {
  if (entry.kind == Entry::Kind::affine) {
    const auto most = static_maximum(entry.extent, kernel);
    return most && *most <= 1;
  }
  const Buffer& buffer = kernel.buffers[entry.index.buffer];
  for (size_t d = 0; d < buffer.shape.size(); ++d) {
    const bool boxed = !entry.index.box.empty() && entry.index.box[d].kind == BufDim::Kind::box;
    const auto most = boxed ? static_maximum(entry.index.box[d].size, kernel) : std::optional(buffer.shape[d]);
    if (!most || *most > 1) return false;
  }
  return true;
}

std::vector<int> tile_dimensions(const MemRef& access, const BufRef& tile, const Kernel& kernel) {
  const Buffer& buffer = kernel.buffers[tile.buffer];
  const int entries = static_cast<int>(access.entries.size()), rank = static_cast<int>(buffer.shape.size());
  std::vector<int> dims(entries, -1);
  int too_many = std::max(0, entries - rank);
  int next = std::max(0, rank - entries);
  for (int d = 0; d < next; ++d) {
    if (buffer.shape[d] != 1) {
      fail(Fault::program, "{} has {} entries but buffer {} has {} dimensions, of which the leading ones are not 1",
           kernel.formals[access.symbol].name, entries, buffer.name, rank);
    }
  }
  for (int e = 0; e < entries; ++e) {
    if (too_many > 0 && is_point(access.entries[e], kernel)) {
      --too_many;
    } else if (next < rank) {
      dims[e] = next++;
    } else {
      fail(Fault::program, "{} has {} entries but buffer {} has {} dimensions, and too few of the entries are points",
           kernel.formals[access.symbol].name, entries, buffer.name, rank);
    }
  }
  return dims;
}

bool is_reserved(std::string_view text) {
  static constexpr std::array words = {"_",      "and", "barrier", "buf", "by", "call", "core",   "div", "fence",
                                       "for",    "geo", "grid",    "if",  "in", "inf",  "kernel", "ld",  "loc",
                                       "mod",    "mv",  "nan",     "not", "or", "over", "psum",   "pt",  "ring",
                                       "scalar", "sfp", "shl",     "shr", "st", "sym",  "where",  "xor"};
  if (std::find(words.begin(), words.end(), text) != words.end()) return true;
  return text.starts_with("iota") && text.find_first_not_of("0123456789", 4) == std::string_view::npos;
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > limits::name_length || is_reserved(text)) return false;
  if (text[0] >= '0' && text[0] <= '9') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace spyre::program
