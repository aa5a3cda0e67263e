// The reference interpreter: nodes in order, each by its kind.
#include "graph/interpreter.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <stdexcept>

#include "base/error.h"
#include "graph/strip.h"
#include "graph/walk.h"

namespace spyre::graph {

namespace {

void interpret(Run& run, const Map& n, const Node& node) {
  std::vector<const Expr*> values;
  for (const Expr& e : n.value) values.push_back(&e);
  Evaluator evaluator(run, n.space, n.loads, values);
  std::vector<Walk> walks;
  for (Id r : node.results) walks.emplace_back(n.space, numbers(run.graph.values[static_cast<size_t>(r)].strides), 0);
  int64_t places[strip_points];
  Lanes out;  // a copy: one register may be several results, of several types
  for (int64_t first = 0; first < evaluator.points(); first += strip_points) {
    const int64_t m = std::min(strip_points, evaluator.points() - first);
    evaluator.strip(first, m);
    for (size_t r = 0; r < node.results.size(); ++r) {
      std::copy_n(evaluator.output(r).v, m, out.v);
      std::copy_n(evaluator.output(r).e, m, out.e);
      walks[r].places(first, m, places);
      write_lanes(run, node.results[r], places, m, out);
    }
  }
}

/// Copies the elements of `from` to places of a result.
void copy(Run& run, const Ref& from, const Walk& to, Id result) {
  const Walk walk = Walk::of(from);
  int64_t in[strip_points], out[strip_points];
  Lanes lanes;
  for (int64_t first = 0; first < walk.points(); first += strip_points) {
    const int64_t m = std::min(strip_points, walk.points() - first);
    walk.places(first, m, in);
    to.places(first, m, out);
    read_lanes(run, from.value, in, m, lanes);
    write_lanes(run, result, out, m, lanes);
  }
}

void interpret(Run& run, const Place& n, const Node& node) {
  const Id result = node.results[0];
  const Value& value = run.graph.values[static_cast<size_t>(result)];
  const std::vector<int64_t> strides = numbers(value.strides);
  if (n.base) {
    copy(run, *n.base, Walk(n.sizes, strides, 0), result);
  } else {
    double fill = n.fill;
    round_values(&fill, 1, value.type, run.numerics, false);
    Tensor& t = run.tensors[static_cast<size_t>(result)];
    std::fill(t.value.begin(), t.value.end(), fill);
  }
  for (const Place::Piece& p : n.pieces) {
    const std::vector<int64_t> start = numbers(p.start), step = numbers(p.step);
    std::vector<int64_t> to(strides.size());
    int64_t offset = 0;
    for (size_t d = 0; d < strides.size(); ++d) {
      to[d] = strides[d] * step[d];
      offset += strides[d] * start[d];
    }
    copy(run, p.from, Walk(p.from.sizes, to, offset), result);
  }
}

/// What a scatter does with one element: its value, error, and whether a term was added.
void combine(Scatter::Mode mode, Reg type, double x, double ex, double& v, double& e) {
  switch (mode) {
    case Scatter::Mode::set:
      v = x, e = ex;
      break;
    case Scatter::Mode::add:
      v += x;
      e += ex + (type == Reg::f32 ? f32_unit * std::abs(v) : 0);
      break;
    case Scatter::Mode::prod:
      e = (e == 0 ? 0 : e * (std::abs(x) + ex)) + (ex == 0 ? 0 : std::abs(v) * ex) +
          (type == Reg::f32 ? f32_unit * std::abs(v * x) : 0);
      v *= x;
      break;
    case Scatter::Mode::max:
    case Scatter::Mode::min:
      if (!std::isnan(v) && (std::isnan(x) || (mode == Scatter::Mode::max ? x > v : x < v))) v = x;
      e = std::max(e, ex);
      break;
  }
}

void interpret(Run& run, const Scatter& n, const Node& node) {
  const Id result = node.results[0];
  const Value& value = run.graph.values[static_cast<size_t>(result)];
  const std::vector<int64_t> strides = numbers(value.strides), sizes = numbers(value.sizes);
  copy(run, n.base, Walk(value.sizes, strides, 0), result);
  const Reg type = register_of(value.type);
  const bool trap = value.type == HostType::i64;
  Tensor& t = run.tensors[static_cast<size_t>(result)];
  std::vector<double> error(t.value.size());
  const double unit = run.unit(result);
  for (size_t i = 0; i < error.size(); ++i) error[i] = t.scale[i] * unit;

  std::vector<const Expr*> wanted = {&n.value};
  for (const Scatter::Target& target : n.targets) wanted.push_back(&target.index);
  Evaluator evaluator(run, n.space, n.loads, wanted);
  for (int64_t first = 0; first < evaluator.points(); first += strip_points) {
    const int64_t m = std::min(strip_points, evaluator.points() - first);
    evaluator.strip(first, m);
    const Lanes& x = evaluator.output(0);
    for (int64_t p = 0; p < m; ++p) {
      int64_t place = 0;
      bool skip = false, unsure = false;
      for (size_t d = 0; d < sizes.size(); ++d) {
        const Lanes& index = evaluator.output(d + 1);
        const auto at = static_cast<int64_t>(index.v[p]);
        unsure = unsure || index.e[p] > 0;
        if (at < 0 || at >= sizes[d]) {
          if (n.targets[d].outside == OnOutside::trap)
            run.fail_here(fmt::format("index {} is out of bounds for dimension {} of size {}", at, d, sizes[d]));
          skip = true;
        }
        place += at * strides[d];
      }
      // Where an index is in doubt, so is every element that it might have meant.
      if (unsure) std::fill(error.begin(), error.end(), infinity);
      if (skip) continue;
      const auto i = static_cast<size_t>(place);
      combine(n.mode, type, x.v[p], x.e[p], t.value[i], error[i]);
      if (type == Reg::i32) {
        const auto exact = static_cast<int64_t>(t.value[i]);
        if (n.mode != Scatter::Mode::prod) continue;
        if (trap && static_cast<int32_t>(exact) != exact)
          run.fail_here(fmt::format("a product of int64 values gives {}, which leaves int32", exact));
        t.value[i] = static_cast<int32_t>(exact);
      }
    }
  }
  Lanes out;
  int64_t places[strip_points];
  for (int64_t first = 0; first < static_cast<int64_t>(t.value.size()); first += strip_points) {
    const int64_t m = std::min(strip_points, static_cast<int64_t>(t.value.size()) - first);
    std::copy_n(t.value.begin() + first, m, out.v);
    std::copy_n(error.begin() + first, m, out.e);
    for (int64_t p = 0; p < m && type == Reg::i32; ++p) {
      const auto exact = static_cast<int64_t>(out.v[p]);
      if (trap && static_cast<int32_t>(exact) != exact)
        run.fail_here(fmt::format("a sum of int64 values gives {}, which leaves int32", exact));
      out.v[p] = static_cast<int32_t>(exact);
    }
    std::iota(places, places + m, first);
    write_lanes(run, result, places, m, out);
  }
}

/// Values that a host can't have on the device are refused or rounded as an upload does.
void take_input(Run& run, Id id, const Tensor& from, size_t position) {
  const Value& value = run.graph.values[static_cast<size_t>(id)];
  const auto elements = static_cast<size_t>(storage_elements(value));
  if (from.value.size() < elements || (!from.scale.empty() && from.scale.size() < elements))
    fail(Fault::user, "input {} ({}) has {} elements, not {}", position, shape_text(value.type, value.sizes),
         from.value.size(), elements);
  Tensor& t = run.tensors[static_cast<size_t>(id)];
  t.value.assign(from.value.begin(), from.value.begin() + static_cast<int64_t>(elements));
  if (!from.scale.empty()) t.scale.assign(from.scale.begin(), from.scale.begin() + static_cast<int64_t>(elements));
  if (register_of(value.type) == Reg::i32) {
    for (double x : t.value) {
      if (!(x >= INT32_MIN && x <= INT32_MAX))
        fail(Fault::user, "input {} has the element {}, which is outside int32", position, x);
    }
  }
  round_values(t.value.data(), static_cast<int64_t>(elements), value.type, run.numerics, false);
}

}  // namespace

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs, std::span<const double> params,
                              const Numerics& numerics) try {
  if (!graph.symbols.empty()) fail(Fault::program, "the interpreter runs instantiated graphs, this one has symbols");
  if (inputs.size() != graph.inputs.size())
    fail(Fault::user, "the graph has {} inputs, {} are given", graph.inputs.size(), inputs.size());
  if (params.size() != graph.params.size())
    fail(Fault::user, "the graph has {} params, {} are given", graph.params.size(), params.size());
  for (size_t p = 0; p < params.size(); ++p) {
    if (!graph.params[p].is_float &&
        !(params[p] >= INT32_MIN && params[p] <= INT32_MAX && params[p] == std::floor(params[p])))
      fail(Fault::user, "param {} = {} is no int32", graph.params[p].name, params[p]);
  }
  std::vector<Tensor> tensors(graph.values.size());
  Run run{graph, params, numerics, tensors, none};
  for (size_t i = 0; i < inputs.size(); ++i) take_input(run, graph.inputs[i], inputs[i], i);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    run.node = static_cast<Id>(n);
    for (Id r : node.results) {
      Tensor& t = tensors[static_cast<size_t>(r)];
      t.value.assign(static_cast<size_t>(storage_elements(graph.values[static_cast<size_t>(r)])), 0.0);
      t.scale.assign(t.value.size(), 0.0);
    }
    std::visit([&](const auto& kind) { interpret(run, kind, node); }, node.kind);
  }
  return tensors;
} catch (const std::bad_alloc&) {
  fail(Fault::system, "the reference interpreter has not enough host memory for this graph");
} catch (const std::length_error&) {
  fail(Fault::system, "the reference interpreter has not enough host memory for this graph");
}

double tolerance(const Tensor& reference, size_t i, base::Format format) {
  const double scale = i < reference.scale.size() ? reference.scale[i] : 0;
  if (scale == 0) return 0;
  const double unit = rounding_unit(format);
  if (unit == 1) return scale;
  // Below the smallest number of the format the rounding is no longer relative.
  using base::Format;
  const double smallest = format == Format::dl16   ? 0x1p-31
                          : format == Format::f16  ? 0x1p-24
                          : format == Format::e4m3 ? 0x1p-9
                          : format == Format::e5m2 ? 0x1p-16
                                                   : 0x1p-126;
  return 2 * unit * scale + smallest;
}

bool agrees(const Tensor& reference, size_t i, base::Format format, double have) {
  const double want = reference.value[i], allowed = tolerance(reference, i, format);
  if (std::abs(have - want) <= allowed || have == want || std::isinf(allowed)) return true;
  return std::isnan(have) && (std::isnan(want) || (std::isinf(want) && base::format_bytes(format) <= 2));
}

}  // namespace spyre::graph
