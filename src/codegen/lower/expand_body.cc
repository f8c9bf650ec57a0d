/// expand_body.cc: what a body of operators computes, as one expression per output.
///
/// Every entry becomes, once and in topological order, an expression over Index(0 .. rank - 1) of
/// its own space. A consumer reads it by substituting the indices it wants, which is free where it
/// wants the same ones: a chain of element-wise ops costs one step an op and no recursion.
#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>

#include "weft/codegen/expr/low_bit.h"
#include "weft/codegen/lower/lower.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// A constant of up to this many elements may be read at a computed index: it becomes a chain of
/// selects. Larger ones have to be inputs.
constexpr int64_t kMaxInlineElements = 16;

Indices IdentityIndices(int rank) {
  Indices at;
  for (int i = 0; i < rank; ++i) at.push_back(Expr::Index(i));
  return at;
}

Expr ElementOf(const Tensor& t, int64_t i) {
  uint64_t bits = 0;
  const size_t width = size_t(DTypeBytes(t.dtype(), 1));
  std::memcpy(&bits, static_cast<const char*>(t.data()) + size_t(i) * width, width);
  return Expr::ConstBits(t.dtype(), bits);
}

SymTensorPtr ValueOf(const Tensor& t) {
  if (!IsInt(t.dtype()) && t.dtype() != DType::kBool) return nullptr;
  if (t.num_elements() > kMaxSymTensor) return nullptr;
  auto value = std::make_shared<SymTensor>();
  value->dims = t.dims();
  for (int64_t i = 0; i < t.num_elements(); ++i) value->elements.push_back(SymInt(t.at_int(i)));
  return value;
}

/// A tensor constant inside a body as an expression over its indices; null where it is too large.
Expr InlineConstant(const Tensor& t) {
  if (!IsComputable(t.dtype()) || t.num_elements() < 1 || t.num_elements() > kMaxInlineElements)
    return {};
  Expr e = ElementOf(t, 0);
  if (t.num_elements() == 1) return e;
  const Expr at = Linearize(IdentityIndices(t.rank()), t.shape().dims());
  for (int64_t i = 1; i < t.num_elements(); ++i)
    e = Expr::Select(Eq(at, Expr::Int(i)), ElementOf(t, i), e);
  return e;
}

/// Types of one graph's entries, with the checks that code generation needs.
class Types {
 public:
  explicit Types(const Graph& graph)
      : shapes_(graph.GetAttr<ShapeMap>("shape")), types_(graph.GetAttr<TypeMap>("dtype")) {
    if (graph.HasAttr("value")) values_ = &graph.GetAttr<EntryMap<SymTensorPtr>>("value");
  }
  TensorSpec Spec(const NodeEntry& e) const {
    const Shape& shape = shapes_[e];
    const Type type = types_[e];
    WEFT_CHECK(shape.has_rank() && shape.fully_known(), kUnsupported,
               "{}: code generation needs the shape of output {}, which is {}", e.node->Describe(),
               e.index, shape.ToString());
    WEFT_CHECK(type.is_tensor() && (IsComputable(type.dtype) || IsLowBit(type.dtype)), kUnsupported,
               "{}: no code for values of type {}", e.node->Describe(), type.ToString());
    return {type.dtype, shape.dims()};
  }
  /// Throws unless the code of `n` takes every operand and result as it is.
  void CheckTaken(const NodePtr& n) const {
    static const OpMap<TTakesLowBit>& taken = Op::GetAttr<TTakesLowBit>("TTakesLowBit");
    const auto check = [&](const NodeEntry& e) {
      WEFT_CHECK(!e.node || !IsLowBit(dtype(e)) || taken.get(n->op(), false), kUnsupported,
                 "{}: no code for values of type {}", n->Describe(), DTypeName(dtype(e)));
    };
    for (const NodeEntry& e : n->inputs) check(e);
    for (uint32_t k = 0; k < n->num_outputs(); ++k) check(NodeEntry(n, k));
  }
  /// Shape and dtype of anything, for arguments whose elements nothing reads.
  Shape shape(const NodeEntry& e) const { return shapes_[e]; }
  DType dtype(const NodeEntry& e) const { return types_[e].dtype; }
  SymTensorPtr Value(const NodeEntry& e) const {
    if (const SymTensorPtr* v = values_ ? values_->find(e) : nullptr; v && *v) return *v;
    if (const TensorPtr t = Graph::ConstantOf(e)) return ValueOf(*t);
    return nullptr;
  }

 private:
  const ShapeMap& shapes_;
  const TypeMap& types_;
  const EntryMap<SymTensorPtr>* values_ = nullptr;
};

// ---- numbers of few bits ----

int64_t ElementsPerByte(DType t) { return 8 / DTypeBits(t); }
Expr ByteConst(int64_t v) { return Expr::ConstInt(DType::kU8, v); }

