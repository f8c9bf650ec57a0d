# WeftPlugin.cmake: weft_add_plugin(name source.cc ...), for projects that find_package(Weft).
#
# Makes lib<name>.so: a module on Weft::weft, C++17, everything hidden but what WEFT_API marks (the
# entry weft_plugin_init_v1 is). fmt and dmlc are linked where they are installed, because the
# headers weft/support/check.h and weft/op_param.h use them. Add further libraries with
# target_link_libraries(name PRIVATE ...).
function(weft_add_plugin name)
  find_package(fmt QUIET)
  find_library(WEFT_PLUGIN_DMLC dmlc)
  mark_as_advanced(WEFT_PLUGIN_DMLC)

  add_library(${name} MODULE ${ARGN})
  target_compile_features(${name} PRIVATE cxx_std_17)
  set_target_properties(${name} PROPERTIES
    PREFIX lib
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${name} PRIVATE Weft::weft
    $<$<BOOL:${WEFT_PLUGIN_DMLC}>:${WEFT_PLUGIN_DMLC}> $<TARGET_NAME_IF_EXISTS:fmt::fmt>)
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)
endfunction()
