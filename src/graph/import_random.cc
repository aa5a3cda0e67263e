// Random numbers of compiled graphs: a function of a seed and an element's index, so that a backward pass which
// computes them again gets the same ones. The seeds are a tensor from outside.
#include <numbers>

#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {
namespace {

/// inductor_lookup_seed(seeds, index)
std::vector<Arg> lookup_seed(Call& call) {
  const Ref seeds = call.tensor(0);
  if (seeds.sizes.size() != 1) call.refuse("seeds are a vector");
  return {selected(seeds, 0, call.integer(1))};
}

/// Philox words of each point of a space, keyed by a tensor without dimensions.
class Words {
 public:
  Words(Call& call, std::vector<Size> space, const Ref& seed) : points(call, std::move(space)) {
    if (!seed.sizes.empty() || call.reg(seed) != Reg::i32) call.refuse("the seed is an integer without dimensions");
    seed_ = points.read(seed);
    index_ = Expr::i32(0);
    const std::vector<Size> strides = contiguous(points.space());
    for (size_t d = 0; d < strides.size(); ++d) {
      Expr along = x2(VecOp::mul, Expr::iota(static_cast<int32_t>(d)), integer_expr(call, strides[d]));
      index_ = x2(VecOp::add, std::move(index_), std::move(along));
    }
  }

  Expr word(int which) const { return Expr::philox(seed_, Expr::i32(0), index_, which); }
  /// 24 bits, in [0, 1).
  Expr uniform(int which) const {
    Expr bits = x2(VecOp::bit_and, word(which), Expr::i32(0xFFFFFF));
    return x2(VecOp::mul, Expr::cast(std::move(bits), Reg::f32), Expr::f32(1.0 / (1 << 24)));
  }

  Points points;

 private:
  Expr seed_, index_;
};

/// inductor_random(size, seed, mode, align_dtype): uniform in [0, 1), or normal by Box and Muller's transform
std::vector<Arg> random(Call& call) {
  if (call.has(3)) call.refuse("numbers that are those of eager mode");
  Words words(call, call.integers(0), call.tensor(1));
  if (call.text(2) == "rand") return {words.points.map(words.uniform(0), HostType::f32)};
  if (call.text(2) != "randn") call.refuse("an unknown distribution");
  // 1 - u is never 0, whose logarithm would be infinite.
  Expr radius =
      x1(VecOp::sqrt, x2(VecOp::mul, Expr::f32(-2), x1(VecOp::log, x2(VecOp::sub, Expr::f32(1), words.uniform(0)))));
  Expr turn = x1(VecOp::cos, x2(VecOp::mul, words.uniform(1), Expr::f32(2 * std::numbers::pi)));
  return {words.points.map(x2(VecOp::mul, std::move(radius), std::move(turn)), HostType::f32)};
}

/// inductor_randint(low, high, size, seed): low + word mod (high - low)
std::vector<Arg> randint(Call& call) {
  const Size low = call.integer(0), range = call.integer(1) - low;
  if (!call.at_most(1, range)) call.refuse("no integers from {} to {}", low.text(), call.integer(1).text());
  Words words(call, call.integers(2), call.tensor(3));
  Expr bits = x2(VecOp::bit_and, words.word(0), Expr::i32(0x7FFFFFFF));
  Expr e = x2(VecOp::remainder, std::move(bits), integer_expr(call, range));
  return {words.points.map(x2(VecOp::add, std::move(e), integer_expr(call, low), true), HostType::i64)};
}

constexpr ImportEntry random_entries[] = {
    {"prims::inductor_lookup_seed", lookup_seed},
    {"prims::inductor_random", random},
    {"prims::inductor_randint", randint},
};

}  // namespace

std::span<const ImportEntry> random_imports() { return random_entries; }

}  // namespace spyre::graph
