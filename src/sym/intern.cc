/// intern.cc: the process-wide table of expression nodes.
///
/// Nodes are hash-consed in shards that each have a mutex; they are never freed, so handles need no
/// counting. The hash is structural (of names, coefficients and operands' hashes, never of
/// addresses) and equal everywhere. Range, divisor and size are computed once, when a node is first
/// seen.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "interval.h"
#include "node.h"
#include "weft/support/check.h"
#include "weft/support/hash.h"

namespace weft::sym {
namespace {

constexpr int kShards = 16;
constexpr int64_t kSmallMin = -64, kSmallMax = 1024;

struct Shard {
  std::mutex mutex;
  std::unordered_multimap<uint64_t, std::unique_ptr<Node>> nodes;
};

/// Never destroyed: handles may outlive static destruction.
std::array<Shard, kShards>& Shards() {
  static auto* shards = new std::array<Shard, kShards>;
  return *shards;
}

uint64_t HashOf(const Node& n) {
  uint64_t h = MixBits(0x5745465453594dull + static_cast<uint64_t>(n.kind));
  h = CombineHash(h, static_cast<uint64_t>(n.constant));
  if (n.kind == Kind::kSymbol) h = CombineHash(h, HashString(n.name));
  for (const Term& t : n.terms)
    h = CombineHash(CombineHash(h, t.mono->hash), static_cast<uint64_t>(t.coef));
  for (const Factor& f : n.factors)
    h = CombineHash(CombineHash(h, f.atom->hash), static_cast<uint64_t>(f.power));
  for (const Node* a : n.args) h = CombineHash(h, a->hash);
  return h;
}

bool SameStructure(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.constant != b.constant || a.terms.size() != b.terms.size() ||
      a.factors.size() != b.factors.size() || a.args != b.args || a.name != b.name) {
    return false;
  }
  for (size_t i = 0; i < a.terms.size(); ++i) {
    if (a.terms[i].mono != b.terms[i].mono || a.terms[i].coef != b.terms[i].coef) return false;
  }
  for (size_t i = 0; i < a.factors.size(); ++i) {
    if (a.factors[i].atom != b.factors[i].atom || a.factors[i].power != b.factors[i].power)
      return false;
  }
  return true;
}

/// |v| as a divisor; 2^62 for INT64_MIN, whose magnitude has no 64-bit form.
int64_t Magnitude(int64_t v) { return v == INT64_MIN ? int64_t{1} << 62 : std::abs(v); }

uint32_t AddSizes(uint64_t a, uint64_t b) {
  return static_cast<uint32_t>(std::min<uint64_t>(a + b, UINT32_MAX));
}

/// Product of divisors; a factor that would overflow is left out, which keeps the result a divisor.
int64_t MulDivisors(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? a : r;
}

void DeriveAtom(Node* n) {
  n->degree = 1;
  n->has_div = n->kind == Kind::kFloorDiv || n->kind == Kind::kMod;
  Range r = n->args[0]->range;
  int64_t divisor = n->args[0]->divisor;
  for (size_t i = 0; i < n->args.size(); ++i) {
    const Node* a = n->args[i];
    n->depth = std::max(n->depth, a->depth + 1);
    n->size = AddSizes(n->size, a->size);
    n->symbol_mask |= a->symbol_mask;
    n->has_extent |= a->has_extent;
    if (i == 0) continue;
    const Range b = a->range;
    switch (n->kind) {
      case Kind::kFloorDiv:
        r = RangeFloorDiv(r, b);
        break;
      case Kind::kMod:
        r = RangeMod(r, b);
        break;
      case Kind::kMin:
        r = {std::min(r.lo, b.lo), std::min(r.hi, b.hi)};
        break;
      case Kind::kMax:
        r = {std::max(r.lo, b.lo), std::max(r.hi, b.hi)};
        break;
      default:
        r = RangeJoin(r, b);
        break;
    }
    divisor = n->kind == Kind::kFloorDiv ? 1 : Gcd(divisor, a->divisor);
  }
  n->range = r;
  n->divisor = divisor;
}

SymbolKind SymbolKindOf(const Node& symbol) {
  if (symbol.extent >= 0) return SymbolKind::kExtent;
  if (SymInt::IsUnbackedName(symbol.name)) return SymbolKind::kUnbacked;
  return IsMintedName(symbol.name) ? SymbolKind::kMinted : SymbolKind::kNamed;
}

void Derive(Node* n) {
  switch (n->kind) {
    case Kind::kConst:
      n->range = {n->constant, n->constant};
      n->divisor = Magnitude(n->constant);
      break;
    case Kind::kSymbol:
      n->degree = 1;
      n->symbol_kind = SymbolKindOf(*n);
      n->has_extent = n->symbol_kind == SymbolKind::kExtent;
      n->symbol_mask = uint64_t{1} << (n->hash & 63);
      n->range =
          n->symbol_kind == SymbolKind::kMinted && n->name[1] == 'n' ? Range{} : Range{0, kPlusInf};
      break;
    case Kind::kProduct:
      n->range = {1, 1};
      n->size = 0;
      for (const Factor& f : n->factors) {
        Range power = {1, 1};
        for (int i = 0; i < f.power; ++i) {
          power = RangeMul(power, f.atom->range);
          n->divisor = MulDivisors(n->divisor, f.atom->divisor);
        }
        if (f.power % 2 == 0) power.lo = std::max<int64_t>(power.lo, 0);
        n->range = RangeMul(n->range, power);
        n->degree += f.power;
        n->depth = std::max(n->depth, f.atom->depth);
        n->size = AddSizes(n->size, uint64_t{f.atom->size} * static_cast<uint64_t>(f.power));
        n->symbol_mask |= f.atom->symbol_mask;
        n->has_div |= f.atom->has_div;
        n->has_extent |= f.atom->has_extent;
      }
      break;
    case Kind::kSum:
      n->range = {n->constant, n->constant};
      n->divisor = Magnitude(n->constant);
      for (const Term& t : n->terms) {
        n->range = RangeAdd(n->range, RangeMul({t.coef, t.coef}, t.mono->range));
        n->divisor = Gcd(n->divisor, MulDivisors(Magnitude(t.coef), t.mono->divisor));
        n->depth = std::max(n->depth, t.mono->depth);
        n->size = AddSizes(n->size, uint64_t{t.mono->size} + 1);
        n->symbol_mask |= t.mono->symbol_mask;
        n->has_div |= t.mono->has_div;
        n->has_extent |= t.mono->has_extent;
      }
      break;
    default:
      DeriveAtom(n);
      break;
  }
}

}  // namespace

