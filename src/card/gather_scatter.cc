// sfp.gather, sfp.scatter: rows of a table in LX by index, in ascending order.
#include <cstring>

#include "base/error.h"
#include "card/checker.h"
#include "card/core.h"
#include "card/elements.h"
#include "card/host_kernels.h"

namespace spyre::card {

namespace {

class GatherScatterExec final : public StepExec {
 public:
  GatherScatterExec(const program::GatherScatter& op, const StepContext& context)
      : op_(op),
        table_(op.table, context.buffers, context.vars),
        index_(op.index, context.buffers, context.vars),
        data_(op.data, context.buffers, context.vars),
        lo_(op.lo, context.vars),
        hi_(op.hi, context.vars) {
    if (index_.info().format != Format::i32)
      fail(Fault::program, "index buffer {} holds {}, not i32", index_.info().source->name,
           base::format_name(index_.info().format));
    for (const Operand* o : {&table_, &index_, &data_})
      if (o->ref().transposed) fail(Fault::program, "a gather or scatter of a transposed buffer");
    if (is_float(table_.info().format) != is_float(data_.info().format))
      fail(Fault::program, "a gather or scatter between {} and {}", base::format_name(table_.info().format),
           base::format_name(data_.info().format));
  }

  void run(Core& core) const override {
    const View table = table_.view(core), index = index_.view(core), data = data_.view(core);
    const int64_t n = index.numel(), lo = lo_(core.v()), hi = hi_(core.v());
    if (n == 0 || data.numel() == 0) return;
    // A row: all but the first dimension of the table, all but the index's places of the data.
    const Rows t = rows_of(table, table.size[0]), d = rows_of(data, std::min(n, data.size[0]));
    const int64_t count = std::min(n, d.count), width = std::min(t.width, d.width), lines = std::min(t.lines, d.lines);
    Checker* checker = core.run->checker;
    if (checker) {
      checker->read(core, index);
      if (op_.scatter) checker->read(core, data);
    }
    const int64_t per = index.last_size();
    for (int64_t p = 0; p < count; ++p) {
      const int64_t value = reinterpret_cast<const int32_t*>(index.row(p / per))[p % per];
      if (value < lo || value >= hi) {
        if (op_.outside == program::OnOutside::trap)
          fail(Fault::user, "index {} at position {} is out of range [{}, {})", value, p, lo, hi);
        if (op_.outside == program::OnOutside::fill && !op_.scatter)
          for (int64_t l = 0; l < lines; ++l) fill_elements(line(data, d, p, l), width, 0, data.format);
        continue;
      }
      const int64_t row = value - lo;
      if (row >= t.count)
        fail(Fault::program, "index {} is inside [{}, {}) but the table {} has {} rows", value, lo, hi,
             table_.info().source->name, t.count);
      for (int64_t l = 0; l < lines; ++l) {
        std::byte* in_table = line(table, t, row, l);
        std::byte* in_data = line(data, d, p, l);
        if (op_.scatter)
          move(in_data, data.format, in_table, table.format, width, op_.accumulate);
        else
          move(in_table, table.format, in_data, data.format, width, false);
      }
      if (checker) {
        View one = table;
        one.data = line(table, t, row, 0);
        one.size[0] = 1;
        if (table.rank == 1) one.size[0] = 1;
        if (!op_.scatter || op_.accumulate) checker->read(core, one);
        if (op_.scatter) checker->write(core, one);
      }
    }
    if (checker && !op_.scatter) checker->write(core, data);
  }

 private:
  struct Rows {
    int64_t count = 0, lines = 1, width = 1;  ///< rows; lines a row; elements a line
    bool flat = false;                        ///< a row is one element
  };
  static Rows rows_of(const View& v, int64_t count) {
    Rows r;
    r.count = count;
    if (v.rank == 1) {
      r.flat = true;
      return r;
    }
    r.width = v.last_size();
    r.lines = v.rows() / v.size[0];
    return r;
  }
  static std::byte* line(const View& v, const Rows& r, int64_t row, int64_t l) {
    if (r.flat) return v.data + row * base::format_bytes(v.format);
    return v.row(row * r.lines + l);
  }
  static void move(const std::byte* from, Format from_format, std::byte* to, Format to_format, int64_t n, bool add) {
    if (!add && from_format == to_format) {
      std::memcpy(to, from, static_cast<size_t>(n * base::format_bytes(to_format)));
      return;
    }
    Scratch& scratch = Scratch::mine();
    const auto count = static_cast<size_t>(n);
    if (is_float(to_format)) {
      auto* x = scratch.get<float>(Scratch::left, n);
      load_f32(from, from_format, 1, x, n);
      if (add) {
        auto* y = scratch.get<float>(Scratch::right, n);
        load_f32(to, to_format, 1, y, n);
        host::f32_binary(host::F32Binary::add)(x, y, x, count, host::splat_none);
      }
      store_f32(x, to, to_format, 1, n);
      return;
    }
    auto* x = scratch.get<int32_t>(Scratch::left, n);
    load_i32(from, from_format, 1, x, n);
    if (add) {
      auto* y = scratch.get<int32_t>(Scratch::right, n);
      load_i32(to, to_format, 1, y, n);
      host::i32_binary(host::I32Binary::add)(x, y, x, count, host::splat_none);
    }
    store_i32(x, to, to_format, 1, n);
  }

  const program::GatherScatter& op_;
  Operand table_, index_, data_;
  Expr lo_, hi_;
};

}  // namespace

std::unique_ptr<StepExec> make_gather_scatter(const program::GatherScatter& op, const StepContext& context) {
  return std::make_unique<GatherScatterExec>(op, context);
}

}  // namespace spyre::card
