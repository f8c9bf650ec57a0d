/// op.cc: operators and ways to run them, registered by plugins of the C tier.
#include "weft/core/op/op.h"

#include <memory>

#include "services.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/host_eval.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/op/op_signature.h"
#include "weft/core/op/staging.h"
#include "weft/core/pass/provide.h"
#include "weft/runtime/backend/compute.h"
#include "weft/sym/apply.h"

struct WeftInference {
  // One of the two is set: an operator says both at once and is asked for one at a time.
  weft::InferTypeContext* types = nullptr;
  weft::InferShapeContext* shapes = nullptr;
};

namespace weft::plugin {

void View::Set(DType dtype, std::vector<int64_t> extents, const void* data) {
  dims = std::move(extents);
  view.struct_size = sizeof view;
  view.dtype = WeftDType(dtype);
  view.rank = int32_t(dims.size());
  view.dims = dims.data();
  view.num_elements = NumElements(dims);
  view.data = view.num_elements > 0 ? const_cast<void*>(data) : nullptr;
}

namespace {

Owner PluginOwner() { return {"plugin", "weft/plugin.h", 0}; }

// ---- running ----

void RunComputation(const Computation& c, NodePtr node, const std::vector<const WeftView*>& inputs,
                    const std::vector<const WeftView*>& outputs) {
  WeftCall call{};
  call.struct_size = sizeof call;
  call.node = HandleOf(node);
  call.num_inputs = int32_t(inputs.size());
  call.num_outputs = int32_t(outputs.size());
  call.inputs = inputs.data();
  call.outputs = outputs.data();
  CallPlugin(c.what, [&] { return c.run(c.user, &call); });
}

/// Fixed extents; the buffers come with each run.
class PluginCall final : public LibraryCall {
 public:
  PluginCall(Computation c, const ComputeRequest& r) : c_(std::move(c)), r_(r) {}
  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    Views views;
    std::vector<const WeftView*> in, out;
    for (size_t i = 0; i < r_.input_dims.size(); ++i)
      in.push_back(r_.input_types[i] == DType::kUnknown
                       ? nullptr
                       : views.Add(r_.input_types[i], r_.input_dims[i], inputs[i]));
    for (size_t i = 0; i < r_.output_dims.size(); ++i)
      out.push_back(views.Add(r_.output_types[i], r_.output_dims[i], outputs[i]));
    RunComputation(c_, r_.node, in, out);
  }
  std::string description() const override { return c_.what; }

