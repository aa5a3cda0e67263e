// The algebra of sizes: sums and products of polynomials in normal form, and the rules by which floor_div, min and max
// simplify.
#include "graph/size.h"

#include <algorithm>
#include <compare>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "graph/size_terms.h"

namespace spyre::graph {

using Atom = SizeAtom;

struct Size::Polynomial {
  SizeTerms terms;
  Id highest_symbol = none;
  int depth = 0;       // levels of floor_div, min, max
  int64_t weight = 0;  // atoms, those inside of functions included
};

/// Conversions between sizes and lists of terms.
struct Size::Algebra {
  static const SizeTerms& terms(const Size& s, SizeTerms& room) {
    if (s.polynomial_) return s.polynomial_->terms;
    room.clear();
    if (s.constant_ != 0) room.push_back({{}, s.constant_});
    return room;
  }

  static int depth(const Size& s) { return s.polynomial_ ? s.polynomial_->depth : 0; }
  static int64_t weight(const Size& s) { return s.polynomial_ ? s.polynomial_->weight : 0; }

  /// The size of these terms, which are sorted and distinct, with no coefficient 0.
  static Size make(SizeTerms terms) {
    if (terms.empty()) return Size(0);
    if (terms.size() == 1 && terms[0].atoms.empty()) return Size(terms[0].coefficient);
    if (terms.size() > max_size_terms) fail(Fault::user, "a size expression has more than {} terms", max_size_terms);
    auto p = std::make_shared<Polynomial>();
    for (const SizeTerm& term : terms) {
      if (term.atoms.size() > max_size_factors)
        fail(Fault::user, "a term of a size expression has more than {} factors", max_size_factors);
      for (const Atom& atom : term.atoms) {
        if (atom.op == Atom::Op::symbol) {
          p->highest_symbol = std::max(p->highest_symbol, atom.symbol);
        } else {
          p->highest_symbol = std::max({p->highest_symbol, atom.a.highest_symbol(), atom.b.highest_symbol()});
          p->depth = std::max(p->depth, 1 + std::max(depth(atom.a), depth(atom.b)));
          p->weight += weight(atom.a) + weight(atom.b);
        }
        ++p->weight;
      }
    }
    if (p->depth > max_size_depth) fail(Fault::user, "a size expression nests more than {} functions", max_size_depth);
    if (p->weight > max_size_weight) fail(Fault::user, "a size expression has more than {} atoms", max_size_weight);
    p->terms = std::move(terms);
    return Size(std::move(p));
  }

  static Size atom(Atom::Op op, const Size& a, const Size& b) { return make({{{Atom{op, none, a, b}}, 1}}); }

  /// Sorts, adds up equal monomials and drops zeros.
  static SizeTerms normal(SizeTerms terms) {
    std::sort(terms.begin(), terms.end(),
              [](const SizeTerm& x, const SizeTerm& y) { return compare(x.atoms, y.atoms) < 0; });
    SizeTerms out;
    for (SizeTerm& term : terms) {
      if (!out.empty() && compare(out.back().atoms, term.atoms) == 0) {
        out.back().coefficient = checked_add(out.back().coefficient, term.coefficient);
      } else {
        if (!out.empty() && out.back().coefficient == 0) out.pop_back();
        out.push_back(std::move(term));
      }
    }
    if (!out.empty() && out.back().coefficient == 0) out.pop_back();
    return out;
  }

  /// a + b x factor, both in normal form.
  static SizeTerms sum(const SizeTerms& a, const SizeTerms& b, int64_t factor) {
    SizeTerms out;
    out.reserve(a.size() + b.size());
    size_t i = 0, j = 0;
    while (i < a.size() || j < b.size()) {
      const int order = i == a.size() ? 1 : j == b.size() ? -1 : compare(a[i].atoms, b[j].atoms);
      if (order < 0) {
        out.push_back(a[i++]);
      } else if (order > 0) {
        out.push_back({b[j].atoms, checked_mul(b[j].coefficient, factor)});
        ++j;
      } else {
        const int64_t c = checked_add(a[i].coefficient, checked_mul(b[j].coefficient, factor));
        if (c != 0) out.push_back({a[i].atoms, c});
        ++i, ++j;
      }
    }
    return out;
  }

  static SizeTerms product(const SizeTerms& a, const SizeTerms& b) {
    if (a.size() * b.size() > 64 * max_size_terms)
      fail(Fault::user, "a size expression has more than {} terms", max_size_terms);
    SizeTerms out;
    out.reserve(a.size() * b.size());
    for (const SizeTerm& x : a)
      for (const SizeTerm& y : b) {
        SizeTerm t;
        std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(), std::back_inserter(t.atoms),
                   [](const Atom& p, const Atom& q) { return compare(p, q) < 0; });
        t.coefficient = checked_mul(x.coefficient, y.coefficient);
        out.push_back(std::move(t));
      }
    return normal(std::move(out));
  }

