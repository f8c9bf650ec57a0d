/// op.cc: operators whose functions are Python's (weft.op).
///
/// What an operator computes is asked of its function once for each combination of dtypes and
/// attributes, with places for the operands; the expressions that it gives are kept, and no kernel,
/// run or saved program comes back to Python. Numpy's functions (FCompute) are called by runs.
#include "weft/core/op/op.h"

#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "../arrays.h"
#include "../errors.h"
#include "define.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/op/host_eval.h"
#include "weft/core/op/op_signature.h"
#include "weft/core/op/size_numbers.h"
#include "weft/core/pass/pass.h"
#include "weft/core/pass/provide.h"
#include "weft/runtime/backend/compute.h"
#include "weft/support/check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

using DTypes = std::vector<DType>;  ///< kUnknown: absent

/// What an operator computes, over Slot(k) for operand k.
struct Meaning {
  DTypes outputs;
  Exprs values;  ///< empty for one that only FCompute computes
};

DType ComputeType(DType t) { return IsNarrowFloat(t) ? DType::kF32 : t; }

/// The narrow float that a result of f32 is stored as: that of all operands that are floats.
DType NarrowOf(const DTypes& inputs) {
  DType narrow = DType::kUnknown;
  for (const DType t : inputs) {
    if (!IsFloat(t)) continue;
    if (!IsNarrowFloat(t) || (narrow != DType::kUnknown && narrow != t)) return DType::kUnknown;
    narrow = t;
  }
  return narrow;
}

/// An operator and its functions. Lives for ever, in the registry.
class DefinedOp {
 public:
  DefinedOp(std::string name, int num_outputs, const ParamSchema* schema)
      : name_(std::move(name)), num_outputs_(num_outputs), schema_(schema) {}

  /// To be set before it is registered; later by Add, and read by Function.
  HeldObject expression, infer_type, infer_shape, compute;

  HeldObject Function(HeldObject DefinedOp::*function) const {
    const std::lock_guard lock(mutex_);
    return this->*function;
  }
  const std::string& name() const { return name_; }
  int num_outputs() const { return num_outputs_; }
  std::string Who(const char* function) const {
    return std::string(function) + " of operator '" + name_ + "'";
  }
  nb::dict Keywords(const NodePtr& n) const { return AttributesOf(*schema_, n->param()); }

  /// Thread-safe; calls Python where it is new.
  std::shared_ptr<const Meaning> MeaningOf(const NodePtr& n, const DTypes& inputs) {
    std::string key(inputs.size(), '\0');
    for (size_t i = 0; i < inputs.size(); ++i) key[i] = char(inputs[i]);
    key += AttributesText(*schema_, n->param());
    {
      const std::lock_guard lock(mutex_);
      if (const auto it = meanings_.find(key); it != meanings_.end()) return it->second;
    }
    auto made = std::make_shared<const Meaning>(Ask(n, inputs));
    const std::lock_guard lock(mutex_);
    return meanings_.emplace(std::move(key), std::move(made)).first->second;
  }
  /// Sets a function that the operator was registered without; false where there is one.
  bool Add(HeldObject DefinedOp::*function, const HeldObject& f) {
    const std::lock_guard lock(mutex_);
    if (this->*function) return false;
    this->*function = f;
    meanings_.clear();
    return true;
  }
  void Remove(HeldObject DefinedOp::*function) {
    HeldObject old;  // ends without the lock: that takes the interpreter's
    const std::lock_guard lock(mutex_);
    std::swap(old, this->*function);
    meanings_.clear();
  }

