#include "layout/walk_detail.h"

#include <algorithm>
#include <array>

namespace spyre::layout::detail {

namespace {

bool join(Digit& low, const Digit& high) {
  if (high.stride != low.stride * low.mod2) return false;
  const bool one_level = low.div2 == 1 && high.div2 == 1 && low.mod1 == low.mod2 && high.mod1 == high.mod2;
  if (one_level && high.div1 == low.div1 * low.mod1) {
    low.mod1 *= high.mod1;
    low.mod2 = low.mod1;
    return true;
  }
  if (high.div1 == low.div1 && high.mod1 == low.mod1 && high.div2 == low.div2 * low.mod2) {
    low.mod2 *= high.mod2;
    return true;
  }
  return false;
}

void push(std::vector<Strip>& out, size_t first, int64_t box_index, int64_t device, int64_t count, int64_t step) {
  if (out.size() > first) {
    Strip& last = out.back();
    const int64_t gap = device - (last.device_element + (last.count - 1) * last.device_step);
    const int64_t last_step = last.count > 1 ? last.device_step : (count > 1 ? step : gap);
    if (gap == last_step && (count == 1 || step == last_step)) {
      last.device_step = last_step;
      last.count += count;
      return;
    }
  }
  out.push_back({box_index, device, count, count == 1 ? 1 : step});
}

constexpr size_t max_fast_digits = 16;

// A digit while o counts up: where it stands, and how many elements until it changes (the unit digit: until it wraps).
struct Counter {
  int64_t level = 0, value = 0;  // (o div div1) mod mod1, the digit
  int64_t next = 0;              // level of the next change
  int64_t left = 0;              // storage elements until then
};

void append_counting(const std::vector<Digit>& digits, size_t unit, int64_t o, int64_t count, int64_t box_index,
                     int64_t device_base, std::vector<Strip>& out) {
  const size_t first = out.size(), n = digits.size();
  std::array<Counter, max_fast_digits> counters;
  int64_t device = -device_base;
  for (size_t i = 0; i < n; ++i) {
    const Digit& d = digits[i];
    Counter& c = counters[i];
    const int64_t a = o / d.div1;
    c.level = a % d.mod1;
    const int64_t q = c.level / d.div2;
    c.value = q % d.mod2;
    device += c.value * d.stride;
    c.next = std::min(i == unit ? c.level + d.mod2 - c.value : (q + 1) * d.div2, d.mod1);
    c.left = (a - c.level + c.next) * d.div1 - o;
  }
  while (count > 0) {
    int64_t run = count;
    for (size_t i = 0; i < n; ++i) run = std::min(run, counters[i].left);
    push(out, first, box_index, device, run, 1);
    box_index += run;
    count -= run;
    device += run;
    counters[unit].value += run;
    for (size_t i = 0; i < n; ++i) {
      Counter& c = counters[i];
      c.left -= run;
      if (c.left != 0) continue;
      const Digit& d = digits[i];
      const bool wraps = c.next == d.mod1;
      const int64_t value = wraps || i == unit || c.value + 1 == d.mod2 ? 0 : c.value + 1;
      device += (value - c.value) * d.stride;
      c.value = value;
      c.level = wraps ? 0 : c.next;
      const int64_t grain = i == unit ? d.mod2 : d.div2;
      c.next = std::min(c.level + grain, d.mod1);
      c.left = (c.next - c.level) * d.div1;
    }
  }
}

void append_dividing(const std::vector<Digit>& digits, int64_t o, int64_t step, int64_t count, int64_t box_index,
                     int64_t device_base, std::vector<Strip>& out) {
  const size_t first = out.size();
  while (count > 0) {
    int64_t device = -device_base, device_step = 0, run = count;
    for (const Digit& d : digits) {
      const int64_t a = o / d.div1;
      const int64_t level = a % d.mod1;
      const int64_t q = level / d.div2;
      const int64_t value = q % d.mod2;
      device += value * d.stride;
      const int64_t grain = d.div1 * d.div2;
      if (step % grain == 0) {  // moves evenly until it wraps
        const int64_t by = step / grain;
        const int64_t room = std::min((d.mod2 - value - 1) / by, (d.mod1 - level - 1) / (by * d.div2)) + 1;
        run = std::min(run, room);
        device_step += by * d.stride;
      } else {  // stands still until it changes
        const int64_t left = (a - level + std::min((q + 1) * d.div2, d.mod1)) * d.div1 - o;
        run = std::min(run, (left - 1) / step + 1);
      }
    }
    push(out, first, box_index, device, run, device_step);
    box_index += run;
    count -= run;
    o += run * step;
  }
}

}  // namespace

Digit simplified(Digit d, int64_t elements) {
  const int64_t reach = (elements - 1) / d.div1 + 1;  // values of o div div1
  d.mod1 = std::min(d.mod1, reach);
  const int64_t inner = (d.mod1 - 1) / d.div2 + 1;
  d.mod2 = std::min(d.mod2, inner);
  if (d.mod1 == reach || (d.mod1 % d.div2 == 0 && (d.mod2 == inner || inner % d.mod2 == 0))) {
    return {d.div1 * d.div2, d.mod2, 1, d.mod2, d.stride};
  }
  return d;
}

std::vector<Digit> merged_digits(const Geometry& geometry) {
  const int64_t elements = geometry.storage_elements;
  std::vector<Digit> digits;
  digits.reserve(geometry.digits.size());
  for (const Digit& d : geometry.digits) {
    if (elements > 0 && d.range(elements) > 1) digits.push_back(simplified(d, elements));
  }
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t i = 0; i < digits.size() && !changed; ++i) {
      for (size_t j = 0; j < digits.size() && !changed; ++j) {
        if (i == j || !join(digits[i], digits[j])) continue;
        digits[i] = simplified(digits[i], elements);
        digits.erase(digits.begin() + static_cast<std::ptrdiff_t>(j));
        changed = true;
      }
    }
  }
  return digits;
}

void append_strips(const std::vector<Digit>& digits, int64_t o, int64_t step, int64_t count, int64_t box_index,
                   int64_t device_base, std::vector<Strip>& out) {
  if (count == 1 || step == 0) {
    out.push_back({box_index, place(digits, o) - device_base, count, count == 1 ? 1 : 0});
    return;
  }
  if (step == 1 && digits.size() <= max_fast_digits) {
    for (size_t i = 0; i < digits.size(); ++i) {
      if (digits[i].stride == 1 && digits[i].div1 == 1 && digits[i].div2 == 1) {
        append_counting(digits, i, o, count, box_index, device_base, out);
        return;
      }
    }
  }
  append_dividing(digits, o, step, count, box_index, device_base, out);
}

std::pair<int64_t, int64_t> bounds(const std::vector<Digit>& digits, int64_t low, int64_t high) {
  auto narrow = [](int64_t& lo, int64_t& hi, int64_t mod) {
    if (hi - lo >= mod || lo % mod > hi % mod) {
      lo = 0;
      hi = mod - 1;
    } else {
      lo %= mod;
      hi %= mod;
    }
  };
  int64_t least = 0, greatest = 0;
  for (const Digit& d : digits) {
    int64_t lo = low / d.div1, hi = high / d.div1;
    narrow(lo, hi, d.mod1);
    lo /= d.div2;
    hi /= d.div2;
    narrow(lo, hi, d.mod2);
    least += lo * d.stride;
    greatest += hi * d.stride;
  }
  return {least, greatest};
}

}  // namespace spyre::layout::detail
