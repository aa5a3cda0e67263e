#include "torch/eager_prepare.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cmath>

#include "graph/import.h"
#include "graph/views.h"
#include "torch/graph_types.h"
#include "torch/records.h"

namespace spyre::torch {
namespace {

using at::Tensor;
using base::HostType;
using c10::IValue;
using graph::Arg;
using graph::Id;
using graph::ParamArg;
using graph::Ref;
using graph::Size;

constexpr std::string_view attention_op = "aten::_scaled_dot_product_fused_attention_overrideable";

/// Import gives the logarithms of attention by a node of their own, which compiled graphs drop when nobody reads them.
/// Here both results are returned: one node gives them.
void merge_attention(graph::Graph& g) {
  if (g.nodes.size() != 2 || g.outputs.size() != 2) return;
  const auto* first = std::get_if<graph::Attention>(&g.nodes[0].kind);
  const auto* second = std::get_if<graph::Attention>(&g.nodes[1].kind);
  if (!first || !second || first->with_logsumexp || !second->with_logsumexp) return;
  const Id from = g.nodes[0].results[0], to = g.nodes[1].results[0];
  if (g.outputs[0].value != from) return;
  g.values[static_cast<size_t>(to)].strides = g.values[static_cast<size_t>(from)].strides;
  g.outputs[0] = graph::whole(g, to);
  graph::remove_dead_nodes(g);
  graph::verify(g);
}

std::vector<Size> sizes_of(at::IntArrayRef values) { return {values.begin(), values.end()}; }

std::string text_of(at::IntArrayRef values) {
  std::string out;
  for (const int64_t v : values) out += (out.empty() ? "[" : ", ") + std::to_string(v);
  return out.empty() ? "[]" : out + "]";
}

[[noreturn]] void refuse(const std::string& why) { throw Error(Fault::unimplemented, why); }

/// bool, integer, floating: a tensor without dimensions takes part in promotion only against lower ones.
int category(at::ScalarType type) { return type == at::kBool ? 0 : c10::isIntegralType(type, false) ? 1 : 2; }

struct ImportMode {
  bool values = false;  ///< numbers are constants of the graph
  bool upload = false;  ///< CPU tensors without dimensions are inputs, not numbers
  bool detour = false;
};

/// One attempt at a graph for a call.
class Importer {
 public:
  Importer(const EagerOp& op, const IValue* stack, const EagerArguments& args, ImportMode mode, EagerCall& into)
      : op_(op), stack_(stack), args_(args), mode_(mode), to_(into), input_of_(args.slots.size(), -1) {
    for (const EagerSlot& slot : args.slots) {
      if (slot.cpu || !slot.read) continue;
      floats_ |= slot.tensor->is_floating_point();
      if (slot.tensor->dim() > 0) highest_ = std::max(highest_, category(slot.tensor->scalar_type()));
    }
  }

  void run() {
    check_written();
    if (op_.must_be_false >= 0 && stack_[op_.must_be_false].toBool()) refuse(op_.name + " of this kind");
    std::vector<Arg> given;
    for (const int position : op_.order)
      given.push_back(position < 0 ? type_of_out() : argument(static_cast<size_t>(position)));
    const std::vector<Arg> results = op_.is_arange ? std::vector<Arg>{arange(given)} : imported(given);
    for (size_t i = 0; i < op_.alias.size(); ++i) result(i, i < results.size() ? &results[i] : nullptr);
    for (size_t i = 0; i < op_.silent.size(); ++i)
      written(static_cast<size_t>(op_.silent[i]), std::get<Ref>(results.at(i)));
    if (!to_.resizes.empty()) {
      to_.state = EagerCall::State::resize;
      return;
    }
    finish();
  }

 private:
  void check_written() const {
    for (size_t i = 0; i < op_.args.size(); ++i)
      if (op_.args[i].written && stack_[i].isTensor() && stack_[i].toTensor().defined())
        at::assert_no_internal_overlap(stack_[i].toTensor());
  }

  /// What the importer finds no types for (products of bools) it has no program for either.
  std::vector<Arg> imported(const std::vector<Arg>& given) {
    try {
      return builder_.call(op_.functional, given, loc_);
    } catch (const Error& error) {
      if (error.fault() != Fault::program) throw;
      refuse(op_.name + ": " + error.what());
    }
  }

  // ---- arguments

  HostType type_of(at::ScalarType type) const { return host_type(type, 1); }

