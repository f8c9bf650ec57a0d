/// quantised_conv.cc: weft::QuantizedConv on the CPU, over one to three spatial axes.
///
/// Inside, channels are innermost. A window is then a few runs of bytes that lie side by side, one
/// a line of the window, and the convolution a product of positions by filters (byte_rows.h) that
/// reads the image where it is. Images with padding, or whose channels lie otherwise
/// are copied once, bytes that they are. One filter a channel is a loop of its own.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/threads.h"
#include "byte_channels.h"
#include "byte_rows.h"
#include "weft/core/op/conv_shape.h"
#include "weft/core/op/op.h"
#include "weft/runtime/backend/packing_call.h"

namespace weft::cpu {
namespace {

constexpr int64_t kTeamBytes = 1 << 18;
/// Behind a copied image: what the last quad reads of nothing.
constexpr int64_t kSlack = 64;

/// Three spatial axes, leading ones of extent 1.
using Axes = ChannelWindow::Axes;
Axes AxesOf(const std::vector<int64_t>& list, int64_t otherwise) {
  Axes a{otherwise, otherwise, otherwise};
  std::copy(list.begin(), list.end(), a.end() - long(list.size()));
  return a;
}

/// An image with its padding, channels innermost.
struct Canvas {
  int64_t images = 0, channels = 0;
  Axes in{}, begin{}, size{};  ///< size: padding included
  int64_t line() const { return size[2] * channels; }
  int64_t plane() const { return size[1] * line(); }
  int64_t image() const { return size[0] * plane(); }
  bool is_padded() const { return in != size; }
};

/// Copies the image `x` to `to`. `zero` is what padding holds, `flip` what each byte is changed by.
void PaintCanvas(const Canvas& c, const uint8_t* x, Layout layout, uint8_t zero, bool flip,
                 uint8_t* to) {
  const int64_t positions = c.in[0] * c.in[1] * c.in[2], lines = c.images * c.size[0] * c.size[1];
#pragma omp parallel for schedule(static) if (lines * c.line() > kTeamBytes)
  for (int64_t i = 0; i < lines; ++i) {
    const int64_t image = i / (c.size[0] * c.size[1]), d = i / c.size[1] % c.size[0] - c.begin[0],
                  h = i % c.size[1] - c.begin[1];
    uint8_t* line = to + i * c.line();
    if (d < 0 || d >= c.in[0] || h < 0 || h >= c.in[1]) {
      std::memset(line, zero, size_t(c.line()));
      continue;
    }
    const int64_t before = c.begin[2] * c.channels, inside = c.in[2] * c.channels;
    std::memset(line, zero, size_t(before));
    std::memset(line + before + inside, zero, size_t(c.line() - before - inside));
    line += before;
    const int64_t first = (d * c.in[1] + h) * c.in[2];
    if (layout == Layout::kChannelsLast) {
      const uint8_t* from = x + (image * positions + first) * c.channels;
      if (flip)
        FlipBytes(from, line, inside);
      else
        std::memcpy(line, from, size_t(inside));
      continue;
    }
    const uint8_t change = flip ? 0x80 : 0;
    if (c.channels == 3) {  // pixels: four bytes at a time, of which the next one mends the last
      const uint8_t* from = x + image * 3 * positions + first;
      for (int64_t w = 0; w + 1 < c.in[2]; ++w) {
        const uint32_t four = uint32_t(from[w]) | uint32_t(from[positions + w]) << 8 |
                              uint32_t(from[2 * positions + w]) << 16;
        const uint32_t changed = four ^ (change * 0x10101u);
        std::memcpy(line + w * 3, &changed, 4);
      }
      const int64_t w = c.in[2] - 1;
      for (int64_t k = 0; k < 3; ++k) line[w * 3 + k] = from[k * positions + w] ^ change;
      continue;
    }
    for (int64_t k = 0; k < c.channels; ++k) {
      const uint8_t* from = x + (image * c.channels + k) * positions + first;
      for (int64_t w = 0; w < c.in[2]; ++w) line[w * c.channels + k] = from[w] ^ change;
    }
  }
}

/// [images, positions, channels] to [images, channels, positions].
template <class T>
void ChannelsFirst(const void* from, void* to, int64_t images, int64_t positions,
                   int64_t channels) {
  const auto* x = static_cast<const T*>(from);
  auto* y = static_cast<T*>(to);
  constexpr int64_t kBlock = 32;
  const int64_t blocks = (channels + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (images * positions * channels > kTeamBytes)
  for (int64_t i = 0; i < images * blocks; ++i) {
    const int64_t image = i / blocks, first = i % blocks * kBlock,
                  last = std::min(channels, first + kBlock);
    for (int64_t p = 0; p < positions; p += kBlock)
      for (int64_t c = first; c < last; ++c)
        for (int64_t k = p; k < std::min(positions, p + kBlock); ++k)
          y[(image * channels + c) * positions + k] = x[(image * positions + k) * channels + c];
  }
}

class QuantisedConv final : public PackingCall {
 public:
  QuantisedConv(const ComputeRequest& q, const ConvShape& c, QuantisedFinish finish)
      : c_(c),
        finish_(finish),
        threads_(q.threads),
        x_layout_(LayoutOf(q.input_layouts, kQX)),
        alone_(c.channels == c.groups && c.filters == c.groups && c.groups > 1) {
    const auto& w = c.window;
    out_ = AxesOf(w.out, 1);
    stride_ = AxesOf(w.strides, 1);
    kernel_ = AxesOf(w.kernel, 1);
    dilation_ = AxesOf(w.dilations, 1);
    canvas_ = {c.images, c.channels, AxesOf(w.in, 1), AxesOf(w.begin, 0), {}};
    for (size_t k = 0; k < 3; ++k)
      canvas_.size[k] = std::max(canvas_.begin[k] + canvas_.in[k],
                                 (out_[k] - 1) * stride_[k] + (kernel_[k] - 1) * dilation_[k] + 1);
    const int64_t positions_in = canvas_.in[0] * canvas_.in[1] * canvas_.in[2];
    if (canvas_.channels == 1 || positions_in == 1) x_layout_ = Layout::kChannelsLast;
    positions_ = out_[0] * out_[1] * out_[2];
    const int64_t each = c.channels / c.groups;
    merged_ = c.groups == 1 && dilation_[2] == 1;
    const int64_t run = merged_ ? kernel_[2] * c.channels : each;
    const bool turned = x_layout_ != Layout::kChannelsLast;
    if (alone_) {  // taps are found one by one
      window_ = {nullptr, c.images, c.channels, canvas_.in,   out_,
                 kernel_, stride_,  dilation_,  canvas_.begin};
      canvas_.begin = {};
      canvas_.size = canvas_.in;
      stage_ = turned;
    } else {
      stage_ = canvas_.is_padded() || turned || run % kQuad != 0;
    }
    MakeRuns();
    m_.columns = c.filters / c.groups;
    const int64_t taps = kernel_[0] * kernel_[1] * kernel_[2];
    m_.column_step = each * taps;
    if (merged_) {
      // [M, C, kd, kh, kw]: terms of a run are kw by C.
      m_.num_runs = kernel_[0] * kernel_[1];
      m_.run_length = run;
      m_.run_step = kernel_[2];
      m_.inner = c.channels;
      m_.inner_step = taps;
      m_.outer_step = 1;
    } else {
      m_.num_runs = taps;
      m_.run_length = m_.inner = each;
      m_.run_step = 1;
      m_.inner_step = taps;
    }
    const bool constant = q.constants[kQW] != nullptr;
    if (alone_) {
      finish_at_ = parts_.Add(ByteChannels::bytes_of_run(c.filters));
      const TensorPtr zeros = HasInput(q, kQWZero) ? q.constants[kQWZero] : nullptr;
      if (constant && (zeros || !HasInput(q, kQWZero))) {
        const void* given[kQOffset + 1]{};
        given[kQW] = q.constants[kQW]->data();
        if (zeros) given[kQWZero] = zeros->data();
        channels_ = std::make_unique<ByteChannels>(finish_, taps, given);
      }
    } else {
      if (constant)
        packed_ = PackedBytesOf(q.constants[kQW], m_, c.groups, m_.columns * m_.column_step);
      finish_at_ = parts_.Add(QuantisedFinish::bytes(c.groups, m_.columns));
      if (!packed_) packed_at_ = parts_.Add(PackedSize(m_, c.groups));
      if (finish_.has_w_zero)
        sums_at_ = parts_.Add(CheckedMul(CheckedMul(c.images, positions_), int64_t{4}));
    }
    if (stage_) canvas_at_ = parts_.Add(CheckedAdd(CheckedMul(c.images, canvas_.image()), kSlack));
    turn_ =
        LayoutOf(q.output_layouts, 0) != Layout::kChannelsLast && positions_ > 1 && c.filters > 1;
    if (turn_) result_at_ = parts_.Add(CheckedProduct(q.output_dims[0]) * finish_.result_bytes());
  }

  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override {
    const ScopedThreads team(threads_);
    auto* const memory = static_cast<uint8_t*>(scratch);
    const auto* x = static_cast<const uint8_t*>(inputs[kQX]);
    if (stage_) {
      PaintCanvas(canvas_, x, x_layout_, uint8_t(finish_.x_zero(inputs)),
                  finish_.x_signed && !alone_, memory + canvas_at_);
      x = memory + canvas_at_;
    }
    uint8_t* const y = turn_ ? memory + result_at_ : static_cast<uint8_t*>(outputs[0]);
    if (alone_)
      Alone(inputs, x, y, memory);
    else
      Together(inputs, x, y, memory);
    if (!turn_) return;
    if (finish_.result_bytes() == 1)
      ChannelsFirst<uint8_t>(y, outputs[0], c_.images, positions_, c_.filters);
    else
      ChannelsFirst<uint32_t>(y, outputs[0], c_.images, positions_, c_.filters);
  }
  int64_t scratch_bytes() const override { return parts_.bytes(); }
  std::string description() const override {
    return std::string(alone_ ? "quantised depthwise conv " : "quantised conv ") +
           BestByteKernel().name;
  }
  bool reads(size_t i) const override { return i != kQW || !(packed_ || channels_); }
  void AddPacked(std::map<const void*, int64_t>* bytes) const override {
    if (packed_) (*bytes)[packed_->memory.get()] = packed_->bytes;
    if (channels_) (*bytes)[channels_.get()] = channels_->bytes();
  }

 private:
  /// Where the pieces of a window lie behind its first element.
  void MakeRuns() {
    for (int64_t d = 0; d < kernel_[0]; ++d)
      for (int64_t h = 0; h < kernel_[1]; ++h) {
        const int64_t line = d * dilation_[0] * canvas_.plane() + h * dilation_[1] * canvas_.line();
        if (merged_)
          runs_.push_back(line);
        else
          for (int64_t w = 0; w < kernel_[2]; ++w)
            runs_.push_back(line + w * dilation_[2] * canvas_.channels);
      }
  }
  ByteSource Source(const uint8_t* x) const {
    ByteSource s;
    s.base = x;
    s.rows = c_.images * positions_;
    s.planes = out_[0];
    s.lines = out_[1];
    s.columns = out_[2];
    s.image_step = canvas_.image();
    s.plane_step = stride_[0] * canvas_.plane();
    s.line_step = stride_[1] * canvas_.line();
    s.column_step = stride_[2] * canvas_.channels;
    // Lines, planes and images that go on where the last one ends are one line.
    if (s.line_step == s.columns * s.column_step && s.plane_step == s.lines * s.line_step &&
        s.image_step == s.planes * s.plane_step) {
      s.columns = s.rows;
      s.lines = s.planes = 1;
    }
    return s;
  }

  void Together(const void* const* inputs, const uint8_t* x, uint8_t* y, uint8_t* memory) const {
    const int64_t wide = m_.padded_columns();
    const int8_t* panels = packed_ ? packed_->panels : nullptr;
    const int32_t* sums = packed_ ? packed_->sums : nullptr;
    if (!packed_) {
      auto* const to = reinterpret_cast<int8_t*>(memory + packed_at_);
      auto* const to_sums = reinterpret_cast<int32_t*>(to + c_.groups * m_.panel_bytes());
      for (int64_t g = 0; g < c_.groups; ++g)
        PackBytes(m_, static_cast<const uint8_t*>(inputs[kQW]) + g * m_.columns * m_.column_step,
                  finish_.w_signed, to + g * m_.panel_bytes(), to_sums + g * wide);
      panels = to;
      sums = to_sums;
    }
    const int64_t terms = m_.num_runs * m_.run_length, each = c_.channels / c_.groups;
    const ByteFinish finish = finish_.Make(inputs, c_.groups, sums, terms, memory + finish_at_);
    for (int64_t g = 0; g < c_.groups; ++g) {
      ByteProduct p;
      p.x = Source(x + g * each);
      p.w = m_;
      p.runs = runs_.data();
      p.flips = finish_.x_signed && !stage_;
      p.panels = panels + g * m_.panel_bytes();
      p.finish = QuantisedFinish::At(finish, g * wide);
      if (finish.zeros) {
        auto* const rows = reinterpret_cast<int32_t*>(memory + sums_at_);
        SumByteRows(p, threads_, rows);
        p.row_sums = rows;
      }
      p.y = y + g * m_.columns * finish_.result_bytes();
      p.y_step = c_.filters * finish_.result_bytes();
      MultiplyBytes(p, threads_);
    }
  }

  /// One filter a channel.
  void Alone(const void* const* inputs, const uint8_t* x, uint8_t* y, uint8_t* memory) const {
    const ByteChannels* channels = channels_.get();
    std::optional<ByteChannels> now;
    if (!channels) {
      now.emplace(finish_, window_.taps(), inputs);
      channels = &*now;
    }
    ChannelWindow window = window_;
    window.x = x;
    channels->Run(inputs, window, y, memory + finish_at_, threads_);
  }

  ConvShape c_;
  QuantisedFinish finish_;
  int threads_;
  Layout x_layout_;
  bool alone_, merged_ = false, stage_ = false, turn_ = false;
  Axes out_{}, stride_{}, kernel_{}, dilation_{};
  Canvas canvas_;
  ChannelWindow window_;  ///< of channels with a filter each
  int64_t positions_ = 0;
  std::vector<int64_t> runs_;
  ByteMatrix m_;
  std::shared_ptr<const PackedBytes> packed_;  ///< null: packed in each run
  std::unique_ptr<const ByteChannels> channels_;
  ScratchParts parts_;
  int64_t finish_at_ = 0, canvas_at_ = 0, packed_at_ = 0, sums_at_ = 0, result_at_ = 0;
};

std::unique_ptr<LibraryCall> PrepareConv(const ComputeRequest& q) {
  if (q.input_dims.size() < 2 || CheckedProduct(q.output_dims[0]) == 0 ||
      CheckedProduct(q.input_dims[kQX]) == 0 || CheckedProduct(q.input_dims[kQW]) == 0)
    return nullptr;
  const auto c = ReadConv(q.node, q.input_dims[kQX], q.input_dims[kQW], q.output_dims[0]);
  if (!c) return nullptr;
  const auto finish = ReadFinish(q, c->filters);
  if (!finish) return nullptr;
  const ScopedThreads team(q.threads);
  return std::make_unique<QuantisedConv>(q, *c, *finish);
}

LayoutWish QuantisedConvLayout(const NodePtr&, DType) {
  return {{Layout::kChannelsLast}, {Layout::kChannelsLast}};
}

WEFT_REGISTER_OP_IN(weft, QuantizedConv)
    .set_attr<FCompute>("FCompute.cpu", PrepareConv)
    .set_attr<FLayout>("FLayout.cpu", QuantisedConvLayout);

}  // namespace
}  // namespace weft::cpu