 private:
  Meaning Ask(const NodePtr& n, const DTypes& inputs) {
    Meaning m;
    const HeldObject types = Function(&DefinedOp::infer_type);
    if (types) m.outputs = AskTypes(types, n, inputs);
    if (expression) {
      AskValues(n, inputs, &m);
    } else if (!types) {
      m.outputs.assign(size_t(num_outputs_), inputs.empty() ? DType::kUnknown : inputs[0]);
    }
    return m;
  }
  DTypes AskTypes(const HeldObject& f, const NodePtr& n, const DTypes& inputs) {
    return WithPython(Who("FInferType"), [&] {
      nb::list arguments;
      for (const DType t : inputs)
        arguments.append(t == DType::kUnknown ? nb::object(nb::none())
                                              : nb::cast(std::string(DTypeName(t))));
      const nb::object given = f.get()(*nb::tuple(arguments), **Keywords(n));
      DTypes types;
      for (const nb::object& o : Split(given)) types.push_back(ToDType(o));
      return types;
    });
  }
  void AskValues(const NodePtr& n, const DTypes& inputs, Meaning* m) {
    Exprs places;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const DType t = inputs[k];
      WEFT_CHECK(t == DType::kUnknown || IsComputable(t), kTypeMismatch,
                 "operator '{}' is an expression of numbers, and operand {} is {}", name_, k,
                 DTypeName(t));
      places.push_back(t == DType::kUnknown ? Expr() : Expr::Slot(int(k), ComputeType(t)));
    }
    Exprs values = WithPython(Who("the function"), [&] {
      nb::list arguments;
      for (const Expr& e : places) arguments.append(e ? nb::cast(e) : nb::object(nb::none()));
      const nb::object given = expression.get()(*nb::tuple(arguments), **Keywords(n));
      Exprs made;
      for (const nb::object& o : Split(given)) made.push_back(ToExpr(o));
      return made;
    });
    const DType narrow = NarrowOf(inputs);
    for (size_t k = 0; k < values.size(); ++k) {
      Expr& v = values[k];
      const DType told = m->outputs.size() > k ? m->outputs[k] : DType::kUnknown;
      if (v->is_literal())
        v = Expr::Cast(told != DType::kUnknown ? ComputeType(told) : LiteralType(inputs), v);
      DType stored = told;
      if (stored == DType::kUnknown)
        stored = v->dtype() == DType::kF32 && narrow != DType::kUnknown ? narrow : v->dtype();
      if (IsNarrowFloat(stored) && v->dtype() == DType::kF32) v = Expr::Cast(stored, v);
      WEFT_CHECK(v->dtype() == stored, kTypeMismatch,
                 "the function of operator '{}' gives {} for output {}, FInferType said {}", name_,
                 DTypeName(v->dtype()), k, DTypeName(stored));
      if (told == DType::kUnknown) m->outputs.push_back(stored);
    }
    CheckPlaces(values, places);
    m->values = std::move(values);
  }
  static DType LiteralType(const DTypes& inputs) {
    for (const DType t : inputs)
      if (t != DType::kUnknown) return ComputeType(t);
    return DType::kF32;
  }
  /// An expression that was kept from another call may name places that are not of this one.
  void CheckPlaces(const Exprs& values, const Exprs& places) const {
    for (const ExprNode* e : PostOrder(values)) {
      if (e->kind() != ExprKind::kVariable) continue;
      const size_t k = size_t(e->slot());
      WEFT_CHECK(
          k < places.size() && places[k].get() == e, kApiMisuse,
          "the function of operator '{}' gives an expression of the operands of another call",
          name_);
    }
  }
  /// One for each output.
  std::vector<nb::object> Split(const nb::object& given) const {
    std::vector<nb::object> items;
    if (PyTuple_Check(given.ptr()) || PyList_Check(given.ptr())) {
      for (const nb::handle item : nb::borrow<nb::sequence>(given))
        items.push_back(nb::borrow(item));
    } else {
      items.push_back(given);
    }
    WEFT_CHECK(items.size() == size_t(num_outputs_), kApiMisuse, "{} results for {} outputs",
               items.size(), num_outputs_);
    return items;
  }

 public:
  /// The same of what its FCompute gives.
  std::vector<nb::object> Results(const nb::object& given) const { return Split(given); }

 private:
  const std::string name_;
  const int num_outputs_;
  const ParamSchema* const schema_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Meaning>> meanings_;
};

using SharedOp = std::shared_ptr<DefinedOp>;

// ---- inference ----

