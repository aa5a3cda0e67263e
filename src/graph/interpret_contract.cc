// Contract and Attention: packed operands, sums in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/thread_pool.h"
#include "graph/strip.h"

namespace spyre::graph {

namespace {

using Role = Contract::Role;

/// A tensor in row-major order of some dimensions.
struct Packed {
  std::vector<double> v, e;
  bool exact = true;  ///< all of e is 0
};

Packed pack(const Run& run, std::span<const Size> space, const Load& load, Reg type) {
  const Expr element = Expr::load(0, type);
  Evaluator evaluator(run, space, std::span(&load, 1), {&element});
  Packed out;
  out.v.resize(static_cast<size_t>(evaluator.points()));
  out.e.resize(out.v.size());
  for (int64_t first = 0; first < evaluator.points(); first += strip_points) {
    const int64_t n = std::min(strip_points, evaluator.points() - first);
    evaluator.strip(first, n);
    const Lanes& x = evaluator.output(0);
    std::copy_n(x.v, n, out.v.begin() + first);
    std::copy_n(x.e, n, out.e.begin() + first);
    out.exact = out.exact && std::all_of(x.e, x.e + n, [](double e) { return e == 0; });
  }
  return out;
}

void renumber(Expr& e, const std::vector<int32_t>& new_dim) {
  if (e.leaf == Expr::Leaf::iota) {
    const int32_t d = new_dim[static_cast<size_t>(e.id)];
    e = d == none ? Expr::i32(0) : Expr::iota(d);
  }
  for (Expr& a : e.args) renumber(a, new_dim);
}

/// The operand over these dimensions of the space alone, in this order.
Packed pack(const Run& run, const Contract& n, const Load& operand, const std::vector<size_t>& dims) {
  Load load = operand;
  load.ref.sizes.clear();
  load.ref.strides.clear();
  std::vector<int32_t> new_dim(n.space.size(), none);
  for (size_t d : dims) {
    new_dim[d] = static_cast<int32_t>(load.ref.sizes.size());
    load.ref.sizes.push_back(operand.ref.sizes[d]);
    load.ref.strides.push_back(operand.ref.strides[d]);
  }
  for (Load::Gather& g : load.gathers) renumber(g.index, new_dim);
  const std::vector<Size> space = load.ref.sizes;
  return pack(run, space, load, register_of(run.graph.values[static_cast<size_t>(operand.ref.value)].type));
}

struct Shape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
};

constexpr int64_t block_n = 256;

/// c[m rows][n] += a[m rows][k] b[k][n] with |terms| weighed for the error: weight[m][k] goes with |b|. Plain loops
/// over blocks that stay in cache; the compiler vectorises them.
void block(const double* a, const double* weight, const double* b, const double* eb, int64_t n, int64_t cols, int64_t k,
           double* __restrict c, double* __restrict e) {
  double* __restrict sum = c;
  double* __restrict error = e;
  for (int64_t i = 0; i < k; ++i) {
    const double x = a[i], w = weight[i], ax = std::abs(x);
    const double* __restrict row = b + i * n;
    if (eb == nullptr) {
      for (int64_t j = 0; j < cols; ++j) {
        sum[j] += x * row[j];
        error[j] += w * std::abs(row[j]);
      }
    } else {
      const double* __restrict erow = eb + i * n;
      for (int64_t j = 0; j < cols; ++j) {
        sum[j] += x * row[j];
        error[j] += w * std::abs(row[j]) + ax * erow[j];
      }
    }
  }
}

/// out v and e in order [batch][m][n].
void multiply(const Packed& a, const Packed& b, const Shape& s, std::vector<double>& v, std::vector<double>& e) {
  const double unit = f32_unit * (1 + std::sqrt(static_cast<double>(s.k)) / 4);
  std::vector<double> weight(a.v.size());
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = unit * std::abs(a.v[i]) + a.e[i];
  const int64_t blocks = (s.n + block_n - 1) / block_n;
  base::ThreadPool::shared().for_each(static_cast<int>(s.batch * blocks), [&](int task) {
    const int64_t batch = task / blocks, first = task % blocks * block_n, cols = std::min(block_n, s.n - first);
    const double* bb = b.v.data() + batch * s.k * s.n + first;
    const double* eb = b.exact ? nullptr : b.e.data() + batch * s.k * s.n + first;
    for (int64_t m = 0; m < s.m; ++m) {
      const int64_t row = batch * s.m + m;
      block(a.v.data() + row * s.k, weight.data() + row * s.k, bb, eb, s.n, cols, s.k, v.data() + row * s.n + first,
            e.data() + row * s.n + first);
    }
  });
}

__extension__ typedef __int128 Wide;

/// Integers: exact, then wrapped to int32, or refused when the result is int64.
void multiply_integers(const Run& run, const Packed& a, const Packed& b, const Shape& s, bool trap,
                       std::vector<double>& v) {
  for (int64_t batch = 0; batch < s.batch; ++batch)
    for (int64_t m = 0; m < s.m; ++m)
      for (int64_t n = 0; n < s.n; ++n) {
        Wide sum = 0;
        for (int64_t k = 0; k < s.k; ++k)
          sum += static_cast<Wide>(a.v[static_cast<size_t>((batch * s.m + m) * s.k + k)]) *
                 static_cast<int64_t>(b.v[static_cast<size_t>((batch * s.k + k) * s.n + n)]);
        const auto wrapped = static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(sum)));
        if (trap && wrapped != sum) run.fail_here("a sum of products of int64 values leaves int32");
        v[static_cast<size_t>((batch * s.m + m) * s.n + n)] = wrapped;
      }
}

}  // namespace

