/// operands.cc: kernels with more operands than parameters of a launch hold.
///
/// Their operands come through a table of addresses in device memory. An element-wise operator over
/// very many of them, as Sum has it, is one long chain of the same operation; as straight code it
/// takes the compiler time that grows with the square of its length, and registers in the end. Such
/// a chain becomes a loop over the table, in the order of the chain:
///   before  t2 = b0[i] + b1[i], t3 = t2 + b2[i], t4 = t3 + b3[i] ..
///   after   r = b0[i]; for (k = 1; k < n; ++k) r = r + table[first + k][i]
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "text.h"
#include "weft/support/check.h"

namespace weft::cuda {
namespace {

/// Bytes of parameters that straight code is made for: what every driver takes. A sum of the 512
/// operands that they hold compiles in 0.5 s, of 1000 in 1.6 s, of 4000 in 46 s.
constexpr int64_t kMaxParameterBytes = kLeastParameterBytes;
constexpr size_t kLeastChain = 64;

/// What a link of a chain adds: a load, possibly widened.
struct Link {
  const ExprNode* load = nullptr;
  DType value = DType::kUnknown;
};
Link LinkOf(const Expr& e) {
  const ExprNode* load = e.get();
  if (load->kind() == ExprKind::kCast && AccumulatorOf(load->operand(0)->dtype()) == load->dtype())
    load = load->operand(0).get();
  if (load->kind() != ExprKind::kLoad || load->has_guard()) return {};
  return {load, e->dtype()};
}
bool Alike(const Link& a, const Link& b) {
  return a.load->dtype() == b.load->dtype() && a.value == b.value &&
         a.load->operand(0) == b.load->operand(0);
}

std::optional<ReduceOp> ChainOp(const ExprNode& n) {
  if (n.kind() != ExprKind::kBinary || n.dtype() == DType::kBool) return {};
  switch (n.bin_op()) {
    case BinOp::kAdd:
      return ReduceOp::kSum;
    case BinOp::kMul:
      return ReduceOp::kProd;
    case BinOp::kMin:
      return ReduceOp::kMin;
    case BinOp::kMax:
      return ReduceOp::kMax;
    default:
      return {};
  }
}

}  // namespace

OperandTable FindOperandTable(const Kernel& k, const std::vector<KernelStore>& stores) {
  OperandTable t;
  // Behind them: total, slices, workspace.
  const size_t words = k.buffers.size() + size_t(k.num_symbols) + Divisors(k).size() + 3;
  t.used = int64_t(words) * 8 > kMaxParameterBytes;
  if (!t.used) return t;
  const Exprs roots = Roots(stores);
  const std::vector<const ExprNode*> order = PostOrder(roots);
  std::unordered_map<const ExprNode*, int> users;
  for (const Expr& r : roots) ++users[r.get()];
  for (const ExprNode* n : order)
    for (const Expr& o : n->operands()) ++users[o.get()];
  int slot = int(k.buffers.size()) + k.num_symbols;
  std::unordered_map<const ExprNode*, const OperandChain*> chain_at;
  std::unordered_set<const ExprNode*> inside;
  if (k.has_points()) {
    std::unordered_map<const ExprNode*, Expr> handle;
    for (const Expr& r : roots) handle.emplace(r.get(), r);
    for (const ExprNode* n : order)
      for (const Expr& o : n->operands()) handle.emplace(o.get(), o);
    // Users before operands: a chain is met at its end.
    for (size_t i = order.size(); i-- > 0;) {
      const ExprNode* n = order[i];
      const std::optional<ReduceOp> op = ChainOp(*n);
      if (!op || inside.count(n)) continue;
      OperandChain chain;
      chain.end = handle.at(n);
      std::vector<const ExprNode*> within;
      std::vector<Link> links;
      Expr rest = chain.end;
      while (ChainOp(*rest) == op && (rest.get() == n || users[rest.get()] == 1)) {
        int at = -1;
        Link link;
        for (int o = 0; o < 2 && at < 0; ++o) {
          link = LinkOf(rest->operand(o));
          if (link.load != nullptr && (links.empty() || Alike(link, links[0]))) at = o;
        }
        if (at < 0) break;
        links.push_back(link);
        within.push_back(rest.get());
        rest = rest->operand(1 - at);
      }
      if (links.size() < kLeastChain) continue;
      chain.begin = rest;
      chain.first = slot;
      chain.count = int(links.size());
      chain.offset = links[0].load->operand(0);
      chain.stored = links[0].load->dtype();
      // Only the operation and the type of it matter.
      chain.fold = Expr::Reduce(*op, {2}, [&](const Indices&) { return chain.end->operand(0); });
      for (size_t l = links.size(); l-- > 0;) t.chained.push_back(links[l].load->buffer());
      slot += chain.count;
      inside.insert(within.begin(), within.end());
      t.chains.push_back(std::move(chain));
    }
    // Those that others begin with come first.
    std::reverse(t.chains.begin(), t.chains.end());
  }
  for (const OperandChain& c : t.chains) chain_at[c.end.get()] = &c;
  std::vector<const ExprNode*> work;
  std::unordered_set<const ExprNode*> seen;
  const auto visit = [&](const Expr& e) {
    if (seen.insert(e.get()).second) work.push_back(e.get());
  };
  t.direct.assign(k.buffers.size(), false);
  for (const KernelStore& s : stores) t.direct[size_t(s.buffer)] = true;
  for (const Expr& r : roots) visit(r);
  while (!work.empty()) {
    const ExprNode* n = work.back();
    work.pop_back();
    if (n->kind() == ExprKind::kLoad) t.direct[size_t(n->buffer())] = true;
    if (const auto it = chain_at.find(n); it != chain_at.end()) {
      visit(it->second->begin);
      visit(it->second->offset);
      continue;
    }
    for (const Expr& o : n->operands()) visit(o);
  }
  return t;
}

void PrintChains(Emitter* e, const OperandTable& table) {
  for (const OperandChain& c : table.chains) {
    const std::string begin = e->Value(c.begin, true), at = e->Value(c.offset), r = e->Fresh("r");
    e->Line(fmt::format("{} {} = {};", ctext::ValueType(c.end->dtype()), r, begin));
    const std::string element = e->FromMemory(
        c.stored, fmt::format("((const {}*)table[k])[{}]", ctext::StorageType(c.stored), at));
    // Some of the addresses and elements are under way at a time.
    e->Line(fmt::format("#pragma unroll 8\nfor (int k = {}; k < {}; ++k) {} = {};", c.first,
                        c.first + c.count, r, e->Combine(*c.fold, r, element)));
    e->BindNode(c.end, r);
  }
}

}  // namespace weft::cuda
