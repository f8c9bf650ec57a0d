/// tensor_files.cc: see tensor_files.h.
#include "tensor_files.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "common.h"
#include "weft/core/tensor/dtype_traits.h"
#include "weft/core/tensor/npy.h"
#include "weft/core/tensor/npz.h"
#include "weft/onnx/export.h"
#include "weft/onnx/import.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/text_proto.h"

namespace weft::tool {

std::string FileStem(const std::string& name) {
  std::string out = name;
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '/' || c == ':'; }, '_');
  return out;
}

/// A message, as bytes or as text.
static bool IsValueProto(const std::string& path) {
  return EndsWith(path, ".pb") || IsTextProto(path);
}

bool IsTensorFile(const std::string& path) {
  return path == "-" || EndsWith(path, ".npy") || IsValueProto(path);
}

TensorPtr ReadTensor(const std::string& path, const Limits& limits, Type type) {
  if (path == "-") return ParseNpy(ReadStdin("a tensor", limits), "<stdin>");
  WEFT_CHECK(FileExists(path), kIo, "there is no file '{}'", path);
  if (IsValueProto(path)) return ReadValueProto(path, type, limits);
  WEFT_CHECK(type.is_tensor(), kUsage,
             "a value of type {} is read from a .pb or .textproto file, not from '{}'",
             type.ToString(), path);
  if (EndsWith(path, ".npy")) return ReadNpy(path, limits.file_bytes);
  WEFT_THROW(kUsage, "'{}' is not a tensor file: expected .npy, .pb or .textproto", path);
}

NamedTensors ReadTensors(const std::string& path, const std::vector<std::string>& names,
                         const std::vector<Type>& types, const Limits& limits) {
  NamedTensors out;
  if (EndsWith(path, ".npz")) {
    for (auto& [entry, tensor] : ReadNpz(path, limits.file_bytes)) {
      const std::string name = entry;
      const auto it = std::find_if(names.begin(), names.end(), [&](const std::string& n) {
        return n == name || FileStem(n) == name;
      });
      if (it == names.end()) {
        const std::string near = DidYouMean(name, names);
        ThrowError(ErrorCode::kBadBinding, fmt::format("the model has no input '{}'", name), path,
                   near.empty() ? ListNames(names) : near);
      }
      out[*it] = tensor;
    }
    return out;
  }
  std::error_code ignored;
  WEFT_CHECK(std::filesystem::is_directory(path, ignored), kIo,
             "'{}' is not a folder, and not a .npz file", path);
  for (size_t k = 0; k < names.size(); ++k)
    for (const std::string& file :
         {FileStem(names[k]) + ".npy", FileStem(names[k]) + ".pb", fmt::format("input_{}.pb", k)}) {
      const std::string full = JoinPath(path, file);
      if (!FileExists(full)) continue;
      out[names[k]] = ReadTensor(full, limits, types[k]);
      break;
    }
  return out;
}

std::vector<std::string> TensorFiles(const std::string& dir, const std::vector<std::string>& names,
                                     const std::string& option) {
  std::vector<std::string> files;
  std::map<std::string, std::string> owner;
  for (const std::string& name : names) {
    const std::string stem = FileStem(name);
    if (stem.empty() || stem == "." || stem == ".." || stem.find('\0') != std::string::npos)
      ThrowError(ErrorCode::kUnsupported,
                 fmt::format("{} is not a name that a file can have", Quote(name)), option);
    const auto [it, fresh] = owner.emplace(stem, name);
    WEFT_CHECK(fresh || it->second == name, kUnsupported,
               "'{}' and '{}' would both be written to {}", it->second, name, stem);
    files.push_back(JoinPath(dir, stem));
  }
  return files;
}

std::vector<std::string> WriteTensors(const std::string& dir, const std::vector<std::string>& files,
                                      const std::vector<std::string>& names,
                                      const std::vector<TensorPtr>& tensors) {
  // every value is known to be writable before the first file is made
  std::vector<std::string> bytes, paths = files;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = *tensors[i];
    const bool npy = t.is_tensor() && !TraitsOf(t.dtype()).numpy.empty();
    paths[i] += npy ? ".npy" : ".pb";
    try {
      bytes.push_back(npy ? FormatNpy(t) : FormatValueProto(t, names[i]));
    } catch (Error& e) {
      e.AddPlace(paths[i]);
      throw;
    }
  }
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t other = first.emplace(paths[i], i).first->second;
    WEFT_CHECK(bytes[i] == bytes[other], kUnsupported,
               "tensors {} and {} would both be written to {}, and differ", other, i, paths[i]);
  }
  MakeDirectories(dir);
  for (const auto& [file, i] : first) WriteFileAtomic(file, bytes[i]);
  return paths;
}

std::string ReadStdin(const std::string& what, const Limits& limits) {
  static bool read = false;
  WEFT_CHECK(!read, kUsage, "stdin is read already: {} cannot come from it too", what);
  read = true;
  std::string out;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, stdin)) {
    out.append(buffer, n);
    Limits::Check("file_bytes", int64_t(out.size()), limits.file_bytes);
  }
  WEFT_CHECK(!std::ferror(stdin), kIo, "stdin cannot be read");
  return out;
}

}  // namespace weft::tool
