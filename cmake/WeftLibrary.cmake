# WeftLibrary.cmake: libweft.so from the rooms. The loadable backends beside it are made in their rooms.

set(WEFT_LIBRARY_ROOMS support sym core codegen ops passes runtime generate onnx ref api)
list(TRANSFORM WEFT_LIBRARY_ROOMS REPLACE "(.+)" "weft_\\1_obj" OUTPUT_VARIABLE weft_library_objects)

# The name that programs are linked to changes with every release that may break them: before 1.0 that is each minor one.
set(weft_soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(weft_soversion 0.${PROJECT_VERSION_MINOR})
endif()

add_library(weft SHARED)
add_library(Weft::weft ALIAS weft)
target_sources(weft PRIVATE ${WEFT_EMPTY_CC})
target_link_libraries(weft PRIVATE ${weft_library_objects})
target_link_options(weft PRIVATE ${WEFT_SHARED_LINK_OPTIONS})
set_target_properties(weft PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${weft_soversion}
  # Compiles every public header alone: target all_verify_interface_header_sets.
  VERIFY_INTERFACE_HEADER_SETS ON)

file(GLOB_RECURSE weft_public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/weft/*.h)
target_sources(weft PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${weft_public_headers})
target_compile_features(weft INTERFACE cxx_std_17)
