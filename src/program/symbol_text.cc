#include "program/symbol_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace spyre::program {

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes) {
  return layout::HostView::contiguous(sizes).strides;
}

layout::Geometry default_geometry(Format format, const std::vector<int64_t>& sizes,
                                  const std::vector<int64_t>& strides) {
  using base::HostType;
  HostType type = HostType::f16;
  switch (format) {
    case Format::dl16:
    case Format::f16:
      type = HostType::f16;
      break;
    case Format::f32:
      type = HostType::f32;
      break;
    case Format::i32:
      type = HostType::i32;
      break;
    case Format::u32:
      type = HostType::u8;
      break;
    case Format::i16:
      type = HostType::i16;
      break;
    case Format::i8:
      type = HostType::i8;
      break;
    case Format::e4m3:
      type = HostType::e4m3;
      break;
    case Format::e5m2:
      type = HostType::e5m2;
      break;
  }
  return layout::default_placement(sizes, strides, type, format == Format::f16).geometry;
}

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  const bool plain = text.find_first_not_of("-0123456789") == std::string::npos;
  return plain ? text + ".0" : text;
}

namespace {

bool is_contiguous(const layout::HostView& view) {
  try {
    return view.strides == contiguous_strides(view.sizes);
  } catch (const Error&) {
    return false;  // no such strides in 64 bits: sizes around a 0
  }
}

}  // namespace

std::string symbol_text(const Symbol& s) {
  constexpr const char* directions[] = {"in", "out", "inout", "temp"};
  std::string text = fmt::format("{}: {} {} [{}]", s.name, directions[static_cast<size_t>(s.direction)],
                                 base::format_name(s.format), fmt::join(s.view.sizes, ","));
  if (!is_contiguous(s.view)) text += fmt::format(" strides [{}]", fmt::join(s.view.strides, ","));
  if (s.view.offset != 0) text += fmt::format(" offset {}", s.view.offset);
  bool is_default = false;
  if (s.view.offset == 0) {
    try {
      is_default = s.geometry == default_geometry(s.format, s.view.sizes, s.view.strides);
    } catch (const Error&) {
      // No default placement: the geometry is written out.
    }
  }
  return is_default ? text : text + " " + s.geometry.to_text();
}

std::string scalar_text(const Scalar& s) {
  if (s.is_float) return fmt::format("{}: f32 in {}..{}", s.name, number_text(s.lo), number_text(s.hi));
  return fmt::format("{}: i32 in {}..{}", s.name, static_cast<int64_t>(s.lo), static_cast<int64_t>(s.hi));
}

}  // namespace spyre::program
