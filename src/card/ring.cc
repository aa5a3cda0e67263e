// Collective steps: ring.shift, ring.gather, ring.remap, psum, barrier; and fence.
#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/thread_pool.h"
#include "card/checker.h"
#include "card/core.h"
#include "card/elements.h"
#include "card/host_kernels.h"

namespace spyre::card {

namespace {

/// The cores of a nest by groups along one grid dimension, each in ascending coordinate.
class Groups {
 public:
  Groups(Id grid, const StepContext& context) : grid_(grid) {
    if (grid < 0 || grid >= static_cast<Id>(context.nest.grid.size()))
      fail(Fault::program, "a collective step over grid dimension {}", grid);
    size_ = context.nest.grid[grid].size;
    stride_ = 1;
    for (size_t d = grid + 1; d < context.nest.grid.size(); ++d) stride_ *= context.nest.grid[d].size;
    name_ = context.nest.grid[grid].name;
  }
  int size() const { return size_; }

  template <typename Fn>
  void each(std::span<Core* const> cores, Fn&& fn) const {
    std::map<int, std::vector<Core*>> groups;
    for (Core* c : cores) {
      const int coordinate = c->id / stride_ % size_;
      auto& g = groups[c->id - coordinate * stride_];
      g.resize(size_);
      g[coordinate] = c;
    }
    for (auto& [first, g] : groups) {
      if (std::find(g.begin(), g.end(), nullptr) != g.end())
        fail(Fault::program, "a collective step over {} is reached by some cores of a group only", name_);
      fn(std::span<Core* const>(g));
    }
  }

 private:
  Id grid_;
  int size_ = 1, stride_ = 1;
  std::string name_;
};

void copy_rows(const View& from, const View& to) {
  const auto bytes = static_cast<size_t>(to.last_size() * base::format_bytes(to.format));
  const int64_t rows = to.rows();
  for (int64_t r = 0; r < rows; ++r) std::memcpy(to.row(r), from.row(r), bytes);
}

/// A packed copy of a view's elements, row by row.
std::vector<std::byte> packed(const View& v) {
  const int64_t rows = v.rows(), bytes = v.last_size() * base::format_bytes(v.format);
  std::vector<std::byte> copy(static_cast<size_t>(rows * bytes));
  for (int64_t r = 0; r < rows; ++r) std::memcpy(copy.data() + r * bytes, v.row(r), static_cast<size_t>(bytes));
  return copy;
}

void unpack_rows(const std::vector<std::byte>& copy, const View& to) {
  const int64_t rows = to.rows(), bytes = to.last_size() * base::format_bytes(to.format);
  for (int64_t r = 0; r < rows; ++r) std::memcpy(to.row(r), copy.data() + r * bytes, static_cast<size_t>(bytes));
}

class CollectiveExec : public StepExec {
 public:
  bool collective() const final { return true; }
  void run(Core&) const final { fail(Fault::program, "a collective step was run by one core"); }

 protected:
  static void check_plain(const Operand& o) {
    if (o.ref().transposed) fail(Fault::program, "a ring step of a transposed buffer");
  }
};

class ShiftExec final : public CollectiveExec {
 public:
  ShiftExec(const program::Ring& op, const StepContext& context)
      : op_(op),
        groups_(op.grid, context),
        to_(op.to, context.buffers, context.vars),
        from_(op.from, context.buffers, context.vars) {
    check_plain(to_), check_plain(from_);
    if (to_.info().format != from_.info().format) fail(Fault::program, "a ring step that changes the format");
  }
  /// The core at coordinate c receives from c - by: values move by `by` towards higher coordinates.
  void run_all(std::span<Core* const> cores) const override {
    groups_.each(cores, [&](std::span<Core* const> g) {
      const int n = groups_.size();
      std::vector<std::vector<std::byte>> sent;
      std::vector<View> from;
      for (Core* c : g) {
        from.push_back(from_.view(*c));
        if (c->run->checker) c->run->checker->read(*c, from.back());
        sent.push_back(packed(from.back()));
      }
      for (int i = 0; i < n; ++i) {
        const int source = ((i - op_.by) % n + n) % n;
        View to = to_.view(*g[i]);
        if (to.numel() < from[source].numel() || to.last_size() < from[source].last_size())
          fail(Fault::program, "ring.shift into a smaller buffer");
        if (to.last_size() != from[source].last_size() || to.rows() != from[source].rows())
          for (int d = 0; d < to.rank; ++d) to.size[d] = std::min(to.size[d], from[source].size[d]);
        if (to.numel() == 0) continue;
        unpack_rows(sent[source], to);
        if (g[i]->run->checker) g[i]->run->checker->write(*g[i], to);
      }
    });
  }