/// The tensor `t` as it lies.
TensorSpec StorageOf(const TensorSpec& t) {
  if (!IsLowBit(t.dtype)) return t;
  TensorSpec bytes{DType::kU8, t.dims, t.dtype, t.dims};
  if (ElementsPerByte(t.dtype) > 1)
    bytes.dims = {CeilDiv(Product(t.dims), SymInt(ElementsPerByte(t.dtype)))};
  return bytes;
}

/// The element of tensor `t`, operand number `slot`, at its own position.
Expr LoadElement(int slot, const TensorSpec& t) {
  const Indices at = IdentityIndices(int(t.dims.size()));
  if (!IsLowBit(t.dtype)) return Expr::Load(slot, t.dtype, at);
  const int64_t count = ElementsPerByte(t.dtype), bits = DTypeBits(t.dtype);
  if (count == 1) return LowBitValue(t.dtype, Expr::Load(slot, DType::kU8, at));
  const Expr i = Linearize(at, t.dims);
  const Expr byte =
      Expr::Load(slot, DType::kU8, {Expr::Binary(BinOp::kFloorDiv, i, Expr::Int(count))});
  const Expr place =
      Expr::Cast(DType::kU8, Expr::Binary(BinOp::kFloorMod, i, Expr::Int(count)) * Expr::Int(bits));
  return LowBitValue(t.dtype, Expr::Binary(BinOp::kAnd, Expr::Binary(BinOp::kShr, byte, place),
                                           ByteConst((1 << bits) - 1)));
}

/// What is stored at a position of StorageOf(t) for the values `value` over t.
Expr StoredElement(const TensorSpec& t, const Expr& value) {
  if (!IsLowBit(t.dtype)) return value;
  const int64_t count = ElementsPerByte(t.dtype), bits = DTypeBits(t.dtype);
  if (count == 1) return LowBitCode(t.dtype, value);
  const SymInt elements = Product(t.dims);
  const bool full = elements.is_const() && elements.value() % count == 0;
  const Expr last = Expr::Dim(elements - 1);
  Expr byte;
  for (int64_t k = 0; k < count; ++k) {
    Expr i = Expr::Index(0) * Expr::Int(count) + Expr::Int(k);
    // The last byte may hold fewer: what is not there is neither computed nor 1.
    const bool guarded = k > 0 && !full;
    const Expr inside = guarded ? Le(i, last) : Expr();
    if (guarded) i = Min(i, last);
    Expr code = LowBitCode(t.dtype, SubstituteIndices(value, Delinearize(i, t.dims)));
    if (k > 0) code = Expr::Binary(BinOp::kShl, code, ByteConst(k * bits));
    if (guarded) code = Expr::Select(inside, code, ByteConst(0));
    byte = k == 0 ? code : Expr::Binary(BinOp::kOr, byte, code);
  }
  return byte;
}

/// What is left of a value between two operators.
Expr Rounded(DType t, const Expr& value) {
  return IsLowBit(t) ? LowBitValue(t, LowBitCode(t, value)) : value;
}

OutputAt IdentityAt(const NodePtr& node, const Types& types) {
  OutputAt at;
  for (uint32_t k = 0; k < node->num_outputs(); ++k) {
    TensorSpec spec = types.Spec({node, k});
    at.index.push_back(IdentityIndices(int(spec.dims.size())));
    at.shape.push_back(Shape(std::move(spec.dims)));
    at.dtype.push_back(spec.dtype);
  }
  return at;
}

/// Reads an expression of some space at given indices; repeated questions are answered from memory.
class Reader {
 public:
  explicit Reader(Expr value) : value_(std::move(value)) {}
  Expr operator()(const Indices& at) {
    for (const auto& [indices, result] : recent_) {
      if (indices == at) return result;
    }
    Expr result = SubstituteIndices(value_, at);
    if (recent_.size() < 8) recent_.emplace_back(at, result);
    return result;
  }
  const Expr& value() const { return value_; }

 private:
  Expr value_;
  std::vector<std::pair<Indices, Expr>> recent_;
};

struct EntryHash {
  size_t operator()(const NodeEntry& e) const { return CombineHash(e.node->id(), e.index); }
};
// looked up only
using Readers = std::unordered_map<NodeEntry, std::shared_ptr<Reader>, EntryHash>;

TensorArg MakeArg(const NodeEntry& e, const Types& types, const std::shared_ptr<Reader>& reader,
                  std::deque<SymTensorPtr>* alive) {
  TensorArg arg;
  if (!e) {
    arg.present = false;
    return arg;
  }
  arg.shape = types.shape(e);
  arg.dtype = types.dtype(e);
  if (SymTensorPtr value = types.Value(e)) {
    arg.value = value.get();
    alive->push_back(std::move(value));
  }
  if (reader) {
    WEFT_CHECK(arg.shape.fully_known(), kUnsupported,
               "{}: code generation needs the shape of output {}, which is {}", e.node->Describe(),
               e.index, arg.shape.ToString());
    arg.read = [reader, rank = arg.rank()](const Indices& at) {
      WEFT_ICHECK(int(at.size()) == rank, "{} indices for an operand of rank {}", at.size(), rank);
      return (*reader)(at);
    };
  } else {
    arg.read = [e](const Indices&) -> Expr {
      WEFT_THROW(kUnsupported,
                 "{}: a constant of more than {} elements inside a body is read at a computed "
                 "index; make it an input",
                 e.node->Describe(), kMaxInlineElements);
    };
  }
  return arg;
}

