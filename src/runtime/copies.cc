#include "runtime/copies.h"

#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "layout/view.h"
#include "runtime/devices.h"
#include "runtime/elements.h"
#include "runtime/pinned.h"
#include "runtime/transitions.h"

namespace spyre::runtime {

using layout::HostView;

int64_t over_link_ps(const Device& device, int64_t bytes) {
  return static_cast<int64_t>(static_cast<double>(bytes) * 1000.0 / device.description().host_transfer_gbps);
}
int64_t on_device_ps(const Device& device, int64_t bytes) {
  return static_cast<int64_t>(static_cast<double>(2 * bytes) * 1000.0 / device.description().memory_gbps);
}

namespace {

constexpr int64_t staging_limit_bytes = 4 << 20;  // more than this is worth waiting for the stream instead

int64_t copy_ns(int64_t elements) { return 500 + elements / 2; }

Allocation& allocation_of(const DeviceTensor& tensor, const char* what) {
  if (!tensor.allocation) fail(Fault::user, "{}: a tensor without device memory", what);
  return *tensor.allocation;
}

// A device view must stay in its storage, in bytes of its own dtype.
void check_device_view(const DeviceTensor& tensor, const char* what) {
  const Allocation& allocation = allocation_of(tensor, what);
  tensor.view.check();
  const int64_t last = tensor.view.extent().second;
  if (last > allocation.logical_bytes() / base::host_bytes(tensor.type))
    fail(Fault::user, "{}: a {} view of {} leaves its storage of {} bytes", what, base::host_name(tensor.type),
         tensor.view.to_text(), allocation.logical_bytes());
}

void check_sizes(const HostView& from, const HostView& to, const char* what) {
  if (from.sizes != to.sizes) fail(Fault::user, "{}: the sizes differ: {} into {}", what, from.to_text(), to.to_text());
}

// Whether this dtype reaches the elements without going through logical bytes.
bool direct(const PlacementPtr& placement, base::HostType type) { return !placement || placement->type == type; }

// The elements of a device tensor, ready to be read; for a foreign dtype from a decoded copy of its bytes, kept in
// `room`.
Side readable(const Contents& contents, base::HostType type, const HostView& view, std::vector<std::byte>& room) {
  if (direct(contents.placement, type)) return device_side(contents, type, view);
  const auto [first, last] = view.extent();
  const int width = base::host_bytes(type);
  room.resize(static_cast<size_t>((last - first) * width));
  read_logical(contents, first * width, (last - first) * width, room.data());
  HostView moved = view;
  moved.offset -= first;
  return host_side({room.data(), type, std::move(moved)});
}

// Prepares the destination: raw if the dtype is foreign, and counted as written.
Contents writable(const DeviceTensor& to, Stream& stream) {
  if (!direct(to.allocation->placement(), to.type)) make_raw(*to.allocation, stream);
  const Allocation::State state = to.allocation->use(stream);
  to.allocation->bump_generation();
  return contents_of(to.allocation->device(), state, to.allocation->logical_bytes());
}

// The source is read now, into elements as the device holds them: so it may be reused, and conversion errors are thrown
// here.
void staged_to_device(const HostTensor& from, Side destination, int64_t ps, const WorkInfo& info, Stream& stream) {
  Side source = host_side(from);
  const int64_t elements = from.view.numel();
  std::vector<std::byte> staged;
  if (destination.access) {
    source.format = destination.format;
    staged.resize(static_cast<size_t>(elements * base::format_bytes(source.format)));
    gather(source, staged.data());
    return stream.submit(info, [staged = std::move(staged), destination = std::move(destination), ps] {
      scatter(staged.data(), destination);
      return ps;
    });
  }
  staged.resize(static_cast<size_t>(elements * base::host_bytes(from.type)));
  const HostView rows = HostView::contiguous(from.view.sizes);
  transfer(source, host_side({staged.data(), from.type, rows}));
  stream.submit(
      info, [staged = std::move(staged), type = from.type, rows, destination = std::move(destination), ps]() mutable {
        transfer(host_side({staged.data(), type, rows}), destination);
        return ps;
      });
}

int64_t device_bytes(base::HostType type, int64_t elements) {
  return elements * (type == base::HostType::f64 || type == base::HostType::c64
                         ? base::host_bytes(type)
                         : base::format_bytes(base::device_format(type)));
}

}  // namespace

void check_no_self_overlap(const HostView& view, const char* what) {
  if (!layout::writes_overlap(view)) return;
  // writes_overlap() says yes to what it can't tell cheaply; what is left is counted.
  bool zero = false;
  for (size_t d = 0; d < view.sizes.size(); ++d) zero |= view.sizes[d] > 1 && view.strides[d] == 0;
  const auto [first, last] = view.extent();
  if (!zero && view.numel() <= last - first) {
    std::vector<bool> seen(static_cast<size_t>(last - first));
    std::vector<int64_t> index(view.sizes.size(), 0);
    int64_t at = view.offset - first;
    bool twice = false;
    while (!twice) {
      twice = seen[static_cast<size_t>(at)];
      seen[static_cast<size_t>(at)] = true;
      size_t d = view.sizes.size();
      for (; d-- > 0;) {
        at += view.strides[d];
        if (++index[d] < view.sizes[d]) break;
        at -= view.strides[d] * view.sizes[d];
        index[d] = 0;
      }
      if (d == static_cast<size_t>(-1)) break;
    }
    if (!twice) return;
  }
  fail(Fault::user,
       "{}: more than one element of the written tensor ({}) refers to a single memory location; clone() it first",
       what, view.to_text());
}

void copy_to_device(const HostTensor& from, const DeviceTensor& to, Stream& stream, bool non_blocking) {
  check_device_view(to, "copy to spyre");
  from.view.check();
  check_sizes(from.view, to.view, "copy to spyre");
  if (from.type != to.type)
    fail(Fault::user, "copy to spyre: the dtypes differ ({} into {}); cast on one side", base::host_name(from.type),
         base::host_name(to.type));
  const int64_t elements = to.view.numel();
  if (elements == 0) return;
  check_no_self_overlap(to.view, "copy to spyre");
  const Contents contents = writable(to, stream);
  Side destination = device_side(contents, to.type, to.view);
  const int64_t bytes = device_bytes(to.type, elements);
  const int64_t ps = over_link_ps(to.allocation->device(), bytes);
  WorkInfo info{"copy to device", WorkKind::copy, copy_ns(elements)};
  if (!(non_blocking && note_pinned_use(from.data, stream))) {
    if (!stream.idle() && bytes <= staging_limit_bytes)
      return staged_to_device(from, std::move(destination), ps, info, stream);
    info.blocking = true;
  }
  stream.submit(info, [source = host_side(from), destination = std::move(destination), ps] {
    transfer(source, destination);
    return ps;
  });
  if (info.blocking && !stream.idle()) stream.synchronize();
}

void copy_to_host(const DeviceTensor& from, const HostTensor& to, Stream& stream, bool non_blocking) {
  check_device_view(from, "copy from spyre");
  to.view.check();
  check_sizes(from.view, to.view, "copy from spyre");
  if (from.type != to.type)
    fail(Fault::user, "copy from spyre: the dtypes differ ({} into {}); cast on one side", base::host_name(from.type),
         base::host_name(to.type));
  const int64_t elements = to.view.numel();
  if (elements == 0) return;
  check_no_self_overlap(to.view, "copy from spyre");
  const Contents contents =
      contents_of(from.allocation->device(), from.allocation->use(stream), from.allocation->logical_bytes());
  const int64_t ps = over_link_ps(from.allocation->device(), device_bytes(to.type, elements));
  WorkInfo info{"copy to host", WorkKind::copy, copy_ns(elements)};
  info.blocking = !(non_blocking && note_pinned_use(to.data, stream));
  if (direct(contents.placement, from.type)) {
    stream.submit(info, [source = device_side(contents, from.type, from.view), destination = host_side(to), ps] {
      transfer(source, destination);
      return ps;
    });
  } else {
    stream.submit(info, [contents, type = from.type, view = from.view, destination = host_side(to), ps] {
      std::vector<std::byte> room;
      transfer(readable(contents, type, view, room), destination);
      return ps;
    });
  }
  if (info.blocking && !stream.idle()) stream.synchronize();
}

void copy_on_device(const DeviceTensor& from, const DeviceTensor& to, Stream& stream) {
  check_device_view(from, "copy on spyre, source");
  check_device_view(to, "copy on spyre, destination");
  check_sizes(from.view, to.view, "copy on spyre");
  const int64_t elements = to.view.numel();
  if (elements == 0) return;
  check_no_self_overlap(to.view, "copy on spyre");
  Device& device = to.allocation->device();
  const bool same_storage = from.allocation == to.allocation;
  if (same_storage && from.type == to.type && from.view == to.view) return;
  bool overlap = false;
  if (same_storage) {
    const auto a = from.view.extent(), b = to.view.extent();
    const int wa = base::host_bytes(from.type), wb = base::host_bytes(to.type);
    overlap = a.first * wa < b.second * wb && b.first * wb < a.second * wa;
  }
  const Contents target =
      writable(to, stream);  // may make it raw: before the source is looked at, it may be the same one
  const Contents source =
      contents_of(from.allocation->device(), from.allocation->use(stream), from.allocation->logical_bytes());
  const int64_t bytes = device_bytes(to.type, elements);
  const int64_t ps = &from.allocation->device() == &device ? on_device_ps(device, bytes) : over_link_ps(device, bytes);
  const WorkInfo info{"copy on device", WorkKind::copy, copy_ns(elements)};
  if (!overlap && direct(source.placement, from.type)) {
    return stream.submit(
        info, [in = device_side(source, from.type, from.view), out = device_side(target, to.type, to.view), ps] {
          transfer(in, out);
          return ps;
        });
  }
  stream.submit(info, [source, target, overlap, elements, from_type = from.type, from_view = from.view,
                       out = device_side(target, to.type, to.view), ps] {
    std::vector<std::byte> room, all;
    const Side in = readable(source, from_type, from_view, room);
    if (!overlap || !room.empty()) {
      transfer(in, out);
    } else if (in.access) {
      all.resize(static_cast<size_t>(elements * base::format_bytes(in.format)));
      gather(in, all.data());
      scatter(all.data(), out);
    } else {
      all.resize(static_cast<size_t>(elements * base::host_bytes(from_type)));
      const Side copy = host_side({all.data(), from_type, HostView::contiguous(from_view.sizes)});
      transfer(in, copy);
      transfer(copy, out);
    }
    return ps;
  });
}

void fill(const DeviceTensor& to, const void* value, Stream& stream) {
  check_device_view(to, "fill");
  const int64_t elements = to.view.numel();
  if (elements == 0) return;
  const Contents target = writable(to, stream);
  const int64_t ps = on_device_ps(to.allocation->device(), device_bytes(to.type, elements)) / 2;
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), value, static_cast<size_t>(base::host_bytes(to.type)));
  stream.submit({"fill", WorkKind::copy, copy_ns(elements)}, [out = device_side(target, to.type, to.view), bytes, ps] {
    fill_side(out, bytes.data());
    return ps;
  });
}

}  // namespace spyre::runtime