 private:
  const program::Ring& op_;
  Groups groups_;
  Operand to_, from_;
};

class GatherExec final : public CollectiveExec {
 public:
  GatherExec(const program::Ring& op, const StepContext& context)
      : groups_(op.grid, context),
        to_(op.to, context.buffers, context.vars),
        from_(op.from, context.buffers, context.vars) {
    check_plain(to_), check_plain(from_);
    if (to_.info().format != from_.info().format) fail(Fault::program, "a ring step that changes the format");
  }
  /// Parts follow each other by coordinate along the first dimension (of a single row: along the last).
  void run_all(std::span<Core* const> cores) const override {
    groups_.each(cores, [&](std::span<Core* const> g) {
      std::vector<View> from;
      std::vector<std::vector<std::byte>> parts;
      for (Core* c : g) {
        from.push_back(from_.view(*c));
        if (c->run->checker) c->run->checker->read(*c, from.back());
        parts.push_back(packed(from.back()));
      }
      for (Core* c : g) {
        const View to = to_.view(*c);
        const int64_t rows = to.rows(), bytes = base::format_bytes(to.format);
        int64_t all_rows = 0, all_cols = 0;
        for (const View& f : from) all_rows += f.rows(), all_cols += f.last_size();
        if (all_rows <= rows && from[0].last_size() <= to.last_size()) {
          int64_t at = 0;
          for (size_t i = 0; i < from.size(); ++i) {
            const int64_t width = from[i].last_size() * bytes;
            for (int64_t r = 0; r < from[i].rows(); ++r)
              std::memcpy(to.row(at++), parts[i].data() + r * width, static_cast<size_t>(width));
          }
        } else if (rows == from[0].rows() && all_cols <= to.last_size()) {
          int64_t at = 0;
          for (size_t i = 0; i < from.size(); ++i) {
            const int64_t width = from[i].last_size() * bytes;
            for (int64_t r = 0; r < rows; ++r)
              std::memcpy(to.row(r) + at, parts[i].data() + r * width, static_cast<size_t>(width));
            at += width;
          }
        } else {
          fail(Fault::program, "ring.gather of {} parts of {} rows x {} into {} rows x {}", g.size(), from[0].rows(),
               from[0].last_size(), rows, to.last_size());
        }
        if (c->run->checker) c->run->checker->write(*c, to);
      }
    });
  }

 private:
  Groups groups_;
  Operand to_, from_;
};

class RemapExec final : public CollectiveExec {
 public:
  RemapExec(const program::Ring& op, const StepContext& context)
      : op_(op),
        vars_(context.vars),
        to_(op.to, context.buffers, context.vars),
        from_(op.from, context.buffers, context.vars) {
    check_plain(to_), check_plain(from_);
    if (to_.info().format != from_.info().format) fail(Fault::program, "a ring step that changes the format");
    if (!to_.whole() || !from_.whole()) fail(Fault::program, "ring.remap of a part of a buffer");
    const auto rank = static_cast<size_t>(to_.info().rank);
    if (from_.info().rank != to_.info().rank || op.from_ranges.size() != rank || op.to_ranges.size() != rank)
      fail(Fault::program, "ring.remap needs one range per buffer dimension on both sides");
    nest_of_.assign(context.kernel.ranges.size(), -1);
    for (size_t n = 0; n < context.kernel.nests.size(); ++n)
      for (const auto& s : context.kernel.nests[n].body)
        if (const auto* c = std::get_if<program::CoreRange>(&s.node)) nest_of_[c->range] = static_cast<int>(n);
    for (size_t n = 0; n < context.kernel.nests.size(); ++n)
      if (&context.kernel.nests[n] == &context.nest) nest_ = static_cast<int>(n);
    for (const auto* side : {&op.from_ranges, &op.to_ranges})
      for (Id r : *side)
        if (r != program::none && nest_of_.at(r) < 0)
          fail(Fault::program, "ring.remap names {}, which is no core range of a nest's own block",
               context.kernel.ranges[r].name);
  }

