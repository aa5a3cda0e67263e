// The reverse of print.cc, for text from anywhere: what isn't a graph gives an Error with line and column.
#include <limits>
#include <map>

#include "base/error.h"
#include "graph/text.h"
#include "program/lexer.h"
#include "program/limits.h"
#include "program/vector_rules.h"

namespace spyre::graph {

namespace {

using program::fail_at;
using program::Token;
using TokenKind = Token::Kind;

class GraphParser {
 public:
  explicit GraphParser(std::string_view text) : tokens_(program::lex(text)) {}

  Graph run() {
    while (now().kind != TokenKind::end) statement();
    for (auto& [id, value] : values_) {
      if (id != static_cast<Id>(g_.values.size())) fail_at(now(), "value v{} is missing", g_.values.size());
      g_.values.push_back(std::move(value));
    }
    verify(g_);
    return std::move(g_);
  }

 private:
  static constexpr int64_t max_id = 100'000'000;

  const Token& now() const { return tokens_[at_]; }
  void advance() {
    if (now().kind != TokenKind::end) ++at_;
  }
  bool take(std::string_view word) {
    if (!now().is(word)) return false;
    advance();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail_at(now(), "'{}' is expected here, not '{}'", word, now().text);
  }

  /// `prefix` and a number: "v12".
  static std::optional<Id> numbered(const Token& token, char prefix) {
    const std::string_view t = token.text;
    if (token.kind != TokenKind::name || t.size() < 2 || t.size() > 10 || t[0] != prefix) return std::nullopt;
    int64_t id = 0;
    for (char c : t.substr(1)) {
      if (c < '0' || c > '9') return std::nullopt;
      id = id * 10 + (c - '0');
    }
    if (id > max_id) return std::nullopt;
    return static_cast<Id>(id);
  }
  Id id(char prefix) {
    const auto found = numbered(now(), prefix);
    if (!found) fail_at(now(), "'{}' and a number are expected here, not '{}'", prefix, now().text);
    advance();
    return *found;
  }

  std::string string() {
    if (now().kind != TokenKind::string) fail_at(now(), "a string is expected here, not '{}'", now().text);
    std::string out = program::unescape(now());
    advance();
    return out;
  }

  int64_t integer() {
    const bool negative = take("-");
    if (now().kind != TokenKind::integer) fail_at(now(), "an integer is expected here, not '{}'", now().text);
    const uint64_t magnitude = now().integer;
    if (magnitude > static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0))
      fail_at(now(), "{} is too large", now().text);
    advance();
    return static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  }
  int32_t dimension() {
    const Token& at = now();
    const int64_t d = integer();
    if (d < 0 || d > program::limits::tensor_rank) fail_at(at, "{} is no dimension", d);
    return static_cast<int32_t>(d);
  }

  std::optional<double> maybe_number() {
    const size_t start = at_;
    const bool negative = take("-");
    std::optional<double> out;
    if (now().kind == TokenKind::number)
      out = now().number;
    else if (now().is("inf"))
      out = std::numeric_limits<double>::infinity();
    else if (now().is("nan"))
      out = std::numeric_limits<double>::quiet_NaN();
    if (!out) {
      at_ = start;
      return out;
    }
    advance();
    return negative ? -*out : *out;
  }
  double number() {
    const auto out = maybe_number();
    if (!out) fail_at(now(), "a number such as 1.0 is expected here, not '{}'", now().text);
    return *out;
  }

  /// Everything up to a delimiter outside of parentheses.
  Size size() {
    const Token& first = now();
    int depth = 0;
    size_t last = at_;
    for (;; advance()) {
      const Token& t = now();
      if (t.kind == TokenKind::end || t.kind == TokenKind::string) break;
      if (t.is("(")) ++depth;
      if (depth == 0 && (t.is(",") || t.is(":") || t.is("]") || t.is(")") || t.is("@"))) break;
      if (t.is(")")) --depth;
      last = at_;
    }
    const char* begin = first.text.data();
    const char* end = tokens_[last].text.data() + tokens_[last].text.size();
    if (end <= begin || &now() == &first) fail_at(first, "a size is expected here, not '{}'", first.text);
    try {
      return Size::parse(std::string_view(begin, static_cast<size_t>(end - begin)));
    } catch (const Error& error) {
      fail_at(first, "{}", error.what());
    }
  }

  template <typename Fn>
  void separated(std::string_view close, Fn item) {
    if (take(close)) return;
    do item();
    while (take(","));
    expect(close);
  }

  std::vector<Size> list() {
    std::vector<Size> out;
    expect("[");
    separated("]", [&] { out.push_back(size()); });
    return out;
  }
  void pairs(std::vector<Size>& a, std::vector<Size>& b, Size* offset = nullptr) {
    expect("[");
    if (!now().is("]") && !now().is("@")) {
      do {
        a.push_back(size());
        expect(":");
        b.push_back(size());
      } while (take(","));
    }
    if (offset != nullptr && take("@")) *offset = size();
    expect("]");
  }