/// Dtypes of all operands; nullopt where one is not known.
std::optional<DTypes> KnownTypes(int count, const std::function<bool(int)>& has,
                                 const std::function<Type(int)>& type, const std::string& name) {
  DTypes types;
  for (int i = 0; i < count; ++i) {
    const Type t = has(i) ? type(i) : Type();
    if (has(i) && !t.known()) return std::nullopt;
    WEFT_CHECK(!has(i) || t.is_tensor(), kTypeMismatch,
               "operator '{}' takes tensors, and operand {} is {}", name, i, t.ToString());
    types.push_back(t.dtype);
  }
  return types;
}

/// By `otherwise` where there is one and the operator has no function of its own for it.
FInferType TypesOf(const SharedOp& op, FInferType otherwise) {
  return [op, otherwise = std::move(otherwise)](InferTypeContext& ctx) {
    if (otherwise && !op->Function(&DefinedOp::infer_type)) return otherwise(ctx);
    const auto types = KnownTypes(
        ctx.num_inputs(), [&](int i) { return ctx.has_input(i); }, [&](int i) { return ctx.in(i); },
        op->name());
    if (!types) return;
    const auto meaning = op->MeaningOf(ctx.node(), *types);
    for (int i = 0; i < ctx.num_outputs(); ++i) ctx.set_out(i, Type(meaning->outputs[size_t(i)]));
  };
}

/// By the operator's own function, else by `otherwise`.
FInferShape ShapesOf(const SharedOp& op, FInferShape otherwise) {
  return [op, otherwise = std::move(otherwise)](InferShapeContext& ctx) {
    const HeldObject f = op->Function(&DefinedOp::infer_shape);
    if (!f) {
      if (otherwise) return otherwise(ctx);
      for (int k = 0; k < ctx.num_outputs(); ++k) ctx.explain(k, "its operator has no FInferShape");
      return;
    }
    bool all_known = true;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      if (!ctx.has_input(i)) continue;
      all_known = all_known && ctx.in(i).fully_known();
      if (ctx.in(i).has_rank()) continue;
      for (int k = 0; k < ctx.num_outputs(); ++k)
        ctx.explain(k, "the rank of an operand is missing");
      return;
    }
    std::vector<Shape> shapes = WithPython(op->Who("FInferShape"), [&] {
      nb::list arguments;
      for (int i = 0; i < ctx.num_inputs(); ++i)
        arguments.append(ctx.has_input(i) ? ShapeObject(ctx.in(i)) : nb::object(nb::none()));
      const nb::object given = f.get()(*nb::tuple(arguments), **op->Keywords(ctx.node()));
      std::vector<Shape> made;
      // One shape is a tuple as well.
      if (op->num_outputs() == 1) {
        made.push_back(ToShape(given));
      } else {
        for (const nb::object& o : op->Results(given)) made.push_back(ToShape(o));
      }
      return made;
    });
    for (size_t k = 0; k < shapes.size(); ++k) {
      Shape& s = shapes[k];
      // What it leaves open where all is known, the data tell.
      for (int d = 0; all_known && s.has_rank() && d < s.rank(); ++d)
        if (!s[d].known()) s.set(d, ctx.unbacked(int(k) * kUnbackedStride + d));
      ctx.set_out(int(k), std::move(s));
    }
  };
}

// ---- meaning ----

FCodeGen CodeOf(const SharedOp& op) {
  return FCodeGen([op](const NodePtr& n, const Exprs& inputs) {
    DTypes types;
    for (const Expr& e : inputs) types.push_back(e ? e->dtype() : DType::kUnknown);
    std::shared_ptr<const Meaning> meaning;
    try {
      meaning = op->MeaningOf(n, types);
    } catch (Error& e) {
      e.AddPlace(n->Describe());
      throw;
    }
    Exprs values;
    for (const Expr& v : meaning->values)
      values.push_back(RewriteExpr(v, [&](const Expr& leaf) -> Expr {
        const int slot = leaf->slot();
        if (slot < 0 || size_t(slot) >= inputs.size() || !inputs[size_t(slot)]) return {};
        return Expr::Cast(leaf->dtype(), inputs[size_t(slot)]);
      }));
    return values;
  });
}

// ---- numpy ----

