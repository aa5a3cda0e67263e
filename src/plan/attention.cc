#include "plan/attention.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "base/rounding.h"
#include "timing/laws.h"

namespace spyre::plan {
namespace {

using base::ceil_div;
using base::Format;
using base::round_up;
using graph::Attention;
using Shape = AttentionShape;

[[noreturn]] void refuse_attention(const graph::Node& node, std::string_view what) {
  const auto& n = std::get<Attention>(node.kind);
  std::string text;
  for (const graph::Size& s : n.q.sizes) text += (text.empty() ? "" : ", ") + s.text();
  fail(Fault::unimplemented, "{} ({}): attention of [{}] to {} keys with {}", node.loc.op, node.loc.source, text,
       n.k.sizes[2].text(), what);
}

/// A reference [batch, heads, x, y] over the axes; heads are those of q, or (`grouped` false) of k.
AxisRef over_axes(const Context& context, const graph::Ref& given, const Shape& shape, bool heads_of_q, int x, int y) {
  const graph::Ref ref = resolve(given, context.graph, context.plan.homes);
  const std::vector<int64_t> strides = numbers(ref.strides);
  AxisRef out;
  out.value = ref.value;
  out.offset = number(ref.offset);
  out.strides.assign(Shape::axis_count, 0);
  out.strides[Shape::batch] = strides[0];
  out.strides[Shape::kv_head] = heads_of_q ? strides[1] * shape.sizes[Shape::group] : strides[1];
  out.strides[Shape::group] = heads_of_q ? strides[1] : 0;
  out.strides[static_cast<size_t>(x)] = strides[2];
  if (y >= 0) out.strides[static_cast<size_t>(y)] = strides[3];
  for (size_t a = 0; a < out.strides.size(); ++a)
    if (shape.sizes[a] <= 1) out.strides[a] = 0;
  return out;
}

Format format_of(const Context& context, const AxisRef& ref) {
  return context.plan.homes[static_cast<size_t>(ref.value)].geometry.format;
}

void add_alignment(const Context& context, Shape& shape, const AxisRef& ref, std::initializer_list<int> walked) {
  const layout::Geometry& geometry = context.plan.homes[static_cast<size_t>(ref.value)].geometry;
  store_shape(ref, shape.sizes, std::span(walked.begin(), walked.size()), geometry)
      .add_alignment(Shape::divided, shape.align);
}

}  // namespace

AttentionShape attention_shape(const Context& context, graph::Id id, int64_t heads) {
  const graph::Node& node = context.graph.nodes[static_cast<size_t>(id)];
  const Attention& n = std::get<Attention>(node.kind);
  const std::vector<int64_t> q = numbers(n.q.sizes), k = numbers(n.k.sizes), v = numbers(n.v.sizes);
  Shape shape;
  const int64_t kv_heads = std::max<int64_t>(k[1], 1);
  shape.sizes = {q[0], kv_heads, q[1] / kv_heads, q[2], k[2], q[3], v[3], 1};
  if (q[3] == 0) refuse_attention(node, "heads of no elements");
  shape.q = over_axes(context, n.q, shape, true, Shape::query, Shape::depth);
  shape.k = over_axes(context, n.k, shape, false, Shape::key, Shape::depth);
  shape.v = over_axes(context, n.v, shape, false, Shape::key, Shape::value);
  if (n.mask) {
    shape.mask = over_axes(context, *n.mask, shape, true, Shape::query, Shape::key);
    shape.keep_mask = context.graph.values[static_cast<size_t>(n.mask->value)].type == graph::HostType::b8;
  }
  shape.out = over_axes(context, graph::whole(context.graph, node.results[0]), shape, true, Shape::query, Shape::value);
  for (const AxisRef* ref : {&shape.q, &shape.k, &shape.v})
    for (const int64_t s : ref->strides)
      if (s < 0) refuse_attention(node, "an operand that is read backwards");
  if (shape.mask && *std::min_element(shape.mask->strides.begin(), shape.mask->strides.end()) < 0)
    refuse_attention(node, "a mask that is read backwards");
  shape.format = format_of(context, shape.q);
  if (format_of(context, shape.k) != shape.format || format_of(context, shape.v) != shape.format)
    refuse_attention(node, "q, k and v in different formats");
  shape.on_pt = shape.format == Format::dl16 || shape.format == Format::f16;
  if (!shape.on_pt && shape.format != Format::f32)
    refuse_attention(node, "q, k and v that are no float16, bfloat16 or float32");
  if (shape.sizes[Shape::query] == 1 && shape.sizes[Shape::group] > 1) shape.row = Shape::group;
  if (n.with_logsumexp) {
    const Home::Kind kind = context.plan.homes[static_cast<size_t>(node.results[1])].kind;
    if (kind != Home::Kind::dead)
      shape.logsumexp = over_axes(context, graph::whole(context.graph, node.results[1]), shape, true, Shape::query, -1);
  }
  if (heads > 1) {
    if (heads != heads_that_fill_sticks(shape)) refuse_attention(node, fmt::format("{} heads in a tile", heads));
    shape.heads = heads;
    shape.sizes[Shape::kv_head] /= heads;
    for (const int a : {Shape::depth, Shape::value}) shape.sizes[static_cast<size_t>(a)] *= heads;
    for (AxisRef* ref : {&shape.q, &shape.k, &shape.v, &shape.out}) ref->strides[Shape::kv_head] *= heads;
  }
  add_alignment(context, shape, shape.out, {Shape::batch, Shape::kv_head, Shape::group, Shape::query, Shape::value});
  if (shape.logsumexp)
    add_alignment(context, shape, *shape.logsumexp, {Shape::batch, Shape::kv_head, Shape::group, Shape::query});
  return shape;
}

int64_t heads_that_fill_sticks(const AttentionShape& shape) {
  const int64_t lanes = base::elements_per_stick(shape.format), all = shape.sizes[Shape::kv_head];
  const int64_t depth = shape.sizes[Shape::depth], value = shape.sizes[Shape::value];
  const int64_t heads = std::lcm(std::lcm(depth, lanes) / depth, std::lcm(value, lanes) / value);
  constexpr int64_t most = 4;
  if (heads <= 1 || heads > most || all % heads != 0 || shape.sizes[Shape::group] != 1 || shape.logsumexp) return 1;
  if (shape.mask && shape.mask->strides[Shape::kv_head] != 0) return 1;
  const auto adjoin = [](const AxisRef& ref, int axis, int64_t size) {
    return ref.strides[static_cast<size_t>(axis)] == 1 && ref.strides[Shape::kv_head] == size;
  };
  const bool all_adjoin = adjoin(shape.q, Shape::depth, depth) && adjoin(shape.k, Shape::depth, depth) &&
                          adjoin(shape.v, Shape::value, value) && adjoin(shape.out, Shape::value, value);
  return all_adjoin ? heads : 1;
}

int64_t attention_chunk(const AttentionShape& shape, int axis, int64_t parts) {
  const int64_t size = shape.sizes[static_cast<size_t>(axis)];
  const int64_t align =
      axis == Shape::key ? base::elements_per_stick(Format::dl16) : shape.align[static_cast<size_t>(axis)];
  if (parts <= 1 || align == 0) return std::max<int64_t>(size, 1);
  return round_up(ceil_div(size, parts), align);
}

namespace {

class AttentionSearch {
 public:
  AttentionSearch(const Context& context, graph::Id node)
      : context_(context), d_(context.description), shape_(attention_shape(context, node)) {
    const Attention& n = std::get<Attention>(context.graph.nodes[static_cast<size_t>(node)].kind);
    causal_ = n.causal;
    kernel_.form = Form::attention;
    kernel_.nodes = {node};
    kernel_.grid.assign(std::size(Shape::divided) + 1, 1);
  }