 private:
  Computation c_;
  ComputeRequest r_;
};

FCompute ComputeOf(const Computation& c) {
  return [c](const ComputeRequest& request) { return std::make_unique<PluginCall>(c, request); };
}

FHostEval EvalOf(const Computation& c) {
  return [c](const NodePtr& node, const std::vector<TensorPtr>& inputs) {
    // The sizes are those of the tensors: infer for them alone.
    Graph g;
    std::vector<NodeEntry> operands;
    for (const TensorPtr& t : inputs)
      operands.push_back(t ? NodeEntry(g.AddParam("", t)) : NodeEntry());
    const NodePtr copy = g.AddNode(node->op(), operands, node->attrs.dict, node->attrs.name);
    std::vector<NodeEntry> entries;
    for (uint32_t i = 0; i < copy->num_outputs(); ++i) entries.emplace_back(copy, i);
    g.outputs = entries;
    PassOptions plain;
    plain.verify = false;
    g = ProvideTypes(std::move(g), plain);
    Views views;
    std::vector<const WeftView*> in, out;
    for (const TensorPtr& t : inputs)
      in.push_back(t ? views.Add(t->dtype(), t->dims(), t->data()) : nullptr);
    std::vector<TensorPtr> results;
    for (const NodeEntry& e : g.outputs) {
      const Shape& s = g.GetAttr<ShapeMap>("shape")[e];
      WEFT_CHECK(s.is_static(), kUnsupported,
                 "{}: the shape of output {} is not known before it runs", c.what, e.index);
      auto t = std::make_shared<Tensor>(g.GetAttr<TypeMap>("dtype")[e].dtype, s.ints());
      out.push_back(views.Add(t->dtype(), t->dims(), t->mutable_data()));
      results.push_back(std::move(t));
    }
    RunComputation(c, g.outputs[0].node, in, out);
    return results;
  };
}

// ---- inference ----

template <class F>
auto AskEither(const WeftInference* inference, F f) {
  return inference->types ? f(*inference->types) : f(*inference->shapes);
}

void Infer(const WeftOpDef& def, const std::string& what, WeftInference inference) {
  CallPlugin(what, [&] { return def.infer(def.user, &inference); });
}

WeftStatus SetOutput(WeftInference* inference, int32_t output, WeftDType dtype, int32_t rank,
                     const WeftDim* dims) {
  return Guard([&] {
    const int count = AskEither(inference, [](auto& ctx) { return ctx.num_outputs(); });
    WEFT_CHECK(output >= 0 && output < count, kApiMisuse, "there is no output {}", output);
    WEFT_CHECK(dtype >= 0 && dtype < kNumDTypes, kApiMisuse, "there is no dtype {}", dtype);
    if (inference->types) {
      if (dtype != WEFT_DTYPE_UNKNOWN) inference->types->set_out(output, Type(DType(dtype)));
      return;
    }
    if (rank < 0) return;
    WEFT_CHECK(rank <= 64 && (rank == 0 || dims), kApiMisuse,
               "a shape of rank {} without dimensions", rank);
    std::vector<SymInt> extents;
    for (int32_t d = 0; d < rank; ++d) extents.push_back(DimOf(dims[d]));
    inference->shapes->set_out(output, Shape(std::move(extents)));
  });
}

const Shape* InputShape(const WeftInference* inference, int32_t input) {
  if (!inference->shapes || input < 0 || input >= inference->shapes->num_inputs() ||
      !inference->shapes->has_input(input))
    return nullptr;
  const Shape& s = inference->shapes->in(input);
  return s.has_rank() ? &s : nullptr;
}

WeftDType InputType(const WeftInference* inference, int32_t input) {
  const bool there = AskEither(inference, [&](auto& ctx) {
    return input >= 0 && input < ctx.num_inputs() && ctx.has_input(input);
  });
  if (!there) return WEFT_DTYPE_UNKNOWN;
  const Type t = inference->types ? inference->types->in(input) : inference->shapes->in_type(input);
  return t.is_tensor() ? WeftDType(t.dtype) : WEFT_DTYPE_UNKNOWN;
}

WeftDim DimOp(char op, WeftDim a, WeftDim b) {
  const SymInt x = DimOf(a), y = DimOf(b);
  if (!x.known() || !y.known()) return nullptr;
  SymInt r;
  const WeftStatus status = Guard([&] {
    WEFT_CHECK(std::string_view("+-*/%mM").find(op) != std::string_view::npos, kApiMisuse,
               "there is no operation '{}' on dimensions", op);
    r = ApplySymOp(op, x, y);
  });
  return status == WEFT_OK ? HandleOf(r) : nullptr;
}

// ---- registration ----

WeftStatus RegisterOp(const WeftOpDef* given) {
  return Guard([&] {
    RequirePluginEntry();
    const WeftOpDef def = ReadDef(given, WEFT_SIZE_UP_TO(WeftOpDef, user), "WeftOpDef");
    const std::string name = RequiredText(def.name, "the name of an operator");
    const std::string what = fmt::format("operator '{}'", name);
    WEFT_CHECK(def.compute, kApiMisuse, "{} has no function that computes it", what);
    WEFT_CHECK(def.signature || def.infer, kApiMisuse,
               "{} has neither a signature nor a function that infers", what);
    WEFT_CHECK(def.num_outputs >= 1 && def.min_inputs >= 0 &&
                   (def.max_inputs >= def.min_inputs || def.max_inputs == -1),
               kApiMisuse, "{} takes {} to {} inputs and gives {} outputs", what, def.min_inputs,
               def.max_inputs, def.num_outputs);
    OpBuilder builder(name, PluginOwner(), false);
    builder.describe(TextOrEmpty(def.doc)).set_num_outputs(def.num_outputs);
    if (def.min_inputs == def.max_inputs)
      builder.set_num_inputs(def.min_inputs);
    else
      builder.set_num_inputs(def.min_inputs, def.max_inputs);
    if (def.signature) {
      const OpSignature s(def.signature);
      WEFT_CHECK(s.num_outputs() == def.num_outputs &&
                     (def.max_inputs == -1 || s.num_inputs() <= def.max_inputs),
                 kApiMisuse, "{}: the signature \"{}\" has another number of inputs or outputs",
                 what, def.signature);
      builder.set_attr<FInferType>("FInferType", s.types());
      builder.set_attr<FInferShape>("FInferShape", s.shapes());
    } else {
      builder.set_attr<FInferType>("FInferType", [def, what](InferTypeContext& ctx) {
        Infer(def, what, {&ctx, nullptr});
      });
      builder.set_attr<FInferShape>("FInferShape", [def, what](InferShapeContext& ctx) {
        Infer(def, what, {nullptr, &ctx});
      });
    }
    const Computation c{def.compute, def.user, what};
    builder.set_attr<FCompute>("FCompute", ComputeOf(c));
    builder.set_attr<FHostEval>("FHostEval", EvalOf(c));
    static_cast<void>(Registered(std::move(builder)));
  });
}

WeftStatus RegisterCompute(const WeftComputeDef* given) {
  return Guard([&] {
    RequirePluginEntry();
    const WeftComputeDef def =
        ReadDef(given, WEFT_SIZE_UP_TO(WeftComputeDef, priority), "WeftComputeDef");
    const std::string name = RequiredText(def.op, "the operator of a computation");
    WEFT_CHECK(def.compute, kApiMisuse, "a computation of '{}' has no function", name);
    const std::string key = def.backend ? "FCompute." + std::string(def.backend) : "FCompute";
    auto builder = std::make_shared<OpBuilder>(name, PluginOwner(), false);
    builder->set_attr<FCompute>(
        key, ComputeOf({def.compute, def.user, fmt::format("operator '{}'", name)}), def.priority);
    // When all of the plugin is committed: the operator may be one of its own.
    CommitRegistration([name, builder] {
      Op::Get(name);  // kUnknownOp, with near names
      builder->Commit();
    });
  });
}

[[maybe_unused]] const bool registered = [] {
  WeftHost& h = PluginHost();
  h.register_op = RegisterOp;
  h.register_compute = RegisterCompute;
  h.dim_int = [](int64_t v) -> WeftDim {
    SymInt d;
    return Guard([&] { d = SymInt(v); }) == WEFT_OK ? HandleOf(d) : nullptr;
  };
  h.dim_op = DimOp;
  h.dim_value = [](WeftDim d, int64_t* value) -> int32_t {
    const auto v = DimOf(d).known() ? DimOf(d).try_value() : std::nullopt;
    if (v && value) *value = *v;
    return v ? 1 : 0;
  };
  h.dim_text = [](WeftDim d) -> const char* {
    thread_local std::string text;
    return Guard([&] { text = DimOf(d).ToString(); }) == WEFT_OK ? text.c_str() : "?";
  };
  h.infer_node = [](const WeftInference* i) -> const WeftNode* {
    return HandleOf(AskEither(i, [](auto& ctx) { return NodePtr(ctx.node()); }));
  };
  h.infer_dtype = InputType;
  h.infer_rank = [](const WeftInference* i, int32_t input) -> int32_t {
    const Shape* s = InputShape(i, input);
    return s ? s->rank() : -1;
  };
  h.infer_dim = [](const WeftInference* i, int32_t input, int32_t axis) -> WeftDim {
    const Shape* s = InputShape(i, input);
    return s && axis >= 0 && axis < s->rank() ? HandleOf((*s)[axis]) : nullptr;
  };
  h.infer_set = SetOutput;
  return true;
}();

}  // namespace
}  // namespace weft::plugin
