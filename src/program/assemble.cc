// The text form outside steps: program section, kernels, ranges, buffers, conditions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "program/assembler.h"
#include "program/limits.h"
#include "program/place.h"
#include "program/program.h"
#include "program/structure.h"
#include "program/symbol_text.h"

namespace spyre::program {

Program assemble(std::string_view text) { return Assembler(text).run(); }

namespace {

/// Runs a check that knows no places in the text, and gives its error one.
template <typename Check>
void placed_at(const Token& token, Check check) {
  try {
    check();
  } catch (const Error& e) {
    fail_at(token, "{}", e.what());
  }
}

}  // namespace

Assembler::Deeper::Deeper(Assembler& assembler, const Token& at) : assembler_(assembler) {
  if (++assembler_.recursion_ > 2 * (limits::vec_depth + limits::int_depth) + 50) {
    --assembler_.recursion_;
    fail_at(at, "nested too deeply");
  }
}

// ----------------------------------------------------------------------------------------------------------------
// tokens

const Token& Assembler::peek(size_t ahead) const { return tokens_[std::min(position_ + ahead, tokens_.size() - 1)]; }

Token Assembler::next() {
  const Token token = peek();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool Assembler::accept(std::string_view word) {
  if (!peek().is(word)) return false;
  next();
  return true;
}

Token Assembler::expect(std::string_view word) {
  if (!peek().is(word)) fail_at(peek(), "expected '{}', found {}", word, describe(peek()));
  return next();
}

std::string Assembler::describe(const Token& token) const {
  if (token.kind == Token::Kind::end) return "the end of the text";
  if (token.kind == Token::Kind::string) return "a string";
  return fmt::format("'{}'", token.text.substr(0, 60));
}

int64_t Assembler::integer(std::string_view what, int64_t lo, int64_t hi) {
  const bool negative = accept("-");
  const Token token = peek();
  if (token.kind != Token::Kind::integer) fail_at(token, "expected {} (an integer), found {}", what, describe(token));
  next();
  if (token.integer > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    fail_at(token, "{} is too large", token.text);
  const int64_t value = negative ? -static_cast<int64_t>(token.integer) : static_cast<int64_t>(token.integer);
  if (value < lo || value > hi) fail_at(token, "{} must lie in {}..{}, not {}", what, lo, hi, value);
  return value;
}

double Assembler::number(std::string_view what, bool infinite) {
  const bool negative = accept("-");
  const Token token = next();
  double value = 0;
  if (token.kind == Token::Kind::integer) {
    value = static_cast<double>(token.integer);
  } else if (token.kind == Token::Kind::number) {
    value = token.number;
  } else if (infinite && token.is("inf")) {
    value = std::numeric_limits<double>::infinity();
  } else if (infinite && token.is("nan")) {
    return std::numeric_limits<double>::quiet_NaN();
  } else {
    fail_at(token, "expected {} (a number), found {}", what, describe(token));
  }
  return negative ? -value : value;
}

Token Assembler::new_name(std::string_view what) {
  const Token token = next();
  if (token.kind != Token::Kind::name) fail_at(token, "expected {}, found {}", what, describe(token));
  if (!is_name(token.text)) {
    fail_at(token, "'{}' can't be {}: {}", token.text.substr(0, 60), what,
            is_reserved(token.text) ? "the word is reserved"
                                    : fmt::format("names have at most {} characters", limits::name_length));
  }
  return token;
}

std::vector<int64_t> Assembler::sizes(std::string_view what, int64_t least) {
  expect("[");
  std::vector<int64_t> values;
  if (accept("]")) return values;
  do {
    values.push_back(integer(what, least, limits::elements));
  } while (accept(","));
  expect("]");
  return values;
}

Id Assembler::find(const Token& token, const std::unordered_map<std::string_view, Id>& names,
                   std::string_view what) const {
  const auto it = names.find(token.text);
  if (token.kind != Token::Kind::name || it == names.end())
    fail_at(token, "expected {}, found {}", what, describe(token));
  return it->second;
}

// ------------------------------------------------------------------------------------------------------- program
// section

Program Assembler::run() {
  while (peek().kind != Token::Kind::end) {
    if (accept("sym")) {
      symbol_line();
    } else if (accept("scalar")) {
      scalar_line();
    } else if (accept("loc")) {
      loc_line();
    } else if (peek().is("kernel")) {
      kernel();
    } else if (accept("call")) {
      call();
    } else {
      fail_at(peek(), "expected sym, scalar, loc, kernel or call, found {}", describe(peek()));
    }
  }
  check_structure(program_);
  return std::move(program_);
}

void Assembler::symbol_line() {
  const Token name = peek();
  Symbol s = symbol();
  if (!symbols_.emplace(name.text, static_cast<Id>(program_.symbols.size())).second) {
    fail_at(name, "symbol '{}' is already defined", name.text);
  }
  program_.symbols.push_back(std::move(s));
}

void Assembler::scalar_line() {
  const Token name = peek();
  Scalar s = scalar();
  if (!scalars_.emplace(name.text, static_cast<Id>(program_.scalars.size())).second) {
    fail_at(name, "scalar '{}' is already defined", name.text);
  }
  program_.scalars.push_back(std::move(s));
}

void Assembler::loc_line() {
  const Token at = peek();
  const int64_t id = integer("loc number", 0, std::numeric_limits<Id>::max());
  if (id != static_cast<int64_t>(program_.locs.size())) {
    fail_at(at, "loc lines are numbered in order: expected {}, found {}", program_.locs.size(), id);
  }
  Loc loc;
  for (std::string* part : {&loc.op, &loc.source}) {
    const Token text = next();
    if (text.kind != Token::Kind::string)
      fail_at(text, "expected loc {} \"op\" \"source\", found {}", id, describe(text));
    *part = unescape(text);
  }
  program_.locs.push_back(std::move(loc));
}

Symbol Assembler::symbol() {
  Symbol s;
  const Token name = new_name("a symbol's name");
  s.name = std::string(name.text);
  expect(":");
  const Token direction = next();
  constexpr std::string_view directions[] = {"in", "out", "inout", "temp"};
  const auto it = std::find(std::begin(directions), std::end(directions), direction.text);
  if (it == std::end(directions)) fail_at(direction, "expected in, out, inout or temp, found {}", describe(direction));
  s.direction = static_cast<Direction>(it - std::begin(directions));
  const Token format = next();
  placed_at(format, [&] { s.format = base::format_from_name(format.text); });
  view(s, name);
  return s;
}

void Assembler::view(Symbol& s, const Token& at) {
  s.view.sizes = sizes("a size", 0);
  if (s.view.sizes.size() > static_cast<size_t>(limits::view_rank)) {
    fail_at(at, "a view has at most {} dimensions, not {}", limits::view_rank, s.view.sizes.size());
  }
  const bool strided = accept("strides");
  if (strided) {
    s.view.strides = sizes("a stride", 0);
    if (s.view.strides.size() != s.view.sizes.size()) {
      fail_at(at, "{} sizes but {} strides", s.view.sizes.size(), s.view.strides.size());
    }
  } else {
    placed_at(at, [&] { s.view.strides = contiguous_strides(s.view.sizes); });
  }
  if (accept("offset")) s.view.offset = integer("an offset", 0, limits::elements);
  const Token how = peek();
  if (how.kind == Token::Kind::geometry) {
    next();
    placed_at(how, [&] { s.geometry = layout::Geometry::from_text(how.text); });
  } else if (accept("of")) {
    const std::vector<int64_t> stored = sizes("a size", 0);
    placed_at(how, [&] { s.geometry = default_geometry(s.format, stored, contiguous_strides(stored)); });
  } else {
    if (s.view.offset != 0) {
      fail_at(at, "a view with an offset needs the allocation it lies in: 'of [sizes]' or 'geo{{...}}'");
    }
    placed_at(at, [&] { s.geometry = default_geometry(s.format, s.view.sizes, s.view.strides); });
  }
  placed_at(at, [&] { check_symbol(s); });
}

Scalar Assembler::scalar() {
  Scalar s;
  s.name = std::string(new_name("a scalar's name").text);
  expect(":");
  const Token type = next();
  if (!type.is("i32") && !type.is("f32")) fail_at(type, "a scalar is i32 or f32, found {}", describe(type));
  s.is_float = type.is("f32");
  expect("in");
  const Token at = peek();
  if (s.is_float) {
    s.lo = number("a bound", true);
    expect("..");
    s.hi = number("a bound", true);
  } else {
    constexpr int64_t least = std::numeric_limits<int32_t>::min(), most = std::numeric_limits<int32_t>::max();
    s.lo = static_cast<double>(integer("a bound", least, most));
    expect("..");
    s.hi = static_cast<double>(integer("a bound", least, most));
  }
  if (!(s.lo <= s.hi)) fail_at(at, "the bounds of scalar {} are not in order", s.name);
  return s;
}

void Assembler::call() {
  const Token name = next();
  Call c;
  c.kernel = find(name, kernels_, "the name of a kernel above");
  const Kernel& k = program_.kernels[c.kernel];
  expect("(");
  if (!peek().is(";") && !peek().is(")")) {
    do {
      const Token actual = next();
      c.symbols.push_back(find(actual, symbols_, "a symbol"));
      if (c.symbols.size() > k.formals.size()) break;
      const Symbol& have = program_.symbols[c.symbols.back()];
      const Symbol& want = k.formals[c.symbols.size() - 1];
      if (have.format != want.format || have.geometry != want.geometry) {
        fail_at(actual, "symbol {} differs from formal {} of {} in format or geometry: {} against {}", have.name,
                want.name, k.name, symbol_text(have), symbol_text(want));
      }
    } while (accept(","));
  }
  if (c.symbols.size() != k.formals.size()) {
    fail_at(name, "kernel {} takes {} symbols, the call gives {}", k.name, k.formals.size(), c.symbols.size());
  }
  if (accept(";")) {
    do {
      const Token actual = next();
      c.scalars.push_back(find(actual, scalars_, "a scalar"));
      const size_t i = c.scalars.size() - 1;
      if (i < k.scalars.size() && program_.scalars[c.scalars[i]].is_float != k.scalars[i].is_float) {
        fail_at(actual, "scalar {} and scalar {} of {} differ in type", actual.text, k.scalars[i].name, k.name);
      }
    } while (accept(","));
  }
  if (c.scalars.size() != k.scalars.size()) {
    fail_at(name, "kernel {} takes {} scalars, the call gives {}", k.name, k.scalars.size(), c.scalars.size());
  }
  expect(")");
  c.loc = step_loc();
  program_.calls.push_back(std::move(c));
}

Id Assembler::step_loc() {
  if (!accept("@")) return none;
  expect("loc");
  expect("(");
  Id id = none;
  if (peek().kind == Token::Kind::string) {
    Loc loc;
    loc.op = unescape(next());
    expect(",");
    if (peek().kind != Token::Kind::string)
      fail_at(peek(), "expected the source as a string, found {}", describe(peek()));
    loc.source = unescape(next());
    const auto it = std::find(program_.locs.begin(), program_.locs.end(), loc);
    id = static_cast<Id>(it - program_.locs.begin());
    if (it == program_.locs.end()) program_.locs.push_back(std::move(loc));
  } else {
    const Token at = peek();
    const int64_t n = integer("loc number", 0, std::numeric_limits<Id>::max());
    if (n >= static_cast<int64_t>(program_.locs.size())) fail_at(at, "there is no loc {} above", n);
    id = static_cast<Id>(n);
  }
  expect(")");
  return id;
}

// ----------------------------------------------------------------------------------------------------------------
// kernels

const Assembler::Name* Assembler::lookup(std::string_view text) const {
  const auto it = names_.find(text);
  return it == names_.end() ? nullptr : &it->second;
}

void Assembler::declare(const Token& token, Name name) {
  if (!names_.emplace(token.text, name).second) {
    fail_at(token, "'{}' is already a {} here: names in scope must differ", token.text,
            std::array{"formal", "scalar", "grid dimension", "range",
                       "buffer"}[static_cast<size_t>(lookup(token.text)->kind)]);
  }
  declared_.push_back(token.text);
  if (name.kind == Name::Kind::range) ranges_in_scope_.push_back(name.id);
}

void Assembler::leave(size_t names) {
  while (declared_.size() > names) {
    const auto it = names_.find(declared_.back());
    if (it->second.kind == Name::Kind::range) ranges_in_scope_.pop_back();
    names_.erase(it);
    declared_.pop_back();
  }
}

Id Assembler::expect_range(std::string_view what) {
  const Token token = next();
  const Name* name = token.kind == Token::Kind::name ? lookup(token.text) : nullptr;
  if (!name || name->kind != Name::Kind::range) fail_at(token, "expected {}, found {}", what, describe(token));
  return name->id;
}

Id Assembler::expect_grid() {
  const Token token = next();
  const Name* name = token.kind == Token::Kind::name ? lookup(token.text) : nullptr;
  if (!name || name->kind != Name::Kind::grid)
    fail_at(token, "expected a grid dimension of this nest, found {}", describe(token));
  return name->id;
}

void Assembler::kernel() {
  expect("kernel");
  const Token name = new_name("a kernel's name");
  if (!kernels_.emplace(name.text, static_cast<Id>(program_.kernels.size())).second) {
    fail_at(name, "kernel '{}' is already defined", name.text);
  }
  Kernel k;
  kernel_ = &k;
  names_.clear();
  declared_.clear();
  ranges_in_scope_.clear();
  declared_under_.clear();
  core_ranges_.clear();
  k.name = std::string(name.text);
  expect("(");
  if (!peek().is(";") && !peek().is(")")) {
    do {
      const Token formal = peek();
      k.formals.push_back(symbol());
      declare(formal, {Name::Kind::formal, static_cast<Id>(k.formals.size() - 1)});
    } while (accept(","));
  }
  if (accept(";")) {
    do {
      const Token formal = peek();
      k.scalars.push_back(scalar());
      declare(formal, {Name::Kind::scalar, static_cast<Id>(k.scalars.size() - 1)});
    } while (accept(","));
  }
  expect(")");
  expect("cores");
  k.cores = static_cast<int32_t>(integer("the number of cores", 1, limits::cores));
  expect("{");
  while (accept("buf")) buffer(k.scope.emplace_back());
  while (peek().is("grid")) nest();
  if (!peek().is("}")) fail_at(peek(), "expected grid(...) or the end of the kernel, found {}", describe(peek()));
  next();
  place(k);
  program_.kernels.push_back(std::move(k));
  kernel_ = nullptr;
}

void Assembler::nest() {
  const Token at = expect("grid");
  const size_t names = declared_.size();
  core_ranges_.emplace_back();
  Nest nest;
  expect("(");
  int64_t cores = 1;
  if (!peek().is(")")) {
    do {
      const Token name = new_name("a grid dimension's name");
      declare(name, {Name::Kind::grid, static_cast<Id>(nest.grid.size())});
      expect(":");
      const auto size = static_cast<int32_t>(integer("a grid size", 1, limits::cores));
      cores *= size;
      if (cores > kernel_->cores) fail_at(at, "the grid has more than the kernel's {} cores", kernel_->cores);
      nest.grid.push_back({std::string(name.text), size});
      if (nest.grid.size() > static_cast<size_t>(limits::grid_rank)) {
        fail_at(at, "a grid has at most {} dimensions", limits::grid_rank);
      }
    } while (accept(","));
  }
  expect(")");
  kernel_->nests.push_back(std::move(nest));
  Block body;
  if (accept("{")) {
    block(body, true);
  } else {
    block(body, false);
  }
  kernel_->nests.back().body = std::move(body);
  leave(names);
}

void Assembler::block(Block& out, bool braces) {
  const size_t names = declared_.size();
  if (++blocks_ > limits::block_depth) fail_at(peek(), "more than {} nested blocks", limits::block_depth);
  while (!peek().is("}")) statement(out);
  if (braces) next();
  --blocks_;
  leave(names);
}

void Assembler::statement(Block& out) {
  if (accept("buf")) {
    Declare declaration;
    buffer(declaration.buffer);
    out.emplace_back().node = declaration;
  } else if (accept("core")) {
    core_range(out);
  } else if (accept("for")) {
    loop(out);
  } else if (accept("if")) {
    If guard;
    condition(guard.condition);
    expect("{");
    block(guard.body, true);
    out.emplace_back().node.emplace<If>(std::move(guard));
  } else {
    out.emplace_back().node.emplace<Step>(step());
  }
}

void Assembler::buffer(Id& id) {
  const Token name = new_name("a buffer's name");
  Buffer b;
  b.name = std::string(name.text);
  const Token format = next();
  placed_at(format, [&] { b.format = base::format_from_name(format.text); });
  b.shape = sizes("a buffer's size", 1);
  if (b.shape.empty() || b.shape.size() > static_cast<size_t>(limits::buffer_rank)) {
    fail_at(name, "a buffer has 1 to {} dimensions, not {}", limits::buffer_rank, b.shape.size());
  }
  const std::string_view slots = peek().text;
  if (peek().kind == Token::Kind::name && slots.size() > 1 && slots.size() < 11 && slots[0] == 'x' &&
      slots.find_first_not_of("0123456789", 1) == std::string_view::npos) {
    const int64_t n = std::stoll(std::string(slots.substr(1)));
    if (n < 1 || n > limits::buffer_bytes / base::stick_bytes) fail_at(peek(), "a buffer can't have {} slots", n);
    b.slots = static_cast<int32_t>(n);
    next();
  }
  if (accept("@")) b.lx_offset = integer("an LX offset (bytes)", 0, limits::buffer_bytes);
  if (accept("pieces")) {
    expect("(");
    b.piece_dim = static_cast<int32_t>(integer("a dimension", 0, static_cast<int64_t>(b.shape.size()) - 1));
    expect(":");
    b.piece_size = integer("a piece's size", 1, b.shape[b.piece_dim]);
    expect(")");
  }
  placed_at(name, [&] { check_buffer(b); });
  if (kernel_->buffers.size() >= static_cast<size_t>(limits::kernel_buffers)) {
    fail_at(name, "a kernel has at most {} buffers", limits::kernel_buffers);
  }
  id = static_cast<Id>(kernel_->buffers.size());
  declare(name, {Name::Kind::buffer, id});
  declared_under_.push_back(ranges_in_scope_.size());
  kernel_->buffers.push_back(std::move(b));
}

void Assembler::bounds(Range& range) {
  const Name* name = peek().kind == Token::Kind::name ? lookup(peek().text) : nullptr;
  if (name && name->kind == Name::Kind::range && peek(1).is("by")) {
    next();
    range.parent = name->id;
    range.lo = lo_of(range.parent);
    range.hi = hi_of(range.parent);
  } else {
    range.lo = int_expr();
    if (!peek().is("..")) fail_at(peek(), "expected LO..HI or an outer range, then 'by'; found {}", describe(peek()));
    next();
    range.hi = int_expr();
  }
  expect("by");
  range.by = int_constant("the advance", 1, limits::elements);
}

void Assembler::core_range(Block& out) {
  const Token name = new_name("a range's name");
  Range range;
  range.name = std::string(name.text);
  range.is_core = true;
  expect("in");
  bounds(range);
  expect("on");
  range.grid = expect_grid();
  const Id id = static_cast<Id>(kernel_->ranges.size());
  declare(name, {Name::Kind::range, id});
  if (!core_ranges_.back().emplace(name.text, id).second) {
    fail_at(name, "this nest has a core range '{}' already, in another block", name.text);
  }
  kernel_->ranges.push_back(std::move(range));
  out.emplace_back().node = CoreRange{id};
}

void Assembler::loop(Block& out) {
  const Token name = new_name("a range's name");
  Range range;
  range.name = std::string(name.text);
  expect("in");
  bounds(range);
  range.uniform = accept("uniform");
  const size_t names = declared_.size();
  For loop;
  loop.range = static_cast<Id>(kernel_->ranges.size());
  declare(name, {Name::Kind::range, loop.range});
  kernel_->ranges.push_back(std::move(range));
  expect("{");
  block(loop.body, true);
  leave(names);
  out.emplace_back().node.emplace<For>(std::move(loop));
}

void Assembler::condition(Condition& out) {
  do {
    const Name* name = peek().kind == Token::Kind::name ? lookup(peek().text) : nullptr;
    if (name && name->kind == Name::Kind::range && peek(1).is(".") && (peek(2).is("first") || peek(2).is("last"))) {
      const Token at = peek();
      if (kernel_->ranges[name->id].is_core)
        fail_at(at, "{} is a core range, only a loop has a first and a last trip", at.text);
      out.push_back(peek(2).is("first") ? first_trip(name->id) : last_trip(name->id, *kernel_));
      next(), next(), next();
      continue;
    }
    Compare compare;
    compare.a = int_expr();
    constexpr std::string_view ops[] = {"==", "!=", "<", "<=", ">", ">="};
    const Token op = next();
    const auto it = std::find(std::begin(ops), std::end(ops), op.text);
    if (op.kind != Token::Kind::symbol || it == std::end(ops))
      fail_at(op, "expected a comparison, found {}", describe(op));
    compare.op = static_cast<Compare::Op>(it - std::begin(ops));
    compare.b = int_expr();
    out.push_back(std::move(compare));
  } while (accept("and"));
}

}  // namespace spyre::program
