// The timing model against measured rows: programs in the published stack's schedule, with its stack constants.
//
//   vendor_schedule [file.csv] [-v]
//
// Prints per family the number of rows, the mean absolute error, the mean error (bias) and the rank correlation; -v
// prints every row. The rows are device times that public forks of the vendor's PyTorch integration publish
// (data/measured.csv; each row names its source). A schedule here is what that stack does, not what the hardware could
// do.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "program/program.h"
#include "timing/timeline.h"

namespace {

using namespace spyre;

struct Row {
  std::string family, kernel;
  int64_t m = 0, n = 0, k = 0, split_m = 0, split_n = 0, split_k = 0, cores = 0;
  double time_us = 0;
};

/// Fields of one line of comma-separated values with "quotes".
std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

std::vector<Row> read_rows(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(Fault::configuration, "{}: can't be read", path);
  std::vector<Row> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> f = fields(line);
    if (f.size() < 10) fail(Fault::configuration, "{}: a row has {} fields: {}", path, f.size(), line);
    const auto number = [&](int i) { return std::stoll(f[i]); };
    rows.push_back(
        {f[0], f[1], number(2), number(3), number(4), number(5), number(6), number(7), number(8), std::stod(f[9])});
  }
  return rows;
}

int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The whole K loop of a core's part before its output leaves: the accumulator has one slot, drained at the end. As
/// many columns at a time as the accumulator has room for; both inputs are multicast to the cores that share them.
std::string matmul(const Row& r, int64_t split_m, int64_t split_n, int64_t split_k) {
  constexpr int64_t room = 900 * 1024;
  const int64_t rows = up(r.m, split_m), columns = up(up(r.n, split_n), 64) * 64, depth = up(up(r.k, split_k), 64) * 64;
  const int64_t jb = columns % 128 == 0 ? 128 : 64;
  // The accumulator's shape that reads least: x once per nb columns, w once per rb rows.
  int64_t nb = jb, rb = std::min(rows, room / (4 * nb));
  const auto passes = [&](int64_t n, int64_t m) {
    return r.m * up(columns, n) * split_n + r.n * up(rows, m) * split_m;
  };
  for (int64_t n = jb; n <= columns && n * 4 <= room; n += jb) {
    const int64_t m = std::min(rows, room / (4 * n));
    if (passes(n, m) < passes(nb, rb)) nb = n, rb = m;
  }
  int64_t kb = std::min<int64_t>(depth, 512);
  while (kb > 64 && 4 * rb * kb > 512 * 1024) kb /= 2;
  const auto share = [](const char* g, int64_t size) {
    return size > 1 ? fmt::format(" share({})", g) : std::string();
  };
  std::string t =
      fmt::format("sym x: in dl16 [{0},{2}]\nsym w: in dl16 [{2},{1}]\nsym y: out dl16 [{0},{1}]\n", r.m, r.n, r.k);
  t += fmt::format("kernel mm(x: in dl16 [{0},{2}], w: in dl16 [{2},{1}], y: out dl16 [{0},{1}]) cores {3} {{\n", r.m,
                   r.n, r.k, split_m * split_n * split_k);
  t += fmt::format("grid(mc:{}, nc:{}, kc:{}) {{\n", split_m, split_n, split_k);
  t += fmt::format("core mr in 0..{} by {} on mc core nr in 0..{} by {} on nc core kr in 0..{} by {} on kc\n", r.m,
                   rows, r.n, columns, r.k, depth);
  t += fmt::format("for i in mr by {} uniform {{ for jj in nr by {} uniform {{\n", rb, nb);
  t += fmt::format("buf acc f32[{},{}] x1 pieces(1:{})\n", rb, nb, jb);
  t += fmt::format("for kk in kr by {} {{ buf a dl16[{},{}] x2 ld a = x[i, kk]{}\n", kb, rb, kb, share("nc", split_n));
  t += fmt::format(
      "for j in jj by {} uniform {{ buf b dl16[{},{}] x2 ld b = w[kk, j]{} pt acc[_, j] += a * b init(kk) }} }}\n", jb,
      kb, jb, share("mc", split_m));
  const std::string drain =
      fmt::format("for o in jj by {0} {{ buf q dl16[{1},{0}] x1 sfp q = acc[_, o] st y[i, o] = q }}", jb, rb);
  t += split_k > 1 ? "psum acc over kc to 0 if kc == 0 { " + drain + " }\n" : drain + "\n";
  return t + "} } } }\ncall mm(x, w, y)\n";
}

