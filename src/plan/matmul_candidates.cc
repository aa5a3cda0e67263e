// Candidates of the matmul form: ways of dividing the axes between cores, with the largest tiles that fit, ranked by a
// rough estimate.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/rounding.h"
#include "plan/matmul.h"
#include "timing/laws.h"

namespace spyre::plan {

using base::ceil_div;
using base::Format;
using base::round_up;
using graph::Contract;
using Role = Contract::Role;

namespace {

class MatmulSearch {
 public:
  MatmulSearch(const Context& context, std::span<const graph::Id> nodes)
      : context_(context), d_(context.description), shape_(matmul_shape(context, nodes)) {
    kernel_.form = Form::matmul;
    kernel_.nodes.assign(nodes.begin(), nodes.end());
    for (int side = 0; side < 2; ++side) {
      for (size_t p = 0; p < (shape_.shared(side) ? 1 : shape_.products.size()); ++p) {
        const int32_t repack = shape_.repack_of(side, p);
        const Format f = repack != graph::none ? context.plan.repacks[static_cast<size_t>(repack)].geometry.format
                                               : memory_format(context, shape_.operand(side, p).value);
        operands_.push_back(
            {side, p, base::format_bytes(f), f != shape_.compute ? base::format_bytes(shape_.compute) : 0});
      }
    }
    measure_epilogue(nodes);
  }

  std::vector<KernelPlan> run() {
    kernel_.grid.assign(shape_.parallel.size() + 1, 1);
    divide(0, 1);
    std::stable_sort(found_.begin(), found_.end(),
                     [](const KernelPlan& x, const KernelPlan& y) { return x.cost_ps < y.cost_ps; });
    keep_different();
    for (const int64_t limit : {256, 64}) {  // smaller tiles, in case the estimate of LX was too low
      kernel_.grid =
          found_.empty() || limit == 64 ? std::vector<int32_t>(shape_.parallel.size() + 1, 1) : found_.front().grid;
      choose_tile(limit == 64 ? 16 : 32, 64, limit);
      kernel_.cost_ps = 0;
      kernel_.slots = limit == 64 ? 1 : 2;
      found_.push_back(kernel_);
    }
    for (KernelPlan& k : found_) k.cost_ps = 0;
    return std::move(found_);
  }

  bool fits_smallest() {
    kernel_.grid.assign(shape_.parallel.size() + 1, 1);
    choose_tile(32, 64, 64);
    return lx_bytes() <= d_.lx_usable_bytes / 2;
  }

 private:
  static constexpr size_t most = 12;

  struct Operand {
    int side = 0;
    size_t product = 0;
    int64_t bytes = 2, converted_bytes = 0;  ///< an element, as it is loaded and where it is converted (0: it isn't)
  };
  const AxisRef& ref_of(const Operand& o) const { return shape_.operand(o.side, o.product); }
  int64_t products() const { return static_cast<int64_t>(shape_.products.size()); }

  void measure_epilogue(std::span<const graph::Id> nodes) {
    const auto row = static_cast<size_t>(shape_.row), lane = static_cast<size_t>(shape_.lane);
    for (size_t n = 0; n < nodes.size(); ++n) {
      const NodeAxes& node = shape_.axes.nodes[n];
      const bool product = shape_.is_product(n);
      for (size_t r = 0; !product && r < node.reads.size(); ++r) {
        const AxisRef& read = node.reads[r];
        if (read.internal) continue;
        const int64_t bytes = base::format_bytes(memory_format(context_, read.value));
        if (read.strides[row] != 0) {
          tile_bytes_ += 2 * bytes;
          read_bytes_ += static_cast<double>(bytes) * ns_per_byte(read.value) * d_.memory_gbps;
        } else if (read.strides[lane] != 0) {
          row_bytes_ += 2 * bytes;
        }
      }
      const graph::Node& member = context_.graph.nodes[static_cast<size_t>(nodes[n])];
      reduces_ += std::holds_alternative<graph::Reduce>(member.kind) ? 1 : 0;
      for (const graph::Id value : member.results) {
        if (!product) tile_bytes_ += 4;
        if (!in_memory(context_.plan.homes[at(value)].kind)) continue;
        const int64_t bytes = base::format_bytes(memory_format(context_, value));
        tile_bytes_ += 2 * bytes;
        written_bytes_ += static_cast<double>(bytes);
      }
    }
  }

