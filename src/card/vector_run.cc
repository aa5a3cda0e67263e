// Runs of vector programs: registers, strips, operands.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "card/checker.h"
#include "card/elements.h"
#include "card/tile_in_memory.h"
#include "card/vector_program.h"
#include "program/vector_rules.h"

namespace spyre::card {

using program::Reg;
using program::VecOp;

namespace {
/// Rows at least this long make a strip of their own where several in one would need copies.
constexpr int64_t own_strip = 192;

/// One 32-bit value per row to all lanes of the row.
void spread(const void* values, void* to, int64_t rows, int64_t cols) {
  typedef int32_t Lanes __attribute__((vector_size(64)));
  constexpr int64_t width = sizeof(Lanes) / 4;
  const auto* v = static_cast<const int32_t*>(values);
  auto* t = static_cast<int32_t*>(to);
  for (int64_t r = 0; r < rows; ++r, t += cols) {
    const Lanes all = Lanes{} + v[r];
    int64_t i = 0;
    for (; i + width <= cols; i += width) std::memcpy(t + i, &all, sizeof all);
    for (; i < cols; ++i) t[i] = v[r];
  }
}
}  // namespace

VectorProgram::Run::Run(const VectorProgram& program, Core& core, std::span<const View> results, bool piecewise)
    : program_(program), core_(core) {
  for (int d = 0; d < program.rank_; ++d) sizes_[d] = program.sized_[d] ? INT64_MAX : 1;
  for (const Operand& o : program.operands_) {
    Source& s = sources_.emplace_back();
    s.view = o.shape(core);
    const Id buffer = o.buffer();
    if (core.run->lazy_loads && core.lazy[buffer].pending) {
      bool written = false;
      for (const View& r : results) written = written || r.buffer == buffer;
      LazyTile& lazy = core.lazy[buffer];
      const MadeInMemory* made = made_in_memory(lazy);
      const BoxInMemory box = box_of(s.view, core.buffers[buffer], o.info().row_elements);
      const auto read_rows = [&] {
        s.view.format = Format::f32;
        s.view.data = reinterpret_cast<std::byte*>(lazy.rows.at(box.row, box.column));
        if (s.view.rank == 2) s.view.stride[0] = lazy.rows.stride;
      };
      s.in_memory = !written && !o.ref().transposed && s.view.rank <= 2 && !o.single(s.view.rank - 1) &&
                    (program.rank_ <= 2 || s.view.rank == 1 || o.single(0)) &&  // rows of the box are rows of the tile
                    made && box_in_memory(*made, box, s.tile);
      // A whole tile that is decoded goes through the outer caches once more, which pays when it is read again.
      const bool once = piecewise && program.read_once_[sources_.size() - 1] && !lazy.reused && made && made->rows > 1;
      if (lazy.has_values() && !written && !o.ref().transposed) {
        read_rows();
      } else if (!s.in_memory) {
        materialize(core, buffer);
      } else if (!once && decode_rows(lazy, *made)) {
        s.in_memory = false;
        read_rows();
      }
    }
    const int shift = program.rank_ - s.view.rank;
    for (int d = 0; d < s.view.rank; ++d) {
      if (s.view.single[d]) continue;
      s.stride[d + shift] = s.view.stride[d];
      sizes_[d + shift] = std::min(sizes_[d + shift], s.view.size[d]);
    }
    const int last = program.rank_ - 1;
    s.unit = s.stride[last] == 1;
    for (const View& r : results) direct_ = direct_ && (results.size() == 1 || r.buffer != s.view.buffer);
  }
}

void VectorProgram::Run::start() {
  const int rank = program_.rank_;
  cols_ = sizes_[rank - 1];
  rows_ = 1;
  for (int d = 0; d + 1 < rank; ++d) rows_ *= sizes_[d];
  if (empty()) return;
  for (Source& s : sources_) {
    if (core_.run->checker) check_read(s);
    // Rows follow each other without gaps when every leading dimension's stride is what a packed box would have.
    int64_t packed = cols_;
    s.dense = s.unit || cols_ == 1;
    for (int d = rank - 2; d >= 0; --d) {
      if (sizes_[d] != 1 && s.stride[d] != packed) s.dense = false;
      packed *= sizes_[d];
    }
  }
  strip_cols_ = std::min(cols_, program_.strip_lanes_);
  strip_rows_ = std::max<int64_t>(1, program_.strip_lanes_ / cols_);
  if (cols_ >= own_strip && needs_rows()) strip_rows_ = 1;
  registers_ =
      Scratch::mine().get<std::byte>(Scratch::registers, (program_.registers_ + 1) * program_.register_bytes());
  const auto nodes = static_cast<int64_t>(program_.nodes_.size());
  data_ = Scratch::mine().get<const void*>(Scratch::values, 2 * nodes);
  spread_ = const_cast<void**>(data_ + nodes);
  std::fill_n(data_, 2 * nodes, nullptr);
  for (size_t i = 0; i < program_.nodes_.size(); ++i)
    if (program_.nodes_[i].cls == Class::once) execute(static_cast<int>(i), 1, 0, 1, 0, 1);
}

/// Several rows in a strip: values of rows are spread to lanes, and rows that don't follow each other are put together.
bool VectorProgram::Run::needs_rows() const {
  if (program_.spreads_) return true;
  return std::any_of(program_.nodes_.begin(), program_.nodes_.end(), [&](const Node& n) {
    if (n.kind != Kind::load || n.cls != Class::lane || n.repeats) return false;
    const Source& s = sources_[n.source];
    return !s.dense && !s.in_memory;
  });
}

void* VectorProgram::Run::reg(int number) const { return registers_ + number * program_.register_bytes(); }

const std::byte* VectorProgram::Run::at(const Source& s, int64_t row) const {
  int64_t offset = 0;
  for (int d = program_.rank_ - 2; d >= 0; --d) {
    if (d == 0) {
      offset += row * s.stride[0];
      break;
    }
    offset += row % sizes_[d] * s.stride[d];
    row /= sizes_[d];
  }
  return s.view.data + offset * base::format_bytes(s.view.format);
}

void VectorProgram::Run::strip(int64_t r, int64_t nr, int64_t c, int64_t nc, void* to) {
  result_ = to;
  const auto& nodes = program_.nodes_;
  const bool held = c == held_column_ && nc == held_cols_ && nr <= held_rows_;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].cls == Class::once || nodes[i].absorbed || (held && nodes[i].repeats)) continue;
    spread_[i] = nullptr;
    execute(static_cast<int>(i), nodes[i].cls == Class::row ? nr : nr * nc, r, nr, c, nc);
  }
  if (!held) held_column_ = c, held_cols_ = nc, held_rows_ = nr;
}

