// Speed of the soft card through whole launches, on SPYRE_THREADS threads. Compare with PyTorch at the same number of
// threads on the same machine: linear against torch.nn.functional.linear in float32, gemv in bfloat16.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>

#include "card/card.h"
#include "program/program.h"

namespace spyre::card {
namespace {

/// A program whose symbols lie one after another, filled with DL16 codes of moderate size (f32 symbols: small numbers).
class Launch {
 public:
  explicit Launch(const std::string& text)
      : description_(device::load_description()),
        card_(description_),
        executable_(program::assemble(text), description_) {
    std::vector<uint64_t> addresses;
    uint64_t at = 4096;
    for (const auto& s : executable_.program().symbols) {
      addresses.push_back(at);
      const int64_t bytes = s.geometry.device_bytes();
      std::byte* p = card_.memory().at(at, bytes);
      for (int64_t i = 0; i < bytes / 2; ++i) {
        const auto code = static_cast<uint16_t>(0x3800 + i * 40503 % 2048);
        std::memcpy(p + 2 * i, &code, 2);
      }
      at += static_cast<uint64_t>((bytes + 4095) / 4096 * 4096);
    }
    const auto table = correction_table(executable_.program(), addresses, {});
    table_ = static_cast<uint64_t>(description_.segment_bytes) * 7;
    std::memcpy(card_.memory().at(table_, static_cast<int64_t>(table.size())), table.data(), table.size());
  }
  void run() { card_.start(executable_, table_); }

 private:
  device::Description description_;
  Card card_;
  Executable executable_;
  uint64_t table_ = 0;
};

std::string kernel(const std::string& syms, const std::string& actuals, const std::string& body) {
  std::string lines, formals;
  for (size_t at = 0; at < syms.size();) {
    const size_t end = std::min(syms.find(';', at), syms.size());
    lines += "sym " + syms.substr(at, end - at) + "\n";
    formals += (formals.empty() ? "" : ", ") + syms.substr(at, end - at);
    at = end + 1;
  }
  return lines + "kernel k(" + formals + ") cores 32 {\n" + body + "}\ncall k(" + actuals + ")\n";
}

std::string number(int64_t n) { return std::to_string(n); }

void matmul(benchmark::State& state) {
  const int64_t m = state.range(0), k = state.range(1), n = state.range(2), mc = state.range(3), nc = 32 / mc;
  const int64_t mt = m / mc, nt = n / nc, kt = std::min<int64_t>(k, 512);
  int64_t tile = std::min<int64_t>(nt, 256);
  while (nt % tile != 0) tile -= 64;
  Launch launch(kernel("x: in dl16 [" + number(m) + "," + number(k) + "];w: in dl16 [" + number(k) + "," + number(n) +
                           "];y: out dl16 [" + number(m) + "," + number(n) + "]",
                       "x, w, y",
                       "grid(mc:" + number(mc) + ", nc:" + number(nc) + ") {\n core m in 0.." + number(m) + " by " +
                           number(mt) + " on mc\n core n in 0.." + number(n) + " by " + number(nt) +
                           " on nc\n for j in n by " + number(tile) + " {\n buf acc f32[" + number(mt) + "," +
                           number(tile) + "] x1\n for k in 0.." + number(k) + " by " + number(kt) + " {\n buf a dl16[" +
                           number(mt) + "," + number(kt) + "] x2\n ld a = x[m, k]\n buf t dl16[" + number(kt) + "," +
                           number(tile) + "] x2\n ld t = w[k, j]\n" + "pt acc += a * t init(k) }\n buf o dl16[" +
                           number(mt) + "," + number(tile) + "] x1\n sfp o = acc\n st y[m, j] = o } }\n"));
  for (auto _ : state) launch.run();
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(matmul)->Args({512, 2048, 2048, 4})->Args({1024, 384, 1536, 8})->Args({128, 2048, 2048, 2})->UseRealTime();

void one_row(benchmark::State& state) {
  const int64_t k = state.range(0), n = state.range(1), nt = n / 32, tile = std::min<int64_t>(nt, 512);
  Launch launch(kernel("x: in dl16 [1," + number(k) + "];w: in dl16 [" + number(k) + "," + number(n) +
                           "];y: out dl16 [1," + number(n) + "]",
                       "x, w, y",
                       "grid(nc:32) {\n core n in 0.." + number(n) + " by " + number(nt) + " on nc\n for j in n by " +
                           number(tile) + " {\n buf acc f32[1," + number(tile) + "] x1\n for k in 0.." + number(k) +
                           " by 512 {\n buf a dl16[1,512] x2\n" + "ld a = x[0..1, k]\n buf t dl16[512," + number(tile) +
                           "] x2\n ld t = w[k, j]\n pt acc += a * t init(k) }\n buf o dl16[1," + number(tile) +
                           "] x1\n sfp o = acc\n st y[0..1, j] = o } }\n"));
  for (auto _ : state) launch.run();
  state.counters["GB/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(n * k), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(one_row)->Args({2048, 32768})->UseRealTime();

/// y[rows, cols] = body over tiles of `tile` rows.
void elementwise(benchmark::State& state, const char* body) {
  const int64_t rows = state.range(0), cols = state.range(1), per = rows / 32,
                tile = std::min<int64_t>(per, state.range(2));
  const std::string r = number(rows), c = number(cols), t = number(tile);
  Launch launch(kernel("x: in dl16 [" + r + "," + c + "];y: out dl16 [" + r + "," + c + "]", "x, y",
                       "grid(rc:32) {\n core r in 0.." + r + " by " + number(per) + " on rc\n for t in r by " + t +
                           " {\n buf a dl16[" + t + "," + c + "] x2\n ld a = x[t, 0.." + c + "]\n buf o dl16[" + t +
                           "," + c + "] x2\n buf e f32[" + t + "," + c + "] x1\n buf m f32[" + t +
                           ",1] x1\n buf l f32[" + t + ",1] x1\n buf n f32[" + t + ",1] x1\n" + body +
                           "\n st y[t, 0.." + c + "] = o } }\n"));
  for (auto _ : state) launch.run();
  state.counters["ns/element"] =
      benchmark::Counter(1e-9 * static_cast<double>(rows * cols),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(elementwise, copy, "sfp o = a")->Args({2048, 1536, 8})->UseRealTime();
BENCHMARK_CAPTURE(elementwise, gelu, "sfp o = gelu(a)")->Args({2048, 1536, 8})->UseRealTime();
BENCHMARK_CAPTURE(elementwise, silu, "sfp o = silu(a) * a")->Args({2048, 1536, 8})->UseRealTime();
BENCHMARK_CAPTURE(elementwise, softmax,
                  "sfp.red m = max(a over 1)\n sfp e = exp(a - m)\n sfp.red l = sum(e over 1)\n sfp o = e / l")
    ->Args({2048, 1024, 8})
    ->UseRealTime();
BENCHMARK_CAPTURE(elementwise, layer_norm,
                  "sfp.red m, l, n = welford(a over 1)\n sfp o = (a - m) * rsqrt(l / n + 1e-5)")
    ->Args({8192, 384, 16})
    ->UseRealTime();

void small_launch(benchmark::State& state) {
  Launch launch(
      kernel("x: in dl16 [1,64];y: out dl16 [1,64]", "x, y",
             "grid(c:1) {\n buf a dl16[1,64] x1\n ld a = x[0..1, 0..64]\n sfp a = a + 1\n st y[0..1, 0..64] = a }\n"));
  for (auto _ : state) launch.run();
}
BENCHMARK(small_launch)->UseRealTime();

}  // namespace
}  // namespace spyre::card

BENCHMARK_MAIN();
