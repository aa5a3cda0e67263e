// Views: they return references and add no node.
#include <algorithm>

#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {
namespace {

size_t rank(const Ref& ref) { return ref.sizes.size(); }

std::vector<Arg> alias(Call& call) { return {call.tensor(0)}; }

std::vector<Arg> permute(Call& call) {
  const Ref x = call.tensor(0);
  std::vector<int32_t> order;
  std::vector<bool> seen(rank(x));
  for (int64_t d : call.constants(1)) {
    order.push_back(call.wrap(d, rank(x)));
    if (rank(x) == 0 || seen[static_cast<size_t>(order.back())]) call.refuse("dimensions are not a permutation");
    seen[static_cast<size_t>(order.back())] = true;
  }
  if (order.size() != rank(x)) call.refuse("dimensions are not a permutation");
  return {permuted(x, order)};
}

Ref swapped(const Ref& x, int32_t a, int32_t b) {
  Ref out = x;
  std::swap(out.sizes[static_cast<size_t>(a)], out.sizes[static_cast<size_t>(b)]);
  std::swap(out.strides[static_cast<size_t>(a)], out.strides[static_cast<size_t>(b)]);
  return out;
}

std::vector<Arg> transpose(Call& call) {
  const Ref x = call.tensor(0);
  const int32_t a = call.dim(1, rank(x)), b = call.dim(2, rank(x));
  return {rank(x) == 0 ? x : swapped(x, a, b)};
}

std::vector<Arg> t(Call& call) {
  const Ref x = call.tensor(0);
  if (rank(x) > 2) call.refuse("at most 2 dimensions");
  return {rank(x) < 2 ? x : swapped(x, 0, 1)};
}

std::vector<Arg> reshape(Call& call) { return {reshaped(call, call.tensor(0), call.integers(1))}; }
std::vector<Arg> view_as(Call& call) { return {reshaped(call, call.tensor(0), call.tensor(1).sizes)}; }

std::vector<Arg> flatten(Call& call) {
  const Ref x = call.tensor(0);
  if (rank(x) == 0) return {reshaped(call, x, {1})};
  const auto first = static_cast<size_t>(call.wrap(call.constant_or(1, 0), rank(x)));
  const auto last = static_cast<size_t>(call.wrap(call.constant_or(2, -1), rank(x)));
  if (first > last) call.refuse("start_dim is after end_dim");
  std::vector<Size> sizes;
  for (size_t d = 0; d < rank(x); ++d) {
    if (d <= first || d > last)
      sizes.push_back(x.sizes[d]);
    else
      sizes.back() = sizes.back() * x.sizes[d];
  }
  return {reshaped(call, x, sizes)};
}

std::vector<Arg> unflatten(Call& call) {
  const Ref x = call.tensor(0);
  const int32_t dim = call.dim(1, rank(x));
  if (rank(x) == 0) call.refuse("a tensor without dimensions");
  const Size& size = x.sizes[static_cast<size_t>(dim)];
  const std::vector<Size> sizes = infer_size(call, call.integers(2), size);
  if (!(numel(sizes) == size)) call.refuse("{} into a shape of {}", size.text(), numel(sizes).text());
  return {unflattened(x, dim, sizes)};
}

std::vector<Arg> expand(Call& call) {
  const Ref x = call.tensor(0);
  std::vector<Size> sizes = call.integers(1);
  if (sizes.size() < rank(x)) call.refuse("fewer sizes than dimensions");
  const size_t lead = sizes.size() - rank(x);
  for (size_t d = lead; d < sizes.size(); ++d) {
    if (sizes[d].is(-1)) sizes[d] = x.sizes[d - lead];
  }
  return {expand_to(call, x, sizes)};
}

std::vector<Arg> expand_as(Call& call) { return {expand_to(call, call.tensor(0), call.tensor(1).sizes)}; }

std::vector<Arg> unsqueeze(Call& call) {
  const Ref x = call.tensor(0);
  return {unsqueezed(x, call.dim(1, rank(x) + 1))};
}

/// Dimensions of these that have size 1 disappear. One whose size is a symbol stays: torch specialises sizes of 1.
Ref without_ones(Ref x, const std::vector<int32_t>& dims) {
  for (size_t i = dims.size(); i-- > 0;) {
    if (x.sizes[static_cast<size_t>(dims[i])].is(1)) x = squeezed(x, dims[i]);
  }
  return x;
}

std::vector<Arg> squeeze(Call& call) {
  const Ref x = call.tensor(0);
  const bool none_given = call.has(1) && call.integers(1).empty();
  if (none_given) return {x};
  return {without_ones(x, call.dims_or_all(1, rank(x)))};
}

std::vector<Arg> slice(Call& call) {
  const Ref x = call.tensor(0);
  if (rank(x) == 0) call.refuse("a tensor without dimensions");
  const int32_t dim = call.has(1) ? call.dim(1, rank(x)) : 0;
  const int64_t step = call.constant_or(4, 1);
  const auto [start, count] =
      slice_bounds(call, x.sizes[static_cast<size_t>(dim)], call.integer_or(2, 0), call.integer_or(3, INT64_MAX), step);
  return {sliced(x, dim, start, count, step)};
}

std::vector<Arg> narrow(Call& call) {
  const Ref x = call.tensor(0);
  if (rank(x) == 0) call.refuse("a tensor without dimensions");
  const int32_t dim = call.dim(1, rank(x));
  Size start = call.integer(2);
  if (call.at_most(start, -1)) start = start + x.sizes[static_cast<size_t>(dim)];
  return {sliced(x, dim, start, call.integer(3))};
}

std::vector<Arg> select_index(Call& call) {
  const Ref x = call.tensor(0);
  if (rank(x) == 0) call.refuse("a tensor without dimensions");
  const int32_t dim = call.dim(1, rank(x));
  const Size& size = x.sizes[static_cast<size_t>(dim)];
  Size index = call.integer(2);
  if (call.at_most(index, -1))
    index = index + size;
  else if (!call.at_most(0, index))
    call.refuse("whether {} is negative is not known for all instances", index.text());
  if (index.constant() && size.constant() && (*index.constant() < 0 || *index.constant() >= *size.constant()))
    call.refuse("index {} of {}", index.text(), size.text());
  return {selected(x, dim, index)};
}

// Strides are those of our value, which are torch's only where they can't be otherwise: of inputs and of vectors.
std::vector<Arg> as_strided(Call& call) {
  const Ref x = call.tensor(0);
  const Value& value = call.builder.graph().values[static_cast<size_t>(x.value)];
  const std::vector<Size> sizes = call.integers(1), strides = call.integers(2);
  if (sizes.size() != strides.size()) call.refuse("as many strides as sizes");
  const bool is_input = value.node == none;
  if (is_input && call.has(3))
    call.refuse("where the tensor begins in its storage is known only at launch: leave storage_offset out");
  if (!is_input && value.sizes.size() > 1) call.refuse("the strides of an intermediate result are the compiler's");
  for (const Size& s : strides) {
    if (!call.at_most(0, s)) call.refuse("stride {}", s.text());
  }
  return {Ref{x.value, sizes, strides, call.has(3) ? call.integer(3) : x.offset}};
}

std::vector<Arg> unfold(Call& call) {
  const Ref x = call.tensor(0);
  if (rank(x) == 0) call.refuse("a tensor without dimensions");
  const int32_t dim = call.dim(1, rank(x));
  const Size size = call.integer(2), step = call.integer(3);
  if (!call.at_most(1, step) || !call.at_most(0, size) || !call.at_most(size, x.sizes[static_cast<size_t>(dim)]))
    call.refuse("windows must be known to fit");
  return {windows(x, dim, size, step)};
}

std::vector<Arg> diagonal(Call& call) {
  const Ref x = call.tensor(0);
  const int64_t offset = call.constant_or(1, 0);
  const int32_t a = call.wrap(call.constant_or(2, 0), rank(x)), b = call.wrap(call.constant_or(3, 1), rank(x));
  if (a == b || rank(x) < 2) call.refuse("two different dimensions");
  const Size rows = x.sizes[static_cast<size_t>(a)], columns = x.sizes[static_cast<size_t>(b)];
  const Size stride_a = x.strides[static_cast<size_t>(a)], stride_b = x.strides[static_cast<size_t>(b)];
  const Size room_a = offset < 0 ? rows + offset : rows, room_b = offset > 0 ? columns - offset : columns;
  Size count = Size::min(room_a, room_b);
  if (!call.at_most(0, count)) count = Size::max(count, 0);
  Ref out = squeezed(squeezed(x, std::max(a, b)), std::min(a, b));
  out.offset = x.offset + (offset < 0 ? stride_a * Size(-offset) : stride_b * Size(offset));
  if (count.is(0)) out.offset = x.offset;
  out.sizes.push_back(count);
  out.strides.push_back(stride_a + stride_b);
  return {out};
}

std::vector<Arg> parts(const Ref& x, int32_t dim, const std::vector<Size>& sizes) {
  std::vector<Ref> out;
  Size start = 0;
  for (const Size& size : sizes) {
    out.push_back(sliced(x, dim, start, size));
    start = start + size;
  }
  return {out};
}

/// Parts of `part`, the last one smaller.
std::vector<Arg> equal_parts(Call& call, const Ref& x, int32_t dim, const Size& part) {
  const Size size = x.sizes[static_cast<size_t>(dim)];
  const auto count = Size::floor_div(size + part - 1, part).constant();
  if (!count) call.refuse("the number of parts must be the same for every size");
  if (*count > 100'000) call.refuse("{} parts", *count);
  std::vector<Size> sizes(static_cast<size_t>(std::max<int64_t>(*count, 1)), part);
  sizes.back() = size - part * Size(static_cast<int64_t>(sizes.size()) - 1);
  return parts(x, dim, sizes);
}

std::vector<Arg> split(Call& call) {
  const Ref x = call.tensor(0);
  if (rank(x) == 0) call.refuse("a tensor without dimensions");
  const Size part = call.integer(1);
  if (!call.at_most(1, part)) call.refuse("parts of {}", part.text());
  return equal_parts(call, x, call.has(2) ? call.dim(2, rank(x)) : 0, part);
}

std::vector<Arg> chunk(Call& call) {
  const Ref x = call.tensor(0);
  if (rank(x) == 0) call.refuse("a tensor without dimensions");
  const int32_t dim = call.has(2) ? call.dim(2, rank(x)) : 0;
  const int64_t chunks = call.constant(1);
  if (chunks < 1) call.refuse("{} parts", chunks);
  const Size part = Size::floor_div(x.sizes[static_cast<size_t>(dim)] + (chunks - 1), chunks);
  if (!call.at_most(1, part)) call.refuse("parts of {}", part.text());
  return equal_parts(call, x, dim, part);
}

std::vector<Arg> split_with_sizes(Call& call) {
  const Ref x = call.tensor(0);
  if (rank(x) == 0) call.refuse("a tensor without dimensions");
  const int32_t dim = call.has(2) ? call.dim(2, rank(x)) : 0;
  const std::vector<Size> sizes = call.integers(1);
  Size sum = 0;
  for (const Size& s : sizes) sum = sum + s;
  if (!(sum == x.sizes[static_cast<size_t>(dim)])) call.refuse("the sizes add up to {}", sum.text());
  return parts(x, dim, sizes);
}

std::vector<Arg> unbind(Call& call) {
  const Ref x = call.tensor(0);
  if (rank(x) == 0) call.refuse("a tensor without dimensions");
  const int32_t dim = call.has(1) ? call.dim(1, rank(x)) : 0;
  const auto size = x.sizes[static_cast<size_t>(dim)].constant();
  if (!size) call.refuse("the number of tensors must be the same for every size");
  std::vector<Ref> out;
  for (int64_t i = 0; i < *size; ++i) out.push_back(selected(x, dim, i));
  return {out};
}

std::vector<Arg> movedim(Call& call) {
  const Ref x = call.tensor(0);
  const std::vector<int64_t> from = call.constants(1), to = call.constants(2);
  if (from.size() != to.size() || rank(x) == 0) call.refuse("as many source as destination dimensions");
  std::vector<int32_t> order(rank(x), -1);
  std::vector<bool> moved(rank(x));
  for (size_t i = 0; i < from.size(); ++i) {
    const int32_t source = call.wrap(from[i], rank(x)), target = call.wrap(to[i], rank(x));
    if (moved[static_cast<size_t>(source)] || order[static_cast<size_t>(target)] != -1)
      call.refuse("a dimension is given twice");
    moved[static_cast<size_t>(source)] = true;
    order[static_cast<size_t>(target)] = source;
  }
  int32_t next = 0;
  for (int32_t& d : order) {
    if (d != -1) continue;
    while (moved[static_cast<size_t>(next)]) ++next;
    d = next++;
  }
  return {permuted(x, order)};
}

constexpr ImportEntry view_entries[] = {
    {"aten::alias", alias},
    {"aten::detach", alias},
    {"aten::lift", alias},
    {"aten::lift_fresh", alias},
    {"prims::view_of", alias},
    {"aten::permute", permute},
    {"aten::transpose.int", transpose},
    {"aten::swapaxes", transpose},
    {"aten::t", t},
    {"aten::view", reshape},
    {"aten::reshape", reshape},
    {"aten::_unsafe_view", reshape},
    {"aten::view_as", view_as},
    {"aten::reshape_as", view_as},
    {"aten::flatten.using_ints", flatten},
    {"aten::unflatten.int", unflatten},
    {"aten::expand", expand},
    {"aten::broadcast_to", expand},
    {"aten::expand_as", expand_as},
    {"aten::unsqueeze", unsqueeze},
    {"aten::squeeze", squeeze},
    {"aten::squeeze.dim", squeeze},
    {"aten::squeeze.dims", squeeze},
    {"aten::slice.Tensor", slice},
    {"aten::narrow", narrow},
    {"aten::select.int", select_index},
    {"aten::as_strided", as_strided},
    {"aten::unfold", unfold},
    {"aten::diagonal", diagonal},
    {"aten::split.Tensor", split},
    {"aten::chunk", chunk},
    {"aten::split_with_sizes", split_with_sizes},
    {"aten::split.sizes", split_with_sizes},
    {"aten::unbind.int", unbind},
    {"aten::movedim.intlist", movedim},
    {"aten::movedim.int", movedim},
};

}  // namespace

std::span<const ImportEntry> view_imports() { return view_entries; }

}  // namespace spyre::graph