  Ref ref() {
    const Token& at = now();
    Ref r;
    r.value = id('v');
    if (!values_.contains(r.value)) fail_at(at, "value {} is not defined above", at.text);
    pairs(r.sizes, r.strides, &r.offset);
    return r;
  }
  Ref named_ref(std::string_view word) {
    expect(word);
    expect("(");
    Ref r = ref();
    expect(")");
    return r;
  }

  template <typename E>
  E word(std::optional<E> (*from)(std::string_view), std::string_view what) {
    const auto found = from(now().text);
    if (!found || now().kind != TokenKind::name) fail_at(now(), "'{}' is no {}", now().text, what);
    advance();
    return *found;
  }

  Load load() {
    Load l;
    l.ref = ref();
    while (take("gather")) {
      Load::Gather g;
      expect("(");
      g.index = expr();
      expect(",");
      g.bound = size();
      expect(",");
      g.stride = size();
      expect(",");
      g.outside = word(outside_from_word, "rule for what is outside");
      expect(")");
      l.gathers.push_back(std::move(g));
    }
    if (take("fill")) l.fill = number();
    return l;
  }
  std::vector<Load> loads() {
    loads_.clear();
    expect("loads");
    expect("(");
    separated(")", [&] {
      Load l = load();
      loads_.push_back(l.ref.value);
      collected_.push_back(std::move(l));
    });
    return std::exchange(collected_, {});
  }

  Expr expr(int depth = 0) {
    const Token& at = now();
    if (depth > program::limits::vec_depth)
      fail_at(at, "an expression of more than {} levels", program::limits::vec_depth);
    if (const auto n = maybe_number()) return Expr::f32(*n);
    if (at.kind == TokenKind::integer || at.is("-")) return Expr::i32(integer());
    if (at.kind != TokenKind::name) fail_at(at, "an expression is expected here, not '{}'", at.text);
    advance();
    if (at.is("true") || at.is("false")) return Expr::pred(at.is("true"));
    if (const auto l = numbered(at, 'l')) {
      if (static_cast<size_t>(*l) >= loads_.size()) fail_at(at, "there is no load {} here", at.text);
      return Expr::load(*l, type_of(at, loads_[static_cast<size_t>(*l)]));
    }
    if (const auto p = numbered(at, 'p')) {
      if (static_cast<size_t>(*p) >= g_.params.size()) fail_at(at, "there is no param {}", at.text);
      return Expr::of_param(*p, g_.params[static_cast<size_t>(*p)].is_float);
    }
    const bool trap = take("!");
    expect("(");
    if (at.is("size") || at.is("iota")) {
      if (trap) fail_at(at, "'!' belongs to operations");
      Expr e = at.is("size") ? Expr::of_size(size()) : Expr::iota(dimension());
      expect(")");
      return e;
    }
    std::vector<Expr> args;
    separated(")", [&] {
      if (args.size() == 3) fail_at(now(), "no operation has more than three arguments");
      args.push_back(expr(depth + 1));
    });
    try {
      return operation(at, std::move(args), trap);
    } catch (const Error& error) {
      fail_at(at, "{}", error.what());
    }
  }

  static Expr operation(const Token& at, std::vector<Expr> args, bool trap) {
    if (at.is("f32") || at.is("i32")) {
      if (args.size() != 1) fail(Fault::program, "a cast takes one argument");
      Expr e;
      e.op = VecOp::cast;
      e.type = at.is("f32") ? Reg::f32 : Reg::i32;
      e.trap = trap;
      e.args = std::move(args);
      return e;
    }
    int philox = -1;
    const std::string_view stem = "philox";
    if (at.text.size() == stem.size() + 1 && at.text.starts_with(stem)) philox = at.text.back() - '0';
    const auto op = op_from_word(philox >= 0 ? stem : at.text);
    if (!op || *op == VecOp::cast || (*op == VecOp::philox) != (philox >= 0))
      fail(Fault::program, "there is no operation '{}'", at.text);
    Expr e = Expr::make(*op, std::move(args), trap);
    if (philox >= 0) e.integer = philox;
    return e;
  }

  Reg type_of(const Token& at, Id value) const {
    try {
      return register_of(values_.at(value).type);
    } catch (const Error& error) {
      fail_at(at, "{}", error.what());
    }
  }

  Expr named_expr(std::string_view name) {
    expect(name);
    expect("(");
    Expr e = expr();
    expect(")");
    return e;
  }

  // ---- statements ---------------------------------------------------------------------------------------------------

  void statement() {
    const Token& at = now();
    if (take("symbol")) {
      Symbol s;
      if (id('s') != static_cast<Id>(g_.symbols.size())) fail_at(at, "symbol s{} is expected next", g_.symbols.size());
      s.name = string();
      s.lo = integer();
      expect("..");
      s.hi = integer();
      g_.symbols.push_back(std::move(s));
    } else if (take("param")) {
      Param p;
      if (id('p') != static_cast<Id>(g_.params.size())) fail_at(at, "param p{} is expected next", g_.params.size());
      p.name = string();
      p.is_float = now().is("f32");
      if (!take("f32")) expect("i32");
      g_.params.push_back(std::move(p));
    } else if (take("input")) {
      g_.inputs.push_back(define(value(none, 0)));
    } else if (take("output")) {
      g_.outputs.push_back(ref());
    } else if (take("mutate")) {
      Graph::Mutation m;
      m.input = id('v');
      expect("=");
      m.value = ref();
      g_.mutations.push_back(std::move(m));
    } else {
      node();
    }
  }