const void* VectorProgram::Run::argument(int node, Class consumer, int64_t nr, int64_t nc, host::Splat bit,
                                         host::Splat& splat) {
  const Node& n = program_.nodes_[node];
  if (n.cls == consumer) return data_[node];
  if (n.cls == Class::once || nr == 1) {
    splat |= bit;
    return data_[node];
  }
  if (!spread_[node]) {
    spread_[node] = reg(n.spread_reg);
    spread(data_[node], spread_[node], nr, nc);
  }
  return spread_[node];
}

void VectorProgram::Run::load(int node, int64_t r, int64_t nr, int64_t c, int64_t nc) {
  const Node& n = program_.nodes_[node];
  const Source& s = sources_[n.source];
  const Format f = s.view.format;
  const int64_t bytes = base::format_bytes(f);
  const int64_t step = s.stride[program_.rank_ - 1];
  const bool real = n.type == Reg::f32;
  const bool wide = bytes == 4 && real == (f == Format::f32);
  const bool per_row = n.cls != Class::lane;
  if (!per_row && !s.in_memory && direct_ && wide && (nr == 1 ? s.unit : s.dense)) {
    data_[node] = at(s, r) + c * 4;
    return;
  }
  void* to = reg(n.reg);
  data_[node] = to;
  const int64_t rows = n.repeats ? 1 : nr;
  const auto repeat = [&] {
    for (int64_t done = 1, more; n.repeats && done < nr; done += more) {
      more = std::min(done, nr - done);
      std::memcpy(static_cast<char*>(to) + done * nc * 4, to, static_cast<size_t>(more * nc) * 4);
    }
  };
  if (s.in_memory) {
    host::Tile tile = s.tile;
    if (s.stride[0] == 0) tile.row_stride = 0;  // one row for all
    tile.data += r * tile.row_stride;
    if (real)
      host::unpack(tile, rows, c, nc, static_cast<float*>(to), nc);
    else
      host::unpack(tile, rows, c, nc, static_cast<int32_t*>(to), nc);
    return repeat();
  }
  auto put = [&](const std::byte* from, int64_t stride, int64_t first, int64_t count) {
    if (real)
      load_f32(from, f, stride, static_cast<float*>(to) + first, count);
    else
      load_i32(from, f, stride, static_cast<int32_t*>(to) + first, count);
  };
  if (n.cls == Class::once) return put(s.view.data, 1, 0, 1);
  if (per_row) {
    if (wide && program_.rank_ == 2) {
      const std::byte* from = at(s, r);
      const int64_t stride = s.stride[0];
      for (int64_t i = 0; i < nr; ++i) std::memcpy(static_cast<char*>(to) + 4 * i, from + i * stride * 4, 4);
      return;
    }
    for (int64_t i = 0; i < nr; ++i) put(at(s, r + i), 1, i, 1);
    return;
  }
  if (rows > 1 && s.dense) return put(at(s, r), 1, 0, rows * nc);
  for (int64_t i = 0; i < rows; ++i) put(at(s, r + i) + c * step * bytes, step, i * nc, nc);
  repeat();
}

