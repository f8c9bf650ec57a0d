/// onednn_adapter.cc: recipes become calls.
#ifdef WEFT_HAVE_ONEDNN

#include "onednn_adapter.h"

#include <algorithm>
#include <map>

#include "backends/cpu/util/channel_blocks.h"
#include "backends/cpu/util/for_pieces.h"
#include "backends/cpu/util/packed_memory.h"
#include "backends/cpu/util/transpose.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "winograd_weights.h"

namespace weft::cpu {
namespace {

constexpr int64_t kAlign = 64;
constexpr size_t kMaxHostArgs = 5;

int64_t Size(const Desc& d) { return int64_t(d.get_size()); }

dnnl::primitive_attr OwnScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::reorder::primitive_desc DescribeReorder(const Desc& from, const Desc& to) {
  return dnnl::reorder::primitive_desc(Engine(), from, Engine(), to, OwnScratchpad());
}

/// The same memory by another name of its order.
Buffer Named(Buffer b, const Desc& desc) {
  b.desc = desc;
  return b;
}

void CopyFloats(const float* from, float* to, int64_t n) {
  constexpr int64_t kPiece = 16384;
  ForPieces(n, kPiece, [&](int64_t first, int64_t last) {
    std::copy_n(from + first, last - first, to + first);
  });
}

/// Packed weights by constant and layout. Bindings of one program for many batch sizes share them,
/// and so do programs of one mapped file; an entry goes with the last call that holds it. A
/// `Packed` keeps its source alive, so an address cannot come to mean another tensor.
class PackedTable {
 public:
  std::shared_ptr<const Packed> Get(const TensorPtr& source, const Desc& from, const Desc& to) {
    std::lock_guard lock(mutex_);
    auto& list = table_[NameOfConstant(*source)];
    list.erase(
        std::remove_if(list.begin(), list.end(), [](const Entry& e) { return e.packed.expired(); }),
        list.end());
    for (const Entry& e : list)
      if (e.from == from && e.to == to)
        if (auto p = e.packed.lock()) return p;
    auto packed = std::make_shared<Packed>();
    packed->source = source;
    const auto floats = int64_t((to.get_size() + sizeof(float) - 1) / sizeof(float));
    packed->bytes = floats * int64_t{sizeof(float)};
    packed->block = PackedMemory(floats);
    float* const made = packed->block.get();
    packed->memory = dnnl::memory(to, Engine(), made);
    if (from != Plain(DimsOf(from)) || !PackWinograd(source->data_as<float>(), to, made)) {
      dnnl::memory plain(from, Engine(), const_cast<void*>(source->data()));
      const auto pd = dnnl::reorder::primitive_desc(Engine(), from, Engine(), to);
      dnnl::reorder(pd).execute(Stream(), plain, packed->memory);
      Stream().wait();
    }
    DropSubnormals(made, int64_t(to.get_size() / sizeof(float)));
    list.push_back({from, to, packed});
    Sweep();
    return packed;
  }

 private:
  struct Entry {
    Desc from, to;
    std::weak_ptr<const Packed> packed;
  };
  void Sweep() {
    for (auto it = table_.begin(); it != table_.end();) {
      const auto& list = it->second;
      const bool dead =
          std::all_of(list.begin(), list.end(), [](const Entry& e) { return e.packed.expired(); });
      it = dead ? table_.erase(it) : std::next(it);
    }
  }
  std::mutex mutex_;
  std::map<std::string, std::vector<Entry>> table_;
};

PackedTable& Table() {
  static auto* table = new PackedTable;
  return *table;
}

}  // namespace

const dnnl::engine& Engine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::stream& Stream() {
  thread_local dnnl::stream stream(Engine());
  return stream;
}

Desc Plain(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t k = dims.size(); k-- > 1;) strides[k - 1] = strides[k] * dims[k];
  return Strided(dims, strides);
}

Desc Strided(const Dims& dims, const Dims& strides) {
  return Desc(dims, dnnl::memory::data_type::f32, strides);
}

