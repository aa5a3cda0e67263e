#include "torch/copy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <atomic>

#include "runtime/copies.h"
#include "runtime/transitions.h"
#include "torch/records.h"

namespace spyre::torch {
namespace {

using at::Tensor;

std::atomic<bool> warn_downcast{false};

runtime::HostTensor host_tensor(const Tensor& t) {
  runtime::HostTensor result;
  result.data = t.data_ptr();
  result.type = host_type(t.scalar_type(), t.numel());
  result.view = {t.sizes().vec(), t.strides().vec(), 0};
  return result;
}

bool is_byte_type(const runtime::Allocation& allocation) {
  const auto placement = allocation.placement();
  return placement && placement->type == base::HostType::u8;
}

/// A contiguous uint8 tensor over memory that isn't uint8's own: bytes of a storage (UntypedStorage.copy_, deepcopy,
/// save).
bool is_storage_bytes(const Tensor& t) {
  return t.scalar_type() == at::kByte && t.is_contiguous() &&
         !is_byte_type(allocation_of(*t.storage().unsafeGetStorageImpl()));
}

int64_t first_byte(const Tensor& t) {
  return memory_of(t).storage_byte + t.storage_offset() * static_cast<int64_t>(t.itemsize());
}

runtime::Stream& stream_of(const Tensor& t) { return current_stream(t.device().index()); }

void upload(const Tensor& from, const Tensor& to, bool non_blocking) {
  TORCH_CHECK(from.is_cpu(), "copy to the spyre device from ", from.device(), ": copy to the CPU first");
  if (from.scalar_type() == at::kLong && to.scalar_type() == at::kLong && warn_downcast.load()) {
    TORCH_WARN_ONCE("int64 values are held as int32 on the spyre device (a value outside int32 raises)");
  }
  // Cast on the CPU. The cast tensor lives only here, so its copy may not run later.
  const Tensor source = from.scalar_type() == to.scalar_type() ? from : from.to(to.scalar_type());
  if (is_storage_bytes(to) && source.is_contiguous()) {
    runtime::write_bytes(allocation_of(*to.storage().unsafeGetStorageImpl()), first_byte(to),
                         static_cast<int64_t>(source.nbytes()), source.const_data_ptr(), stream_of(to));
    return;
  }
  runtime::copy_to_device(host_tensor(source), device_tensor(to, false), stream_of(to),
                          non_blocking && source.is_same(from));
}

void download(const Tensor& from, const Tensor& to, bool non_blocking) {
  TORCH_CHECK(to.is_cpu(), "copy from the spyre device to ", to.device(), ": copy to the CPU first");
  if (from.scalar_type() != to.scalar_type()) {
    const Tensor same_type = at::empty(from.sizes(), to.options().dtype(from.scalar_type()).pinned_memory(false));
    download(from, same_type, false);
    to.copy_(same_type);
    return;
  }
  if (is_storage_bytes(from) && to.is_contiguous()) {
    runtime::read_bytes(allocation_of(*from.storage().unsafeGetStorageImpl()), first_byte(from),
                        static_cast<int64_t>(to.nbytes()), to.mutable_data_ptr(), stream_of(from));
    return;
  }
  runtime::copy_to_host(device_tensor(from, true), host_tensor(to), stream_of(from), non_blocking);
}

void copy_within(const Tensor& from, const Tensor& to) {
  runtime::Stream& source = stream_of(from);
  runtime::Stream& destination = stream_of(to);
  if (from.scalar_type() == at::kDouble || to.scalar_type() == at::kDouble) {
    // At most one element, which the device keeps but can't compute with: cast on the CPU.
    const Tensor host = at::empty(from.sizes(), from.options().device(at::kCPU));
    download(from, host, false);
    upload(host, to, false);
    return;
  }
  // As CUDA does: the source's stream works, after what is queued on the destination's, which then waits for it.
  const bool two = &source != &destination;
  if (two) source.wait(destination.record());
  if (is_storage_bytes(from) && is_storage_bytes(to)) {
    runtime::copy_bytes(allocation_of(*from.storage().unsafeGetStorageImpl()), first_byte(from),
                        allocation_of(*to.storage().unsafeGetStorageImpl()), first_byte(to),
                        static_cast<int64_t>(to.nbytes()), source);
  } else {
    runtime::copy_on_device(device_tensor(from, true), device_tensor(to, false), source);
  }
  if (two) destination.wait(source.record());
}

bool same_view(const Tensor& a, const Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl() &&
         a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.scalar_type() == b.scalar_type();
}

}  // namespace

Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  TORCH_CHECK(from.defined() && to.defined(), "copy_ of an undefined tensor");
  TORCH_CHECK(!from.is_complex() || from.is_cpu(), "the spyre device has no complex numbers");
  if (to.numel() == 0) {
    from.expand(to.sizes());  // only checks the sizes
    return to;
  }
  Tensor source = from.is_conj() ? from.resolve_conj() : from;
  // A negative view stores the opposite of what it shows: memory is copied as it is, then turned if the two sides
  // differ.
  const bool turn = source.is_neg() != to.is_neg();
  if (turn && source.is_cpu()) {
    source = source.is_neg() ? source.resolve_neg() : source.neg();
  }
  if (source.sizes() != to.sizes()) source = source.expand(to.sizes());
  if (same_view(source, to)) {
    if (turn) to.neg_();
    return to;
  }
  translated([&] {
    if (!source.is_privateuseone()) {
      upload(source, to, non_blocking);
    } else if (!to.is_privateuseone()) {
      download(source, to, non_blocking);
    } else {
      copy_within(source, to);
    }
  });
  if (turn && !from.is_cpu()) to.neg_();
  return to;
}

bool downcast_warning() { return warn_downcast.load(); }
void set_downcast_warning(bool on) { warn_downcast.store(on); }

}  // namespace spyre::torch

// Without these, copying a tensor with the conjugate or negative bit would come back to copy_ until the stack ends.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", ::torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", ::torch::CppFunction::makeFallthrough()); }
