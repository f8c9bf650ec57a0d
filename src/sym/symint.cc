/// symint.cc: the public handle and its operators: fast paths first, then a small memo, then
/// canonical forms.
///
/// Shape inference repeats a few operations over the same extents for every node. Equal handles, 0
/// and 1 are decided without a look-up; what is left goes through a direct-mapped memo per thread,
/// keyed by operation and handles.
#include <algorithm>
#include <cstdlib>

#include "node.h"
#include "weft/support/check.h"
#include "weft/support/hash.h"

namespace weft {

using sym::ConstNode;
using sym::Kind;
using sym::Node;

namespace {

enum class MemoOp : uint32_t {
  kNone,
  kAdd,
  kSub,
  kMul,
  kFloorDiv,
  kMod,
  kCeilDiv,
  kExactDiv,
  kMin,
  kMax,
  kBcast
};

struct MemoEntry {
  const Node *a, *b, *result;
  MemoOp op;
};

constexpr size_t kMemoSize = 1024;
thread_local MemoEntry memo[kMemoSize];

template <class Compute>
SymInt Memo(MemoOp op, const Node* a, const Node* b, Compute compute) {
  const uint64_t key = (a->hash + 3 * b->hash + static_cast<uint64_t>(op)) * 0x9e3779b97f4a7c15u;
  MemoEntry& e = memo[key >> 54];
  if (e.a == a && e.b == b && e.op == op) return SymInt(e.result);
  const Node* result = compute();
  e = {a, b, result, op};
  return SymInt(result);
}
static_assert(kMemoSize == 1u << (64 - 54), "the shift keeps as many bits as the memo has entries");

bool IsConst(const Node* n, int64_t v) { return n->kind == Kind::kConst && n->constant == v; }

}  // namespace

SymInt::SymInt(int64_t value) : node_(ConstNode(value)) {}

SymInt SymInt::Symbol(std::string_view name) {
  WEFT_CHECK(!sym::IsMintedName(name), kSyntax,
             "'{}' is a name that Weft gives to large expressions", name);
  return SymInt(sym::SymbolNode(name));
}

SymInt SymInt::Extent(int k) { return SymInt(sym::ExtentNode(k)); }

std::optional<int> SymInt::extent_number() const {
  if (!is_symbol() || node_->symbol_kind != sym::SymbolKind::kExtent) return std::nullopt;
  return node_->extent;
}

uint32_t SymInt::size() const { return node_ == nullptr ? 1 : node_->size; }

SymInt SymInt::Unbacked(int64_t k) {
  WEFT_CHECK(k >= 0, kApiMisuse, "unbacked symbol number {} is negative", k);
  return Symbol(fmt::format("u{}", k));
}

bool SymInt::IsUnbackedName(std::string_view name) {
  return name.size() > 1 && name[0] == 'u' &&
         name.find_first_not_of("0123456789", 1) == std::string_view::npos;
}
bool SymInt::is_unbacked() const {
  return is_symbol() && node_->symbol_kind == sym::SymbolKind::kUnbacked;
}
std::optional<int64_t> SymInt::unbacked_number() const {
  if (!is_unbacked()) return std::nullopt;
  // A name that is read may have more digits: it saturates, below where one can be added.
  return std::min<int64_t>(std::strtoll(symbol_name().c_str() + 1, nullptr, 10), INT64_MAX - 1);
}

bool SymInt::is_const() const { return node_ != nullptr && node_->kind == Kind::kConst; }

int64_t SymInt::value() const {
  WEFT_ICHECK(is_const(), "value of a symbolic dimension {}", ToString());
  return node_->constant;
}

std::optional<int64_t> SymInt::try_value() const {
  if (!is_const()) return std::nullopt;
  return node_->constant;
}

bool SymInt::is_symbol() const { return node_ != nullptr && node_->kind == Kind::kSymbol; }

const std::string& SymInt::symbol_name() const {
  WEFT_ICHECK(is_symbol(), "{} is not a symbol", ToString());
  return node_->name;
}

uint64_t SymInt::hash() const { return node_ == nullptr ? 0 : node_->hash; }

int SymInt::Compare(SymInt a, SymInt b) {
  if (a.node_ == b.node_) return 0;
  if (a.node_ == nullptr) return -1;
  if (b.node_ == nullptr) return 1;
  return sym::CompareNodes(a.node_, b.node_);
}

std::string SymInt::ToString() const { return node_ == nullptr ? "?" : sym::PrintNode(node_); }

std::vector<SymInt> SymInt::Symbols() const {
  std::vector<SymInt> out;
  if (node_ == nullptr) return out;
  sym::VisitPostorder(
      node_,
      [&](const Node* n) {
        if (n->kind == Kind::kSymbol) out.push_back(SymInt(n));
      },
      [](const Node*) { return false; });
  std::sort(out.begin(), out.end(), [](SymInt a, SymInt b) { return Compare(a, b) < 0; });
  return out;
}

SymInt operator+(SymInt a, SymInt b) {
  if (!a.known() || !b.known()) return {};
  const Node *x = a.node(), *y = b.node();
  if (IsConst(y, 0)) return a;
  if (IsConst(x, 0)) return b;
  return Memo(MemoOp::kAdd, x, y, [&] { return sym::AddNodes(x, y); });
}

SymInt operator-(SymInt a, SymInt b) {
  if (!a.known() || !b.known()) return {};
  const Node *x = a.node(), *y = b.node();
  if (IsConst(y, 0)) return a;
  if (x == y) return SymInt(ConstNode(0));
  return Memo(MemoOp::kSub, x, y, [&] { return sym::AddNodes(x, y, -1); });
}

SymInt operator-(SymInt a) { return SymInt(ConstNode(0)) - a; }

SymInt operator*(SymInt a, SymInt b) {
  if (a.known() && IsConst(a.node(), 0)) return a;
  if (b.known() && IsConst(b.node(), 0)) return b;
  if (!a.known() || !b.known()) return {};
  const Node *x = a.node(), *y = b.node();
  if (IsConst(y, 1)) return a;
  if (IsConst(x, 1)) return b;
  return Memo(MemoOp::kMul, x, y, [&] { return sym::MulNodes(x, y); });
}

SymInt FloorDiv(SymInt a, SymInt b) {
  WEFT_CHECK(!b.is(0), kInvalidModel, "division of a dimension by zero");
  if (!a.known() || !b.known()) return {};
  const Node *x = a.node(), *y = b.node();
  if (IsConst(y, 1)) return a;
  return Memo(MemoOp::kFloorDiv, x, y, [&] { return sym::MakeFloorDiv(x, y); });
}

SymInt Mod(SymInt a, SymInt b) {
  WEFT_CHECK(!b.is(0), kInvalidModel, "division of a dimension by zero");
  if (!a.known() || !b.known()) return {};
  const Node *x = a.node(), *y = b.node();
  return Memo(MemoOp::kMod, x, y, [&] { return sym::MakeMod(x, y); });
}

SymInt CeilDiv(SymInt a, SymInt b) {
  WEFT_CHECK(!b.is(0), kInvalidModel, "division of a dimension by zero");
  if (!a.known() || !b.known()) return {};
  const Node *x = a.node(), *y = b.node();
  if (IsConst(y, 1)) return a;
  return Memo(MemoOp::kCeilDiv, x, y, [&]() -> const Node* {
    const auto negated = [&] {
      return sym::ScaleNode(sym::MakeFloorDiv(sym::ScaleNode(x, -1), y), -1);
    };
    if (y->range.lo < 0) return negated();
    // A divisor >= 0 is >= 1 wherever the quotient exists; then ceil(a / b) = (a + b - 1) // b.
    const auto rounded = [&] {
      const Node* sum = sym::AddNodes(sym::AddNodes(x, y), ConstNode(1), -1);
      return sym::MakeFloorDiv(sum, y);
    };
    return sym::UnlessOverflow(rounded, negated);
  });
}

SymInt ExactDiv(SymInt a, SymInt b) {
  WEFT_CHECK(!b.is(0), kInvalidModel, "division of a dimension by zero");
  if (!a.known() || !b.known()) return {};
  const Node *x = a.node(), *y = b.node();
  if (IsConst(y, 1)) return a;
  return Memo(MemoOp::kExactDiv, x, y, [&] { return sym::MakeExactDiv(x, y); });
}

SymInt Min(SymInt a, SymInt b) {
  if (!a.known() || !b.known()) return {};
  const Node *x = a.node(), *y = b.node();
  if (x == y) return a;
  return Memo(MemoOp::kMin, x, y, [&] { return sym::MakeMinMax(Kind::kMin, {x, y}); });
}

SymInt Max(SymInt a, SymInt b) {
  if (!a.known() || !b.known()) return {};
  const Node *x = a.node(), *y = b.node();
  if (x == y) return a;
  return Memo(MemoOp::kMax, x, y, [&] { return sym::MakeMinMax(Kind::kMax, {x, y}); });
}

SymInt Bcast(SymInt a, SymInt b) {
  if (!a.known() || !b.known()) return {};
  const Node *x = a.node(), *y = b.node();
  if (x == y || IsConst(y, 1)) return a;
  if (IsConst(x, 1)) return b;
  return Memo(MemoOp::kBcast, x, y, [&] { return sym::MakeBcast({x, y}); });
}

SymInt Product(const std::vector<SymInt>& factors) {
  // A zero extent decides the product even where another one is unknown or overflows.
  for (const SymInt f : factors) {
    if (f.is(0)) return f;
  }
  SymInt product = 1;
  for (const SymInt f : factors) product = product * f;
  return product;
}

}  // namespace weft
