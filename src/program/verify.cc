// verify(): the passes over every kernel, then the calls.
#include "program/program.h"
#include "program/structure.h"
#include "program/verify_context.h"

namespace spyre::program {
namespace {

using verifier::Context;

/// Accesses are clipped to the view, so a view inside its allocation keeps them all inside.
void check_view(const Symbol& s, const std::string& where) {
  const int64_t end = s.view.extent().second;
  if (end > s.geometry.storage_elements)
    fail(Fault::program, "{}: the view of symbol {} ({}) reaches element {}, its allocation has {}", where, s.name,
         s.view.to_text(), end - 1, s.geometry.storage_elements);
}

std::vector<bool> verify_kernel(const Program& program, const Kernel& kernel, const device::Description& description) {
  for (const Symbol& s : kernel.formals) check_view(s, fmt::format("kernel '{}'", kernel.name));
  Context context(program, kernel, description);
  verifier::check_tree(context);
  verifier::check_collectives(context);
  verifier::check_definitions(context);
  return verifier::check_memory(context);
}

const char* direction_name(Direction d) {
  const char* const names[] = {"in", "out", "inout", "temp"};
  return d > Direction::temp ? "?" : names[static_cast<int>(d)];
}

bool may_bind(Direction actual, Direction formal) {
  switch (formal) {
    case Direction::in:
      return true;
    case Direction::out:
      return actual != Direction::in;
    case Direction::inout:
      return actual != Direction::in;
    default:
      return actual == Direction::temp;
  }
}

}  // namespace

void verify(const Program& program, const device::Description& description) {
  check_structure(program);
  for (const Symbol& s : program.symbols) check_view(s, "program");
  std::vector<std::vector<bool>> complete;
  for (const Kernel& kernel : program.kernels) complete.push_back(verify_kernel(program, kernel, description));

  std::vector<bool> written;  // holds data that a kernel may read
  for (const Symbol& s : program.symbols)
    written.push_back(s.direction == Direction::in || s.direction == Direction::inout);
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const Call& call = program.calls[i];
    const Kernel& kernel = program.kernels[call.kernel];
    std::string where = fmt::format("call {} of kernel '{}'", i, kernel.name);
    if (call.loc >= 0) where += fmt::format(" ({} {})", program.locs[call.loc].op, program.locs[call.loc].source);
    std::vector<Id> formal_of(program.symbols.size(), none);
    for (size_t f = 0; f < kernel.formals.size(); ++f) {
      const Symbol& formal = kernel.formals[f];
      const Id id = call.symbols[f];
      const Symbol& actual = program.symbols[id];
      if (!may_bind(actual.direction, formal.direction))
        fail(Fault::program, "{}: symbol {} is {}, but formal {} is {}", where, actual.name,
             direction_name(actual.direction), formal.name, direction_name(formal.direction));
      if (formal_of[id] != none &&
          (formal.direction != Direction::in || kernel.formals[formal_of[id]].direction != Direction::in))
        fail(Fault::program, "{}: symbol {} is bound to both {} and {}, not both of which are in", where, actual.name,
             kernel.formals[formal_of[id]].name, formal.name);
      formal_of[id] = static_cast<Id>(f);
      const bool reads = formal.direction == Direction::in || formal.direction == Direction::inout;
      if (reads && !written[id])
        fail(Fault::program, "{}: {} symbol {} is read before a kernel is proved to have written all of it", where,
             direction_name(actual.direction), actual.name);
    }
    for (size_t f = 0; f < kernel.formals.size(); ++f)
      if (complete[call.kernel][f]) written[call.symbols[f]] = true;
    for (size_t s = 0; s < kernel.scalars.size(); ++s) {
      const Scalar &formal = kernel.scalars[s], &actual = program.scalars[call.scalars[s]];
      if (actual.lo < formal.lo || actual.hi > formal.hi)
        fail(Fault::program, "{}: scalar {} in {}..{} leaves the bounds {}..{} of {}", where, actual.name, actual.lo,
             actual.hi, formal.lo, formal.hi, formal.name);
    }
  }
}

}  // namespace spyre::program
