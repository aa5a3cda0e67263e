#include "runtime/transitions.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/copies.h"
#include "runtime/devices.h"
#include "runtime/elements.h"

namespace spyre::runtime {
namespace {

// Estimates of host time, for the choice of thread only.
int64_t block_ns(int64_t bytes) { return 500 + bytes / 8; }
int64_t element_ns(int64_t bytes) { return 1000 + bytes; }

void check_range(const Allocation& allocation, int64_t first, int64_t bytes, const char* what) {
  if (first < 0 || bytes < 0 || first > allocation.logical_bytes() || bytes > allocation.logical_bytes() - first)
    fail(Fault::user, "{}: bytes [{}, +{}) are outside a storage of {} bytes", what, first, bytes,
         allocation.logical_bytes());
}

// Submits work that the caller waits for: on this thread when the stream is empty.
template <typename F>
void submit_and_wait(Stream& stream, WorkInfo info, F&& work) {
  info.blocking = true;
  stream.submit(info, std::forward<F>(work));
  if (!stream.idle()) stream.synchronize();
}

}  // namespace

/// The one that may swap an allocation's place.
class Transition {
 public:
  // Gives `allocation` a new block in form `target` (null: raw) and moves the logical bytes there on the stream.
  static void change(Allocation& allocation, const PlacementPtr& target, Stream& stream) {
    Move move = replace(allocation, target, stream);
    const Contents from = contents_of(allocation.device(), move.old.state, allocation.logical_bytes());
    const Contents to = contents_of(allocation.device(), move.now, allocation.logical_bytes());
    const int64_t bytes = allocation.logical_bytes();
    const int64_t ps = on_device_ps(allocation.device(), to.device_bytes());
    stream.submit({"change layout", WorkKind::copy, element_ns(bytes)},
                  [move = std::move(move), from, to, bytes, ps]() mutable {
                    move_logical(from, to, bytes);
                    move.done = true;
                    return ps;
                  });
  }

  // A new block of this form, whose contents are all to be written next; the old one goes back once the stream got
  // there.
  static Contents renew(Allocation& allocation, const PlacementPtr& target, Stream& stream) {
    Move move = replace(allocation, target, stream);
    const Contents to = contents_of(allocation.device(), move.now, allocation.logical_bytes());
    move.done = true;
    return to;
  }

 private:
  // Owns the old place; puts it back if the bytes did not get to the new one.
  struct Move {
    std::weak_ptr<Allocation> allocation;
    Device* device = nullptr;
    Allocation::Place old;
    Allocation::State now;
    bool done = false;

    Move() = default;
    Move(Move&& other) noexcept
        : allocation(std::move(other.allocation)),
          device(std::exchange(other.device, nullptr)),
          old(std::move(other.old)),
          now(std::move(other.now)),
          done(other.done) {
      other.old.block = nullptr;
    }
    Move& operator=(Move&&) = delete;
    ~Move() {
      if (!device) return;
      if (!done)
        if (const auto alive = allocation.lock()) alive->put_back(now.placement, old);
      if (old.block) device->allocator().give(old.block, old.uses);
    }
  };

  static Move replace(Allocation& allocation, const PlacementPtr& target, Stream& stream) {
    Allocator& allocator = allocation.device().allocator();
    const int64_t bytes = Allocator::device_bytes(allocation.logical_bytes(), target);
    Block* const block = bytes > 0 ? allocator.take(bytes, stream) : nullptr;
    Move move;
    move.allocation = allocation.weak_from_this();
    move.now = {target, Allocator::address_of(block), Allocator::bytes_of(block)};
    move.old = allocation.exchange({move.now, block, &stream, {}});
    move.device = &allocation.device();
    // The move itself reads the old block on this stream.
    if (move.old.home != &stream &&
        std::find(move.old.uses.begin(), move.old.uses.end(), &stream) == move.old.uses.end())
      move.old.uses.push_back(&stream);
    return move;
  }

