// Copies between the host and the device, and within the device, as torch asks for them.
#pragma once

#include <ATen/core/Tensor.h>

namespace spyre::torch {

/// `from` into `to` (returned): any two of CPU and spyre, at least one spyre; any dtypes; `from` is expanded to the
/// sizes of `to`.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking);

/// Whether the first upload of an int64 tensor warns that the device holds int32. Off by default.
bool downcast_warning();
void set_downcast_warning(bool on);

}  // namespace spyre::torch
