// The arithmetic of expressions on strips: values in double, and how far a device that rounds to f32 may be from them.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/error.h"
#include "graph/strip.h"

namespace spyre::graph {

namespace {

constexpr double pi = 3.14159265358979323846;

/// Whether a comparison of values this far apart may turn out otherwise.
bool may_flip(double distance, double error) { return error > 0 && !(std::abs(distance) > 2 * error); }

/// Error of a step function: the height of the steps that may be met.
template <typename Fn>
double steps(Fn fn, double a, double e) {
  if (e == 0) return 0;
  return fn(a + 2 * e) - fn(a - 2 * e);
}

/// f32's range: what is larger is infinite.
double clamp(double r) { return r > FLT_MAX ? infinity : r < -FLT_MAX ? -infinity : r; }

double ratio(double e, double room) { return e == 0 ? 0 : room > 0 ? e / room : infinity; }

template <typename Value, typename Error>
void unary(const Lanes& a, int64_t n, Lanes& out, double units, Value value, Error error) {
  for (int64_t i = 0; i < n; ++i) {
    const double x = a.v[i], ex = a.e[i];
    const double r = clamp(value(x));
    out.e[i] = error(x, r, ex) + units * f32_unit * std::abs(r);
    out.v[i] = r;
    if (!(out.e[i] < infinity)) out.e[i] = std::isfinite(r) ? infinity : 0;
  }
}
template <typename Value, typename Error>
void binary(const Lanes& a, const Lanes& b, int64_t n, Lanes& out, double units, Value value, Error error) {
  for (int64_t i = 0; i < n; ++i) {
    const double x = a.v[i], y = b.v[i], ex = a.e[i], ey = b.e[i];
    const double r = clamp(value(x, y));
    out.e[i] = error(x, y, r, ex, ey) + units * f32_unit * std::abs(r);
    out.v[i] = r;
    if (!(out.e[i] < infinity)) out.e[i] = std::isfinite(r) ? infinity : 0;
  }
}

/// Functions on the device are within 4 ulp, i.e. 8 units, of the true value (card/host_vector.h).
constexpr double exact = 0, once = 1, function = 8;

bool float_unary(VecOp op, const Lanes& a, int64_t n, Lanes& out) {
  const auto same = [](double, double, double e) { return e; };
  switch (op) {
    case VecOp::neg:
      unary(a, n, out, exact, [](double x) { return -x; }, same);
      break;
    case VecOp::abs:
      unary(a, n, out, exact, [](double x) { return std::abs(x); }, same);
      break;
    case VecOp::square:
      unary(
          a, n, out, once, [](double x) { return x * x; },
          [](double x, double, double e) { return (2 * std::abs(x) + e) * e; });
      break;
    case VecOp::floor:
      unary(
          a, n, out, exact, [](double x) { return std::floor(x); },
          [](double x, double, double e) { return steps([](double t) { return std::floor(t); }, x, e); });
      break;
    case VecOp::ceil:
      unary(
          a, n, out, exact, [](double x) { return std::ceil(x); },
          [](double x, double, double e) { return steps([](double t) { return std::ceil(t); }, x, e); });
      break;
    case VecOp::round:
      unary(
          a, n, out, exact, [](double x) { return std::nearbyint(x); },
          [](double x, double, double e) { return steps([](double t) { return std::nearbyint(t); }, x, e); });
      break;
    case VecOp::trunc:
      unary(
          a, n, out, exact, [](double x) { return std::trunc(x); },
          [](double x, double, double e) { return steps([](double t) { return std::trunc(t); }, x, e); });
      break;
    case VecOp::exp:
      unary(
          a, n, out, function, [](double x) { return std::exp(x); },
          [](double, double r, double e) { return r * std::expm1(e); });
      break;
    case VecOp::expm1:
      unary(
          a, n, out, function, [](double x) { return std::expm1(x); },
          [](double x, double, double e) { return std::exp(x) * std::expm1(e); });
      break;
    case VecOp::exp2:
      unary(
          a, n, out, function, [](double x) { return std::exp2(x); },
          [](double, double r, double e) { return r * (std::exp2(e) - 1); });
      break;
    case VecOp::log:
      unary(
          a, n, out, function, [](double x) { return std::log(x); },
          [](double x, double, double e) { return ratio(e, x - e); });
      break;
    case VecOp::log2:
      unary(
          a, n, out, function, [](double x) { return std::log2(x); },
          [](double x, double, double e) { return 1.4427 * ratio(e, x - e); });
      break;
    case VecOp::log1p:
      unary(
          a, n, out, function, [](double x) { return std::log1p(x); },
          [](double x, double, double e) { return ratio(e, 1 + x - e); });
      break;
    case VecOp::sqrt:
      unary(
          a, n, out, once, [](double x) { return std::sqrt(x); },
          [](double x, double r, double e) { return x > e ? ratio(e, r) : std::sqrt(e); });
      break;
    case VecOp::rsqrt:
      unary(
          a, n, out, 2 * once, [](double x) { return 1 / std::sqrt(x); },
          [](double x, double r, double e) { return e == 0 ? 0 : r * ratio(e, x - e); });
      break;
    case VecOp::rcp:
      unary(
          a, n, out, once, [](double x) { return 1 / x; },
          [](double x, double r, double e) { return e == 0 ? 0 : std::abs(r) * ratio(e, std::abs(x) - e); });
      break;
    case VecOp::sin:
      unary(
          a, n, out, once, [](double x) { return std::sin(x); },
          [](double, double, double e) { return std::min(e, 2.0) + 0x1p-22; });
      break;
    case VecOp::cos:
      unary(
          a, n, out, once, [](double x) { return std::cos(x); },
          [](double, double, double e) { return std::min(e, 2.0) + 0x1p-22; });
      break;
    case VecOp::tan:
      unary(
          a, n, out, function, [](double x) { return std::tan(x); },
          [](double, double r, double e) { return (1 + r * r) * (e + 0x1p-22); });
      break;
    case VecOp::tanh:
      unary(
          a, n, out, function, [](double x) { return std::tanh(x); },
          [](double, double r, double e) { return std::min(e, (1 - r * r) * e + e * e); });
      break;
    case VecOp::erf:
      unary(
          a, n, out, once, [](double x) { return std::erf(x); },
          [](double x, double, double e) {
            return std::min(2.0, 2 / std::sqrt(pi) * std::min(e, std::exp(-x * x) * e + e * e)) + 0x1p-21;
          });
      break;
    case VecOp::sign:
      unary(
          a, n, out, exact, [](double x) { return x > 0   ? 1.0
                                                  : x < 0 ? -1.0
                                                          : x; },
          [](double x, double, double e) { return may_flip(x, e) ? 1.0 : 0.0; });
      break;
    default:
      return false;
  }
  return true;
}

double max_nan(double x, double y) { return std::isnan(x) || x > y ? x : y; }
double min_nan(double x, double y) { return std::isnan(x) || x < y ? x : y; }

double pow_error(double x, double y, double r, double ex, double ey) {
  if (ex == 0 && ey == 0) return 0;
  if (std::abs(x) <= ex) return infinity;
  return std::abs(r) * std::expm1(std::abs(y) * ex / (std::abs(x) - ex) + std::abs(std::log(std::abs(x))) * ey);
}
double fmod_error(double x, double y, double, double ex, double ey) {
  if (ex == 0 && ey == 0) return 0;
  const double q = x / y, eq = (ex + std::abs(q) * ey) / (std::abs(y) - ey);
  if (!(eq >= 0) || std::trunc(q - 2 * eq) != std::trunc(q + 2 * eq)) return std::abs(y) + ey;
  return ex + std::abs(std::trunc(q)) * ey;
}

bool float_binary(VecOp op, const Lanes& a, const Lanes& b, int64_t n, Lanes& out) {
  const auto sum = [](double, double, double, double ex, double ey) { return ex + ey; };
  const auto larger = [](double, double, double, double ex, double ey) { return std::max(ex, ey); };
  switch (op) {
    case VecOp::add:
      binary(a, b, n, out, once, [](double x, double y) { return x + y; }, sum);
      break;
    case VecOp::sub:
      binary(a, b, n, out, once, [](double x, double y) { return x - y; }, sum);
      break;
    case VecOp::mul:
      binary(
          a, b, n, out, once, [](double x, double y) { return x * y; },
          [](double x, double y, double, double ex, double ey) {
            return (ex == 0 ? 0 : ex * (std::abs(y) + ey)) + (ey == 0 ? 0 : ey * std::abs(x));
          });
      break;
    case VecOp::div:
      binary(
          a, b, n, out, once, [](double x, double y) { return x / y; },
          [](double, double y, double r, double ex, double ey) {
            return ex == 0 && ey == 0 ? 0 : ratio(ex + std::abs(r) * ey, std::abs(y) - ey);
          });
      break;
    case VecOp::min:
      binary(a, b, n, out, exact, min_nan, larger);
      break;
    case VecOp::max:
      binary(a, b, n, out, exact, max_nan, larger);
      break;
    case VecOp::pow:
      binary(a, b, n, out, function, [](double x, double y) { return std::pow(x, y); }, pow_error);
      break;
    case VecOp::fmod:
      binary(a, b, n, out, exact, [](double x, double y) { return std::fmod(x, y); }, fmod_error);
      break;
    default:
      return false;
  }
  return true;
}

// ---- integers
// -----------------------------------------------------------------------------------------------------------

int64_t floor_div(int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }

uint32_t philox(uint32_t key, uint32_t offset, uint32_t index, int64_t word) {
  // Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
  uint32_t c[4] = {offset, 0, index, 0}, k[2] = {key, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
                              static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    std::copy_n(next, 4, c);
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c[word];
}

/// The exact result of an operation on int32 values (fits int64), before wrapping.
int64_t integer(const Run& run, const Expr& e, int64_t x, int64_t y, int64_t z) {
  switch (e.op) {
    case VecOp::add:
      return x + y;
    case VecOp::sub:
      return x - y;
    case VecOp::mul:
      return x * y;
    case VecOp::div:
    case VecOp::floor_div:
    case VecOp::remainder:
      if (y == 0) run.fail_here("integer division by zero");
      return e.op == VecOp::div ? x / y : e.op == VecOp::floor_div ? floor_div(x, y) : x - y * floor_div(x, y);
    case VecOp::min:
      return std::min(x, y);
    case VecOp::max:
      return std::max(x, y);
    case VecOp::abs:
      return x < 0 ? -x : x;
    case VecOp::neg:
      return -x;
    case VecOp::square:
      return x * x;
    case VecOp::sign:
      return (x > 0) - (x < 0);
    case VecOp::bit_and:
      return x & y;
    case VecOp::bit_or:
      return x | y;
    case VecOp::bit_xor:
      return x ^ y;
    case VecOp::bit_not:
      return ~x;
    case VecOp::shl:
      return y >= 0 && y < 32 ? x * (int64_t{1} << y) : 0;
    case VecOp::shr:
      return x >> (y >= 0 && y < 32 ? y : 31);
    case VecOp::philox:
      return static_cast<int32_t>(
          philox(static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z), e.integer));
    default:
      run.fail_here(fmt::format("operation {} of integers", op_word(e.op)));
  }
}

void integers(const Run& run, const Expr& e, const Lanes* const* args, int64_t n, Lanes& out) {
  for (int64_t i = 0; i < n; ++i) {
    const auto arg = [&](size_t a) { return a < e.args.size() ? static_cast<int64_t>(args[a]->v[i]) : 0; };
    const int64_t x = arg(0), y = arg(1);
    const int64_t r = integer(run, e, x, y, arg(2));
    const auto wrapped = static_cast<int32_t>(r);
    if (e.trap && wrapped != r)
      run.fail_here(fmt::format("{} of int64 values gives {}, which leaves int32", op_word(e.op), r));
    double error = 0;
    for (size_t a = 0; a < e.args.size(); ++a) {
      const double ea = args[a]->e[i];
      if (ea == 0) continue;
      const double weight = e.op == VecOp::mul ? std::abs(static_cast<double>(a == 0 ? y : x)) + ea : 1;
      const bool smooth = e.op == VecOp::add || e.op == VecOp::sub || e.op == VecOp::mul || e.op == VecOp::neg ||
                          e.op == VecOp::abs || e.op == VecOp::min || e.op == VecOp::max;
      error += smooth ? weight * ea : infinity;
    }
    out.v[i] = wrapped;
    out.e[i] = error;
  }
}

// ---- predicates and casts
// -----------------------------------------------------------------------------------------------

template <typename Fn>
void compare(const Lanes& a, const Lanes& b, int64_t n, Lanes& out, Fn fn) {
  for (int64_t i = 0; i < n; ++i) {
    const double x = a.v[i], y = b.v[i];
    const double e = may_flip(x - y, a.e[i] + b.e[i]) ? 1 : 0;
    out.v[i] = fn(x, y) ? 1 : 0;
    out.e[i] = e;
  }
}

void logical(VecOp op, const Lanes& a, const Lanes& b, int64_t n, Lanes& out) {
  const double decides = op == VecOp::logical_and ? 0 : 1;
  for (int64_t i = 0; i < n; ++i) {
    const double x = a.v[i], y = b.v[i];
    const bool decided = (x == decides && a.e[i] == 0) || (y == decides && b.e[i] == 0);
    const double e = !decided && (a.e[i] > 0 || b.e[i] > 0) ? 1 : 0;
    out.v[i] = op == VecOp::logical_and ? x * y : std::max(x, y);
    out.e[i] = e;
  }
}

void select(const Lanes& p, const Lanes& a, const Lanes& b, int64_t n, Lanes& out) {
  for (int64_t i = 0; i < n; ++i) {
    const bool yes = p.v[i] != 0;
    double e = yes ? a.e[i] : b.e[i];
    if (p.e[i] > 0) {
      const bool same = a.v[i] == b.v[i] || (std::isnan(a.v[i]) && std::isnan(b.v[i]));
      e = std::max(a.e[i], b.e[i]) + (same ? 0 : std::abs(a.v[i] - b.v[i]));
      if (std::isnan(e)) e = infinity;
    }
    out.v[i] = yes ? a.v[i] : b.v[i];
    out.e[i] = e;
  }
}

void cast(const Run& run, const Expr& e, Reg from, const Lanes& a, int64_t n, Lanes& out) {
  for (int64_t i = 0; i < n; ++i) {
    double v = a.v[i], error = a.e[i];
    if (e.type == Reg::i32 && from == Reg::f32) {
      error = steps([](double t) { return std::trunc(t); }, v, error);
      v = std::trunc(v);
      if (!(v >= INT32_MIN && v <= INT32_MAX)) {
        if (e.trap) run.fail_here(fmt::format("a cast of {} to an integer leaves int32", a.v[i]));
        v = INT32_MIN;
      }
      v += 0.0;  // an integer has no -0
    } else if (e.type == Reg::f32 && from == Reg::i32 && v != static_cast<double>(static_cast<float>(v))) {
      error += f32_unit * std::abs(v);
    }
    out.v[i] = v;
    out.e[i] = error;
  }
}

}  // namespace

void apply(const Run& run, const Expr& e, Reg from, const Lanes* const* args, int64_t n, Lanes& out) {
  switch (e.op) {
    case VecOp::lt:
      return compare(*args[0], *args[1], n, out, [](double x, double y) { return x < y; });
    case VecOp::le:
      return compare(*args[0], *args[1], n, out, [](double x, double y) { return x <= y; });
    case VecOp::gt:
      return compare(*args[0], *args[1], n, out, [](double x, double y) { return x > y; });
    case VecOp::ge:
      return compare(*args[0], *args[1], n, out, [](double x, double y) { return x >= y; });
    case VecOp::eq:
      return compare(*args[0], *args[1], n, out, [](double x, double y) { return x == y; });
    case VecOp::ne:
      return compare(*args[0], *args[1], n, out, [](double x, double y) { return x != y; });
    case VecOp::is_nan:
      for (int64_t i = 0; i < n; ++i) out.v[i] = std::isnan(args[0]->v[i]) ? 1 : 0, out.e[i] = 0;
      return;
    case VecOp::logical_and:
    case VecOp::logical_or:
      return logical(e.op, *args[0], *args[1], n, out);
    case VecOp::logical_not:
      for (int64_t i = 0; i < n; ++i) out.v[i] = 1 - args[0]->v[i], out.e[i] = args[0]->e[i];
      return;
    case VecOp::select:
      return select(*args[0], *args[1], *args[2], n, out);
    case VecOp::cast:
      return cast(run, e, from, *args[0], n, out);
    case VecOp::fma:
      for (int64_t i = 0; i < n; ++i) {
        const double x = args[0]->v[i], y = args[1]->v[i], z = args[2]->v[i];
        const double ex = args[0]->e[i], ey = args[1]->e[i], ez = args[2]->e[i];
        // Rounded once or twice: the instruction set decides.
        double error = ez + f32_unit * (std::abs(x * y) + std::abs(x * y + z));
        if (ex > 0) error += ex * (std::abs(y) + ey);
        if (ey > 0) error += ey * std::abs(x);
        out.v[i] = clamp(x * y + z);
        out.e[i] = error < infinity ? error : std::isfinite(out.v[i]) ? infinity : 0;
      }
      return;
    default:
      break;
  }
  if (from != Reg::f32) return integers(run, e, args, n, out);
  if (e.args.size() == 1 ? float_unary(e.op, *args[0], n, out) : float_binary(e.op, *args[0], *args[1], n, out)) return;
  run.fail_here(fmt::format("operation {} of floats", op_word(e.op)));
}

}  // namespace spyre::graph