/// Contiguous parts of the device layout (columns of sticks, then rows), one slot a stream is bound by anyway.
std::string pointwise(const Row& r) {
  const int64_t sticks = up(r.n, 64);
  int64_t across = 1;
  while (across * 2 <= r.cores && sticks % (across * 2) == 0) across *= 2;
  const int64_t down = r.cores / across;
  const bool two = r.kernel == "add" || r.kernel == "mul", row_vector = r.kernel == "mulbcast" || r.kernel == "write";
  const std::string x = fmt::format("dl16 [{},{}]", r.m, r.n), b = fmt::format("dl16 [1,{}]", r.n),
                    c = fmt::format("dl16 [{},1]", r.m);
  const std::string first = r.kernel == "write" ? c : x, second = row_vector ? b : x;
  const int64_t tile = std::min<int64_t>(up(r.m, down), 256);
  std::string t = fmt::format(
      "sym x: in {0}\nsym v: in {1}\nsym y: out {2}\nkernel p(x: in {0}, v: in {1}, y: out {2}) cores {3} {{\n", first,
      second, x, across * down);
  t += fmt::format("grid(cc:{}, rc:{}) {{ core n in 0..{} by {} on cc core m in 0..{} by {} on rc\n", across, down, r.n,
                   up(sticks, across) * 64, r.m, up(r.m, down));
  const std::string vector = fmt::format("buf s dl16[1,64] x2 ld s = v[0..1, j]{}", down > 1 ? " share(rc)" : "");
  if (r.kernel == "write") {  // the column stays for all columns of sticks
    t += fmt::format("for i in m by {} {{ buf a dl16[{},1] x2 ld a = x[i, 0..1]{} for j in n by 64 {{ {}\n", tile, tile,
                     across > 1 ? " share(cc)" : "", vector);
  } else {
    t += fmt::format("for j in n by 64 {{ {} for i in m by {} {{ buf a dl16[{},64] x2 ld a = x[i, j]\n",
                     row_vector ? vector : "", tile, tile);
  }
  if (two) t += fmt::format("buf s dl16[{},64] x2 ld s = v[i, j]\n", tile);
  const std::string value = two                  ? "a + s"
                            : row_vector         ? "a * s"
                            : r.kernel == "exp"  ? "exp(a)"
                            : r.kernel == "gelu" ? "gelu(a)"
                                                 : "a * 2";
  return t + fmt::format("buf o dl16[{},64] x2 sfp o = {} st y[i, j] = o }} }} }} }}\ncall p(x, v, y)\n", tile, value);
}

/// Rows over the cores; each core reads its rows of every column of sticks in turn.
std::string reduction(const Row& r) {
  const int64_t rows = up(r.m, r.cores), tile = std::min<int64_t>(rows, 256);
  std::string t = fmt::format(
      "sym x: in dl16 [{0},{1}]\nsym y: out dl16 [{0}]\nkernel red(x: in dl16 [{0},{1}], y: out dl16 [{0}]) cores {2} "
      "{{\n",
      r.m, r.n, r.cores);
  t += fmt::format("grid(rc:{}) {{ core m in 0..{} by {} on rc for i in m by {} {{ buf s f32[{},1] x1 sfp s = 0\n",
                   r.cores, r.m, rows, tile, tile);
  t += fmt::format("for j in 0..{} by 64 {{ buf a dl16[{},64] x2 ld a = x[i, j] sfp.red s = max(s, a over 1) }}\n", r.n,
                   tile);
  return t +
         fmt::format(
             "buf h dl16[{0},1] x1 sfp h = s buf o dl16[1,{0}] x1 mv o = h^T st y[i] = o }} }} }}\ncall red(x, y)\n",
             tile);
}

