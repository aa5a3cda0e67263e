// Attention: every scaled_dot_product variant is one Attention node.
#include <cmath>

#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {
namespace {

/// Argument positions; absent where the variant has none.
struct Places {
  size_t mask, dropout, causal, scale;
};

/// [S, D] and [H, S, D] get leading dimensions of size 1. Three dimensions of scaled_dot_product_attention are batches,
/// which are the same as heads here.
Ref four_dimensional(const Call& call, Ref ref) {
  if (ref.sizes.size() < 2 || ref.sizes.size() > 4) call.refuse("q, k and v have 2 to 4 dimensions");
  while (ref.sizes.size() < 4) ref = unsqueezed(ref, 0);
  return ref;
}

/// `ref` with the sizes [batch, heads or its own, ...]: a batch of 1 is repeated.
Ref with_batch(const Call& call, const Ref& ref, const Size& batch) {
  std::vector<Size> sizes = ref.sizes;
  sizes[0] = batch;
  return expand_to(call, ref, sizes);
}

struct Result {
  Ref out;
  Attention node;  ///< for a second one that also gives the logarithms
};

Result attention(Call& call, const Places& at) {
  const Ref q_given = call.tensor(0);
  const size_t rank = q_given.sizes.size();
  const HostType type = call.type(q_given);
  if (!is_float(type) || !is_arithmetic(type)) call.refuse("this takes float16, bfloat16 or float32");
  if (call.type(call.tensor(1)) != type || call.type(call.tensor(2)) != type) call.refuse("q, k and v have one type");
  if (call.number_or(at.dropout, 0) != 0) call.refuse("dropout in attention");
  Attention node;
  node.q = four_dimensional(call, q_given);
  const Size batch = node.q.sizes[0], heads = node.q.sizes[1];
  node.k = with_batch(call, four_dimensional(call, call.tensor(1)), batch);
  node.v = with_batch(call, four_dimensional(call, call.tensor(2)), batch);
  if (!(node.k.sizes[3] == node.q.sizes[3])) call.refuse("q and k have different head sizes");
  if (!(node.k.sizes[2] == node.v.sizes[2])) call.refuse("k and v have different lengths");
  if (!(node.k.sizes[1] == node.v.sizes[1])) call.refuse("k and v have different numbers of heads");
  const auto h = heads.constant(), groups = node.k.sizes[1].constant();
  if (!(heads == node.k.sizes[1]) && (!h || !groups || *groups < 1 || *h % *groups != 0))
    call.refuse("{} heads of q for {} of k", heads.text(), node.k.sizes[1].text());
  if (const auto mask = call.maybe_tensor(at.mask)) {
    if (call.reg(*mask) == Reg::i32) call.refuse("the mask is float or bool");
    const std::vector<Size> scores{batch, heads, node.q.sizes[2], node.k.sizes[2]};
    Ref seen = *mask;
    node.mask = expand_to(call, seen, scores);
  }
  node.causal = call.flag(at.causal);
  if (call.has(at.scale)) {
    node.scale = number_expr(call, at.scale, Reg::f32);
    if (node.scale.leaf != Expr::Leaf::constant && node.scale.leaf != Expr::Leaf::param)
      call.refuse("the scale is a number");
  } else {
    const auto head_size = node.q.sizes[3].constant();
    if (!head_size || *head_size < 1) call.refuse("give a scale: the head size differs between instances");
    node.scale = Expr::f32(1 / std::sqrt(static_cast<double>(*head_size)));
  }
  // The result is laid out as q is: its dimensions are nested in the same order.
  std::vector<Size> sizes{batch, heads, node.q.sizes[2], node.v.sizes[3]};
  std::vector<Size> strides;
  if (rank == 4) {
    if (const auto order = stride_order(node.q, call.builder.graph().symbols))
      strides = strides_in_order(sizes, *order);
  }
  Result result;
  result.node = node;
  std::vector<std::vector<Size>> all;
  if (!strides.empty()) all.push_back(std::move(strides));
  result.out = call.add(std::move(node), {type}, std::move(all))[0];
  for (size_t d = rank; d < 4; ++d) result.out = squeezed(result.out, 0);
  return result;
}

/// The logarithms of the sums, [B, H, Sq], by a second node: inference never reads them, and a node that nobody reads
/// is dropped.
Ref logsumexp(Call& call, const Result& result) {
  Attention node = result.node;
  node.with_logsumexp = true;
  return call.add(std::move(node), {call.type(node.q), HostType::f32})[1];
}

/// scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale, enable_gqa)
std::vector<Arg> whole_attention(Call& call) { return {attention(call, {3, 4, 5, 6}).out}; }

/// (q, k, v, dropout, causal, mask, scale): out, logsumexp
std::vector<Arg> flash_for_cpu(Call& call) {
  const Result r = attention(call, {5, 3, 4, 6});
  return {r.out, logsumexp(call, r)};
}

Ref zero(Call& call) {
  Points p(call, {});
  return p.map(Expr::i32(0), HostType::i64);
}

/// (q, k, v, bias, dropout, causal, return_debug_mask, scale): out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k,
/// seed, offset, debug_mask
std::vector<Arg> overrideable(Call& call) {
  if (call.flag(6)) call.refuse("the debug mask");
  const Result r = attention(call, {3, 4, 5, 7});
  const Ref lse = logsumexp(call, r);
  return {r.out,      lse,        std::monostate(), std::monostate(), r.node.q.sizes[2], r.node.k.sizes[2],
          zero(call), zero(call), std::monostate()};
}

/// (q, k, v, dropout, causal, return_debug_mask, scale): out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, rng_state,
/// unused, debug_mask
std::vector<Arg> flash(Call& call) {
  if (call.flag(5)) call.refuse("the debug mask");
  const Result r = attention(call, {absent, 3, 4, 6});
  const Ref lse = logsumexp(call, r);
  return {r.out,      lse,        std::monostate(), std::monostate(), r.node.q.sizes[2], r.node.k.sizes[2],
          zero(call), zero(call), std::monostate()};
}

/// (q, k, v, bias, compute_log_sumexp, dropout, causal, scale): out, logsumexp, seed, offset
std::vector<Arg> efficient(Call& call) {
  const Result r = attention(call, {3, 5, 6, 7});
  if (!call.flag(4)) return {r.out, std::monostate(), zero(call), zero(call)};
  return {r.out, logsumexp(call, r), zero(call), zero(call)};
}

/// (q, k, v, mask, dropout, causal, dropout_mask, scale, enable_gqa): out, and weights that are not made
std::vector<Arg> math(Call& call) {
  if (call.has(6)) call.refuse("dropout in attention");
  return {attention(call, {3, 4, 5, 7}).out, std::monostate()};
}

constexpr ImportEntry attention_entries[] = {
    {"aten::scaled_dot_product_attention", whole_attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_for_cpu},
    {"aten::_scaled_dot_product_fused_attention_overrideable", overrideable},
    {"aten::_scaled_dot_product_flash_attention", flash},
    {"aten::_scaled_dot_product_efficient_attention", efficient},
    {"aten::_scaled_dot_product_attention_math", math},
};

}  // namespace

std::span<const ImportEntry> attention_imports() { return attention_entries; }

}  // namespace spyre::graph