Desc ChannelsLast(const Dims& dims) {
  using Tag = dnnl::memory::format_tag;
  const Tag tags[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
  if (dims.size() < 3 || dims.size() > 5) return Desc();
  return Desc(dims, dnnl::memory::data_type::f32, tags[dims.size() - 3]);
}

Dims DimsOf(const Desc& d) {
#if DNNL_VERSION_MAJOR >= 3
  return d.get_dims();
#else
  return d.dims();
#endif
}

Desc InBlocks(const Dims& dims) {
  using Tag = dnnl::memory::format_tag;
  const Tag tags[] = {Tag::nCw16c, Tag::nChw16c, Tag::nCdhw16c};
  if (dims.size() < 3 || dims.size() > 5 || dims[1] % kChannelBlock != 0) return Desc();
  return Desc(dims, dnnl::memory::data_type::f32, tags[dims.size() - 3]);
}

bool LieAlike(const Desc& a, const Desc& b) {
  if (a == b) return true;
  const Dims dims = DimsOf(a);
  if (dims != DimsOf(b) || dims.size() < 2 || dims[1] != kChannelBlock) return false;
  const Desc blocked = InBlocks(dims), last = ChannelsLast(dims);
  return (a == blocked && b == last) || (a == last && b == blocked);
}

namespace {
/// What copies faster than oneDNN; null: nothing of ours.
using Copier = std::function<void(const float*, float*)>;

/// As InBlocks, of 4, 8 or 16 channels.
Desc InBlocksOf(int64_t size, const Dims& dims) {
  using Tag = dnnl::memory::format_tag;
  constexpr Tag kTags[][3] = {{Tag::nCw4c, Tag::nChw4c, Tag::nCdhw4c},
                              {Tag::nCw8c, Tag::nChw8c, Tag::nCdhw8c},
                              {Tag::nCw16c, Tag::nChw16c, Tag::nCdhw16c}};
  if (dims.size() > 5 || dims[1] % size != 0) return Desc();
  return Desc(dims, dnnl::memory::data_type::f32, kTags[size / 8][dims.size() - 3]);
}
Copier CopierOf(const Desc& from, const Desc& to) {
  const Dims dims = DimsOf(from);
  if (LieAlike(from, to)) {
    const int64_t floats = Size(from) / int64_t{sizeof(float)};
    return [=](const float* x, float* y) { CopyFloats(x, y, floats); };
  }
  if (dims.size() < 3) return nullptr;
  const int64_t batch = dims[0], channels = dims[1],
                positions = CheckedProduct(Dims(dims.begin() + 2, dims.end()));
  const Desc plain = Plain(dims), last = ChannelsLast(dims), blocked = InBlocks(dims);
  const auto is = [&](const Desc& a, const Desc& b) { return from == a && to == b; };
  if (is(plain, last))
    return [=](const float* x, float* y) { TransposeMatrices(x, y, batch, channels, positions); };
  if (is(last, plain))
    return [=](const float* x, float* y) { TransposeMatrices(x, y, batch, positions, channels); };
  // In blocks, each one is the transposition of its planes.
  for (const int64_t size : {kChannelBlock, int64_t{8}, int64_t{4}}) {
    const Desc blocks = InBlocksOf(size, dims);
    if (is(plain, blocks) || is(blocks, plain)) {
      const int64_t count = batch * channels / size, rows = is(plain, blocks) ? size : positions,
                    columns = is(plain, blocks) ? positions : size;
      return [=](const float* x, float* y) { TransposeMatrices(x, y, count, rows, columns); };
    }
  }
  const bool back = is(blocked, last);
  if (!back && !is(last, blocked)) return nullptr;
  return
      [=](const float* x, float* y) { CopyChannelBlocks(x, y, batch, positions, channels, back); };
}
}  // namespace

/// The LibraryCall of a recipe.
class OneDnnCall final : public PackingCall {
 public:
  OneDnnCall(Recipe recipe, std::string description)
      : r_(std::move(recipe)), description_(std::move(description)) {}

  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override {
    const ScopedThreads threads(r_.threads_);
    NanKeeper::Run nans(r_.keeper_.get(), inputs, outputs);
    std::unique_ptr<Bound> bound = Take();
    try {
      for (int64_t n = 0; n < r_.repeat_; ++n)
        for (size_t s = 0; s < r_.steps_.size(); ++s) {
          const Recipe::Step& step = r_.steps_[s];
          if (step.once && n > 0) continue;
          const auto at = [&](const Buffer& b) { return Address(b, inputs, outputs, scratch, n); };
          if (step.host) {
            void* addresses[kMaxHostArgs];
            for (size_t i = 0; i < step.args.size(); ++i) addresses[i] = at(step.args[i].second);
            step.host(addresses);
            continue;
          }
          auto& args = (*bound)[s];
          for (const auto& [number, b] : step.args)
            if (b.place != Buffer::kPacked) args.at(number).set_data_handle(at(b));
          if (step.scratchpad) args.at(DNNL_ARG_SCRATCHPAD).set_data_handle(at(step.scratchpad));
          if (step.drops_nan) nans.Start();
          step.primitive.execute(Stream(), args);
          if (step.drops_nan) nans.Look();
        }
      Stream().wait();
    } catch (const dnnl::error& e) {
      if (e.status == dnnl_out_of_memory)
        WEFT_THROW(kOutOfMemory, "{}: oneDNN has no memory", description_);
      WEFT_THROW(kInternal, "{}: oneDNN: {}", description_, e.what());
    }
    {
      std::lock_guard lock(mutex_);
      idle_.push_back(std::move(bound));
    }
    nans.Finish();
  }

  int64_t scratch_bytes() const override { return r_.temporary_bytes_ + r_.scratchpad_bytes_; }
  std::string description() const override { return description_; }
  bool reads(size_t i) const override {
    for (const Recipe::Step& step : r_.steps_)
      for (const auto& [number, b] : step.args)
        if (b.place == Buffer::kInput && size_t(b.index) == i) return true;
    return false;
  }
  void AddPacked(std::map<const void*, int64_t>* bytes) const override {
    bytes->insert(r_.kept_.begin(), r_.kept_.end());
    for (const Recipe::Step& step : r_.steps_)
      for (const auto& [number, b] : step.args)
        if (b.packed) (*bytes)[b.packed->block.get()] = b.packed->bytes;
  }

 private:
  /// Memory objects of every step: oneDNN binds addresses through them. One set a concurrent run,
  /// used again.
  using Bound = std::vector<std::unordered_map<int, dnnl::memory>>;

  std::unique_ptr<Bound> Take() const {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto bound = std::move(idle_.back());
        idle_.pop_back();
        return bound;
      }
    }
    auto bound = std::make_unique<Bound>(r_.steps_.size());
    for (size_t s = 0; s < r_.steps_.size(); ++s) {
      const Recipe::Step& step = r_.steps_[s];
      if (step.host) continue;
      for (const auto& [number, b] : step.args)
        (*bound)[s].emplace(number, b.place == Buffer::kPacked
                                        ? b.packed->memory
                                        : dnnl::memory(b.desc, Engine(), DNNL_MEMORY_NONE));
      if (step.scratchpad)
        (*bound)[s].emplace(DNNL_ARG_SCRATCHPAD,
                            dnnl::memory(step.scratchpad.desc, Engine(), DNNL_MEMORY_NONE));
    }
    return bound;
  }
  static void* Address(const Buffer& b, const void* const* inputs, void* const* outputs,
                       void* scratch, int64_t n) {
    switch (b.place) {
      case Buffer::kInput:
        return const_cast<char*>(static_cast<const char*>(inputs[b.index])) + n * b.step_bytes;
      case Buffer::kOutput:
        return static_cast<char*>(outputs[b.index]) + n * b.step_bytes;
      case Buffer::kPacked:
        return b.packed->memory.get_data_handle();
      case Buffer::kTemporary:
        return static_cast<char*>(scratch) + b.offset;
      case Buffer::kNone:
        break;
    }
    return nullptr;
  }

  Recipe r_;
  std::string description_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Bound>> idle_;
};

