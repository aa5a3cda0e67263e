// Reading where tensors of indices say: embedding, index, gather, index_select.
#include "graph/import_index.h"

#include <algorithm>

#include "graph/views.h"

namespace spyre::graph {

namespace {

void check_index_type(const Call& call, const Ref& index) {
  const HostType type = call.type(index);
  if (type != HostType::i64 && type != HostType::i32) call.refuse("indices of {}", base::host_name(type));
}

}  // namespace

Ref over_space(const Ref& index, const std::vector<Size>& space, size_t first) {
  Ref out{index.value, space, std::vector<Size>(space.size(), 0), index.offset};
  for (size_t d = 0; d < index.sizes.size(); ++d) out.strides[first + d] = index.strides[d];
  return out;
}

Indexing indexing_of(Call& call, const Ref& tensor, std::vector<std::optional<Ref>> indices) {
  const size_t rank = tensor.sizes.size();
  if (indices.size() > rank) call.refuse("{} indices for {} dimensions", indices.size(), rank);
  indices.resize(rank);
  Indexing out;
  size_t first = rank, last = 0;
  bool any = false;
  for (size_t d = 0; d < rank; ++d) {
    if (!indices[d]) continue;
    check_index_type(call, *indices[d]);
    out.common = any ? broadcast(call, out.common, indices[d]->sizes) : indices[d]->sizes;
    first = std::min(first, d);
    last = d;
    any = true;
  }
  if (!any) call.refuse("no indices");
  bool together = true;
  for (size_t d = first; d <= last; ++d) together = together && indices[d].has_value();
  out.first = together ? first : 0;
  out.dim.assign(rank, -1);
  for (size_t d = 0; d < rank; ++d) {
    if (out.space.size() == out.first && (together ? d == first : d == 0))
      out.space.insert(out.space.end(), out.common.begin(), out.common.end());
    if (indices[d]) {
      indices[d] = expand_to(call, *indices[d], out.common);
      continue;
    }
    out.dim[d] = static_cast<int32_t>(out.space.size());
    out.space.push_back(tensor.sizes[d]);
  }
  out.index = std::move(indices);
  return out;
}

Expr wrapped_index(Call& call, Points& points, const Indexing& indexing, size_t d, const Size& size) {
  const Expr i = points.read(over_space(*indexing.index[d], indexing.space, indexing.first));
  return where(x2(VecOp::lt, i, Expr::i32(0)), x2(VecOp::add, i, integer_expr(call, size)), i);
}

namespace {

std::vector<Arg> index(Call& call) {
  const Ref x = call.tensor(0);
  const Indexing at = indexing_of(call, x, call.maybe_tensors(1));
  Points p(call, at.space);
  Ref from{x.value, at.space, std::vector<Size>(at.space.size(), 0), x.offset};
  std::vector<Load::Gather> gathers;
  for (size_t d = 0; d < x.sizes.size(); ++d) {
    if (at.index[d])
      gathers.push_back({wrapped_index(call, p, at, d, x.sizes[d]), x.sizes[d], x.strides[d], OnOutside::trap});
    else
      from.strides[static_cast<size_t>(at.dim[d])] = x.strides[d];
  }
  Expr e = p.gather(std::move(from), std::move(gathers));
  return {p.map(std::move(e), call.type(x))};
}

/// embedding(weight, indices, ...)
std::vector<Arg> embedding(Call& call) {
  const Ref w = call.tensor(0), ids = call.tensor(1);
  if (w.sizes.size() != 2) call.refuse("a matrix of weights");
  check_index_type(call, ids);
  std::vector<Size> space = ids.sizes;
  space.push_back(w.sizes[1]);
  Points p(call, space);
  Expr row = p.read(over_space(ids, space, 0));
  Ref from{w.value, space, std::vector<Size>(space.size(), 0), w.offset};
  from.strides.back() = w.strides[1];
  Expr e = p.gather(std::move(from), {{std::move(row), w.sizes[0], w.strides[0], OnOutside::trap}});
  return {p.map(std::move(e), call.type(w))};
}

/// index_select(self, dim, index)
std::vector<Arg> index_select(Call& call) {
  const Ref x = call.tensor(0), ids = call.tensor(2);
  if (x.sizes.empty() || ids.sizes.size() > 1) call.refuse("a vector of indices");
  check_index_type(call, ids);
  const int32_t dim = call.dim(1, x.sizes.size());
  const auto d = static_cast<size_t>(dim);
  const Ref list = ids.sizes.empty() ? unsqueezed(ids, 0) : ids;
  std::vector<Size> space = x.sizes;
  space[d] = list.sizes[0];
  Points p(call, space);
  Expr place = p.read(over_space(list, space, d));
  Ref from = x;
  from.sizes = space;
  from.strides[d] = 0;
  Expr e = p.gather(std::move(from), {{std::move(place), x.sizes[d], x.strides[d], OnOutside::trap}});
  return {p.map(std::move(e), call.type(x))};
}

/// gather(self, dim, index)
std::vector<Arg> gather(Call& call) {
  const Ref x = call.tensor(0), ids = call.tensor(2);
  check_index_type(call, ids);
  if (x.sizes.empty() || x.sizes.size() != ids.sizes.size())
    call.refuse("as many dimensions of indices as of the tensor");
  const auto d = static_cast<size_t>(call.dim(1, x.sizes.size()));
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    if (i != d && !call.at_most(ids.sizes[i], x.sizes[i]))
      call.refuse("indices must be known to be inside dimension {}", i);
  }
  Points p(call, ids.sizes);
  Expr place = p.read(ids);
  Ref from = x;
  from.sizes = ids.sizes;
  from.strides[d] = 0;
  Expr e = p.gather(std::move(from), {{std::move(place), x.sizes[d], x.strides[d], OnOutside::trap}});
  return {p.map(std::move(e), call.type(x))};
}

constexpr ImportEntry index_entries[] = {
    {"aten::embedding", embedding},       {"aten::index.Tensor", index}, {"aten::_unsafe_index.Tensor", index},
    {"aten::index_select", index_select}, {"aten::gather", gather},
};

}  // namespace

std::span<const ImportEntry> index_imports() { return index_entries; }

}  // namespace spyre::graph
