// Machine: a card with one program and its tensors, for tests: values go in and come out through the program's own
// views.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "card/card.h"
#include "card/elements.h"
#include "program/program.h"

namespace spyre::card {

class Machine {
 public:
  /// Places every symbol's allocation from `address` on, filled with 0xFF bytes (padding that nobody may read).
  explicit Machine(const std::string& text, uint64_t address = 4096)
      : description_(device::load_description()),
        card_(description_),
        executable_(std::make_unique<Executable>(program::assemble(text), description_)) {
    for (const auto& s : program().symbols) {
      addresses_.push_back(address);
      const int64_t bytes = s.geometry.device_bytes();
      std::memset(card_.memory().at(address, bytes), 0xFF, static_cast<size_t>(bytes));
      address += static_cast<uint64_t>((bytes + 4095) / 4096 * 4096);
    }
    scalars_.assign(program().scalars.size(), 0);
  }

  const program::Program& program() const { return executable_->program(); }
  Card& card() { return card_; }
  Executable& executable() { return *executable_; }
  const program::Symbol& symbol(const std::string& name) const { return program().symbols[id(name)]; }

  /// Sets all elements by their row-major number; returns the values as the format holds them.
  std::vector<double> set(const std::string& name, const std::function<double(int64_t)>& value) {
    const auto& s = symbol(name);
    const int64_t n = s.view.numel();
    std::vector<double> held;
    held.reserve(static_cast<size_t>(n));
    std::byte* base = card_.memory().at(addresses_[id(name)], s.geometry.device_bytes());
    each(s, [&](int64_t i, int64_t element) {
      std::byte* at = base + element * base::format_bytes(s.format);
      fill_elements(at, 1, encode_element(value(i), s.format), s.format);
      held.push_back(read(at, s.format));
    });
    return held;
  }
  std::vector<double> set(const std::string& name, const std::vector<double>& values) {
    return set(name, [&](int64_t i) { return values[static_cast<size_t>(i)]; });
  }
  std::vector<double> get(const std::string& name) {
    const auto& s = symbol(name);
    std::vector<double> held;
    const std::byte* base = card_.memory().at(addresses_[id(name)], s.geometry.device_bytes());
    each(s, [&](int64_t, int64_t element) {
      held.push_back(read(base + element * base::format_bytes(s.format), s.format));
    });
    return held;
  }
  void scalar(const std::string& name, double value) {
    for (size_t i = 0; i < scalars_.size(); ++i)
      if (program().scalars[i].name == name) scalars_[i] = value;
  }
  void run(const RunOptions& options = {}) {
    const auto table = correction_table(program(), addresses_, scalars_);
    const uint64_t at = static_cast<uint64_t>(description_.segment_bytes) * 7;
    std::memcpy(card_.memory().at(at, static_cast<int64_t>(table.size())), table.data(), table.size());
    card_.start(*executable_, at, options);
  }
  /// Bytes of a symbol's allocation.
  std::vector<std::byte> bytes(const std::string& name) {
    const int64_t n = symbol(name).geometry.device_bytes();
    const std::byte* p = card_.memory().at(addresses_[id(name)], n);
    return {p, p + n};
  }
  void set_bytes(const std::string& name, const std::vector<std::byte>& b) {
    std::memcpy(card_.memory().at(addresses_[id(name)], static_cast<int64_t>(b.size())), b.data(), b.size());
  }

  /// Runs in sequential order with two threads and one, in checker mode and in two random orders: everything written
  /// must be the same bits. Leaves the sequential result in memory.
  void run_every_way(bool random = true) {
    std::vector<std::string> written;
    std::map<std::string, std::vector<std::byte>> before, expected;
    for (const auto& s : program().symbols)
      if (s.direction != program::Direction::in) written.push_back(s.name), before[s.name] = bytes(s.name);
    auto again = [&](const char* how, const std::function<void()>& go) {
      for (const auto& name : written) set_bytes(name, before[name]);
      go();
      for (const auto& name : written)
        EXPECT_TRUE(same(symbol(name).format, expected[name], bytes(name))) << how << " changes " << name;
    };
    base::ThreadPool::shared().with_threads(2, [&] { run(); });
    for (const auto& name : written) expected[name] = bytes(name);
    again("one thread", [&] { base::ThreadPool::shared().with_threads(1, [&] { run(); }); });
    again("checker mode", [&] { run({.checker = true}); });
    if (!random) return;
    for (uint64_t seed : {1u, 2u})
      again("a random order", [&] { run({.checker = seed == 2, .random_order = true, .seed = seed}); });
  }

