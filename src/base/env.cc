#include "base/env.h"

#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace spyre::base {

std::string env_string(const char* name, const std::string& otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::string(text) : otherwise;
}

int64_t env_int(const char* name, int64_t otherwise, int64_t lo, int64_t hi) {
  const std::string text = env_string(name, "");
  if (text.empty()) return otherwise;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < lo || value > hi)
    fail(Fault::configuration, "{}={}: expected an integer from {} to {}", name, text, lo, hi);
  return value;
}

bool env_flag(const char* name, bool otherwise) {
  const std::string text = env_string(name, "");
  if (text.empty()) return otherwise;
  if (text == "1" || text == "true" || text == "on" || text == "yes") return true;
  if (text == "0" || text == "false" || text == "off" || text == "no") return false;
  fail(Fault::configuration, "{}={}: expected 1 or 0", name, text);
}

}  // namespace spyre::base