  std::vector<KernelPlan> run() {
    divide(0, 1);
    const Shape one_head = shape_;
    if (const int64_t heads = heads_that_fill_sticks(one_head); heads > 1) {
      shape_ = attention_shape(context_, kernel_.nodes[0], heads);
      divide(0, 1);
      shape_ = one_head;
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const KernelPlan& a, const KernelPlan& b) { return a.cost_ps < b.cost_ps; });
    constexpr size_t most = 8;
    if (found_.size() > most) found_.resize(most);
    for (const int64_t limit : {128, 64}) {  // smaller tiles, in case the estimate of LX was too low
      kernel_.grid =
          limit == 64 || found_.empty() ? std::vector<int32_t>(std::size(Shape::divided) + 1, 1) : found_.front().grid;
      kernel_.slots = limit == 64 ? 1 : 2;
      choose_tile(limit == 64 ? 16 : 64, limit);
      found_.push_back(kernel_);
    }
    for (KernelPlan& k : found_) k.cost_ps = 0;
    return std::move(found_);
  }

 private:
  void divide(size_t i, int64_t cores) {
    if (i == std::size(Shape::divided)) return divide_keys(cores);
    const int a = Shape::divided[i];
    const int64_t size = shape_.sizes[static_cast<size_t>(a)];
    int64_t last = 0;
    for (int64_t parts = 1; parts <= std::min<int64_t>(size, d_.cores / cores); ++parts) {
      const int64_t chunk = attention_chunk(shape_, a, parts);
      if (chunk == last || ceil_div(size, chunk) != parts) continue;
      last = chunk;
      kernel_.grid[i] = static_cast<int32_t>(parts);
      divide(i + 1, cores * parts);
    }
    kernel_.grid[i] = 1;
  }