/// The results of FCompute; their dtypes are those that were inferred.
std::vector<TensorPtr> Computed(const DefinedOp& op, const NodePtr& n,
                                const std::vector<TensorPtr>& inputs, const DTypes& outputs) {
  nb::list arguments;
  for (const TensorPtr& t : inputs) arguments.append(ToArray(t, true));
  const HeldObject f = op.Function(&DefinedOp::compute);
  const nb::object given = f.get()(*nb::tuple(arguments), **op.Keywords(n));
  std::vector<TensorPtr> results;
  const std::vector<nb::object> items = op.Results(given);
  for (size_t k = 0; k < items.size(); ++k) {
    const std::string name = std::to_string(k);
    TensorPtr t = ToTensor(items[k], {{}, "result", &name});
    WEFT_CHECK(t->is_tensor() && t->dtype() == outputs[k], kTypeMismatch,
               "result {} is {}, {} was inferred", k, t->type().ToString(), DTypeName(outputs[k]));
    results.push_back(std::move(t));
  }
  return results;
}

/// Dtypes and shapes of the results at these operands.
Graph InferredFor(const NodePtr& n, const std::vector<TensorPtr>& inputs) {
  Graph g;
  std::vector<NodeEntry> operands, entries;
  for (const TensorPtr& t : inputs)
    operands.push_back(t ? NodeEntry(g.AddParam("", t)) : NodeEntry());
  const NodePtr copy = g.AddNode(n->op(), operands, n->attrs.dict, n->attrs.name);
  for (uint32_t k = 0; k < copy->num_outputs(); ++k) entries.emplace_back(copy, k);
  g.outputs = entries;
  PassOptions plain;
  plain.verify = false;
  return ProvideTypes(std::move(g), plain);
}

FHostEval EvalOf(const SharedOp& op) {
  return [op](const NodePtr& n, const std::vector<TensorPtr>& inputs) {
    const Graph inferred = InferredFor(n, inputs);
    DTypes types;
    std::vector<Shape> shapes;
    for (const NodeEntry& e : inferred.outputs) {
      types.push_back(inferred.GetAttr<TypeMap>("dtype")[e].dtype);
      shapes.push_back(inferred.GetAttr<ShapeMap>("shape")[e]);
    }
    return WithPython(op->Who("FCompute"), [&] {
      std::vector<TensorPtr> own, results;
      for (const TensorPtr& t : inputs) own.push_back(t ? OwnCopy(t) : t);
      // What it gives may be written to, or be a view of its operands.
      for (const TensorPtr& t : Computed(*op, n, own, types)) {
        const size_t k = results.size();
        const Shape& want = shapes[k];
        bool fits = !want.has_rank() || want.rank() == t->rank();
        for (int d = 0; fits && want.has_rank() && d < want.rank(); ++d)
          fits = !want[d].is_const() || want[d].value() == t->dims()[size_t(d)];
        WEFT_CHECK(fits, kShapeMismatch, "result {} has the shape {}, {} was inferred", k,
                   t->shape().ToString(), want.ToString());
        results.push_back(OwnCopy(t));
      }
      return results;
    });
  };
}

class NumpyCall final : public LibraryCall {
 public:
  NumpyCall(SharedOp op, ComputeRequest request)
      : op_(std::move(op)), request_(std::move(request)) {}
  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    const ComputeRequest& r = request_;
    try {
      WithPython(op_->Who("FCompute"), [&] {
        // Copies: it may keep what it is given.
        std::vector<TensorPtr> own;
        for (size_t i = 0; i < r.input_dims.size(); ++i) {
          if (r.input_types[i] == DType::kUnknown) {
            own.emplace_back();
            continue;
          }
          auto t = std::make_shared<Tensor>(r.input_types[i], r.input_dims[i]);
          if (t->num_bytes() > 0) std::memcpy(t->mutable_data(), inputs[i], size_t(t->num_bytes()));
          own.push_back(std::move(t));
        }
        const std::vector<TensorPtr> results = Computed(*op_, r.node, own, r.output_types);
        for (size_t k = 0; k < results.size(); ++k) {
          const Tensor& t = *results[k];
          WEFT_CHECK(t.dims() == r.output_dims[k], kShapeMismatch,
                     "result {} has the shape {}, {} was inferred", k, t.shape().ToString(),
                     Shape::OfInts(r.output_dims[k]).ToString());
          if (t.num_bytes() > 0) std::memcpy(outputs[k], t.data(), size_t(t.num_bytes()));
        }
        return true;
      });
    } catch (Error& e) {
      e.AddPlace(r.node->Describe());
      throw;
    }
  }
  std::string description() const override { return op_->Who("FCompute"); }

 private:
  SharedOp op_;
  ComputeRequest request_;
};

