#include "runtime/elements.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/thread_pool.h"
#include "card/card.h"
#include "runtime/devices.h"

namespace spyre::runtime {

using base::Format;
using base::HostType;
using layout::Access;
using layout::Box;
using layout::HostView;
using layout::Patch;

namespace {

constexpr int64_t chunk_elements = 1 << 16;     // a chunk's temporary stays in the second-level cache
constexpr int64_t parallel_elements = 1 << 17;  // below, waking the pool costs more than it saves
constexpr int64_t parallel_bytes = 1 << 20;

// The boxes of a view in row-major order, each at most chunk_elements long and contiguous in that order.
class Chunks {
 public:
  explicit Chunks(const std::vector<int64_t>& sizes) : sizes_(sizes) {
    for (const int64_t size : sizes) numel_ *= size;
    cut_ = static_cast<int>(sizes.size()) - 1;
    while (cut_ > 0 && inner_ * sizes[cut_] <= chunk_elements) inner_ *= sizes[cut_--];
    if (cut_ < 0 || numel_ == 0) {
      count_ = numel_ > 0;
      return;
    }
    step_ = std::max<int64_t>(1, chunk_elements / inner_);
    per_row_ = (sizes[cut_] + step_ - 1) / step_;
    count_ = numel_ / inner_ / sizes[cut_] * per_row_;
  }
  int64_t numel() const { return numel_; }
  int64_t count() const { return count_; }

  // Box i; `first` is the row-major index of its first element.
  Box box(int64_t i, int64_t& first) const {
    Box box{std::vector<int64_t>(sizes_.size(), 0), sizes_, {}};
    first = 0;
    if (cut_ < 0) return box;
    const int64_t row = i / per_row_, start = i % per_row_ * step_;
    box.start[cut_] = start;
    box.size[cut_] = std::min(step_, sizes_[cut_] - start);
    int64_t rest = row;
    for (int d = cut_ - 1; d >= 0; --d) {
      box.start[d] = rest % sizes_[d];
      box.size[d] = 1;
      rest /= sizes_[d];
    }
    first = (row * sizes_[cut_] + start) * inner_;
    return box;
  }

  template <typename Fn>
  void run(Fn&& fn) const {
    const auto one = [&](int i) {
      int64_t first = 0;
      const Box b = box(i, first);
      fn(b, first);
    };
    if (numel_ < parallel_elements) {
      for (int i = 0; i < count_; ++i) one(i);
    } else {
      base::ThreadPool::shared().for_each(static_cast<int>(count_), one);
    }
  }

