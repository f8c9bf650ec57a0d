/// delegated_call.cc: what runs a weft::Delegated node: the engine of a delegate, compiled once for
/// a body, extents and threads, and shared by all programs that hold the body; where the delegate
/// is missing or refuses, a program of our own.
#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>

#include "engine.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/backend/compute.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/program/program.h"
#include "weft/support/check.h"
#include "weft/support/log.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// The user's nodes that the region stands for, a few of them.
std::string WhatItRuns(const NodePtr& n) {
  constexpr size_t kMost = 4;
  std::vector<std::string> names = n->origin() ? *n->origin() : std::vector<std::string>();
  const size_t all = names.size();
  if (all > kMost) names.resize(kMost);
  std::string text = Join(names, ", ");
  if (all > kMost) text += fmt::format(" and {} more", all - kMost);
  return text.empty() ? n->Describe() : text;
}

/// Tensors over operands, in the order of the body's inputs or outputs.
std::vector<DelegateTensor> OperandsOf(const std::vector<DType>& types,
                                       const std::vector<std::vector<int64_t>>& dims) {
  std::vector<DelegateTensor> all;
  for (size_t i = 0; i < types.size(); ++i) all.push_back({types[i], dims[i], nullptr});
  return all;
}

/// A run of an engine, wherever its operands lie.
class Delegated {
 public:
  Delegated(const ComputeRequest& q, std::shared_ptr<SharedEngine> engine, RegionBody body)
      : node_(q.node),
        inputs_(OperandsOf(q.input_types, q.input_dims)),
        outputs_(OperandsOf(q.output_types, q.output_dims)),
        read_(std::move(body.read)),
        engine_(std::move(engine)),
        runs_(WhatItRuns(q.node)) {}

  void Run(const void* const* inputs, void* const* outputs, void* stream) const {
    RequestScope::Poll();
    // Kept, with the memory that they hold: a call of an engine takes microseconds. Out of reach
    // meanwhile: an engine may run programs of ours.
    thread_local std::vector<DelegateTensor> kept_in, kept_out;
    std::vector<DelegateTensor> in = std::move(kept_in), out = std::move(kept_out);
    in.resize(read_.size());
    for (size_t k = 0; k < read_.size(); ++k) {
      in[k] = inputs_[read_[k]];
      in[k].data = const_cast<void*>(inputs[read_[k]]);
    }
    out = outputs_;
    for (size_t k = 0; k < out.size(); ++k) out[k].data = outputs[k];
    try {
      engine_->Run(in, out, stream);
    } catch (Error& e) {
      e.AddPlace(fmt::format("{} (stands for {})", node_->Describe(), runs_));
      throw;
    }
    kept_in = std::move(in);
    kept_out = std::move(out);
    RequestScope::Poll();
  }
  SharedEngine& engine() const { return *engine_; }

 private:
  const NodePtr node_;
  const std::vector<DelegateTensor> inputs_, outputs_;
  const std::vector<size_t> read_;
  const std::shared_ptr<SharedEngine> engine_;
  const std::string runs_;
};

class DelegatedCall final : public LibraryCall {
 public:
  explicit DelegatedCall(Delegated call) : call_(std::move(call)) {}
  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    call_.Run(inputs, outputs, nullptr);
  }
  std::string description() const override { return call_.engine().description(); }
  std::vector<CallPart> parts() const override { return call_.engine().Parts(); }

 private:
  const Delegated call_;
};

class DelegatedDeviceCall final : public DeviceCall {
 public:
  explicit DelegatedDeviceCall(Delegated call) : call_(std::move(call)) {}
  void Enqueue(DeviceStream& stream, const void* const* inputs, void* const* outputs,
               void*) const override {
    if (call_.engine().streams())
      return stream.Give([&](void* native) { call_.Run(inputs, outputs, native); });
    stream.Wait();
    call_.Run(inputs, outputs, nullptr);
  }
  bool records() const override { return false; }
  std::string description() const override { return call_.engine().description(); }
  std::vector<CallPart> parts() const override { return call_.engine().Parts(); }

 private:
  const Delegated call_;
};

/// The body by kernels and calls of ours.
class OwnCall final : public LibraryCall {
 public:
  OwnCall(const ComputeRequest& q, RegionBody body, std::string why)
      : inputs_(OperandsOf(q.input_types, q.input_dims)),
        outputs_(OperandsOf(q.output_types, q.output_dims)),
        read_(std::move(body.read)),
        description_("here, since " + std::move(why)) {
    CompileOptions options;
    options.backend = q.backend ? q.backend->name() : "";
    options.threads = q.threads;
    options.calls = q.options;
    program_ = Compile(*body.graph, options);
  }

  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    std::unique_ptr<Session> session = Take();
    std::vector<TensorPtr> in;
    for (const size_t i : read_)
      in.push_back(std::make_shared<Tensor>(inputs_[i].dtype, inputs_[i].dims,
                                            const_cast<void*>(inputs[i]), nullptr));
    std::vector<std::shared_ptr<Tensor>> out;
    for (size_t k = 0; k < outputs_.size(); ++k)
      out.push_back(
          std::make_shared<Tensor>(outputs_[k].dtype, outputs_[k].dims, outputs[k], nullptr));
    session->RunBound(in, out);
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(session));
  }
  std::string description() const override { return description_; }

 private:
  std::unique_ptr<Session> Take() const {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Session> session = std::move(idle_.back());
        idle_.pop_back();
        return session;
      }
    }
    return std::make_unique<Session>(program_);
  }

  const std::vector<DelegateTensor> inputs_, outputs_;
  const std::vector<size_t> read_;
  const std::string description_;
  std::shared_ptr<const Program> program_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Session>> idle_;
};

std::unique_ptr<PreparedCall> PrepareDelegated(const ComputeRequest& q) {
  const auto spec = q.node->attr<std::string>("delegate");
  RegionBody body;
  std::string why;
  try {
    std::shared_ptr<SharedEngine> engine;
    if (std::all_of(q.constants.begin(), q.constants.end(), [](const auto& c) { return !c; }))
      engine = FindEngineForAnyExtents(q.node, q.threads);
    if (engine) {
      body.read.resize(q.input_dims.size());
      std::iota(body.read.begin(), body.read.end(), size_t{0});
    } else {
      body = BodyFor(q);
      engine = FindEngine(q.node, body, q.input_dims, q.threads);
    }
    Delegated call(q, std::move(engine), std::move(body));
    if (q.backend && q.backend->device())
      return std::make_unique<DelegatedDeviceCall>(std::move(call));
    return std::make_unique<DelegatedCall>(std::move(call));
  } catch (Error& e) {
    // A program of our own would copy operands to the host and back.
    const bool here = !(q.backend && q.backend->device());
    if (e.code() != ErrorCode::kUnsupported || !here) {
      e.AddPlace(WhatItRuns(q.node));
      throw;
    }
    why = e.message();
  }
  if (!body.graph) body = BodyFor(q);
  WEFT_LOG(kWarning, "delegate '{}' does not run {}, which runs here: {}", spec, WhatItRuns(q.node),
           why);
  return std::make_unique<OwnCall>(q, std::move(body), std::move(why));
}

WEFT_REGISTER_OP_IN(weft, Delegated).set_attr<FCompute>("FCompute", PrepareDelegated);

}  // namespace
}  // namespace weft
