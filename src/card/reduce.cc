// sfp.red: monoids along one dimension of a box.
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "card/checker.h"
#include "card/elements.h"
#include "card/vector_program.h"
#include "program/vector_rules.h"

namespace spyre::card {

namespace {

using program::Monoid;
using program::Reg;

/// States of all reduced places: up to three arrays of 32-bit values.
struct States {
  float* f[3] = {};
  int32_t* i(int k) const { return reinterpret_cast<int32_t*>(f[k]); }
  std::vector<int64_t> wide;  ///< exact sums of `sum!`
};

using Views = base::SmallVector<View, 3>;

class ReduceExec final : public StepExec {
 public:
  ReduceExec(const program::Reduce& op, const StepContext& context)
      : op_(op),
        states_(program::states_of(op.monoid)),
        rank_(value_rank(op, context)),
        value_({&op.value}, rank_, context) {
    if (static_cast<int>(op.state.size()) != states_)
      fail(Fault::program, "{} has {} state values, not {}", program::monoid_name(op.monoid), states_, op.state.size());
    for (const auto& s : op.state) {
      state_.emplace_back(s, context.buffers, context.vars);
      if (s.transposed) fail(Fault::program, "a reduction into a transposed buffer");
    }
    if (op.dim < 0 || op.dim >= rank_) fail(Fault::program, "a reduction over dimension {} of {}", op.dim, rank_);
    if (!op.init.empty()) {
      if (static_cast<int>(op.init.size()) != states_)
        fail(Fault::program, "{} has {} initial values, not {}", program::monoid_name(op.monoid), states_,
             op.init.size());
      std::vector<const program::VecExpr*> roots;
      for (const auto& e : op.init) roots.push_back(&e);
      init_ = std::make_unique<VectorProgram>(roots, state_[0].info().rank, context);
    }
    real_ = op.value.type == Reg::f32;
    if (op.value.type == Reg::pred && op.monoid != Monoid::any && op.monoid != Monoid::all)
      fail(Fault::program, "{} of predicates", program::monoid_name(op.monoid));
    if (op.value.type != Reg::pred && (op.monoid == Monoid::any || op.monoid == Monoid::all))
      fail(Fault::program, "{} of numbers: compare them first", program::monoid_name(op.monoid));
    if (!real_ && (op.monoid == Monoid::welford || op.monoid == Monoid::logsumexp))
      fail(Fault::program, "{} of integers", program::monoid_name(op.monoid));
  }

  void run(Core& core) const override {
    Views state;
    for (const Operand& o : state_) state.push_back(o.view(core));
    // The box of the value, fitted to the state's other dimensions.
    VectorProgram::Run value(value_, core, {});
    const int state_rank = state[0].rank, shift = rank_ - state_rank;
    for (int d = 0; d < rank_; ++d) {
      const int e = d - shift;
      if (d == op_.dim) continue;
      for (const View& s : state) {
        const bool single = e < 0 || s.single[e];
        if (!single)
          value.set_size(d, value_.sized_by_operands(d) ? std::min(value.sizes()[d], s.size[e]) : s.size[e]);
        else if (value.sizes()[d] > 1)
          fail(Fault::program, "state {} has size 1 along dimension {}, the value {}",
               core.run->kernel->buffers[s.buffer].name, d, value.sizes()[d]);
      }
    }
    const auto sizes = value.sizes();
    int64_t outer = 1, inner_rows = 1;
    const bool last = op_.dim == rank_ - 1;
    for (int d = 0; d < op_.dim; ++d) outer *= sizes[d];
    for (int d = op_.dim + 1; d + 1 < rank_; ++d) inner_rows *= sizes[d];
    const int64_t cols = last ? 1 : sizes[rank_ - 1], rows = outer * (last ? 1 : inner_rows), places = rows * cols;
    if (places <= 0) return;
    States s;
    for (int k = 0; k < states_; ++k)
      s.f[k] = Scratch::mine().get<float>(k == 0 ? Scratch::left : k == 1 ? Scratch::right : Scratch::rows, places);
    start_states(core, s, rows, cols, state, sizes);
    if (op_.trap && !real_ && op_.monoid == Monoid::sum) {
      s.wide.resize(static_cast<size_t>(places));
      for (int64_t p = 0; p < places; ++p) s.wide[p] = s.i(0)[p];
    }
    value.start();
    if (!value.empty()) {
      if (last)
        along_rows(value, s);
      else
        down_columns(value, s, outer, sizes[op_.dim], inner_rows, cols);
    }
    for (size_t p = 0; p < s.wide.size(); ++p) {
      if (s.wide[p] > INT32_MAX || s.wide[p] < INT32_MIN) trapped();
      s.i(0)[p] = static_cast<int32_t>(s.wide[p]);
    }
    for (int k = 0; k < states_; ++k) write_state(core, state[k], s, k, rows, cols, sizes);
  }

