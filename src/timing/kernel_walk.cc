#include "timing/kernel_walk.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/error.h"
#include "base/trace_writer.h"
#include "timing/laws.h"
#include "timing/window.h"

namespace spyre::timing {

using program::none;

namespace {

/// States of this many iteration boundaries are kept per loop: periods up to that many trips are found.
constexpr size_t remembered = 8;
/// A loop whose remaining trips have fewer instances is walked: comparing states would take longer.
constexpr int64_t worth_jumping = 96;
/// Instances that a walk with jumps may add, over all classes but at least `least_budget` in each, before it takes the
/// remaining trips of its loops to go on as those before.
constexpr int64_t budget = 100'000, least_budget = 8'000;
/// Trips to see before that.
constexpr size_t seen_enough = 4;

/// Sums of one followed core.
struct Totals {
  int64_t read = 0, written = 0, macs = 0, pt_busy = 0;
  int64_t work_ps = 0;  ///< times of all instances alone, one after the other
  Totals& add(const Totals& t, int64_t times) {
    read = plus(read, t.read, times);
    written = plus(written, t.written, times);
    macs = plus(macs, t.macs, times);
    pt_busy = plus(pt_busy, t.pt_busy, times);
    work_ps = plus(work_ps, t.work_ps, times);
    return *this;
  }
  Totals minus(const Totals& t) const {
    return {read - t.read, written - t.written, macs - t.macs, pt_busy - t.pt_busy, work_ps - t.work_ps};
  }
};

struct Snapshot {
  int64_t trip = -1, now = 0;
  Totals totals;
  std::vector<int64_t> state;
};

struct Frame {
  int block = 0;
  size_t position = 0;
  int loop = -1;  ///< or -1: a branch or the nest
  int64_t trip = 0, trips = 1;
  double copies = 1;  ///< part of the cores that are here
  int64_t added = 0;  ///< instances before the loop
};

/// Sums when a loop began a trip.
struct Mark {
  int64_t trip = 0;
  Totals totals;
};

/// The last states of a loop at its boundaries. A loop is entered again only after it has ended, so one per loop will
/// do.
struct History {
  std::vector<Mark> marks;
  std::vector<Snapshot> ring;
  size_t count = 0, newest = 0;
  const Snapshot& back(size_t i) const { return ring[(newest + remembered - i) % remembered]; }
  Snapshot& next() {
    if (ring.empty()) ring.resize(remembered);
    newest = (newest + 1) % remembered;
    count = std::min(count + 1, remembered);
    return ring[newest];
  }
};

/// Process numbers of a trace: 1 is the calls (walk.cc), the cores follow.
constexpr int first_core_process = 2;

class TraceListener : public WindowListener {
 public:
  TraceListener(const KernelModel& model, const KernelWalkOptions& o, KernelModel::Class c)
      : model_(model), options_(o) {
    process_ = first_core_process + c.core;
    o.trace->name_process(process_, fmt::format("core {}", c.core));
    static constexpr const char* names[] = {"ld", "st", "pt", "sfp", "mv", "ring", "psum"};
    for (int u = 0; u < static_cast<int>(std::size(names)); ++u) o.trace->name_thread(process_, u, names[u], u);
  }
  void ran(int step, const Cost& cost, int64_t start_ps, int64_t end_ps) override {
    const StepModel& s = model_.steps()[step];
    std::string name;
    if (s.memory)
      name = model_.kernel().formals[s.memory->symbol].name;
    else if (!s.touches.empty())
      name = model_.kernel().buffers[s.touches.back().buffer].name;
    std::string source;
    if (options_.program && s.step->loc != none) {
      const program::Loc& loc = options_.program->locs[s.step->loc];
      name = loc.op + " " + name;
      source = loc.source;
    }
    options_.trace->complete(process_, static_cast<int>(s.unit), name, model_.kernel().name,
                             options_.trace_start_ps + start_ps, end_ps - start_ps,
                             {{"source", std::string_view(source)},
                              {"alone_ps", cost.unit_ps},
                              {"lx_bytes", cost.lx_bytes},
                              {"memory_bytes", cost.memory_bytes},
                              {"macs", cost.macs}});
  }

 private:
  const KernelModel& model_;
  const KernelWalkOptions& options_;
  int process_ = 0;
};

/// Prices steps, remembering the prices of equal sizes.
class Prices {
 public:
  Prices(const KernelModel& model, const KernelWalkOptions& options, bool turnaround_on_reads, int core)
      : model_(model),
        options_(options),
        turnaround_on_reads_(turnaround_on_reads),
        core_(core),
        copies_(model.copies(core)),
        known_(model.steps().size()),
        expressions_(model.expressions()) {}