 private:
  size_t id(const std::string& name) const {
    for (size_t i = 0; i < program().symbols.size(); ++i)
      if (program().symbols[i].name == name) return i;
    throw std::out_of_range(name);
  }
  /// Equal bytes, except that a float32 NaN may be another one: which of two NaNs a sum keeps is the compiler's choice.
  static bool same(Format format, const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
    if (format != Format::f32 || a.size() != b.size()) return a == b;
    for (size_t i = 0; i < a.size(); i += 4) {
      const double x = read(&a[i], format), y = read(&b[i], format);
      if (std::memcmp(&a[i], &b[i], 4) != 0 && !(std::isnan(x) && std::isnan(y))) return false;
    }
    return true;
  }
  static double read(const std::byte* at, Format format) {
    if (format == Format::u32 || !is_float(format)) {
      int32_t i;
      load_i32(at, format, 1, &i, 1);
      return i;
    }
    float f;
    load_f32(at, format, 1, &f, 1);
    return f;
  }
  template <typename Fn>
  static void each(const program::Symbol& s, Fn&& fn) {
    const int64_t n = s.view.numel();
    for (int64_t i = 0; i < n; ++i) {
      int64_t rest = i, o = s.view.offset;
      for (size_t d = s.view.sizes.size(); d-- > 0;) {
        o += rest % s.view.sizes[d] * s.view.strides[d];
        rest /= s.view.sizes[d];
      }
      fn(i, s.geometry.device_element(o));
    }
  }

  device::Description description_;
  Card card_;
  std::unique_ptr<Executable> executable_;
  std::vector<uint64_t> addresses_;
  timing::ScalarValues scalars_;
};

/// The text of a program of one kernel: formals as `x: in f32 [5,77]`, scalars as `a: f32 in 0..1`, and the nest's
/// statements.
inline std::string one_kernel(const std::vector<std::string>& formals, const std::string& grid, const std::string& body,
                              const std::vector<std::string>& scalars = {}) {
  std::string syms, list, call, tail, call_tail;
  for (const auto& f : formals) {
    syms += "sym " + f + "\n";
    list += (list.empty() ? "" : ", ") + f;
    call += (call.empty() ? "" : ", ") + f.substr(0, f.find(':'));
  }
  for (const auto& s : scalars) {
    syms += "scalar " + s + "\n";
    tail += (tail.empty() ? "; " : ", ") + s;
    call_tail += (call_tail.empty() ? "; " : ", ") + s.substr(0, s.find(':'));
  }
  return syms + "loc 0 \"aten.test\" \"test.py:7\"\nkernel k(" + list + tail + ") cores 32 {\n  grid(" + grid +
         ") {\n" + body + "\n  }\n}\ncall k(" + call + call_tail + ") @loc(0)\n";
}

/// Reproducible values in [-1, 1).
inline std::function<double(int64_t)> noise(uint64_t seed) {
  return [seed](int64_t i) {
    uint64_t x = (static_cast<uint64_t>(i) + 1) * 0x9E3779B97F4A7C15ull + seed * 0xBF58476D1CE4E5B9ull;
    x ^= x >> 31;
    x *= 0x94D049BB133111EBull;
    x ^= x >> 29;
    return static_cast<double>(x >> 11) / 4503599627370496.0 - 1.0;
  };
}

/// Half a unit in the last place of DL16, relative: what one rounding may change.
constexpr double dl16_rounding = 1.0 / 1024;

}  // namespace spyre::card