  void run_all(std::span<Core* const> cores) const override {
    const int rank = to_.info().rank;
    struct Part {
      View view;
      std::array<int64_t, max_rank> start{}, size{};
    };
    auto part = [&](Core& c, const Operand& o, const std::vector<Id>& ranges) {
      Part p;
      p.view = o.view(c);
      for (int d = 0; d < rank; ++d) {
        p.size[d] = p.view.size[d];
        if (ranges[d] == program::none) continue;
        const auto& table = c.run->nest_core_ranges[nest_of_[ranges[d]]];
        const auto at = (static_cast<size_t>(c.id) * vars_.ranges + ranges[d]) * 2;
        if (at + 1 >= table.size()) {  // this core takes no part in that nest
          p.size[d] = 0;
          continue;
        }
        p.start[d] = table[at];
        p.size[d] = std::min(table[at + 1], p.view.size[d]);
      }
      return p;
    };
    std::vector<Part> sources;
    std::vector<std::vector<std::byte>> sent;
    // An earlier nest may have used more cores than this one.
    const auto& all = cores.empty() ? std::vector<Core*>{} : cores[0]->run->all_cores;
    for (Core* c : all) {
      if (!c->buffers[from_.buffer()]) continue;
      Part p = part(*c, from_, op_.from_ranges);
      for (int d = 0; d < rank; ++d) p.view.size[d] = p.size[d];
      if (p.view.numel() > 0 && c->run->checker) c->run->checker->read(*c, p.view);
      sent.push_back(p.view.numel() > 0 ? packed(p.view) : std::vector<std::byte>{});
      sources.push_back(p);
    }
    for (Core* c : cores) {
      Part to = part(*c, to_, op_.to_ranges);
      for (int d = 0; d < rank; ++d) to.view.size[d] = to.size[d];
      // From the last source to the first: where parts are held twice, the lowest core's counts.
      for (size_t s = sources.size(); s-- > 0;)
        copy_common(sources[s].start, sources[s].size, sent[s], to.start, to.size, to.view);
      if (c->run->checker && to.view.numel() > 0) c->run->checker->write(*c, to.view);
    }
  }

 private:
  using Sizes = std::array<int64_t, max_rank>;
  static void copy_common(const Sizes& from_start, const Sizes& from_size, const std::vector<std::byte>& from,
                          const Sizes& to_start, const Sizes& to_size, const View& to) {
    const int rank = to.rank;
    Sizes lo{}, n{}, stride{};
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; --d) {
      lo[d] = std::max(from_start[d], to_start[d]);
      n[d] = std::min(from_start[d] + from_size[d], to_start[d] + to_size[d]) - lo[d];
      if (n[d] <= 0) return;
      stride[d] = step;
      step *= from_size[d];
    }
    const int64_t bytes = base::format_bytes(to.format);
    int64_t rows = 1;
    for (int d = 0; d + 1 < rank; ++d) rows *= n[d];
    for (int64_t r = 0; r < rows; ++r) {
      int64_t rest = r, source = lo[rank - 1] - from_start[rank - 1], target = lo[rank - 1] - to_start[rank - 1];
      for (int d = rank - 2; d >= 0; --d) {
        const int64_t i = lo[d] + rest % n[d];
        rest /= n[d];
        source += (i - from_start[d]) * stride[d];
        target += (i - to_start[d]) * to.stride[d];
      }
      std::memcpy(to.data + target * bytes, from.data() + source * bytes, static_cast<size_t>(n[rank - 1] * bytes));
    }
  }

