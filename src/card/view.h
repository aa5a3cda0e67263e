// View: where the elements of a buffer operand lie in a core's LX. Operand: a buffer operand made ready to become a
// View.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/formats.h"
#include "card/expr.h"
#include "program/tree.h"

namespace spyre::card {

using base::Format;
using program::Id;

constexpr int max_rank = 8;

struct View {
  std::byte* data = nullptr;  ///< first element of the box
  Format format = Format::f32;
  int rank = 0;
  Id buffer = program::none;
  std::array<int64_t, max_rank> size{}, stride{};  ///< elements; the last stride is 1 unless transposed
  std::array<bool, max_rank> single{};  ///< size 1 by its text, hence broadcasts; a trip clipped to 1 does not

  int64_t numel() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= size[d];
    return n;
  }
  int64_t last_size() const { return rank ? size[rank - 1] : 1; }
  /// Number of rows: the product of all sizes but the last.
  int64_t rows() const {
    int64_t n = 1;
    for (int d = 0; d + 1 < rank; ++d) n *= size[d];
    return n;
  }
  /// First element of row r (rows counted row-major).
  std::byte* row(int64_t r) const {
    int64_t offset = 0;
    for (int d = rank - 2; d >= 0; --d) {
      offset += r % size[d] * stride[d];
      r /= size[d];
    }
    return data + offset * base::format_bytes(format);
  }
};

/// What the card keeps of a program::Buffer.
struct BufferInfo {
  const program::Buffer* source = nullptr;
  Format format = Format::f32;
  int rank = 0;
  std::array<int64_t, max_rank> shape{}, stride{};
  int64_t row_elements = 0;  ///< last dimension in whole sticks
  int64_t slot_bytes = 0;
  int64_t lx_offset = 0;
  int32_t slots = 1;

  explicit BufferInfo(const program::Buffer& buffer);
};

struct Core;

class Operand {
 public:
  Operand() = default;
  /// Throws Error(program) when the reference does not fit the buffer.
  Operand(const program::BufRef& ref, const std::vector<BufferInfo>& buffers, const VarMap& vars);
  bool present() const { return info_ != nullptr; }
  Id buffer() const { return buffer_; }
  const BufferInfo& info() const { return *info_; }
  bool whole() const { return dims_.empty(); }
  /// True when dimension d of the (transposed) operand is 1 by its text, so that it broadcasts.
  bool single(int d) const {
    if (ref_->transposed && d >= fixed_.rank - 2) d = 2 * fixed_.rank - 3 - d;
    return fixed_.single[d];
  }
  /// True when dimension d is a box that follows a range (so it may be clipped).
  bool follows_range(int d) const { return !dims_.empty() && dims_[d].range; }
  /// Box under the core's variables, of the core's current instance. Throws Error(program) when it leaves the buffer.
  View view(const Core& core) const;
  /// Same, without touching a lazily loaded tile (no data pointer is needed, or the caller looks for the lazy tile
  /// itself).
  View shape(const Core& core) const;
  const program::BufRef& ref() const { return *ref_; }
  /// First position and number of positions along dimension d of the buffer.
  std::pair<int64_t, int64_t> positions(const Core& core, int d) const;

 private:
  struct Dim {
    bool whole = true, range = false;
    Expr first, size;
  };
  const program::BufRef* ref_ = nullptr;
  const BufferInfo* info_ = nullptr;
  Id buffer_ = program::none;
  std::vector<Dim> dims_;
  View fixed_;
};

}  // namespace spyre::card