  /// The best ones, of which few differ in the parts of the rows alone.
  void keep_different() {
    const auto row = std::find(shape_.parallel.begin(), shape_.parallel.end(), shape_.row) - shape_.parallel.begin();
    std::vector<KernelPlan> kept;
    std::vector<std::pair<std::vector<int32_t>, int>> seen;
    for (KernelPlan& k : found_) {
      std::vector<int32_t> others = k.grid;
      others[static_cast<size_t>(row)] = 0;
      auto at = std::find_if(seen.begin(), seen.end(), [&](const auto& s) { return s.first == others; });
      if (at == seen.end()) at = seen.insert(seen.end(), {others, 0});
      if (++at->second > 3) continue;
      kept.push_back(std::move(k));
      if (kept.size() == most) break;
    }
    found_ = std::move(kept);
  }

  /// All ways of dividing parallel axis i and those behind it, and then the depth.
  void divide(size_t i, int64_t cores) {
    if (i == shape_.parallel.size()) return divide_depth(cores);
    const int a = shape_.parallel[i];
    const int64_t size = shape_.axes.sizes[static_cast<size_t>(a)];
    int64_t last = 0;
    for (int64_t parts = 1; parts <= std::min<int64_t>(size, d_.cores / cores); ++parts) {
      const int64_t chunk = matmul_chunk(shape_, a, parts);
      if (chunk == last || ceil_div(size, chunk) != parts) continue;
      last = chunk;
      kernel_.grid[i] = static_cast<int32_t>(parts);
      divide(i + 1, cores * parts);
    }
    kernel_.grid[i] = 1;
  }

  void divide_depth(int64_t cores) {
    const int64_t size = shape_.axes.sizes[static_cast<size_t>(shape_.depth)];
    for (int64_t parts = 1; parts <= d_.cores / cores; parts *= 2) {
      if (parts > 1 && (shape_.sum != Format::f32 || ceil_div(size, parts) < 256 || shape_.empty)) break;
      if (ceil_div(size, matmul_chunk(shape_, shape_.depth, parts)) != parts) continue;
      kernel_.grid.back() = static_cast<int32_t>(parts);
      std::vector<int64_t> last;
      for (const int64_t rows : {128, 64, 32}) {  // more trips overlap better, fewer multiply better
        choose_tile(rows, 512, std::max<int64_t>(size, 1));
        if (kernel_.tile == last) continue;
        last = kernel_.tile;
        estimate();
      }
    }
    kernel_.grid.back() = 1;
  }

  int64_t chunk(int axis) const {
    if (axis == shape_.depth) return matmul_chunk(shape_, axis, kernel_.grid.back());
    const auto at = std::find(shape_.parallel.begin(), shape_.parallel.end(), axis) - shape_.parallel.begin();
    return matmul_chunk(shape_, axis, kernel_.grid[static_cast<size_t>(at)]);
  }

  /// The largest tile within these limits that fits: even parts of what a core has.
  void choose_tile(int64_t rows, int64_t lanes, int64_t depth) {
    const int64_t all_rows = chunk(shape_.row), all_lanes = chunk(shape_.lane), all_depth = chunk(shape_.depth);
    const int64_t stick = base::elements_per_stick(Format::dl16);
    const auto even = [](int64_t all, int64_t limit, int64_t unit) {
      const int64_t trips = ceil_div(all, std::max(limit, unit));
      return trips <= 1 ? all : std::min(all, round_up(ceil_div(all, trips), unit));
    };
    const int64_t lane_unit =
        shape_.whole_rows ? all_lanes
                          : std::lcm(stick, std::max<int64_t>(shape_.align[static_cast<size_t>(shape_.lane)], 1));
    const int64_t row_unit = std::max<int64_t>(shape_.align[static_cast<size_t>(shape_.row)], 1);
    for (;;) {
      kernel_.tile = {shape_.trap ? 1 : even(all_rows, rows, row_unit), even(all_lanes, lanes, lane_unit),
                      even(all_depth, depth, stick)};
      if (lx_bytes() <= d_.lx_usable_bytes * 9 / 10) return;
      if (kernel_.tile[2] > 512) {
        depth = std::max<int64_t>(512, kernel_.tile[2] / 2);
      } else if (kernel_.tile[1] > 256 && lanes > 256) {
        lanes = 256;
      } else if (kernel_.tile[0] > 64 && rows > 64) {
        rows = 64;
      } else if (kernel_.tile[2] > stick && depth > stick) {
        depth = std::max(stick, kernel_.tile[2] / 2);
      } else if (kernel_.tile[1] > lane_unit && lanes > stick) {
        lanes = std::max(stick, kernel_.tile[1] / 2);
      } else if (kernel_.tile[0] > row_unit && rows > 1) {
        rows = std::max<int64_t>(1, kernel_.tile[0] / 2);
      } else {
        return;
      }
    }
  }

  int64_t padded(int64_t lanes, int64_t bytes) const { return round_up(lanes * bytes, base::stick_bytes); }

