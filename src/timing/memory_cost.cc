#include "timing/memory_cost.h"

#include <algorithm>
#include <cmath>

#include "timing/affine.h"
#include "timing/laws.h"

namespace spyre::timing {

using layout::numel;
using program::Entry;
using program::OnOutside;

namespace {

/// Accesses with more runs than this are not walked to count their bursts: each stick counts as one.
constexpr int64_t walked_runs = 1 << 16;

struct Reach {
  bool empty = false;        ///< the step's own tile is empty
  int64_t sticks = 0;        ///< of memory, of one core
  int64_t requests = 0;      ///< bursts
  int64_t gathered = 0;      ///< elements placed one by one
  int64_t extent_bytes = 0;  ///< from the first to the last element of one row's box
};

int64_t bursts(const layout::Access& access, const layout::Box& box, const layout::Access::Traffic& traffic,
               const device::Description& d) {
  if (traffic.runs > walked_runs) return traffic.sticks;
  const int64_t lanes = base::elements_per_stick(access.geometry().format);
  int64_t requests = 0;
  access.for_each_patch(box, [&](const layout::Patch& p) {
    const auto pieces = [&](int64_t elements) { return ceil_div(ceil_div(elements, lanes), d.burst_sticks); };
    const int64_t row = p.device_step == 1 ? p.count : (p.count - 1) * std::abs(p.device_step) + 1;
    if (p.device_step != 1 && p.device_step != lanes && p.device_step != 0) {
      requests += p.rows * p.count;  // scattered elements
    } else if (p.rows == 1 || std::abs(p.device_row_step) <= ceil_div(row, lanes) * lanes) {
      requests += pieces((p.rows - 1) * std::abs(p.device_row_step) + row);
    } else {
      requests += p.rows * pieces(row);
    }
  });
  return std::min(requests, traffic.sticks);
}

Reach reach(const program::MemRef& ref, const Sizes& sizes, const device::Description& d) {
  Reach r;
  const layout::Access& access = sizes.access(ref.symbol);
  const layout::HostView& view = access.view();
  layout::Box box;
  int64_t rows = 1;
  for (size_t i = 0; i < ref.entries.size(); ++i) {
    const Entry& e = ref.entries[i];
    const int64_t limit = view.sizes.at(i);
    int64_t first = 0, count = 1;
    if (e.kind == Entry::Kind::indexed) {
      const int64_t lo = sizes.value(e.lo), hi = sizes.value(e.hi);
      int64_t n = numel(box_sizes(e.index, sizes));
      // Rows left alone are not moved; the indices are taken as spread evenly over the view.
      if (e.outside != OnOutside::trap && limit > 0) n = ceil_div(n * std::clamp<int64_t>(hi - lo, 0, limit), limit);
      rows *= n;
      first = std::clamp<int64_t>(lo, 0, std::max<int64_t>(limit - 1, 0));
      count = limit > 0 ? 1 : 0;
    } else {
      const int64_t base = sizes.value(e.base), extent = sizes.value(e.extent);
      if (extent <= 0) r.empty = true;
      const int64_t skipped = base < 0 ? ceil_div(-base, e.step) : 0;
      const int64_t end = std::min(extent, base < limit ? ceil_div(limit - base, e.step) : 0);
      first = base + skipped * e.step;
      count = std::max<int64_t>(end - skipped, 0);
      if (count == 0) first = 0;
    }
    box.start.push_back(first);
    box.size.push_back(count);
    box.step.push_back(e.step);
  }
  if (r.empty || rows == 0 || numel(box.size) == 0) return r;
  const layout::Access::Traffic traffic = access.traffic(box);
  r.sticks = rows * traffic.sticks;
  r.requests = rows * bursts(access, box, traffic, d);
  r.gathered = access.sticks_along_last() || box.size.empty() || box.size.back() == 1 ? 0 : rows * traffic.runs;
  const auto [begin, end] = access.device_extent(box);
  r.extent_bytes = (end - begin) * base::format_bytes(access.geometry().format);
  return r;
}

Cost transfer(const Reach& r, int64_t lx_bytes, bool write, bool read_too, bool multicast, int64_t group,
              const Sizes& sizes, const device::Description& d) {
  Cost c;
  c.unit = write ? program::Unit::st : program::Unit::ld;
  c.write = write;
  c.lx_bytes = lx_bytes;
  c.lx_ps =
      lx_port_ps(lx_bytes, d) + cycles_ps(static_cast<double>(r.gathered) * d.lx_gather_element_cycles, d.core_ghz);
  MemoryWork w;
  w.write = write;
  w.core_bytes = r.sticks * base::stick_bytes * (read_too ? 2 : 1);
  w.copies = sizes.copies;
  w.multicast = multicast;
  w.requests = r.requests * (read_too ? 2 : 1);
  // Interleaved: the neighbour starts within this core's reach. Contiguous parts, each core its own, do not collide;
  // what is multicast is bound by its number of streams.
  if (!multicast && sizes.neighbour_bytes > 0 && sizes.neighbour_bytes < sizes.reach_bytes + r.extent_bytes)
    w.row_split_bytes = sizes.neighbour_bytes;
  w.extra_ns_per_byte = write ? sizes.write_extra_ns_per_byte : sizes.read_extra_ns_per_byte;
  const MemoryTime t = memory_time(w, d);
  c.memory_bytes = (w.core_bytes + group - 1) / group;
  c.memory_ps = t.memory_ps;
  c.stream_ps = t.stream_ps;
  c.unit_ps = std::max({t.unit_ps, c.lx_ps, int64_t{1}}) + cycles_ps(d.step_cycles, d.core_ghz);
  if (!write && r.sticks > 0) c.latency_ps = std::llround(d.memory_latency_ns * 1000);
  return c;
}

}  // namespace

int64_t lx_box_bytes(const std::vector<int64_t>& box, base::Format format) {
  int64_t sticks = 1;
  for (size_t i = 0; i < box.size(); ++i) {
    sticks *= i + 1 == box.size() ? ceil_div(box[i], base::elements_per_stick(format)) : box[i];
  }
  return sticks * base::stick_bytes;
}

Cost load_cost(const program::Load& load, const Sizes& sizes, const device::Description& d) {
  const std::vector<int64_t> box = box_sizes(load.to, sizes);
  const Reach r = reach(load.from, sizes, d);
  if (r.empty || numel(box) == 0) return {};
  const int64_t group = load.share == program::none ? 1 : sizes.nest.grid.at(load.share).size;
  return transfer(r, lx_box_bytes(box, sizes.kernel.buffers[load.to.buffer].format), false, false, group > 1, group,
                  sizes, d);
}

Cost store_cost(const program::Store& store, const Sizes& sizes, const device::Description& d) {
  const std::vector<int64_t> box = box_sizes(store.from, sizes);
  Reach r = reach(store.to, sizes, d);
  if (r.empty || numel(box) == 0) return {};
  // Rows chosen by an index: each index lies with one of the cores that share the rows out among them.
  if (store.where_entry != program::none) {
    const int64_t cores = sizes.nest.cores();
    r.sticks = ceil_div(r.sticks, cores);
    r.requests = ceil_div(r.requests, cores);
  }
  // Lanes apart from each other share sticks with lanes that must stay: read, modify, write.
  return transfer(r, lx_box_bytes(box, sizes.kernel.buffers[store.from.buffer].format), true, r.gathered > 0, false, 1,
                  sizes, d);
}

}  // namespace spyre::timing
