// sfp: vector programs on the box of their result.
#include <cstring>

#include "base/error.h"
#include "card/checker.h"
#include "card/elements.h"
#include "card/tile_in_memory.h"
#include "card/vector_program.h"

namespace spyre::card {

namespace {

using program::Reg;

std::vector<const program::VecExpr*> pointers(const std::vector<program::VecExpr>& exprs) {
  std::vector<const program::VecExpr*> p;
  for (const auto& e : exprs) p.push_back(&e);
  return p;
}

class VectorExec final : public StepExec {
 public:
  VectorExec(const program::Vector& op, const StepContext& context)
      : keep_values_(values_are_enough(op, context)),
        program_(pointers(op.value), box_rank(op, context), context, keep_values_) {
    if (op.to.size() != op.value.size())
      fail(Fault::program, "a vector step has {} results and {} values", op.to.size(), op.value.size());
    for (const auto& t : op.to) {
      to_.emplace_back(t, context.buffers, context.vars);
      if (t.transposed) fail(Fault::program, "a vector step writes to a transposed buffer");
      if (to_.back().info().rank != program_.rank())
        fail(Fault::program, "results of a vector step have different numbers of dimensions");
    }
  }

  void forward_to(const StepExec* store) override { store_ = store; }

  void run(Core& core) const override {
    base::SmallVector<View, 3> to;
    for (const Operand& o : to_) to.push_back(keep_values_ && core.run->lazy_loads ? o.shape(core) : o.view(core));
    // A result goes to memory at once only when no operand lies there any more (`forwards`).
    const bool piecewise = store_ == nullptr;
    VectorProgram::Run run(program_, core, {to.data(), to.size()}, piecewise);
    for (int d = 0; d < program_.rank(); ++d) {
      for (const View& v : to) {
        if (!v.single[d]) {
          run.set_size(d, program_.sized_by_operands(d) ? std::min(run.sizes()[d], v.size[d]) : v.size[d]);
        } else if (run.sizes()[d] > 1) {
          fail(Fault::program, "result {} has size 1 along dimension {}, its value {}",
               core.run->kernel->buffers[v.buffer].name, d, run.sizes()[d]);
        }
      }
      for (const View& v : to)
        if (!v.single[d]) run.set_size(d, std::min(run.sizes()[d], v.size[d]));
    }
    run.start();
    if (run.empty()) return;
    host::MutableTile memory;
    if (store_ && forwards(run, core, to[0], memory)) {
      const auto anywhere = [](int64_t, int64_t, int64_t, int64_t) { return nullptr; };
      strips(run, anywhere, [&](int64_t r, int64_t nr, int64_t c, int64_t nc, const void*) {
        const void* lanes = run.lanes(0, Scratch::mine().get<float>(Scratch::outputs, nr * nc), nr, nc);
        host::MutableTile rows = memory;
        rows.data += r * memory.row_stride;
        host::pack(static_cast<const float*>(lanes), nc, nr, c, nc, rows);
      });
      core.forwarded = true;
      return;
    }
    if (keep_values_ && core.run->lazy_loads) {
      LazyTile& lazy = core.lazy[to[0].buffer];
      const bool all = run.rows() == to[0].rows() && run.cols() == to[0].last_size();
      if (float* rows = all ? room_for(lazy.rows, run.rows(), run.cols()) : nullptr)
        return keep(run, to[0], rows, lazy);
      if (lazy.pending) materialize(core, to[0].buffer);  // what this step leaves as it is
    }
    // Registers are of 32 bits: a result of such elements is computed where it goes.
    const Format lanes = run.value(0).type == Reg::f32 ? Format::f32 : Format::i32;
    const bool in_place = to.size() == 1 && run.value(0).type != Reg::pred && to[0].format == lanes;
    const auto place = [&](int64_t r, int64_t nr, int64_t c, int64_t nc) {
      const bool together = nr == 1 || follow_each_other(run, to[0], nc);
      return in_place && together ? box_row(run, to[0], r) + c * base::format_bytes(lanes) : nullptr;
    };
    strips(run, place, [&](int64_t r, int64_t nr, int64_t c, int64_t nc, const void* at) {
      if (at && run.value(0).data == at) return;
      for (size_t k = 0; k < to.size(); ++k) store(run, static_cast<int>(k), to[k], r, nr, c, nc);
    });
    if (core.run->checker)
      for (View v : to) {
        for (int d = 0; d < v.rank; ++d) v.size[d] = std::min(v.size[d], run.sizes()[d]);
        core.run->checker->write(core, v);
      }
  }

 private:
  static int box_rank(const program::Vector& op, const StepContext& context) {
    if (op.to.empty()) fail(Fault::program, "a vector step without results");
    return context.buffers.at(op.to[0].buffer).rank;
  }

