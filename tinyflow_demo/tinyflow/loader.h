/// loader.h: batches of a data set, made by a thread of their own while the one
/// before is trained on.
#pragma once

#include <cstdint>
#include <memory>

#include "tinyflow/dataset.h"
#include "tinyflow/graph.h"

namespace tf::data {

/// How a picture becomes an operand.
struct Layout {
  int64_t channels = 1;      ///< the grey channel is repeated
  int64_t size = 28;         ///< height and width; black around smaller pictures
  bool flat = false;         ///< [channels size size] instead of [channels, size, size]
  double mean = 0, std = 1;  ///< (pixel / 255 - mean) / std
  /// Training only: a crop at random of the picture with so much black around, and a mirror image
  /// half of the time.
  int64_t crop = 0;
  bool flip = false;
  /// Where above 0: what is to be told is the picture, and x the picture with normally distributed
  /// noise of this standard deviation, other noise in every epoch.
  double noise = 0;
};

struct Batch {
  std::shared_ptr<weft::Tensor> x, y;  ///< f32; i64, or as x
  int64_t size() const { return y->num_elements(); }
};

/// One pass over pictures. What a batch holds depends on seed, epoch and number alone.
class Loader {
 public:
  struct Options {
    int64_t batch = 64;
    bool shuffle = false, augment = false;
    uint64_t seed = 0, epoch = 0;
    int64_t first_batch = 0;  ///< to go on in the middle of an epoch
  };
  Loader(std::shared_ptr<const Pictures> pictures, const Layout& layout, const Options& options);
  ~Loader();
  /// The next batch, valid until the next call; null after the last, which may be smaller.
  const Batch* Next();
  static int64_t Batches(int64_t pictures, int64_t batch) {
    return pictures / batch + (pictures % batch != 0);
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Batch number `index` of a pass; what the loader's thread calls.
Batch MakeBatch(const Pictures& pictures, const Layout& layout, const Loader::Options& options,
                const std::vector<uint32_t>& order, int64_t index);
/// The order of `count` pictures in one epoch.
std::vector<uint32_t> OrderOf(int64_t count, const Loader::Options& options);

}  // namespace tf::data
