// Random numbers of the device: a seed and an offset that counts ops, so that a state is 16 bytes and jumping is free.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>

namespace spyre::torch {

/// The default generator of a device. Starts nothing. Throws c10::Error for an index that is no device.
const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);

/// A seed for one op that draws on the CPU, and moves the generator on. The same seed and offset give the same numbers.
uint64_t next_op_seed(const at::Generator& generator);
/// The same as a generator of the CPU.
at::Generator cpu_generator_for_next_op(const at::Generator& generator);

}  // namespace spyre::torch
