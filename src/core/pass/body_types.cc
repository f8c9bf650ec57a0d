/// body_types.cc: see body_types.h.
#include "weft/core/pass/body_types.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "core/graph/claims.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/variable.h"
#include "weft/core/pass/provide.h"
#include "weft/core/pass/size_names.h"
#include "weft/sym/symbols.h"

namespace weft {
namespace {

/// Operands of a Scan that its body gets in slices, and along which axis each.
struct Slices {
  size_t first = 0, end = 0;
  std::vector<int64_t> axes;
  int64_t parts = 1;  ///< of the first axis of these and of the states; the body gets one
  bool has(size_t operand) const { return first <= operand && operand < end; }
};
Slices SlicesOf(const NodePtr& n) {
  Slices s;
  if (!IsOp(n, "Scan")) return s;
  const int64_t captures = n->attr<int64_t>("num_captures"),
                sliced = n->attr<int64_t>("num_scan_inputs");
  const int64_t end = int64_t(n->num_inputs()) - captures;
  if (captures < 0 || sliced < 0 || end < sliced) return s;
  s.first = size_t(end - sliced);
  s.end = size_t(end);
  s.axes.assign(size_t(sliced), 0);
  s.parts = std::max<int64_t>(n->attr<int64_t>("parts"), 1);
  if (n->has_attr("scan_input_axes")) {
    const Ints& given = n->attr<Ints>("scan_input_axes");
    if (given.size() == s.axes.size()) s.axes.assign(given.begin(), given.end());
  }
  return s;
}

Shape WithoutAxis(const Shape& shape, int64_t axis) {
  if (!shape.has_rank()) return shape;
  if (axis < 0) axis += shape.rank();
  if (axis < 0 || axis >= shape.rank()) return Shape();
  std::vector<SymInt> dims = shape.dims();
  dims.erase(dims.begin() + axis);
  return Shape(std::move(dims));
}

Shape OnePart(Shape s, int64_t parts) {
  if (parts > 1 && s.has_rank() && s.rank() > 0 && s[0].known() && s[0].is_const())
    s.set(0, SymInt(s[0].value() / parts));
  return s;
}

/// The body may change them: the state of a loop. It is the output of that number.
std::optional<uint32_t> StateOf(const NodePtr& n, size_t operand, const Slices& slices) {
  if (IsOp(n, "Scan") && operand < slices.first) return uint32_t(operand);
  const int64_t captures = IsOp(n, "Loop") ? n->attr<int64_t>("num_captures") : 0;
  if (IsOp(n, "Loop") && operand >= 2 && int64_t(operand) < int64_t(n->num_inputs()) - captures)
    return uint32_t(operand - 2);
  return std::nullopt;
}
/// The number of the iteration and the condition, which a Loop itself gives its body.
bool IsCounter(const NodePtr& n, size_t operand) { return IsOp(n, "Loop") && operand < 2; }

/// What a body knows of an operand. `is_whole`: it gets the operand itself, in every iteration.
struct Operand {
  Type type;
  Shape shape;
  bool is_whole = false;
};
/// Of what stands behind input `i`; where nothing more is known, as the input declares it.
Operand OperandOf(const NodePtr& node, uint32_t before, size_t i, const NodePtr& input,
                  const Slices& slices, const ShapeMap& shapes, const TypeMap& types) {
  if (IsCounter(node, i)) return {i == 0 ? DType::kI64 : DType::kBool, Shape::Scalar(), false};
  const size_t slot = before + i;
  const NodeEntry e = slot < node->num_inputs() ? node->inputs[slot] : NodeEntry();
  const Shape as_declared = DeclaredShape(input).value_or(Shape());
  if (!e.node || input->has_attr("value")) return {Type(), as_declared, false};
  const Shape* s = shapes.find(e);
  const std::optional<uint32_t> state = StateOf(node, i, slices);
  const bool changes = state && s && !shapes[NodeEntry(node, *state)].same(*s);
  if (!s || changes) return {types[e], as_declared, false};
  if (slices.has(i))
    return {types[e], OnePart(WithoutAxis(*s, slices.axes[i - slices.first]), slices.parts), false};
  return {types[e], state ? OnePart(*s, slices.parts) : *s, !state};
}
bool DeclaresAll(const NodePtr& input, const Operand& known) {
  const std::optional<Shape> declared = DeclaredShape(input);
  return (!known.type.known() || DeclaredType(input) == known.type) &&
         (declared ? declared->same(known.shape) : !known.shape.has_rank());
}

void SetTypes(Graph* body, const std::vector<Type>& types) {
  const std::vector<NodePtr> inputs = body->inputs();
  for (size_t i = 0; i < inputs.size() && i < types.size(); ++i) {
    if (types[i].is_tensor() && types[i].known())
      body->SetAttr(inputs[i], "dtype", types[i].dtype);
    else if (types[i].known())
      body->SetAttr(inputs[i], "type", types[i].ToString());
  }
}

/// Symbols that are a dimension of one of these.
std::vector<SymInt> SizesToldBy(const std::vector<Shape>& shapes) {
  std::vector<SymInt> told;
  for (const Shape& s : shapes)
    for (SymInt d : s.dims())
      if (d.known() && d.is_symbol()) told.push_back(d);
  return told;
}
bool IsTold(SymInt d, const std::vector<SymInt>& told) {
  return !d.known() || EverySymbol(d, [&](SymInt s) {
    return std::find(told.begin(), told.end(), s) != told.end();
  });
}

/// What `outer` knows of `d` beyond what all sizes are.
void CarryFacts(const Facts& outer, SymInt d, Facts* inner) {
  if (!d.known() || d.is_const()) return;
  const Range r = outer.RangeOf(d), known = inner->RangeOf(d);
  if (r.lo > known.lo || r.hi < known.hi) inner->SetRange(d, r);
  if (const int64_t divisor = outer.DivisorOf(d); divisor > inner->DivisorOf(d))
    inner->SetDivisor(d, divisor);
}
/// Which of the dimensions of the operands are equal, though they are written in other symbols.
void CarryEqual(const Facts& outer, const std::vector<Shape>& shapes, Facts* inner) {
  std::unordered_set<SymInt> told;
  const auto each = [&shapes](const auto& f) {
    for (const Shape& s : shapes)
      for (SymInt d : s.dims())
        if (d.known() && !d.is_const()) f(d);
  };
  each([&](SymInt d) {
    if (d.is_symbol()) told.insert(d);
  });
  each([&](SymInt d) {
    const SymInt same = outer.Simplify(d);
    if (same != d && EverySymbol(same, [&](SymInt s) { return told.count(s) != 0; }))
      inner->AddEqual(d, same);
  });
}

/// Sizes that depend on data have numbers, in a body from the one behind those of its operands on.
/// An earlier inference, for other operands, may have given numbers that these have: it is
/// forgotten.
void ForgetNumbersOf(const BodyOperands& operands, Graph* body) {
  std::set<int64_t> given;
  const auto note = [&given](SymInt d) {
    for (SymInt s : d.known() ? d.Symbols() : std::vector<SymInt>())
      if (const std::optional<int64_t> k = s.unbacked_number()) given.insert(*k);
  };
  for (const Shape& s : operands.shapes)
    for (SymInt d : s.dims()) note(d);
  for (const SymTensorPtr& v : operands.values)
    for (SymInt e : v ? v->elements : std::vector<SymInt>()) note(e);
  if (given.empty() || !body->HasAttr("unbacked")) return;
  const auto& own = body->GetAttr<NodeMap<Ints>>("unbacked");
  bool shared = false;
  for (NodeId id = 0; id < own.id_bound(); ++id)
    for (int64_t k : own.find(id) ? *own.find(id) : Ints()) shared = shared || given.count(k);
  if (!shared) return;
  std::vector<SymInt> named;
  for (const NodePtr& input : body->inputs())
    if (const std::optional<Shape> s = DeclaredShape(input))
      for (SymInt d : s->dims())
        for (SymInt symbol : d.known() ? d.Symbols() : std::vector<SymInt>())
          if (!symbol.is_unbacked()) named.push_back(symbol);
  if (body->HasAttr("facts")) body->SetAttr("facts", body->GetAttr<Facts>("facts").About(named));
  for (const char* attr : {"unbacked", "introduced", "resolved", "shape", "value"})
    body->DropAttr(attr);
}

/// Sizes as a body was written, by what its operands say that they are now.
class Renaming {
 public:
  void Note(const Shape& was, const Shape& now) {
    if (!was.has_rank() || !now.has_rank() || was.rank() != now.rank()) return;
    for (int d = 0; d < was.rank(); ++d)
      if (was[d].known() && was[d].is_symbol() && now[d].known() && !(was[d] == now[d]))
        names_.emplace(was[d], now[d]);
  }
  void Note(SymInt was, SymInt now) { names_.emplace(was, now); }
  bool empty() const { return names_.empty(); }
  bool has(SymInt symbol) const { return names_.count(symbol) != 0; }
  SymInt Of(SymInt d) const {
    if (!d.known()) return d;
    return Substitute(d, [&](SymInt symbol) {
      const auto it = names_.find(symbol);
      return it == names_.end() ? symbol : it->second;
    });
  }

