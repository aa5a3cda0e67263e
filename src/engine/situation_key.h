// SituationKey: the numbers by which a launch finds its instance, gathered without memory allocation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/compile.h"
#include "engine/engine.h"

namespace spyre::engine {

/// The numbers of a launch, with placements by their address: equal keys mean equal situations as long as somebody
/// keeps the placements alive. Reused by the next launch of the thread.
class SituationKey {
 public:
  /// `merge`: whether inputs that are one tensor are told. Throws Error(user) naming the tensor: raw, of another type
  /// or device, an output that isn't as the graph says is found later, by situation().
  void gather(const graph::Graph& graph, const runtime::Device& device, std::span<const int64_t> symbols,
              std::span<const TensorArg> inputs, std::span<const TensorArg> outputs, bool merge);

  std::span<const uint64_t> words() const { return words_; }
  uint64_t hash() const { return hash_; }
  /// Of inputs, then outputs; null where there is no memory.
  const std::vector<runtime::PlacementPtr>& placements() const { return placements_; }
  /// Drops the references to placements.
  void clear() { placements_.clear(); }

  /// The same in full.
  Situation situation(const graph::Graph& graph, std::span<const int64_t> symbols, std::span<const TensorArg> inputs,
                      std::span<const TensorArg> outputs) const;

 private:
  std::vector<uint64_t> words_;
  std::vector<int32_t> same_as_;
  std::vector<runtime::PlacementPtr> placements_;
  uint64_t hash_ = 0;
};

}  // namespace spyre::engine
