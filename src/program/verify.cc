// verify(): the passes over every kernel, then the calls.
#include "program/program.h"
#include "program/structure.h"
#include "program/verify_calls.h"
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

}  // namespace

void verify(const Program& program, const device::Description& description) {
  check_structure(program);
  for (const Symbol& s : program.symbols) check_view(s, "program");
  const auto check = [&](const Kernel& kernel) { return verify_kernel(program, kernel, description); };
  std::vector<std::vector<bool>> complete;
  for (const Kernel& kernel : program.kernels) complete.push_back(check(kernel));
  verifier::check_calls(program, complete, check);
}

}  // namespace spyre::program
