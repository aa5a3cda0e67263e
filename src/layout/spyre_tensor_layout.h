// SpyreTensorLayout: the layout users see. A device tensor is a dense row-major array of `device_size` whose last
// dimension is the stick; `stride_map` says how many host elements one step of each device dimension makes. Source of
// the rules and worked values: docs/interface.md section 3.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/formats.h"

namespace spyre::layout {

/// The vendor stack's names of device data formats; values are part of the Python surface.
enum class DataFormats : int {
  SEN169_FP16 = 0,
  IEEE_FP32 = 1,
  INVALID = 2,
  SEN143_FP8 = 3,
  SEN152_FP8 = 4,
  SEN153_FP9 = 5,
  SENINT2 = 6,
  SENINT4 = 7,
  SENINT8 = 8,
  SENINT16 = 9,
  SENINT24 = 10,
  IEEE_INT64 = 11,
  IEEE_INT32 = 12,
  SENUINT32 = 13,
  SENUINT2 = 14,
  IEEE_FP16 = 15,
  BOOL = 16,
  BFLOAT16 = 17,
  SEN18F_FP24 = 18,
};
/// Elements of one 128-byte stick; formats whose width is no power of two count in the next wider lane. Throws
/// Error(user) for formats with none (INVALID).
int elems_per_stick(DataFormats f);
const char* data_format_name(DataFormats f);
/// The DataFormats of a host type (float16, bfloat16, bool -> SEN169_FP16, ...). Throws as base::device_format.
DataFormats data_format_of(base::HostType t);
/// The storage format the device uses for a DataFormats; throws Error(unimplemented) for those it can't hold.
base::Format storage_format(DataFormats f);

enum class ElementArrangement : int {
  STANDARD = 0,
  DL16_TO_FP32 = 1,
  QFP8CH = 2,
  EXX2 = 3,
  FP32_TO_DL16 = 4,
  QFP8WT = 5
};
const char* element_arrangement_name(ElementArrangement a);

/// A value: two layouts are equal when all four fields are. All constructors throw Error(user) for sizes below 0, more
/// than 2^63 bytes, or lists that don't fit together. Only the stick dimension is padded by the first two. The element
/// arrangement is carried for code that asks for it; the soft card keeps every arrangement in standard order.
class SpyreTensorLayout {
 public:
  /// Default layout of a contiguous tensor. `host_size` may have up to 6 dimensions, more throws Error(user).
  SpyreTensorLayout(std::vector<int64_t> host_size, base::HostType type);
  /// Layout of a strided tensor; `dim_order` is a permutation of the host dimensions, with one optional trailing -1
  /// that makes the tensor sparse (one valid element a stick).
  SpyreTensorLayout(std::vector<int64_t> host_size, std::vector<int64_t> host_strides, base::HostType type,
                    std::vector<int64_t> dim_order, ElementArrangement arrangement = ElementArrangement::STANDARD);
  /// Explicit form: any padding, split or folding of dimensions. Whether a tensor fits it is Geometry::of's to say.
  SpyreTensorLayout(std::vector<int64_t> device_size, std::vector<int64_t> stride_map, DataFormats device_dtype,
                    ElementArrangement arrangement = ElementArrangement::STANDARD);

  const std::vector<int64_t>& device_size() const { return device_size_; }
  const std::vector<int64_t>& stride_map() const { return stride_map_; }
  DataFormats device_dtype() const { return device_dtype_; }
  ElementArrangement element_arrangement() const { return arrangement_; }
  int elems_per_stick() const;
  int64_t device_bytes() const;  ///< 128 x prod(device_size[:-1])
  SpyreTensorLayout with_element_arrangement(ElementArrangement arrangement) const;
  bool operator==(const SpyreTensorLayout&) const = default;
  size_t hash() const;
  std::string repr() const;

 private:
  std::vector<int64_t> device_size_, stride_map_;
  DataFormats device_dtype_ = DataFormats::INVALID;
  ElementArrangement arrangement_ = ElementArrangement::STANDARD;
};

}  // namespace spyre::layout
