# The built-in machines become text in the library: nothing is read from disk at run time.
set(HSIMD_PRESETS "")
foreach(preset IN ITEMS toy4 tree64 mnc2)
  set(file ${CMAKE_CURRENT_SOURCE_DIR}/machine/presets/${preset}.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} json)
  string(APPEND HSIMD_PRESETS "      {\"${preset}\", R\"json(${json})json\"},\n")
endforeach()
configure_file(machine/presets.cc.in ${CMAKE_CURRENT_BINARY_DIR}/presets.cc @ONLY)
target_sources(hsimd_parts PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/presets.cc)

hsimd_room(machine
  SOURCES alu_ops.cc machine.cc parse_machine.cc print_machine.cc
  TESTS alu_ops_test.cc machine_test.cc)
