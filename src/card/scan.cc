// sfp.scan: inclusive scans along the last dimension, with a carry per row.
#include "base/error.h"
#include "card/checker.h"
#include "card/elements.h"
#include "card/vector_program.h"
#include "program/vector_rules.h"

namespace spyre::card {

namespace {

using program::Monoid;
using program::Reg;

class ScanExec final : public StepExec {
 public:
  ScanExec(const program::Scan& op, const StepContext& context)
      : op_(op),
        to_(op.to, context.buffers, context.vars),
        value_({&op.value}, context.buffers.at(op.to.buffer).rank, context) {
    if (op.to.transposed) fail(Fault::program, "a scan into a transposed buffer");
    if (op.carry.buffer != program::none) carry_ = Operand(op.carry, context.buffers, context.vars);
    if (op.value.type == Reg::pred) fail(Fault::program, "a scan of predicates");
    real_ = op.value.type == Reg::f32;
    switch (op.monoid) {
      case Monoid::sum:
        kind_ = host::ScanOp::sum;
        break;
      case Monoid::prod:
        kind_ = host::ScanOp::prod;
        break;
      case Monoid::max:
        kind_ = host::ScanOp::max;
        break;
      case Monoid::min:
        kind_ = host::ScanOp::min;
        break;
      default:
        fail(Fault::program, "sfp.scan of {}", program::monoid_name(op.monoid));
    }
  }

  void run(Core& core) const override {
    const View to = to_.view(core);
    View carry;
    if (carry_.present()) carry = carry_.view(core);
    VectorProgram::Run value(value_, core, {&to, 1});
    for (int d = 0; d < value_.rank(); ++d)
      if (!to.single[d])
        value.set_size(d, value_.sized_by_operands(d) ? std::min(value.sizes()[d], to.size[d]) : to.size[d]);
      else if (value.sizes()[d] > 1)
        fail(Fault::program, "result {} of a scan has size 1 along dimension {}, the value {}", to_.info().source->name,
             d, value.sizes()[d]);
    if (core.run->checker && carry_.present()) core.run->checker->read(core, carry);
    value.start();
    if (value.empty()) return;
    if (carry_.present() && carry.rows() * carry.last_size() < value.rows())
      fail(Fault::program, "carry {} of a scan has {} values for {} rows", carry_.info().source->name,
           carry.rows() * carry.last_size(), value.rows());
    Scratch& scratch = Scratch::mine();
    auto* out = scratch.get<float>(Scratch::rows, value.cols());
    auto* spread = scratch.get<float>(Scratch::outputs, value.strip_cols());
    const int64_t bytes = base::format_bytes(to.format);
    for (int64_t r = 0; r < value.rows(); ++r) {
      // A carry holds one value per row, as a column or in one row.
      std::byte* at = nullptr;
      if (carry_.present())
        at = carry.last_size() == 1
                 ? carry.row(r)
                 : carry.row(r / carry.last_size()) + r % carry.last_size() * base::format_bytes(carry.format);
      float f = 0;
      int32_t i = 0;
      if (at && real_) load_f32(at, carry.format, 1, &f, 1);
      if (at && !real_) load_i32(at, carry.format, 1, &i, 1);
      if (!at) neutral(f, i);
      for (int64_t c = 0; c < value.cols(); c += value.strip_cols()) {
        const int64_t nc = std::min(value.strip_cols(), value.cols() - c);
        value.strip(r, 1, c, nc);
        const void* lanes = value.lanes(0, spread, 1, nc);
        if (real_) {
          host::f32_scan(kind_, out, static_cast<const float*>(lanes), f, static_cast<size_t>(nc));
          store_f32(out, row_of(value, to, r) + c * bytes, to.format, 1, nc);
        } else {
          auto* o = reinterpret_cast<int32_t*>(out);
          const auto status = host::i32_scan(kind_, o, static_cast<const int32_t*>(lanes), i, static_cast<size_t>(nc));
          if (op_.trap && status != host::i32_exact)
            fail(Fault::user, "an integer running {} is outside int32, in which this device holds int64 values",
                 program::monoid_name(op_.monoid));
          store_i32(o, row_of(value, to, r) + c * bytes, to.format, 1, nc);
        }
      }
      if (at && real_) store_f32(&f, at, carry.format, 1, 1);
      if (at && !real_) store_i32(&i, at, carry.format, 1, 1);
    }
    if (core.run->checker) {
      View written = to;
      for (int d = 0; d < to.rank; ++d) written.size[d] = value.sizes()[d];
      core.run->checker->write(core, written);
    }
  }

 private:
  void neutral(float& f, int32_t& i) const {
    constexpr float inf = __builtin_inff();
    switch (op_.monoid) {
      case Monoid::prod:
        f = 1, i = 1;
        break;
      case Monoid::max:
        f = -inf, i = INT32_MIN;
        break;
      case Monoid::min:
        f = inf, i = INT32_MAX;
        break;
      default:
        break;
    }
  }
  static std::byte* row_of(const VectorProgram::Run& run, const View& to, int64_t row) {
    int64_t offset = 0;
    for (int d = to.rank - 2; d >= 0; --d) {
      offset += row % run.sizes()[d] * to.stride[d];
      row /= run.sizes()[d];
    }
    return to.data + offset * base::format_bytes(to.format);
  }

  const program::Scan& op_;
  Operand to_, carry_;
  VectorProgram value_;
  host::ScanOp kind_ = host::ScanOp::sum;
  bool real_ = true;
};

}  // namespace

std::unique_ptr<StepExec> make_scan(const program::Scan& op, const StepContext& context) {
  return std::make_unique<ScanExec>(op, context);
}

}  // namespace spyre::card