  Ref input(int s) {
    const EagerSlot& slot = args_.slots[static_cast<size_t>(s)];
    Id& id = input_of_[static_cast<size_t>(s)];
    if (id != graph::none) return graph::whole(builder_.graph(), id);
    const Tensor& t = *slot.tensor;
    const std::vector<Size> sizes = sizes_of(t.sizes());
    const Ref ref = builder_.input("t" + std::to_string(s), host_type(t.scalar_type(), t.numel()), sizes,
                                   slot.cpu ? graph::contiguous(sizes) : sizes_of(t.strides()));
    id = ref.value;
    to_.inputs.push_back({s, slot.cpu});
    return ref;
  }

  Arg number(int v, bool floating_argument, const EagerArg& arg) {
    const EagerValue& value = args_.values[static_cast<size_t>(v)];
    if (value.flag) return value.number != 0;
    const bool constant = mode_.values || arg.constant || std::isnan(value.number) ||
                          (arg.factor && (value.number == 0 || value.number == 1));
    if (constant) {
      if (value.floating) return value.number;
      return Size(static_cast<int64_t>(value.number));
    }
    // An integer beside floats changes no type by being one of them.
    const bool as_float = floating_argument || value.floating || floats_;
    to_.params.push_back(v);
    return ParamArg{builder_.param("n" + std::to_string(v), as_float)};
  }

  Arg tensor(int s, bool in_list, const EagerArg& arg) {
    if (s < 0) return {};
    const EagerSlot& slot = args_.slots[static_cast<size_t>(s)];
    if (slot.value >= 0 && !in_list && !mode_.upload) {
      const bool wrapped = slot.tensor->unsafeGetTensorImpl()->is_wrapped_number();
      // Beside a tensor with dimensions of its kind or a higher one, its type doesn't count.
      if (wrapped || category(slot.tensor->scalar_type()) <= highest_) return number(slot.value, false, arg);
    }
    return input(s);
  }

  Arg argument(size_t i) {
    const EagerArg& arg = op_.args[i];
    const IValue& value = stack_[i];
    if (static_cast<int>(i) == op_.dtype_argument && value.isNone()) return type_of_out();
    if (value.isNone() || arg.kind == ArgKind::ignored) return {};
    const auto first = static_cast<size_t>(args_.first[i]);
    switch (arg.kind) {
      case ArgKind::tensor:
        return tensor(args_.slot_of[first], false, arg);
      case ArgKind::tensors: {
        const size_t count = value.toListRef().size();
        std::vector<std::optional<Ref>> list;
        bool whole = true;
        for (size_t k = 0; k < count; ++k) {
          const int s = args_.slot_of[first + k];
          whole = whole && s >= 0;
          list.push_back(s < 0 ? std::nullopt : std::optional<Ref>(input(s)));
        }
        if (!whole) return list;
        std::vector<Ref> all;
        for (const auto& r : list) all.push_back(*r);
        return all;
      }
      case ArgKind::number:
        return number(static_cast<int>(first), false, arg);
      case ArgKind::floating:
        return number(static_cast<int>(first), true, arg);
      case ArgKind::integer:
      case ArgKind::format:
        return Size(value.toInt());
      case ArgKind::dtype:
        return type_of(value.toScalarType());
      case ArgKind::integers:
        if (value.isInt()) return std::vector<Size>{Size(value.toInt())};
        if (!value.isIntList()) return std::vector<Size>();
        return sizes_of(value.toIntVector());
      case ArgKind::flag:
        return value.toBool();
      case ArgKind::text:
        return value.toStringRef();
      default:
        return {};
    }
  }

  Arg type_of_out() const {
    for (size_t o = 0; o < op_.args.size(); ++o)
      if (op_.args[o].out) return type_of(stack_[o].toTensor().scalar_type());
    return {};
  }

  /// start + step x i, with both known only at launch: a position that grows must not make new programs.
  Ref arange(const std::vector<Arg>& given) {
    const HostType type = std::get<HostType>(given[3]);
    const graph::Reg reg = graph::register_of(type);
    if (reg == graph::Reg::pred) refuse("arange of bool");
    const auto number = [&](const Arg& arg) {
      const auto* param = std::get_if<ParamArg>(&arg);
      if (!param) refuse("arange of no numbers");
      const bool is_float = builder_.graph().params[static_cast<size_t>(param->param)].is_float;
      if (is_float && reg == graph::Reg::i32) refuse("a range of floats as integers");
      return graph::Expr::cast(graph::Expr::of_param(param->param, is_float), reg);
    };
    const bool trap = type == HostType::i64;
    using graph::Expr;
    using graph::VecOp;
    Expr e = Expr::make(VecOp::mul, {Expr::cast(Expr::iota(0), reg), number(given[2])}, trap);
    e = Expr::make(VecOp::add, {number(given[0]), std::move(e)}, trap);
    if (type == HostType::u8 || type == HostType::i8 || type == HostType::i16) refuse("arange of a narrow type");
    graph::Map map;
    map.space = {Size(stack_[3].toTensor().numel())};
    map.value.push_back(std::move(e));
    return builder_.add(std::move(map), {type}, loc_)[0];
  }