  void divide_keys(int64_t cores) {
    const int64_t size = shape_.sizes[Shape::key];
    for (int64_t parts = 1; parts <= d_.cores / cores; parts *= 2) {
      const int64_t chunk = attention_chunk(shape_, Shape::key, parts);
      if (parts > 1 && (causal_ || ceil_div(size, chunk) != parts)) break;
      kernel_.grid.back() = static_cast<int32_t>(parts);
      for (const int64_t keys : {int64_t{1024}, int64_t{256}}) {
        choose_tile(128, keys);
        estimate();
      }
    }
    kernel_.grid.back() = 1;
  }

  int64_t keys_of_core() const { return attention_chunk(shape_, Shape::key, kernel_.grid.back()); }
  int64_t chunk(size_t i) const { return attention_chunk(shape_, Shape::divided[i], kernel_.grid[i]); }
  int64_t rows() const { return chunk(shape_.row == Shape::query ? 3 : 2); }

  void choose_tile(int64_t rows_limit, int64_t keys_limit) {
    const int64_t all_rows = rows(), all_keys = keys_of_core();
    const int64_t unit = std::max<int64_t>(shape_.align[static_cast<size_t>(shape_.row)], 1);
    const int64_t stick = base::elements_per_stick(Format::dl16);
    for (;;) {
      const int64_t row_trips = ceil_div(all_rows, std::max(rows_limit, unit));
      const int64_t key_trips = ceil_div(all_keys, keys_limit);
      kernel_.tile = {std::min(all_rows, round_up(ceil_div(all_rows, row_trips), unit)),
                      std::min(all_keys, round_up(ceil_div(all_keys, key_trips), stick)), shape_.heads};
      if (lx_bytes() <= d_.lx_usable_bytes * 9 / 10) return;
      if (keys_limit > 256)
        keys_limit /= 2;
      else if (rows_limit > 64)
        rows_limit /= 2;
      else if (keys_limit > stick)
        keys_limit /= 2;
      else if (rows_limit > 1)
        rows_limit /= 2;
      else
        return;
    }
  }

  int64_t lx_bytes() const {
    const int64_t rows = kernel_.tile[0], keys = kernel_.tile[1], stick = base::stick_bytes;
    const int64_t bytes = base::format_bytes(shape_.format), s = kernel_.slots;
    const auto row = [&](int64_t lanes, int64_t each) { return round_up(lanes * each, stick); };
    const int64_t heads = rows * (row(shape_.sizes[Shape::depth], bytes) + row(shape_.sizes[Shape::value], bytes) +
                                  row(shape_.sizes[Shape::value], 4));
    const int64_t blocks = keys * (row(shape_.sizes[Shape::depth], bytes) + row(shape_.sizes[Shape::value], bytes)) +
                           rows * (shape_.heads * (row(keys, 4) + row(keys, bytes)) + (shape_.mask ? row(keys, 4) : 0));
    return s * (heads + blocks + shape_.heads * rows * stick * 8);
  }