FCompute ComputeOf(const SharedOp& op) {
  return [op](const ComputeRequest& request) -> std::unique_ptr<PreparedCall> {
    for (const auto* types : {&request.input_types, &request.output_types})
      for (const DType t : *types)
        if (t == DType::kString) return nullptr;
    return std::make_unique<NumpyCall>(op, request);
  };
}

// ---- rules ----

std::vector<NodeEntry> EntriesFrom(const SharedGraph& graph, nb::handle given) {
  std::vector<NodeEntry> entries;
  const auto add = [&](nb::handle item) {
    PyEntry e;
    if (item.is_none()) {
      entries.emplace_back();
    } else if (nb::try_cast(item, e)) {
      entries.push_back(EntriesIn(graph, {e})[0]);
    } else {
      ThrowError(ErrorCode::kTypeMismatch, "a " + TypeNameOf(item) + " where an entry is expected");
    }
  };
  if (PyTuple_Check(given.ptr()) || PyList_Check(given.ptr())) {
    for (const nb::handle item : nb::borrow<nb::sequence>(given)) add(item);
  } else {
    add(given);
  }
  return entries;
}

FGradient GradientOf(const std::string& name, HeldObject f) {
  const std::string who = "FGradient of operator '" + name + "'";
  return [who, f](const NodePtr& n, const std::vector<NodeEntry>& dy) {
    Graph* const g = GradientGraph();
    WEFT_CHECK(g && g->store() == n->store(), kUnsupported,
               "{} is asked for outside of the making of gradients", who);
    const LentGraph lent(g);
    return WithPython(who, [&] {
      nb::list arguments;
      arguments.append(NodeOf(lent.graph(), n));
      for (const NodeEntry& e : dy) arguments.append(EntryObject(lent.graph(), e));
      std::vector<NodeEntry> dx = EntriesFrom(lent.graph(), f.get()(*nb::tuple(arguments)));
      WEFT_CHECK(dx.size() == n->num_inputs(), kApiMisuse, "{} gradients for {} operands",
                 dx.size(), n->num_inputs());
      return dx;
    });
  };
}

/// What an FSimplify may ask for; good for the time of its call.
struct PyFacts {
  RewriteContext* context = nullptr;
  SharedGraph graph;
  NodeEntry In(const PyEntry& e) const {
    WEFT_CHECK(context, kApiMisuse, "the facts of a rewrite are used after it");
    return EntriesIn(graph, {e})[0];
  }
};

FSimplify SimplifyOf(const std::string& name, HeldObject f) {
  const std::string who = "FSimplify of operator '" + name + "'";
  return [who, f](RewriteContext& context, const NodePtr& n) {
    const LentGraph lent(&context.graph());
    try {
      return WithPython(who, [&] {
        auto facts = std::make_shared<PyFacts>();
        struct End {
          PyFacts& facts;
          ~End() { facts = {}; }
        } const end{*facts};
        facts->context = &context;
        facts->graph = lent.graph();
        const nb::object given = f.get()(NodeOf(lent.graph(), n), facts);
        return given.is_none() ? std::vector<NodeEntry>() : EntriesFrom(lent.graph(), given);
      });
    } catch (Error& e) {
      e.AddPlace(n->Describe());
      throw;
    }
  };
}

// ---- registration ----

/// Those that were defined here, by name, for what is added to them later. With the lock of the
/// interpreter.
std::map<std::string, SharedOp>& Defined() {
  static auto* defined = new std::map<std::string, SharedOp>;
  return *defined;
}