void interpret(Run& run, const Contract& n, const Node& node) {
  std::vector<size_t> dims[4];
  int64_t size[4] = {1, 1, 1, 1};
  const std::vector<int64_t> space = numbers(n.space);
  for (size_t d = 0; d < space.size(); ++d) {
    const auto role = static_cast<size_t>(n.roles[d]);
    dims[role].push_back(d);
    size[role] *= space[d];
  }
  const auto join = [&](std::initializer_list<Role> roles) {
    std::vector<size_t> out;
    for (Role r : roles)
      out.insert(out.end(), dims[static_cast<size_t>(r)].begin(), dims[static_cast<size_t>(r)].end());
    return out;
  };
  const Packed a = pack(run, n, n.a, join({Role::batch, Role::m, Role::k}));
  const Packed b = pack(run, n, n.b, join({Role::batch, Role::k, Role::n}));
  const Shape shape{size[0], size[1], size[2], size[3]};
  const auto total = static_cast<size_t>(shape.batch * shape.m * shape.n);
  std::vector<double> v(total), e(total);
  const Value& result = run.graph.values[static_cast<size_t>(node.results[0])];
  if (register_of(result.type) == Reg::i32)
    multiply_integers(run, a, b, shape, result.type == HostType::i64, v);
  else
    multiply(a, b, shape, v, e);

  // Result dimensions are in the order of the space; v is in the order batch, m, n.
  std::vector<int64_t> result_stride_of(space.size());
  const std::vector<int64_t> strides = numbers(result.strides);
  size_t kept = 0;
  for (size_t d = 0; d < space.size(); ++d) {
    if (n.roles[d] != Role::k) result_stride_of[d] = strides[kept++];
  }
  std::vector<Size> sizes;
  std::vector<int64_t> to;
  for (size_t d : join({Role::batch, Role::m, Role::n})) {
    sizes.push_back(n.space[d]);
    to.push_back(result_stride_of[d]);
  }
  const Walk walk(sizes, to, 0);
  int64_t places[strip_points];
  Lanes out;
  for (int64_t first = 0; first < walk.points(); first += strip_points) {
    const int64_t m = std::min(strip_points, walk.points() - first);
    for (int64_t p = 0; p < m; ++p) {
      out.v[p] = v[static_cast<size_t>(first + p)];
      out.e[p] = e[static_cast<size_t>(first + p)];
      if (!(out.e[p] < infinity)) out.e[p] = std::isfinite(out.v[p]) ? infinity : 0;
    }
    walk.places(first, m, places);
    write_lanes(run, node.results[0], places, m, out);
  }
}