  /// Quotient of monomials, if `b`'s factors are all in `a`.
  static std::optional<std::vector<Atom>> monomial_quotient(const std::vector<Atom>& a, const std::vector<Atom>& b) {
    std::vector<Atom> out;
    size_t j = 0;
    for (const Atom& x : a) {
      if (j < b.size() && compare(x, b[j]) == 0)
        ++j;
      else
        out.push_back(x);
    }
    if (j != b.size()) return std::nullopt;
    return out;
  }

  /// a / b when that is a polynomial of integer coefficients. Terms are ordered by degree first, so the leading term of
  /// a product is the product of the leading terms.
  static std::optional<SizeTerms> exact_quotient(SizeTerms a, const SizeTerms& b) {
    SizeTerms quotient;
    for (size_t steps = 0; !a.empty(); ++steps) {
      if (steps > max_size_terms) return std::nullopt;
      const SizeTerm &lead = a.back(), &by = b.back();
      const auto atoms = monomial_quotient(lead.atoms, by.atoms);
      if (!atoms || (by.coefficient == -1 && lead.coefficient == INT64_MIN) || lead.coefficient % by.coefficient != 0)
        return std::nullopt;
      const SizeTerm q{*atoms, lead.coefficient / by.coefficient};
      quotient.push_back(q);
      a = sum(a, product(b, {q}), -1);
    }
    return normal(std::move(quotient));
  }

  static Size divide(const Size& a, const Size& b);
  static Size extreme(Atom::Op op, const Size& a, const Size& b);
  static int64_t eval(const Polynomial& p, std::span<const int64_t> symbols);
};

const SizeTerms& size_terms(const Size& s, SizeTerms& room) { return Size::Algebra::terms(s, room); }

int compare(const Size& a, const Size& b) {
  const auto ca = a.constant(), cb = b.constant();
  if (ca && cb) return *ca < *cb ? -1 : *ca > *cb;
  if (ca || cb) return ca ? -1 : 1;
  SizeTerms ra, rb;
  const SizeTerms &x = size_terms(a, ra), &y = size_terms(b, rb);
  if (&x == &y) return 0;
  if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
  for (size_t i = x.size(); i-- > 0;) {
    if (const int c = compare(x[i].atoms, y[i].atoms)) return c;
    if (x[i].coefficient != y[i].coefficient) return x[i].coefficient < y[i].coefficient ? -1 : 1;
  }
  return 0;
}

int compare(const Atom& a, const Atom& b) {
  if (a.op != b.op) return a.op < b.op ? -1 : 1;
  if (a.op == Atom::Op::symbol) return a.symbol < b.symbol ? -1 : a.symbol > b.symbol;
  const int c = compare(a.a, b.a);
  return c != 0 ? c : compare(a.b, b.b);
}

// By degree, then by atoms from the smallest on: the one with the smaller atom is the greater monomial, as in graded
// lexicographic order, so that multiplying by a monomial keeps the order.
int compare(const std::vector<Atom>& a, const std::vector<Atom>& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (const int c = compare(a[i], b[i])) return -c;
  }
  return 0;
}

namespace {

[[noreturn]] void overflow() { fail(Fault::user, "a size leaves 64-bit integers: the tensor is too large to address"); }

int64_t divide_down(int64_t a, int64_t b) {
  if (b == 0) fail(Fault::user, "a size expression divides by zero");
  if (b == -1) return checked_mul(a, -1);
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) overflow();
  return r;
}
int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) overflow();
  return r;
}

Size::Size(int64_t value) : constant_(value) {}

Size Size::symbol(Id id) {
  if (id < 0) fail(Fault::user, "a size names symbol {}", id);
  return Algebra::make({{{Atom{Atom::Op::symbol, id, {}, {}}}, 1}});
}

Size operator+(const Size& a, const Size& b) {
  if (!a.polynomial_ && !b.polynomial_) return checked_add(a.constant_, b.constant_);
  SizeTerms ra, rb;
  return Size::Algebra::make(Size::Algebra::sum(size_terms(a, ra), size_terms(b, rb), 1));
}

Size operator-(const Size& a, const Size& b) {
  if (!a.polynomial_ && !b.polynomial_) {
    int64_t r;
    if (__builtin_sub_overflow(a.constant_, b.constant_, &r)) overflow();
    return r;
  }
  SizeTerms ra, rb;
  return Size::Algebra::make(Size::Algebra::sum(size_terms(a, ra), size_terms(b, rb), -1));
}

Size operator*(const Size& a, const Size& b) {
  if (!a.polynomial_ && !b.polynomial_) return checked_mul(a.constant_, b.constant_);
  if (a.is(1)) return b;
  if (b.is(1)) return a;
  SizeTerms ra, rb;
  return Size::Algebra::make(Size::Algebra::product(size_terms(a, ra), size_terms(b, rb)));
}