 private:
  const std::vector<int64_t>& sizes_;
  int64_t numel_ = 1, inner_ = 1, step_ = 1, per_row_ = 1, count_ = 0;
  int cut_ = -1;
};

const HostView& view_of(const Side& side) { return side.access ? side.access->view() : side.host.view; }

bool row_major(const HostView& view) {
  int64_t expected = 1;
  for (size_t d = view.sizes.size(); d-- > 0;) {
    if (view.sizes[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.sizes[d];
  }
  return true;
}

// Copies n elements of W bytes between an even progression and another one (steps in elements).
template <int W>
void copy_steps(const std::byte* src, int64_t src_step, std::byte* dst, int64_t dst_step, int64_t n) {
  if (src_step == 1 && dst_step == 1) return void(std::memcpy(dst, src, static_cast<size_t>(n * W)));
  for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * dst_step * W, src + i * src_step * W, W);
}
void copy_steps(int width, const std::byte* src, int64_t src_step, std::byte* dst, int64_t dst_step, int64_t n) {
  switch (width) {
    case 1:
      return copy_steps<1>(src, src_step, dst, dst_step, n);
    case 2:
      return copy_steps<2>(src, src_step, dst, dst_step, n);
    case 4:
      return copy_steps<4>(src, src_step, dst, dst_step, n);
    default:
      return copy_steps<8>(src, src_step, dst, dst_step, n);
  }
}

// Calls fn(host element, box element, count, host step) for the rows of a box of a strided host tensor.
template <typename Fn>
void for_each_host_row(const HostView& view, const Box& box, Fn&& fn) {
  const size_t rank = view.sizes.size();
  int64_t at = view.offset;
  for (size_t d = 0; d < rank; ++d) {
    if (box.size[d] == 0) return;
    at += box.start[d] * view.strides[d];
  }
  if (rank == 0) return fn(at, int64_t{0}, int64_t{1}, int64_t{1});
  std::vector<int64_t> index(rank, 0);
  const int64_t count = box.size[rank - 1], step = view.strides[rank - 1];
  for (int64_t done = 0;; done += count) {
    fn(at, done, count, step);
    size_t d = rank - 1;
    for (; d-- > 0;) {
      at += view.strides[d];
      if (++index[d] < box.size[d]) break;
      at -= view.strides[d] * box.size[d];
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

std::byte* host_bytes_at(const HostTensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.data) + element * base::host_bytes(tensor.type);
}

// A box of a host tensor as contiguous host elements: in place when it is, else in `room`.
const std::byte* host_box(const HostTensor& tensor, const Box& box, int64_t first, bool contiguous,
                          std::vector<std::byte>& room) {
  if (contiguous) return host_bytes_at(tensor, tensor.view.offset + first);
  const int width = base::host_bytes(tensor.type);
  room.resize(static_cast<size_t>(box.numel() * width));
  for_each_host_row(tensor.view, box, [&](int64_t element, int64_t at, int64_t count, int64_t step) {
    copy_steps(width, host_bytes_at(tensor, element), step, room.data() + at * width, 1, count);
  });
  return room.data();
}
void put_host_box(const HostTensor& tensor, const Box& box, const std::byte* in) {
  const int width = base::host_bytes(tensor.type);
  for_each_host_row(tensor.view, box, [&](int64_t element, int64_t at, int64_t count, int64_t step) {
    copy_steps(width, in + at * width, 1, host_bytes_at(tensor, element), step, count);
  });
}

constexpr int64_t strip_room = 512;

// Contiguous host elements of `type` to a box of device elements.
void upload_box(const std::byte* in, const Side& to, const Box& box) {
  const int width = base::host_bytes(to.type), size = base::format_bytes(to.format);
  to.access->for_each_patch(box, [&](const Patch& p) {
    for (int64_t r = 0; r < p.rows; ++r) {
      const std::byte* src = in + (p.box_index + r * p.box_row_step) * width;
      const int64_t element = p.device_element + r * p.device_row_step;
      if (p.device_step == 1) {
        base::upload(to.type, src, to.format, to.base + element * size, static_cast<size_t>(p.count));
        continue;
      }
      std::byte room[strip_room * 4];
      for (int64_t i = 0; i < p.count; i += strip_room) {
        const int64_t n = std::min(strip_room, p.count - i);
        base::upload(to.type, src + i * width, to.format, room, static_cast<size_t>(n));
        copy_steps(size, room, 1, to.base + (element + i * p.device_step) * size, p.device_step, n);
      }
    }
  });
}
void download_box(const Side& from, const Box& box, std::byte* out) {
  const int width = base::host_bytes(from.type), size = base::format_bytes(from.format);
  from.access->for_each_patch(box, [&](const Patch& p) {
    for (int64_t r = 0; r < p.rows; ++r) {
      std::byte* dst = out + (p.box_index + r * p.box_row_step) * width;
      const int64_t element = p.device_element + r * p.device_row_step;
      if (p.device_step == 1) {
        base::download(from.format, from.base + element * size, from.type, dst, static_cast<size_t>(p.count));
        continue;
      }
      std::byte room[strip_room * 4];
      for (int64_t i = 0; i < p.count; i += strip_room) {
        const int64_t n = std::min(strip_room, p.count - i);
        copy_steps(size, from.base + (element + i * p.device_step) * size, p.device_step, room, 1, n);
        base::download(from.format, room, from.type, dst + i * width, static_cast<size_t>(n));
      }
    }
  });
}

// A box of either kind of side to contiguous device elements, and back.
void gather_box(const Side& from, const Box& box, int64_t first, bool contiguous, std::byte* out) {
  const int size = base::format_bytes(from.format);
  if (!from.access) {
    std::vector<std::byte> room;
    const std::byte* in = host_box(from.host, box, first, contiguous, room);
    return base::upload(from.type, in, from.format, out, static_cast<size_t>(box.numel()));
  }
  from.access->for_each_patch(box, [&](const Patch& p) {
    for (int64_t r = 0; r < p.rows; ++r)
      copy_steps(size, from.base + (p.device_element + r * p.device_row_step) * size, p.device_step,
                 out + (p.box_index + r * p.box_row_step) * size, 1, p.count);
  });
}
void scatter_box(const std::byte* in, const Side& to, const Box& box) {
  const int size = base::format_bytes(to.format);
  if (!to.access) {
    std::vector<std::byte> room(static_cast<size_t>(box.numel() * base::host_bytes(to.type)));
    base::download(to.format, in, to.type, room.data(), static_cast<size_t>(box.numel()));
    return put_host_box(to.host, box, room.data());
  }
  to.access->for_each_patch(box, [&](const Patch& p) {
    for (int64_t r = 0; r < p.rows; ++r)
      copy_steps(size, in + (p.box_index + r * p.box_row_step) * size, 1,
                 to.base + (p.device_element + r * p.device_row_step) * size, p.device_step, p.count);
  });
}

}  // namespace

Side host_side(const HostTensor& tensor) {
  Side side;
  side.type = tensor.type;
  side.host = tensor;
  // float64 and complex have no format: they can only be copied as they are.
  if (tensor.type != HostType::f64 && tensor.type != HostType::c64) side.format = base::device_format(tensor.type);
  return side;
}

Side device_side(const Contents& contents, HostType type, const HostView& view) {
  if (!contents.placement) return host_side({contents.bytes, type, view});
  Side side;
  side.type = type;
  side.access.emplace(view, contents.placement->geometry);
  side.base = contents.bytes;
  side.format = contents.placement->geometry.format;
  return side;
}

void transfer(const Side& from, const Side& to) {
  const Chunks chunks(view_of(to).sizes);
  const bool from_rows = !from.access && row_major(from.host.view), to_rows = !to.access && row_major(to.host.view);
  if (from.type == to.type && from.access && to.access && from.format == to.format) {
    const int size = base::format_bytes(from.format);
    int64_t src = 0, dst = 0;
    const Box whole = Box::whole(view_of(to));
    if (from.access->contiguous_block(whole, src) && to.access->contiguous_block(whole, dst))
      return copy_block(to.base + dst * size, from.base + src * size, chunks.numel() * size);
    return chunks.run([&](const Box& box, int64_t) {
      layout::for_each_common_strip(*from.access, box, *to.access, box,
                                    [&](int64_t s, int64_t s_step, int64_t d, int64_t d_step, int64_t count) {
                                      copy_steps(size, from.base + s * size, s_step, to.base + d * size, d_step, count);
                                    });
    });
  }
  const int width = base::host_bytes(to.type);
  chunks.run([&](const Box& box, int64_t first) {
    thread_local std::vector<std::byte> room, other;
    if (from.type == to.type && !from.access && !to.access) {
      put_host_box(to.host, box, host_box(from.host, box, first, from_rows, room));
    } else if (from.type == to.type && !from.access) {
      upload_box(host_box(from.host, box, first, from_rows, room), to, box);
    } else if (from.type == to.type && !to.access) {
      if (to_rows) return download_box(from, box, host_bytes_at(to.host, to.host.view.offset + first));
      room.resize(static_cast<size_t>(box.numel() * width));
      download_box(from, box, room.data());
      put_host_box(to.host, box, room.data());
    } else {
      const int64_t n = box.numel();
      room.resize(static_cast<size_t>(n * base::format_bytes(from.format)));
      other.resize(static_cast<size_t>(n * base::format_bytes(to.format)));
      gather_box(from, box, first, from_rows, room.data());
      convert_elements(from.format, from.type, room.data(), to.format, to.type, other.data(), n);
      scatter_box(other.data(), to, box);
    }
  });
}

void gather(const Side& from, std::byte* out) {
  const bool rows = !from.access && row_major(from.host.view);
  Chunks(view_of(from).sizes).run([&](const Box& box, int64_t first) {
    gather_box(from, box, first, rows, out + first * base::format_bytes(from.format));
  });
}

void scatter(const std::byte* in, const Side& to) {
  Chunks(view_of(to).sizes).run([&](const Box& box, int64_t first) {
    scatter_box(in + first * base::format_bytes(to.format), to, box);
  });
}

void fill_side(const Side& to, const void* value) {
  if (!to.access) {
    const int width = base::host_bytes(to.type);
    return Chunks(view_of(to).sizes).run([&](const Box& box, int64_t) {
      for_each_host_row(to.host.view, box, [&](int64_t element, int64_t, int64_t count, int64_t step) {
        copy_steps(width, static_cast<const std::byte*>(value), 0, host_bytes_at(to.host, element), step, count);
      });
    });
  }
  std::byte encoded[8];
  base::upload(to.type, value, to.format, encoded, 1);
  const int size = base::format_bytes(to.format);
  Chunks(view_of(to).sizes).run([&](const Box& box, int64_t) {
    to.access->for_each_patch(box, [&](const Patch& p) {
      for (int64_t r = 0; r < p.rows; ++r)
        copy_steps(size, encoded, 0, to.base + (p.device_element + r * p.device_row_step) * size, p.device_step,
                   p.count);
    });
  });
}

// -------------------------------------------------------------------------------------------------------- logical
// bytes

Contents contents_of(Device& device, const Allocation::State& state, int64_t logical_bytes) {
  Contents contents{state.placement, nullptr, logical_bytes};
  if (state.physical_bytes > 0) contents.bytes = device.card().memory().at(state.physical, state.physical_bytes);
  return contents;
}

int64_t Contents::device_bytes() const {
  if (!placement) return logical_bytes;
  const int64_t in_elements = placement->geometry.storage_elements * base::host_bytes(placement->type);
  return placement->geometry.device_bytes() + logical_bytes - in_elements;
}

namespace {

HostView row_of(int64_t first, int64_t count) { return {{count}, {1}, first}; }

// Cuts logical bytes at `first` into whole elements and the rest: head and tail pieces of one element, the raw tail.
template <typename Whole, typename Part, typename Raw>
void split_logical(const Contents& c, int64_t first, int64_t n, Whole whole, Part part, Raw raw) {
  const int width = base::host_bytes(c.placement->type);
  const int64_t element_bytes = c.placement->geometry.storage_elements * width;
  int64_t at = first;
  const int64_t end = first + n, typed_end = std::min(end, element_bytes);
  if (at < typed_end && at % width != 0) {
    const int64_t stop = std::min(typed_end, (at / width + 1) * width);
    part(at, stop - at);
    at = stop;
  }
  if (const int64_t count = (typed_end - at) / width; count > 0) {
    whole(at / width, count);
    at += count * width;
  }
  if (at < typed_end) part(at, typed_end - at), at = typed_end;
  if (at < end) raw(at, end - at, c.placement->geometry.device_bytes() + at - element_bytes);
}

}  // namespace

void read_logical(const Contents& from, int64_t first, int64_t n, std::byte* out) {
  if (n == 0) return;
  if (!from.placement) return copy_block(out, from.bytes + first, n);
  const HostType type = from.placement->type;
  const int width = base::host_bytes(type);
  split_logical(
      from, first, n,
      [&](int64_t element, int64_t count) {
        transfer(device_side(from, type, row_of(element, count)),
                 host_side({out + element * width - first, type, row_of(0, count)}));
      },
      [&](int64_t at, int64_t bytes) {
        std::byte value[8];
        transfer(device_side(from, type, row_of(at / width, 1)), host_side({value, type, row_of(0, 1)}));
        std::memcpy(out + at - first, value + at % width, static_cast<size_t>(bytes));
      },
      [&](int64_t at, int64_t bytes, int64_t place) { copy_block(out + at - first, from.bytes + place, bytes); });
}

void write_logical(const Contents& to, int64_t first, int64_t n, const std::byte* in) {
  if (n == 0) return;
  if (!to.placement) return copy_block(to.bytes + first, in, n);
  const HostType type = to.placement->type;
  const int width = base::host_bytes(type);
  split_logical(
      to, first, n,
      [&](int64_t element, int64_t count) {
        transfer(host_side({const_cast<std::byte*>(in) + element * width - first, type, row_of(0, count)}),
                 device_side(to, type, row_of(element, count)));
      },
      [&](int64_t at, int64_t bytes) {
        std::byte value[8];
        const Side element = device_side(to, type, row_of(at / width, 1));
        transfer(element, host_side({value, type, row_of(0, 1)}));
        std::memcpy(value + at % width, in + at - first, static_cast<size_t>(bytes));
        transfer(host_side({value, type, row_of(0, 1)}), element);
      },
      [&](int64_t at, int64_t bytes, int64_t place) { copy_block(to.bytes + place, in + at - first, bytes); });
}

void move_logical(const Contents& from, const Contents& to, int64_t n) {
  if (n == 0) return;
  if (!from.placement) return write_logical(to, 0, n, from.bytes);
  if (!to.placement) return read_logical(from, 0, n, to.bytes);
  int64_t done = 0;
  if (from.placement->type == to.placement->type) {
    const int width = base::host_bytes(to.placement->type);
    const int64_t count =
        std::min({from.placement->geometry.storage_elements, to.placement->geometry.storage_elements, n / width});
    if (count > 0) {
      const HostType type = to.placement->type;
      transfer(device_side(from, type, row_of(0, count)), device_side(to, type, row_of(0, count)));
    }
    done = count * width;
  }
  constexpr int64_t piece = chunk_elements * 8;  // a multiple of every element's width
  std::vector<std::byte> room(static_cast<size_t>(std::min(piece, n - done)));
  for (; done < n; done += piece) {
    const int64_t bytes = std::min(piece, n - done);
    read_logical(from, done, bytes, room.data());
    write_logical(to, done, bytes, room.data());
  }
}

namespace {

template <typename Fn>
void in_pieces(int64_t bytes, Fn&& fn) {
  if (bytes < parallel_bytes) {
    if (bytes > 0) fn(0, bytes);
    return;
  }
  const int64_t pieces = (bytes + parallel_bytes - 1) / parallel_bytes;
  base::ThreadPool::shared().for_each(static_cast<int>(pieces), [&](int i) {
    const int64_t start = i * parallel_bytes;
    fn(start, std::min(parallel_bytes, bytes - start));
  });
}

}  // namespace

void copy_block(std::byte* to, const std::byte* from, int64_t bytes) {
  in_pieces(bytes, [&](int64_t at, int64_t n) { std::memcpy(to + at, from + at, static_cast<size_t>(n)); });
}

void zero_block(std::byte* to, int64_t bytes) {
  in_pieces(bytes, [&](int64_t at, int64_t n) { std::memset(to + at, 0, static_cast<size_t>(n)); });
}

}  // namespace spyre::runtime