 public:
  static std::mutex& mutex(Allocation& allocation) { return allocation.transition_; }
};

void make_typed(Allocation& allocation, const PlacementPtr& placement, Stream& stream) {
  if (!placement) fail(Fault::user, "make_typed needs a placement");
  std::lock_guard lock(Transition::mutex(allocation));
  const PlacementPtr now = allocation.placement();
  if (now && now->type == placement->type) return;
  Transition::change(allocation, allocation.device().allocator().chosen(placement), stream);
}

void make_raw(Allocation& allocation, Stream& stream) {
  std::lock_guard lock(Transition::mutex(allocation));
  if (allocation.typed()) Transition::change(allocation, nullptr, stream);
}

void relayout(Allocation& allocation, const PlacementPtr& placement, Stream& stream) {
  if (!placement) fail(Fault::user, "relayout needs a placement");
  std::lock_guard lock(Transition::mutex(allocation));
  const PlacementPtr now = allocation.placement();
  if (now && now->type != placement->type)
    fail(Fault::user, "relayout: the storage holds {}, the layout is for {}", base::host_name(now->type),
         base::host_name(placement->type));
  if (now && (now == placement || now->geometry == placement->geometry)) {
    if (now->user_layout == placement->user_layout) return;
  }
  Transition::change(allocation, allocation.device().allocator().chosen(placement), stream);
}

AllocationPtr clone_storage(Allocation& allocation, Stream& stream) {
  Device& from_device = allocation.device();
  Device& to_device = stream.device();
  const Allocation::State state = allocation.use(stream);
  AllocationPtr copy = to_device.allocator().allocate_exact(allocation.logical_bytes(), stream, state.placement);
  const Contents from = contents_of(from_device, state, allocation.logical_bytes());
  const Contents to = contents_of(to_device, copy->use(stream), allocation.logical_bytes());
  copy->bump_generation();
  const int64_t bytes = from.device_bytes();
  const int64_t ps = &from_device == &to_device ? on_device_ps(to_device, bytes) : over_link_ps(to_device, bytes);
  if (bytes > 0)
    stream.submit({"clone storage", WorkKind::copy, block_ns(bytes)}, [from, to, bytes, ps] {
      copy_block(to.bytes, from.bytes, bytes);
      return ps;
    });
  return copy;
}

AllocationPtr resize(Allocation& allocation, int64_t nbytes, Stream& stream, PlacementPtr placement) {
  if (nbytes < 0) fail(Fault::user, "cannot resize a storage to {} bytes", nbytes);
  const Allocation::State state = allocation.use(stream);
  if (!placement && state.placement) {
    const base::HostType type = state.placement->type;
    const bool ieee = state.placement->geometry.format == base::Format::f16;
    placement = Placement::linear(type, nbytes / base::host_bytes(type), ieee);
  }
  Device& device = allocation.device();
  AllocationPtr made = device.allocator().allocate_typed(nbytes, stream, std::move(placement));
  const int64_t bytes = std::min(nbytes, allocation.logical_bytes());
  const Contents from = contents_of(device, state, allocation.logical_bytes());
  const Contents to = contents_of(device, made->use(stream), nbytes);
  made->bump_generation();
  const int64_t ps = on_device_ps(device, bytes);
  if (bytes > 0)
    stream.submit({"resize storage", WorkKind::copy, element_ns(bytes)}, [from, to, bytes, ps] {
      move_logical(from, to, bytes);
      return ps;
    });
  return made;
}

void read_bytes(Allocation& allocation, int64_t first, int64_t bytes, void* destination, Stream& stream) {
  check_range(allocation, first, bytes, "read of storage bytes");
  const Contents from = contents_of(allocation.device(), allocation.use(stream), allocation.logical_bytes());
  const int64_t ps = over_link_ps(allocation.device(), bytes);
  submit_and_wait(stream, {"read storage", WorkKind::copy, element_ns(bytes)}, [from, first, bytes, destination, ps] {
    read_logical(from, first, bytes, static_cast<std::byte*>(destination));
    return ps;
  });
}

void write_bytes(Allocation& allocation, int64_t first, int64_t bytes, const void* source, Stream& stream) {
  check_range(allocation, first, bytes, "write of storage bytes");
  make_raw(allocation, stream);
  const Contents to = contents_of(allocation.device(), allocation.use(stream), allocation.logical_bytes());
  allocation.bump_generation();
  const int64_t ps = over_link_ps(allocation.device(), bytes);
  submit_and_wait(stream, {"write storage", WorkKind::copy, block_ns(bytes)}, [to, first, bytes, source, ps] {
    write_logical(to, first, bytes, static_cast<const std::byte*>(source));
    return ps;
  });
}

void copy_bytes(Allocation& from, int64_t from_first, Allocation& to, int64_t to_first, int64_t bytes, Stream& stream) {
  check_range(from, from_first, bytes, "copy of storage bytes, source");
  check_range(to, to_first, bytes, "copy of storage bytes, destination");
  if (bytes == 0 || (&from == &to && from_first == to_first)) return;
  const bool whole = &from != &to && bytes == from.logical_bytes() && bytes == to.logical_bytes();
  Contents source, destination;
  if (whole) {
    std::lock_guard lock(Transition::mutex(to));
    const Allocation::State state = from.use(stream);
    source = contents_of(from.device(), state, bytes);
    if (to.placement() != state.placement)
      destination = Transition::renew(to, state.placement, stream);
    else
      destination = contents_of(to.device(), to.use(stream), bytes);
  } else {
    make_raw(to, stream);
    source = contents_of(from.device(), from.use(stream), from.logical_bytes());
    destination = contents_of(to.device(), to.use(stream), to.logical_bytes());
  }
  to.bump_generation();
  const int64_t ps =
      &from.device() == &to.device() ? on_device_ps(to.device(), bytes) : over_link_ps(to.device(), bytes);
  stream.submit({"copy storage", WorkKind::copy, block_ns(bytes)}, [=] {
    if (whole && source.placement == destination.placement) {
      copy_block(destination.bytes, source.bytes, source.device_bytes());
    } else if (whole) {
      move_logical(source, destination, bytes);
    } else {
      std::vector<std::byte> room(static_cast<size_t>(bytes));
      read_logical(source, from_first, bytes, room.data());
      write_logical(destination, to_first, bytes, room.data());
    }
    return ps;
  });
}

void zero_bytes(Allocation& allocation, Stream& stream) {
  const Contents to = contents_of(allocation.device(), allocation.use(stream), allocation.logical_bytes());
  allocation.bump_generation();
  const int64_t bytes = to.device_bytes();
  if (bytes == 0) return;
  const int64_t ps = on_device_ps(allocation.device(), bytes) / 2;
  stream.submit({"zero storage", WorkKind::copy, block_ns(bytes)}, [to, bytes, ps] {
    zero_block(to.bytes, bytes);
    return ps;
  });
}

}  // namespace spyre::runtime
