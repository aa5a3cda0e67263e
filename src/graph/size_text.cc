// Sizes as text, and back.
#include <charconv>
#include <string>

#include "base/error.h"
#include "graph/size_terms.h"

namespace spyre::graph {

namespace {

void print(std::string& out, const Size& size);

void print(std::string& out, const SizeAtom& atom) {
  if (atom.op == SizeAtom::Op::symbol) {
    out += 's';
    out += std::to_string(atom.symbol);
    return;
  }
  out += atom.op == SizeAtom::Op::floor_div ? "floor_div(" : atom.op == SizeAtom::Op::min ? "min(" : "max(";
  print(out, atom.a);
  out += ", ";
  print(out, atom.b);
  out += ')';
}

void print(std::string& out, const Size& size) {
  if (const auto constant = size.constant()) {
    out += std::to_string(*constant);
    return;
  }
  SizeTerms room;
  const SizeTerms& terms = size_terms(size, room);
  for (size_t i = terms.size(); i-- > 0;) {
    const SizeTerm& term = terms[i];
    const bool first = i + 1 == terms.size(), negative = term.coefficient < 0;
    out += first ? (negative ? "-" : "") : (negative ? " - " : " + ");
    const uint64_t magnitude =
        negative ? 0 - static_cast<uint64_t>(term.coefficient) : static_cast<uint64_t>(term.coefficient);
    bool factor = false;
    if (magnitude != 1 || term.atoms.empty()) {
      out += std::to_string(magnitude);
      factor = true;
    }
    for (const SizeAtom& atom : term.atoms) {
      if (factor) out += '*';
      print(out, atom);
      factor = true;
    }
  }
}

class SizeParser {
 public:
  explicit SizeParser(std::string_view text) : text_(text) {}

  Size run() {
    const Size result = sum();
    blanks();
    if (at_ != text_.size()) refuse("is no size expression");
    return result;
  }

 private:
  static constexpr int max_depth = 100;
  static constexpr Id max_symbol = 1'000'000;

  [[noreturn]] void refuse(std::string_view why) const {
    fail(Fault::user, "size '{}' {} at character {}", text_.substr(0, 200), why, at_ + 1);
  }

  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(fmt::format("lacks '{}'", c));
  }

  Size sum() {
    if (++depth_ > max_depth) refuse("is nested too deeply");
    Size total = product(take('-'));
    for (;;) {
      if (take('+'))
        total = total + product(take('-'));
      else if (take('-'))
        total = total + product(true);
      else
        break;
    }
    --depth_;
    return total;
  }

  Size product(bool negative) {
    Size result = factor(negative);
    while (take('*')) result = result * factor(false);
    return result;
  }

  uint64_t number() {
    uint64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [last, error] = std::from_chars(text_.data() + at_, end, value);
    if (error != std::errc{}) refuse("has a number that is none or too large");
    at_ = static_cast<size_t>(last - text_.data());
    return value;
  }

  Size factor(bool negative) {
    blanks();
    const auto with_sign = [&](const Size& s) { return negative ? Size(0) - s : s; };
    if (take('(')) {
      const Size inside = sum();
      expect(')');
      return with_sign(inside);
    }
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c >= '0' && c <= '9') {
      const uint64_t magnitude = number();
      if (magnitude > static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0)) refuse("has a number that is too large");
      return static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
    }
    const size_t start = at_;
    while (at_ < text_.size() && ((text_[at_] >= 'a' && text_[at_] <= 'z') || text_[at_] == '_')) ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    if (word == "s" && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      const uint64_t id = number();
      if (id > static_cast<uint64_t>(max_symbol)) refuse("has a symbol number that is too large");
      return with_sign(Size::symbol(static_cast<Id>(id)));
    }
    Size (*function)(const Size&, const Size&) = word == "floor_div" ? &Size::floor_div
                                                 : word == "mod"     ? &Size::mod
                                                 : word == "min"     ? &Size::min
                                                 : word == "max"     ? &Size::max
                                                                     : nullptr;
    if (function == nullptr) refuse("has something unknown");
    expect('(');
    const Size a = sum();
    expect(',');
    const Size b = sum();
    expect(')');
    return with_sign(function(a, b));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string Size::text() const {
  std::string out;
  print(out, *this);
  return out;
}

Size Size::parse(std::string_view text) { return SizeParser(text).run(); }

}  // namespace spyre::graph
