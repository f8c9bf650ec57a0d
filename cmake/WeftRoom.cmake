# WeftRoom.cmake: how a room, a pass, a test, a tool or an example enters the build.
#
# A room is one folder of src/ compiled into one OBJECT library, because static archives drop the
# objects that hold nothing but registrations. The functions below are all that a CMakeLists.txt in
# this tree calls; each source file is one line of one list.

# A file with nothing in it keeps a room that has no sources yet a valid target.
set(WEFT_EMPTY_CC ${CMAKE_BINARY_DIR}/weft_empty.cc)
if(NOT EXISTS ${WEFT_EMPTY_CC})
  file(WRITE ${WEFT_EMPTY_CC} "// Stands in for a room without sources.\n")
endif()

# Stops at configure time, with the list's place, when a listed file does not exist.
function(_weft_require_files)
  foreach(file IN LISTS ARGN)
    if(NOT IS_ABSOLUTE ${file})
      set(file ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    endif()
    if(NOT EXISTS ${file})
      message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt lists ${file}, which does not exist")
    endif()
  endforeach()
endfunction()

# weft_says_version(a.cc ...): these sources have WEFT_VERSION. They alone, so that another version compiles nothing else.
function(weft_says_version)
  _weft_require_files(${ARGN})
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_DEFINITIONS WEFT_VERSION="${PROJECT_VERSION}")
endfunction()

# The NVRTC that tools/setup has brought for tests, which it does where a machine has none; empty: there is none.
set(WEFT_TEST_NVRTC ${WEFT_DATA_DIR}/nvidia-cuda-nvrtc/libnvrtc.so.13)
execute_process(COMMAND bash -c "source tools/common.sh && has_nvrtc" WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  RESULT_VARIABLE no_nvrtc OUTPUT_QUIET ERROR_QUIET)
if(no_nvrtc EQUAL 0 OR NOT EXISTS ${WEFT_TEST_NVRTC})
  set(WEFT_TEST_NVRTC "")
endif()

# weft_test_looks_at(name PATH...): a change of one of these files or folders, or of the public headers of one, makes
# `tools/check` run the whole test; any other change leaves out its slow cases (tools/run_tests.py).
function(weft_test_looks_at name)
  list(TRANSFORM ARGN REPLACE "^${PROJECT_SOURCE_DIR}/" "")
  set_property(TEST ${name} APPEND PROPERTY LABELS ${ARGN})
endfunction()

