# WeftAbi.cmake: makes weft/abi_id.h anew when a public header changes; installed beside the headers.

set(WEFT_GENERATED_INCLUDE ${PROJECT_BINARY_DIR}/include)
set(weft_abi_header ${WEFT_GENERATED_INCLUDE}/weft/abi_id.h)
file(GLOB_RECURSE weft_abi_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/weft/*.h)
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/abi_id.stamp
  BYPRODUCTS ${weft_abi_header}
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR}/include/weft -DOUT=${weft_abi_header}
          -P ${PROJECT_SOURCE_DIR}/cmake/WeftAbiId.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/abi_id.stamp
  DEPENDS ${weft_abi_sources} ${PROJECT_SOURCE_DIR}/cmake/WeftAbiId.cmake ${PROJECT_SOURCE_DIR}/cmake/abi_id.h.in
  COMMENT "Identity of the public headers"
  VERBATIM)
add_custom_target(weft_abi_id DEPENDS ${PROJECT_BINARY_DIR}/abi_id.stamp)
install(FILES ${weft_abi_header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft COMPONENT dev)
