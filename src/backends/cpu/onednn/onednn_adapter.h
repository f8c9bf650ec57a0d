/// onednn_adapter.h: all that this backend knows of oneDNN's interface; compiles against 2.6 and 3.
///
/// A `Recipe` collects what one library call does: buffers (operands, packed constants, temporaries
/// in the call's scratch), reorders between the layouts of operands and those a primitive chose,
/// and the primitives. `Finish` makes the LibraryCall. Primitives keep their scratchpads in the
/// call's scratch too, so one call may run on many threads.
#pragma once

#ifdef WEFT_HAVE_ONEDNN

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/util/threads.h"
#include "keep_nan.h"
#include "weft/core/op/window.h"
#include "weft/runtime/backend/packing_call.h"

namespace weft::cpu {

using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;

const dnnl::engine& Engine();
/// Of this thread.
dnnl::stream& Stream();

/// f32, row-major.
Desc Plain(const Dims& dims);
/// f32, explicit strides.
Desc Strided(const Dims& dims, const Dims& strides);
/// f32, the primitive chooses.
inline Desc AnyLayout(const Dims& dims) {
  return Desc(dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
}
/// f32 [n, c, spatial...] with c innermost; empty where there is no such layout.
Desc ChannelsLast(const Dims& dims);
/// f32 [n, c, spatial...] in blocks of 16 channels; empty where channels do not fill blocks.
Desc InBlocks(const Dims& dims);
Dims DimsOf(const Desc& d);
/// Equal, or two names of one order: channels last and in one block of 16.
bool LieAlike(const Desc& a, const Desc& b);

/// oneDNN counts dilations from 0.
inline Dims Dilates(const WindowShape& w) {
  Dims d = w.dilations;
  for (int64_t& k : d) --k;
  return d;
}

/// Descriptor of a primitive P, with the scratchpad left to us. Empty (false in a condition) where
/// oneDNN has no implementation; a malformed request throws dnnl::error.
#if DNNL_VERSION_MAJOR >= 3
template <class P, class... A>
typename P::primitive_desc Describe(dnnl::primitive_attr attr, const A&... args) {
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return typename P::primitive_desc(Engine(), args..., attr, /*allow_empty=*/true);
}
template <class P, class Hint, class... A>
typename P::primitive_desc DescribeBackward(const Hint& hint, const A&... args) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return typename P::primitive_desc(Engine(), args..., hint, attr, true);
}
using PoolingForward = dnnl::pooling_forward;
#else
template <class P, class... A>
typename P::primitive_desc Describe(dnnl::primitive_attr attr, const A&... args) {
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return
      typename P::primitive_desc(typename P::desc(args...), attr, Engine(), /*allow_empty=*/true);
}
template <class P, class Hint, class... A>
typename P::primitive_desc DescribeBackward(const Hint& hint, const A&... args) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return typename P::primitive_desc(typename P::desc(args...), attr, Engine(), hint, true);
}
using PoolingForward = dnnl::pooling_v2_forward;
#endif

/// Is it a fallback, without code for these layouts?
template <class Pd>
bool IsSlow(const Pd& pd) {
  const std::string impl = pd.impl_info_str();
  return impl.find("ref") != std::string::npos || impl.find("gemm") != std::string::npos;
}
/// Of a primitive described with a wish and without: does the wish not
/// cost the fast implementation?
template <class Pd>
bool IsFast(const Pd& wished, const Pd& plain) {
  if (!wished || !plain) return bool(wished);
  return !IsSlow(wished) || std::string(wished.impl_info_str()) == plain.impl_info_str();
}

/// A constant in the layout of a primitive; shared by all calls that want it so.
struct Packed {
  TensorPtr source;
  std::shared_ptr<float> block;
  int64_t bytes = 0;
  dnnl::memory memory;  ///< of the block
};

/// Something a primitive reads or writes.
struct Buffer {
  enum Place : uint8_t { kNone, kInput, kOutput, kPacked, kTemporary } place = kNone;
  int index = 0;           ///< of the operand
  int64_t offset = 0;      ///< kTemporary: in scratch
  int64_t step_bytes = 0;  ///< operands: how far one repetition moves
  std::shared_ptr<const Packed> packed;
  Desc desc;
  explicit operator bool() const { return place != kNone; }
};

class Recipe {
 public:
  explicit Recipe(int threads) : threads_(threads) {}
  int threads() const { return threads_; }

  Buffer Input(int i, const Desc& desc, bool moves = false) const {
    return Operand(Buffer::kInput, i, desc, moves);
  }
  Buffer Output(int i, const Desc& desc, bool moves = false) const {
    return Operand(Buffer::kOutput, i, desc, moves);
  }
  Buffer Temporary(const Desc& desc);
  /// A tensor made while preparing (a scaled bias).
  Buffer Constant(TensorPtr tensor, const Desc& desc) const;

  /// `b` in layout `want`: itself, a packed constant (reordered now), or a temporary that a step
  /// fills. With `once` the step runs in the first repetition only.
  Buffer Reordered(const Buffer& b, const Desc& want, const TensorPtr& constant = nullptr,
                   bool once = false);
  /// A buffer in layout `made` whose content goes to `b` after what is added until `WriteBack`; `b`
  /// itself if equal.
  Buffer Staged(const Buffer& b, const Desc& made);
  void WriteBack(const Buffer& staged, const Buffer& b);
  /// From one layout to another; nothing where both are the same memory. With `once` in the first
  /// repetition only.
  void Copy(const Buffer& from, const Buffer& to, bool once = false);
  void Add(dnnl::primitive p, std::vector<std::pair<int, Buffer>> args, const Desc& scratchpad);
  /// Plain C++ on the addresses of `buffers`, with the call's team set.
  using HostStep = std::function<void(void* const* addresses)>;
  void AddHost(HostStep step, const std::vector<Buffer>& buffers);
  /// Something that a host step keeps, for the account of what is packed.
  void Keep(const void* packed, int64_t bytes) { kept_[packed] = bytes; }
  /// The step added last may drop NaN; `call` keeps it.
  void KeepNan(NanKeeper::Call call);
  /// Everything runs `n` times, operands that move go on by one step each time.
  void Repeat(int64_t n) { repeat_ = n; }

  std::unique_ptr<LibraryCall> Finish(std::string description);

 private:
  friend class OneDnnCall;
  struct Step {
    dnnl::primitive primitive;  ///< null where `host` is the step
    HostStep host;
    std::vector<std::pair<int, Buffer>> args;
    Buffer scratchpad;
    bool once = false;
    bool drops_nan = false;
  };
  static Buffer Operand(Buffer::Place place, int i, const Desc& desc, bool moves);

  int threads_;
  int64_t repeat_ = 1;
  int64_t temporary_bytes_ = 0, scratchpad_bytes_ = 0;
  std::vector<Step> steps_;
  std::map<const void*, int64_t> kept_;
  std::unique_ptr<NanKeeper> keeper_;  ///< null: no step drops NaN
};

/// What `make` gives; null where oneDNN refuses.
template <class F>
std::unique_ptr<LibraryCall> Attempt(F&& make) {
  try {
    return make();
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

/// Runs `make` with the team that the call will have; null where oneDNN refuses.
template <class F>
std::unique_ptr<LibraryCall> PrepareCall(const ComputeRequest& q, F&& make) {
  const ScopedThreads threads(q.threads);
  try {
    return make();
  } catch (const dnnl::error&) {
    return nullptr;  // The runtime falls back and says so.
  }
}

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