  // ---- results

  void result(size_t i, const Arg* value) {
    const int alias = op_.alias[i];
    EagerCall::Return back;
    if (alias >= 0) {
      if (!value || !std::holds_alternative<Ref>(*value))
        refuse(op_.functional + " has no result " + std::to_string(i) + " to write");
      written(static_cast<size_t>(alias), std::get<Ref>(*value));
      back = {EagerCall::Return::Kind::argument, alias};
    } else if (!value || (i > 0 && op_.name == "aten::native_batch_norm")) {  // outside of training: no statistics
      back = {EagerCall::Return::Kind::empty, 0};
    } else if (const Size* size = std::get_if<Size>(value)) {
      back = {EagerCall::Return::Kind::integer, size->constant().value()};
    } else if (i >= 6 && op_.functional == attention_op) {
      // Seed and offset of a dropout that isn't done: no tensor.
    } else if (const Ref* ref = std::get_if<Ref>(value)) {
      if (op_.is_integer[i]) throw Error(Fault::program, op_.functional + ": a tensor where a number is returned");
      back = {EagerCall::Return::Kind::output, static_cast<int64_t>(to_.outputs.size())};
      // Backward runs on the CPU, whose kernel wants these as its own forward gives them.
      const bool statistics = i > 0 && op_.name == "aten::native_layer_norm";
      const Ref given = statistics ? in_type_of_cpu(*ref) : *ref;
      output(given, wanted_strides(given), -1);
    }
    to_.returns.push_back(back);
  }

  /// Mean and deviation of layer norm: of the input's type, unless the weights have another one.
  Ref in_type_of_cpu(const Ref& ref) {
    const at::ScalarType type = stack_[0].toTensor().scalar_type();
    for (const int weight : {2, 3})
      if (stack_[weight].isTensor() && stack_[weight].toTensor().defined() &&
          stack_[weight].toTensor().scalar_type() != type)
        return ref;
    return std::get<Ref>(builder_.call("prims::convert_element_type", {ref, type_of(type)}, loc_)[0]);
  }

  void written(size_t position, Ref ref) {
    const Tensor& t = stack_[position].toTensor();
    const int s = args_.slot_of[static_cast<size_t>(args_.first[position])];
    const EagerSlot& slot = args_.slots[static_cast<size_t>(s)];
    const std::vector<int64_t> sizes = graph::numbers(ref.sizes);
    if (t.sizes() != at::IntArrayRef(sizes)) {
      if (!op_.args[position].out || slot.read)
        refuse(op_.name + ": a result of sizes " + text_of(sizes) + " can't be written into " + text_of(t.sizes()));
      to_.resizes.push_back({static_cast<int>(position), sizes, graph::numbers(wanted_strides(ref))});
      return;
    }
    const HostType type = type_of(t.scalar_type()), own = builder_.type(ref);
    if (own != type) {
      // What torch forbids the CPU's kernel words.
      if (!op_.casts_out || !c10::canCast(scalar_type(own), t.scalar_type()))
        refuse(op_.name + ": a result of " + std::string(base::host_name(own)) + " written into " +
               std::string(base::host_name(type)));
      ref = std::get<Ref>(builder_.call("prims::convert_element_type", {ref, type}, loc_)[0]);
    }
    if (slot.fresh) {
      output(ref, sizes_of(t.strides()), static_cast<int>(position));
    } else if (mode_.detour) {
      to_.copies.push_back({static_cast<int>(to_.outputs.size()), static_cast<int>(position)});
      output(ref, graph::contiguous(ref.sizes), -1);
    } else {
      to_.in_place = true;
      builder_.mutate(input(s).value, ref);
      to_.has_work |= t.numel() > 0;
    }
  }

  void output(const Ref& ref, const std::vector<Size>& strides, int argument) {
    const graph::Graph& g = builder_.graph();
    const graph::Value& owner = g.values[static_cast<size_t>(ref.value)];
    const bool taken =
        std::any_of(g.outputs.begin(), g.outputs.end(), [&](const Ref& o) { return o.value == ref.value; });
    const bool whole = owner.node != graph::none && !taken && ref.offset.is(0) &&
                       graph::numel(owner.sizes) == graph::numel(ref.sizes) &&
                       graph::is_dense(ref.sizes, ref.strides) && equal_strides(ref.sizes, ref.strides, strides);
    if (whole) {
      builder_.output(graph::whole(g, ref.value));
    } else {
      builder_.output(builder_.add(graph::copy_of(ref, owner.type), {owner.type}, loc_, {strides})[0]);
    }
    to_.outputs.push_back(
        {argument, graph::numbers(ref.sizes), graph::numbers(strides), scalar_type(builder_.type(ref))});
    to_.has_work |= !graph::numel(ref.sizes).is(0);
  }

