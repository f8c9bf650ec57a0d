/// dataset.cc: reads IDX files: a magic number that tells type and rank, big-endian extents, bytes. zlib reads plain files
/// as well.
#include "tinyflow/dataset.h"

#include <zlib.h>

#include <algorithm>
#include <memory>

#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/file.h"

namespace tf::data {
namespace {

constexpr uint8_t kUnsignedBytes = 8;      // third byte of the magic number
constexpr int64_t kMostBytes = 1LL << 32;  // far above any set of small pictures

struct Idx {
  std::vector<int64_t> extents;
  std::vector<uint8_t> bytes;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    WEFT_CHECK(file_, kIo, "cannot read '{}'", path_);
  }
  ~Reader() { gzclose(file_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void Read(uint8_t* to, int64_t size) {
    while (size > 0) {
      const int n = gzread(file_, to, unsigned(std::min<int64_t>(size, 1 << 24)));
      WEFT_CHECK(n > 0, kInvalidModel, "'{}' is damaged or ends too early", path_);
      to += n;
      size -= n;
    }
  }
  uint32_t Word() {
    uint8_t b[4];
    Read(b, 4);
    return uint32_t(b[0]) << 24 | uint32_t(b[1]) << 16 | uint32_t(b[2]) << 8 | b[3];
  }
  /// Reads on, so that the checksum at the end of a compressed file is looked at.
  void End() {
    uint8_t b;
    const int n = gzread(file_, &b, 1);
    WEFT_CHECK(n == 0, kInvalidModel, "'{}' is damaged or holds more than it says", path_);
  }

 private:
  std::string path_;
  gzFile file_;
};

Idx ReadFile(const std::string& path, uint32_t rank) {
  Reader reader(path);
  const uint32_t magic = reader.Word();
  WEFT_CHECK(magic == (uint32_t(kUnsignedBytes) << 8 | rank), kInvalidModel,
             "'{}' is no IDX file of bytes of rank {}", path, rank);
  Idx idx;
  int64_t size = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    idx.extents.push_back(reader.Word());
    size = weft::CheckedMul(size, idx.extents.back());
  }
  WEFT_CHECK(size <= kMostBytes, kLimit, "'{}' says that it holds {} bytes", path, size);
  idx.bytes.resize(size_t(size));
  reader.Read(idx.bytes.data(), size);
  reader.End();
  return idx;
}

}  // namespace

void Pictures::Truncate(int64_t n) {
  if (n <= 0 || n >= count) return;
  count = n;
  labels.resize(size_t(n));
  pixels.resize(size_t(n * height * width));
}

Pictures ReadIdx(const std::string& images, const std::string& labels) {
  Idx x = ReadFile(images, 3), y = ReadFile(labels, 1);
  WEFT_CHECK(x.extents[0] == y.extents[0], kInvalidModel, "'{}' holds {} pictures, '{}' {} labels",
             images, x.extents[0], labels, y.extents[0]);
  return {x.extents[0], x.extents[1], x.extents[2], std::move(x.bytes), std::move(y.bytes)};
}

DataSet ReadFashionMnist(const std::string& folder) {
  const auto part = [&](const std::string& name) {
    const std::string images = weft::JoinPath(folder, name + "-images-idx3-ubyte.gz");
    const std::string labels = weft::JoinPath(folder, name + "-labels-idx1-ubyte.gz");
    for (const std::string& file : {images, labels})
      if (!weft::FileExists(file))
        weft::ThrowError(weft::ErrorCode::kIo, "the data set is not there: no file '" + file + "'",
                         "",
                         "install the Debian package dataset-fashion-mnist, or name a folder "
                         "with --data");
    return ReadIdx(images, labels);
  };
  DataSet set{part("train"), part("t10k")};
  for (const Pictures* p : {&set.train, &set.test})
    for (const uint8_t label : p->labels)
      WEFT_CHECK(label < set.classes, kInvalidModel, "a label in '{}' is {}", folder, label);
  return set;
}

}  // namespace tf::data
