// pt and sfp.mm: products of tiles, accumulated in LX.
#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "card/checker.h"
#include "card/core.h"
#include "card/decoded_tiles.h"
#include "card/elements.h"
#include "card/host_kernels.h"
#include "card/tile_in_memory.h"

namespace spyre::card {

namespace {

/// A matrix operand: where its sticks lie, in LX or still in device memory.
struct Matrix {
  host::Tile tile;
  int64_t rows = 0, cols = 0;      ///< as the tile lies, before transposition
  const LazyTile* lazy = nullptr;  ///< set when it lies in device memory
  BoxInMemory box;                 ///< of the lazy tile
};

/// The last two dimensions of a view without its transposition; leading ones must be 1.
void matrix_dims(const View& v, int64_t& rows, int64_t& cols, int64_t& row_stride, const BufferInfo& info) {
  for (int d = 0; d + 2 < v.rank; ++d)
    if (v.size[d] != 1) fail(Fault::program, "matrix operand {} has more than two dimensions", info.source->name);
  cols = v.size[v.rank - 1];
  rows = v.rank > 1 ? v.size[v.rank - 2] : 1;
  row_stride = v.rank > 1 ? v.stride[v.rank - 2] : info.row_elements;
}

Matrix matrix(const Operand& operand, Core& core) {
  Matrix m;
  m.tile.format = operand.info().format;
  View v = operand.shape(core);
  if (operand.ref().transposed) {
    std::swap(v.size[v.rank - 1], v.size[v.rank - 2]);
    std::swap(v.stride[v.rank - 1], v.stride[v.rank - 2]);
  }
  int64_t stride = 0;
  matrix_dims(v, m.rows, m.cols, stride, operand.info());
  if (core.run->lazy_loads && core.lazy[operand.buffer()].pending) {
    LazyTile& lazy = core.lazy[operand.buffer()];
    m.box = box_of(v, core.buffers[operand.buffer()], operand.info().row_elements);
    if (lazy.has_values() && !operand.ref().transposed) {
      m.tile.format = Format::f32;
      m.tile.data = reinterpret_cast<const std::byte*>(lazy.rows.at(m.box.row, m.box.column));
      m.tile.row_stride = lazy.rows.stride * 4;
      return m;
    }
    const MadeInMemory* made = made_in_memory(lazy);
    if (made && box_in_memory(*made, m.box, m.tile)) {
      m.lazy = &lazy;
      return m;
    }
    materialize(core, operand.buffer());
  }
  m.tile.data = v.data;
  m.tile.row_stride = stride * base::format_bytes(v.format);
  return m;
}

class MatMulExec final : public StepExec {
 public:
  MatMulExec(const program::MatMul& op, const StepContext& context)
      : acc_(op.acc, context.buffers, context.vars),
        a_(op.a, context.buffers, context.vars),
        b_(op.b, context.buffers, context.vars),
        accumulate_(op.accumulate) {
    for (Id r : op.init) init_.push_back(context.vars.trip(r));
    const Format f = acc_.info().format;
    integer_ = f == Format::i32;
    if (f != Format::f32 && f != Format::i32)
      fail(Fault::program, "accumulator {} holds {}; a matmul accumulates in f32 or i32", acc_.info().source->name,
           base::format_name(f));
    if (op.acc.transposed) fail(Fault::program, "a matmul into a transposed accumulator");
    for (const Operand* o : {&a_, &b_})
      if (is_float(o->info().format) == integer_)
        fail(Fault::program, "matmul of {} ({}) accumulates in {}", o->info().source->name,
             base::format_name(o->info().format), base::format_name(f));
  }