 private:
  static int value_rank(const program::Reduce& op, const StepContext& context) {
    int rank = 0;
    auto visit = [&](auto&& self, const program::VecExpr& e) -> void {
      if (e.op == program::VecOp::operand) rank = std::max(rank, context.buffers.at(e.ref.buffer).rank);
      for (const auto& a : e.args) self(self, a);
    };
    visit(visit, op.value);
    for (const auto& s : op.state) rank = std::max(rank, context.buffers.at(s.buffer).rank);
    return rank;
  }

  [[noreturn]] void trapped() const {
    fail(Fault::user, "an integer {} is outside int32, in which this device holds int64 values",
         program::monoid_name(op_.monoid));
  }

  bool integer_state(int k) const {
    switch (op_.monoid) {
      case Monoid::any:
      case Monoid::all:
        return true;
      case Monoid::argmax:
      case Monoid::argmin:
        return k == 1 || !real_;
      default:
        return !real_;
    }
  }

  /// Sizes of the box of the states, in their own rank.
  static std::array<int64_t, max_rank> state_box(const View& s, const std::array<int64_t, max_rank>& sizes, int rank,
                                                 int dim) {
    std::array<int64_t, max_rank> box{};
    for (int e = 0; e < s.rank; ++e) {
      const int d = e + rank - s.rank;
      box[e] = d == dim ? 1 : sizes[d];
    }
    return box;
  }

  void start_states(Core& core, States& s, int64_t rows, int64_t cols, const Views& state,
                    const std::array<int64_t, max_rank>& sizes) const {
    const int64_t places = rows * cols;
    if (!init_) {
      constexpr float inf = std::numeric_limits<float>::infinity();
      for (int k = 0; k < states_; ++k) {
        float f = 0;
        int32_t i = 0;
        switch (op_.monoid) {
          case Monoid::prod:
            f = 1, i = 1;
            break;
          case Monoid::all:
            i = -1;
            break;
          case Monoid::max:
          case Monoid::argmax:
            f = -inf, i = k == 1 ? -1 : INT32_MIN;
            break;
          case Monoid::min:
          case Monoid::argmin:
            f = inf, i = k == 1 ? -1 : INT32_MAX;
            break;
          case Monoid::logsumexp:
            f = k == 0 ? -inf : 0;
            break;
          default:
            break;
        }
        if (integer_state(k))
          host::fill(s.i(k), i, static_cast<size_t>(places));
        else
          host::fill(s.f[k], f, static_cast<size_t>(places));
      }
      return;
    }
    VectorProgram::Run init(*init_, core, {});
    const auto box = state_box(state[0], sizes, rank_, op_.dim);
    for (int e = 0; e < state[0].rank; ++e) init.set_size(e, box[e]);
    init.start();
    for (int64_t r = 0; r < init.rows(); r += init.strip_rows()) {
      const int64_t nr = std::min(init.strip_rows(), init.rows() - r);
      for (int64_t c = 0; c < init.cols(); c += init.strip_cols()) {
        const int64_t nc = std::min(init.strip_cols(), init.cols() - c);
        init.strip(r, nr, c, nc);
        for (int k = 0; k < states_; ++k) {
          const auto* lanes =
              static_cast<const float*>(init.lanes(k, Scratch::mine().get<float>(Scratch::outputs, nr * nc), nr, nc));
          for (int64_t i = 0; i < nr; ++i)
            std::memcpy(s.f[k] + (r + i) * cols + c, lanes + i * nc, static_cast<size_t>(nc) * 4);
        }
      }
    }
  }

  void along_rows(VectorProgram::Run& value, States& s) const {
    Scratch& scratch = Scratch::mine();
    for (int64_t r = 0; r < value.rows(); r += value.strip_rows()) {
      const int64_t nr = std::min(value.strip_rows(), value.rows() - r);
      for (int64_t c = 0; c < value.cols(); c += value.strip_cols()) {
        const int64_t nc = std::min(value.strip_cols(), value.cols() - c);
        value.strip(r, nr, c, nc);
        const void* lanes = value.lanes(0, scratch.get<float>(Scratch::outputs, nr * nc), nr, nc);
        for (int64_t i = 0; i < nr; ++i) {
          if (real_)
            fold(s, r + i, static_cast<const float*>(lanes) + i * nc, c, static_cast<size_t>(nc));
          else
            fold(s, r + i, static_cast<const int32_t*>(lanes) + i * nc, c, static_cast<size_t>(nc));
        }
      }
    }
  }

