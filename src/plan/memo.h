// The price of a kernel's best candidate, asked once per kind of kernel: equal layers are priced once.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "plan/forms.h"

namespace spyre::plan {

/// The form in which a kernel that begins with this node runs.
Form form_of(const graph::Kind& kind);

/// What a kernel is, whatever its values are called: nodes, where each value lives, whether the launch changes it, how
/// values are read. Two kernels of one key have the same candidates at the same prices.
class KernelKeys {
 public:
  KernelKeys(const Plan& plan, const std::vector<bool>& changed) : plan_(plan), changed_(changed) {}
  base::Hash128 of(const graph::Graph& graph, std::span<const Id> nodes);

 private:
  const std::string& text(const layout::Geometry& geometry);

  const Plan& plan_;
  const std::vector<bool>& changed_;
  std::map<size_t, std::vector<std::pair<layout::Geometry, std::string>>> texts_;  // by Geometry::hash
};

/// A kernel's best candidate.
struct Choice {
  KernelPlan kernel;
  std::vector<Repack> repacks;  ///< with which it is so good
};

class Pricer {
 public:
  /// `plan`: its homes are looked at when best() is asked, and its repacks set for the time of a question.
  Pricer(const graph::Graph& graph, Plan& plan, const device::Description& description, Price price,
         const Options& options, const std::vector<bool>& changed);

  /// The cheapest candidate (with a random seed: a random one) for these nodes, or nothing when none is legal.
  std::optional<Choice> best(std::span<const Id> nodes);
  /// Whether the form takes these nodes, the last one being new.
  bool accepts(std::span<const Id> nodes);
  /// Why the last kernel without candidates has none, if something said so.
  const std::string& why() const { return why_; }

 private:
  std::vector<KernelPlan> candidates(std::span<const Id> nodes);
  std::optional<KernelPlan> cheapest(std::span<const Id> nodes);
  std::vector<Repack> repacks_of(std::span<const Id> nodes);

  const graph::Graph& graph_;
  Plan& plan_;
  Context context_;
  Price price_;
  const Options& options_;
  const std::vector<bool>& changed_;
  std::mt19937_64 random_;
  KernelKeys keys_;
  std::map<base::Hash128, std::optional<Choice>> known_;
  std::string why_;
};

}  // namespace spyre::plan
