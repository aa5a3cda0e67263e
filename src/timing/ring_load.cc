// The data ring: cores are nodes 0 .. cores - 1, the memory node is the last; every transfer takes the shorter way
// round.
#include <algorithm>
#include <map>
#include <set>

#include "timing/cost.h"

namespace spyre::timing {

using program::Id;
using program::Ring;

namespace {

/// Bytes per link and direction. Link i of a direction leaves node i.
class Links {
 public:
  explicit Links(int nodes) : nodes_(nodes), up_(nodes, 0.0), down_(nodes, 0.0) {}

  /// Signed hops of the shorter way; upwards when both are equal.
  int way(int from, int to) const {
    const int up = ((to - from) % nodes_ + nodes_) % nodes_;
    return 2 * up <= nodes_ ? up : up - nodes_;
  }
  void add(int from, int hops, double bytes) {
    for (int i = 0; i < hops; ++i) up_[(from + i) % nodes_] += bytes;
    for (int i = 0; i < -hops; ++i) down_[((from - i) % nodes_ + nodes_) % nodes_] += bytes;
    longest_ = std::max(longest_, std::abs(hops));
  }
  /// One source to many: copied on the way, so a link carries the data once.
  void multicast(int from, const std::vector<int>& to, double bytes) {
    int up = 0, down = 0;
    for (const int node : to) {
      const int hops = way(from, node);
      up = std::max(up, hops);
      down = std::min(down, hops);
    }
    add(from, up, bytes);
    add(from, down, bytes);
  }
  RingLoad load() const {
    return {std::max(*std::max_element(up_.begin(), up_.end()), *std::max_element(down_.begin(), down_.end())),
            longest_};
  }

 private:
  int nodes_;
  std::vector<double> up_, down_;
  int longest_ = 0;
};

struct Slice {
  std::vector<int64_t> start, size;
  auto operator<=>(const Slice&) const = default;
};

/// The part of the whole that a core holds or wants; false when it has none.
bool slice_of(const std::vector<Id>& ranges, const std::vector<int64_t>& box, int core, const Sizes& sizes,
              Slice& out) {
  out = {};
  for (size_t i = 0; i < ranges.size(); ++i) {
    int64_t start = 0, size = i < box.size() ? box[i] : 1;
    if (ranges[i] != program::none && !sizes.slice(ranges[i], core, start, size)) return false;
    if (size <= 0) return false;
    out.start.push_back(start);
    out.size.push_back(size);
  }
  return true;
}

void remap(const Ring& ring, const Sizes& sizes, const device::Description& d, Links& links) {
  const base::Format format = sizes.kernel.buffers[ring.from.buffer].format;
  const std::vector<int64_t> from_box = box_sizes(ring.from, sizes), to_box = box_sizes(ring.to, sizes);
  std::map<Slice, std::vector<int>> owners;  // equal slices: the nearest core sends
  Slice slice;
  for (int core = 0; core < d.cores; ++core) {
    if (slice_of(ring.from_ranges, from_box, core, sizes, slice)) owners[slice].push_back(core);
  }
  for (int core = 0; core < d.cores; ++core) {
    if (!slice_of(ring.to_ranges, to_box, core, sizes, slice)) continue;
    for (const auto& [part, cores] : owners) {
      double elements = 1;
      for (size_t i = 0; i < part.start.size() && i < slice.start.size(); ++i) {
        const int64_t lo = std::max(part.start[i], slice.start[i]);
        const int64_t hi = std::min(part.start[i] + part.size[i], slice.start[i] + slice.size[i]);
        elements *= static_cast<double>(std::max<int64_t>(hi - lo, 0));
      }
      if (elements == 0) continue;
      int best = links.way(cores[0], core);
      int sender = cores[0];
      for (const int other : cores) {
        if (std::abs(links.way(other, core)) < std::abs(best)) best = links.way(other, core), sender = other;
      }
      links.add(sender, best, elements * base::format_bytes(format));
    }
  }
}

}  // namespace

int64_t grid_stride(const program::Nest& nest, Id g) {
  int64_t stride = 1;
  for (size_t i = g + 1; i < nest.grid.size(); ++i) stride *= nest.grid[i].size;
  return stride;
}

RingLoad ring_load(const Ring& ring, int64_t core_bytes, const Sizes& sizes, const device::Description& d) {
  Links links(d.ring_nodes);
  if (ring.kind == Ring::Kind::remap) {
    remap(ring, sizes, d, links);
    return links.load();
  }
  const int64_t stride = grid_stride(sizes.nest, ring.grid), group = sizes.nest.grid.at(ring.grid).size;
  for (int core = 0; core < sizes.nest.cores(); ++core) {
    const int64_t mine = core / stride % group;
    if (ring.kind == Ring::Kind::shift) {
      const int64_t to = ((mine + ring.by) % group + group) % group;
      links.add(core, links.way(core, static_cast<int>(core + (to - mine) * stride)), static_cast<double>(core_bytes));
    } else {
      std::vector<int> others;
      for (int64_t to = 0; to < group; ++to) others.push_back(static_cast<int>(core + (to - mine) * stride));
      links.multicast(core, others, static_cast<double>(core_bytes));
    }
  }
  return links.load();
}

}  // namespace spyre::timing
