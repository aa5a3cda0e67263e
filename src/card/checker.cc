#include "card/checker.h"

#include <algorithm>

#include "base/error.h"

namespace spyre::card {

Checker::Checker(const program::Program& program, const device::Description& description)
    : program_(program), lx_bytes_(description.lx_bytes) {}

void Checker::begin_kernel() {
  for (auto& d : defined_) std::fill(d.begin(), d.end(), uint8_t{0});
  writers_.clear();
}

std::vector<uint8_t>& Checker::shadow(const Core& core) const {
  if (static_cast<int>(defined_.size()) <= core.id) defined_.resize(core.id + 1);
  auto& d = defined_[core.id];
  if (d.empty()) d.assign(static_cast<size_t>(lx_bytes_), 0);
  return d;
}

int64_t Checker::offset(const Core& core, const std::byte* at) const { return at - core.lx; }

void Checker::declare(const Core& core, Id buffer) {
  auto& d = shadow(core);
  const auto& b = core.run->kernel->buffers[buffer];
  const int64_t first = offset(core, core.buffers[buffer]);
  if (first < 0 || first + b.slot_bytes() > lx_bytes_) fail(Fault::program, "buffer {} leaves LX", b.name);
  std::fill_n(d.begin() + first, b.slot_bytes(), uint8_t{0});
}

void Checker::read(const Core& core, const View& v) const {
  if (v.numel() == 0) return;
  const auto& d = shadow(core);
  const int64_t bytes = base::format_bytes(v.format), rows = v.rows(), n = v.last_size(), step = v.stride[v.rank - 1];
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = offset(core, v.row(r));
    if (step == 1 && std::find(d.begin() + at, d.begin() + at + n * bytes, uint8_t{0}) == d.begin() + at + n * bytes)
      continue;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < bytes; ++k)
        if (!d[static_cast<size_t>(at + i * step * bytes + k)])
          fail(Fault::program, "core {} reads undefined element (row {}, column {}) of buffer {}", core.id, r, i,
               core.run->kernel->buffers[v.buffer].name);
  }
}

void Checker::mark(const Core& core, const View& v, int64_t row_end, uint8_t value) {
  if (v.numel() == 0) return;
  auto& d = shadow(core);
  const int64_t bytes = base::format_bytes(v.format), rows = v.rows(), n = row_end < 0 ? v.last_size() : row_end;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = offset(core, v.row(r));
    if (at < 0 || at + n * bytes > lx_bytes_)
      fail(Fault::program, "core {} writes outside LX through buffer {}", core.id,
           core.run->kernel->buffers[v.buffer].name);
    std::fill_n(d.begin() + at, n * bytes, value);
  }
}

void Checker::write(const Core& core, const View& view, int64_t row_end) { mark(core, view, row_end, 1); }
void Checker::undefine(const Core& core, const View& view) { mark(core, view, -1, 0); }

void Checker::read_matrix(const Core& core, View v, int64_t rows, int64_t cols) const {
  v.size[v.rank - 1] = cols;
  if (v.rank > 1) v.size[v.rank - 2] = rows;
  read(core, v);
}

void Checker::write_matrix(const Core& core, View v, int64_t rows, int64_t cols) {
  v.size[v.rank - 1] = cols;
  if (v.rank > 1) v.size[v.rank - 2] = rows;
  write(core, v);
}

void Checker::read_box(const Core& core, const View& from, const SymbolMap& map, const MemBox& box, int64_t at) const {
  const auto& d = shadow(core);
  const int64_t bytes = map.element_bytes(), first = offset(core, from.data) + at * bytes;
  const int64_t step = box.rank ? box.dims[box.rank - 1].stride : 1;
  map.walk(box, [&](int64_t tile, int64_t, int64_t n, bool) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < bytes; ++k)
        if (!d[static_cast<size_t>(first + (tile + i * step) * bytes + k)])
          fail(Fault::program, "core {} stores an undefined element of buffer {}", core.id,
               core.run->kernel->buffers[from.buffer].name);
  });
}

bool Checker::is_temp(const Core& core, Id formal) const {
  return program_.symbols[core.run->program_symbol[formal]].direction == program::Direction::temp;
}

namespace {

/// Calls fn(stick number, first byte in it, one past its last byte) for the sticks of a byte range.
template <typename Fn>
void for_sticks(uint64_t address, uint64_t bytes, Fn&& fn) {
  constexpr uint64_t stick = base::stick_bytes;
  for (uint64_t at = address; at < address + bytes;) {
    const uint64_t end = std::min(address + bytes, (at / stick + 1) * stick);
    fn(at / stick, at % stick, at % stick + (end - at));
    at = end;
  }
}

}  // namespace

void Checker::load(const Core& core, const SymbolMap& map, Id formal, const MemBox& box) const {
  const int64_t bytes = map.element_bytes();
  const uint64_t address = core.run->symbol_address[formal];
  const bool temp = is_temp(core, formal);
  map.walk(box, [&](int64_t, int64_t device, int64_t n, bool) {
    for_sticks(address + static_cast<uint64_t>(device * bytes), static_cast<uint64_t>(n * bytes),
               [&](uint64_t stick, uint64_t first, uint64_t end) {
                 const auto writer = writers_.find(stick);
                 if (writer != writers_.end() && writer->second != core.id)
                   fail(Fault::program, "core {} loads a stick of {} that core {} has stored with no barrier between",
                        core.id, map.symbol().name, writer->second);
                 if (!temp) return;
                 const auto found = temps_.find(stick);
                 for (uint64_t bit = first; bit < end; ++bit)
                   if (found == temps_.end() || !(found->second[bit / 64] >> bit % 64 & 1))
                     fail(Fault::program, "core {} loads an element of temporary {} that nobody has stored", core.id,
                          map.symbol().name);
               });
  });
}

void Checker::store(const Core& core, const SymbolMap& map, Id formal, const MemBox& box) {
  const int64_t bytes = map.element_bytes();
  const uint64_t address = core.run->symbol_address[formal];
  const bool temp = is_temp(core, formal);
  map.walk(box, [&](int64_t, int64_t device, int64_t n, bool) {
    for_sticks(address + static_cast<uint64_t>(device * bytes), static_cast<uint64_t>(n * bytes),
               [&](uint64_t stick, uint64_t first, uint64_t end) {
                 const auto [writer, fresh] = writers_.try_emplace(stick, core.id);
                 if (!fresh && writer->second != core.id)
                   fail(Fault::program, "cores {} and {} store to the same stick of {}", writer->second, core.id,
                        map.symbol().name);
                 if (!temp) return;
                 auto& mask = temps_[stick];
                 for (uint64_t bit = first; bit < end; ++bit) mask[bit / 64] |= uint64_t{1} << bit % 64;
               });
  });
}

}  // namespace spyre::card