  const Cost& of(int index, const Values& values, double part) {
    const StepModel& s = model_.steps()[index];
    key_.clear();
    for (const Affine& a : s.key) key_.push_back(model_.expressions().value(a, values));
    for (const Clip& c : s.clips) {
      const int64_t base = model_.expressions().value(c.base, values),
                    extent = model_.expressions().value(c.extent, values);
      key_.push_back(base < 0 ? std::min(ceil_div(-base, c.step), extent) : 0);
      key_.push_back(std::clamp<int64_t>(ceil_div(c.limit - base, c.step), 0, extent));
    }
    key_.push_back(static_cast<int64_t>(part * 1e6));
    auto& list = known_[index];
    for (const Priced& p : list.prices) {
      if (p.key == key_) return p.cost;
    }
    const Cost c = price(s, values, part);
    constexpr size_t kept = 64;  // clipped boxes can have many sizes; those in use come again
    if (list.prices.size() < kept) {
      list.prices.push_back({key_, c});
      return list.prices.back().cost;
    }
    list.prices[list.turn] = {key_, c};
    Priced& stored = list.prices[list.turn];
    list.turn = (list.turn + 1) % kept;
    return stored.cost;
  }

 private:
  struct Priced {
    std::vector<int64_t> key;
    Cost cost;
  };
  struct Known {
    std::vector<Priced> prices;
    size_t turn = 0;
  };

  Cost price(const StepModel& s, const Values& values, double part) {
    const device::Description& d = model_.description();
    double copies = part;
    for (size_t g = 0; g < copies_[s.nest].size(); ++g) {
      if (static_cast<Id>(g) != s.share) copies *= copies_[s.nest][g];
    }
    const auto value = [&](const program::IntExpr& e) {
      return e.is_constant() ? e.value : expressions_.value(expressions_.of(e), values);
    };
    const auto access = [&](Id formal) -> const layout::Access& { return model_.access(formal); };
    const auto slice = [&](Id range, int core, int64_t& start, int64_t& size) {
      return model_.slice(range, core, start, size);
    };
    double read = turnaround_on_reads_ ? d.turnaround_ns_per_byte : 0;
    const double write = turnaround_on_reads_ ? 0 : d.turnaround_ns_per_byte;
    if (s.memory && options_.reused.at(s.memory->symbol)) read += d.raw_reuse_ns_per_byte;
    Sizes sizes{
        model_.kernel(), model_.kernel().nests[s.nest], value, access, slice, std::max(copies, 1.0), 0, 0, read, write};
    if (s.memory) place_cores(s, values, sizes);
    return cost(*s.step, sizes, d);
  }

  /// How far apart the starts of this core and of the next one along the fastest grid dimension that moves them are,
  /// and how far this core's own starts reach.
  void place_cores(const StepModel& s, const Values& values, Sizes& sizes) const {
    const layout::Access& access = model_.access(s.memory->symbol);
    const auto& view = access.view().sizes;
    for (const int64_t size : view) {
      if (size <= 0) return;
    }
    const auto place = [&](const Values& v) {
      std::vector<int64_t> index;
      for (size_t i = 0; i < s.bases.size(); ++i) {
        index.push_back(std::clamp<int64_t>(model_.expressions().value(s.bases[i], v), 0, view[i] - 1));
      }
      return access.device_element(index) * base::format_bytes(access.geometry().format);
    };
    const auto& grid = model_.kernel().nests[s.nest].grid;
    for (size_t g = grid.size(); g-- > 0 && sizes.neighbour_bytes == 0;) {
      if (grid[g].size < 2 || static_cast<Id>(g) == s.share) continue;
      Values other = values;
      other.coordinate[g] += other.coordinate[g] + 1 < grid[g].size ? 1 : -1;
      sizes.neighbour_bytes = std::abs(place(other) - place(values));
    }
    sizes.reach_bytes = std::abs(place(model_.last_values(s.nest, core_)) - place(model_.values(s.nest, core_)));
  }

  const KernelModel& model_;
  const KernelWalkOptions& options_;
  bool turnaround_on_reads_;
  int core_;
  std::vector<std::vector<double>> copies_;
  std::vector<Known> known_;
  std::vector<int64_t> key_;
  Expressions expressions_;  // a copy: pricing may meet expressions that the model did not keep
};

/// One core through the whole kernel.
class CoreWalk {
 public:
  CoreWalk(const KernelModel& model, const KernelWalkOptions& options, int core, int64_t budget,
           bool turnaround_on_reads, WindowListener* listener)
      : model_(model),
        options_(options),
        core_(core),
        budget_(budget),
        prices_(model, options, turnaround_on_reads, core),
        window_(model, listener),
        histories_(model.loops().size()) {}

