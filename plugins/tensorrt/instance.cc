/// instance.cc: runs of an engine, on the stream and the memory that the caller gives.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "engine.h"
#include "library.h"

namespace weft_tensorrt {
namespace {

/// What setTensorAddress asks for.
constexpr uintptr_t kAlign = 256;
/// Of tensors without elements: TensorRT wants an address all the same.
alignas(kAlign) char nothing[kAlign];

size_t BytesOf(const WeftView& view) {
  size_t bytes = 4;
  if (view.dtype == WEFT_I64) bytes = 8;
  if (view.dtype == WEFT_F16 || view.dtype == WEFT_BF16) bytes = 2;
  if (view.dtype == WEFT_BOOL) bytes = 1;
  return bytes * size_t(view.num_elements);
}

template <class Dims>
std::string TextOf(const Dims& dims, size_t rank) {
  std::string text = "[";
  for (size_t d = 0; d < rank; ++d) text += (d ? ", " : "") + std::to_string(dims[d]);
  return text + "]";
}
std::string RangesOf(const Operand& o) {
  std::string text = "[";
  for (size_t d = 0; d < o.dims.size(); ++d) text += (d ? ", " : "") + o.dims[d].ToString();
  return text + "]";
}

}  // namespace

/// Times of the layers of the latest run, by name.
class Instance::Layers final : public nvinfer1::IProfiler {
 public:
  void reportLayerTime(char const* name, float ms) noexcept override {
    try {
      times_.emplace_back(name ? name : "", ms);
    } catch (...) {  // no memory for it
    }
  }
  void Clear() { times_.clear(); }
  const std::vector<std::pair<std::string, float>>& times() const { return times_; }