  int64_t operand_bytes(const Operand& o, int64_t bytes) const {
    const MatmulShape::Tile t = shape_.tile_of(o.side, o.product);
    return extent(t.outer) * padded(extent(t.inner), bytes);
  }
  int64_t extent(int axis) const { return kernel_.tile[axis == shape_.row ? 0 : axis == shape_.lane ? 1 : 2]; }

  int64_t lx_bytes() const {
    int64_t bytes = 0;
    for (const Operand& o : operands_)
      bytes += kernel_.slots * (operand_bytes(o, o.bytes) + operand_bytes(o, o.converted_bytes));
    const int64_t sum = kernel_.tile[0] * padded(kernel_.tile[1], 4);
    return bytes + kernel_.slots * sum * products() + ceil_div(sum, 4) * tile_bytes_ +
           padded(kernel_.tile[1], 4) * row_bytes_;
  }

  /// How often a core loads an operand: once per change of what it depends on.
  double loads_of(const Operand& o, const std::vector<AxisParts>& parts) const {
    double loads = 1, pending = 1;
    for (int a : matmul_order(shape_, kernel_)) {
      pending *= static_cast<double>(parts[static_cast<size_t>(a)].trips());
      if (ref_of(o).strides[static_cast<size_t>(a)] != 0) loads *= pending, pending = 1;
    }
    return loads;
  }

  /// Of one tile of an operand, on all cores at once: at the pace of one core, and of the memory.
  std::pair<double, double> load_ps(const Operand& o, double cores) const {
    const AxisRef& ref = ref_of(o);
    double group = 1;  // that shares it
    for (size_t i = 0; i < shape_.parallel.size(); ++i)
      if (ref.strides[static_cast<size_t>(shape_.parallel[i])] == 0)
        group = std::max(group, static_cast<double>(kernel_.grid[i]));
    const auto bytes = static_cast<double>(operand_bytes(o, o.bytes));
    return {bytes * 1000 / d_.memory_core_gbps, bytes * cores / group * 1000 * ns_per_byte(ref.value)};
  }
  /// What the instance makes has just been written.
  double ns_per_byte(graph::Id value) const {
    const bool made = context_.graph.values[at(value)].node != graph::none;
    return 1 / d_.memory_gbps + (made ? d_.raw_reuse_ns_per_byte : 0);
  }

  /// Modelled time of the busiest core, roughly: enough to rank.
  void estimate() {
    const auto parts = matmul_parts(shape_, kernel_);
    double tiles = 1, points = 1;
    for (int a : shape_.terms) points *= static_cast<double>(parts[static_cast<size_t>(a)].size);
    for (int a : shape_.parallel) tiles *= static_cast<double>(parts[static_cast<size_t>(a)].trips());
    const double depth_trips = static_cast<double>(parts[static_cast<size_t>(shape_.depth)].trips());
    const double steps = tiles * points * depth_trips;
    const int64_t rows = kernel_.tile[0], lanes = kernel_.tile[1], depth = kernel_.tile[2];
    double work = 0;
    if (shape_.on_pt) {
      int64_t turned = 0;
      for (const Operand& o : operands_)
        if (shape_.tile_of(o.side, o.product).turned) turned += operand_bytes(o, o.bytes);
      const int64_t port =
          timing::lx_port_ps(products() * timing::pt_lx_bytes(rows, lanes, depth, shape_.compute, d_) + 2 * turned, d_);
      const int64_t pt = products() * timing::pt_ps(rows, lanes, depth, shape_.compute, d_);
      work = static_cast<double>(std::max(pt + timing::lx_port_ps(2 * turned, d_), port));
    } else {
      const int64_t vectors = products() * rows * depth * ceil_div(lanes, d_.sfp_lanes_f32);
      work = static_cast<double>(timing::sfp_ps(static_cast<double>(vectors), d_));
    }
    double cores = 1;
    for (const int32_t p : kernel_.grid) cores *= p;
    // One load after the other on each core, while all of them share the memory.
    double load = 0, first = 0, memory = 0;
    const bool streams = depth_trips > 1 || points > 1;
    for (const Operand& o : operands_) {
      const double loads = streams ? steps : loads_of(o, parts);
      const auto [core_ps, memory_ps] = load_ps(o, cores);
      load += loads * std::max(core_ps, memory_ps);
      first += std::max(core_ps, memory_ps);
      memory += loads * memory_ps;
    }
    const double elements = static_cast<double>(rows * padded(lanes, 2) / 2) * cores / kernel_.grid.back();
    const auto share = [&](double bytes) { return bytes * elements * 1000 / d_.memory_gbps; };
    load += tiles * share(read_bytes_);
    memory += tiles * share(read_bytes_ + written_bytes_);
    double psum = 0;
    if (kernel_.grid.back() > 1)
      psum = tiles * static_cast<double>(products() * timing::psum_ps(rows * lanes * 4, kernel_.grid.back(), 1, d_));
    const double start = static_cast<double>(timing::cycles_ps(4 * d_.step_cycles, d_.core_ghz));
    // The accumulator's way through the SFP, once a tile.
    const int64_t vectors = rows * ceil_div(lanes, d_.sfp_lanes_f32);
    const double sfp =
        tiles * static_cast<double>(
                    timing::sfp_ps(static_cast<double>(vectors) * static_cast<double>(2 * kernel_.nodes.size()), d_) +
                    timing::sfp_lanes_ps(vectors * reduces_, d_));
    // What nothing overlaps: the first operands on their way in, the last tile's work, and its result on its way out.
    const double total = std::max({steps * (work + start), load, memory, sfp}) + psum + first + work + sfp / tiles +
                         share(written_bytes_) + start * 8;
    kernel_.cost_ps = static_cast<int64_t>(std::min(total, 9e17));
    found_.push_back(kernel_);
    if (found_.size() > 4096) {
      std::nth_element(found_.begin(), found_.begin() + 64, found_.end(),
                       [](const KernelPlan& x, const KernelPlan& y) { return x.cost_ps < y.cost_ps; });
      found_.resize(64);
    }
  }