  static float max_nan(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }
  static float min_nan(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }

  void fold(States& s, int64_t p, const float* x, int64_t first, size_t n) const {
    float* f = s.f[0];
    switch (op_.monoid) {
      case Monoid::sum:
        f[p] += host::f32_sum(x, n);
        break;
      case Monoid::prod:
        f[p] *= host::f32_prod(x, n);
        break;
      case Monoid::max:
        f[p] = max_nan(f[p], host::f32_max(x, n));
        break;
      case Monoid::min:
        f[p] = min_nan(f[p], host::f32_min(x, n));
        break;
      case Monoid::argmax:
      case Monoid::argmin: {
        host::ArgState a{f[p], s.i(1)[p]};
        if (op_.monoid == Monoid::argmax)
          host::f32_argmax(a, x, static_cast<int32_t>(first), n);
        else
          host::f32_argmin(a, x, static_cast<int32_t>(first), n);
        f[p] = a.value, s.i(1)[p] = a.index;
        break;
      }
      case Monoid::welford: {
        host::WelfordState w{f[p], s.f[1][p], s.f[2][p]};
        host::welford(w, x, n);
        f[p] = w.mean, s.f[1][p] = w.m2, s.f[2][p] = w.count;
        break;
      }
      case Monoid::logsumexp: {
        host::LogSumExpState l{f[p], s.f[1][p]};
        host::logsumexp(l, x, n);
        f[p] = l.max, s.f[1][p] = l.sum;
        break;
      }
      default:
        break;
    }
  }

  void fold(States& s, int64_t p, const int32_t* x, int64_t first, size_t n) const {
    int32_t* i = s.i(0);
    switch (op_.monoid) {
      case Monoid::sum:
        if (s.wide.empty())
          i[p] = static_cast<int32_t>(static_cast<uint32_t>(i[p]) + static_cast<uint32_t>(host::i32_sum(x, n)));
        else
          s.wide[p] += host::i32_sum(x, n);
        break;
      case Monoid::prod: {
        host::I32Status status = host::i32_exact;
        const int32_t part = host::i32_prod(x, n, &status);
        int32_t all = 0;
        const bool over = __builtin_mul_overflow(i[p], part, &all);
        if (op_.trap && (over || (status & host::i32_overflow))) trapped();
        i[p] = all;
        break;
      }
      case Monoid::max:
        i[p] = std::max(i[p], host::i32_max(x, n));
        break;
      case Monoid::min:
        i[p] = std::min(i[p], host::i32_min(x, n));
        break;
      case Monoid::any:
        i[p] = i[p] || host::mask_any(x, n) ? -1 : 0;
        break;
      case Monoid::all:
        i[p] = i[p] && host::mask_all(x, n) ? -1 : 0;
        break;
      default: {
        host::ArgStateI32 a{i[p], s.i(1)[p]};
        if (op_.monoid == Monoid::argmax)
          host::i32_argmax(a, x, static_cast<int32_t>(first), n);
        else
          host::i32_argmin(a, x, static_cast<int32_t>(first), n);
        i[p] = a.value, s.i(1)[p] = a.index;
      }
    }
  }

  void down_columns(VectorProgram::Run& value, States& s, int64_t outer, int64_t depth, int64_t inner_rows,
                    int64_t cols) const {
    float* spread = Scratch::mine().get<float>(Scratch::outputs, value.strip_cols());
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t q = 0; q < inner_rows; ++q)
        for (int64_t c = 0; c < cols; c += value.strip_cols()) {
          const int64_t nc = std::min(value.strip_cols(), cols - c), p = (o * inner_rows + q) * cols + c;
          for (int64_t d = 0; d < depth; ++d) {
            value.strip((o * depth + d) * inner_rows + q, 1, c, nc);
            const void* row = value.lanes(0, spread, 1, nc);
            if (real_)
              add_row(s, p, static_cast<const float*>(row), d, nc);
            else
              add_row(s, p, static_cast<const int32_t*>(row), d, nc);
          }
        }
  }

