# WeftPlugin.cmake: weft_add_plugin and weft_add_golden_tests, for projects that find_package(Weft).
#
#   weft_add_plugin(name [C] [SOURCES] a.cc b.cc ... [VERSION 1.0] [DOC "one line"])
#
# Makes lib<name>.so, a module with everything hidden but its entry weft_plugin_init_v1. In C++ the
# entry is generated, with name, version and doc (VERSION: the project's by default), together with the
# identity of the headers that the plugin is compiled against; the module links Weft::weft, and fmt and
# dmlc where they are installed, because weft/support/check.h and weft/core/op/op_param.h use them. With C
# it uses weft/plugin.h alone, links nothing of Weft and defines its entry itself. Add further libraries
# with target_link_libraries(name PRIVATE ...).
set(_weft_plugin_dir ${CMAKE_CURRENT_LIST_DIR})

function(weft_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 plugin "C" "VERSION;DOC" "SOURCES")
  list(APPEND plugin_SOURCES ${plugin_UNPARSED_ARGUMENTS})
  if(NOT plugin_SOURCES)
    message(FATAL_ERROR "weft_add_plugin(${name}): no sources")
  endif()

  add_library(${name} MODULE ${plugin_SOURCES})
  set_target_properties(${name} PROPERTIES
    PREFIX lib
    SUFFIX .so
    C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)
  if(plugin_C)
    target_compile_features(${name} PRIVATE c_std_99)
    target_include_directories(${name} PRIVATE $<TARGET_PROPERTY:Weft::weft,INTERFACE_INCLUDE_DIRECTORIES>)
    return()
  endif()

  set(WEFT_PLUGIN_NAME ${name})
  set(WEFT_PLUGIN_VERSION "${plugin_VERSION}")
  if(NOT WEFT_PLUGIN_VERSION)
    set(WEFT_PLUGIN_VERSION "${PROJECT_VERSION}")
  endif()
  string(REGEX REPLACE "([\"\\\\])" "\\\\\\1" WEFT_PLUGIN_DOC "${plugin_DOC}")
  set(entry ${CMAKE_CURRENT_BINARY_DIR}/${name}_plugin_entry.cc)
  configure_file(${_weft_plugin_dir}/plugin_entry.cc.in ${entry} @ONLY)
  target_sources(${name} PRIVATE ${entry})

  find_package(fmt QUIET)
  find_library(WEFT_PLUGIN_DMLC dmlc)
  mark_as_advanced(WEFT_PLUGIN_DMLC)
  target_compile_features(${name} PRIVATE cxx_std_17)
  target_compile_definitions(${name} PRIVATE WEFT_MODULE_NAME="${name}")
  target_link_libraries(${name} PRIVATE Weft::weft
    $<$<BOOL:${WEFT_PLUGIN_DMLC}>:${WEFT_PLUGIN_DMLC}> $<TARGET_NAME_IF_EXISTS:fmt::fmt>)
endfunction()

#   weft_add_golden_tests(name)
#
# A test `name_golden`: every .weft file in tests/ beside the CMakeLists.txt, with the plugin loaded. Such a file says what is
# run and what comes out (docs/add_a_pass.md); `WEFT_BLESS=1 ctest -R golden` writes what came out into it.
function(weft_add_golden_tests name)
  if(NOT WEFT_GOLDEN_TEST)
    message(FATAL_ERROR "weft_add_golden_tests(${name}): this package of Weft was built without its tests")
  endif()
  add_test(NAME ${name}_golden COMMAND ${WEFT_GOLDEN_TEST} --plugin $<TARGET_FILE:${name}>
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
endfunction()
