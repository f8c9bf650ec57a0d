# WeftPlatform.cmake: compiler, flags and output places, the same for every target in the tree.

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()
# Not CMake's -O3: it buys nothing here, where kernels are generated, and costs compile time.
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the tree are hashed relative to it, so what one clone has compiled serves every other.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

# What every shared object of ours is linked with: no archive's symbols leave it, so a second LLVM,
# ONNX or protobuf in the process never meets ours, and an undefined symbol is a link error here.
set(WEFT_SHARED_LINK_OPTIONS
  -Wl,--exclude-libs,ALL -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
if(NOT WEFT_SANITIZE)
  list(APPEND WEFT_SHARED_LINK_OPTIONS -Wl,-z,defs)
endif()

add_library(weft_warnings INTERFACE)
target_compile_options(weft_warnings INTERFACE -Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlap in "literal" + std::string where there is none (GCC bug 105651).
  target_compile_options(weft_warnings INTERFACE -Wno-restrict)
endif()
if(WEFT_WERROR)
  target_compile_options(weft_warnings INTERFACE -Werror)
endif()

if(WEFT_SANITIZE)
  # GCC 12 takes std::regex for uninitialised under the sanitizers.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(weft_warnings INTERFACE -Wno-maybe-uninitialized)
  endif()
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
endif()

# Data that packages bring and tests and the demo read. tools/setup puts it into the dependency
# cache, whose place the scripts know; build/data points there.
execute_process(
  COMMAND ${PROJECT_SOURCE_DIR}/tools/build_onnx --prefix
  OUTPUT_VARIABLE weft_onnx_prefix OUTPUT_STRIP_TRAILING_WHITESPACE)
cmake_path(GET weft_onnx_prefix PARENT_PATH weft_deps)
set(WEFT_DATA_DIR ${weft_deps}/data CACHE PATH "Where tools/setup put models and test data")
if(EXISTS ${WEFT_DATA_DIR})
  file(CREATE_LINK ${WEFT_DATA_DIR} ${PROJECT_BINARY_DIR}/data SYMBOLIC)
endif()
