/// tensor_files.h: tensors in files, as the command reads and writes them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/core/tensor/tensor.h"
#include "weft/support/limits.h"

namespace weft::tool {

using NamedTensors = std::map<std::string, TensorPtr>;

/// "out/x:0" -> "out_x_0": the name of a tensor's file, without extension.
std::string FileStem(const std::string& name);
/// A value of `type` from a file, by its extension, .npy or .pb; "-": .npy on stdin.
TensorPtr ReadTensor(const std::string& path, const Limits& limits, Type type = {});
bool IsTensorFile(const std::string& path);
/// Of a .npz file those of `names`, and no other entries; of a folder NAME.npy or NAME.pb, else
/// input_K.pb with the place of the name in `names`, as ONNX's own test data have them. `types`: of
/// the names. What has no file is left out.
NamedTensors ReadTensors(const std::string& path, const std::vector<std::string>& names,
                         const std::vector<Type>& types, const Limits& limits);

/// Files DIR/NAME of values of these names, without their extensions. Throws kUnsupported where two
/// would share one; a value may be given out again under its name.
std::vector<std::string> TensorFiles(const std::string& dir, const std::vector<std::string>& names,
                                     const std::string& option);
/// All of them or none, as .npy, and as .pb what NumPy does not have; their paths.
std::vector<std::string> WriteTensors(const std::string& dir, const std::vector<std::string>& files,
                                      const std::vector<std::string>& names,
                                      const std::vector<TensorPtr>& tensors);

/// Everything on stdin, as `what`. Throws kUsage the second time: there is one stdin.
std::string ReadStdin(const std::string& what, const Limits& limits);

}  // namespace weft::tool
