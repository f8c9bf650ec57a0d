# parts.cmake: the library of all rooms, and hsimd_room(), by which a room lists its files.
#
#   hsimd_room(machine SOURCES a.cc b.cc TESTS a_test.cc)
#
# stands in machine/sources.cmake; files are named within the room. The tests of a room are one program,
# hsimd_<room>_test, and one test, <room>.
add_library(hsimd_parts STATIC)
set_target_properties(hsimd_parts PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  LINKER_LANGUAGE CXX)
target_compile_features(hsimd_parts PUBLIC cxx_std_17)
# Words are computed as IEEE says: no a * b + c in one rounding unless the program says so.
target_compile_options(hsimd_parts PUBLIC -Wall -Wextra -Werror -ffp-contract=off)
target_compile_definitions(hsimd_parts PUBLIC WEFT_MODULE_NAME="hsimd")
find_library(HSIMD_DMLC dmlc)
mark_as_advanced(HSIMD_DMLC)
target_link_libraries(hsimd_parts PUBLIC Weft::weft fmt::fmt $<$<BOOL:${HSIMD_DMLC}>:${HSIMD_DMLC}>
  PRIVATE nlohmann_json::nlohmann_json)

if(BUILD_TESTING)
  add_library(hsimd_test_main OBJECT tests/main.cc tests/naive_interpreter.cc tests/random_program.cc)
  target_link_libraries(hsimd_test_main PUBLIC doctest::doctest hsimd_parts)
  target_compile_definitions(hsimd_test_main PUBLIC DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
endif()

function(hsimd_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "SOURCES;TESTS")
  list(TRANSFORM room_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${name}/)
  list(TRANSFORM room_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${name}/)
  target_sources(hsimd_parts PRIVATE ${room_SOURCES})
  if(room_TESTS AND BUILD_TESTING)
    add_executable(hsimd_${name}_test ${room_TESTS})
    target_link_libraries(hsimd_${name}_test PRIVATE hsimd_test_main nlohmann_json::nlohmann_json)
    add_test(NAME ${name} COMMAND hsimd_${name}_test)
  endif()
endfunction()
