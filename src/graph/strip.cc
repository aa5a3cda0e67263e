// Walking spaces, reading and storing strips, and the small programs that expressions become.
#include "graph/strip.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/walk.h"

namespace spyre::graph {

using base::Format;

double rounding_unit(Format format) {
  switch (format) {
    case Format::dl16:
      return 0x1p-10;
    case Format::f16:
      return 0x1p-11;
    case Format::f32:
      return f32_unit;
    case Format::e4m3:
      return 0x1p-4;
    case Format::e5m2:
      return 0x1p-3;
    default:
      return 1;
  }
}

void Run::fail_here(const std::string& what) const { throw Error(Fault::user, describe(graph, node) + ": " + what); }

int64_t storage_elements(const Value& value) {
  const std::vector<int64_t> sizes = numbers(value.sizes), strides = numbers(value.strides);
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

Walk::Walk(std::span<const Size> sizes, std::span<const int64_t> strides, int64_t offset) : offset_(offset) {
  const std::vector<int64_t> all = numbers(sizes);
  for (size_t d = 0; d < all.size(); ++d) {
    points_ *= all[d];
    if (all[d] == 1) continue;
    if (!sizes_.empty() && strides_.back() == strides[d] * all[d]) {
      sizes_.back() *= all[d];
      strides_.back() = strides[d];
    } else {
      sizes_.push_back(all[d]);
      strides_.push_back(strides[d]);
    }
  }
}

Walk Walk::of(const Ref& ref) { return Walk(ref.sizes, numbers(ref.strides), number(ref.offset)); }

void Walk::places(int64_t first, int64_t n, int64_t* out) const {
  const size_t rank = sizes_.size();
  if (rank == 0) {
    std::fill_n(out, n, offset_);
    return;
  }
  int64_t index[64];
  int64_t place = offset_, rest = first;
  for (size_t d = rank; d-- > 0;) {
    index[d] = rest % sizes_[d];
    rest /= sizes_[d];
    place += index[d] * strides_[d];
  }
  const int64_t last = sizes_[rank - 1], step = strides_[rank - 1];
  while (n > 0) {
    const int64_t run = std::min(n, last - index[rank - 1]);
    for (int64_t i = 0; i < run; ++i) out[i] = place + i * step;
    out += run;
    n -= run;
    if (n == 0) return;
    place -= index[rank - 1] * step;
    index[rank - 1] = 0;
    for (size_t d = rank - 1; d-- > 0;) {
      place += strides_[d];
      if (++index[d] < sizes_[d]) break;
      place -= strides_[d] * sizes_[d];
      index[d] = 0;
    }
  }
}

void round_values(double* v, int64_t n, HostType type, const Numerics& numerics, bool arithmetic) {
  const Format format = base::device_format(type);
  const auto each = [&](auto fn) {
    for (int64_t i = 0; i < n; ++i) v[i] = fn(v[i]);
  };
  switch (type) {
    case HostType::b8:
      each([](double x) { return x != 0 ? 1.0 : 0.0; });
      return;
    case HostType::u8:
      each([](double x) { return double(static_cast<uint8_t>(static_cast<int64_t>(x))); });
      return;
    case HostType::i8:
      each([](double x) { return double(static_cast<int8_t>(static_cast<int64_t>(x))); });
      return;
    case HostType::i16:
      each([](double x) { return double(static_cast<int16_t>(static_cast<int64_t>(x))); });
      return;
    case HostType::i32:
    case HostType::i64:
      return;
    default:
      break;
  }
  if (!numerics.round_to_device) return;
  float values[strip_points];
  uint16_t codes[strip_points];
  const auto overflow = arithmetic ? base::Overflow::infinity : base::Overflow::saturate;
  for (int64_t first = 0; first < n; first += strip_points) {
    const int64_t m = std::min(strip_points, n - first);
    double* x = v + first;
    for (int64_t i = 0; i < m; ++i) values[i] = static_cast<float>(x[i]);
    if (format == Format::dl16) {
      base::f32_to_dl16(values, codes, static_cast<size_t>(m), overflow);
      base::dl16_to_f32(codes, values, static_cast<size_t>(m));
    }
    for (int64_t i = 0; i < m; ++i) {
      switch (format) {
        case Format::f16:
          values[i] = base::f16_to_f32(base::f32_to_f16(values[i]));
          break;
        case Format::e4m3:
          values[i] = base::e4m3_to_f32(base::f32_to_e4m3(values[i]));
          break;
        case Format::e5m2:
          values[i] = base::e5m2_to_f32(base::f32_to_e5m2(values[i]));
          break;
        default:
          break;
      }
      x[i] = values[i];
    }
  }
}

void round_lanes(Lanes& lanes, int64_t n, HostType type, const Numerics& numerics) {
  double before[strip_points];
  std::copy_n(lanes.v, n, before);
  round_values(lanes.v, n, type, numerics, true);
  if (register_of(type) != Reg::f32) return;
  const double unit = rounding_unit(base::device_format(type));
  for (int64_t i = 0; i < n; ++i) {
    const double v = lanes.v[i];
    // What is exact and was stored exactly stays exact: copies are compared bit for bit.
    if (std::isfinite(v) && (lanes.e[i] != 0 || v != before[i]))
      lanes.e[i] += unit * std::abs(v) + std::abs(v - before[i]);
    if (!(lanes.e[i] >= 0)) lanes.e[i] = std::numeric_limits<double>::infinity();
  }
}

void read_lanes(const Run& run, Id value, const int64_t* places, int64_t n, Lanes& out) {
  const Tensor& t = run.tensors[static_cast<size_t>(value)];
  const double* v = t.value.data();
  for (int64_t i = 0; i < n; ++i) out.v[i] = v[places[i]];
  if (t.scale.empty()) {
    std::fill_n(out.e, n, 0.0);
  } else {
    const double unit = run.unit(value);
    const double* s = t.scale.data();
    for (int64_t i = 0; i < n; ++i) out.e[i] = unit * s[places[i]];
  }
}

void write_lanes(Run& run, Id value, const int64_t* places, int64_t n, Lanes& lanes) {
  round_lanes(lanes, n, run.graph.values[static_cast<size_t>(value)].type, run.numerics);
  Tensor& t = run.tensors[static_cast<size_t>(value)];
  const double per_unit = 1 / run.unit(value);
  for (int64_t i = 0; i < n; ++i) {
    t.value[static_cast<size_t>(places[i])] = lanes.v[i];
    t.scale[static_cast<size_t>(places[i])] = lanes.e[i] * per_unit;
  }
}

// ---- expressions
// --------------------------------------------------------------------------------------------------------

Evaluator::Evaluator(const Run& run, std::span<const Size> space, std::span<const Load> loads,
                     std::vector<const Expr*> outputs)
    : run_(run), space_(space), loads_(loads), loaded_(loads.size()), places_(strip_points) {
  for (int64_t s : numbers(space)) points_ *= s;
  for (const Load& load : loads) walks_.push_back(Walk::of(load.ref));
  int free = static_cast<int>(loads.size());
  for (const Expr* e : outputs) {
    outputs_.push_back(compile(*e, free));
    if (outputs_.back() >= free) free = outputs_.back() + 1;
  }
  registers_.resize(static_cast<size_t>(std::max(register_count_, free)));
}

/// Loads have registers of their own, made once a strip.
void Evaluator::need_load(Id load) {
  const auto l = static_cast<size_t>(load);
  if (loaded_[l]) return;
  loaded_[l] = true;
  Instruction i;
  i.load = load;
  i.to = load;
  // Temporaries of an index live above everything a surrounding expression may have in use.
  for (const Load::Gather& g : loads_[l].gathers)
    i.args.push_back(compile(g.index, std::max(register_count_, static_cast<int>(loads_.size()))));
  code_.push_back(std::move(i));
}

/// Code that leaves the value in the register returned: a load's own, or `free`.
int Evaluator::compile(const Expr& e, int free) {
  if (e.leaf == Expr::Leaf::load) {
    need_load(e.id);
    return e.id;
  }
  register_count_ = std::max(register_count_, free + 1);
  Instruction i;
  i.expr = &e;
  i.to = free;
  int next = free;
  for (const Expr& a : e.args) {
    i.args.push_back(compile(a, next));
    if (i.args.back() == next) ++next;
  }
  code_.push_back(std::move(i));
  return free;
}

void Evaluator::read(const Instruction& i, int64_t first, int64_t n) {
  const Load& load = loads_[static_cast<size_t>(i.load)];
  Lanes& out = registers_[static_cast<size_t>(i.to)];
  int64_t* places = places_.data();
  walks_[static_cast<size_t>(i.load)].places(first, n, places);
  if (load.gathers.empty()) {
    read_lanes(run_, load.ref.value, places, n, out);
    return;
  }
  bool filled[strip_points] = {};
  bool unsure[strip_points] = {};
  for (size_t g = 0; g < load.gathers.size(); ++g) {
    const Load::Gather& gather = load.gathers[g];
    const Lanes& index = registers_[static_cast<size_t>(i.args[g])];
    const int64_t bound = *gather.bound.constant(), stride = *gather.stride.constant();
    for (int64_t p = 0; p < n; ++p) {
      const auto at = static_cast<int64_t>(index.v[p]);
      if (at < 0 || at >= bound) {
        if (gather.outside == OnOutside::trap)
          run_.fail_here(fmt::format("index {} is out of bounds for a dimension of size {}", at, bound));
        filled[p] = true;
      }
      unsure[p] = unsure[p] || index.e[p] > 0;
      places[p] += at * stride;
    }
  }
  for (int64_t p = 0; p < n; ++p) {
    if (filled[p]) places[p] = 0;
  }
  if (storage_elements(run_.graph.values[static_cast<size_t>(load.ref.value)]) > 0)
    read_lanes(run_, load.ref.value, places, n, out);
  for (int64_t p = 0; p < n; ++p) {
    if (filled[p]) out.v[p] = load.fill, out.e[p] = 0;
    if (unsure[p]) out.e[p] = std::numeric_limits<double>::infinity();
  }
}

void Evaluator::strip(int64_t first, int64_t n) {
  using Leaf = Expr::Leaf;
  const auto constant = [&](Lanes& out, double v, Reg type) {
    std::fill_n(out.v, n, v);
    std::fill_n(out.e, n,
                type == Reg::f32 && v != static_cast<double>(static_cast<float>(v)) ? f32_unit * std::abs(v) : 0.0);
  };
  for (const Instruction& i : code_) {
    if (i.expr == nullptr) {
      read(i, first, n);
      continue;
    }
    const Expr& e = *i.expr;
    Lanes& out = registers_[static_cast<size_t>(i.to)];
    switch (e.leaf) {
      case Leaf::constant:
        constant(out, e.type == Reg::f32 ? e.number : static_cast<double>(e.integer), e.type);
        break;
      case Leaf::param:
        constant(out, run_.params[static_cast<size_t>(e.id)], e.type);
        break;
      case Leaf::size: {
        const int64_t s = *e.size.constant();
        if (s < INT32_MIN || s > INT32_MAX) run_.fail_here(fmt::format("size {} is outside int32", s));
        constant(out, static_cast<double>(s), e.type);
        break;
      }
      case Leaf::iota: {
        std::vector<int64_t> strides(space_.size());
        strides[static_cast<size_t>(e.id)] = 1;
        Walk(space_, strides, 0).places(first, n, places_.data());
        for (int64_t p = 0; p < n; ++p) out.v[p] = static_cast<double>(places_[static_cast<size_t>(p)]), out.e[p] = 0;
        break;
      }
      default: {
        const Lanes* args[3] = {};
        for (size_t a = 0; a < i.args.size(); ++a) args[a] = &registers_[static_cast<size_t>(i.args[a])];
        apply(run_, e, e.args[0].type, args, n, out);
      }
    }
  }
}

}  // namespace spyre::graph
