# Precompiled headers: what nearly every source includes is parsed once for the libraries and once for the tests; that halves
# the build time. Sources still include all they use: `make includes` parses each by itself.
function(spyre_precompiled target options links)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Carries the precompiled headers of other targets.\n")
  add_library(${target} OBJECT ${source})
  target_link_libraries(${target} PRIVATE ${links})
  target_compile_options(${target} PRIVATE ${options})
  target_precompile_headers(
    ${target} PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map> <memory> <mutex> <optional> <set>
    <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h> ${ARGN})
endfunction()

# Unity builds: a target's sources are compiled some at a time as one, for most of a source's cost is the headers and the
# functions of the standard library that it makes. File-local names and aliases are therefore unique in their folder.
set(SPYRE_UNITY_SOURCES 16 CACHE STRING "Sources that a unity build compiles as one")
mark_as_advanced(SPYRE_UNITY_SOURCES)
function(spyre_unity target)
  if(SPYRE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${SPYRE_UNITY_SOURCES})
  endif()
endfunction()

# Tests are run once and compiled often: a little optimisation is the quickest sum of both. -fPIC as the precompiled headers.
# Without the warnings of GCC 12 that are wrong in its own library at -O1 (std::string, bug 105651) or under sanitizers (std::regex).
set(SPYRE_TEST_OPTIONS -fPIC -O1 -Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND SPYRE_TEST_OPTIONS -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread
       -Wno-maybe-uninitialized)
endif()

# Sources named *_simd.cc are compiled once per instruction set (src/base/isa.h), each time with SPYRE_ISA and
# SPYRE_SIMD_BYTES defined: baseline everywhere, avx2 and avx512 on x86-64.
function(spyre_simd_objects lib)
  set(common -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast -Wno-psabi -Wall -Wextra -Werror)
  set(variants "baseline\;16")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND variants "avx2\;32\;-mavx2\;-mfma\;-mprfchw"
         "avx512\;64\;-mavx512f\;-mavx512bw\;-mavx512vl\;-mavx512dq\;-mfma\;-mprfchw\;-mprefer-vector-width=512")
  endif()
  foreach(variant IN LISTS variants)
    list(POP_FRONT variant isa bytes)
    set(objects ${lib}_${isa})
    add_library(${objects} OBJECT ${ARGN})
    target_include_directories(${objects} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_options(${objects} PRIVATE ${common} ${variant})
    target_compile_definitions(${objects} PRIVATE SPYRE_ISA=${isa} SPYRE_SIMD_BYTES=${bytes})
    target_sources(${lib} PRIVATE $<TARGET_OBJECTS:${objects}>)
    list(APPEND all_objects $<TARGET_OBJECTS:${objects}>)
  endforeach()
  if(SPYRE_TESTS AND CMAKE_NM AND NOT SPYRE_SANITIZE)
    add_test(NAME ${lib}_simd_symbols COMMAND ${CMAKE_COMMAND} "-DOBJECTS=${all_objects}" -DNM=${CMAKE_NM} -P
                                              ${PROJECT_SOURCE_DIR}/cmake/check_simd_symbols.cmake)
  endif()
endfunction()

# Far above what any test program takes; sanitized ones run the long fuzz.
set(SPYRE_TEST_SECONDS 300)
if(SPYRE_SANITIZE)
  set(SPYRE_TEST_SECONDS 3000)
endif()

# spyre_library(<folder> [DEPENDS <folder>...] [LINK <targets>...] [TEST_LINK <targets>...])
#
# Makes library spyre_<folder> of the folder's *.cc, test program <folder>_test of its *_test.cc (each a ctest entry of its
# own suites) and one benchmark program per *_bench.cc. A source may include headers of its own folder and of DEPENDS (with
# what those reach), and nothing else of src/: check_includes.cmake reads the includes and fails the build otherwise.
function(spyre_library folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK;TEST_LINK" ${ARGN})
  set(lib spyre_${folder})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  file(GLOB headers CONFIGURE_DEPENDS *.h)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")
  set(simd ${sources})
  list(FILTER simd INCLUDE REGEX "_simd\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_simd\\.cc$")

  set(reach ${folder})
  foreach(dep IN LISTS ARG_DEPENDS)
    get_property(more GLOBAL PROPERTY spyre_reach_${dep})
    list(APPEND reach ${dep} ${more})
  endforeach()
  list(REMOVE_DUPLICATES reach)
  set_property(GLOBAL PROPERTY spyre_reach_${folder} ${reach})

  if(NOT sources)  # headers only
    add_library(${lib} INTERFACE)
    target_include_directories(${lib} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    list(TRANSFORM ARG_DEPENDS PREPEND spyre_ OUTPUT_VARIABLE deps)
    target_link_libraries(${lib} INTERFACE ${deps} ${ARG_LINK})
    return()
  endif()
  add_library(${lib} STATIC ${sources} ${headers})
  target_include_directories(${lib} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${lib} PRIVATE -Wall -Wextra -Wpedantic -Werror)
  spyre_unity(${lib})
  if(TARGET spyre_pch)
    target_precompile_headers(${lib} REUSE_FROM spyre_pch)
  endif()
  list(TRANSFORM ARG_DEPENDS PREPEND spyre_ OUTPUT_VARIABLE deps)
  target_link_libraries(${lib} PUBLIC ${deps} ${ARG_LINK})

  if(simd)
    spyre_simd_objects(${lib} ${simd})
  endif()

  set(stamp ${CMAKE_CURRENT_BINARY_DIR}/includes.stamp)
  add_custom_command(
    OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_CURRENT_SOURCE_DIR} "-DALLOWED=${reach}" -P
            ${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${sources} ${simd} ${headers} ${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake
    VERBATIM)
  add_custom_target(${lib}_includes DEPENDS ${stamp})
  add_dependencies(${lib} ${lib}_includes)

  if(SPYRE_TESTS AND tests)
    add_executable(${folder}_test ${tests})
    target_compile_options(${folder}_test PRIVATE ${SPYRE_TEST_OPTIONS})
    spyre_unity(${folder}_test)
    if(TARGET spyre_test_pch)
      target_precompile_headers(${folder}_test REUSE_FROM spyre_test_pch)
    endif()
    target_link_libraries(${folder}_test PRIVATE ${lib} ${ARG_TEST_LINK} GTest::gtest GTest::gtest_main)
    add_test(NAME ${folder} COMMAND ${folder}_test)
    set_tests_properties(${folder} PROPERTIES TIMEOUT ${SPYRE_TEST_SECONDS})
  endif()
  if(SPYRE_BENCHMARKS)
    foreach(bench IN LISTS benches)
      get_filename_component(name ${bench} NAME_WE)
      add_executable(${name} EXCLUDE_FROM_ALL ${bench})
      target_link_libraries(${name} PRIVATE ${lib} benchmark::benchmark)
      add_dependencies(benchmarks ${name})
    endforeach()
  endif()
endfunction()
