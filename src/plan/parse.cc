// The reverse of print.cc.
#include <limits>

#include "plan/plan.h"
#include "program/lexer.h"

namespace spyre::plan {

namespace {

using program::fail_at;
using program::Token;
using TokenKind = Token::Kind;

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(program::lex(text)) {}

  Plan run() {
    while (now().kind != TokenKind::end) {
      const Token& at = now();
      if (take("kernel"))
        kernel();
      else if (take("home"))
        home();
      else if (take("repack"))
        repack();
      else
        fail_at(at, "'kernel', 'home' or 'repack' is expected here, not '{}'", at.text);
    }
    return std::move(plan_);
  }

 private:
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
  int64_t integer() {
    const bool negative = take("-");
    if (now().kind != TokenKind::integer) fail_at(now(), "an integer is expected here, not '{}'", now().text);
    if (now().integer > static_cast<uint64_t>(INT64_MAX)) fail_at(now(), "{} is too large", now().text);
    const auto value = static_cast<int64_t>(now().integer);
    advance();
    return negative ? -value : value;
  }
  int32_t small() {
    const Token& at = now();
    const int64_t value = integer();
    if (value < INT32_MIN || value > INT32_MAX) fail_at(at, "{} is too large", value);
    return static_cast<int32_t>(value);
  }
  template <typename T>
  std::vector<T> list() {
    std::vector<T> out;
    expect("(");
    if (take(")")) return out;
    do {
      if constexpr (sizeof(T) == 4)
        out.push_back(small());
      else
        out.push_back(integer());
    } while (take(","));
    expect(")");
    return out;
  }
  Id value_id() {
    const std::string_view text = now().text;
    int64_t id = 0;
    bool good = now().kind == TokenKind::name && text.size() >= 2 && text.size() <= 10 && text[0] == 'v';
    for (size_t i = 1; good && i < text.size(); ++i) {
      good = text[i] >= '0' && text[i] <= '9';
      id = id * 10 + (text[i] - '0');
    }
    if (!good || id > INT32_MAX) fail_at(now(), "'v' and a number are expected here, not '{}'", text);
    advance();
    return static_cast<Id>(id);
  }
  layout::Geometry geometry() {
    if (now().kind != TokenKind::geometry) fail_at(now(), "a geometry is expected here, not '{}'", now().text);
    const Token& at = now();
    advance();
    try {
      return layout::Geometry::from_text(at.text);
    } catch (const Error& e) {
      fail_at(at, "{}", e.what());
    }
  }
  graph::Ref ref() {
    graph::Ref out;
    out.value = value_id();
    expect("[");
    if (!now().is("]") && !now().is("@")) {
      do {
        out.sizes.emplace_back(integer());
        expect(":");
        out.strides.emplace_back(integer());
      } while (take(","));
    }
    if (take("@")) out.offset = integer();
    expect("]");
    return out;
  }

  void kernel() {
    KernelPlan k;
    k.form = word<Form>(form_name, Form::sort, "form");
    expect("nodes");
    k.nodes = list<Id>();
    expect("grid");
    k.grid = list<int32_t>();
    expect("tile");
    k.tile = list<int64_t>();
    expect("slots");
    k.slots = small();
    expect("cost");
    k.cost_ps = integer();
    expect("of");
    if (now().kind != TokenKind::string) fail_at(now(), "a string is expected here, not '{}'", now().text);
    advance();
    plan_.kernels.push_back(std::move(k));
  }
  void home() {
    const Token& at = now();
    const Id id = value_id();
    if (id != static_cast<Id>(plan_.homes.size())) fail_at(at, "v{} is expected here", plan_.homes.size());
    Home h;
    h.kind = word<Home::Kind>(home_name, Home::Kind::dead, "home");
    if (take("through")) h.through = ref();
    if (now().kind == TokenKind::geometry) h.geometry = geometry();
    plan_.homes.push_back(std::move(h));
  }
  void repack() {
    Repack r;
    expect("node");
    r.node = small();
    expect("read");
    r.read = small();
    r.geometry = geometry();
    plan_.repacks.push_back(std::move(r));
  }
  template <typename E, typename Fn>
  E word(Fn name, E last, std::string_view what) {
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      if (take(name(static_cast<E>(i)))) return static_cast<E>(i);
    }
    fail_at(now(), "'{}' is no {}", now().text, what);
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  Plan plan_;
};

}  // namespace

Plan parse(std::string_view text) { return Parser(text).run(); }

}  // namespace spyre::plan
