// The printed form outside steps.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "program/lexer.h"
#include "program/printer.h"
#include "program/program.h"
#include "program/structure.h"
#include "program/symbol_text.h"

namespace spyre::program {

std::string print(const Program& program) {
  check_structure(program);
  return Printer(program).run();
}

std::string Printer::run() {
  for (const Symbol& s : program_.symbols) line(0, "sym " + symbol_text(s));
  for (const Scalar& s : program_.scalars) line(0, "scalar " + scalar_text(s));
  for (size_t i = 0; i < program_.locs.size(); ++i) {
    line(0, fmt::format("loc {} {} {}", i, escape(program_.locs[i].op), escape(program_.locs[i].source)));
  }
  for (const Kernel& k : program_.kernels) {
    if (!out_.empty()) out_ += '\n';
    kernel(k);
  }
  if (!program_.calls.empty() && !out_.empty()) out_ += '\n';
  for (const Call& c : program_.calls) {
    std::string text = fmt::format("call {}(", program_.kernels[c.kernel].name);
    for (size_t i = 0; i < c.symbols.size(); ++i) text += (i ? ", " : "") + program_.symbols[c.symbols[i]].name;
    for (size_t i = 0; i < c.scalars.size(); ++i) text += (i ? ", " : "; ") + program_.scalars[c.scalars[i]].name;
    line(0, text + ")" + loc_suffix(c.loc));
  }
  return std::move(out_);
}

void Printer::line(int indent, const std::string& text) {
  out_.append(static_cast<size_t>(2 * indent), ' ');
  out_ += text;
  out_ += '\n';
}

std::string Printer::loc_suffix(Id loc) const { return loc == none ? "" : fmt::format(" @loc({})", loc); }

void Printer::kernel(const Kernel& k) {
  kernel_ = &k;
  ranges_in_scope_.clear();
  declared_under_.assign(k.buffers.size(), 0);
  range_nest_.assign(k.ranges.size(), 0);
  std::string head = "kernel " + k.name + "(";
  for (size_t i = 0; i < k.formals.size(); ++i) head += (i ? ", " : "") + symbol_text(k.formals[i]);
  for (size_t i = 0; i < k.scalars.size(); ++i) head += (i ? ", " : "; ") + scalar_text(k.scalars[i]);
  line(0, head + fmt::format(") cores {} {{", k.cores));
  for (Id id : k.scope) line(1, buffer(id));
  for (nest_ = 0; nest_ < static_cast<Id>(k.nests.size()); ++nest_) {
    const Nest& nest = k.nests[nest_];
    std::string grid;
    for (const GridDim& g : nest.grid) grid += fmt::format("{}{}:{}", grid.empty() ? "" : ", ", g.name, g.size);
    line(1, "grid(" + grid + ") {");
    block(nest.body, 2);
    line(1, "}");
  }
  line(0, "}");
}

void Printer::block(const Block& body, int indent) {
  const size_t ranges = ranges_in_scope_.size();
  for (const Stmt& stmt : body) {
    if (const auto* d = std::get_if<Declare>(&stmt.node)) {
      line(indent, buffer(d->buffer));
    } else if (const auto* c = std::get_if<CoreRange>(&stmt.node)) {
      line(indent, "core " + range(c->range) + " on " + grid_name(kernel_->ranges[c->range].grid));
      ranges_in_scope_.push_back(c->range);
      range_nest_[c->range] = nest_;
    } else if (const auto* f = std::get_if<For>(&stmt.node)) {
      line(indent, "for " + range(f->range) + (kernel_->ranges[f->range].uniform ? " uniform {" : " {"));
      ranges_in_scope_.push_back(f->range);
      range_nest_[f->range] = nest_;
      block(f->body, indent + 1);
      ranges_in_scope_.pop_back();
      line(indent, "}");
    } else if (const auto* i = std::get_if<If>(&stmt.node)) {
      line(indent, "if " + condition(i->condition) + " {");
      block(i->body, indent + 1);
      line(indent, "}");
    } else {
      line(indent, step(std::get<Step>(stmt.node)));
    }
  }
  ranges_in_scope_.resize(ranges);
}

std::string Printer::buffer(Id id) {
  declared_under_[id] = ranges_in_scope_.size();
  const Buffer& b = kernel_->buffers[id];
  std::string text =
      fmt::format("buf {} {}[{}] x{}", b.name, base::format_name(b.format), fmt::join(b.shape, ","), b.slots);
  if (b.lx_offset >= 0) text += fmt::format(" @{}", b.lx_offset);
  if (b.piece_dim >= 0) text += fmt::format(" pieces({}:{})", b.piece_dim, b.piece_size);
  return text;
}

std::string Printer::range(Id id) const {
  const Range& r = kernel_->ranges[id];
  const std::string from = r.parent != none ? range_name(r.parent) : integer(r.lo) + ".." + integer(r.hi);
  return fmt::format("{} in {} by {}", r.name, from, r.by);
}

std::string Printer::condition(const Condition& condition) const {
  constexpr const char* ops[] = {"==", "!=", "<", "<=", ">", ">="};
  std::string text;
  for (const Compare& c : condition) {
    if (!text.empty()) text += " and ";
    const IntExpr* start = c.a.op == IntExpr::Op::add ? &c.a.args[0] : nullptr;
    if (c.a.op == IntExpr::Op::trip && c == first_trip(c.a.id)) {
      text += range_name(c.a.id) + ".first";
    } else if (start && start->op == IntExpr::Op::start && !kernel_->ranges[start->id].is_core &&
               c == last_trip(start->id, *kernel_)) {
      text += range_name(start->id) + ".last";
    } else {
      text += integer(c.a) + " " + ops[static_cast<size_t>(c.op)] + " " + integer(c.b);
    }
  }
  return text;
}

}  // namespace spyre::program
