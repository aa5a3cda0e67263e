// Which instruction set the host kernels run with.
//
// A `*_simd.cc` source is compiled once per instruction set (cmake/spyre_library.cmake), with SPYRE_ISA (a namespace
// name) and SPYRE_SIMD_BYTES (the vector width) defined; each compilation defines a function table of its own
// namespace, and the folder's ordinary code picks the table of `Isa::..` at start-up. Such a source may use only
// `static` and always-inlined functions of headers: an ordinary inline function compiled for AVX-512 could be the copy
// the linker keeps for all.
#pragma once

#include <string_view>

namespace spyre::base {

enum class Isa { baseline, avx2, avx512 };

/// "baseline", "avx2" or "avx512".
std::string_view isa_name(Isa isa);

/// True if this machine can run it (and it was compiled).
bool isa_available(Isa isa);

/// The best available one, or the one SPYRE_ISA names. Throws Error(configuration) for a name that is unknown or not
/// available. Read once per process.
Isa host_isa();

/// Picks the entry of an instruction set; without x86 there is only the baseline one.
#if defined(__x86_64__)
#define SPYRE_SIMD_TABLE(isa, function)                           \
  ((isa) == ::spyre::base::Isa::avx512 ? simd::avx512::function() \
   : (isa) == ::spyre::base::Isa::avx2 ? simd::avx2::function()   \
                                       : simd::baseline::function())
#define SPYRE_SIMD_DECLARE(type, function) \
  namespace simd::baseline {               \
  const type& function();                  \
  }                                        \
  namespace simd::avx2 {                   \
  const type& function();                  \
  }                                        \
  namespace simd::avx512 {                 \
  const type& function();                  \
  }
#else
#define SPYRE_SIMD_TABLE(isa, function) simd::baseline::function()
#define SPYRE_SIMD_DECLARE(type, function) \
  namespace simd::baseline {               \
  const type& function();                  \
  }
#endif

}  // namespace spyre::base