  const Context& context_;
  const device::Description& d_;
  MatmulShape shape_;
  KernelPlan kernel_;
  std::vector<Operand> operands_;              ///< that are loaded
  int64_t tile_bytes_ = 0, row_bytes_ = 0;     ///< of LX for the maps: per element of the tile, and of one row
  int64_t reduces_ = 0;                        ///< of the rows, across their lanes
  double read_bytes_ = 0, written_bytes_ = 0;  ///< of memory, per element of the tile
  std::vector<KernelPlan> found_;
};

}  // namespace

namespace {

/// Whether Maps walk an axis that another node's result in memory lacks: it would be stored once an index of that axis.
bool repeats_a_result(const Context& context, std::span<const graph::Id> nodes, const Axes& axes) {
  const auto stored = [&](graph::Id value) { return in_memory(context.plan.homes[at(value)].kind); };
  for (size_t a = 0; a < axes.sizes.size(); ++a) {
    if (axes.nodes[0].has[a] || axes.sizes[a] == 1) continue;
    for (size_t n = 0; n < nodes.size(); ++n) {
      const std::vector<graph::Id>& results = context.graph.nodes[at(nodes[n])].results;
      if (!axes.nodes[n].has[a] && std::any_of(results.begin(), results.end(), stored)) return true;
    }
  }
  return false;
}

}  // namespace

bool matmul_accepts(const Context& context, std::span<const graph::Id> nodes) {
  constexpr size_t most_nodes = 24;
  if (nodes.empty() || nodes.size() > most_nodes) return false;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const graph::Kind& kind = context.graph.nodes[at(nodes[n])].kind;
    const bool follows = std::holds_alternative<graph::Map>(kind) || std::holds_alternative<graph::Reduce>(kind);
    if (!std::holds_alternative<Contract>(kind) && (n == 0 || !follows)) return false;
  }
  try {
    const MatmulShape shape = matmul_shape(context, nodes);
    if (shape.empty && nodes.size() > 1) return false;
    const NodeAxes& product = shape.axes.nodes[0];
    for (size_t n = 1; n < nodes.size(); ++n) {
      if (shape.is_product(n)) continue;
      const NodeAxes& node = shape.axes.nodes[n];
      if (std::none_of(node.reads.begin(), node.reads.end(), [](const AxisRef& r) { return r.internal; })) return false;
      const bool reduces = std::holds_alternative<graph::Reduce>(context.graph.nodes[at(nodes[n])].kind);
      for (size_t a = 0; a < shape.axes.sizes.size(); ++a) {
        const bool lanes = static_cast<int>(a) == shape.lane;
        if (node.reduced[a] != (reduces && lanes)) return false;
        // Of whole rows there may be values without lanes.
        const bool must_have = product.has[a] && !product.reduced[a] && !(lanes && shape.whole_rows);
        if (must_have ? !node.has[a] : node.has[a] && product.reduced[a]) return false;
      }
    }
    return !repeats_a_result(context, nodes, shape.axes) && MatmulSearch(context, nodes).fits_smallest();
  } catch (const Error& error) {
    if (error.fault() == Fault::unimplemented) return false;
    throw;
  }
}

std::vector<KernelPlan> matmul_candidates(const Context& context, std::span<const graph::Id> nodes) {
  return MatmulSearch(context, nodes).run();
}

}  // namespace spyre::plan
