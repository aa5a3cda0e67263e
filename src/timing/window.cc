#include "timing/window.h"

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace spyre::timing {
namespace {

constexpr int64_t one = 1 << 16;

int64_t part_of(int64_t part_ps, int64_t whole_ps) {
  if (whole_ps <= 0) return 0;
  return static_cast<int64_t>(static_cast<double>(part_ps) / static_cast<double>(whole_ps) * one);
}

}  // namespace

Window::Window(const KernelModel& model, WindowListener* listener)
    : model_(model),
      listener_(listener),
      instances_(256),
      buffers_(model.kernel().buffers.size()),
      ordered_(model.kernel().formals.size(), -1) {
  running_.fill(-1);
}

void Window::prune(std::vector<int64_t>& list) {
  std::erase_if(list, [&](int64_t seq) { return !unfinished(seq); });
}

void Window::collect(Slot& slot, std::vector<int64_t>& out) {
  const auto take = [&](int64_t seq) {
    if (seq >= 0 && unfinished(seq) && std::find(out.begin(), out.end(), seq) == out.end()) out.push_back(seq);
  };
  for (const int64_t seq : slot.waits) take(seq);
  for (const Piece& p : slot.pieces) {
    take(p.writer);
    for (const int64_t seq : p.readers) take(seq);
  }
}

void Window::declare(Id id) {
  const program::Buffer& buffer = model_.kernel().buffers[id];
  BufferState& state = buffers_[id];
  if (state.instance < 0) {
    state.slots.resize(std::max(buffer.slots, 1));
    live_.push_back(id);
  }
  ++state.instance;
  const int64_t index = state.instance % static_cast<int64_t>(state.slots.size());
  Slot& slot = state.slots[index];
  std::vector<int64_t> waits;
  collect(slot, waits);
  if (!model_.overlapping(id).empty()) {
    const int64_t bytes = buffer.slot_bytes(), at = buffer.lx_offset + index * bytes;
    for (const Id other : model_.overlapping(id)) {
      const program::Buffer& b = model_.kernel().buffers[other];
      for (size_t s = 0; s < buffers_[other].slots.size(); ++s) {
        const int64_t from = b.lx_offset + static_cast<int64_t>(s) * b.slot_bytes();
        if (from < at + bytes && at < from + b.slot_bytes()) collect(buffers_[other].slots[s], waits);
      }
    }
  }
  slot.waits = std::move(waits);
  int64_t pieces = 1;
  if (buffer.piece_dim >= 0 && buffer.piece_size > 0) {
    pieces = ceil_div(buffer.shape.at(buffer.piece_dim), buffer.piece_size);
  }
  slot.pieces.resize(pieces);
  for (Piece& p : slot.pieces) {
    p.writer = -1;
    p.readers.clear();
  }
}

void Window::wait_for(int64_t seq, int64_t earlier) {
  if (earlier < 0 || !unfinished(earlier) || earlier == seq) return;
  Instance& i = at(earlier);
  if (i.mark == seq) return;
  i.mark = seq;
  i.followers.push_back(seq);
  ++at(seq).missing;
}

void Window::touch(int64_t seq, const Touch& t, const Values& values) {
  BufferState& state = buffers_[t.buffer];
  if (state.instance < 0) return;  // never declared: not verified, nothing to wait for
  Slot& slot = state.slots[state.instance % static_cast<int64_t>(state.slots.size())];
  prune(slot.waits);
  for (const int64_t earlier : slot.waits) wait_for(seq, earlier);
  int64_t first = 0, last = static_cast<int64_t>(slot.pieces.size()) - 1;
  if (!t.all) {
    const int64_t size = model_.kernel().buffers[t.buffer].piece_size;
    const int64_t from = model_.expressions().value(t.first, values),
                  count = model_.expressions().value(t.size, values);
    first = std::clamp<int64_t>(from / size, 0, last);
    last = std::clamp<int64_t>((from + std::max<int64_t>(count, 1) - 1) / size, first, last);
  }
  for (int64_t p = first; p <= last; ++p) {
    Piece& piece = slot.pieces[p];
    wait_for(seq, piece.writer);
    if (t.write) {
      for (const int64_t reader : piece.readers) wait_for(seq, reader);
      piece.readers.clear();
      piece.writer = seq;
    } else {
      prune(piece.readers);
      piece.readers.push_back(seq);
    }
  }
}

void Window::add(int step, const Cost& cost, const Values& values) {
  if (next_ - base_ == static_cast<int64_t>(instances_.size())) {
    std::vector<Instance> bigger(instances_.size() * 2);
    for (int64_t seq = base_; seq < next_; ++seq)
      bigger[static_cast<size_t>(seq) & (bigger.size() - 1)] = std::move(at(seq));
    instances_ = std::move(bigger);
  }
  const StepModel& s = model_.steps()[step];
  const int64_t seq = next_++;
  Instance& i = at(seq);
  i.step = step;
  i.phase = Phase::waiting;
  i.missing = 0;
  i.left_ps = cost.unit_ps;
  i.port = part_of(cost.lx_ps, cost.unit_ps);
  i.memory = part_of(cost.memory_ps, cost.unit_ps);
  i.stream = part_of(cost.stream_ps, cost.unit_ps);
  i.mark = -1;
  i.cost = cost;
  i.followers.clear();
  ++waiting_;
  wait_for(seq, fence_);
  for (const Touch& t : s.touches) touch(seq, t, values);
  if (s.memory) {
    if (s.ordered) {
      wait_for(seq, ordered_[s.memory->symbol]);
      ordered_[s.memory->symbol] = seq;
    }
    transfers_.push_back(seq);
  } else if (s.unit == program::Unit::sync) {
    for (const int64_t earlier : transfers_) wait_for(seq, earlier);
    fence_ = seq;
  }
  if (at(seq).missing == 0) ready(seq);
}

void Window::ready(int64_t seq) {
  auto& heap = ready_[static_cast<int>(model_.steps()[at(seq).step].unit)];
  heap.push_back(seq);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

void Window::start() {
  bool changed = false;
  for (int u = 0; u < units; ++u) {
    auto& heap = ready_[u];
    const bool unbounded = u == static_cast<int>(program::Unit::sync);  // a fence holds nothing
    while (!heap.empty() && (unbounded || running_[u] < 0)) {
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      const int64_t seq = heap.back();
      heap.pop_back();
      Instance& i = at(seq);
      --waiting_;
      i.start_ps = now_;
      if (unbounded) {
        i.phase = Phase::landing;
        i.left_ps = i.cost.latency_ps;
        landing_.push_back(seq);
      } else {
        i.phase = Phase::running;
        running_[u] = seq;
        changed = true;
      }
    }
  }
  if (changed) sum_demands();
}

void Window::sum_demands() {
  port_ = memory_ = stream_ = 0;
  for (const int64_t seq : running_) {
    if (seq < 0) continue;
    port_ += at(seq).port;
    memory_ += at(seq).memory;
    stream_ += at(seq).stream;
  }
}

/// How many times longer than alone an instance takes now, in 1/65536: what it uses of a thing in demand is cut evenly.
int64_t Window::slowness(const Instance& i) const {
  int64_t slow = one;
  if (i.port > 0) slow = std::max(slow, port_);
  if (i.memory > 0) slow = std::max(slow, memory_);
  if (i.stream > 0) slow = std::max(slow, stream_);
  return slow;
}

void Window::advance() {
  int64_t next = -1;
  for (const int64_t seq : running_) {
    if (seq < 0) continue;
    const Instance& i = at(seq);
    const int64_t slow = slowness(i);
    const int64_t ps = slow == one ? i.left_ps : (i.left_ps * slow + one - 1) / one;
    if (next < 0 || ps < next) next = ps;
  }
  for (const int64_t seq : landing_) {
    if (next < 0 || at(seq).left_ps < next) next = at(seq).left_ps;
  }
  if (next < 0)
    fail(Fault::program, "kernel {}: no step can start: the program was not verified", model_.kernel().name);
  now_ += next;
  finished_.clear();
  std::erase_if(landing_, [&](int64_t seq) {
    Instance& i = at(seq);
    i.left_ps -= next;
    if (i.left_ps > 0) return false;
    finished_.push_back(seq);
    return true;
  });
  bool changed = false;
  for (int64_t& running : running_) {
    if (running < 0) continue;
    Instance& i = at(running);
    const int64_t slow = slowness(i);
    const int64_t ps = slow == one ? i.left_ps : (i.left_ps * slow + one - 1) / one;
    if (ps <= next) {
      if (listener_) listener_->ran(i.step, i.cost, i.start_ps, now_);
      if (i.cost.latency_ps > 0) {
        i.phase = Phase::landing;
        i.left_ps = i.cost.latency_ps;
        landing_.push_back(running);
      } else {
        finished_.push_back(running);
      }
      running = -1;
      changed = true;
    } else {
      i.left_ps -= slow == one ? next : next * one / slow;
    }
  }
  if (changed) sum_demands();
  for (const int64_t seq : finished_) finish(seq);
}

void Window::finish(int64_t seq) {
  Instance& i = at(seq);
  i.phase = Phase::done;
  for (const int64_t follower : i.followers) {
    if (--at(follower).missing == 0) ready(follower);
  }
  i.followers.clear();
  if (model_.steps()[i.step].memory) std::erase(transfers_, seq);
  while (base_ < next_ && at(base_).phase == Phase::done) ++base_;
}

void Window::state(std::vector<int64_t>& out) {
  out.clear();
  out.push_back(next_ - base_);
  for (int64_t seq = base_; seq < next_; ++seq) {
    Instance& i = at(seq);
    out.push_back(static_cast<int64_t>(i.phase));
    if (i.phase == Phase::done) continue;
    out.insert(out.end(), {i.step, i.missing, i.left_ps, i.cost.unit_ps, i.cost.latency_ps, i.port, i.memory, i.stream,
                           static_cast<int64_t>(i.followers.size())});
    for (const int64_t f : i.followers) out.push_back(next_ - f);
  }
  const auto place = [&](int64_t seq) { return seq >= 0 && unfinished(seq) ? next_ - seq : 0; };
  for (const Id id : live_) {
    BufferState& b = buffers_[id];
    const auto n = static_cast<int64_t>(b.slots.size());
    // Which slot is whose turn matters only where bytes are shared with other buffers.
    if (!model_.overlapping(id).empty()) out.push_back(b.instance % n);
    for (int64_t back = 0; back < n; ++back) {
      Slot& slot = b.slots[((b.instance - back) % n + n) % n];
      prune(slot.waits);
      out.push_back(static_cast<int64_t>(slot.waits.size()));
      for (const int64_t seq : slot.waits) out.push_back(place(seq));
      for (size_t p = 0; p < slot.pieces.size(); ++p) {
        Piece& piece = slot.pieces[p];
        prune(piece.readers);
        const int64_t writer = place(piece.writer);
        if (writer == 0 && piece.readers.empty()) continue;
        out.insert(out.end(), {static_cast<int64_t>(p) + 1, writer, static_cast<int64_t>(piece.readers.size())});
        for (const int64_t seq : piece.readers) out.push_back(place(seq));
      }
      out.push_back(0);
    }
  }
  out.push_back(place(fence_));
  for (const int64_t seq : ordered_) out.push_back(place(seq));
}

}  // namespace spyre::timing
