/// loader.cc: see loader.h. dmlc's ThreadedIter is the queue between the thread that makes batches
/// and the one that trains.
#include "tinyflow/loader.h"

#include <dmlc/threadediter.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "tinyflow/random.h"
#include "weft/support/check.h"

namespace tf::data {
namespace {

constexpr int64_t kMostAhead = 4, kBytesAhead = 4 << 20;  // of batches made before they are due
// What Mix is asked for, so that no two uses share numbers.
enum Purpose : uint64_t { kOrder = 1, kCrop = 2, kNoise = 4 };

/// One picture of one channel at `to`, moved by (dy, dx), mirrored or not, black outside.
void Place(const Pictures& p, const uint8_t* from, const std::array<float, 256>& value,
           int64_t size, int64_t dy, int64_t dx, bool mirrored, float* to) {
  std::fill_n(to, size * size, value[0]);
  const int64_t top = (size - p.height) / 2 + dy, left = (size - p.width) / 2 + dx;
  for (int64_t i = std::max<int64_t>(0, -top); i < std::min(p.height, size - top); ++i) {
    float* row = to + (top + i) * size;
    for (int64_t j = std::max<int64_t>(0, -left); j < std::min(p.width, size - left); ++j) {
      const int64_t at = mirrored ? size - 1 - (left + j) : left + j;
      row[at] = value[from[i * p.width + j]];
    }
  }
}

}  // namespace

std::vector<uint32_t> OrderOf(int64_t count, const Loader::Options& o) {
  std::vector<uint32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0u);
  if (!o.shuffle) return order;
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[Below(Mix(Mix(o.seed, kOrder), o.epoch, i), i)]);
  return order;
}

Batch MakeBatch(const Pictures& p, const Layout& layout, const Loader::Options& o,
                const std::vector<uint32_t>& order, int64_t index) {
  std::array<float, 256> value;
  for (int v = 0; v < 256; ++v)
    value[size_t(v)] = float((double(v) / 255 - layout.mean) / layout.std);
  const int64_t begin = index * o.batch, n = std::min(o.batch, p.count - begin);
  const int64_t plane = layout.size * layout.size, row = layout.channels * plane;
  Batch batch;
  batch.x = std::make_shared<weft::Tensor>(
      float32, layout.flat ? Ints{n, row} : Ints{n, layout.channels, layout.size, layout.size});
  batch.y = std::make_shared<weft::Tensor>(int64, Ints{n});
  float* x = batch.x->mutable_data_as<float>();
  int64_t* y = batch.y->mutable_data_as<int64_t>();
  for (int64_t k = 0; k < n; ++k, x += row) {
    const size_t picture = order[size_t(begin + k)];
    int64_t dy = 0, dx = 0;
    bool mirrored = false;
    if (o.augment) {
      const uint64_t r = Mix(Mix(o.seed, kCrop), o.epoch, picture),
                     range = uint64_t(2 * layout.crop + 1);
      dy = int64_t(Below(Mix(r, 0), range)) - layout.crop;
      dx = int64_t(Below(Mix(r, 1), range)) - layout.crop;
      mirrored = layout.flip && (Mix(r, 2) & 1);
    }
    Place(p, p.pixels.get() + picture * size_t(p.height * p.width), value, layout.size, dy, dx,
          mirrored, x);
    for (int64_t c = 1; c < layout.channels; ++c) std::copy_n(x, plane, x + c * plane);
    y[k] = p.labels[picture];
  }
  if (layout.noise > 0) {
    batch.y = batch.x;
    batch.x = std::make_shared<weft::Tensor>(float32, batch.y->dims());
    const float* clean = batch.y->data_as<float>();
    x = batch.x->mutable_data_as<float>();
    for (int64_t k = 0; k < n; ++k) {
      const uint64_t r = Mix(Mix(o.seed, kNoise), o.epoch, order[size_t(begin + k)]);
      for (int64_t i = 0; i < row; ++i)
        *x++ = *clean++ + float(layout.noise * Normal(r, uint64_t(i)));
    }
  }
  return batch;
}

struct Loader::Impl {
  std::shared_ptr<const Pictures> pictures;
  Layout layout;
  Options options;
  std::vector<uint32_t> order;
  int64_t next = 0;
  Batch first;  // made by who asks for it: the thread begins when a step has run
  bool began = false, started = false;
  Batch* current = nullptr;
  dmlc::ThreadedIter<Batch> queue;  // last: its thread ends before what it reads

  explicit Impl(int64_t batch_bytes)
      : queue(size_t(std::clamp<int64_t>(kBytesAhead / batch_bytes, 1, kMostAhead))) {}
  ~Impl() {
    delete current;
    queue.Destroy();
  }
  bool Make(Batch* batch) {
    if (next >= Loader::Batches(pictures->count, options.batch)) return false;
    *batch = MakeBatch(*pictures, layout, options, order, next++);
    return true;
  }
  void Start() {
    started = true;
    queue.Init([this](Batch** batch) {
      if (!*batch) *batch = new Batch;
      return Make(*batch);
    });
  }
};

Loader::Loader(std::shared_ptr<const Pictures> pictures, const Layout& layout,
               const Options& options) {
  WEFT_CHECK(options.batch > 0, kUsage, "a batch of {} images", options.batch);
  WEFT_CHECK(pictures->height <= layout.size && pictures->width <= layout.size, kUsage,
             "images of {} x {} do not fit into {} x {}", pictures->height, pictures->width,
             layout.size, layout.size);
  const int64_t rows = std::min(options.batch, pictures->count);
  impl_ = std::make_unique<Impl>(std::max<int64_t>(
      1, rows * layout.channels * layout.size * layout.size * int64_t{sizeof(float)}));
  impl_->pictures = std::move(pictures);
  impl_->layout = layout;
  impl_->options = options;
  impl_->order = OrderOf(impl_->pictures->count, options);
  impl_->next = options.first_batch;
}
Loader::~Loader() = default;

const Batch* Loader::Next() {
  if (!std::exchange(impl_->began, true))
    return impl_->Make(&impl_->first) ? &impl_->first : nullptr;
  impl_->first = Batch();
  if (!impl_->started) impl_->Start();
  if (impl_->current) impl_->queue.Recycle(&impl_->current);
  if (!impl_->queue.Next(&impl_->current)) impl_->current = nullptr;
  return impl_->current;
}

}  // namespace tf::data