/// An optional function: null for None.
HeldObject FunctionIn(const nb::dict& functions, const char* name) {
  if (!functions.contains(name) || nb::object(functions[name]).is_none()) return {};
  nb::object f = functions[name];
  if (!PyCallable_Check(f.ptr()))
    ThrowError(ErrorCode::kTypeMismatch,
               std::string(name) + " is a " + TypeNameOf(f) + ", which cannot be called");
  return HeldObject(std::move(f));
}

Owner OwnerAt(const nb::dict& place) {
  return Owner::At(nb::cast<std::string>(place["module"]), nb::cast<std::string>(place["file"]),
                   nb::cast<int>(place["line"]));
}

void Commit(OpBuilder& builder) {
  // Others may hold the registry and want the interpreter's lock.
  const nb::gil_scoped_release released;
  try {
    builder.Commit();
  } catch (Error& e) {
    if (e.code() == ErrorCode::kDuplicate) e.SetHint("override=True replaces what has the name");
    throw;
  }
}

void DefineOp(const std::string& name, const nb::dict& place, const std::string& doc,
              const nb::list& inputs, const nb::list& outputs, const nb::list& attributes,
              const nb::dict& functions, nb::handle signature, bool replaces) {
  const ParamSchema* schema = DeclareAttributes(name, attributes);
  const auto op = std::make_shared<DefinedOp>(name, int(nb::len(outputs)), schema);
  op->expression = FunctionIn(functions, "expression");
  op->infer_type = FunctionIn(functions, "FInferType");
  op->infer_shape = FunctionIn(functions, "FInferShape");
  op->compute = FunctionIn(functions, "FCompute");
  OpBuilder builder(name, OwnerAt(place));
  if (replaces)
    builder.override_op();
  else
    builder.define();
  builder.describe(doc).set_schema(schema);
  for (const nb::handle item : inputs) {
    const std::string argument = nb::cast<std::string>(item[0]);
    const std::string kind = nb::cast<std::string>(item[1]);
    if (kind == "variadic")
      builder.variadic_input(argument, "any");
    else if (kind == "optional")
      builder.optional_input(argument, "any");
    else
      builder.input(argument, "any");
  }
  for (const nb::handle item : outputs) builder.output(nb::cast<std::string>(item), "any");
  FInferType types;
  FInferShape shapes;
  if (!signature.is_none()) {
    const OpSignature s(nb::cast<std::string>(signature));
    WEFT_CHECK(s.num_outputs() == op->num_outputs(), kApiMisuse,
               "the signature has {} outputs, operator '{}' {}", s.num_outputs(), name,
               op->num_outputs());
    types = s.types();
    shapes = s.shapes();
  }
  builder.set_attr<FInferType>("FInferType", TypesOf(op, std::move(types)));
  if (op->expression) {
    builder.include("ElementwiseVariadic");
    builder.set_attr<FCodeGen>("FCodeGen", CodeOf(op));
    // The group's rule: as operands broadcast.
    if (op->infer_shape) builder.set_attr<FInferShape>("FInferShape", ShapesOf(op, nullptr));
  } else {
    builder.set_attr<FInferShape>("FInferShape", ShapesOf(op, shapes));
  }
  if (op->compute) {
    builder.set_attr<FCompute>("FCompute", ComputeOf(op));
    builder.set_attr<FHostEval>("FHostEval", EvalOf(op));
  }
  if (HeldObject f = FunctionIn(functions, "FGradient"))
    builder.set_attr<FGradient>("FGradient", GradientOf(name, std::move(f)));
  if (HeldObject f = FunctionIn(functions, "FSimplify"))
    builder.set_attr<FSimplify>("FSimplify", SimplifyOf(name, std::move(f)));
  Commit(builder);
  Defined()[name] = op;
}