  static bool equal_strides(const std::vector<Size>& sizes, const std::vector<Size>& a, const std::vector<Size>& b) {
    for (size_t d = 0; d < sizes.size(); ++d)
      if (!sizes[d].is(1) && !(a[d] == b[d])) return false;
    return true;
  }

  /// Of a new result: what torch gives it.
  std::vector<Size> wanted_strides(const Ref& ref) const {
    // Flip makes an empty_like of its operand.
    if (op_.name == "aten::flip" && stack_[0].toTensor().is_non_overlapping_and_dense())
      return sizes_of(stack_[0].toTensor().strides());
    if (op_.pointwise) return iterator_strides(builder_.type(ref));
    return graph::is_dense(ref.sizes, ref.strides) ? ref.strides : graph::contiguous(ref.sizes);
  }

  /// Those of torch's own iterator over these operands.
  std::vector<Size> iterator_strides(HostType type) const {
    at::TensorIteratorConfig config;
    config.set_check_mem_overlap(false).check_all_same_dtype(false).declare_static_dtype_and_device(scalar_type(type),
                                                                                                    at::kMeta);
    config.add_owned_output(Tensor());
    const auto meta = c10::TensorOptions(at::kMeta);
    for (size_t i = 0; i < op_.args.size(); ++i) {
      if (op_.args[i].kind != ArgKind::tensor || op_.args[i].out || !stack_[i].isTensor()) continue;
      const Tensor& t = stack_[i].toTensor();
      if (t.defined())
        config.add_owned_const_input(at::empty_strided(t.sizes(), t.strides(), meta.dtype(t.scalar_type())));
    }
    return sizes_of(config.build().output(0).strides());
  }

  void finish() {
    for (size_t i = 0; i < op_.args.size(); ++i) to_.written_args |= op_.args[i].written;
    const graph::Graph& g = builder_.graph();
    for (const Id id : g.inputs)
      to_.two_dtypes |= g.values[static_cast<size_t>(id)].type != g.values[static_cast<size_t>(g.inputs[0])].type;
    graph::Graph made = std::move(builder_).finish();
    if (op_.functional == attention_op) merge_attention(made);
    to_.executor = engine::executor(std::move(made));
    const graph::Graph& done = to_.executor->graph();
    for (const Id id : done.inputs) {
      const graph::Value& value = done.values[static_cast<size_t>(id)];
      to_.input_args.push_back({nullptr, {graph::numbers(value.sizes), graph::numbers(value.strides), 0}});
    }
    for (const Ref& ref : done.outputs) {
      const graph::Value& value = done.values[static_cast<size_t>(ref.value)];
      to_.output_args.push_back({nullptr, {graph::numbers(value.sizes), graph::numbers(value.strides), 0}});
    }
  }

  const EagerOp& op_;
  const IValue* stack_;
  const EagerArguments& args_;
  const ImportMode mode_;
  EagerCall& to_;
  std::vector<Id> input_of_;  // per slot
  bool floats_ = false;       // a device tensor that is read is floating
  int highest_ = -1;          // category of the device tensors with dimensions
  graph::Builder builder_;
  const graph::Loc loc_{op_.name, ""};
};

}  // namespace

std::shared_ptr<EagerCall> prepare_call(const EagerOp& op, const IValue* stack, const EagerArguments& args,
                                        PrepareOptions options) {
  const bool with_values = options.with_values;
  std::vector<ImportMode> modes{{with_values, false, options.detour}};
  if (std::any_of(args.slots.begin(), args.slots.end(), [](const EagerSlot& s) { return s.value >= 0; }))
    modes.push_back({with_values, true, options.detour});
  std::string why;
  for (const ImportMode mode : modes) {
    auto call = std::make_shared<EagerCall>();
    try {
      Importer(op, stack, args, mode, *call).run();
      return call;
    } catch (const Error& error) {
      if (error.fault() != Fault::unimplemented) throw;
      if (why.empty()) why = error.what();
    }
  }
  auto call = std::make_shared<EagerCall>();
  call->state = !with_values && !args.values.empty() ? EagerCall::State::by_value : EagerCall::State::refused;
  call->why = why;
  return call;
}

}  // namespace spyre::torch
