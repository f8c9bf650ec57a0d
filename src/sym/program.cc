/// program.cc: evaluation, of one expression or of many compiled to a flat program.
///
/// A program is a list of binary operations over 64-bit slots: first the arguments, then the
/// constants, then one slot an operation. Value numbering gives equal operations one slot, so what
/// expressions share is computed once a run. Symbols that stand for large expressions are expanded
/// here, unless the caller binds them.
#include <map>
#include <tuple>

#include "node.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {

using sym::Factor;
using sym::Kind;
using sym::Node;
using sym::Term;

namespace {

enum class Op : uint8_t { kAdd, kSub, kMul, kFloorDiv, kMod, kMin, kMax, kBcast };

using Wide = __int128;

template <class T>
T FloorQuotient(T a, T b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

/// One operation; what T cannot hold is given modulo its width and noted in `left`.
template <class T>
T ApplyOp(Op op, T a, T b, bool* left) {
  T r = 0;
  switch (op) {
    case Op::kAdd:
      *left |= __builtin_add_overflow(a, b, &r);
      return r;
    case Op::kSub:
      *left |= __builtin_sub_overflow(a, b, &r);
      return r;
    case Op::kMul:
      *left |= __builtin_mul_overflow(a, b, &r);
      return r;
    case Op::kFloorDiv:
      WEFT_CHECK(b != 0, kInvalidModel, "division of a dimension by zero: {} // 0", int64_t(a));
      if (b != -1) return FloorQuotient(a, b);
      *left |= __builtin_sub_overflow(T{0}, a, &r);
      return r;
    case Op::kMod:
      WEFT_CHECK(b != 0, kInvalidModel, "division of a dimension by zero: {} % 0", int64_t(a));
      return b == -1 ? T{0} : T(a - FloorQuotient(a, b) * b);
    case Op::kMin:
      return a < b ? a : b;
    case Op::kMax:
      return a < b ? b : a;
    case Op::kBcast:
      if (a == b || b == 1) return a;
      // What wrapped is no extent: the caller hears of that.
      WEFT_CHECK(a == 1 || *left, kShapeMismatch,
                 "dimensions {} and {} do not broadcast: expected equal dimensions, or 1",
                 int64_t(a), int64_t(b));
      return b;
  }
  return 0;
}

bool FitsInt64(Wide v) { return v >= INT64_MIN && v <= INT64_MAX; }

[[noreturn]] void ThrowLeft(SymInt e) {
  std::string text = e.ToString();
  constexpr size_t kMost = 120;
  if (text.size() > kMost) text = text.substr(0, kMost) + " ..";
  WEFT_THROW(kOverflow, "size arithmetic overflows 64 bits: {}", text);
}

Op OpOf(Kind kind) {
  switch (kind) {
    case Kind::kFloorDiv:
      return Op::kFloorDiv;
    case Kind::kMod:
      return Op::kMod;
    case Kind::kMin:
      return Op::kMin;
    case Kind::kMax:
      return Op::kMax;
    default:
      return Op::kBcast;
  }
}

/// Computes one node from its operands' values, in a machine that knows constants and binary
/// operations: int64_t values (Evaluate) or slots (SymProgram).
template <class Machine, class ValueOf>
auto Combine(const Node* n, Machine& machine, const ValueOf& value_of) {
  switch (n->kind) {
    case Kind::kConst:
      return machine.Const(n->constant);
    case Kind::kProduct: {
      auto product = value_of(n->factors[0].atom);
      bool first = true;
      for (const Factor& f : n->factors) {
        for (int i = first ? 1 : 0; i < f.power; ++i)
          product = machine.Binary(Op::kMul, product, value_of(f.atom));
        first = false;
      }
      return product;
    }
    case Kind::kSum: {
      auto sum = machine.Const(n->constant);
      bool empty = n->constant == 0;
      for (const Term& t : n->terms) {
        auto v = value_of(t.mono);
        if (!empty && t.coef == -1) {
          sum = machine.Binary(Op::kSub, sum, v);
          continue;
        }
        if (t.coef != 1) v = machine.Binary(Op::kMul, v, machine.Const(t.coef));
        sum = empty ? v : machine.Binary(Op::kAdd, sum, v);
        empty = false;
      }
      return sum;
    }
    default: {
      auto v = value_of(n->args[0]);
      for (size_t i = 1; i < n->args.size(); ++i)
        v = machine.Binary(OpOf(n->kind), v, value_of(n->args[i]));
      return v;
    }
  }
}

template <class T>
struct ValueMachine {
  bool left = false;
  T Const(int64_t v) { return v; }
  T Binary(Op op, T a, T b) { return ApplyOp(op, a, b, &left); }
};

[[noreturn]] void ThrowUnbound(const std::string& name) {
  WEFT_THROW(kBadBinding, "symbol '{}' has no value", name);
}

}  // namespace

namespace {

/// The value of e in T; `left` where an operation left T.
template <class T>
T EvaluateIn(SymInt e, const SymBindings& bindings, bool* left) {
  const auto lookup = [&](const Node* symbol) { return bindings.find(symbol->name); };
  std::unordered_map<const Node*, T> values;
  ValueMachine<T> machine;
  sym::VisitPostorder(
      e.node(),
      [&](const Node* n) {
        T v;
        if (n->kind == Kind::kSymbol) {
          const auto it = lookup(n);
          const Node* definition = n->definition.load(std::memory_order_acquire);
          if (it != bindings.end()) {
            v = it->second;
          } else if (definition != nullptr) {
            v = values.at(definition);
          } else {
            ThrowUnbound(n->name);
          }
        } else {
          v = Combine(n, machine, [&](const Node* child) { return values.at(child); });
        }
        values.emplace(n, v);
      },
      [&](const Node* symbol) { return lookup(symbol) == bindings.end(); });
  *left = machine.left;
  return values.at(e.node());
}

}  // namespace

int64_t Evaluate(SymInt e, const SymBindings& bindings) {
  WEFT_CHECK(e.known(), kBadBinding, "an unknown dimension has no value");
  if (e.is_const()) return e.value();
  if (e.is_symbol()) {
    const auto it = bindings.find(e.symbol_name());
    if (it != bindings.end()) return it->second;
  }
  bool left = false;
  const int64_t v = EvaluateIn<int64_t>(e, bindings, &left);
  if (!left) return v;
  // Canonical forms are multiplied out: a step may leave 64 bits where the value does not.
  const Wide wide = EvaluateIn<Wide>(e, bindings, &left);
  if (left || !FitsInt64(wide)) ThrowLeft(e);
  return int64_t(wide);
}

struct SymProgram::Impl {
  struct Instruction {
    Op op;
    int32_t dst, a, b;
  };