  void run() {
    for (const Id buffer : model_.kernel().scope) window_.declare(buffer);
    const int64_t lookahead = model_.description().lookahead_steps;
    for (;;) {
      // What is known and what has started settle before time passes.
      do {
        while (!finished_ && window_.waiting() < lookahead) fetch();
        window_.start();
      } while (!finished_ && window_.waiting() < lookahead);
      if (window_.empty() && finished_) break;
      window_.advance();
    }
  }
  int64_t duration() const { return plus(window_.now(), skipped_); }
  const Totals& totals() const { return totals_; }
  bool estimated() const { return estimated_; }

 private:
  /// Goes on in the text until one step is added (or a boundary passed, or the end is reached).
  void fetch() {
    if (frames_.empty()) {
      if (!next_nest()) finished_ = true;
      return;
    }
    Frame& f = frames_.back();
    const BlockModel& block = model_.block(f.block);
    if (f.position == block.size()) {
      end_of_block();
      return;
    }
    const NodeModel& node = block[f.position++];
    switch (node.kind) {
      case NodeModel::Kind::declare:
        window_.declare(node.id);
        break;
      case NodeModel::Kind::core_range:
        model_.enter_core_range(node.id, values_);
        break;
      case NodeModel::Kind::loop:
        enter_loop(node, f.copies);
        break;
      case NodeModel::Kind::branch:
        enter_branch(node, f.copies);
        break;
      case NodeModel::Kind::step: {
        const Cost& c = prices_.of(node.id, values_, f.copies);
        if (c.nothing()) break;
        ++added_;
        (c.write ? totals_.written : totals_.read) += c.memory_bytes;
        totals_.macs += c.macs;
        totals_.work_ps += c.unit_ps + c.latency_ps;
        if (c.unit == program::Unit::pt) totals_.pt_busy += c.unit_ps;
        window_.add(node.id, c, values_);
        break;
      }
    }
  }

  bool next_nest() {
    const auto& nests = model_.kernel().nests;
    while (++nest_ < static_cast<int>(nests.size())) {
      if (core_ >= nests[nest_].cores()) continue;
      const std::vector<int64_t> trip = std::move(values_.trip), size = std::move(values_.size);
      values_ = model_.values(nest_, core_);
      if (!trip.empty()) values_.trip = trip, values_.size = size;
      push(model_.nest_block(nest_), 1);
      return true;
    }
    return false;
  }

  Frame& push(int block, double copies) {
    Frame f;
    f.block = block;
    f.copies = copies;
    frames_.push_back(std::move(f));
    return frames_.back();
  }

  void enter_loop(const NodeModel& node, double copies) {
    const LoopModel& loop = model_.loops()[node.id];
    const int64_t trips = model_.trips(loop, values_);
    if (trips == 0) return;
    Frame& f = push(node.body, copies);
    f.loop = node.id;
    f.trips = trips;
    f.added = added_;
    histories_[node.id].count = 0;
    histories_[node.id].marks.clear();
    set_trip(f);
  }

  void enter_branch(const NodeModel& node, double copies) {
    for (const CompareModel& c : node.condition) {
      if (!c.holds(model_.expressions().value(c.difference, values_))) return;
    }
    push(node.body, node.by_coordinate ? copies * model_.share_of_cores(nest_, node) : copies);
  }

  void set_trip(Frame& f) {
    const LoopModel& loop = model_.loops()[f.loop];
    const int64_t by = model_.kernel().ranges[loop.range].by;
    values_.trip[loop.range] = f.trip;
    values_.size[loop.range] =
        std::clamp<int64_t>(model_.expressions().value(loop.extent, values_) - f.trip * by, 0, by);
  }

  void end_of_block() {
    Frame& f = frames_.back();
    if (f.loop < 0 || ++f.trip == f.trips) {
      frames_.pop_back();
      return;
    }
    f.position = 0;
    if (options_.jump) boundary(f);
    if (f.trip == f.trips) {
      frames_.pop_back();
    } else {
      set_trip(f);
    }
  }

  /// Between two trips: f.trip is the next one.
  void boundary(Frame& f) {
    const LoopModel& loop = model_.loops()[f.loop];
    const int64_t by = model_.kernel().ranges[loop.range].by;
    // Trips of full size.
    const int64_t full = std::min(f.trips, floor_div(model_.expressions().value(loop.extent, values_), by));
    History& history = histories_[f.loop];
    if (full - f.trip < 1) return;
    history.marks.push_back({f.trip, totals_});
    if (added_ > budget_ && history.marks.size() >= seen_enough) {
      extrapolate(f, history.marks, full);
      return;
    }
    if ((added_ - f.added) / f.trip * (full - f.trip) < worth_jumping) return;
    window_.state(state_);
    for (size_t i = 0; i < history.count; ++i) {
      const Snapshot& s = history.back(i);
      if (s.state != state_) continue;
      const int64_t period = f.trip - s.trip;
      const int64_t last = model_.same_until(loop, values_, s.trip, full - 1);
      const int64_t times = (last + 1 - f.trip) / period;
      if (times < 1) break;
      skipped_ = plus(skipped_, duration() - s.now, times);
      totals_.add(totals_.minus(s.totals), times);
      f.trip += period * times;
      history.count = 0;
      return;
    }
    Snapshot& s = history.next();
    s.trip = f.trip;
    s.now = duration();
    s.totals = totals_;
    s.state.swap(state_);
  }

