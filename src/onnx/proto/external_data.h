/// external_data.h: bytes of tensors that live in files beside the model.
///
/// The location comes from an untrusted model. It is resolved by the kernel beneath the model's
/// folder without following any link (openat2, or a walk with O_NOFOLLOW on older kernels), and the
/// opened file itself is judged: a regular file with one name, offset and length inside it. Text
/// checks of paths failed in other importers each time they were tried. A link is resolved first;
/// what it leads to is opened in the same way, beneath the folder that holds the model itself: in
/// the cache of Hugging Face the model and its data are links into one folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

namespace weft::onnx_import {

class ExternalFiles {
 public:
  /// `directory` empty: external data is refused. `model`: path of the file that names the data.
  /// `follow_links`: links that leave its folder, and hard links, are taken as well.
  explicit ExternalFiles(std::string directory, std::string model = {}, bool follow_links = false);
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
  File* Open(const std::string& location);
  int OpenBehindLinks(const std::string& location);

  std::string directory_, model_;
  bool follow_links_;
  int directory_fd_ = -1;
  std::map<std::string, File*> by_location_;
  std::map<std::pair<uint64_t, uint64_t>, File> files_;  ///< by device and inode
  std::map<std::tuple<File*, int64_t, int64_t>, std::shared_ptr<std::string>> regions_;
};

}  // namespace weft::onnx_import
