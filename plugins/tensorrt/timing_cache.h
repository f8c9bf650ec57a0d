/// timing_cache.h: what TensorRT's builder has timed, kept in a file for later builds.
#pragma once

#include <NvInfer.h>

#include <memory>
#include <string>

namespace weft_tensorrt {

/// Gives the file's content to a build; what does not fit this TensorRT is left aside. Null where
/// `file` is empty.
std::unique_ptr<nvinfer1::ITimingCache> OpenTimingCache(const std::string& file,
                                                        nvinfer1::IBuilderConfig* config);
/// Adds what the build has timed to the file. Warns where it cannot be written.
void SaveTimingCache(const std::string& file, nvinfer1::IBuilderConfig* config);

}  // namespace weft_tensorrt
