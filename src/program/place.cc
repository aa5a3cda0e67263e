#include "program/place.h"

#include <algorithm>

namespace spyre::program {

namespace {

/// Scopes in preorder, so that the descendants of a scope are the numbers from itself to `last`.
struct Scope {
  std::vector<Id> buffers;
  size_t last = 0;
};

class Scopes {
 public:
  explicit Scopes(const Kernel& kernel) {
    const size_t root = open();
    scopes_[root].buffers = kernel.scope;
    for (const Nest& nest : kernel.nests) block(nest.body);
    close(root);
  }
  const std::vector<Scope>& all() const { return scopes_; }

 private:
  size_t open() {
    scopes_.emplace_back();
    return scopes_.size() - 1;
  }
  void close(size_t scope) { scopes_[scope].last = scopes_.size() - 1; }
  void block(const Block& body) {
    const size_t scope = open();
    for (const Stmt& stmt : body) {
      if (const auto* d = std::get_if<Declare>(&stmt.node)) {
        scopes_[scope].buffers.push_back(d->buffer);
      } else if (const auto* f = std::get_if<For>(&stmt.node)) {
        block(f->body);
      } else if (const auto* i = std::get_if<If>(&stmt.node)) {
        block(i->body);
      }
    }
    close(scope);
  }
  std::vector<Scope> scopes_;
};

struct Bytes {
  int64_t first, end;
};

}  // namespace

void place(Kernel& kernel) {
  const Scopes scopes(kernel);
  const auto& all = scopes.all();
  std::vector<size_t> around;  // the scope at hand and those around it
  std::vector<Bytes> taken;
  for (size_t s = 0; s < all.size(); ++s) {
    while (!around.empty() && all[around.back()].last < s) around.pop_back();
    around.push_back(s);
    for (Id id : all[s].buffers) {
      Buffer& buffer = kernel.buffers[id];
      if (buffer.lx_offset >= 0) continue;
      taken.clear();
      auto take = [&](const Scope& scope) {
        for (Id other : scope.buffers) {
          const Buffer& b = kernel.buffers[other];
          if (b.lx_offset >= 0) taken.push_back({b.lx_offset, b.lx_offset + b.slots * b.slot_bytes()});
        }
      };
      for (size_t outer : around) take(all[outer]);
      for (size_t inner = s + 1; inner <= all[s].last; ++inner) take(all[inner]);
      std::sort(taken.begin(), taken.end(), [](const Bytes& a, const Bytes& b) { return a.first < b.first; });
      const int64_t bytes = buffer.slots * buffer.slot_bytes();
      int64_t at = 0;
      for (const Bytes& t : taken) {
        if (at + bytes <= t.first) break;
        at = std::max(at, (t.end + base::stick_bytes - 1) / base::stick_bytes * base::stick_bytes);
      }
      buffer.lx_offset = at;
    }
  }
}

}  // namespace spyre::program
