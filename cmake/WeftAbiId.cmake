# WeftAbiId.cmake: writes weft/abi_id.h, the identity of the C++ interface: what a plugin was compiled against.
#
#   cmake -DROOT=include/weft -DOUT=abi_id.h -P WeftAbiId.cmake
#
# The hash covers the public headers without their comment lines, so a release that leaves them alone
# keeps it. The C interfaces (plugin.h, weft.h, c_types.h) have versions of their own and are left out.
cmake_policy(VERSION 3.25)
file(GLOB_RECURSE headers RELATIVE ${ROOT} ${ROOT}/*.h)
list(REMOVE_ITEM headers plugin.h weft.h c_types.h)
list(SORT headers)
if(NOT headers)
  message(FATAL_ERROR "no headers in ${ROOT}")
endif()
set(text "")
foreach(header IN LISTS headers)
  file(READ ${ROOT}/${header} lines)
  string(REGEX REPLACE "(^|\n)[ \t]*//[^\n]*" "" lines "${lines}")
  string(APPEND text "${header}\n${lines}\n")
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 16 WEFT_ABI_HEADERS)
configure_file(${CMAKE_CURRENT_LIST_DIR}/abi_id.h.in ${OUT} @ONLY)