 private:
  std::unordered_map<SymInt, SymInt> names_;
};
/// A size that is not known any more, and by which a pass wrote something down, is told by a run
/// under a name of its own.
void KeepNamesOfUnknown(BodyOperands* operands, const Graph& body, Renaming* names) {
  const std::vector<NodePtr> order = body.TopoOrder(), inputs = body.inputs();
  if (std::none_of(order.begin(), order.end(),
                   [](const NodePtr& n) { return IsOp(n, builtin::kShapeTensor); }))
    return;
  int64_t next = 0;
  const auto note = [&next](const Shape& s) {
    for (SymInt d : s.dims()) {
      if (!d.known()) continue;
      const std::vector<SymInt> symbols = d.Symbols();
      for (SymInt symbol : symbols)
        if (const auto k = symbol.unbacked_number()) next = std::max(next, *k + 1);
    }
  };
  for (const Shape& s : operands->shapes) note(s);
  for (const NodePtr& n : order) {
    if (IsOp(n, builtin::kShapeTensor)) note(n->attr<Shape>("dims"));
    const auto* shapes = body.HasAttr("shape") ? &body.GetAttr<ShapeMap>("shape") : nullptr;
    for (uint32_t i = 0; shapes && i < n->num_outputs(); ++i)
      if (const Shape* s = shapes->find(NodeEntry(n, i))) note(*s);
  }
  for (size_t i = 0; i < inputs.size() && i < operands->shapes.size(); ++i) {
    const std::optional<Shape> was = DeclaredShape(inputs[i]);
    Shape& now = operands->shapes[i];
    if (!was || !was->has_rank() || !now.has_rank() || was->rank() != now.rank()) continue;
    for (int d = 0; d < now.rank(); ++d) {
      const SymInt old = (*was)[d];
      if (now[d].known() || !old.known() || !old.is_symbol() || !old.is_unbacked()) continue;
      if (!names->has(old)) names->Note(old, SymInt::Unbacked(next++));
      now.set(d, names->Of(old));
    }
  }
}
/// What a pass wrote down of sizes in a body follows the names that its operands have now, as the
/// graph around it may have found that two sizes are one. What was known under the old names goes.
void RenameSizes(BodyOperands* given, Graph* body) {
  BodyOperands& operands = *given;
  Renaming names;
  const std::vector<NodePtr> inputs = body->inputs();
  std::vector<SymInt> kept;
  KeepNamesOfUnknown(&operands, *body, &names);
  for (size_t i = 0; i < inputs.size() && i < operands.shapes.size(); ++i)
    if (const std::optional<Shape> was = DeclaredShape(inputs[i])) {
      names.Note(*was, operands.shapes[i]);
      for (SymInt d : was->dims())
        if (d.known() && d.is_symbol()) kept.push_back(d);
    }
  if (names.empty()) return;
  for (const NodePtr& n : body->TopoOrder()) {
    if (!IsOp(n, builtin::kShapeTensor)) continue;
    std::vector<SymInt> dims = n->attr<Shape>("dims").dims();
    for (SymInt& d : dims) d = names.Of(d);
    if (const Shape now(std::move(dims)); !now.same(n->attr<Shape>("dims")))
      body->SetAttr(n, "dims", now);
  }
  kept.erase(std::remove_if(kept.begin(), kept.end(), [&](SymInt d) { return names.has(d); }),
             kept.end());
  if (body->HasAttr("facts")) body->SetAttr("facts", body->GetAttr<Facts>("facts").About(kept));
}

PassOptions PlainOptions() {
  PassOptions plain;
  plain.verify = false;
  return plain;
}

}  // namespace

Graph InferBodyTypes(Graph body, const std::vector<Type>& types) {
  SetTypes(&body, types);
  return ProvideAttrs(std::move(body), {"dtype"}, PlainOptions());
}

Graph InferBody(Graph body, const BodyOperands& given) {
  BodyOperands operands = given;
  SetTypes(&body, operands.types);
  ForgetNumbersOf(operands, &body);
  RenameSizes(&operands, &body);
  const std::vector<NodePtr> inputs = body.inputs();
  ValueMap values = body.AttrOr<ValueMap>("value");
  Facts facts = body.AttrOr<Facts>("facts");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < operands.shapes.size()) {
      body.SetAttr(inputs[i], "shape", operands.shapes[i]);
      if (operands.facts)
        for (SymInt d : operands.shapes[i].dims()) CarryFacts(*operands.facts, d, &facts);
    }
    if (i < operands.values.size() && operands.values[i])
      values.set(NodeEntry(inputs[i]), operands.values[i]);
  }
  if (operands.facts) CarryEqual(*operands.facts, operands.shapes, &facts);
  if (!operands.values.empty()) body.SetAttr("value", std::move(values));
  if (!facts.empty()) body.SetAttr("facts", std::move(facts));
  body = ProvideTypes(std::move(body), PlainOptions());
  FollowSizeNames(&body);
  return ProvideTypes(std::move(body), PlainOptions());
}

