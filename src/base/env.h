// Environment variables, read with a type and refused clearly.
#pragma once

#include <cstdint>
#include <string>

namespace spyre::base {

/// The variable's text, or `otherwise` if it is unset or empty.
std::string env_string(const char* name, const std::string& otherwise);

/// A decimal integer in lo..hi (both included), or `otherwise` if unset or empty. Throws Error(configuration) naming
/// the variable, its text and the range for anything else.
int64_t env_int(const char* name, int64_t otherwise, int64_t lo, int64_t hi);

/// 1 true on yes / 0 false off no, or `otherwise` if unset or empty. Throws Error(configuration) for anything else.
bool env_flag(const char* name, bool otherwise);

}  // namespace spyre::base