  /// Modelled time of the busiest core, roughly: enough to rank.
  void estimate() {
    const int64_t rows = kernel_.tile[0], keys = kernel_.tile[1], all_keys = keys_of_core();
    double tiles = 1;
    for (size_t i = 0; i < std::size(Shape::divided); ++i)
      tiles *= static_cast<double>(Shape::divided[i] == shape_.row ? ceil_div(chunk(i), rows) : chunk(i));
    double blocks = static_cast<double>(ceil_div(all_keys, keys));
    if (causal_ && shape_.row == Shape::query)  // the last core's share of the triangle
      blocks *= 1 - 0.5 / static_cast<double>(kernel_.grid[3]);
    const double vectors = static_cast<double>(shape_.heads * rows * ceil_div(keys, d_.sfp_lanes_f32));
    const double lane_sticks =
        static_cast<double>(timing::sfp_lanes_ps(2 * shape_.heads * rows * ceil_div(keys, 32), d_));
    const double cycles = d_.sfp_function_cycles + 6 + (shape_.mask ? 2 : 0) + (causal_ ? 3 : 0);
    double work = static_cast<double>(timing::sfp_ps(vectors * cycles, d_)) + lane_sticks;
    const int64_t depth = shape_.sizes[Shape::depth] + shape_.sizes[Shape::value];
    const double products =
        shape_.on_pt ? static_cast<double>(timing::pt_ps(rows, keys, depth, shape_.format, d_))
                     : static_cast<double>(timing::sfp_ps(vectors * static_cast<double>(depth / shape_.heads), d_));
    work = shape_.on_pt ? std::max(work, products) : work + products;
    double cores = 1;
    for (const int32_t p : kernel_.grid) cores *= p;
    double bytes = tiles * blocks * static_cast<double>(keys * depth * base::format_bytes(shape_.format)) * cores;
    if (!causal_) bytes /= std::max(kernel_.grid[2], kernel_.grid[3]);
    if (shape_.mask && shape_.mask->strides[Shape::key] != 0 &&
        shape_.mask->strides[static_cast<size_t>(shape_.row)] != 0)
      bytes += tiles * blocks * static_cast<double>(rows * keys * 2) * cores;
    // One core's rows of keys and values come one by one.
    const double rows_ps = tiles * blocks * static_cast<double>(2 * keys) * 1000 * d_.memory_latency_ns /
                           static_cast<double>(d_.outstanding_requests);
    const double step = static_cast<double>(timing::cycles_ps(10 * d_.step_cycles, d_.core_ghz));
    const double memory_ps = static_cast<double>(timing::bytes_ps(bytes, d_.memory_gbps));
    const double join = kernel_.grid.back() > 1 ? tiles * 2 * step : 0;
    const double total = std::max({tiles * blocks * (work + step), rows_ps, memory_ps}) + tiles * 4 * step + join;
    kernel_.cost_ps = static_cast<int64_t>(std::min(total, 9e17));
    if (found_.empty() || !(found_.back().grid == kernel_.grid && found_.back().tile == kernel_.tile))
      found_.push_back(kernel_);
  }

  const Context& context_;
  const device::Description& d_;
  Shape shape_;
  bool causal_ = false;
  KernelPlan kernel_;
  std::vector<KernelPlan> found_;
};

}  // namespace

bool attention_accepts(const Context& context, std::span<const graph::Id> nodes) {
  if (nodes.size() != 1) return false;
  if (!std::holds_alternative<Attention>(context.graph.nodes[static_cast<size_t>(nodes[0])].kind)) return false;
  try {
    attention_shape(context, nodes[0]);
    return true;
  } catch (const Error& error) {
    if (error.fault() == Fault::unimplemented) return false;
    throw;
  }
}

std::vector<KernelPlan> attention_candidates(const Context& context, std::span<const graph::Id> nodes) {
  return AttentionSearch(context, nodes[0]).run();
}

}  // namespace spyre::plan
