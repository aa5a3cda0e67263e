// The interpreter's working unit: up to 512 consecutive points of a node's space, each with a value and what may be
// wrong with it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/interpreter.h"
#include "graph/text.h"

namespace spyre::graph {

constexpr int64_t strip_points = 512;

/// `e` bounds what a correct device's value may differ by, halved (tolerance() doubles it): from the rounding of every
/// f32 operation and of every stored value on the way.
struct Lanes {
  double v[strip_points];
  double e[strip_points];
};

/// Relative rounding error of an f32 operation.
constexpr double f32_unit = 0x1p-24;
/// Largest relative rounding error of a format (half a unit in its last place); 1 for integers.
double rounding_unit(base::Format format);

/// The graph at work: tensors by value id, with `scale` in units of rounding_unit of their format (empty: exact).
struct Run {
  const Graph& graph;
  std::span<const double> params;
  Numerics numerics;
  std::vector<Tensor>& tensors;
  Id node = 0;

  [[noreturn]] void fail_here(const std::string& what) const;
  double unit(Id value) const {
    return rounding_unit(base::device_format(graph.values[static_cast<size_t>(value)].type));
  }
};

/// Storage elements of an instantiated value.
int64_t storage_elements(const Value& value);

/// Where the points of a space lie in a storage: offset + sum(stride x index), in row-major order of the space.
class Walk {
 public:
  Walk(std::span<const Size> sizes, std::span<const int64_t> strides, int64_t offset);
  static Walk of(const Ref& ref);
  int64_t points() const { return points_; }
  /// The places of points first .. first + n.
  void places(int64_t first, int64_t n, int64_t* out) const;

 private:
  std::vector<int64_t> sizes_, strides_;  // neighbours that make one run are one dimension
  int64_t offset_ = 0, points_ = 1;
};

/// Rounds n values as a store to the type does: to its device format (floats, when `numerics` says so) or its width
/// (integers). `arithmetic`: overflow becomes infinity; else (host values) it saturates.
void round_values(double* v, int64_t n, HostType type, const Numerics& numerics, bool arithmetic);
/// The same for lanes, adding the rounding to `e`.
void round_lanes(Lanes& lanes, int64_t n, HostType type, const Numerics& numerics);

/// Reads n elements of a value.
void read_lanes(const Run& run, Id value, const int64_t* places, int64_t n, Lanes& out);
/// Stores n rounded elements of a result.
void write_lanes(Run& run, Id value, const int64_t* places, int64_t n, Lanes& lanes);

/// One arithmetic operation on n lanes. `from`: type of the arguments; integer errors call run.fail_here.
void apply(const Run& run, const Expr& e, Reg from, const Lanes* const* args, int64_t n, Lanes& out);

/// Evaluates expressions over a space, strip by strip.
class Evaluator {
 public:
  Evaluator(const Run& run, std::span<const Size> space, std::span<const Load> loads, std::vector<const Expr*> outputs);
  int64_t points() const { return points_; }
  /// Evaluates points first .. first + n, n <= strip_points.
  void strip(int64_t first, int64_t n);
  Lanes& output(size_t i) { return registers_[static_cast<size_t>(outputs_[i])]; }

 private:
  struct Instruction {
    const Expr* expr = nullptr;  // or null: make `load`
    int load = -1;
    int to = 0;
    std::vector<int> args;
  };
  int compile(const Expr& e, int free);
  void need_load(Id load);
  void read(const Instruction& i, int64_t first, int64_t n);

  const Run& run_;
  std::span<const Size> space_;
  std::span<const Load> loads_;
  std::vector<Walk> walks_;
  std::vector<bool> loaded_;
  std::vector<Instruction> code_;
  std::vector<int> outputs_;
  std::vector<Lanes> registers_;
  std::vector<int64_t> places_;
  int register_count_ = 0;
  int64_t points_ = 1;
};

// ---- node kinds: results are allocated, inputs are there
// ---------------------------------------------------------------

void interpret(Run& run, const Reduce& n, const Node& node);
void interpret(Run& run, const Scan& n, const Node& node);
void interpret(Run& run, const Contract& n, const Node& node);
void interpret(Run& run, const Attention& n, const Node& node);
void interpret(Run& run, const Sort& n, const Node& node);

}  // namespace spyre::graph
