// Boxes written into a tensor: cat, stack, pad, slice_scatter, roll; and repeats, flips and triangles, which are maps.
#include <algorithm>

#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {

Ref concatenate(Call& call, const std::vector<Ref>& parts, int32_t dim, HostType type) {
  const auto d = static_cast<size_t>(dim);
  Place node;
  node.sizes = parts[0].sizes;
  Size start = 0;
  for (const Ref& part : parts) {
    if (part.sizes.size() != node.sizes.size()) call.refuse("tensors of different numbers of dimensions");
    for (size_t i = 0; i < node.sizes.size(); ++i) {
      if (i != d && !(part.sizes[i] == node.sizes[i]))
        call.refuse("sizes {} and {} of dimension {} must be known to be equal", part.sizes[i].text(),
                    node.sizes[i].text(), i);
    }
    Place::Piece piece{as_type(call, part, type), std::vector<Size>(node.sizes.size(), 0),
                       std::vector<Size>(node.sizes.size(), 1)};
    piece.start[d] = start;
    start = start + part.sizes[d];
    node.pieces.push_back(std::move(piece));
  }
  node.sizes[d] = start;
  return call.add(std::move(node), {type})[0];
}

Ref padded(Call& call, const Ref& ref, const std::vector<Size>& before, const std::vector<Size>& after, double fill) {
  Place node;
  node.fill = fill;
  for (size_t d = 0; d < ref.sizes.size(); ++d) node.sizes.push_back(before[d] + ref.sizes[d] + after[d]);
  node.pieces.push_back({ref, before, std::vector<Size>(ref.sizes.size(), 1)});
  return call.add(std::move(node), {call.type(ref)})[0];
}

namespace {

HostType common_type(const Call& call, const std::vector<Ref>& parts) {
  if (parts.empty()) call.refuse("no tensors");
  HostType type = call.type(parts[0]);
  for (const Ref& part : parts) type = promote(call, type, call.type(part));
  return type;
}

/// cat(tensors, dim). A vector of no elements is left out, whatever the others' dimensions are: torch's old habit.
std::vector<Arg> cat(Call& call) {
  const std::vector<Ref> given = call.tensors(0);
  const HostType type = common_type(call, given);
  std::vector<Ref> parts;
  for (const Ref& part : given) {
    if (part.sizes.empty()) call.refuse("a tensor without dimensions");
    if (!(part.sizes.size() == 1 && part.sizes[0].is(0))) parts.push_back(part);
  }
  if (parts.empty()) parts.push_back(given[0]);
  return {concatenate(call, parts, call.wrap(call.constant_or(1, 0), parts[0].sizes.size()), type)};
}

std::vector<Arg> stack(Call& call) {
  std::vector<Ref> parts = call.tensors(0);
  const HostType type = common_type(call, parts);
  const int32_t dim = call.wrap(call.constant_or(1, 0), parts[0].sizes.size() + 1);
  for (Ref& part : parts) {
    if (part.sizes.size() != parts[0].sizes.size() && part.sizes.size() != parts[0].sizes.size() - 1)
      call.refuse("tensors of different numbers of dimensions");
    part = unsqueezed(part, dim);
  }
  return {concatenate(call, parts, dim, type)};
}

/// constant_pad_nd(self, pad, value): pairs from the last dimension on; negative ones cut off.
std::vector<Arg> constant_pad(Call& call) {
  Ref x = call.tensor(0);
  const std::vector<Size> pad = call.integers(1);
  const size_t rank = x.sizes.size();
  if (pad.size() % 2 != 0 || pad.size() / 2 > rank) call.refuse("{} paddings for {} dimensions", pad.size(), rank);
  const HostType type = call.type(x);
  const double fill = std::holds_alternative<bool>(call.at(2)) ? (call.flag(2) ? 1 : 0) : call.number_or(2, 0);
  if (!is_float(type) && fill != static_cast<double>(static_cast<int64_t>(fill)))
    call.refuse("a fraction as padding of integers");
  std::vector<Size> before(rank, 0), after(rank, 0);
  bool any = false;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = rank - 1 - i;
    for (const bool front : {true, false}) {
      const Size& p = pad[2 * i + (front ? 0 : 1)];
      if (call.at_most(0, p)) {
        (front ? before : after)[d] = p;
        any = any || !p.is(0);
      } else if (call.at_most(p, 0)) {
        const Size left = x.sizes[d] + p;
        if (!call.at_most(0, left)) call.refuse("a padding of {} cuts off more than there is", p.text());
        x = sliced(x, static_cast<int32_t>(d), front ? Size(0) - p : Size(0), left);
      } else {
        call.refuse("whether padding {} is negative is not known for all instances", p.text());
      }
    }
  }
  return {any ? padded(call, x, before, after, fill) : copy(call, x)};
}

/// `source` written into a copy of `base`, from `start` on along `dim`.
Ref placed(Call& call, const Ref& base, const Ref& source, size_t dim, const Size& start, const Size& step) {
  Place node;
  node.base = base;
  node.sizes = base.sizes;
  Place::Piece piece{as_type(call, source, call.type(base)), std::vector<Size>(base.sizes.size(), 0),
                     std::vector<Size>(base.sizes.size(), 1)};
  piece.start[dim] = start;
  piece.step[dim] = step;
  node.pieces.push_back(std::move(piece));
  return call.add(std::move(node), {call.type(base)})[0];
}