std::vector<std::string> BodyNames(const NodePtr& node) {
  std::vector<std::string> names;
  for (const auto& [name, value] : node->attrs.dict)
    if (value.is<GraphPtr>() && value.get<GraphPtr>()) names.push_back(name);
  return names;
}

std::optional<uint32_t> OperandsBeforeBody(const NodePtr& node) {
  if (IsOp(node, "If")) return 1;
  if (IsOp(node, "Loop") || IsOp(node, "Scan")) return 0;
  if (IsOp(node, builtin::kFused) || IsOp(node, builtin::kRegion)) return 0;
  if (IsOp(node, builtin::kDelegated)) return 0;
  if (IsOp(node, builtin::kConcurrent)) return 0;
  return std::nullopt;
}

bool HasControlBodies(const NodePtr& node) {
  return IsOp(node, "If") || IsOp(node, "Loop") || IsOp(node, "Scan") ||
         IsOp(node, builtin::kConcurrent);
}

Graph TypedBody(const NodePtr& node, const std::string& name, const ShapeMap& shapes,
                const TypeMap& types, const ValueMap* values, const Facts* facts) {
  const GraphPtr body = node->attr<GraphPtr>(name);
  const std::optional<uint32_t> before = OperandsBeforeBody(node);
  const Slices slices = SlicesOf(node);
  BodyOperands operands;
  operands.facts = facts;
  bool declared = body->IsComplete("dtype") && body->IsComplete("shape");
  for (size_t i = 0; before && i < body->inputs().size(); ++i) {
    const NodePtr input = body->inputs()[i];
    const Operand known = OperandOf(node, *before, i, input, slices, shapes, types);
    declared = declared && DeclaresAll(input, known);
    operands.types.push_back(known.type);
    operands.shapes.push_back(known.shape);
    const SymTensorPtr* v =
        values && known.is_whole ? values->find(node->inputs[*before + i]) : nullptr;
    operands.values.push_back(v ? *v : nullptr);
  }
  // A value in sizes that no operand has is not followed: a run of the body could not tell them.
  const std::vector<SymInt> told = SizesToldBy(operands.shapes);
  for (SymTensorPtr& v : operands.values)
    if (v && !std::all_of(v->elements.begin(), v->elements.end(),
                          [&](SymInt e) { return IsTold(e, told); }))
      v = nullptr;
  return declared ? *body : InferBody(*body, operands);
}