Buffer Recipe::Operand(Buffer::Place place, int i, const Desc& desc, bool moves) {
  Buffer b;
  b.place = place;
  b.index = i;
  b.desc = desc;
  b.step_bytes = moves ? Size(desc) : 0;
  return b;
}

Buffer Recipe::Temporary(const Desc& desc) {
  Buffer b = Operand(Buffer::kTemporary, 0, desc, false);
  b.offset = temporary_bytes_;
  temporary_bytes_ = CheckedAdd(temporary_bytes_, CheckedRoundUp(Size(desc), kAlign));
  return b;
}

Buffer Recipe::Constant(TensorPtr tensor, const Desc& desc) const {
  Buffer b = Operand(Buffer::kPacked, 0, desc, false);
  b.packed = Table().Get(tensor, desc, desc);
  return b;
}

Buffer Recipe::Reordered(const Buffer& b, const Desc& want, const TensorPtr& constant, bool once) {
  if (LieAlike(b.desc, want)) return Named(b, want);
  if (constant) {
    Buffer p = Operand(Buffer::kPacked, 0, want, false);
    p.packed = Table().Get(constant, b.desc, want);
    return p;
  }
  const Buffer t = Temporary(want);
  Copy(b, t, once);
  return t;
}

Buffer Recipe::Staged(const Buffer& b, const Desc& made) {
  return LieAlike(b.desc, made) ? Named(b, made) : Temporary(made);
}

