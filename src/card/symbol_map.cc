#include "card/symbol_map.h"

#include <numeric>

#include "base/error.h"
#include "program/limits.h"

namespace spyre::card {

namespace {

/// Tables are kept for dimensions up to this many indices; longer ones compute.
constexpr int64_t table_limit = int64_t{1} << 18;
/// Places along dimensions that cross the lanes which are looked at for padding.
constexpr int64_t most_places = 256;
static_assert(program::limits::view_rank <= max_rank && program::limits::buffer_rank <= max_rank);

/// True when ((x + y) div d) = (x div d) + (y div d) for multiples x of s and 0 <= y < s; s becomes the unit afterwards
/// (0: y contributes nothing any more).
bool divide(int64_t& s, int64_t d) {
  if (s == 0 || s % d == 0) {
    s /= d;
    return true;
  }
  if (d % s == 0) {
    s = 0;
    return true;
  }
  return false;
}
/// Same for mod m. When m divides s, only y remains, and stays below m only by its own mod: additive all the same.
bool modulo(int64_t& s, int64_t m) { return s == 0 || m % s == 0 || s % m == 0; }

/// Digits are additive in (multiple of s) + (less than s).
bool additive_at(const layout::Geometry& g, int64_t s) {
  for (const auto& digit : g.digits) {
    int64_t u = s;
    if (!divide(u, digit.div1) || !modulo(u, digit.mod1)) return false;
    if (u != 0 && u % digit.mod1 == 0) continue;  // only y is left
    if (!divide(u, digit.div2) || !modulo(u, digit.mod2)) return false;
  }
  return true;
}

}  // namespace

SymbolMap::SymbolMap(const program::Symbol& symbol)
    : symbol_(&symbol), access_(symbol.view, symbol.geometry), element_bytes_(base::format_bytes(symbol.format)) {
  if (rank() > max_rank)
    fail(Fault::unimplemented, "symbol {} has {} dimensions; the card holds up to {}", symbol.name, rank(), max_rank);
  rules_.resize(rank());
  tables_.resize(rank());
  even_until_.resize(rank());
  prove();
  for (int d = 0; d < rank() && separable_; ++d) {
    if (size(d) == 0 || size(d) > table_limit) continue;
    std::vector<int64_t> table;
    table.reserve(static_cast<size_t>(size(d)));
    for (int64_t i = 0; i < size(d); ++i) table.push_back(slow_part(d, i));
    rules_[d] = rule_of(table);
    if (d + 1 == rank()) {
      find_stick_step(table);
      if (rules_[d].block == 0 || rules_[d].step != 1) find_runs(table);
    }
    if (rules_[d].block > 0) continue;
    even_until_[d] = find_even_steps(table);
    tables_[d] = std::move(table);
  }
  if (rank() > 0 && symbol.view.numel() > 0) pad_ = common_padding();
}

SymbolMap::Rule SymbolMap::rule_of(const std::vector<int64_t>& table) {
  const auto n = static_cast<int64_t>(table.size());
  Rule rule;
  rule.first = table[0];
  rule.step = n > 1 ? table[1] - table[0] : 1;
  int64_t block = 1;
  while (block < n && table[block] - table[block - 1] == rule.step) ++block;
  rule.jump = block < n ? table[block] - table[0] : 0;
  for (int64_t i = 0; i < n; ++i)
    if (table[i] != rule.first + i / block * rule.jump + i % block * rule.step) return {};
  rule.block = block;
  return rule;
}

void SymbolMap::find_runs(const std::vector<int64_t>& table) {
  runs_.assign(table.size(), 1);
  for (size_t i = table.size() - 1; i-- > 0;)
    if (table[i + 1] == table[i] + 1) runs_[i] = runs_[i + 1] + 1;
}

void SymbolMap::prove() {
  const auto& view = symbol_->view;
  std::vector<int> order;
  for (int d = 0; d < rank(); ++d)
    if (view.sizes[d] > 1 && view.strides[d] > 0) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return view.strides[a] > view.strides[b]; });
  offsets_.assign(rank(), 0);
  int64_t rest = view.offset;
  for (int d : order) {
    offsets_[d] = rest / view.strides[d] * view.strides[d];
    rest -= offsets_[d];
  }
  // From the innermost dimension outwards: everything below must stay under this stride.
  int64_t below = rest;
  for (size_t i = order.size(); i-- > 0;) {
    const int d = order[i];
    const int64_t s = view.strides[d];
    if (below >= s) return;
    if (below > 0 && !additive_at(symbol_->geometry, s)) return;
    below += offsets_[d] + s * (view.sizes[d] - 1);
  }
  constant_ = symbol_->geometry.device_element(rest);
  separable_ = true;
}