  void add_row(States& s, int64_t p, const float* row, int64_t d, int64_t nc) const {
    const auto n = static_cast<size_t>(nc);
    float* f = s.f[0] + p;
    auto combine = [&](host::F32Binary op) { host::f32_binary(op)(f, f, row, n, host::splat_none); };
    switch (op_.monoid) {
      case Monoid::sum:
        combine(host::F32Binary::add);
        break;
      case Monoid::prod:
        combine(host::F32Binary::mul);
        break;
      case Monoid::max:
        combine(host::F32Binary::max);
        break;
      case Monoid::min:
        combine(host::F32Binary::min);
        break;
      case Monoid::argmax:
        host::f32_argmax_rows(f, s.i(1) + p, row, static_cast<int32_t>(d), n);
        break;
      case Monoid::argmin:
        host::f32_argmin_rows(f, s.i(1) + p, row, static_cast<int32_t>(d), n);
        break;
      case Monoid::welford:
        // Lanes may start from different counts (an initial state), so each is updated by itself.
        for (size_t k = 0; k < n; ++k) {
          host::WelfordState w{f[k], s.f[1][p + k], s.f[2][p + k]};
          w.count += 1;
          const float delta = row[k] - w.mean;
          w.mean += delta / w.count;
          w.m2 += delta * (row[k] - w.mean);
          f[k] = w.mean, s.f[1][p + k] = w.m2, s.f[2][p + k] = w.count;
        }
        break;
      default:
        host::logsumexp_rows(f, s.f[1] + p, row, n);
        break;
    }
  }

  void add_row(States& s, int64_t p, const int32_t* row, int64_t d, int64_t nc) const {
    const auto n = static_cast<size_t>(nc);
    int32_t* i = s.i(0) + p;
    auto combine = [&](host::I32Binary op) { return host::i32_binary(op)(i, i, row, n, host::splat_none); };
    switch (op_.monoid) {
      case Monoid::sum:
        if (s.wide.empty())
          combine(host::I32Binary::add);
        else
          for (size_t k = 0; k < n; ++k) s.wide[p + k] += row[k];
        break;
      case Monoid::prod:
        if (combine(host::I32Binary::mul) != host::i32_exact && op_.trap) trapped();
        break;
      case Monoid::max:
        combine(host::I32Binary::max);
        break;
      case Monoid::min:
        combine(host::I32Binary::min);
        break;
      case Monoid::any:
        combine(host::I32Binary::bit_or);
        break;
      case Monoid::all:
        combine(host::I32Binary::bit_and);
        break;
      default:
        for (int64_t k = 0; k < nc; ++k) {
          const bool better = s.i(1)[p + k] < 0 || (op_.monoid == Monoid::argmax ? row[k] > i[k] : row[k] < i[k]);
          if (better) i[k] = row[k], s.i(1)[p + k] = static_cast<int32_t>(d);
        }
    }
  }

  void write_state(Core& core, const View& to, const States& s, int k, int64_t rows, int64_t cols,
                   const std::array<int64_t, max_rank>& sizes) const {
    const auto box = state_box(to, sizes, rank_, op_.dim);
    const int64_t bytes = base::format_bytes(to.format);
    int32_t* flags = nullptr;
    if (op_.monoid == Monoid::any || op_.monoid == Monoid::all) {
      flags = s.i(0);
      host::cast_mask_i32(flags, flags, static_cast<size_t>(rows * cols));
    }
    // Places are row-major over the state's box.
    int64_t total = 1;
    for (int e = 0; e < to.rank; ++e) total *= box[e];
    const int64_t width = box[to.rank - 1];
    const auto put = [&](int64_t first, std::byte* at, int64_t n, int64_t step) {
      if (integer_state(k))
        store_i32(s.i(k) + first, at, to.format, step, n);
      else
        store_f32(s.f[k] + first, at, to.format, step, n);
    };
    const bool column = to.rank == 2 && width == 1;
    if (column) put(0, to.data, total, to.stride[0]);
    for (int64_t r = 0; !column && r < total / width; ++r) {
      int64_t rest = r, offset = 0;
      for (int e = to.rank - 2; e >= 0; --e) {
        offset += rest % box[e] * to.stride[e];
        rest /= box[e];
      }
      put(r * width, to.data + offset * bytes, width, 1);
    }
    if (core.run->checker) {
      View written = to;
      for (int e = 0; e < to.rank; ++e) written.size[e] = box[e];
      core.run->checker->write(core, written);
    }
  }

  const program::Reduce& op_;
  int states_, rank_;
  bool real_ = true;
  VectorProgram value_;
  std::unique_ptr<VectorProgram> init_;
  std::vector<Operand> state_;
};

}  // namespace

std::unique_ptr<StepExec> make_reduce(const program::Reduce& op, const StepContext& context) {
  return std::make_unique<ReduceExec>(op, context);
}

}  // namespace spyre::card
