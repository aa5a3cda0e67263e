// The text of spyre.json, which the build puts into the library (embed.cmake).
#pragma once

#include <string_view>

namespace spyre::device {

std::string_view builtin_json();

}  // namespace spyre::device
