# Fails when an object compiled for one instruction set defines a weak symbol (an inline function that the linker may merge with,
# or prefer to, another object's): see src/base/isa.h. OBJECTS: object files; NM: the symbol lister.
cmake_minimum_required(VERSION 3.25)
string(REPLACE " " ";" OBJECTS "${OBJECTS}")
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} -C --defined-only ${object} OUTPUT_VARIABLE symbols RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${NM} cannot read ${object}")
  endif()
  string(REGEX MATCHALL "[^\n]* [WVuw] [^\n]*" weak "${symbols}")
  if(weak)
    message(FATAL_ERROR "${object} defines functions that other objects may use:\n${weak}")
  endif()
endforeach()