 private:
  std::vector<std::pair<std::string, float>> times_;
};

class Instance::Done final : public Driver::Event {};

Instance::Instance(const Engine* engine) : engine_(engine), done_(std::make_unique<Done>()) {
  const Driver::Current current(engine->device());
  context_ = engine->NewContext();
  if (engine->settings().profile) {
    layers_ = std::make_unique<Layers>();
    context_->setProfiler(layers_.get());
  }
  for (auto [operands, places] :
       {std::pair(&engine->inputs(), &inputs_), std::pair(&engine->outputs(), &outputs_)})
    for (const Operand& o : *operands) {
      Place p;
      p.operand = &o;
      p.known = engine->Knows(o);
      places->push_back(p);
    }
}

Instance::~Instance() {
  try {
    const Driver::Current current(engine_->device());
    done_->Wait();  // its memory is in use until then
    context_.reset();
    done_.reset();
    for (std::vector<Place>* places : {&inputs_, &outputs_})
      for (const Place& p : *places)
        if (p.copy) Driver::Get().Free(p.copy);
  } catch (const Failure&) {  // the device is gone, and what was on it
  }
}

void Instance::CheckView(const Place& place, const WeftView& view) const {
  const Operand& o = *place.operand;
  bool fits = view.dtype == o.dtype && size_t(view.rank) == o.dims.size();
  for (size_t d = 0; fits && d < o.dims.size(); ++d) fits = o.dims[d].Holds(view.dims[d]);
  if (fits) return;
  std::string text = o.name + " is " + TextOf(view.dims, size_t(view.rank)) +
                     ", the engine was built for " + RangesOf(o);
  if (view.dtype != o.dtype)
    text = o.name + " has element type " + std::to_string(view.dtype) +
           ", the engine was built for " + std::to_string(o.dtype);
  else if (!o.is_fixed())
    text += " (option extents)";
  throw Failure{view.dtype != o.dtype ? WEFT_E_TYPE_MISMATCH : WEFT_E_SHAPE_MISMATCH, text};
}

bool Instance::IsTold(const Place& place, const WeftView& view) {
  return place.was_told && place.dims.size() == size_t(view.rank) &&
         view.dtype == place.operand->dtype &&
         std::equal(place.dims.begin(), place.dims.end(), view.dims);
}

bool Instance::TellDims(Place* place, const WeftView& view) {
  const size_t rank = size_t(view.rank);
  if (IsTold(*place, view)) return false;
  CheckView(*place, view);
  nvinfer1::Dims dims{};
  dims.nbDims = view.rank;
  for (size_t d = 0; d < rank; ++d) dims.d[d] = view.dims[d];
  const ErrorLog log;
  if (!context_->setInputShape(place->operand->name.c_str(), dims))
    log.Fail(WEFT_E_SHAPE_MISMATCH, "TensorRT refuses the extents " + TextOf(dims.d, rank) +
                                        " of " + place->operand->name);
  place->dims.assign(view.dims, view.dims + rank);
  place->was_told = true;
  return true;
}

void Instance::CheckResult(Place* place, const WeftView& view) const {
  CheckView(*place, view);
  const nvinfer1::Dims dims = context_->getTensorShape(place->operand->name.c_str());
  if (dims.nbDims != view.rank || !std::equal(view.dims, view.dims + view.rank, dims.d))
    throw Failure{WEFT_E_SHAPE_MISMATCH, "TensorRT computes " + place->operand->name + " as " +
                                             TextOf(dims.d, size_t(std::max(dims.nbDims, 0))) +
                                             ", expected " + TextOf(view.dims, size_t(view.rank))};
  place->dims.assign(view.dims, view.dims + view.rank);
  place->was_told = true;
}

void Instance::TellAddress(Place* place, const WeftView& view) {
  void* address = view.num_elements > 0 ? view.data : nothing;
  place->is_copied = reinterpret_cast<uintptr_t>(address) % kAlign != 0;
  if (place->is_copied) {
    place->used_bytes = BytesOf(view);
    if (place->copy_bytes < place->used_bytes) {
      done_->Wait();
      if (place->copy) Driver::Get().Free(place->copy);
      place->copy = nullptr;
      place->copy_bytes = 0;
      place->copy = Driver::Get().Allocate(place->used_bytes);
      place->copy_bytes = place->used_bytes;
    }
    address = place->copy;
  }
  if (address == place->address) return;
  const ErrorLog log;
  if (!context_->setTensorAddress(place->operand->name.c_str(), address))
    log.Fail(WEFT_E_DEVICE, "TensorRT refuses the address of " + place->operand->name);
  place->address = address;
}

void Instance::Follow(void* stream) {
  if (stream != stream_) done_->MakeWait(stream);
  stream_ = stream;
}

void Instance::Run(WeftRegionCall* call) {
  const Driver& driver = Driver::Get();
  if (call->stream && driver.DeviceInUse() != engine_->device())
    throw Failure{WEFT_E_DEVICE, "the engine was built for device " +
                                     std::to_string(engine_->device()) + ", the run is on device " +
                                     std::to_string(driver.DeviceInUse()) +
                                     ": WEFT_CUDA_DEVICE names the device to build for"};
  const Driver::Current current(engine_->device());
  if (size_t(call->num_inputs) != inputs_.size() || size_t(call->num_outputs) != outputs_.size())
    throw Failure{WEFT_E_ARITY, "the engine takes " + std::to_string(inputs_.size()) +
                                    " operands and gives " + std::to_string(outputs_.size())};
  bool changed = false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].known) continue;
    changed |= TellDims(&inputs_[i], *call->inputs[i]);
    TellAddress(&inputs_[i], *call->inputs[i]);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Place& p = outputs_[i];
    const WeftView& view = *call->outputs[i];
    if (changed || !IsTold(p, view)) CheckResult(&p, view);
    TellAddress(&p, view);
  }

  Follow(call->stream);
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].known && inputs_[i].is_copied) {
      driver.Copy(inputs_[i].copy, call->inputs[i]->data, inputs_[i].used_bytes, call->stream);
      call->copied_bytes += int64_t(inputs_[i].used_bytes);
    }
  if (layers_) layers_->Clear();
  {
    const ErrorLog log;
    if (!context_->enqueueV3(static_cast<cudaStream_t>(call->stream)))
      log.Fail(WEFT_E_DEVICE, "TensorRT cannot run the engine");
  }
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].is_copied) {
      driver.Copy(call->outputs[i]->data, outputs_[i].copy, outputs_[i].used_bytes, call->stream);
      call->copied_bytes += int64_t(outputs_[i].used_bytes);
    }
  if (call->stream)
    done_->Record(call->stream);
  else
    driver.Wait(nullptr);
}

void Instance::AddRows(WeftRows* rows) const {
  if (!layers_) return;
  constexpr double kUsPerMs = 1000;
  for (const auto& [name, ms] : layers_->times())
    Check(weft->rows_add(rows, name.c_str(), "tensorrt", double(ms) * kUsPerMs));
}

}  // namespace weft_tensorrt
