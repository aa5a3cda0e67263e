// The boxed kernel of every op that has no kernel of its own on the device: it runs on the CPU, counted and told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace spyre::torch {

/// Ops run on the CPU so far, by overload name ("aten::add.out"). Thread-safe.
std::map<std::string, int64_t> fallback_counts();
void reset_fallback_counts();

/// Called once per op at its first CPU run, with its name and the shapes and dtypes of that call. Python sets it to
/// raise the warning; what it throws ends the op.
void set_fallback_warning(std::function<void(const std::string& op, const std::string& arguments)> warn);

}  // namespace spyre::torch
