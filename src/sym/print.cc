/// print.cc: the canonical text of expressions, and their postfix form.
///
///   sum      2*h*w - 3*h + 1          terms in canonical order, the constant last
///   atoms    w//2   h%4   min(a, b)   // and % are bare only as a whole term with coefficient 1,
///                                     else in parentheses
///   powers   h*h
///
/// Parse reads all of this back to the same node.
#include "node.h"
#include "weft/support/check.h"

namespace weft::sym {
namespace {

bool IsDivision(const Node* n) { return n->kind == Kind::kFloorDiv || n->kind == Kind::kMod; }

void PrintTo(std::string& out, const Node* n);

void PrintOperandTo(std::string& out, const Node* n) {
  const bool bare = (n->is_const() && n->constant >= 0) || (n->is_atom() && !IsDivision(n));
  if (!bare) out += '(';
  PrintTo(out, n);
  if (!bare) out += ')';
}

void PrintFactors(std::string& out, const Node* mono) {
  bool first = true;
  for (const Factor& f : FactorList(mono)) {
    for (int i = 0; i < f.power; ++i) {
      if (!first) out += '*';
      first = false;
      PrintOperandTo(out, f.atom);
    }
  }
}

void PrintSum(std::string& out, const Node* n) {
  bool first = true;
  for (const Term& t : n->terms) {
    int64_t coef = t.coef;
    if (coef < 0 && coef != INT64_MIN) {
      out += first ? "-" : " - ";
      coef = -coef;
      if (coef == 1 && first) {
        PrintFactors(out, t.mono);  // unary minus binds tighter than //
        first = false;
        continue;
      }
    } else if (!first) {
      out += " + ";
    }
    first = false;
    if (coef == 1) {
      PrintTo(out, t.mono);
      continue;
    }
    out += std::to_string(coef) + "*";
    PrintFactors(out, t.mono);
  }
  if (n->constant == 0) return;
  if (n->constant > 0) {
    out += " + " + std::to_string(n->constant);
  } else if (n->constant == INT64_MIN) {
    out += " + " + std::to_string(n->constant);  // its magnitude is no 64-bit literal
  } else {
    out += " - " + std::to_string(-n->constant);
  }
}

void PrintTo(std::string& out, const Node* n) {
  const auto call = [&](const char* name) {
    out += name;
    for (size_t i = 0; i < n->args.size(); ++i) {
      out += i == 0 ? "(" : ", ";
      PrintTo(out, n->args[i]);
    }
    out += ')';
  };
  switch (n->kind) {
    case Kind::kConst:
      out += std::to_string(n->constant);
      break;
    case Kind::kSymbol:
      out += n->name;
      break;
    case Kind::kFloorDiv:
    case Kind::kMod:
      PrintOperandTo(out, n->args[0]);
      out += n->kind == Kind::kMod ? "%" : "//";
      PrintOperandTo(out, n->args[1]);
      break;
    case Kind::kMin:
      call("min");
      break;
    case Kind::kMax:
      call("max");
      break;
    case Kind::kBcast:
      call("bcast");
      break;
    case Kind::kProduct:
      PrintFactors(out, n);
      break;
    case Kind::kSum:
      PrintSum(out, n);
      break;
  }
}

char OpOf(Kind kind) {
  switch (kind) {
    case Kind::kFloorDiv:
      return '/';
    case Kind::kMod:
      return '%';
    case Kind::kMin:
      return 'm';
    case Kind::kMax:
      return 'M';
    default:
      return 'b';
  }
}

/// Recursion is bounded by kMaxDepth levels of atoms, each with a sum and a product around it.
void Postfix(const Node* n, SymVisitor& v) {
  switch (n->kind) {
    case Kind::kConst:
      v.Const(n->constant);
      return;
    case Kind::kSymbol:
      v.Sym(SymInt(n));
      return;
    case Kind::kProduct: {
      bool first = true;
      for (const Factor& f : n->factors) {
        for (int i = 0; i < f.power; ++i) {
          Postfix(f.atom, v);
          if (!first) v.Op('*');
          first = false;
        }
      }
      return;
    }
    case Kind::kSum: {
      bool first = true;
      for (const Term& t : n->terms) {
        // c*m as is; after the first term -c*m as a subtraction, so that h - w needs no product.
        const bool subtract = !first && t.coef < 0 && t.coef != INT64_MIN;
        const int64_t coef = subtract ? -t.coef : t.coef;
        Postfix(t.mono, v);
        if (coef != 1) {
          v.Const(coef);
          v.Op('*');
        }
        if (!first) v.Op(subtract ? '-' : '+');
        first = false;
      }
      if (n->constant != 0) {
        v.Const(n->constant);
        v.Op('+');
      }
      return;
    }
    default:
      for (size_t i = 0; i < n->args.size(); ++i) {
        Postfix(n->args[i], v);
        if (i > 0) v.Op(OpOf(n->kind));
      }
  }
}

}  // namespace

std::string PrintNode(const Node* node) {
  std::string out;
  PrintTo(out, node);
  return out;
}

std::string PrintOperand(const Node* node) {
  std::string out;
  PrintOperandTo(out, node);
  return out;
}

}  // namespace weft::sym

namespace weft {

void VisitPostfix(SymInt e, SymVisitor& v) {
  WEFT_CHECK(e.known(), kApiMisuse, "an unknown dimension has no postfix form");
  sym::Postfix(e.node(), v);
}

}  // namespace weft
