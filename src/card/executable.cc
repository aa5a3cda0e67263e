#include "card/executable.h"

#include "base/error.h"
#include "program/program.h"

namespace spyre::card {

namespace {

using program::IntExpr;

/// Marks the kernel scalars on which time may depend: those of ranges, conditions, boxes and bounds. Scalars that are
/// only computed with (a seed, alpha) don't make another timeline.
void used(const IntExpr& e, std::vector<bool>& scalars) {
  if (e.op == IntExpr::Op::scalar) scalars.at(e.id) = true;
  for (const auto& a : e.args) used(a, scalars);
}
void used(const program::BufRef& ref, std::vector<bool>& scalars) {
  for (const auto& d : ref.box) used(d.first, scalars), used(d.size, scalars);
}
void used(const program::MemRef& ref, std::vector<bool>& scalars) {
  for (const auto& e : ref.entries) {
    used(e.base, scalars), used(e.extent, scalars), used(e.lo, scalars), used(e.hi, scalars);
    used(e.index, scalars);
  }
}
void used(const program::VecExpr& e, std::vector<bool>& scalars) {
  used(e.ref, scalars);
  for (const auto& a : e.args) used(a, scalars);
}
void used(const program::Block& block, std::vector<bool>& scalars) {
  for (const auto& s : block) {
    if (const auto* f = std::get_if<program::For>(&s.node)) {
      used(f->body, scalars);
    } else if (const auto* i = std::get_if<program::If>(&s.node)) {
      for (const auto& c : i->condition) used(c.a, scalars), used(c.b, scalars);
      used(i->body, scalars);
    } else if (const auto* step = std::get_if<program::Step>(&s.node)) {
      std::visit(
          [&](const auto& op) {
            using T = std::decay_t<decltype(op)>;
            if constexpr (std::is_same_v<T, program::Load>)
              used(op.to, scalars), used(op.from, scalars);
            else if constexpr (std::is_same_v<T, program::Store>) {
              used(op.from, scalars), used(op.to, scalars), used(op.where_index, scalars);
              used(op.where_lo, scalars), used(op.where_hi, scalars);
            } else if constexpr (std::is_same_v<T, program::Vector>) {
              for (const auto& t : op.to) used(t, scalars);
              for (const auto& v : op.value) used(v, scalars);
            } else if constexpr (std::is_same_v<T, program::Reduce>) {
              for (const auto& b : op.state) used(b, scalars);
              for (const auto& v : op.init) used(v, scalars);
              used(op.value, scalars);
            } else if constexpr (std::is_same_v<T, program::MatMul>)
              used(op.acc, scalars), used(op.a, scalars), used(op.b, scalars);
            else if constexpr (std::is_same_v<T, program::Scan>)
              used(op.to, scalars), used(op.carry, scalars), used(op.value, scalars);
            else if constexpr (std::is_same_v<T, program::Move> || std::is_same_v<T, program::Ring>)
              used(op.to, scalars), used(op.from, scalars);
            else if constexpr (std::is_same_v<T, program::PartialSum>)
              used(op.acc, scalars);
            else if constexpr (std::is_same_v<T, program::GatherScatter>)
              used(op.table, scalars), used(op.index, scalars), used(op.data, scalars), used(op.lo, scalars),
                  used(op.hi, scalars);
            else if constexpr (std::is_same_v<T, program::Sort>)
              used(op.values, scalars), used(op.indices, scalars), used(op.from, scalars),
                  used(op.from_indices, scalars);
          },
          step->op);
    }
  }
}

}  // namespace

Executable::Impl::Impl(program::Program p, const device::Description& d) : program(std::move(p)), description(d) {
  program::verify(program, description);
  image_bytes = static_cast<int64_t>(program::write(program).size());
  for (const auto& k : program.kernels) kernels.push_back(std::make_unique<CompiledKernel>(program, k));
  timed_scalars.assign(program.scalars.size(), false);
  for (const auto& call : program.calls) {
    const auto& k = program.kernels[call.kernel];
    std::vector<bool> scalars(k.scalars.size());
    for (const auto& r : k.ranges) used(r.lo, scalars), used(r.hi, scalars);
    for (const auto& n : k.nests) used(n.body, scalars);
    for (size_t s = 0; s < scalars.size(); ++s)
      if (scalars[s]) timed_scalars[call.scalars[s]] = true;
  }
}

Executable::Executable(program::Program program, const device::Description& description)
    : impl_(std::make_unique<Impl>(std::move(program), description)) {}
Executable::~Executable() = default;
const program::Program& Executable::program() const { return impl_->program; }
int64_t Executable::image_bytes() const { return impl_->image_bytes; }

const timing::Timeline& Executable::timeline(const timing::ScalarValues& scalars) const {
  if (scalars.size() != impl_->program.scalars.size())
    fail(Fault::program, "{} scalar values for a program that has {}", scalars.size(), impl_->program.scalars.size());
  timing::ScalarValues key = scalars;
  for (size_t s = 0; s < key.size(); ++s)
    if (!impl_->timed_scalars[s]) key[s] = 0;
  {
    std::lock_guard lock(impl_->mutex);
    const auto it = impl_->timelines.find(key);
    if (it != impl_->timelines.end()) return *it->second;
  }
  auto line = std::make_unique<timing::Timeline>(timing::walk(impl_->program, scalars, impl_->description));
  std::lock_guard lock(impl_->mutex);
  return *impl_->timelines.try_emplace(std::move(key), std::move(line)).first->second;
}

}  // namespace spyre::card
