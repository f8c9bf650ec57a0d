# WeftOnnx.cmake: the target weft_onnx_dep, our private static onnx. Only src/onnx links it.
#
# tools/build_onnx makes it and knows where it is; -DWEFT_ONNX_ROOT=<prefix> names another build
# (which must have the same namespace and the lite runtime, or the check below says so).

set(WEFT_ONNX_ROOT "" CACHE PATH "Prefix of the private onnx build (empty: ask tools/build_onnx)")
if(NOT WEFT_ONNX_ROOT)
  set(WEFT_ONNX_ROOT ${weft_onnx_prefix})  # from WeftPlatform.cmake
endif()

find_package(Protobuf REQUIRED MODULE)
find_package(ONNX QUIET CONFIG PATHS ${WEFT_ONNX_ROOT} NO_DEFAULT_PATH)
if(NOT ONNX_FOUND)
  message(FATAL_ERROR "the private onnx library is not in '${WEFT_ONNX_ROOT}': run tools/setup, or tools/build_onnx alone")
endif()
get_target_property(weft_onnx_definitions ONNX::onnx INTERFACE_COMPILE_DEFINITIONS)
if(NOT "ONNX_NAMESPACE=weft_onnx" IN_LIST weft_onnx_definitions OR
   NOT "ONNX_USE_LITE_PROTO=1" IN_LIST weft_onnx_definitions OR ONNX_VERSION VERSION_LESS 1.23)
  message(FATAL_ERROR "the onnx build in ${WEFT_ONNX_ROOT} is not ours; rebuild it with tools/build_onnx")
endif()
message(STATUS "onnx ${ONNX_VERSION} at ${WEFT_ONNX_ROOT}")
add_library(weft_onnx_dep INTERFACE)
target_link_libraries(weft_onnx_dep INTERFACE ONNX::onnx)
