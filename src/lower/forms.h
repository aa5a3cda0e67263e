// What lower() asks of each form: its kernels, written into a Call list. One function a form, in lower/<form>.cc.
#pragma once

#include <string>
#include <vector>

#include "lower/kernel_builder.h"
#include "plan/forms.h"

namespace spyre::lower {

/// A kernel and what its formals and scalars stand for. `lower` turns it into a template and a call.
struct Emitted {
  program::Kernel kernel;
  std::vector<program::Loc> locs;  ///< its steps' locs index this
  struct Actual {
    graph::Id value = graph::none;  ///< the memory of this value,
    int32_t repack = graph::none;   ///< or of a repack,
    int32_t scratch = graph::none;  ///< or scratch memory that the kernels of one KernelPlan share, by number
    auto operator<=>(const Actual&) const = default;
  };
  std::vector<Actual> formals;
  std::vector<graph::Id> scalars;  ///< graph params
};

using plan::Context;

/// A form's only kernel.
inline std::vector<Emitted> one_kernel(Emitted emitted) {
  std::vector<Emitted> kernels;
  kernels.push_back(std::move(emitted));
  return kernels;
}

/// Kernels of one KernelPlan, in call order (most forms: one).
std::vector<Emitted> emit_rows(const Context& context, const plan::KernelPlan& kernel);
std::vector<Emitted> emit_reduce(const Context& context, const plan::KernelPlan& kernel);
std::vector<Emitted> emit_matmul(const Context& context, const plan::KernelPlan& kernel);
std::vector<Emitted> emit_attention(const Context& context, const plan::KernelPlan& kernel);
std::vector<Emitted> emit_place(const Context& context, const plan::KernelPlan& kernel);
std::vector<Emitted> emit_scatter(const Context& context, const plan::KernelPlan& kernel);
std::vector<Emitted> emit_scan(const Context& context, const plan::KernelPlan& kernel);
std::vector<Emitted> emit_sort(const Context& context, const plan::KernelPlan& kernel);

}  // namespace spyre::lower