void interpret(Run& run, const Attention& n, const Node& node) {
  const auto packed = [&](const Ref& ref) {
    return pack(run, ref.sizes, Load{ref, {}, 0}, register_of(run.graph.values[static_cast<size_t>(ref.value)].type));
  };
  const Packed q = packed(n.q), k = packed(n.k), v = packed(n.v);
  const Packed mask = n.mask ? packed(*n.mask) : Packed{};
  const bool keep = n.mask && run.graph.values[static_cast<size_t>(n.mask->value)].type == HostType::b8;
  const std::vector<int64_t> qs = numbers(n.q.sizes), ks = numbers(n.k.sizes), vs = numbers(n.v.sizes);
  const int64_t batch = qs[0], heads = qs[1], sq = qs[2], depth = qs[3], groups = ks[1], sk = ks[2], dv = vs[3];
  const double scale = n.scale.leaf == Expr::Leaf::param ? run.params[static_cast<size_t>(n.scale.id)] : n.scale.number;
  // The kernel rounds the probabilities to the format in which it multiplies them.
  const double p_unit = rounding_unit(base::device_format(run.graph.values[static_cast<size_t>(n.v.value)].type));
  const double dot_units = f32_unit * (2 + std::sqrt(static_cast<double>(depth)) / 4);
  const double sum_units = f32_unit * (8 + std::sqrt(static_cast<double>(sk)) / 4);

  const auto rows = static_cast<size_t>(batch * heads * sq);
  std::vector<double> out_v(rows * static_cast<size_t>(dv)), out_e(out_v.size()), lse_v(rows), lse_e(rows);
  base::ThreadPool::shared().for_each(static_cast<int>(batch * heads), [&](int task) {
    const int64_t b = task / heads, h = task % heads, group = h / (heads / groups);
    std::vector<double> score(static_cast<size_t>(sk)), error(static_cast<size_t>(sk));
    for (int64_t i = 0; i < sq; ++i) {
      const int64_t row = (b * heads + h) * sq + i;
      const double *x = q.v.data() + row * depth, *ex = q.e.data() + row * depth;
      double best = -infinity, worst_error = 0;
      for (int64_t j = 0; j < sk; ++j) {
        const int64_t other = (b * groups + group) * sk + j;
        const double *y = k.v.data() + other * depth, *ey = k.e.data() + other * depth;
        double sum = 0, size = 0, moved = 0;
        for (int64_t d = 0; d < depth; ++d) {
          sum += x[d] * y[d];
          size += std::abs(x[d] * y[d]);
          moved += ex[d] * (std::abs(y[d]) + ey[d]) + std::abs(x[d]) * ey[d];
        }
        double s = sum * scale, e = (moved + dot_units * size) * std::abs(scale);
        if (n.causal && j > i) s = -infinity;
        if (n.mask) {
          const auto at = static_cast<size_t>(row * sk + j);
          if (!keep) {
            s += mask.v[at];
            e += mask.e[at] + (mask.v[at] != 0 ? f32_unit * std::abs(s) : 0);
          } else if (mask.v[at] == 0) {
            s = -infinity;
          }
        }
        if (s == -infinity) e = 0;
        score[static_cast<size_t>(j)] = s;
        error[static_cast<size_t>(j)] = e;
        best = std::isnan(s) || std::isnan(best) ? std::numeric_limits<double>::quiet_NaN() : std::max(best, s);
        worst_error = std::max(worst_error, e);
      }
      double total = 0;
      double* to = out_v.data() + row * dv;
      double* to_e = out_e.data() + row * dv;
      const bool nothing = best == -infinity;
      for (int64_t j = 0; j < sk && !nothing; ++j) {
        const double p = std::exp(score[static_cast<size_t>(j)] - best);
        total += p;
        if (p == 0) continue;
        const double relative = std::expm1(error[static_cast<size_t>(j)] + worst_error) + p_unit + 8 * f32_unit;
        const int64_t other = ((b * groups + group) * sk + j) * dv;
        for (int64_t d = 0; d < dv; ++d) {
          const double y = v.v[static_cast<size_t>(other + d)];
          to[d] += p * y;
          to_e[d] += p * (std::abs(y) * (relative + sum_units) + v.e[static_cast<size_t>(other + d)]);
        }
      }
      for (int64_t d = 0; d < dv && !nothing; ++d) {
        to[d] /= total;
        // The divisor's own error weighs on the whole value.
        to_e[d] = to_e[d] / total + std::abs(to[d]) * (std::expm1(2 * worst_error) + sum_units);
      }
      lse_v[static_cast<size_t>(row)] = nothing ? -infinity : best + std::log(total);
      lse_e[static_cast<size_t>(row)] = nothing ? 0 : worst_error + sum_units + 8 * f32_unit * std::abs(best);
    }
  });

  const auto store = [&](size_t r, const std::vector<double>& values, const std::vector<double>& errors) {
    const Value& result = run.graph.values[static_cast<size_t>(node.results[r])];
    const Walk walk(result.sizes, numbers(result.strides), 0);
    int64_t places[strip_points];
    Lanes out;
    for (int64_t first = 0; first < walk.points(); first += strip_points) {
      const int64_t m = std::min(strip_points, walk.points() - first);
      std::copy_n(values.begin() + first, m, out.v);
      std::copy_n(errors.begin() + first, m, out.e);
      for (int64_t p = 0; p < m; ++p) {
        if (!(out.e[p] < infinity)) out.e[p] = std::isfinite(out.v[p]) ? infinity : 0;
      }
      walk.places(first, m, places);
      write_lanes(run, node.results[r], places, m, out);
    }
  };
  store(0, out_v, out_e);
  if (n.with_logsumexp) store(1, lse_v, lse_e);
}

}  // namespace spyre::graph