  std::pair<Id, Value> value(Id node, int32_t result) {
    const Token& at = now();
    std::pair<Id, Value> out;
    out.first = id('v');
    if (values_.contains(out.first)) fail_at(at, "value {} is defined twice", at.text);
    Value& v = out.second;
    v.node = node;
    v.result = result;
    if (now().kind == TokenKind::string) v.name = string();
    v.type = word(type_from_word, "type");
    pairs(v.sizes, v.strides);
    return out;
  }
  Id define(std::pair<Id, Value> v) {
    if (!values_.insert(v).second) fail_at(now(), "value v{} is defined twice", v.first);
    return v.first;
  }

  void node() {
    Node n;
    std::vector<std::pair<Id, Value>> results;
    do results.push_back(value(static_cast<Id>(g_.nodes.size()), static_cast<int32_t>(results.size())));
    while (take(","));
    expect("=");
    const Token& at = now();
    if (take("map"))
      n.kind = map();
    else if (take("reduce"))
      n.kind = reduce();
    else if (take("contract"))
      n.kind = contract();
    else if (take("attention"))
      n.kind = attention();
    else if (take("place"))
      n.kind = place();
    else if (take("scatter"))
      n.kind = scatter();
    else if (take("scan"))
      n.kind = scan();
    else if (take("sort"))
      n.kind = sort();
    else
      fail_at(at, "'{}' is no kind of node", at.text);
    if (take("at")) {
      n.loc.op = string();
      n.loc.source = string();
    }
    for (auto& r : results) n.results.push_back(define(std::move(r)));
    g_.nodes.push_back(std::move(n));
  }

  Map map() {
    Map n;
    n.space = list();
    n.loads = loads();
    expect("value");
    expect("(");
    separated(")", [&] { n.value.push_back(expr()); });
    return n;
  }
  void monoid(Monoid& m, bool& trap) {
    m = word(program::monoid_from_name, "monoid");
    trap = take("!");
  }
  Reduce reduce() {
    Reduce n;
    monoid(n.monoid, n.trap);
    n.space = list();
    expect("over");
    expect("(");
    separated(")", [&] { n.dims.push_back(dimension()); });
    n.loads = loads();
    n.value = named_expr("value");
    return n;
  }
  int32_t over() {
    expect("over");
    expect("(");
    const int32_t d = dimension();
    expect(")");
    return d;
  }
  Scan scan() {
    Scan n;
    monoid(n.monoid, n.trap);
    n.space = list();
    n.dim = over();
    n.loads = loads();
    n.value = named_expr("value");
    return n;
  }
  Contract contract() {
    Contract n;
    expect("[");
    separated("]", [&] {
      n.space.push_back(size());
      expect(":");
      n.roles.push_back(word(role_from_word, "role (batch, m, n or k)"));
    });
    loads_.clear();
    expect("a");
    expect("(");
    n.a = load();
    expect(")");
    expect("b");
    expect("(");
    n.b = load();
    expect(")");
    return n;
  }
  Attention attention() {
    Attention n;
    loads_.clear();
    n.q = named_ref("q");
    n.k = named_ref("k");
    n.v = named_ref("v");
    if (now().is("mask")) n.mask = named_ref("mask");
    n.causal = take("causal");
    n.scale = named_expr("scale");
    n.with_logsumexp = take("logsumexp");
    return n;
  }
  Place place() {
    Place n;
    n.sizes = list();
    if (take("fill")) {
      expect("(");
      n.fill = number();
      expect(")");
    } else {
      n.base = named_ref("base");
    }
    while (take("piece")) {
      Place::Piece p;
      expect("(");
      p.from = ref();
      expect("at");
      pairs(p.start, p.step);
      expect(")");
      n.pieces.push_back(std::move(p));
    }
    return n;
  }
  Scatter scatter() {
    Scatter n;
    n.mode = word(mode_from_word, "mode of a scatter");
    n.space = list();
    n.base = named_ref("base");
    n.loads = loads();
    n.value = named_expr("value");
    while (take("target")) {
      Scatter::Target t;
      expect("(");
      t.index = expr();
      expect(",");
      t.outside = word(outside_from_word, "rule for what is outside");
      expect(")");
      n.targets.push_back(std::move(t));
    }
    return n;
  }
  Sort sort() {
    Sort n;
    n.from = named_ref("from");
    n.dim = over();
    n.descending = take("descending");
    if (take("first")) {
      expect("(");
      n.k = size();
      expect(")");
    }
    return n;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  Graph g_;
  std::map<Id, Value> values_;
  std::vector<Id> loads_;  // values of the loads that expressions may name here
  std::vector<Load> collected_;
};

}  // namespace

Graph parse(std::string_view text) { return GraphParser(text).run(); }

}  // namespace spyre::graph
