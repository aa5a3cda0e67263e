#include "base/isa.h"

#include "base/env.h"
#include "base/error.h"

namespace spyre::base {

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::baseline:
      return "baseline";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "unknown";
}

bool isa_available(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  switch (isa) {
    case Isa::baseline:
      return true;
    case Isa::avx2:
      return avx2;
    case Isa::avx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  }
  return false;
#else
  return isa == Isa::baseline;
#endif
}

Isa host_isa() {
  static const Isa chosen = [] {
    const std::string name = env_string("SPYRE_ISA", "");
    for (Isa isa : {Isa::avx512, Isa::avx2, Isa::baseline}) {
      if (name.empty() ? isa_available(isa) : name == isa_name(isa)) {
        if (!isa_available(isa)) fail(Fault::configuration, "SPYRE_ISA={}: this machine does not have it", name);
        return isa;
      }
    }
    fail(Fault::configuration, "SPYRE_ISA={}: expected baseline, avx2 or avx512", name);
  }();
  return chosen;
}

}  // namespace spyre::base