void VectorProgram::Run::iota(int node, int64_t r, int64_t nr, int64_t c, int64_t nc) {
  const Node& n = program_.nodes_[node];
  auto* to = static_cast<int32_t*>(reg(n.reg));
  data_[node] = to;
  if (n.cls == Class::lane) {
    for (int64_t i = 0; i < nr; ++i) host::iota(to + i * nc, static_cast<int32_t>(c), 1, static_cast<size_t>(nc));
    return;
  }
  int64_t inner = 1;
  for (int d = n.dim + 1; d + 1 < program_.rank_; ++d) inner *= sizes_[d];
  for (int64_t i = 0; i < nr; ++i) to[i] = static_cast<int32_t>((r + i) / inner % sizes_[n.dim]);
}

void VectorProgram::Run::run_chain(int number, float* to, int64_t nr, int64_t nc) {
  const Node& node = program_.nodes_[number];
  host::F32LinkArgs links[host::most_links];
  const auto count = static_cast<int>(node.links.size());
  // One long row unless some numbers change from row to row; those of short or odd rows are spread to get one.
  bool by_row = nr > 1 && nc >= 32 && (nc % 16 == 0 || nc >= 128);
  if (by_row)
    by_row = std::any_of(node.links.begin(), node.links.end(),
                         [&](const Link& l) { return l.with >= 0 && program_.nodes_[l.with].cls == Class::row; });
  const int64_t rows = by_row ? nr : 1, cols = by_row ? nc : nr * nc;
  for (int i = 0; i < count; ++i) {
    const Link& l = node.links[i];
    links[i].op = l.op;
    links[i].slot = l.slot;
    if (l.with < 0) continue;
    const Class cls = program_.nodes_[l.with].cls;
    host::Splat one = host::splat_none;
    const bool as_rows = by_row && cls == Class::row;
    const void* with = as_rows ? data_[l.with] : argument(l.with, Class::lane, nr, nc, host::splat_first, one);
    links[i].with = static_cast<const float*>(with);
    if (as_rows || one)
      links[i].op = host::of_row(l.op), links[i].row_stride = as_rows ? 1 : 0;
    else
      links[i].row_stride = cols;
  }
  host::f32_chain(to, static_cast<const float*>(data_[node.args[0]]), rows, static_cast<size_t>(cols), links, count);
}

