# targets.cmake: the plugin, and what takes the place of TensorRT and of the driver in tests.
set(_tensorrt_dir ${CMAKE_CURRENT_LIST_DIR})
find_package(Threads REQUIRED)

# add_tensorrt(name FOLDERS..): the plugin as lib<name>.so, compiled against the headers in these folders.
function(add_tensorrt name)
  set(sources engine.cc extents.cc instance.cc library.cc operators.cc options.cc tensorrt.cc timing_cache.cc)
  list(TRANSFORM sources PREPEND ${_tensorrt_dir}/)
  weft_add_plugin(${name} C SOURCES ${sources})
  target_compile_features(${name} PRIVATE cxx_std_17)
  target_include_directories(${name} PRIVATE ${ARGN})
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
endfunction()

# add_fake_tensorrt(folder): targets fake_nvinfer and fake_cuda; both libraries of TensorRT, named and laid out as its own, in
# folder/fake, and an installation without the parser in folder/no_parser.
function(add_fake_tensorrt folder)
  add_library(fake_nvinfer SHARED ${_tensorrt_dir}/stand_in/fake_onnx.cc ${_tensorrt_dir}/stand_in/fake_tensorrt.cc)
  target_compile_features(fake_nvinfer PRIVATE cxx_std_17)
  target_link_libraries(fake_nvinfer PRIVATE Threads::Threads)
  set_target_properties(fake_nvinfer PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${folder}/fake/lib OUTPUT_NAME nvinfer SUFFIX .so.10 NO_SONAME ON)
  add_custom_command(TARGET fake_nvinfer POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink libnvinfer.so.10 ${folder}/fake/lib/libnvonnxparser.so.10
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}/no_parser
    COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:fake_nvinfer> ${folder}/no_parser/libnvinfer.so.10)
  add_library(fake_cuda SHARED ${_tensorrt_dir}/stand_in/fake_cuda.c)
endfunction()
