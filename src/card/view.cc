#include "card/view.h"

#include "base/error.h"
#include "card/checker.h"
#include "card/core.h"

namespace spyre::card {

BufferInfo::BufferInfo(const program::Buffer& buffer) : source(&buffer) {
  format = buffer.format;
  rank = static_cast<int>(buffer.shape.size());
  if (rank < 1 || rank > max_rank)
    fail(Fault::unimplemented, "buffer {} has {} dimensions; the card holds 1 to {}", buffer.name, rank, max_rank);
  const int64_t per_stick = base::elements_per_stick(format);
  row_elements = (buffer.shape.back() + per_stick - 1) / per_stick * per_stick;
  int64_t step = 1;
  for (int d = rank - 1; d >= 0; --d) {
    shape[d] = buffer.shape[d];
    stride[d] = step;
    step *= d == rank - 1 ? row_elements : shape[d];
  }
  slot_bytes = step * base::format_bytes(format);
  lx_offset = buffer.lx_offset;
  slots = buffer.slots;
}

Operand::Operand(const program::BufRef& ref, const std::vector<BufferInfo>& buffers, const VarMap& vars)
    : ref_(&ref), buffer_(ref.buffer) {
  if (ref.buffer < 0 || ref.buffer >= static_cast<Id>(buffers.size()))
    fail(Fault::program, "a step names buffer {} of {}", ref.buffer, buffers.size());
  info_ = &buffers[ref.buffer];
  if (!ref.box.empty() && static_cast<int>(ref.box.size()) != info_->rank)
    fail(Fault::program, "operand of buffer {} has {} positions for {} dimensions", info_->source->name, ref.box.size(),
         info_->rank);
  fixed_.format = info_->format;
  fixed_.rank = info_->rank;
  fixed_.buffer = buffer_;
  for (int d = 0; d < info_->rank; ++d) {
    fixed_.size[d] = info_->shape[d];
    fixed_.stride[d] = info_->stride[d];
    fixed_.single[d] = info_->shape[d] == 1;
  }
  bool any = false;
  for (const auto& b : ref.box) any = any || b.kind == program::BufDim::Kind::box;
  if (any)
    for (int d = 0; d < info_->rank; ++d) {
      Dim dim;
      const auto& b = ref.box[d];
      if (b.kind == program::BufDim::Kind::box) {
        dim.whole = false;
        dim.range = b.range != program::none;
        dim.first = Expr(b.first, vars);
        dim.size = Expr(b.size, vars);
        fixed_.single[d] = fixed_.single[d] || dim.size.is_constant(1);
      }
      dims_.push_back(std::move(dim));
    }
  if (ref.transposed && info_->rank < 2)
    fail(Fault::program, "buffer {} has one dimension and cannot be transposed", info_->source->name);
}

View Operand::shape(const Core& core) const {
  View view = fixed_;
  if (!dims_.empty()) {
    int64_t offset = 0;
    for (int d = 0; d < view.rank; ++d) {
      const Dim& dim = dims_[d];
      if (dim.whole) continue;
      const int64_t first = dim.first(core.v()), size = dim.size(core.v());
      if (size < 0 || (size > 0 && (first < 0 || first + size > info_->shape[d])))
        fail(Fault::program, "operand of buffer {} reaches positions {}..{} of dimension {}, which has {}",
             info_->source->name, first, first + size, d, info_->shape[d]);
      view.size[d] = size;
      if (size > 0) offset += first * view.stride[d];
    }
    view.data = core.buffers[buffer_] + offset * base::format_bytes(view.format);
  } else {
    view.data = core.buffers[buffer_];
  }
  if (core.buffers[buffer_] == nullptr)
    fail(Fault::program, "buffer {} is used before its declaration", info_->source->name);
  if (ref_->transposed) {
    const int a = view.rank - 2, b = view.rank - 1;
    std::swap(view.size[a], view.size[b]);
    std::swap(view.stride[a], view.stride[b]);
    std::swap(view.single[a], view.single[b]);
  }
  return view;
}

std::pair<int64_t, int64_t> Operand::positions(const Core& core, int d) const {
  if (dims_.empty() || dims_[d].whole) return {0, info_->shape[d]};
  return {dims_[d].first(core.v()), dims_[d].size(core.v())};
}

View Operand::view(const Core& core) const {
  if (core.run->lazy_loads && core.lazy[buffer_].pending) materialize(const_cast<Core&>(core), buffer_);
  return shape(core);
}

}  // namespace spyre::card
