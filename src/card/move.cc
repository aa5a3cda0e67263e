// mv: LX to LX, transposing and changing format.
#include <cstring>

#include "base/error.h"
#include "card/checker.h"
#include "card/core.h"
#include "card/elements.h"
#include "card/host_kernels.h"

namespace spyre::card {

namespace {

class MoveExec final : public StepExec {
 public:
  MoveExec(const program::Move& op, const StepContext& context)
      : to_(op.to, context.buffers, context.vars), from_(op.from, context.buffers, context.vars) {
    if (op.to.transposed) fail(Fault::program, "mv into a transposed buffer");
  }

  void run(Core& core) const override {
    View to = to_.view(core), from = from_.view(core);
    // Leading dimensions that only one side has must be 1.
    align(to, from);
    for (int d = 0; d < to.rank; ++d) {
      if (from.single[d] != to.single[d] && from.size[d] != to.size[d] && from.size[d] > to.size[d])
        fail(Fault::program, "mv of {} positions along dimension {} into {}", from.size[d], d, to.size[d]);
      to.size[d] = from.size[d] = std::min(to.size[d], from.size[d]);
    }
    if (to.numel() == 0) return;
    if (core.run->checker) core.run->checker->read(core, from);
    const int64_t rows = to.rows(), n = to.last_size(), step = from.stride[from.rank - 1];
    const int64_t bytes = base::format_bytes(from.format);
    if (from.format == to.format && step != 1 && to.rank >= 2 && from.stride[from.rank - 2] == 1 && bytes <= 4) {
      const int64_t m = to.size[to.rank - 2];
      for (int64_t r = 0; r < rows; r += m)
        host::transpose(static_cast<int>(bytes), from.row(r), step * bytes, to.row(r), to.stride[to.rank - 2] * bytes,
                        n, m);
    } else if (from.format == to.format) {
      for (int64_t r = 0; r < rows; ++r) copy(from.row(r), step, to.row(r), n, bytes);
    } else {
      auto* lanes = Scratch::mine().get<float>(Scratch::left, n);
      for (int64_t r = 0; r < rows; ++r) {
        if (is_float(from.format)) {
          load_f32(from.row(r), from.format, step, lanes, n);
          store_f32(lanes, to.row(r), to.format, 1, n);
        } else {
          load_i32(from.row(r), from.format, step, reinterpret_cast<int32_t*>(lanes), n);
          store_i32(reinterpret_cast<int32_t*>(lanes), to.row(r), to.format, 1, n);
        }
      }
    }
    if (core.run->checker) core.run->checker->write(core, to);
  }

 private:
  static void align(View& a, View& b) {
    View& shorter = a.rank < b.rank ? a : b;
    const View& longer = a.rank < b.rank ? b : a;
    const int shift = longer.rank - shorter.rank;
    if (shift == 0) return;
    for (int d = longer.rank - 1; d >= 0; --d) {
      shorter.size[d] = d >= shift ? shorter.size[d - shift] : 1;
      shorter.stride[d] = d >= shift ? shorter.stride[d - shift] : 0;
      shorter.single[d] = d >= shift ? shorter.single[d - shift] : true;
    }
    shorter.rank = longer.rank;
  }
  static void copy(const std::byte* from, int64_t step, std::byte* to, int64_t n, int64_t bytes) {
    if (step == 1) {
      std::memcpy(to, from, static_cast<size_t>(n * bytes));
      return;
    }
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * bytes, from + i * step * bytes, static_cast<size_t>(bytes));
  }

  Operand to_, from_;
};

}  // namespace

std::unique_ptr<StepExec> make_move(const program::Move& op, const StepContext& context) {
  return std::make_unique<MoveExec>(op, context);
}

}  // namespace spyre::card