# Every test runs in the source folder (so tests/passes/... is a path) and is told these places.
function(weft_test_environment name)
  # Tests run side by side: a team that waits leaves its cores to the others.
  set(environment "WEFT_DATA_DIR=${WEFT_DATA_DIR}" "WEFT_BUILD_DIR=${PROJECT_BINARY_DIR}" "GOMP_SPINCOUNT=1000")
  if(WEFT_TEST_NVRTC)
    list(APPEND environment "WEFT_NVRTC=${WEFT_TEST_NVRTC}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 1800 ENVIRONMENT "${environment}")
endfunction()

# Tests are compiled once for each run of them: what -O2 costs there it does not win back.
set(WEFT_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)

# The test executable of a room, made on first use: the room, the rooms below it, and TEST_ROOMS.
function(_weft_room_test name)
  if(NOT TARGET ${name}_test)
    get_property(closure GLOBAL PROPERTY WEFT_CLOSURE_${name})
    get_property(extra GLOBAL PROPERTY WEFT_TEST_ROOMS_${name})
    set(rooms ${name} ${closure} ${extra})
    list(REMOVE_DUPLICATES rooms)
    list(TRANSFORM rooms REPLACE "(.+)" "weft_\\1_obj")
    add_executable(${name}_test)
    target_link_libraries(${name}_test PRIVATE ${rooms} weft_test_main)
    target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR})  # "tests/support/..."
    add_test(NAME ${name}_test COMMAND ${name}_test WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    weft_test_environment(${name}_test)
    weft_test_looks_at(${name}_test ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  set_property(SOURCE ${ARGN} PROPERTY COMPILE_OPTIONS ${WEFT_TEST_OPTIONS})
  target_sources(${name}_test PRIVATE ${ARGN})
endfunction()

# weft_room(name [SOURCES a.cc ...] [TESTS a_test.cc ...] [DEPENDS room ...] [LIBS target ...]
#           [TEST_ROOMS room ...] [TEST_LIBS target ...])
#
# Makes the OBJECT library weft_<name>_obj and, where there are tests, the executable <name>_test,
# linked from the objects of this room and of all rooms below it. DEPENDS names the rooms below
# (their own DEPENDS are followed). LIBS are this room's private libraries. TEST_ROOMS are linked
# into the test alone (name each one; nothing is followed).
function(weft_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "SOURCES;TESTS;DEPENDS;LIBS;TEST_ROOMS;TEST_LIBS")
  if(room_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_room(${name}): unknown arguments: ${room_UNPARSED_ARGUMENTS}")
  endif()
  _weft_require_files(${room_SOURCES} ${room_TESTS})

  set(closure "")
  foreach(below IN LISTS room_DEPENDS)
    if(NOT TARGET weft_${below}_obj)
      message(FATAL_ERROR "weft_room(${name}): room '${below}' is not defined yet; see src/CMakeLists.txt")
    endif()
    get_property(further GLOBAL PROPERTY WEFT_CLOSURE_${below})
    list(APPEND closure ${below} ${further})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  set_property(GLOBAL PROPERTY WEFT_CLOSURE_${name} "${closure}")
  set_property(GLOBAL PROPERTY WEFT_TEST_ROOMS_${name} "${room_TEST_ROOMS}")

  if(NOT room_SOURCES)
    list(APPEND room_SOURCES ${WEFT_EMPTY_CC})
  endif()
  add_library(weft_${name}_obj OBJECT ${room_SOURCES})
  target_link_libraries(weft_${name}_obj PUBLIC weft_base PRIVATE ${room_LIBS})
  set(WEFT_CURRENT_ROOM ${name} PARENT_SCOPE)

  if(WEFT_TESTS AND room_TESTS)
    _weft_room_test(${name} ${room_TESTS})
    target_link_libraries(${name}_test PRIVATE ${room_TEST_LIBS})
  endif()
endfunction()

# PlanMemory -> plan_memory, FCodeGen -> f_code_gen, RTCGen -> rtc_gen, SaveJSON -> save_json.
function(weft_snake_case name out)
  string(REGEX REPLACE "([a-z0-9])([A-Z])" "\\1_\\2" snake ${name})
  string(REGEX REPLACE "([A-Z])([A-Z][a-z])" "\\1_\\2" snake ${snake})
  string(TOLOWER ${snake} snake)
  set(${out} ${snake} PARENT_SCOPE)
endfunction()

# weft_pass(Name file.cc)
#
# Adds one pass to the room of the weft_room() call above it: its source, its x_test.cc where there
# is one, and the promise that its golden folder tests/passes/<snake_case_name>/ exists.
function(weft_pass name file)
  if(NOT WEFT_CURRENT_ROOM)
    message(FATAL_ERROR "weft_pass(${name}) must follow weft_room() in the same CMakeLists.txt")
  endif()
  _weft_require_files(${file})
  weft_snake_case(${name} snake)
  if(NOT IS_DIRECTORY ${PROJECT_SOURCE_DIR}/tests/passes/${snake})
    message(FATAL_ERROR "pass ${name} has no golden folder tests/passes/${snake}/")
  endif()
  target_sources(weft_${WEFT_CURRENT_ROOM}_obj PRIVATE ${file})
  string(REGEX REPLACE "\\.cc$" "_test.cc" test_file ${file})
  if(WEFT_TESTS AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${test_file})
    _weft_room_test(${WEFT_CURRENT_ROOM} ${CMAKE_CURRENT_SOURCE_DIR}/${test_file})
  endif()
endfunction()

# weft_module(name ROOMS room ...): a loadable backend lib<name>.so beside libweft.so. What opens backends at run time
# depends on all of them (weft_uses_backends).
function(weft_module name)
  set_property(GLOBAL APPEND PROPERTY WEFT_MODULES ${name})
  cmake_parse_arguments(PARSE_ARGV 1 module "" "" "ROOMS;LIBS")
  list(TRANSFORM module_ROOMS REPLACE "(.+)" "weft_\\1_obj")
  add_library(${name} MODULE)
  target_sources(${name} PRIVATE ${WEFT_EMPTY_CC})
  target_link_libraries(${name} PRIVATE ${module_ROOMS} weft ${module_LIBS})
  target_link_options(${name} PRIVATE ${WEFT_SHARED_LINK_OPTIONS})
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/..")
  install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/weft COMPONENT runtime)
endfunction()

# weft_e2e(name SOURCES a_test.cc ... [LIBS target ...]): a doctest program that uses libweft.so as
# a user would, with what it takes of tests/support. No sources, no program.
function(weft_e2e name)
  cmake_parse_arguments(PARSE_ARGV 1 e2e "" "" "SOURCES;LIBS")
  _weft_require_files(${e2e_SOURCES})
  if(NOT e2e_SOURCES)
    return()
  endif()
  add_executable(${name} ${e2e_SOURCES})
  target_link_libraries(${name} PRIVATE weft_test_main weft_test_support ${e2e_LIBS})
  weft_uses_backends(${name})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  weft_test_environment(${name})
  list(TRANSFORM e2e_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  weft_test_looks_at(${name} ${e2e_SOURCES})
endfunction()

# weft_program(name SOURCES a.cc ... [LIBS target ...]): an example or a bench on libweft.so.
function(weft_program name)
  cmake_parse_arguments(PARSE_ARGV 1 program "" "" "SOURCES;LIBS")
  _weft_require_files(${program_SOURCES})
  add_executable(${name} ${program_SOURCES})
  target_link_libraries(${name} PRIVATE weft weft_user ${program_LIBS})
  weft_uses_backends(${name})
endfunction()

# Building a program that opens backends at run time builds those backends first.
function(weft_uses_backends name)
  get_property(modules GLOBAL PROPERTY WEFT_MODULES)
  if(modules)
    add_dependencies(${name} ${modules})
  endif()
endfunction()
