// The text of symbols: views, and the geometry that a view without one means.
#pragma once

#include <string>
#include <vector>

#include "program/tree.h"

namespace spyre::program {

/// Row-major strides of sizes (a size of 0 counts as 1). Throws Error(program) when their product leaves the limits.
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes);

/// The geometry of a new tensor of these sizes and strides (elements) in the host type that a format stands for in
/// text: dl16 float16, f16 float16 kept as IEEE, f32 float32, i32 int32, u32 uint8, i16, i8, e4m3 and e5m2 their own.
layout::Geometry default_geometry(Format format, const std::vector<int64_t>& sizes,
                                  const std::vector<int64_t>& strides);

/// `x: in dl16 [1024,4096]`, with strides, offset and geometry where they are not the default.
std::string symbol_text(const Symbol& symbol);

/// `len: i32 in 1..4096`
std::string scalar_text(const Scalar& scalar);

/// A number that reads back as the same double and never as an integer: "1.0", "-inf", "1e-05".
std::string number_text(double value);

}  // namespace spyre::program
