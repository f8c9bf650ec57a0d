/// fixed_body.cc: see fixed_body.h.
#include "fixed_body.h"

#include <unordered_map>

#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"
#include "weft/sym/symbols.h"

namespace weft::ops {

const Graph& FixedBody(const NodeAttrs& attrs) {
  const AttrValue* v = attrs.dict.find("body");
  WEFT_CHECK(v && v->is<GraphPtr>() && v->get<GraphPtr>(), kBadAttribute,
             "{} needs a graph attribute `body`", attrs.op ? attrs.op->name : "the node");
  return *v->get<GraphPtr>();
}

void FixedBodyType(InferTypeContext& ctx) {
  const Graph& body = FixedBody(ctx.node()->attrs);
  if (!body.HasAttr("dtype")) return;
  const TypeMap& types = body.GetAttr<TypeMap>("dtype");
  for (int i = 0; i < ctx.num_inputs() && i < int(body.inputs().size()); ++i) {
    const Type declared = types[NodeEntry(body.inputs()[size_t(i)])], given = ctx.in(i);
    WEFT_CHECK(!declared.known() || !given.known() || declared == given, kTypeMismatch,
               "{}: input {} is {}, the body takes {}", ctx.node()->Describe(), i, given.ToString(),
               declared.ToString());
  }
  for (int k = 0; k < ctx.num_outputs(); ++k) {
    const Type t = types[body.outputs[size_t(k)]];
    if (t.known()) ctx.set_out(k, t);
  }
}

namespace {

/// The symbols of a body as dimensions of the graph around it.
class Renaming {
 public:
  explicit Renaming(const Facts* same) : same_(same) {}
  /// False where the operand is not, or cannot be, what the body was made for.
  bool Add(const Shape& declared, const Shape& given) {
    if (!given.has_rank() || !declared.has_rank() || given.rank() != declared.rank()) return false;
    for (int k = 0; k < given.rank(); ++k) {
      if (same_) {
        if (!given[k].known() || !same_->ProvedEqual(given[k], declared[k])) return false;
        continue;
      }
      if (!declared[k].known()) return false;
      if (declared[k].is_const() && given[k].known() && given[k].is_const() &&
          given[k] != declared[k])
        return false;
      if (!declared[k].is_symbol() || !given[k].known()) continue;
      outside_.emplace(declared[k], given[k]);
    }
    return true;
  }
  /// Unknown where it has no name outside.
  SymInt Outside(SymInt d) const {
    if (same_ || !d.known()) return d;
    return Substitute(d, [&](SymInt symbol) {
      const auto it = outside_.find(symbol);
      return it == outside_.end() ? SymInt() : it->second;
    });
  }

 private:
  const Facts* const same_;  ///< the body's symbols are those outside; null: they are renamed
  std::unordered_map<SymInt, SymInt> outside_;
};

void ShapeByBody(InferShapeContext& ctx, bool renames) {
  const Graph& body = FixedBody(ctx.node()->attrs);
  auto unknown = [&ctx](const std::string& why) {
    for (int k = 0; k < ctx.num_outputs(); ++k) Unknown(ctx, k, why);
  };
  if (!body.HasAttr("shape")) return unknown("the body has no shapes");
  const ShapeMap& shapes = body.GetAttr<ShapeMap>("shape");
  WEFT_CHECK(ctx.num_inputs() == int(body.inputs().size()), kArity,
             "{}: {} inputs, the body takes {}", ctx.node()->Describe(), ctx.num_inputs(),
             body.inputs().size());
  Renaming renaming(renames ? nullptr : &ctx.facts());
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Shape &declared = shapes[NodeEntry(body.inputs()[size_t(i)])], &given = ctx.in(i);
    if (!renaming.Add(declared, given))
      return unknown(fmt::format("input {} is {}, the body was made for {}", i, given.ToString(),
                                 declared.ToString()));
  }
  const ValueMap* values = body.HasAttr("value") ? &body.GetAttr<ValueMap>("value") : nullptr;
  for (int k = 0; k < ctx.num_outputs(); ++k) {
    std::vector<SymInt> dims = shapes[body.outputs[size_t(k)]].dims();
    for (SymInt& d : dims) d = renaming.Outside(d);
    ctx.set_out(k, Shape(std::move(dims)));
    const SymTensorPtr* v = values ? values->find(body.outputs[size_t(k)]) : nullptr;
    if (!v || !*v) continue;
    SymTensor value = **v;
    for (SymInt& e : value.elements) e = renaming.Outside(e);
    ctx.set_out_value(k, std::move(value));
  }
}

}  // namespace

void FixedBodyShape(InferShapeContext& ctx) {
  // Where all is numbers, those are the body's sizes.
  bool numbers = true;
  for (int i = 0; i < ctx.num_inputs(); ++i) numbers = numbers && ctx.in(i).is_static();
  ShapeByBody(ctx, numbers);
}
void RenamedBodyShape(InferShapeContext& ctx) { ShapeByBody(ctx, true); }

uint32_t FixedBodyOutputs(const NodeAttrs& attrs) {
  return uint32_t(FixedBody(attrs).outputs.size());
}

void RunFixedBody(const NodePtr&, const Tensors& inputs, const BodyRunner& bodies,
                  ResultTensors* results) {
  bodies.Run("body", inputs, results);
}

}  // namespace weft::ops