  std::vector<SymInt> symbols;
  std::vector<std::pair<int32_t, int64_t>> constants;  ///< slot and value
  std::vector<Instruction> code;
  std::vector<int32_t> results;     ///< slot of each Add
  std::vector<SymInt> expressions;  ///< of each Add, for messages
  int32_t num_slots = 0;
  std::unordered_map<const Node*, int32_t> slot_of_node;
  std::map<int64_t, int32_t> slot_of_const;
  std::map<std::tuple<Op, int32_t, int32_t>, int32_t> slot_of_op;

  int32_t Const(int64_t v) {
    const auto [it, fresh] = slot_of_const.emplace(v, num_slots);
    if (fresh) constants.emplace_back(num_slots++, v);
    return it->second;
  }

  int32_t Binary(Op op, int32_t a, int32_t b) {
    const bool commutes = op != Op::kSub && op != Op::kFloorDiv && op != Op::kMod;
    if (commutes && b < a) std::swap(a, b);
    const auto [it, fresh] = slot_of_op.emplace(std::make_tuple(op, a, b), num_slots);
    if (fresh) code.push_back({op, num_slots++, a, b});
    return it->second;
  }
};

SymProgram::SymProgram() : SymProgram(std::vector<SymInt>{}) {}
SymProgram::~SymProgram() = default;
SymProgram::SymProgram(SymProgram&&) noexcept = default;
SymProgram& SymProgram::operator=(SymProgram&&) noexcept = default;

SymProgram::SymProgram(std::vector<SymInt> symbols) : impl_(std::make_unique<Impl>()) {
  for (const SymInt s : symbols) {
    WEFT_CHECK(s.is_symbol(), kApiMisuse, "argument {} of a size program is not a symbol",
               s.ToString());
    const bool fresh = impl_->slot_of_node.emplace(s.node(), impl_->num_slots++).second;
    WEFT_CHECK(fresh, kApiMisuse, "symbol '{}' is given twice", s.symbol_name());
  }
  impl_->symbols = std::move(symbols);
}

namespace {

/// The slot of e after the operations that it takes have been added.
template <class Impl>
int32_t SlotOf(Impl& m, SymInt e) {
  WEFT_CHECK(e.known(), kBadBinding, "an unknown dimension cannot be computed");
  // Refuse before the program changes.
  sym::VisitPostorder(
      e.node(),
      [&](const Node* n) {
        if (n->kind != Kind::kSymbol || m.slot_of_node.count(n) != 0) return;
        if (n->definition.load(std::memory_order_acquire) == nullptr) ThrowUnbound(n->name);
      },
      [&](const Node* n) { return m.slot_of_node.count(n) == 0; });
  sym::VisitPostorder(
      e.node(),
      [&](const Node* n) {
        if (m.slot_of_node.count(n) != 0) return;
        int32_t slot;
        if (n->kind == Kind::kSymbol) {
          slot = m.slot_of_node.at(n->definition.load(std::memory_order_acquire));
        } else {
          slot = Combine(n, m, [&](const Node* child) { return m.slot_of_node.at(child); });
        }
        m.slot_of_node.emplace(n, slot);
      },
      [&](const Node* n) { return m.slot_of_node.count(n) == 0; });
  return m.slot_of_node.at(e.node());
}

}  // namespace

int SymProgram::Add(SymInt e) {
  impl_->results.push_back(SlotOf(*impl_, e));
  impl_->expressions.push_back(e);
  return num_results() - 1;
}

void SymProgram::Define(SymInt symbol, SymInt value) {
  WEFT_CHECK(symbol.is_symbol(), kApiMisuse, "{} is not a symbol", symbol.ToString());
  const bool fresh = impl_->slot_of_node.emplace(symbol.node(), SlotOf(*impl_, value)).second;
  WEFT_CHECK(fresh, kApiMisuse, "symbol '{}' has a value already", symbol.symbol_name());
}

int SymProgram::num_results() const { return static_cast<int>(impl_->results.size()); }

const std::vector<SymInt>& SymProgram::symbols() const { return impl_->symbols; }

namespace {

/// Runs the code over slots of T; marks in `left` (may be null) the slots that left T, or whose
/// operands did. True where none did.
template <class T, class Impl>
bool RunCode(const Impl& m, const int64_t* args, T* slots, char* left) {
  for (size_t k = 0; k < m.symbols.size(); ++k) slots[k] = args[k];
  for (const auto& [slot, value] : m.constants) slots[slot] = value;
  bool any = false;
  for (const auto& i : m.code) {
    bool here = left != nullptr && (left[i.a] || left[i.b]);
    slots[i.dst] = ApplyOp<T>(i.op, slots[i.a], slots[i.b], &here);
    any |= here;
    if (left != nullptr) left[i.dst] = char(here);
    if (any && left == nullptr) return false;
  }
  return !any;
}

}  // namespace

void SymProgram::Run(const int64_t* args, int64_t* results) const {
  std::vector<char> left;
  if (RunModulo(args, results, &left)) return;
  for (size_t k = 0; k < left.size(); ++k)
    if (left[k]) ThrowLeft(impl_->expressions[k]);
}

bool SymProgram::RunModulo(const int64_t* args, int64_t* results, std::vector<char>* left) const {
  const Impl& m = *impl_;
  constexpr int32_t kOnStack = 256;
  int64_t small[kOnStack];
  std::vector<int64_t> large;
  int64_t* slots = small;
  if (m.num_slots > kOnStack) {
    large.resize(static_cast<size_t>(m.num_slots));
    slots = large.data();
  }
  if (RunCode<int64_t>(m, args, slots, nullptr)) {
    for (size_t k = 0; k < m.results.size(); ++k) results[k] = slots[m.results[k]];
    return true;
  }
  // Canonical forms are multiplied out: a step may leave 64 bits where a result does not.
  std::vector<Wide> wide(static_cast<size_t>(m.num_slots));
  std::vector<char> slot_left(static_cast<size_t>(m.num_slots), 0);
  RunCode<Wide>(m, args, wide.data(), slot_left.data());
  left->assign(m.results.size(), 0);
  bool all = true;
  for (size_t k = 0; k < m.results.size(); ++k) {
    const Wide v = wide[size_t(m.results[k])];
    results[k] = int64_t(uint64_t(static_cast<unsigned __int128>(v)));
    (*left)[k] = char(slot_left[size_t(m.results[k])] || !FitsInt64(v));
    all = all && !(*left)[k];
  }
  return all;
}

}  // namespace weft
