#include "program/verify_calls.h"

#include <map>

#include "base/error.h"
#include "program/verify_coverage.h"

namespace spyre::program::verifier {
namespace {

const char* direction_name(Direction d) {
  const char* const names[] = {"in", "out", "inout", "temp"};
  return d > Direction::temp ? "?" : names[static_cast<int>(d)];
}

bool may_bind(Direction actual, Direction formal) {
  switch (formal) {
    case Direction::in:
      return true;
    case Direction::out:
    case Direction::inout:
      return actual != Direction::in;
    default:
      return actual == Direction::temp;
  }
}

bool reads(Direction d) { return d == Direction::in || d == Direction::inout; }

void rename(Block& block, const std::vector<Id>& formal) {
  for (Stmt& s : block) {
    if (auto* f = std::get_if<For>(&s.node)) rename(f->body, formal);
    if (auto* i = std::get_if<If>(&s.node)) rename(i->body, formal);
    auto* step = std::get_if<Step>(&s.node);
    if (!step) continue;
    if (auto* l = std::get_if<Load>(&step->op)) l->from.symbol = formal[l->from.symbol];
    if (auto* st = std::get_if<Store>(&step->op)) st->to.symbol = formal[st->to.symbol];
  }
}

class Calls {
 public:
  Calls(const Program& program, const std::vector<std::vector<bool>>& complete, const KernelCheck& check)
      : p_(program), complete_(complete), check_(check), written_(program.symbols.size()) {
    for (size_t s = 0; s < p_.symbols.size(); ++s) {
      // The allocation of a tensor holds data outside of the view too: the tensor's base has it.
      const Symbol& symbol = p_.symbols[s];
      if (reads(symbol.direction)) written_[s].add(layout::HostView{{symbol.geometry.storage_elements}, {1}, 0});
    }
  }

  void run() {
    for (size_t i = 0; i < p_.calls.size(); ++i) {
      const Call& call = p_.calls[i];
      where_ = fmt::format("call {} of kernel '{}'", i, p_.kernels[call.kernel].name);
      if (call.loc >= 0) where_ += fmt::format(" ({} {})", p_.locs[call.loc].op, p_.locs[call.loc].source);
      check(call);
    }
  }

 private:
  void check(const Call& call) {
    const Kernel& kernel = p_.kernels[call.kernel];
    for (size_t f = 0; f < kernel.formals.size(); ++f) {
      const Symbol &formal = kernel.formals[f], &actual = p_.symbols[call.symbols[f]];
      if (!may_bind(actual.direction, formal.direction))
        fail(Fault::program, "{}: symbol {} is {}, but formal {} is {}", where_, actual.name,
             direction_name(actual.direction), formal.name, direction_name(formal.direction));
      if (reads(formal.direction) && !written_[call.symbols[f]].covers(formal.view))
        fail(Fault::program, "{}: {} symbol {} is read before a kernel is proved to have written all of it", where_,
             direction_name(actual.direction), actual.name);
    }
    const std::vector<bool>& complete = complete_of(call);
    for (size_t f = 0; f < kernel.formals.size(); ++f)
      if (complete[f]) written_[call.symbols[f]].add(kernel.formals[f].view);
    for (size_t s = 0; s < kernel.scalars.size(); ++s) {
      const Scalar &formal = kernel.scalars[s], &actual = p_.scalars[call.scalars[s]];
      if (actual.lo < formal.lo || actual.hi > formal.hi)
        fail(Fault::program, "{}: scalar {} in {}..{} leaves the bounds {}..{} of {}", where_, actual.name, actual.lo,
             actual.hi, formal.lo, formal.hi, formal.name);
    }
  }

  /// What the kernel writes completely in this call.
  const std::vector<bool>& complete_of(const Call& call) {
    const Kernel& kernel = p_.kernels[call.kernel];
    std::map<Id, Id> first;         // symbol -> the first formal it is bound to
    std::vector<Id> formal;         // by formal, the one that stands for it
    std::map<Id, bool> is_written;  // symbol
    bool shared = false;
    for (size_t f = 0; f < kernel.formals.size(); ++f) {
      const Id symbol = call.symbols[f];
      formal.push_back(first.try_emplace(symbol, static_cast<Id>(f)).first->second);
      is_written[symbol] = is_written[symbol] || kernel.formals[f].direction != Direction::in;
    }
    for (size_t f = 0; f < kernel.formals.size(); ++f) {
      if (!is_written[call.symbols[f]]) {
        formal[f] = static_cast<Id>(f);
        continue;
      }
      const Symbol &one = kernel.formals[formal[f]], &other = kernel.formals[f];
      shared = shared || formal[f] != static_cast<Id>(f);
      if (one.view != other.view)
        fail(Fault::program,
             "{}: symbol {} is written and bound to both {} and {}, which are different views of it: copy it first",
             where_, p_.symbols[call.symbols[f]].name, one.name, other.name);
    }
    if (!shared) return complete_[call.kernel];
    const auto [it, fresh] = shared_.try_emplace({call.kernel, formal});
    if (!fresh) return it->second;
    Kernel merged = kernel;
    for (size_t f = 0; f < formal.size(); ++f)
      if (formal[f] != static_cast<Id>(f)) {
        Symbol& one = merged.formals[formal[f]];
        one.direction = one.direction == Direction::temp && merged.formals[f].direction == Direction::temp
                            ? Direction::temp
                            : Direction::inout;
        merged.formals[f].direction = Direction::in;
      }
    for (Nest& n : merged.nests) rename(n.body, formal);
    try {
      it->second = check_(merged);
    } catch (const Error& e) {
      throw Error(e.fault(), fmt::format("{}: formals that are one symbol: {}", where_, e.what()));
    }
    return it->second;
  }

  const Program& p_;
  const std::vector<std::vector<bool>>& complete_;
  const KernelCheck& check_;
  std::vector<Coverage> written_;  ///< by symbol, elements that hold data
  std::map<std::pair<Id, std::vector<Id>>, std::vector<bool>> shared_;
  std::string where_;
};

}  // namespace

void check_calls(const Program& program, const std::vector<std::vector<bool>>& complete, const KernelCheck& check) {
  Calls(program, complete, check).run();
}

}  // namespace spyre::program::verifier