// floor((b q + r) / b) = q + floor(r / b) takes whole multiples of the divisor out; then common factors of the
// coefficients are cancelled, and a quotient of a quotient becomes one.
Size Size::Algebra::divide(const Size& a, const Size& b) {
  if (a.is(0)) return 0;
  SizeTerms ra, rb;
  const SizeTerms &x = terms(a, ra), &y = terms(b, rb);
  if (auto exact = exact_quotient(x, y)) return make(std::move(*exact));
  if (y.size() != 1 || y[0].coefficient < 0) return atom(Atom::Op::floor_div, a, b);

  SizeTerms whole, rest;
  const int64_t c = y[0].coefficient;
  for (const SizeTerm& term : x) {
    const auto atoms = monomial_quotient(term.atoms, y[0].atoms);
    const int64_t q = atoms ? divide_down(term.coefficient, c) : 0;
    if (q != 0) whole.push_back({*atoms, q});
    const int64_t r = term.coefficient - q * c;
    if (r != 0) rest.push_back({term.atoms, r});
  }
  whole = normal(std::move(whole));
  const auto plus_whole = [&](const Size& s) { return make(std::move(whole)) + s; };
  if (!y[0].atoms.empty())
    return plus_whole(rest.empty() ? Size(0) : atom(Atom::Op::floor_div, make(std::move(rest)), b));

  // By a constant: every coefficient of the rest lies in 0 .. c - 1.
  int64_t common = c, constant = 0;
  for (const SizeTerm& term : rest) {
    if (term.atoms.empty())
      constant = term.coefficient;
    else
      common = std::gcd(common, term.coefficient);
  }
  if (rest.empty() || (rest.size() == 1 && rest[0].atoms.empty())) return plus_whole(0);
  SizeTerms reduced;
  for (const SizeTerm& term : rest) {
    if (const int64_t k = term.coefficient / common) reduced.push_back({term.atoms, k});
  }
  constant /= common;
  const int64_t by = c / common;
  if (by == 1) return plus_whole(make(std::move(reduced)));
  const SizeTerm& last = reduced.back();
  const bool alone = reduced.size() == (constant != 0 ? 2u : 1u);
  if (alone && last.coefficient == 1 && last.atoms.size() == 1 && last.atoms[0].op == Atom::Op::floor_div) {
    const Atom inner = last.atoms[0];
    if (const auto n = inner.b.constant(); n && *n > 0)
      return plus_whole(floor_div(inner.a + Size(constant) * Size(*n), checked_mul(by, *n)));
  }
  return plus_whole(atom(Atom::Op::floor_div, make(std::move(reduced)), by));
}

Size Size::floor_div(const Size& a, const Size& b) {
  const auto divisor = b.constant();
  if (divisor) {
    if (const auto n = a.constant()) return divide_down(*n, *divisor);
    if (*divisor == 0) fail(Fault::user, "a size expression divides by zero");
    if (*divisor < 0) return Algebra::divide(Size(0) - a, checked_mul(*divisor, -1));
  }
  return Algebra::divide(a, b);
}

Size Size::mod(const Size& a, const Size& b) { return a - b * floor_div(a, b); }

Size Size::Algebra::extreme(Atom::Op op, const Size& a, const Size& b) {
  if (const auto difference = (a - b).constant()) return (*difference < 0) == (op == Atom::Op::min) ? a : b;
  return compare(a, b) < 0 ? atom(op, a, b) : atom(op, b, a);
}

Size Size::min(const Size& a, const Size& b) {
  if (!a.polynomial_ && !b.polynomial_) return std::min(a.constant_, b.constant_);
  return Algebra::extreme(Atom::Op::min, a, b);
}
Size Size::max(const Size& a, const Size& b) {
  if (!a.polynomial_ && !b.polynomial_) return std::max(a.constant_, b.constant_);
  return Algebra::extreme(Atom::Op::max, a, b);
}

bool Size::operator==(const Size& other) const { return compare(*this, other) == 0; }
bool Size::operator<(const Size& other) const { return compare(*this, other) < 0; }

std::optional<int64_t> Size::constant() const {
  if (polynomial_) return std::nullopt;
  return constant_;
}

Id Size::highest_symbol() const { return polynomial_ ? polynomial_->highest_symbol : none; }

int64_t Size::Algebra::eval(const Polynomial& p, std::span<const int64_t> symbols) {
  int64_t sum = 0;
  for (const SizeTerm& term : p.terms) {
    int64_t product = term.coefficient;
    for (const Atom& atom : term.atoms) {
      int64_t value = 0;
      if (atom.op == Atom::Op::symbol) {
        if (static_cast<size_t>(atom.symbol) >= symbols.size())
          fail(Fault::user, "a size names symbol s{}, but {} symbols are given", atom.symbol, symbols.size());
        value = symbols[atom.symbol];
      } else {
        const int64_t a = atom.a.eval(symbols), b = atom.b.eval(symbols);
        value = atom.op == Atom::Op::floor_div ? divide_down(a, b)
                : atom.op == Atom::Op::min     ? std::min(a, b)
                                               : std::max(a, b);
      }
      product = checked_mul(product, value);
    }
    sum = checked_add(sum, product);
  }
  return sum;
}

int64_t Size::eval(std::span<const int64_t> symbols) const {
  return polynomial_ ? Algebra::eval(*polynomial_, symbols) : constant_;
}

}  // namespace spyre::graph