void Recipe::WriteBack(const Buffer& staged, const Buffer& b) {
  if (staged.place != b.place) Copy(staged, b);
}

void Recipe::Copy(const Buffer& from, const Buffer& to, bool once) {
  if (const Copier copy = CopierOf(from.desc, to.desc)) {
    AddHost(
        [copy](void* const* at) {
          if (at[0] != at[1]) copy(static_cast<const float*>(at[0]), static_cast<float*>(at[1]));
        },
        {from, to});
  } else {
    const auto pd = DescribeReorder(from.desc, to.desc);
    Add(dnnl::reorder(pd), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, pd.scratchpad_desc());
  }
  steps_.back().once = once;
}

void Recipe::AddHost(HostStep host, const std::vector<Buffer>& buffers) {
  WEFT_ICHECK(buffers.size() <= kMaxHostArgs);
  Step step;
  step.host = std::move(host);
  for (const Buffer& b : buffers) step.args.emplace_back(int(step.args.size()), b);
  steps_.push_back(std::move(step));
}

void Recipe::Add(dnnl::primitive p, std::vector<std::pair<int, Buffer>> args,
                 const Desc& scratchpad) {
  Step step;
  step.primitive = std::move(p);
  for (auto& a : args)
    if (a.second) step.args.push_back(std::move(a));
  const int64_t bytes = Size(scratchpad);
  if (bytes > 0) {
    step.scratchpad = Operand(Buffer::kTemporary, 0, scratchpad, false);
    scratchpad_bytes_ = std::max(scratchpad_bytes_, CheckedRoundUp(bytes, kAlign));
  }
  steps_.push_back(std::move(step));
}

void Recipe::KeepNan(NanKeeper::Call call) {
  steps_.back().drops_nan = true;
  keeper_ = std::make_unique<NanKeeper>(std::move(call));
}

std::unique_ptr<LibraryCall> Recipe::Finish(std::string description) {
  // Steps run one after the other, so their scratchpads share one place behind the temporaries.
  for (Step& s : steps_) s.scratchpad.offset = temporary_bytes_;
  return std::make_unique<OneDnnCall>(std::move(*this), std::move(description));
}

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