  /// The trips of full size that are left, as if they went on changing evenly as between the halves of those seen.
  void extrapolate(Frame& f, const std::vector<Mark>& marks, int64_t full) {
    const Mark &m0 = marks.front(), &m1 = marks[marks.size() / 2], &m2 = marks.back();
    const auto t0 = static_cast<double>(m0.trip), t1 = static_cast<double>(m1.trip), t2 = static_cast<double>(m2.trip);
    const auto rest = static_cast<double>(full - f.trip);
    const auto more = [&](int64_t a, int64_t b, int64_t c) {
      const double before = static_cast<double>(b - a) / (t1 - t0), after = static_cast<double>(c - b) / (t2 - t1);
      const double slope = (after - before) / ((t2 - t0) / 2);
      return static_cast<int64_t>(std::min(std::max(0.0, after + slope * ((t2 - t1) / 2 + rest / 2)) * rest, 0x1p60));
    };
    // Time follows the work added, as it did up to now: the clock itself stands at what is finished, not at what is
    // known.
    const int64_t work = more(m0.totals.work_ps, m1.totals.work_ps, m2.totals.work_ps);
    skipped_ =
        plus(skipped_, static_cast<int64_t>(std::min(static_cast<double>(work) * static_cast<double>(duration()) /
                                                         static_cast<double>(std::max<int64_t>(totals_.work_ps, 1)),
                                                     0x1p60)));
    totals_.add({more(m0.totals.read, m1.totals.read, m2.totals.read),
                 more(m0.totals.written, m1.totals.written, m2.totals.written),
                 more(m0.totals.macs, m1.totals.macs, m2.totals.macs),
                 more(m0.totals.pt_busy, m1.totals.pt_busy, m2.totals.pt_busy), work},
                1);
    f.trip = full;
    estimated_ = true;
  }

  const KernelModel& model_;
  const KernelWalkOptions& options_;
  int core_ = 0, nest_ = -1;
  int64_t budget_;
  Prices prices_;
  Window window_;
  Values values_;
  std::vector<Frame> frames_;
  std::vector<History> histories_;  // by loop
  std::vector<int64_t> state_;
  Totals totals_;
  int64_t added_ = 0, skipped_ = 0;
  bool finished_ = false, estimated_ = false;
};

}  // namespace

KernelTime walk_kernel(const KernelModel& model, const KernelWalkOptions& options) {
  const device::Description& d = model.description();
  const std::vector<KernelModel::Class> classes = model.classes();
  const int64_t most = std::max(least_budget, budget / std::max<int64_t>(static_cast<int64_t>(classes.size()), 1));
  KernelTime time;
  // The turnaround is charged to the direction with fewer bytes: to stores first, and to loads if those turn out fewer.
  for (const bool on_reads : {false, true}) {
    time = {};
    for (const KernelModel::Class& c : classes) {
      CoreWalk walk(model, options, c.core, most, on_reads, nullptr);
      walk.run();
      time.duration_ps = std::max(time.duration_ps, walk.duration());
      time.bytes_read = plus(time.bytes_read, walk.totals().read, c.count);
      time.bytes_written = plus(time.bytes_written, walk.totals().written, c.count);
      time.macs = plus(time.macs, walk.totals().macs, c.count);
      time.pt_busy_ps = std::max(time.pt_busy_ps, walk.totals().pt_busy);
      time.estimated = time.estimated || walk.estimated();
    }
    if (time.bytes_written <= time.bytes_read || on_reads) {
      if (options.trace) {
        KernelWalkOptions every = options;  // each instance is to be seen
        every.jump = false;
        for (const KernelModel::Class& c : classes) {
          TraceListener listener(model, every, c);
          CoreWalk(model, every, c.core, most, on_reads, &listener).run();
        }
      }
      break;
    }
  }
  const double bytes = std::min(static_cast<double>(plus(time.bytes_read, time.bytes_written)), 0x1p50);
  time.duration_ps = std::max(time.duration_ps, bytes_ps(bytes, d.memory_gbps));
  return time;
}

}  // namespace spyre::timing