bool IsMisfit(const UserError& error) {
  return error.code() == ErrorCode::kShapeMismatch || error.code() == ErrorCode::kBadAttribute;
}

std::optional<Graph> FittingBody(const NodePtr& node, const std::string& name,
                                 const ShapeMap& shapes, const TypeMap& types,
                                 const ValueMap* values, const Facts* facts) {
  try {
    return TypedBody(node, name, shapes, types, values, facts);
  } catch (const UserError& e) {
    if (!IsMisfit(e) || !IsOp(node, "If")) throw;
    return std::nullopt;
  }
}

bool TellsItsSizes(const Graph& body) {
  const ShapeMap& shapes = body.GetAttr<ShapeMap>("shape");
  const TypeMap& types = body.GetAttr<TypeMap>("dtype");
  std::vector<Shape> operands;
  for (const NodePtr& input : body.inputs()) operands.push_back(shapes[NodeEntry(input)]);
  const std::vector<SymInt> told = SizesToldBy(operands);
  // Also of those that nothing reads: a run looks at all.
  for (const Shape& s : operands)
    if (!std::all_of(s.dims().begin(), s.dims().end(), [&](SymInt d) { return IsTold(d, told); }))
      return false;
  for (const NodePtr& n : body.TopoOrder()) {
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      const Shape& s = shapes[NodeEntry(n, i)];
      const bool tensor = types[NodeEntry(n, i)].is_tensor();
      if (tensor && (!s.fully_known() || !std::all_of(s.dims().begin(), s.dims().end(),
                                                      [&](SymInt d) { return IsTold(d, told); })))
        return false;
    }
  }
  return true;
}

void ReplaceBody(Graph& graph, const NodePtr& node, const std::string& name, Graph body) {
  std::set<std::string> known;
  for (const auto& [attr, value] : graph.attrs) known.insert(attr);
  graph.HasAttr("");  // what earlier edits made stale does not hold
  const Claims claims(*graph.shared_store(), std::move(known));
  graph.SetAttr(node, name, std::make_shared<const Graph>(std::move(body)));
  graph.HasAttr("");
}

}  // namespace weft
