#include <iterator>

#include "base/error.h"
#include "layout/spyre_tensor_layout.h"

namespace spyre::layout {

namespace {

struct Row {
  const char* name;
  int elements;  // of one 128-byte stick; 0: none
};

// Indexed by value. Formats narrower or wider than a power of two sit in the next wider lane.
constexpr Row rows[] = {
    {"SEN169_FP16", 64}, {"IEEE_FP32", 32},  {"INVALID", 0},     {"SEN143_FP8", 128}, {"SEN152_FP8", 128},
    {"SEN153_FP9", 64},  {"SENINT2", 512},   {"SENINT4", 256},   {"SENINT8", 128},    {"SENINT16", 64},
    {"SENINT24", 32},    {"IEEE_INT64", 16}, {"IEEE_INT32", 32}, {"SENUINT32", 32},   {"SENUINT2", 512},
    {"IEEE_FP16", 64},   {"BOOL", 64},       {"BFLOAT16", 64},   {"SEN18F_FP24", 32},
};

const Row& row_of(DataFormats f) {
  const int i = static_cast<int>(f);
  if (i < 0 || i >= static_cast<int>(std::size(rows))) fail(Fault::user, "{} is no value of DataFormats (0 to 18)", i);
  return rows[i];
}

}  // namespace

int elems_per_stick(DataFormats f) {
  const Row& row = row_of(f);
  if (row.elements == 0) fail(Fault::user, "DataFormats.{} has no elements per stick: give a real format", row.name);
  return row.elements;
}

const char* data_format_name(DataFormats f) { return row_of(f).name; }

DataFormats data_format_of(base::HostType t) {
  using base::HostType;
  switch (t) {
    case HostType::f16:
    case HostType::bf16:
    case HostType::b8:
      return DataFormats::SEN169_FP16;
    case HostType::f32:
      return DataFormats::IEEE_FP32;
    case HostType::i32:
    case HostType::i64:
      return DataFormats::IEEE_INT32;
    case HostType::i8:
      return DataFormats::SENINT8;
    case HostType::i16:
      return DataFormats::SENINT16;
    case HostType::u8:
      return DataFormats::SENUINT32;
    case HostType::e4m3:
      return DataFormats::SEN143_FP8;
    case HostType::e5m2:
      return DataFormats::SEN152_FP8;
    case HostType::f64:
    case HostType::c64:
      break;
  }
  fail(Fault::user, "{} has no device format: cast to float32, float16 or bfloat16 first", base::host_name(t));
}

const char* element_arrangement_name(ElementArrangement a) {
  constexpr const char* names[] = {"STANDARD", "DL16_TO_FP32", "QFP8CH", "EXX2", "FP32_TO_DL16", "QFP8WT"};
  const int i = static_cast<int>(a);
  if (i < 0 || i >= static_cast<int>(std::size(names)))
    fail(Fault::user, "{} is no value of ElementArrangement (0 to 5)", i);
  return names[i];
}

base::Format storage_format(DataFormats f) {
  using base::Format;
  switch (f) {
    case DataFormats::SEN169_FP16:
      return Format::dl16;
    case DataFormats::IEEE_FP16:
      return Format::f16;
    case DataFormats::IEEE_FP32:
      return Format::f32;
    case DataFormats::IEEE_INT32:
      return Format::i32;
    case DataFormats::SENUINT32:
      return Format::u32;
    case DataFormats::SENINT16:
      return Format::i16;
    case DataFormats::SENINT8:
      return Format::i8;
    case DataFormats::SEN143_FP8:
      return Format::e4m3;
    case DataFormats::SEN152_FP8:
      return Format::e5m2;
    default:
      break;
  }
  fail(Fault::unimplemented,
       "tensors of DataFormats.{} can't be stored: use SEN169_FP16, IEEE_FP16, IEEE_FP32, IEEE_INT32, SENUINT32, "
       "SENINT16, SENINT8, SEN143_FP8 or SEN152_FP8",
       data_format_name(f));
}

}  // namespace spyre::layout