/// A function for an operator that was defined without it.
void AddToOp(const std::string& name, const nb::dict& place, const std::string& attribute,
             const nb::dict& functions) {
  const auto it = Defined().find(name);
  WEFT_CHECK(it != Defined().end(), kApiMisuse, "operator '{}' was not defined by weft.op", name);
  const SharedOp op = it->second;
  HeldObject f = FunctionIn(functions, attribute.c_str());
  WEFT_CHECK(f, kTypeMismatch, "{} is None, which cannot be called", attribute);
  OpBuilder builder(name, OwnerAt(place));
  HeldObject DefinedOp::*function = nullptr;
  bool registers = true;  // else it is registered, and asks for the function
  if (attribute == "FGradient") {
    builder.set_attr<FGradient>("FGradient", GradientOf(name, f));
  } else if (attribute == "FSimplify") {
    builder.set_attr<FSimplify>("FSimplify", SimplifyOf(name, f));
  } else if (attribute == "FCompute") {
    function = &DefinedOp::compute;
    builder.set_attr<FCompute>("FCompute", ComputeOf(op));
    builder.set_attr<FHostEval>("FHostEval", EvalOf(op));
  } else if (attribute == "FInferShape") {
    function = &DefinedOp::infer_shape;
    registers = bool(op->expression);
    if (registers) builder.set_attr<FInferShape>("FInferShape", ShapesOf(op, nullptr));
  } else {
    WEFT_CHECK(attribute == "FInferType", kApiMisuse, "an operator has no function '{}'",
               attribute);
    function = &DefinedOp::infer_type;
    registers = false;
  }
  // It is there before anyone can ask for it, and only where there was none.
  const bool added = function && op->Add(function, f);
  try {
    if (registers) Commit(builder);  // which names both owners
    if (function && !added)
      ThrowError(ErrorCode::kDuplicate, "operator '" + name + "' has an " + attribute + " already",
                 "", "override=True of weft.op defines the operator anew");
  } catch (...) {
    if (added) op->Remove(function);
    throw;
  }
}

}  // namespace

void BindDefinedOps(nb::module_& m) {
  nb::class_<PyFacts>(m, "RewriteFacts",
                      "What an FSimplify may ask about the entries around its node. Good for the "
                      "time of its call.")
      .def(
          "dtype",
          [](const PyFacts& f, const PyEntry& e) {
            const NodeEntry entry = f.In(e);
            return TypeObject(Type(f.context->dtype(entry)));
          },
          "entry"_a, nb::sig("def dtype(self, entry: Entry) -> str | None"))
      .def(
          "shape",
          [](const PyFacts& f, const PyEntry& e) {
            const NodeEntry entry = f.In(e);
            return ShapeObject(f.context->shape(entry));
          },
          "entry"_a,
          nb::sig("def shape(self, entry: Entry) -> tuple[int | str | None, ...] | None"))
      .def(
          "constant",
          [](const PyFacts& f, const PyEntry& e) {
            const NodeEntry entry = f.In(e);
            const TensorPtr value = f.context->constant(entry);
            return value ? ToArray(value, false) : nb::object(nb::none());
          },
          "entry"_a, nb::sig("def constant(self, entry: Entry) -> typing.Any"),
          "What it holds where that is known, as a read-only array; else None.")
      .def(
          "same_shape",
          [](const PyFacts& f, const PyEntry& a, const PyEntry& b) {
            const NodeEntry x = f.In(a), y = f.In(b);
            return f.context->same_shape(x, y);
          },
          "a"_a, "b"_a, "Proved: both ranks are known and all dimensions equal.");
  m.def("_define_op", DefineOp, "name"_a, nb::kw_only(), "place"_a, "doc"_a, "inputs"_a,
        "outputs"_a, "attributes"_a, "functions"_a, "signature"_a.none(), "replaces"_a,
        nb::sig("def _define_op(name: str, *, place: dict[str, typing.Any], doc: str, inputs: "
                "list[tuple[str, str]], outputs: list[str], attributes: list[dict[str, "
                "typing.Any]], functions: dict[str, typing.Any], signature: str | None, replaces: "
                "bool) -> None"));
  m.def("_add_to_op", AddToOp, "name"_a, nb::kw_only(), "place"_a, "attribute"_a, "functions"_a,
        nb::sig("def _add_to_op(name: str, *, place: dict[str, typing.Any], attribute: str, "
                "functions: dict[str, typing.Any]) -> None"));
}

}  // namespace weft::python
