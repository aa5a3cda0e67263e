# spyre_library(<folder> [DEPENDS <folder>...] [LINK <targets>...])
#
# Makes library spyre_<folder> of the folder's *.cc, test program <folder>_test of its *_test.cc (each a ctest entry of its
# own suites) and one benchmark program per *_bench.cc. A source may include headers of its own folder and of DEPENDS (with
# what those reach), and nothing else of src/: check_includes.cmake reads the includes and fails the build otherwise.
function(spyre_library folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  set(lib spyre_${folder})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  file(GLOB headers CONFIGURE_DEPENDS *.h)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")

  set(reach ${folder})
  foreach(dep IN LISTS ARG_DEPENDS)
    get_property(more GLOBAL PROPERTY spyre_reach_${dep})
    list(APPEND reach ${dep} ${more})
  endforeach()
  list(REMOVE_DUPLICATES reach)
  set_property(GLOBAL PROPERTY spyre_reach_${folder} ${reach})

  add_library(${lib} STATIC ${sources} ${headers})
  target_include_directories(${lib} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${lib} PRIVATE -Wall -Wextra -Wpedantic -Werror)
  list(TRANSFORM ARG_DEPENDS PREPEND spyre_ OUTPUT_VARIABLE deps)
  target_link_libraries(${lib} PUBLIC ${deps} ${ARG_LINK})

  set(stamp ${CMAKE_CURRENT_BINARY_DIR}/includes.stamp)
  add_custom_command(
    OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_CURRENT_SOURCE_DIR} "-DALLOWED=${reach}" -P
            ${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${sources} ${headers} ${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake
    VERBATIM)
  add_custom_target(${lib}_includes DEPENDS ${stamp})
  add_dependencies(${lib} ${lib}_includes)

  if(SPYRE_TESTS AND tests)
    add_executable(${folder}_test ${tests})
    target_compile_options(${folder}_test PRIVATE -Wall -Wextra -Werror)
    target_link_libraries(${folder}_test PRIVATE ${lib} GTest::gtest GTest::gtest_main)
    add_test(NAME ${folder} COMMAND ${folder}_test)
    set_tests_properties(${folder} PROPERTIES TIMEOUT 300)
  endif()
  if(SPYRE_BENCHMARKS)
    foreach(bench IN LISTS benches)
      get_filename_component(name ${bench} NAME_WE)
      add_executable(${name} ${bench})
      target_link_libraries(${name} PRIVATE ${lib} benchmark::benchmark)
    endforeach()
  endif()
endfunction()