  const program::Ring& op_;
  VarMap vars_;
  Operand to_, from_;
  std::vector<int> nest_of_;
  int nest_ = 0;
};

class PartialSumExec final : public CollectiveExec {
 public:
  PartialSumExec(const program::PartialSum& op, const StepContext& context)
      : op_(op), groups_(op.grid, context), acc_(op.acc, context.buffers, context.vars) {
    check_plain(acc_);
    const Format f = acc_.info().format;
    if (f != Format::f32 && f != Format::i32) fail(Fault::program, "psum of {}", base::format_name(f));
  }
  void run_all(std::span<Core* const> cores) const override {
    std::vector<std::vector<View>> parts;  // of each group
    groups_.each(cores, [&](std::span<Core* const> g) {
      std::vector<View>& acc = parts.emplace_back();
      for (Core* c : g) {
        acc.push_back(acc_.view(*c));
        if (c->run->checker) c->run->checker->read(*c, acc.back());
      }
      for (size_t i = 1; i < acc.size(); ++i) {
        if (acc[i].numel() != acc[0].numel() || acc[i].last_size() != acc[0].last_size())
          fail(Fault::program, "psum over parts of different sizes");
        if (!op_.to_all && g[i]->run->checker) g[i]->run->checker->undefine(*g[i], acc[i]);
      }
    });
    base::ThreadPool::shared().for_each(static_cast<int>(parts.size()),
                                        [&](int group) { add_up(parts[static_cast<size_t>(group)]); });
  }

 private:
  /// In ascending coordinate, into the first.
  void add_up(const std::vector<View>& acc) const {
    const View& sum = acc[0];
    const int64_t rows = sum.rows();
    const auto n = static_cast<size_t>(sum.last_size());
    for (int64_t r = 0; r < rows; ++r) {
      for (size_t i = 1; i < acc.size(); ++i) {
        if (sum.format == Format::f32) {
          auto* to = reinterpret_cast<float*>(sum.row(r));
          host::f32_binary(host::F32Binary::add)(to, to, reinterpret_cast<const float*>(acc[i].row(r)), n,
                                                 host::splat_none);
        } else {
          auto* to = reinterpret_cast<uint32_t*>(sum.row(r));
          const auto* from = reinterpret_cast<const uint32_t*>(acc[i].row(r));
          for (size_t k = 0; k < n; ++k) to[k] += from[k];
        }
      }
    }
    for (size_t i = 1; op_.to_all && i < acc.size(); ++i) copy_rows(sum, acc[i]);
  }

  const program::PartialSum& op_;
  Groups groups_;
  Operand acc_;
};

/// A barrier orders the cores' memory steps; in the sequential order it only has to be reached by all of a group.
class BarrierExec final : public CollectiveExec {
 public:
  BarrierExec(Id grid, const StepContext& context) : groups_(grid, context) {}
  void run_all(std::span<Core* const> cores) const override {
    groups_.each(cores, [](std::span<Core* const>) {});
    if (!cores.empty() && cores[0]->run->checker) cores[0]->run->checker->barrier();
  }

 private:
  Groups groups_;
};

class FenceExec final : public StepExec {
 public:
  void run(Core&) const override {}
};

}  // namespace

std::unique_ptr<StepExec> make_ring(const program::Ring& op, const StepContext& context) {
  switch (op.kind) {
    case program::Ring::Kind::shift:
      return std::make_unique<ShiftExec>(op, context);
    case program::Ring::Kind::gather:
      return std::make_unique<GatherExec>(op, context);
    default:
      return std::make_unique<RemapExec>(op, context);
  }
}

std::unique_ptr<StepExec> make_partial_sum(const program::PartialSum& op, const StepContext& context) {
  return std::make_unique<PartialSumExec>(op, context);
}

std::unique_ptr<StepExec> make_fence(const program::Fence& op, const StepContext& context) {
  if (op.grid == program::none) return std::make_unique<FenceExec>();
  return std::make_unique<BarrierExec>(op.grid, context);
}

}  // namespace spyre::card
