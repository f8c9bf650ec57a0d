/// external_data.h: bytes of tensors that live in files beside the model.
///
/// The location comes from an untrusted model. It is resolved by the kernel beneath the model's
/// folder without following any link (openat2, or a walk with O_NOFOLLOW on older kernels), and the
/// opened file itself is judged: a regular file with one name, offset and length inside it. Text
/// checks of paths failed in other importers each time they were tried.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

namespace weft::onnx_import {

class ExternalFiles {
 public:
  /// `directory` empty: external data is refused.
  explicit ExternalFiles(std::string directory);
  ~ExternalFiles();
  ExternalFiles(const ExternalFiles&) = delete;
  ExternalFiles& operator=(const ExternalFiles&) = delete;

  /// Throws kInvalidModel or kIo unless `bytes` bytes at `offset` of the file may be read. `length`
  /// is what the model says, -1 where it says nothing.
  void Check(const std::string& location, int64_t offset, int64_t length, int64_t bytes);
  /// Those bytes, each region once. Check must have passed.
  std::shared_ptr<std::string> Read(const std::string& location, int64_t offset, int64_t bytes);

 private:
  struct File {
    int fd = -1;
    int64_t size = 0;
    int64_t bytes_read = 0;
  };
  File& Open(const std::string& location);

  std::string directory_;
  int directory_fd_ = -1;
  std::map<std::string, File> files_;
  std::map<std::tuple<std::string, int64_t, int64_t>, std::shared_ptr<std::string>> regions_;
};

}  // namespace weft::onnx_import
