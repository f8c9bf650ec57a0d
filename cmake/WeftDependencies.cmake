# WeftDependencies.cmake: every third party's library, found once and named once.
#
# Each optional part ends in WEFT_HAVE_<PART>, which is all that the rest of the build asks.

find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_library(DMLC_LIBRARY dmlc REQUIRED)
find_path(DMLC_INCLUDE_DIR dmlc/registry.h REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(WEFT_TEXTS_DEP REQUIRED IMPORTED_TARGET libpcre2-8>=10.40 libutf8proc)  # from 10.40: properties by name

# weft_base: what every room is compiled with. Public headers reach no further than this.
add_library(weft_base INTERFACE)
target_include_directories(weft_base INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(weft_base INTERFACE WEFT_MODULE_NAME="weft")
target_link_libraries(weft_base INTERFACE weft_warnings fmt::fmt ${DMLC_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS})

# weft_user: what our own programs on top of libweft.so may use besides it.
add_library(weft_user INTERFACE)
target_link_libraries(weft_user INTERFACE weft_warnings fmt::fmt Threads::Threads)

if(WEFT_TESTS)
  find_package(doctest REQUIRED)
endif()
if(WEFT_BENCH)
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    message(WARNING "bench: Google Benchmark not found, the bench programs are left out")
  endif()
endif()
if(WEFT_TOOL)
  find_package(CLI11 REQUIRED)
  find_package(nlohmann_json 3.11 REQUIRED)
endif()

# Decides WEFT_HAVE_<part> from WEFT_<part> and whether it was found.
function(_weft_decide part found hint)
  if(WEFT_${part} STREQUAL "OFF")
    set(have OFF)
  elseif(found)
    set(have ON)
  elseif(WEFT_${part} STREQUAL "ON")
    message(FATAL_ERROR "WEFT_${part}=ON, but ${hint}")
  else()
    message(WARNING "${part} left out: ${hint}")
    set(have OFF)
  endif()
  set(WEFT_HAVE_${part} ${have} PARENT_SCOPE)
endfunction()

# onnx: our private build of its source release, made by tools/build_onnx.
include(WeftOnnx)

# The decoders of ImageDecoder, the system's shared libraries, in a library of ours that is opened when one is needed.
set(found OFF)
if(NOT WEFT_IMAGES STREQUAL "OFF")
  pkg_check_modules(WEFT_IMAGES_DEP QUIET IMPORTED_TARGET libjpeg libpng libtiff-4>=4.5 libwebp libopenjp2)
  set(found ${WEFT_IMAGES_DEP_FOUND})
endif()
_weft_decide(IMAGES "${found}" "no libjpeg-turbo, libpng, libtiff 4.5, libwebp and OpenJPEG development files were found")

# LLVM: static, so that no second LLVM in the process meets ours. 19 is what we test; 18 has
# the same interfaces, older ones lack some and 20 took some away.
set(found OFF)
if(NOT WEFT_LLVM STREQUAL "OFF")
  enable_language(C)  # LLVMConfig.cmake probes its own dependencies with C.
  foreach(version IN ITEMS 19 18)
    # By folder, not by version: LLVM's version file accepts an equal minor only.
    find_package(LLVM QUIET CONFIG PATHS /usr/lib/llvm-${version} NO_DEFAULT_PATH)
    if(LLVM_FOUND)
      break()
    endif()
  endforeach()
  if(NOT LLVM_FOUND)
    find_package(LLVM QUIET CONFIG)
  endif()
  if(LLVM_FOUND AND LLVM_VERSION_MAJOR GREATER_EQUAL 18 AND LLVM_VERSION_MAJOR LESS_EQUAL 19
     AND (NOT LLVM_ENABLE_ZSTD OR TARGET zstd::libzstd_shared))
    set(found ON)
  endif()
endif()
_weft_decide(LLVM "${found}" "no LLVM 18 or 19 development files (llvm-19-dev, libzstd-dev) were found")
if(WEFT_HAVE_LLVM)
  message(STATUS "LLVM ${LLVM_PACKAGE_VERSION} at ${LLVM_DIR}")
  add_library(weft_llvm_dep INTERFACE)
  separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  target_compile_definitions(weft_llvm_dep INTERFACE ${LLVM_DEFINITIONS_LIST})
  target_include_directories(weft_llvm_dep SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
  llvm_map_components_to_libnames(weft_llvm_libs core orcjit native passes)
  target_link_libraries(weft_llvm_dep INTERFACE ${weft_llvm_libs})
endif()

# oneDNN and the OpenMP team it shares with our kernels.
find_package(OpenMP QUIET COMPONENTS CXX)
if(NOT OpenMP_CXX_FOUND)
  message(WARNING "OpenMP not found: the cpu backend runs on one thread")
endif()
set(found OFF)
if(NOT WEFT_ONEDNN STREQUAL "OFF")
  # Not by its package file: Debian's asks for OpenCL, which we do not use.
  find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
  find_library(DNNL_LIBRARY dnnl)
  if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
    set(found ON)
    add_library(weft_onednn_dep INTERFACE)
    target_include_directories(weft_onednn_dep SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
    target_link_libraries(weft_onednn_dep INTERFACE ${DNNL_LIBRARY})
    target_compile_definitions(weft_onednn_dep INTERFACE WEFT_HAVE_ONEDNN=1)
  endif()
endif()
_weft_decide(ONEDNN "${found}" "oneDNN was not found (libdnnl-dev)")

# CUDA needs nothing at build time: libcuda and NVRTC are opened at run time, and the entry points we
# call are declared by us. So AUTO is ON.
_weft_decide(CUDA ON "")

# Python, with what tools/setup puts beside it (tools/pip/python.txt), or what the interpreter of Python_EXECUTABLE has. The
# extension could not be imported without the sanitizers' own library in front of everything.
set(found OFF)
if(NOT WEFT_PYTHON STREQUAL "OFF" AND PROJECT_IS_TOP_LEVEL AND (WEFT_PYTHON STREQUAL "ON" OR NOT WEFT_SANITIZE))
  if(NOT Python_EXECUTABLE AND EXISTS ${weft_deps}/python/bin/python)
    set(Python_EXECUTABLE ${weft_deps}/python/bin/python)
  endif()
  find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module)
  if(Python_FOUND)
    execute_process(COMMAND ${Python_EXECUTABLE} -c "import nanobind, numpy" RESULT_VARIABLE lacks OUTPUT_QUIET ERROR_QUIET)
    if(lacks EQUAL 0)
      set(found ON)
    endif()
  endif()
endif()
if(WEFT_SANITIZE AND WEFT_PYTHON STREQUAL "AUTO" OR NOT PROJECT_IS_TOP_LEVEL)
  set(WEFT_HAVE_PYTHON OFF)
else()
  _weft_decide(PYTHON "${found}" "no Python 3.11 with its headers, nanobind and numpy was found (tools/setup brings them)")
endif()