bool IsConstant(const NodePtr& n) { return bool(Graph::ConstantOf({n, 0})); }

void CheckAllHaveCode(const std::vector<NodePtr>& nodes) {
  const OpMap<FCodeGen>& codes = Op::GetAttr<FCodeGen>("FCodeGen");
  std::string missing;
  std::vector<const Op*> named;
  for (const NodePtr& n : nodes) {
    if (n->is_variable() || IsConstant(n) || codes.find(n->op())) continue;
    if (std::find(named.begin(), named.end(), n->op()) != named.end()) continue;
    named.push_back(n->op());
    missing += (missing.empty() ? "" : ", ") + n->op()->name;
  }
  WEFT_CHECK(missing.empty(), kMissingOpAttr, "no FCodeGen for {}", missing);
}

}  // namespace

ComputeSpec ExpandBody(const Graph& body) {
  const std::vector<NodePtr> order = body.TopoOrder();
  CheckAllHaveCode(order);
  const Types types(body);
  ComputeSpec spec;
  Readers readers;
  for (const NodePtr& input : body.inputs()) {
    const TensorSpec t = types.Spec({input, 0});
    readers[{input, 0}] = std::make_shared<Reader>(LoadElement(int(spec.inputs.size()), t));
    spec.inputs.push_back(StorageOf(t));
  }
  std::deque<SymTensorPtr> alive;
  for (const NodePtr& node : order) {
    if (const TensorPtr t = Graph::ConstantOf({node, 0})) {
      if (Expr e = InlineConstant(*t)) readers[{node, 0}] = std::make_shared<Reader>(std::move(e));
      continue;
    }
    if (node->is_variable()) {
      WEFT_CHECK(readers.count({node, 0}), kApiMisuse,
                 "{} is neither an input of the body nor a constant", node->Describe());
      continue;
    }
    types.CheckTaken(node);
    std::vector<TensorArg> args;
    for (const NodeEntry& e : node->inputs) {
      const auto it = e ? readers.find(e) : readers.end();
      args.push_back(MakeArg(e, types, it == readers.end() ? nullptr : it->second, &alive));
    }
    const Exprs values = ExpandNode(node, args, IdentityAt(node, types));
    for (uint32_t k = 0; k < values.size(); ++k)
      readers[{node, k}] = std::make_shared<Reader>(Rounded(types.dtype({node, k}), values[k]));
  }
  for (const NodeEntry& e : body.outputs) {
    const TensorSpec t = types.Spec(e);
    spec.outputs.push_back(StorageOf(t));
    const auto it = readers.find(e);
    WEFT_CHECK(it != readers.end(), kUnsupported,
               "{}: a body cannot hand out a constant of more than {} elements", e.node->Describe(),
               kMaxInlineElements);
    spec.values.push_back(StoredElement(t, it->second->value()));
  }
  return spec;
}

ComputeSpec ExpandSingle(const Graph& graph, const NodePtr& node) {
  WEFT_ICHECK(!node->is_variable(), "{} is a variable", node->Describe());
  CheckAllHaveCode({node});
  const Types types(graph);
  types.CheckTaken(node);
  ComputeSpec spec;
  std::vector<TensorArg> args;
  std::deque<SymTensorPtr> alive;
  for (const NodeEntry& e : node->inputs) {
    if (!e) {
      args.push_back(MakeArg(e, types, nullptr, &alive));
      continue;
    }
    const TensorSpec t = types.Spec(e);
    Expr value = LoadElement(int(spec.inputs.size()), t);
    spec.inputs.push_back(StorageOf(t));
    // A scalar constant is better known than read; its slot stays, so that slots are the present
    // inputs.
    if (const TensorPtr c = Graph::ConstantOf(e);
        c && c->num_elements() == 1 && IsComputable(c->dtype()))
      value = ElementOf(*c, 0);
    args.push_back(MakeArg(e, types, std::make_shared<Reader>(std::move(value)), &alive));
  }
  const OutputAt at = IdentityAt(node, types);
  spec.values = ExpandNode(node, args, at);
  for (size_t k = 0; k < spec.values.size(); ++k) {
    const TensorSpec t{at.dtype[k], at.shape[k].dims()};
    spec.values[k] = StoredElement(t, spec.values[k]);
    spec.outputs.push_back(StorageOf(t));
  }
  return spec;
}

std::optional<ComputeSpec> TryExpand(const Graph& graph, const NodePtr& node, std::string* why) {
  try {
    return IsOp(node, builtin::kFused) ? ExpandBody(*FusedBody(node)) : ExpandSingle(graph, node);
  } catch (const UserError& e) {
    if (why) *why = e.message();
    return std::nullopt;
  }
}

}  // namespace weft