/// slice_scatter(self, src, dim, start, end, step)
std::vector<Arg> slice_scatter(Call& call) {
  const Ref x = call.tensor(0);
  if (x.sizes.empty()) call.refuse("a tensor without dimensions");
  const auto d = static_cast<size_t>(call.wrap(call.constant_or(2, 0), x.sizes.size()));
  const int64_t step = call.constant_or(5, 1);
  const auto [start, count] =
      slice_bounds(call, x.sizes[d], call.integer_or(3, 0), call.integer_or(4, INT64_MAX), step);
  std::vector<Size> window = x.sizes;
  window[d] = count;
  return {placed(call, x, expand_to(call, call.tensor(1), window), d, start, step)};
}

/// select_scatter(self, src, dim, index)
std::vector<Arg> select_scatter(Call& call) {
  const Ref x = call.tensor(0);
  if (x.sizes.empty()) call.refuse("a tensor without dimensions");
  const int32_t dim = call.dim(2, x.sizes.size());
  Size index = call.integer(3);
  if (call.at_most(index, -1))
    index = index + x.sizes[static_cast<size_t>(dim)];
  else if (!call.at_most(0, index))
    call.refuse("whether {} is negative is not known for all instances", index.text());
  Ref source = call.tensor(1);
  if (source.sizes.size() + 1 != x.sizes.size()) call.refuse("the source has one dimension less than the tensor");
  source = unsqueezed(source, dim);
  std::vector<Size> window = x.sizes;
  window[static_cast<size_t>(dim)] = 1;
  if (source.sizes != window) call.refuse("the source must have the sizes of what it replaces");
  return {placed(call, x, source, static_cast<size_t>(dim), index, 1)};
}

/// A map over [r0, s0, r1, s1, ...], where the repeats have stride 0; its result seen as [r0 s0, r1 s1, ...].
std::vector<Arg> repeat(Call& call) {
  Ref x = call.tensor(0);
  const std::vector<Size> repeats = call.integers(1);
  if (repeats.size() < x.sizes.size()) call.refuse("fewer repeats than dimensions");
  while (x.sizes.size() < repeats.size()) x = unsqueezed(x, 0);
  Ref wide{x.value, {}, {}, x.offset};
  std::vector<Size> sizes;
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (!repeats[d].is(1) && x.sizes[d].is(1)) {
      wide.sizes.push_back(repeats[d]);
      wide.strides.push_back(0);
    } else {
      if (!repeats[d].is(1)) {
        wide.sizes.push_back(repeats[d]);
        wide.strides.push_back(0);
      }
      wide.sizes.push_back(x.sizes[d]);
      wide.strides.push_back(x.strides[d]);
    }
    sizes.push_back(repeats[d] * x.sizes[d]);
  }
  return {reshaped(call, copy(call, wide), sizes)};
}

std::vector<Arg> flip(Call& call) {
  Ref x = call.tensor(0);
  for (int64_t given : call.constants(1)) {
    const auto d = static_cast<size_t>(call.wrap(given, x.sizes.size()));
    if (x.sizes.empty()) continue;
    x.offset = x.offset + (x.sizes[d] - 1) * x.strides[d];
    x.strides[d] = Size(0) - x.strides[d];
  }
  if (numel(x.sizes).is(0)) x.offset = 0;
  return {copy(call, x)};
}

/// roll(self, shifts, dims): the two parts change places.
std::vector<Arg> roll(Call& call) {
  Ref x = call.tensor(0);
  const std::vector<Size> shifts = call.integers(1);
  std::vector<int64_t> dims = call.constants(2);
  const std::vector<Size> sizes = x.sizes;
  if (dims.empty()) {
    x = reshaped(call, x, {numel(x.sizes)});
    dims = {0};
  }
  if (dims.size() != shifts.size()) call.refuse("as many shifts as dimensions");
  for (size_t i = 0; i < dims.size(); ++i) {
    const int32_t dim = call.wrap(dims[i], x.sizes.size());
    const Size size = x.sizes[static_cast<size_t>(dim)];
    if (!call.at_most(1, size)) call.refuse("a dimension that may be empty");
    const Size shift = Size::mod(shifts[i], size);
    if (shift.is(0)) continue;
    x = concatenate(call, {sliced(x, dim, size - shift, shift), sliced(x, dim, 0, size - shift)}, dim, call.type(x));
  }
  return {reshaped(call, x.value == call.tensor(0).value ? copy(call, x) : x, sizes)};
}

/// tril: columns up to row + diagonal; triu: from there on.
template <bool lower>
std::vector<Arg> triangle(Call& call) {
  const Ref x = call.tensor(0);
  const auto rank = static_cast<int32_t>(x.sizes.size());
  if (rank < 2) call.refuse("at least 2 dimensions");
  const HostType type = call.type(x);
  Points p(call, x.sizes);
  Expr e = p.read(x);
  Expr zero = e.type == Reg::f32 ? Expr::f32(0) : e.type == Reg::pred ? Expr::pred(false) : Expr::i32(0);
  Expr edge = x2(VecOp::add, Expr::iota(rank - 2), integer_expr(call, call.integer_or(1, 0)));
  Expr inside = x2(lower ? VecOp::le : VecOp::ge, Expr::iota(rank - 1), std::move(edge));
  return {p.elementwise(where(std::move(inside), std::move(e), std::move(zero)), type)};
}

constexpr ImportEntry place_entries[] = {
    {"aten::cat", cat},
    {"aten::stack", stack},
    {"aten::constant_pad_nd", constant_pad},
    {"aten::slice_scatter", slice_scatter},
    {"aten::select_scatter", select_scatter},
    {"aten::repeat", repeat},
    {"aten::flip", flip},
    {"aten::roll", roll},
    {"aten::tril", triangle<true>},
    {"aten::triu", triangle<false>},
};

}  // namespace

std::span<const ImportEntry> place_imports() { return place_entries; }

}  // namespace spyre::graph