void VectorProgram::Run::execute(int node, int64_t lanes, int64_t r, int64_t nr, int64_t c, int64_t nc) {
  const Node& x = program_.nodes_[node];
  const auto n = static_cast<size_t>(lanes);
  if (x.kind == Kind::load) return load(node, r, nr, c, nc);
  if (x.kind == Kind::iota) return iota(node, r, nr, c, nc);
  void* to = result_ && node == program_.roots_[0] && x.cls == Class::lane ? result_ : reg(x.reg);
  auto* f = static_cast<float*>(to);
  auto* i = static_cast<int32_t*>(to);
  if (x.kind == Kind::chain) {
    run_chain(node, f, nr, nc);
    data_[node] = to;
    return;
  }
  host::Splat splat = host::splat_none;
  const void* a = x.count > 0 ? argument(x.args[0], x.cls, nr, nc, host::splat_first, splat) : nullptr;
  const void* b = x.count > 1 ? argument(x.args[1], x.cls, nr, nc, host::splat_second, splat) : nullptr;
  const void* d = x.count > 2 ? argument(x.args[2], x.cls, nr, nc, host::splat_third, splat) : nullptr;
  auto fl = [](const void* p) { return static_cast<const float*>(p); };
  auto in = [](const void* p) { return static_cast<const int32_t*>(p); };
  host::I32Status status = host::i32_exact;
  switch (x.kind) {
    case Kind::constant:
      if (x.type == Reg::f32)
        *f =
            static_cast<float>(x.expr->op == VecOp::constant_f ? x.expr->number : static_cast<double>(x.expr->integer));
      else
        *i = static_cast<int32_t>(x.expr->integer);
      break;
    case Kind::integer:
      *i = static_cast<int32_t>(x.value(core_.v()));
      break;
    case Kind::scalar:
      if (x.type == Reg::f32)
        *f = core_.run->float_scalars[x.expr->id];
      else
        *i = static_cast<int32_t>(core_.v()[core_.run->vars.scalar(x.expr->id)]);
      break;
    case Kind::f1:
      host::f32_unary(static_cast<host::F32Unary>(x.op))(f, fl(a), n);
      break;
    case Kind::f2:
      host::f32_binary(static_cast<host::F32Binary>(x.op))(f, fl(a), fl(b), n, splat);
      break;
    case Kind::fcmp:
      host::f32_compare(static_cast<host::Comparison>(x.op))(i, fl(a), fl(b), n, splat);
      break;
    case Kind::icmp:
      host::i32_compare(static_cast<host::Comparison>(x.op))(i, in(a), in(b), n, splat);
      break;
    case Kind::fma:
      host::f32_fma(f, fl(a), fl(b), fl(d), n, splat);
      break;
    case Kind::is_nan:
      host::f32_is_nan(i, fl(a), n);
      break;
    case Kind::i1:
      status = host::i32_unary(static_cast<host::I32Unary>(x.op))(i, in(a), n);
      break;
    case Kind::i2:
      status = host::i32_binary(static_cast<host::I32Binary>(x.op))(i, in(a), in(b), n, splat);
      break;
    case Kind::select:
      host::select(to, in(a), b, d, n, splat);
      break;
    case Kind::cast_fi:
      status = host::cast_f32_i32(i, fl(a), n);
      break;
    case Kind::cast_if:
      host::cast_i32_f32(f, in(a), n);
      break;
    case Kind::cast_mf:
      host::cast_mask_f32(f, in(a), n);
      break;
    case Kind::cast_mi:
      host::cast_mask_i32(i, in(a), n);
      break;
    case Kind::philox:
      host::philox(i, in(a), in(b), in(d), static_cast<int>(x.expr->integer), n, splat);
      break;
    default:
      break;
  }
  if (x.expr->trap && status != host::i32_exact) {
    if (status & host::i32_zero_division) fail(Fault::user, "integer division by zero");
    fail(Fault::user, "an integer result of `{}` is outside int32, in which this device holds int64 values",
         x.kind == Kind::cast_fi ? "cast" : program::rule_of(x.expr->op).name);
  }
  data_[node] = to;
}

bool VectorProgram::Run::reads_memory() const {
  return std::any_of(sources_.begin(), sources_.end(), [](const Source& s) { return s.in_memory; });
}

VectorProgram::Value VectorProgram::Run::value(int root) const {
  const int node = program_.roots_[root];
  return {data_[node], program_.nodes_[node].cls, program_.nodes_[node].type};
}

const void* VectorProgram::Run::lanes(int root, void* to, int64_t nr, int64_t nc) const {
  const Value v = value(root);
  if (v.cls == Class::lane || (v.cls == Class::row && nc == 1)) return v.data;
  if (v.cls == Class::row)
    spread(v.data, to, nr, nc);
  else
    spread(v.data, to, 1, nr * nc);
  return to;
}

void VectorProgram::Run::check_read(const Source& s) const {
  View v = s.view;
  const int shift = program_.rank_ - v.rank;
  for (int d = 0; d < v.rank; ++d)
    if (!v.single[d]) v.size[d] = std::min(v.size[d], sizes_[d + shift]);
  core_.run->checker->read(core_, v);
}

}  // namespace spyre::card
