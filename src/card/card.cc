#include "card/card.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "card/checker.h"
#include "card/executable.h"
#include "card/random_order.h"
#include "program/program.h"

namespace spyre::card {

namespace {

uint64_t read_u64(const std::byte* p) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; --i) v = v << 8 | std::to_integer<uint64_t>(p[i]);
  return v;
}
void write_u64(std::byte* p, uint64_t v) {
  for (int i = 0; i < 8; ++i, v >>= 8) p[i] = static_cast<std::byte>(v & 0xFF);
}

/// True when a symbol that the kernel writes is bound to another formal too: loads through that one can't be put off.
bool writes_through_two_formals(const program::Kernel& kernel, const program::Call& call) {
  for (size_t a = 0; a < call.symbols.size(); ++a)
    for (size_t b = 0; b < call.symbols.size(); ++b)
      if (a != b && call.symbols[a] == call.symbols[b] && kernel.formals[a].direction != program::Direction::in)
        return true;
  return false;
}

/// Numbers all kernel calls of the process, from 1.
std::atomic<uint64_t> next_call{1};

}  // namespace

std::vector<std::byte> correction_table(const program::Program& program, const std::vector<uint64_t>& symbol_addresses,
                                        const timing::ScalarValues& scalars) {
  if (symbol_addresses.size() != program.symbols.size() || scalars.size() != program.scalars.size())
    fail(Fault::program, "a launch binds {} symbols and {} scalars of a program that has {} and {}",
         symbol_addresses.size(), scalars.size(), program.symbols.size(), program.scalars.size());
  std::vector<std::byte> table((symbol_addresses.size() + scalars.size()) * 8);
  std::byte* p = table.data();
  for (uint64_t a : symbol_addresses) write_u64(p, a), p += 8;
  for (size_t i = 0; i < scalars.size(); ++i, p += 8) {
    if (program.scalars[i].is_float) {
      const auto f = static_cast<float>(scalars[i]);
      uint32_t bits;
      std::memcpy(&bits, &f, 4);
      write_u64(p, bits);
    } else {
      write_u64(p, static_cast<uint64_t>(static_cast<int64_t>(scalars[i])));
    }
  }
  return table;
}

struct Card::Impl {
  explicit Impl(const device::Description& d) : description(d), memory(d) {}
  device::Description description;
  Memory memory;
};

Card::Card(const device::Description& description) : impl_(std::make_unique<Impl>(description)) {}
Card::~Card() = default;
const device::Description& Card::description() const { return impl_->description; }
Memory& Card::memory() { return impl_->memory; }

void Card::start(const Executable& executable, uint64_t correction_address, const RunOptions& options) {
  const auto& exe = executable.impl();
  const program::Program& program = exe.program;
  const Memory& memory = impl_->memory;
  const size_t n_symbols = program.symbols.size(), n_scalars = program.scalars.size();
  const std::byte* table = memory.at(correction_address, static_cast<int64_t>(n_symbols + n_scalars) * 8);

  std::vector<uint64_t> address(n_symbols);
  std::vector<std::byte*> base(n_symbols);
  for (size_t s = 0; s < n_symbols; ++s) {
    address[s] = read_u64(table + 8 * s);
    const auto& symbol = program.symbols[s];
    if (address[s] % base::stick_bytes != 0)
      fail(Fault::program, "symbol {} is bound to address {:#x}, which is no multiple of a stick", symbol.name,
           address[s]);
    try {
      base[s] = memory.at(address[s], symbol.geometry.device_bytes());
    } catch (const Error& e) {
      throw Error(e.fault(), fmt::format("symbol {}: {}", symbol.name, e.what()));
    }
  }
  std::vector<double> scalars(n_scalars);
  for (size_t s = 0; s < n_scalars; ++s) {
    const uint64_t bits = read_u64(table + 8 * (n_symbols + s));
    const auto& scalar = program.scalars[s];
    if (scalar.is_float) {
      const auto low = static_cast<uint32_t>(bits);
      float f;
      std::memcpy(&f, &low, 4);
      scalars[s] = f;
      // Bounds were written as decimal numbers: compare them as the f32 that the card sees. A NaN is in every range, as
      // for the runtime: floats are only computed with.
      if (f < static_cast<float>(scalar.lo) || f > static_cast<float>(scalar.hi))
        fail(Fault::user, "scalar {} = {} is outside {}..{}", scalar.name, f, scalar.lo, scalar.hi);
    } else {
      const auto i = static_cast<int64_t>(bits);
      scalars[s] = static_cast<double>(i);
      if (scalars[s] < scalar.lo || scalars[s] > scalar.hi)
        fail(Fault::user, "scalar {} = {} is outside {}..{}", scalar.name, i, scalar.lo, scalar.hi);
    }
  }

  std::unique_ptr<Checker> checker;
  if (options.checker) checker = std::make_unique<Checker>(program, impl_->description);
  for (const auto& call : program.calls) {
    const CompiledKernel& kernel = *exe.kernels[call.kernel];
    KernelRun run;
    run.kernel = &kernel.kernel();
    run.description = &impl_->description;
    run.memory = &memory;
    run.vars = kernel.vars();
    for (Id s : call.symbols) {
      run.symbol_base.push_back(base[s]);
      run.symbol_address.push_back(address[s]);
      run.program_symbol.push_back(s);
    }
    std::vector<int64_t> values;
    for (Id s : call.scalars) {
      values.push_back(program.scalars[s].is_float ? 0 : static_cast<int64_t>(scalars[s]));
      run.float_scalars.push_back(static_cast<float>(scalars[s]));
    }
    run.checker = checker.get();
    run.real_slots = options.checker || options.random_order;
    run.lazy_loads = !run.real_slots && !writes_through_two_formals(kernel.kernel(), call);
    run.call = next_call.fetch_add(1, std::memory_order_relaxed);
    if (checker) checker->begin_kernel();
    if (options.random_order)
      run_random_order(kernel, run, values, options.seed);
    else
      kernel.run(run, values);
  }
}

}  // namespace spyre::card