int64_t Gcd(int64_t a, int64_t b) {
  // Unsigned, since the magnitude of INT64_MIN does not fit; a result of 2^63 is reported as 2^62.
  uint64_t x = a < 0 ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  uint64_t y = b < 0 ? 0 - static_cast<uint64_t>(b) : static_cast<uint64_t>(b);
  while (y != 0) {
    const uint64_t r = x % y;
    x = y;
    y = r;
  }
  return x > static_cast<uint64_t>(INT64_MAX) ? int64_t{1} << 62 : static_cast<int64_t>(x);
}

const Node* Intern(Node&& proto) {
  proto.hash = HashOf(proto);
  Shard& shard = Shards()[proto.hash >> 60];
  const std::lock_guard<std::mutex> lock(shard.mutex);
  const auto [begin, end] = shard.nodes.equal_range(proto.hash);
  for (auto it = begin; it != end; ++it) {
    if (SameStructure(*it->second, proto)) return it->second.get();
  }
  const uint64_t hash = proto.hash;
  auto node = std::make_unique<Node>(std::move(proto));
  node->hash = hash;
  Derive(node.get());
  const Node* result = node.get();
  shard.nodes.emplace(hash, std::move(node));
  return result;
}

const Node* ConstNode(int64_t v) {
  static const Node* const* small = [] {
    auto* table = new const Node*[kSmallMax - kSmallMin + 1];
    for (int64_t i = kSmallMin; i <= kSmallMax; ++i) {
      Node n(Kind::kConst);
      n.constant = i;
      table[i - kSmallMin] = Intern(std::move(n));
    }
    return table;
  }();
  if (v >= kSmallMin && v <= kSmallMax) return small[v - kSmallMin];
  Node n(Kind::kConst);
  n.constant = v;
  return Intern(std::move(n));
}

