// sfp.sort, sfp.merge, sfp.topk: stable, along the last dimension, NaN above every number as in PyTorch.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "card/checker.h"
#include "card/core.h"
#include "card/elements.h"

namespace spyre::card {

namespace {

/// A key and what travels with it. Keys of all formats become comparable as 64-bit integers.
struct Item {
  int64_t key;
  uint32_t bits;  ///< the element as it was
  int32_t index;
};

/// Order-preserving integer of a float; NaN of either sign is the largest. +-0 are equal.
int64_t order_of(float x) {
  if (std::isnan(x)) return int64_t{1} << 40;
  if (x == 0) return 0;
  int32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits >= 0 ? bits : -static_cast<int64_t>(bits & 0x7FFFFFFF);
}

class SortExec final : public StepExec {
 public:
  SortExec(const program::Sort& op, const StepContext& context)
      : op_(op), values_(op.values, context.buffers, context.vars), from_(op.from, context.buffers, context.vars) {
    if (op.indices.buffer != program::none) indices_ = Operand(op.indices, context.buffers, context.vars);
    if (op.from_indices.buffer != program::none)
      from_indices_ = Operand(op.from_indices, context.buffers, context.vars);
    if (values_.info().format != from_.info().format)
      fail(Fault::program, "a sort from {} to {}", base::format_name(from_.info().format),
           base::format_name(values_.info().format));
    for (const Operand* o : {&indices_, &from_indices_})
      if (o->present() && o->info().format != Format::i32)
        fail(Fault::program, "indices {} of a sort hold {}, not i32", o->info().source->name,
             base::format_name(o->info().format));
    for (const Operand* o : {&values_, &indices_, &from_, &from_indices_})
      if (o->present() && o->ref().transposed) fail(Fault::program, "a sort of a transposed buffer");
    if (op.kind == program::Sort::Kind::topk && !indices_.present()) fail(Fault::program, "sfp.topk without indices");
  }

  void run(Core& core) const override {
    const View values = values_.view(core), from = from_.view(core);
    View indices, from_indices;
    if (indices_.present()) indices = indices_.view(core);
    if (from_indices_.present()) from_indices = from_indices_.view(core);
    const bool topk = op_.kind == program::Sort::Kind::topk;
    const int64_t rows = std::min(values.rows(), from.rows()), n = from.last_size();
    const int64_t k = topk ? values.last_size() : n;
    if (rows == 0 || n == 0) return;
    if (!topk && values.last_size() < n) fail(Fault::program, "a sort of {} values into {}", n, values.last_size());
    if ((indices_.present() && (indices.rows() < rows || indices.last_size() < k)) ||
        (from_indices_.present() && (from_indices.rows() < rows || from_indices.last_size() < n)))
      fail(Fault::program, "indices of a sort are fewer than its values");
    if (Checker* checker = core.run->checker) {
      checker->read(core, from);
      if (from_indices_.present()) checker->read(core, from_indices);
      if (topk) checker->read(core, values), checker->read(core, indices);
    }
    std::vector<Item> items, empty;
    const bool descending = op_.descending;
    for (int64_t r = 0; r < rows; ++r) {
      items.clear();
      empty.clear();
      if (topk) {
        append(items, values.row(r), values.format, k, reinterpret_cast<const int32_t*>(indices.row(r)));
        // Places of the state that hold nothing yet (index below 0) come last.
        std::erase_if(items, [&](const Item& i) {
          if (i.index >= 0) return false;
          empty.push_back(i);
          return true;
        });
      }
      append(items, from.row(r), from.format, n,
             from_indices_.present() ? reinterpret_cast<const int32_t*>(from_indices.row(r)) : nullptr);
      if (descending)
        std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.key > b.key; });
      else
        std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.key < b.key; });
      items.insert(items.end(), empty.begin(), empty.end());
      std::byte* to = values.row(r);
      const int64_t bytes = base::format_bytes(values.format);
      for (int64_t i = 0; i < k; ++i) fill_elements(to + i * bytes, 1, items[i].bits, values.format);
      if (indices_.present()) {
        auto* ix = reinterpret_cast<int32_t*>(indices.row(r));
        for (int64_t i = 0; i < k; ++i) ix[i] = items[i].index;
      }
    }
    if (Checker* checker = core.run->checker) {
      View written = values;
      written.size[written.rank - 1] = k;
      checker->write(core, written);
      if (indices_.present()) {
        written = indices;
        written.size[written.rank - 1] = k;
        checker->write(core, written);
      }
    }
  }

 private:
  static void append(std::vector<Item>& items, const std::byte* row, Format format, int64_t n, const int32_t* indices) {
    const int64_t bytes = base::format_bytes(format);
    for (int64_t i = 0; i < n; ++i) {
      Item item;
      item.bits = bytes == 1   ? reinterpret_cast<const uint8_t*>(row)[i]
                  : bytes == 2 ? reinterpret_cast<const uint16_t*>(row)[i]
                               : reinterpret_cast<const uint32_t*>(row)[i];
      if (is_float(format)) {
        float f;
        load_f32(row + i * bytes, format, 1, &f, 1);
        item.key = order_of(f);
      } else if (format == Format::u32) {
        item.key = static_cast<int64_t>(item.bits);
      } else {
        int32_t x;
        load_i32(row + i * bytes, format, 1, &x, 1);
        item.key = x;
      }
      item.index = indices ? indices[i] : static_cast<int32_t>(i);
      items.push_back(item);
    }
  }

  const program::Sort& op_;
  Operand values_, indices_, from_, from_indices_;
};

}  // namespace

std::unique_ptr<StepExec> make_sort(const program::Sort& op, const StepContext& context) {
  return std::make_unique<SortExec>(op, context);
}

}  // namespace spyre::card