timing::KernelTime time_of(const std::string& text, const device::Description& d) {
  return timing::walk(program::assemble(text), {}, d).calls[0];
}

/// Microseconds with the terms of the published stack.
double matmul_us(const Row& r, int64_t split_m, int64_t split_n, int64_t split_k, device::Description d) {
  if (split_k > 1) {  // partial sums leave through one corelet
    d.pt_macs_per_cycle_core = d.pt_macs_per_cycle_core * d.stack.split_k_corelets / d.corelets_per_core;
  }
  const timing::KernelTime t = time_of(matmul(r, split_m, split_n, split_k), d);
  const double compute = static_cast<double>(t.pt_busy_ps) * 1e-6,
               read = static_cast<double>(t.bytes_read) / d.memory_gbps * 1e-3;
  return static_cast<double>(t.duration_ps) * 1e-6 + d.stack.matmul_overlap_loss * std::min(compute, read);
}

double modelled_us(const Row& r, const device::Description& d) {
  if (r.kernel == "mm") {
    if (r.split_m > 0) return matmul_us(r, r.split_m, r.split_n, r.split_k, d);
    double best = 1e30;
    for (int64_t a = 1; a <= r.cores; a *= 2) {
      const int64_t b = std::min(r.cores / a, up(r.n, 64));
      if (a <= r.m) best = std::min(best, matmul_us(r, a, b, 1, d));
    }
    return best;
  }
  if (r.family.starts_with("reduction")) return static_cast<double>(time_of(reduction(r), d).duration_ps) * 1e-6;
  const timing::KernelTime t = time_of(pointwise(r), d);
  double us = static_cast<double>(t.duration_ps) * 1e-6;
  if (r.family == "broadcast") {
    us -= (d.turnaround_ns_per_byte - d.broadcast_ns_per_byte) * 1e-3 *
          static_cast<double>(std::min(t.bytes_read, t.bytes_written));
  }
  return us;
}

/// Spearman's.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto ranks = [](const std::vector<double>& v) {
    std::vector<size_t> order(v.size());
    for (size_t i = 0; i < v.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return v[i] < v[j]; });
    std::vector<double> rank(v.size());
    for (size_t i = 0; i < v.size(); ++i) rank[order[i]] = static_cast<double>(i);
    return rank;
  };
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string path = SPYRE_MEASURED;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "-v")
      verbose = true;
    else
      path = argv[i];
  }
  try {
    const device::Description d = device::load_description();
    std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> families;  // modelled, measured
    for (const Row& r : read_rows(path)) {
      const double us = modelled_us(r, d);
      families[r.family].first.push_back(us);
      families[r.family].second.push_back(r.time_us);
      if (verbose) {
        fmt::print(
            "{:26} {:10} {:6} {:6} {:6} split {}/{}/{} cores {:2}  modelled {:9.1f} measured {:9.1f} us  {:+.1f} %\n",
            r.family, r.kernel, r.m, r.n, r.k, r.split_m, r.split_n, r.split_k, r.cores, us, r.time_us,
            100 * (us / r.time_us - 1));
      }
    }
    fmt::print("{:26} {:>5} {:>14} {:>8} {:>10}\n", "family", "rows", "mean |error|", "bias", "rank corr.");
    for (const auto& [family, values] : families) {
      const auto& [modelled, measured] = values;
      double error = 0, bias = 0;
      for (size_t i = 0; i < modelled.size(); ++i) {
        error += std::abs(modelled[i] / measured[i] - 1);
        bias += modelled[i] / measured[i] - 1;
      }
      const auto n = static_cast<double>(modelled.size());
      fmt::print("{:26} {:5} {:12.1f} % {:+6.1f} % {:10.2f}\n", family, modelled.size(), 100 * error / n,
                 100 * bias / n, rank_correlation(modelled, measured));
    }
  } catch (const Error& error) {
    fmt::print(stderr, "vendor_schedule: {}: {}\n", fault_name(error.fault()), error.what());
    return 1;
  }
}
