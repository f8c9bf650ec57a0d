/// kernel.cc: identity, verification and cost of kernels.
///
/// The canonical text numbers nodes in the order of their first use from the stores and holds
/// everything a printer reads and nothing else, so that equal texts may share one binary.
#include "weft/codegen/kernel/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/expr/expr_pool.h"
#include "weft/core/plan/size_hints.h"
#include "weft/support/check.h"

namespace weft {
namespace {

Exprs Roots(const Kernel& kernel) {
  Exprs roots;
  for (const KernelStore& s : kernel.stores) {
    roots.push_back(s.offset);
    roots.push_back(s.value);
  }
  return roots;
}

std::string OperationText(const ExprNode& n) {
  switch (n.kind()) {
    case ExprKind::kConst:
      return fmt::format("const {:#x}", n.bits());
    case ExprKind::kDim:
      return "dim " + n.dim().ToString();
    case ExprKind::kIndex:
      return fmt::format("index {}", n.index());
    case ExprKind::kReduceVar:
      return fmt::format("var {}.{}", n.level(), n.index());
    case ExprKind::kVariable:
      return n.slot() < 0 ? "variable " + n.name() : fmt::format("slot {}", n.slot());
    case ExprKind::kLoad:
      return fmt::format("load{} {}", n.has_guard() ? ".guarded" : "", n.buffer());
    case ExprKind::kUnary:
      return fmt::format("un {}", int(n.un_op()));
    case ExprKind::kBinary:
      return fmt::format("bin {}", int(n.bin_op()));
    case ExprKind::kSelect:
      return "select";
    case ExprKind::kCast:
      return "cast";
    case ExprKind::kBitcast:
      return "bitcast";
    case ExprKind::kFma:
      return "fma";
    case ExprKind::kCall:
      return fmt::format("call {}", int(n.call()));
    case ExprKind::kPhilox:
      return "philox";
    case ExprKind::kReduce: {
      std::string text = fmt::format("reduce {}.{} [", int(n.reduce_op()), n.level());
      for (size_t i = 0; i < n.extents().size(); ++i)
        text += (i ? ", " : "") + n.extents()[i].ToString();
      return text + "]";
    }
  }
  return "?";
}

std::string MakeText(const Kernel& k) {
  std::string out =
      fmt::format("{} outer {} vector {} inputs {} symbols {} small {}\ndims", FormName(k),
                  k.num_outer, k.vector_loop, k.num_inputs, k.num_symbols, int(k.small_index));
  for (SymInt d : k.dims) out += fmt::format(" [{}]", d.ToString());
  out += '\n';
  for (const KernelBuffer& b : k.buffers)
    out += fmt::format("{} {} [{}]\n", b.is_output ? "out" : "in", DTypeName(b.dtype),
                       b.num_elements.ToString());
  ExprMap<int> number;
  for (const ExprNode* n : PostOrder(Roots(k))) {
    const int id = int(number.size());
    number.Set(n, id);
    out += fmt::format("%{} = {} {}", id, DTypeName(n->dtype()), OperationText(*n));
    for (const Expr& o : n->operands()) out += fmt::format(" %{}", *number.Find(o.get()));
    out += '\n';
  }
  for (const KernelStore& s : k.stores)
    out += fmt::format("{}{} {} %{} %{}\n", s.flag ? "flag" : "store", s.per_row ? ".row" : "",
                       s.buffer, *number.Find(s.offset.get()), *number.Find(s.value.get()));
  return out;
}

void VerifySymbols(SymInt e, int num_symbols) {
  for (SymInt s : e.Symbols()) ExtentNumber(s, num_symbols);
}

void VerifyNode(const Kernel& k, const ExprNode& n) {
  const int symbols = k.num_symbols;
  switch (n.kind()) {
    case ExprKind::kConst:
      WEFT_ICHECK(!n.is_literal(), "literal {} without a type", n.const_value());
      break;
    case ExprKind::kDim:
      VerifySymbols(n.dim(), symbols);
      break;
    case ExprKind::kIndex:
      WEFT_ICHECK(n.index() < int(k.dims.size()), "index {} of {} loops", n.index(), k.dims.size());
      break;
    case ExprKind::kReduceVar:
      WEFT_ICHECK(!ExprPool::IsTemp(n), "variable of an open reduction");
      break;
    case ExprKind::kVariable:
      WEFT_ICHECK(false, "free variable {}", n.slot() < 0 ? n.name() : std::to_string(n.slot()));
      break;
    case ExprKind::kLoad:
      WEFT_ICHECK(n.buffer() < k.num_inputs, "load of buffer {} of {} inputs", n.buffer(),
                  k.num_inputs);
      WEFT_ICHECK(n.num_indices() == 1, "load with {} indices", n.num_indices());
      WEFT_ICHECK(n.dtype() == k.buffers[n.buffer()].dtype, "load of {} from a buffer of {}",
                  DTypeName(n.dtype()), DTypeName(k.buffers[n.buffer()].dtype));
      break;
    case ExprKind::kReduce:
      for (SymInt e : n.extents()) VerifySymbols(e, symbols);
      if (k.has_rows()) {
        WEFT_ICHECK(n.extents() == k.row_dims(),
                    "a reduction of a row kernel is not over its row loops");
        for (const ExprNode* inner : PostOrder({n.operand(0)}))
          WEFT_ICHECK(inner->kind() != ExprKind::kIndex || inner->index() < k.num_outer,
                      "a row reduction depends on row loop {}", inner->index());
      }
      break;
    default:
      break;
  }
}

/// Rough cost of one operation in units of an addition, from the length of the generated
/// polynomials.
double OperationCost(const ExprNode& n) {
  switch (n.kind()) {
    case ExprKind::kUnary:
      return n.un_op() == UnOp::kSqrt ? 4 : 1;
    case ExprKind::kBinary:
      switch (n.bin_op()) {
        case BinOp::kDiv:
        case BinOp::kMod:
        case BinOp::kFloorDiv:
        case BinOp::kFloorMod:
          return 4;
        default:
          return 1;
      }
    case ExprKind::kSelect:
    case ExprKind::kCast:
    case ExprKind::kFma:
    case ExprKind::kReduce:
      return 1;
    case ExprKind::kCall:
      switch (n.call()) {
        case CallOp::kPow:
          return 40;
        case CallOp::kRsqrt:
          return 5;
        case CallOp::kExp:
        case CallOp::kLog:
        case CallOp::kSigmoid:
          return 12;
        default:
          return 18;
      }
    case ExprKind::kPhilox:
      return 60;
    default:
      return 0;
  }
}

}  // namespace

const std::string& Kernel::CanonicalText() const {
  WEFT_ICHECK(!text_.empty(), "kernel is not finished");
  return text_;
}

Hash128 Kernel::Key() const {
  WEFT_ICHECK(!text_.empty(), "kernel is not finished");
  return key_;
}

std::string Kernel::Name() const { return "weft_" + Key().ToHex().substr(0, 16); }

void Kernel::Finish() {
  const int loops = int(dims.size()), symbols = num_symbols;
  WEFT_ICHECK(num_inputs >= 0 && num_inputs <= int(buffers.size()), "{} inputs of {} buffers",
              num_inputs, buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const KernelBuffer& b = buffers[i];
    WEFT_ICHECK(b.is_output == (int(i) >= num_inputs), "buffer {}: inputs come first", i);
    WEFT_ICHECK(IsComputable(b.dtype), "buffer {} of type {}", i, DTypeName(b.dtype));
    WEFT_ICHECK(b.num_elements.known(), "buffer {} of unknown size", i);
    VerifySymbols(b.num_elements, symbols);
  }
  for (SymInt d : dims) {
    WEFT_ICHECK(d.known(), "loop of unknown size");
    VerifySymbols(d, symbols);
  }
  WEFT_ICHECK(has_rows() ? num_outer >= 0 && num_outer < loops : num_outer == loops,
              "{} outer loops of {}", num_outer, loops);
  WEFT_ICHECK(loops == 0 ? vector_loop == -1 : vector_loop >= 0 && vector_loop < loops,
              "vector loop {} of {}", vector_loop, loops);
  std::vector<int> stored(buffers.size());
  for (const KernelStore& s : stores) {
    WEFT_ICHECK(s.buffer >= num_inputs && s.buffer < int(buffers.size()), "store to buffer {}",
                s.buffer);
    WEFT_ICHECK(s.offset && s.offset->dtype() == DType::kI64, "offset of a store");
    WEFT_ICHECK(s.value && s.value->dtype() == buffers[s.buffer].dtype,
                "store of {} to a buffer of {}", s.value ? DTypeName(s.value->dtype()) : "nothing",
                DTypeName(buffers[s.buffer].dtype));
    WEFT_ICHECK(!s.per_row || has_rows(), "a store once per row needs a row kernel");
    WEFT_ICHECK(++stored[s.buffer] == 1 || s.flag, "buffer {} is stored twice", s.buffer);
    WEFT_ICHECK(!s.flag || (s.buffer + 1 == int(buffers.size()) &&
                            s.value->dtype() == DType::kBool && s.offset->is_const(0)),
                "a flag that is not one bool in the last buffer");
    WEFT_ICHECK(s.flag || &s == stores.data() || !(&s - 1)->flag, "flags come last");
    if (!s.per_row) continue;
    for (const ExprNode* n : PostOrder({s.offset, s.value}))
      WEFT_ICHECK(n->kind() != ExprKind::kIndex || n->index() < num_outer,
                  "a value per row depends on row loop {}", n->index());
  }
  for (size_t i = size_t(num_inputs); i < buffers.size(); ++i)
    WEFT_ICHECK(stored[i] >= 1, "output {} is not stored", i);
  for (const ExprNode* n : PostOrder(Roots(*this))) VerifyNode(*this, *n);
  text_ = MakeText(*this);
  key_ = HashBytes(text_.data(), text_.size());
}

SymInt KernelSymbol(int k) { return SymInt::Extent(k); }

int ExtentNumber(SymInt symbol, int count) {
  const std::optional<int> k = symbol.extent_number();
  WEFT_ICHECK(k && *k < count, "a kernel of {} dimensions uses the symbol {}", count,
              symbol.ToString());
  return *k;
}

double OpsPerElement(const Kernel& kernel) {
  const std::vector<const ExprNode*> order = PostOrder(Roots(kernel));
  // How often a node is computed: as often as its most frequent user asks, times the extents of a
  // reduction.
  ExprMap<double> times;
  for (const KernelStore& s : kernel.stores) {
    times.Set(s.offset.get(), 1.0);
    times.Set(s.value.get(), 1.0);
  }
  double total = 0;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const ExprNode& n = **it;
    if (n.is_invariant() && n.reduce_depth() == 0) continue;
    const double count = *times.Find(&n);
    total += count * OperationCost(n);
    double inner = count;
    if (n.kind() == ExprKind::kReduce && !kernel.has_rows()) {
      for (SymInt e : n.extents()) inner *= e.is_const() ? double(e.value()) : kAssumedExtent;
    }
    for (const Expr& o : n.operands()) {
      if (!times.Set(o.get(), inner)) {
        double& known = *times.Find(o.get());
        known = std::max(known, inner);
      }
    }
  }
  return total;
}

}  // namespace weft
