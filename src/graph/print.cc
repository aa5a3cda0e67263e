// A graph as text: one symbol, param, input, node, output or mutation a line.
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "graph/text.h"
#include "program/lexer.h"
#include "program/vector_rules.h"

namespace spyre::graph {

namespace {

constexpr std::string_view op_words[] = {
    "operand",     "constant_f", "constant_i", "integer", "scalar", "iota",    "add",     "sub",         "mul",
    "div",         "min",        "max",        "abs",     "neg",    "square",  "floor",   "ceil",        "round",
    "trunc",       "exp",        "expm1",      "log",     "log1p",  "log2",    "exp2",    "sqrt",        "rsqrt",
    "sin",         "cos",        "tan",        "tanh",    "erf",    "pow",     "fmod",    "fma",         "rcp",
    "sign",        "floor_div",  "remainder",  "bit_and", "bit_or", "bit_xor", "bit_not", "shl",         "shr",
    "lt",          "le",         "gt",         "ge",      "eq",     "ne",      "is_nan",  "logical_and", "logical_or",
    "logical_not", "select",     "cast",       "philox"};
static_assert(std::size(op_words) == static_cast<size_t>(VecOp::philox) + 1);
constexpr size_t first_op = static_cast<size_t>(VecOp::add);

constexpr std::string_view role_words[] = {"batch", "m", "n", "k"};
constexpr std::string_view mode_words[] = {"set", "add", "prod", "max", "min"};
constexpr std::string_view outside_words[] = {"trap", "skip", "fill"};
constexpr std::string_view type_words[] = {"f16", "bf16", "f32",  "b8",   "u8",  "i8", "i16",
                                           "i32", "i64",  "e4m3", "e5m2", "f64", "c64"};
static_assert(std::size(type_words) == static_cast<size_t>(HostType::c64) + 1);

template <typename E, size_t N>
std::optional<E> find(const std::string_view (&words)[N], std::string_view word, size_t first = 0) {
  for (size_t i = first; i < N; ++i) {
    if (words[i] == word) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view op_word(VecOp op) { return op_words[static_cast<size_t>(op)]; }
std::optional<VecOp> op_from_word(std::string_view word) { return find<VecOp>(op_words, word, first_op); }
std::string_view role_word(Contract::Role role) { return role_words[static_cast<size_t>(role)]; }
std::optional<Contract::Role> role_from_word(std::string_view word) { return find<Contract::Role>(role_words, word); }
std::string_view mode_word(Scatter::Mode mode) { return mode_words[static_cast<size_t>(mode)]; }
std::optional<Scatter::Mode> mode_from_word(std::string_view word) { return find<Scatter::Mode>(mode_words, word); }
std::string_view outside_word(OnOutside outside) { return outside_words[static_cast<size_t>(outside)]; }
std::optional<OnOutside> outside_from_word(std::string_view word) { return find<OnOutside>(outside_words, word); }
std::string_view type_word(HostType type) { return type_words[static_cast<size_t>(type)]; }
std::optional<HostType> type_from_word(std::string_view word) { return find<HostType>(type_words, word); }

std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

namespace {

class Printer {
 public:
  explicit Printer(std::string& out) : out_(out) {}

  void graph(const Graph& g) {
    for (size_t s = 0; s < g.symbols.size(); ++s)
      out_ += fmt::format("symbol s{} {} {}..{}\n", s, program::escape(g.symbols[s].name), g.symbols[s].lo,
                          g.symbols[s].hi);
    for (size_t p = 0; p < g.params.size(); ++p)
      out_ +=
          fmt::format("param p{} {} {}\n", p, program::escape(g.params[p].name), g.params[p].is_float ? "f32" : "i32");
    for (Id input : g.inputs) {
      out_ += "input ";
      value(g, input);
      out_ += '\n';
    }
    for (const Node& n : g.nodes) {
      for (size_t r = 0; r < n.results.size(); ++r) {
        if (r > 0) out_ += ", ";
        value(g, n.results[r]);
      }
      out_ += " = ";
      kind(n.kind);
      if (!(n.loc == Loc{})) out_ += fmt::format(" at {} {}", program::escape(n.loc.op), program::escape(n.loc.source));
      out_ += '\n';
    }
    for (const Ref& r : g.outputs) {
      out_ += "output ";
      ref(r);
      out_ += '\n';
    }
    for (const Graph::Mutation& m : g.mutations) {
      out_ += fmt::format("mutate v{} = ", m.input);
      ref(m.value);
      out_ += '\n';
    }
  }

  void kind(const Kind& k) {
    out_ += kind_name(k);
    std::visit([this](const auto& n) { body(n); }, k);
  }

  void expr(const Expr& e) {
    using Leaf = Expr::Leaf;
    switch (e.leaf) {
      case Leaf::load:
        out_ += fmt::format("l{}", e.id);
        return;
      case Leaf::param:
        out_ += fmt::format("p{}", e.id);
        return;
      case Leaf::iota:
        out_ += fmt::format("iota({})", e.id);
        return;
      case Leaf::size:
        out_ += fmt::format("size({})", e.size.text());
        return;
      case Leaf::constant:
        if (e.type == Reg::f32)
          out_ += number_text(e.number);
        else if (e.type == Reg::i32)
          out_ += std::to_string(e.integer);
        else
          out_ += e.integer != 0 ? "true" : "false";
        return;
      case Leaf::none:
        break;
    }
    if (e.op == VecOp::cast)
      out_ += program::register_name(e.type);
    else
      out_ += op_word(e.op);
    if (e.op == VecOp::philox) out_ += std::to_string(e.integer);
    if (e.trap) out_ += '!';
    out_ += '(';
    for (size_t i = 0; i < e.args.size(); ++i) {
      if (i > 0) out_ += ", ";
      expr(e.args[i]);
    }
    out_ += ')';
  }

 private:
  void value(const Graph& g, Id id) {
    out_ += fmt::format("v{} ", id);
    if (id < 0 || static_cast<size_t>(id) >= g.values.size()) {
      out_ += '?';
      return;
    }
    const Value& v = g.values[static_cast<size_t>(id)];
    if (!v.name.empty()) out_ += program::escape(v.name) + ' ';
    out_ += type_word(v.type);
    out_ += ' ';
    pairs(v.sizes, v.strides);
    out_ += ']';
  }

  /// "[a:b, c:d", without the closing bracket.
  void pairs(const std::vector<Size>& a, const std::vector<Size>& b) {
    out_ += '[';
    for (size_t d = 0; d < std::max(a.size(), b.size()); ++d) {
      if (d > 0) out_ += ", ";
      out_ += d < a.size() ? a[d].text() : "?";
      out_ += ':';
      out_ += d < b.size() ? b[d].text() : "?";
    }
  }
  void ref(const Ref& r) {
    out_ += fmt::format("v{}", r.value);
    pairs(r.sizes, r.strides);
    if (!r.offset.is(0)) out_ += (r.sizes.empty() ? "@ " : " @ ") + r.offset.text();
    out_ += ']';
  }
  void list(const std::vector<Size>& sizes) {
    out_ += " [";
    for (size_t d = 0; d < sizes.size(); ++d) out_ += (d > 0 ? ", " : "") + sizes[d].text();
    out_ += ']';
  }
  void load(const Load& l) {
    ref(l.ref);
    bool fills = false;
    for (const Load::Gather& g : l.gathers) {
      out_ += " gather(";
      expr(g.index);
      out_ += fmt::format(", {}, {}, {})", g.bound.text(), g.stride.text(), outside_word(g.outside));
      fills = fills || g.outside == OnOutside::fill;
    }
    if (fills) out_ += " fill " + number_text(l.fill);
  }
  void loads(const std::vector<Load>& all) {
    out_ += " loads(";
    for (size_t i = 0; i < all.size(); ++i) {
      if (i > 0) out_ += ", ";
      load(all[i]);
    }
    out_ += ')';
  }
  void named(std::string_view word, const Ref& r) {
    out_ += fmt::format(" {}(", word);
    ref(r);
    out_ += ')';
  }
  void named(std::string_view word, const Expr& e) {
    out_ += fmt::format(" {}(", word);
    expr(e);
    out_ += ')';
  }

  void body(const Map& n) {
    list(n.space);
    loads(n.loads);
    out_ += " value(";
    for (size_t i = 0; i < n.value.size(); ++i) {
      if (i > 0) out_ += ", ";
      expr(n.value[i]);
    }
    out_ += ')';
  }
  void monoid(Monoid m, bool trap) { out_ += fmt::format(" {}{}", program::monoid_name(m), trap ? "!" : ""); }
  void body(const Reduce& n) {
    monoid(n.monoid, n.trap);
    list(n.space);
    out_ += " over(";
    for (size_t i = 0; i < n.dims.size(); ++i) out_ += (i > 0 ? ", " : "") + std::to_string(n.dims[i]);
    out_ += ')';
    loads(n.loads);
    named("value", n.value);
  }
  void body(const Scan& n) {
    monoid(n.monoid, n.trap);
    list(n.space);
    out_ += fmt::format(" over({})", n.dim);
    loads(n.loads);
    named("value", n.value);
  }
  void body(const Contract& n) {
    out_ += " [";
    for (size_t d = 0; d < n.space.size(); ++d) {
      if (d > 0) out_ += ", ";
      out_ += n.space[d].text();
      out_ += ':';
      out_ += d < n.roles.size() ? role_word(n.roles[d]) : "?";
    }
    out_ += "] a(";
    load(n.a);
    out_ += ") b(";
    load(n.b);
    out_ += ')';
  }
  void body(const Attention& n) {
    named("q", n.q);
    named("k", n.k);
    named("v", n.v);
    if (n.mask) named("mask", *n.mask);
    if (n.causal) out_ += " causal";
    named("scale", n.scale);
    if (n.with_logsumexp) out_ += " logsumexp";
  }
  void body(const Place& n) {
    list(n.sizes);
    if (n.base)
      named("base", *n.base);
    else
      out_ += fmt::format(" fill({})", number_text(n.fill));
    for (const Place::Piece& p : n.pieces) {
      out_ += " piece(";
      ref(p.from);
      out_ += " at ";
      pairs(p.start, p.step);
      out_ += "])";
    }
  }
  void body(const Scatter& n) {
    out_ += ' ';
    out_ += mode_word(n.mode);
    list(n.space);
    named("base", n.base);
    loads(n.loads);
    named("value", n.value);
    for (const Scatter::Target& t : n.targets) {
      out_ += " target(";
      expr(t.index);
      out_ += fmt::format(", {})", outside_word(t.outside));
    }
  }
  void body(const Sort& n) {
    named("from", n.from);
    out_ += fmt::format(" over({})", n.dim);
    if (n.descending) out_ += " descending";
    if (n.k) out_ += fmt::format(" first({})", n.k->text());
  }

  std::string& out_;
};

}  // namespace

std::string print(const Graph& graph) {
  std::string out;
  Printer(out).graph(graph);
  return out;
}

std::string print(const Expr& expr) {
  std::string out;
  Printer(out).expr(expr);
  return out;
}

std::string print(const Kind& kind) {
  std::string out;
  Printer(out).kind(kind);
  return out;
}

}  // namespace spyre::graph
