# Writes HEADER with a hash of the contents of LIST's files (one a line), if it isn't there already: what decides about the
# programs that are made is part of the key under which they are kept.
cmake_minimum_required(VERSION 3.25)
file(STRINGS ${LIST} sources)
set(all "")
foreach(source IN LISTS sources)
  get_filename_component(name ${source} NAME)
  file(SHA256 ${source} hash)
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
file(CONFIGURE OUTPUT ${HEADER} CONTENT "// Made by the build: a hash of the compiler's sources.
#pragma once

namespace spyre::engine {
constexpr char sources_hash[] = \"${hash}\";
}
")