  /// True when the result is DL16 codes, a whole buffer, that nobody looks at: values that are rounded to them will do.
  static bool values_are_enough(const program::Vector& op, const StepContext& context) {
    if (op.to.size() != 1 || op.value.size() != 1 || op.value[0].type != Reg::f32) return false;
    const program::BufRef& to = op.to[0];
    if (to.buffer < 0 || to.buffer >= static_cast<Id>(context.buffers.size())) return false;
    const BufferInfo& info = context.buffers[to.buffer];
    return context.numbers_only[to.buffer] && info.format == Format::dl16 && info.rank <= 2 && to.box.empty();
  }
  static void keep(VectorProgram::Run& run, const View& to, float* rows, LazyTile& lazy) {
    const int64_t stride = lazy.rows.stride;
    const auto place = [&](int64_t r, int64_t nr, int64_t c, int64_t nc) {
      return nr == 1 || (stride == nc && c == 0) ? rows + r * stride + c : nullptr;
    };
    strips(run, place, [&](int64_t r, int64_t nr, int64_t c, int64_t nc, const void* at) {
      if (at && run.value(0).data == at) return;
      const auto* lanes =
          static_cast<const float*>(run.lanes(0, Scratch::mine().get<float>(Scratch::outputs, nr * nc), nr, nc));
      for (int64_t i = 0; i < nr; ++i)
        std::memcpy(rows + (r + i) * stride + c, lanes + i * nc, static_cast<size_t>(nc) * 4);
    });
    lazy.map = nullptr;
    lazy.to = to;
    lazy.decoded = lazy.pending = true;
  }

  /// Strip by strip: place(r, nr, c, nc) says where its lanes may be computed (null: anywhere), done(..., place)
  /// follows.
  template <typename Place, typename Fn>
  static void strips(VectorProgram::Run& run, Place place, Fn done) {
    for (int64_t r = 0; r < run.rows(); r += run.strip_rows()) {
      const int64_t nr = std::min(run.strip_rows(), run.rows() - r);
      for (int64_t c = 0; c < run.cols(); c += run.strip_cols()) {
        const int64_t nc = std::min(run.strip_cols(), run.cols() - c);
        void* const at = place(r, nr, c, nc);
        run.strip(r, nr, c, nc, at);
        done(r, nr, c, nc, at);
      }
    }
  }

  bool forwards(const VectorProgram::Run& run, Core& core, const View& to, host::MutableTile& memory) const {
    // Operands that still lie in memory might be what the store overwrites.
    return core.run->lazy_loads && !run.reads_memory() && run.value(0).type == Reg::f32 && host::is_real(to.format) &&
           run.rows() == to.rows() && run.cols() == to.last_size() && store_->destination(core, memory);
  }

  static void store(const VectorProgram::Run& run, int k, const View& to, int64_t r, int64_t nr, int64_t c,
                    int64_t nc) {
    Scratch& scratch = Scratch::mine();
    const void* lanes = run.lanes(k, scratch.get<float>(Scratch::outputs, nr * nc), nr, nc);
    const Reg type = run.value(k).type;
    if (type == Reg::pred) {
      auto* flags = scratch.get<int32_t>(Scratch::misc, nr * nc);
      host::cast_mask_i32(flags, static_cast<const int32_t*>(lanes), static_cast<size_t>(nr * nc));
      lanes = flags;
    }
    const int64_t bytes = base::format_bytes(to.format);
    auto put = [&](int64_t first, std::byte* at, int64_t n, int64_t step = 1) {
      if (type == Reg::f32)
        store_f32(static_cast<const float*>(lanes) + first, at, to.format, step, n);
      else
        store_i32(static_cast<const int32_t*>(lanes) + first, at, to.format, step, n);
    };
    if (follow_each_other(run, to, nc)) return put(0, box_row(run, to, r), nr * nc);
    if (nc == 1 && to.rank == 2) return put(0, box_row(run, to, r) + c * bytes, nr, to.stride[0]);
    if (to.rank == 2 && type == Reg::f32 && host::is_real(to.format)) {
      host::MutableTile rows;
      rows.format = to.format;
      rows.data = box_row(run, to, r) + c * bytes;
      rows.row_stride = to.stride[0] * bytes;
      return host::pack(static_cast<const float*>(lanes), nc, nr, 0, nc, rows);
    }
    for (int64_t i = 0; i < nr; ++i) put(i * nc, box_row(run, to, r + i) + c * bytes, nc);
  }

  /// True when rows of nc columns of the result follow each other without gaps. The result may be smaller than its
  /// buffer: rows are counted in the box.
  static bool follow_each_other(const VectorProgram::Run& run, const View& to, int64_t nc) {
    int64_t packed = nc;
    bool dense = nc == run.cols();
    for (int d = to.rank - 2; d >= 0 && dense; --d) {
      if (run.sizes()[d] != 1) dense = to.stride[d] == packed;
      packed *= run.sizes()[d];
    }
    return dense;
  }

  static std::byte* box_row(const VectorProgram::Run& run, const View& to, int64_t row) {
    int64_t offset = 0;
    for (int d = to.rank - 2; d >= 0; --d) {
      offset += row % run.sizes()[d] * to.stride[d];
      row /= run.sizes()[d];
    }
    return to.data + offset * base::format_bytes(to.format);
  }

  bool keep_values_;
  VectorProgram program_;
  std::vector<Operand> to_;
  const StepExec* store_ = nullptr;
};

}  // namespace

std::unique_ptr<StepExec> make_vector(const program::Vector& op, const StepContext& context) {
  return std::make_unique<VectorExec>(op, context);
}

}  // namespace spyre::card