const Node* SymbolNode(std::string_view name) {
  const auto is_alpha = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  bool ok = !name.empty() && is_alpha(name[0]);
  for (const char c : name)
    ok = ok && (is_alpha(c) || (c >= '0' && c <= '9') || c == '.' || c == '$');
  WEFT_CHECK(ok, kSyntax, "'{}' is not a symbol name: expected [A-Za-z_][A-Za-z0-9_.$]*", name);
  Node n(Kind::kSymbol);
  n.name = std::string(name);
  return Intern(std::move(n));
}

const Node* ExtentNode(int k) {
  WEFT_ICHECK(k >= 0, "dimension number {} of a kernel", k);
  Node n(Kind::kSymbol);
  n.extent = k;
  n.name = fmt::format("${}", k);
  return Intern(std::move(n));
}

bool IsMintedName(std::string_view s) {
  constexpr size_t kDigits = 16;
  if (s.size() < kDigits) return false;
  const size_t prefix = s.size() - kDigits;
  if (s.substr(0, prefix) != "x$" && s.substr(0, prefix) != "xn$") return false;
  return s.find_first_not_of("0123456789abcdef", prefix) == std::string_view::npos;
}

const Node* Mint(const Node* node) {
  WEFT_ICHECK(!node->has_extent,
              "a symbol would stand for an expression over dimensions of a kernel");
  char name[24];
  const char* prefix = node->range.lo >= 0 ? "x$" : "xn$";
  std::snprintf(name, sizeof(name), "%s%016llx", prefix,
                static_cast<unsigned long long>(node->hash));
  const Node* symbol = SymbolNode(name);
  const Node* expected = nullptr;
  if (!symbol->definition.compare_exchange_strong(expected, node, std::memory_order_acq_rel)) {
    WEFT_CHECK(expected == node, kLimit, "two expressions share the name {}", name);
  }
  return symbol;
}

const Node* Bounded(const Node* n) {
  const bool too_big = n->terms.size() > kMaxTerms || n->args.size() > kMaxTerms ||
                       n->size > kMaxSize || n->depth > kMaxDepth || n->degree > kMaxDegree;
  return too_big && !n->has_extent ? Mint(n) : n;
}

size_t NumChildren(const Node* n) { return n->terms.size() + n->factors.size() + n->args.size(); }

const Node* Child(const Node* n, size_t i) {
  switch (n->kind) {
    case Kind::kSum:
      return n->terms[i].mono;
    case Kind::kProduct:
      return n->factors[i].atom;
    default:
      return n->args[i];
  }
}

namespace {

template <class T>
int Sign(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

int CompareSums(const Node* a, const Node* b) {
  const size_t n = std::min(a->terms.size(), b->terms.size());
  for (size_t i = 0; i < n; ++i) {
    if (const int c = CompareMonomials(a->terms[i].mono, b->terms[i].mono)) return c;
    if (const int c = Sign(a->terms[i].coef, b->terms[i].coef)) return c;
  }
  if (const int c = Sign(a->terms.size(), b->terms.size())) return c;
  return Sign(a->constant, b->constant);
}

}  // namespace

int CompareNodes(const Node* a, const Node* b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  switch (a->kind) {
    case Kind::kConst:
      return Sign(a->constant, b->constant);
    case Kind::kSymbol:
      return a->name.compare(b->name) < 0 ? -1 : 1;
    case Kind::kProduct:
      return CompareMonomials(a, b);
    case Kind::kSum:
      return CompareSums(a, b);
    default:
      break;
  }
  if (const int c = Sign(a->args.size(), b->args.size())) return c;
  for (size_t i = 0; i < a->args.size(); ++i) {
    if (const int c = CompareNodes(a->args[i], b->args[i])) return c;
  }
  return 0;
}

int CompareMonomials(const Node* a, const Node* b) {
  if (a == b) return 0;
  if (a->degree != b->degree) return a->degree > b->degree ? -1 : 1;
  const FactorList fa(a), fb(b);
  const size_t n = std::min(fa.size(), fb.size());
  for (size_t i = 0; i < n; ++i) {
    if (fa[i].atom != fb[i].atom) return CompareNodes(fa[i].atom, fb[i].atom);
    if (fa[i].power != fb[i].power) return fa[i].power > fb[i].power ? -1 : 1;
  }
  return Sign(fa.size(), fb.size());
}

}  // namespace weft::sym
