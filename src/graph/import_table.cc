// The table of imports: all families, by overload name; in-place and out= overloads lead to the functional one.
#include <algorithm>
#include <map>

#include "graph/import_call.h"

namespace spyre::graph {
namespace {

using Table = std::map<std::string_view, Importer>;

const Table& table() {
  static const Table all = [] {
    Table t;
    for (std::span<const ImportEntry> family :
         {view_imports(), unary_imports(), activation_imports(), arithmetic_imports(), comparison_imports(),
          ternary_imports(), cast_imports(), creation_imports(), reduction_imports(), norm_imports(),
          contraction_imports(), convolution_imports(), attention_imports(), index_imports(), scatter_imports(),
          place_imports(), order_imports(), random_imports()}) {
      for (const ImportEntry& entry : family) {
        if (!t.emplace(entry.overload, entry.import).second) fail(Fault::program, "two imports of {}", entry.overload);
      }
    }
    return t;
  }();
  return all;
}

/// "aten::exp.default" is "aten::exp".
std::string_view without_default(std::string_view overload) {
  constexpr std::string_view suffix = ".default";
  if (overload.ends_with(suffix)) overload.remove_suffix(suffix.size());
  return overload;
}

std::string_view key_of(std::string_view overload) {
  const auto found = table().find(overload);
  return found == table().end() ? std::string_view() : found->first;
}

struct Alias {
  std::string_view out, functional;
};
/// Overloads with out= whose functional one has another name.
constexpr Alias aliases[] = {
    {"aten::all.all_out", "aten::all"},
    {"aten::all.out", "aten::all.dim"},
    {"aten::amax.out", "aten::amax"},
    {"aten::any.all_out", "aten::any"},
    {"aten::any.out", "aten::any.dim"},
    {"aten::clone.out", "aten::clone"},
    {"aten::cummax.out", "aten::cummax"},
    {"aten::cummin.out", "aten::cummin"},
    {"aten::cumprod.out", "aten::cumprod"},
    {"aten::cumsum.out", "aten::cumsum"},
    {"aten::div.out_mode", "aten::div.Tensor_mode"},
    {"aten::linalg_vector_norm.out", "aten::linalg_vector_norm"},
    {"aten::max.dim_max", "aten::max.dim"},
    {"aten::max.out", "aten::max.other"},
    {"aten::max.unary_out", "aten::max"},
    {"aten::mean.dtype_out", "aten::mean"},
    {"aten::mean.out", "aten::mean.dim"},
    {"aten::min.dim_min", "aten::min.dim"},
    {"aten::min.out", "aten::min.other"},
    {"aten::min.unary_out", "aten::min"},
    {"aten::norm.out", "aten::norm.ScalarOpt_dim"},
    {"aten::norm.dtype_out", "aten::norm.ScalarOpt_dim_dtype"},
    {"aten::prod.int_out", "aten::prod.dim_int"},
    {"aten::prod.out", "aten::prod"},
    {"aten::sort.values", "aten::sort"},
    {"aten::sort.values_stable", "aten::sort.stable"},
    {"aten::std.out", "aten::std.correction"},
    {"aten::sum.IntList_out", "aten::sum.dim_IntList"},
    {"aten::sum.out", "aten::sum"},
    {"aten::topk.values", "aten::topk"},
    {"aten::var.out", "aten::var.correction"},
    {"aten::scatter_reduce.two_out", "aten::scatter_reduce.two"},
    {"aten::where.self_out", "aten::where.self"},
};

/// Their out= overloads have no dtype: it is the result's, which a call can't say.
bool makes_tensors(std::string_view name) {
  for (std::string_view maker :
       {"aten::zeros", "aten::ones", "aten::full", "aten::arange", "aten::eye", "aten::scalar_tensor",
        "aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::empty_like", "aten::empty_strided",
        "aten::new_zeros", "aten::new_ones", "aten::new_full", "aten::new_empty", "aten::_to_copy"}) {
    if (name == maker) return true;
  }
  return false;
}

}  // namespace

std::vector<Arg> Builder::call(std::string_view overload, const std::vector<Arg>& args, const Loc& loc) {
  overload = without_default(overload);
  const auto found = table().find(overload);
  if (found == table().end())
    fail(Fault::unimplemented, "{} can't be compiled for the device: the importer has no entry for it", overload);
  const size_t values = graph_.values.size(), nodes = graph_.nodes.size();
  Call call(*this, overload, args, loc);
  try {
    return found->second(call);
  } catch (...) {
    graph_.values.resize(values);
    graph_.nodes.resize(nodes);
    throw;
  }
}

bool importable(std::string_view overload) { return table().contains(without_default(overload)); }

std::string_view functional_of(std::string_view overload) {
  const size_t colon = overload.find("::");
  const size_t dot = overload.find('.', colon == std::string_view::npos ? 0 : colon);
  std::string name(overload.substr(0, dot));
  std::string variant(dot == std::string_view::npos ? std::string_view() : overload.substr(dot + 1));
  if (variant == "default") variant.clear();
  const auto key = [](const std::string& n, const std::string& v) { return key_of(v.empty() ? n : n + "." + v); };
  if (name.ends_with('_') && !name.ends_with("__")) {
    name.pop_back();
    return key(name, variant);
  }
  if (makes_tensors(name)) return {};
  for (const Alias& alias : aliases) {
    if (alias.out == overload) return key_of(alias.functional);
  }
  if (variant == "out") {
    const std::string_view plain = key(name, "");
    return plain.empty() ? key(name, "Tensor") : plain;
  }
  if (!variant.ends_with("_out")) return {};
  variant.resize(variant.size() - 4);
  return key(name, variant);
}

std::vector<std::string_view> importable_overloads() {
  std::vector<std::string_view> out;
  for (const auto& [overload, import] : table()) out.push_back(overload);
  return out;
}

}  // namespace spyre::graph