  void run(Core& core) const override {
    bool accumulate = accumulate_;
    if (!init_.empty()) {
      bool first = true;
      for (int32_t trip : init_) first = first && core.v()[trip] == 0;
      if (first) accumulate = false;
    }
    const View acc = acc_.view(core);
    int64_t m = 0, n = 0, ldc = 0;
    matrix_dims(acc, m, n, ldc, acc_.info());
    const Matrix a = matrix(a_, core), b = matrix(b_, core);
    const bool at = a_.ref().transposed, bt = b_.ref().transposed;
    m = std::min(m, at ? a.cols : a.rows);
    n = std::min(n, bt ? b.rows : b.cols);
    const int64_t k = std::min(at ? a.rows : a.cols, bt ? b.cols : b.rows);
    if (m <= 0 || n <= 0 || k <= 0) return;
    if (Checker* checker = core.run->checker) {
      checker->read_matrix(core, a_.view(core), m, k);
      checker->read_matrix(core, b_.view(core), k, n);
      if (accumulate) checker->read_matrix(core, acc, m, n);
    }
    if (integer_)
      integer(a, b, at, bt, m, n, k, acc, ldc, accumulate);
    else
      real(core, a, b, at, bt, m, n, k, acc, ldc, accumulate);
    if (core.run->checker) core.run->checker->write_matrix(core, acc, m, n);
  }

 private:
  static void integer(const Matrix& a, const Matrix& b, bool at, bool bt, int64_t m, int64_t n, int64_t k,
                      const View& acc, int64_t ldc, bool accumulate) {
    Scratch& scratch = Scratch::mine();
    int32_t* rows = scratch.get<int32_t>(Scratch::left, m * k);
    if (at) {
      int32_t* lying = scratch.get<int32_t>(Scratch::misc, m * k);
      host::unpack(a.tile, k, 0, m, lying, m);
      host::transpose(4, lying, m * 4, rows, k * 4, k, m);
    } else {
      host::unpack(a.tile, m, 0, k, rows, k);
    }
    int32_t* panels = scratch.get<int32_t>(Scratch::right, static_cast<int64_t>(host::panel_elements(k, n)));
    host::pack_b(b.tile, bt, k, 0, n, panels);
    host::MatmulI32Args args;
    args.m = m, args.n = n, args.k = k;
    args.a = rows, args.lda = k, args.panels = panels;
    args.c = reinterpret_cast<int32_t*>(acc.data), args.ldc = ldc, args.accumulate = accumulate;
    host::matmul(args);
  }

  void real(Core& core, const Matrix& a, const Matrix& b, bool at, bool bt, int64_t m, int64_t n, int64_t k,
            const View& acc, int64_t ldc, bool accumulate) const {
    DecodedTiles& decoded = DecodedTiles::mine();
    const auto key = [](const Matrix& x, bool transposed, int64_t rows, int64_t cols) {
      return DecodedTiles::Key{x.lazy->formal, transposed, rows, cols, x.box.row, x.box.column, x.lazy->box};
    };
    const float* rows = nullptr;
    int64_t lda = 0;
    if (a.tile.format == Format::f32 && !at && !a.lazy) {
      rows = reinterpret_cast<const float*>(a.tile.data);
      lda = a.tile.row_stride / 4;
    } else if (a.lazy && a.lazy->reused && m > 1) {
      rows = decoded.get(core.run->call, DecodedTiles::rows, key(a, at, m, k), m * k,
                         [&](float* to) { host::pack_a(a.tile, at, m, k, to); });
    } else {
      float* to = Scratch::mine().get<float>(Scratch::left, m * k);
      host::pack_a(a.tile, at, m, k, to);
      rows = to;
    }
    float* c = reinterpret_cast<float*>(acc.data);
    if (b.lazy && b.lazy->reused && m > 1) {
      host::MatmulArgs args;
      args.m = m, args.n = n, args.k = k;
      args.a = rows, args.lda = lda;
      args.panels = decoded.get(core.run->call, DecodedTiles::panels, key(b, bt, k, n),
                                static_cast<int64_t>(host::panel_elements(k, n)),
                                [&](float* to) { host::pack_b(b.tile, bt, k, 0, n, to); });
      args.c = c, args.ldc = ldc, args.accumulate = accumulate;
      host::matmul(args);
    } else {
      host::matmul(m, n, k, rows, lda, b.tile, bt, c, ldc, accumulate);
    }
  }

  Operand acc_, a_, b_;
  bool accumulate_, integer_ = false;
  std::vector<int32_t> init_;  // variables that hold the loops' trips
};

}  // namespace

std::unique_ptr<StepExec> make_matmul(const program::MatMul& op, const StepContext& context) {
  return std::make_unique<MatMulExec>(op, context);
}

}  // namespace spyre::card