std::vector<int64_t> SymbolMap::find_even_steps(const std::vector<int64_t>& t) {
  std::vector<int64_t> until(t.size());
  for (size_t i = t.size(); i-- > 0;) {
    const bool goes_on = i + 2 < t.size() && t[i + 1] - t[i] == t[i + 2] - t[i + 1];
    until[i] = goes_on ? until[i + 1] : static_cast<int64_t>(std::min(i + 1, t.size() - 1));
  }
  return until;
}

void SymbolMap::find_stick_step(const std::vector<int64_t>& t) {
  const int64_t whole = base::elements_per_stick(symbol_->format), n = static_cast<int64_t>(t.size());
  if (constant_ % whole != 0) return;
  int64_t run = 1;
  while (run < n && t[run] == t[run - 1] + 1) ++run;
  const int64_t lanes = run < n ? std::min(run, whole) : whole;
  const int64_t step = n > lanes ? t[lanes] - t[0] : lanes;
  bool even = t[0] % whole == 0 && step >= 0;
  for (int64_t i = 0; i < n && even; ++i) even = t[i] == t[0] + i / lanes * step + i % lanes;
  if (even) stick_step_ = step, stick_lanes_ = lanes;
}

int64_t SymbolMap::slow_part(int d, int64_t i) const {
  return symbol_->geometry.device_element(offsets_[d] + symbol_->view.strides[d] * i);
}

int64_t SymbolMap::slow_run(int64_t i) const {
  const auto& lane = symbol_->geometry.digits.back();
  const int d = rank() - 1;
  if (lane.div2 != 1 || lane.stride != 1 || symbol_->view.strides[d] != lane.div1) return 1;
  const int64_t x = offsets_[d] + symbol_->view.strides[d] * i;
  if (x % lane.div1 != 0 && lane.div1 != 1) return 1;
  const int64_t q = x / lane.div1 % lane.mod1;
  return std::min({lane.mod2 - q % lane.mod2, lane.mod1 - q, size(d) - i});
}

int64_t SymbolMap::common_padding() const {
  const auto& view = symbol_->view;
  if (symbol_->geometry.digits.empty()) return 0;
  const auto& lane = symbol_->geometry.digits.back();
  const int64_t last = view.offset + view.strides.back() * (view.sizes.back() - 1);
  int64_t pad = padding_after(last);
  // The other dimensions keep the place along the lanes' dimension, or it is looked at.
  std::vector<int> moving;
  int64_t places = 1;
  for (int d = 0; d + 1 < rank(); ++d) {
    if (view.sizes[d] == 1 || view.strides[d] % (lane.div1 * lane.mod1) == 0) continue;
    moving.push_back(d);
    places = places > most_places / view.sizes[d] ? most_places + 1 : places * view.sizes[d];
  }
  if (places > most_places) return 0;
  for (int64_t i = 1; i < places && pad > 0; ++i) {
    int64_t rest = i, o = last;
    for (int d : moving) o += rest % view.sizes[d] * view.strides[d], rest /= view.sizes[d];
    if (padding_after(o) != pad) pad = 0;
  }
  return pad;
}

int64_t SymbolMap::padding_after(int64_t o) const {
  const auto& g = symbol_->geometry;
  if (g.digits.empty()) return 0;
  const int64_t per_stick = base::elements_per_stick(g.format);
  const int64_t unit = g.digits.back().div1 * g.digits.back().div2;
  const int64_t at = g.device_element(o), left = per_stick - 1 - at % per_stick;
  for (int64_t k = 1; k <= left; ++k) {
    const int64_t next = o + k * unit;
    if (next < g.storage_elements && g.device_element(next) == at + k) return 0;
  }
  return left;
}

}  // namespace spyre::card
