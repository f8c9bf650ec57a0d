/// dataset.cc: reads IDX files: a magic number that tells type and rank, big-endian extents,
/// bytes. zlib reads plain files as well. Memory is taken as content arrives, never because
/// a header says so; pixels, most of a set, lie in a file that the system may drop from memory.
#include "tinyflow/dataset.h"

#include <zlib.h>

#include <algorithm>

#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/mapped_file.h"

namespace tf::data {
namespace {

constexpr uint8_t kUnsignedBytes = 8;      // third byte of the magic number
constexpr int64_t kMostBytes = 1LL << 30;  // of one file; far above any set of small pictures
constexpr int64_t kFirstBytes = 1 << 16;   // taken before any content has come
constexpr const char* kPackage = "dataset-fashion-mnist";

struct Idx {
  std::vector<int64_t> extents;
  std::shared_ptr<const uint8_t> bytes;
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
      const int64_t n = Some(to, std::min<int64_t>(size, 1 << 24));
      WEFT_CHECK(n > 0, kInvalidModel, "'{}' ends too early", path_);
      to += n;
      size -= n;
    }
  }
  /// `size` bytes in memory, taken in pieces of at most what came before.
  std::shared_ptr<const uint8_t> Content(int64_t size) {
    auto bytes = std::make_shared<std::vector<uint8_t>>();
    while (int64_t(bytes->size()) < size) {
      const auto at = int64_t(bytes->size());
      const int64_t more = std::min(size - at, std::max(at, kFirstBytes));
      bytes->resize(size_t(at + more));
      Read(bytes->data() + at, more);
    }
    return {bytes, bytes->data()};
  }
  /// `size` bytes in a file of ours. Throws kIo where there can be none.
  std::shared_ptr<const uint8_t> MappedContent(int64_t size) {
    weft::UnnamedFile file;
    std::vector<uint8_t> piece(size_t(std::min(size, kFirstBytes)));
    while (file.size() < size) {
      const int64_t n = std::min<int64_t>(size - file.size(), int64_t(piece.size()));
      Read(piece.data(), n);
      file.Write({reinterpret_cast<const char*>(piece.data()), size_t(n)});
    }
    const std::shared_ptr<void> map = file.Map();
    return {map, static_cast<const uint8_t*>(map.get())};
  }
  uint32_t Word() {
    uint8_t b[4];
    Read(b, 4);
    return uint32_t(b[0]) << 24 | uint32_t(b[1]) << 16 | uint32_t(b[2]) << 8 | b[3];
  }
  /// Reads on, so that the checksum at the end of a compressed file is looked at.
  void End() {
    uint8_t b;
    WEFT_CHECK(Some(&b, 1) == 0, kInvalidModel, "'{}' holds more than it says", path_);
  }

 private:
  /// How many of `size` bytes there were. An archive that is cut off reads like its end, but for
  /// zlib's note of it.
  int64_t Some(uint8_t* to, int64_t size) {
    const int n = gzread(file_, to, unsigned(size));
    int code = Z_OK;
    const char* why = gzerror(file_, &code);  // begins with the path
    WEFT_CHECK(n >= 0 && code == Z_OK, kInvalidModel, "damaged: {}", why);
    return n;
  }
  std::string path_;
  gzFile file_;
};

Idx ReadFile(const std::string& path, uint32_t rank, bool mapped) {
  Reader reader(path);
  const uint32_t magic = reader.Word();
  WEFT_CHECK(magic == (uint32_t(kUnsignedBytes) << 8 | rank), kInvalidModel,
             "'{}' is not an IDX file of bytes of rank {}", path, rank);
  Idx idx;
  int64_t size = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    const int64_t extent = reader.Word();
    WEFT_CHECK(extent > 0, kInvalidModel, "'{}' says that its dimension {} is 0", path, i);
    WEFT_CHECK(extent <= kMostBytes / size, kLimit,
               "'{}' says that it holds more than {} bytes, which is more than is read", path,
               kMostBytes);
    idx.extents.push_back(extent);
    size *= extent;
  }
  idx.bytes = mapped ? reader.MappedContent(size) : reader.Content(size);
  reader.End();
  return idx;
}

Idx ReadPixels(const std::string& path) {
  constexpr uint32_t kRank = 3;
  try {
    return ReadFile(path, kRank, true);
  } catch (const weft::Error& e) {
    if (e.code() != weft::ErrorCode::kIo) throw;
    return ReadFile(path, kRank, false);
  }
}

}  // namespace

void Pictures::Truncate(int64_t n) {
  if (n <= 0 || n >= count) return;
  count = n;
  labels.resize(size_t(n));
}

Pictures ReadIdx(const std::string& images, const std::string& labels) {
  const Idx x = ReadPixels(images), y = ReadFile(labels, 1, false);
  WEFT_CHECK(x.extents[0] == y.extents[0], kInvalidModel, "'{}' holds {} images, '{}' {} labels",
             images, x.extents[0], labels, y.extents[0]);
  return {x.extents[0], x.extents[1], x.extents[2], x.bytes,
          std::vector<uint8_t>(y.bytes.get(), y.bytes.get() + y.extents[0])};
}

DataSet ReadFashionMnist(const std::string& folder) {
  const auto part = [&](const std::string& name) {
    const std::string images = weft::JoinPath(folder, name + "-images-idx3-ubyte.gz");
    const std::string labels = weft::JoinPath(folder, name + "-labels-idx1-ubyte.gz");
    for (const std::string& file : {images, labels})
      if (!weft::FileExists(file))
        weft::ThrowError(
            weft::ErrorCode::kIo, "the data set is not there: no file '" + file + "'", "",
            fmt::format("install the Debian package {}, or name a folder with --data", kPackage));
    Pictures p = ReadIdx(images, labels);
    const uint8_t last = *std::max_element(p.labels.begin(), p.labels.end());
    WEFT_CHECK(last < DataSet().classes, kInvalidModel, "'{}' has an image of class {}", labels,
               last);
    return p;
  };
  try {
    DataSet set;
    set.train = part("train");
    set.test = part("t10k");
    return set;
  } catch (weft::Error& e) {
    if (e.hint().empty())
      e.SetHint(fmt::format("install the Debian package {} again, if this is its file", kPackage));
    throw;
  }
}

}  // namespace tf::data
