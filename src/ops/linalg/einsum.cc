/// einsum.cc: Einsum: sums of products of operands, said by letters: "bij,bjk->bik".
///
/// A letter is an axis; letters that the output lacks are summed over; a letter twice in one
/// operand reads the diagonal. "..." stands for the axes that no letter names, broadcast as
/// usual; where the equation has no "->" the output is those axes and then, in order, the
/// letters that occur once.
#include <algorithm>
#include <map>

#include "ops/util/host_util.h"
#include "weft/core/tensor/demand.h"

namespace weft::ops {
namespace {

struct EinsumParam : OpParam<EinsumParam> {
  std::string equation;
  WEFT_OP_PARAM(EinsumParam) { WEFT_FIELD(equation).describe("such as \"bij,bjk->bik\""); }
};
WEFT_REGISTER_OP_PARAM(EinsumParam);

constexpr char kDots = '.';

/// Terms as letters; kDots stands for "...".
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

std::string ParseTerm(const std::string& text, const NodePtr& n) {
  std::string term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      WEFT_CHECK(text.compare(i, 3, "...") == 0 && term.find(kDots) == std::string::npos,
                 kBadAttribute, "{}: \"{}\" has a dot out of place", n->Describe(), text);
      i += 2;
      term += kDots;
      continue;
    }
    WEFT_CHECK(std::isalpha(static_cast<unsigned char>(text[i])), kBadAttribute,
               "{}: '{}' in the equation is not a letter", n->Describe(), text[i]);
    term += text[i];
  }
  return term;
}
Equation ParseEquation(const NodePtr& n) {
  std::string text;
  for (const char c : ParamOf<EinsumParam>(n).equation)
    if (c != ' ') text += c;
  Equation e;
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  for (size_t begin = 0; begin <= left.size();) {
    const size_t end = std::min(left.find(',', begin), left.size());
    e.inputs.push_back(ParseTerm(left.substr(begin, end - begin), n));
    begin = end + 1;
  }
  WEFT_CHECK(e.inputs.size() == n->inputs.size(), kArity, "{}: {} terms for {} operands",
             n->Describe(), e.inputs.size(), n->inputs.size());
  std::map<char, int> times;
  for (const std::string& term : e.inputs)
    for (const char c : term) ++times[c];
  if (arrow == std::string::npos) {
    if (times.count(kDots)) e.output += kDots;
    for (const auto& [c, count] : times)
      if (c != kDots && count == 1) e.output += c;
    return e;
  }
  e.output = ParseTerm(text.substr(arrow + 2), n);
  for (const char c : e.output) {
    WEFT_CHECK(times.count(c) && std::count(e.output.begin(), e.output.end(), c) == 1,
               kBadAttribute, "{}: '{}' in the output", n->Describe(), c);
  }
  return e;
}

/// Extents of the letters, and of the axes that "..." stands for.
struct Extents {
  std::map<char, SymInt> of;
  std::vector<SymInt> dots;
};
/// `unify` joins two extents of one letter.
template <class Unify>
Extents Measure(const Equation& e, const std::vector<Shape>& shapes, const NodePtr& n, Facts* facts,
                Unify unify) {
  Extents out;
  Shape dots = Shape::Scalar();
  for (size_t k = 0; k < shapes.size(); ++k) {
    const std::string& term = e.inputs[k];
    const bool has_dots = term.find(kDots) != std::string::npos;
    const int letters = int(term.size()) - (has_dots ? 1 : 0);
    const int extra = shapes[k].rank() - letters;
    WEFT_CHECK(has_dots ? extra >= 0 : extra == 0, kShapeMismatch,
               "{}: term \"{}\" for an operand of shape {}", n->Describe(), term,
               shapes[k].ToString());
    int d = 0;
    for (const char c : term) {
      if (c == kDots) {
        dots = BroadcastDemanded(dots,
                                 Shape(std::vector<SymInt>(shapes[k].dims().begin() + d,
                                                           shapes[k].dims().begin() + d + extra)),
                                 facts);
        d += extra;
        continue;
      }
      const SymInt extent = shapes[k][d++];
      auto [it, fresh] = out.of.emplace(c, extent);
      // An extent of 1 is broadcast, as in numpy.
      if (!fresh && !extent.is(1))
        it->second = it->second.is(1) ? extent : unify(it->second, extent);
    }
  }
  out.dots = dots.dims();
  return out;
}

void EinsumShape(InferShapeContext& ctx) {
  const Equation e = ParseEquation(ctx.node());
  std::vector<Shape> shapes;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (!ctx.in(i).has_rank()) return Unknown(ctx, 0, "the rank of an operand is unknown");
    shapes.push_back(ctx.in(i));
  }
  const Extents x = Measure(e, shapes, ctx.node(), &ctx.facts(), [&](SymInt a, SymInt b) {
    return UnifyDims(ctx, a, b, "the dimensions of one letter");
  });
  std::vector<SymInt> dims;
  for (const char c : e.output) {
    if (c == kDots)
      dims.insert(dims.end(), x.dots.begin(), x.dots.end());
    else
      dims.push_back(x.of.at(c));
  }
  ctx.set_out(0, Shape(std::move(dims)));
}
Exprs EinsumCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const Equation e = ParseEquation(n);
  std::vector<Shape> shapes;
  for (const TensorArg& x : in) shapes.push_back(x.shape);
  const Extents x = Measure(e, shapes, n, nullptr, [](SymInt a, SymInt) { return a; });
  std::map<char, Expr> index;
  Indices dots;
  size_t d = 0;
  for (const char c : e.output) {
    if (c == kDots)
      for (size_t k = 0; k < x.dots.size(); ++k) dots.push_back(at(0)[d++]);
    else
      index[c] = at(0)[d++];
  }
  std::vector<char> summed;
  std::vector<SymInt> extents;
  for (const auto& [c, extent] : x.of) {
    if (e.output.find(c) != std::string::npos) continue;
    summed.push_back(c);
    extents.push_back(extent);
  }
  const bool sums_dots = dots.empty() && !x.dots.empty();
  if (sums_dots) extents.insert(extents.end(), x.dots.begin(), x.dots.end());
  const DType t = in[0].dtype, acc = AccumulatorOf(t);
  const Expr sum = SumOver(extents, [&](const Indices& r) {
    std::map<char, Expr> all = index;
    for (size_t k = 0; k < summed.size(); ++k) all[summed[k]] = r[k];
    Indices outer = dots;
    if (sums_dots) outer.assign(r.begin() + long(summed.size()), r.end());
    Expr product;
    for (size_t k = 0; k < in.size(); ++k) {
      Indices from;
      const int own = in[k].rank() - int(e.inputs[k].size()) + 1;  // axes of "..." here
      for (const char c : e.inputs[k]) {
        const size_t axis = from.size();
        if (c != kDots) {
          from.push_back(BroadcastIndex(in[k].shape[int(axis)], x.of.at(c), all.at(c)));
          continue;
        }
        for (int i = 0; i < own; ++i) {
          const size_t o = x.dots.size() - size_t(own - i);
          from.push_back(BroadcastIndex(in[k].shape[int(axis) + i], x.dots[o], outer[o]));
        }
      }
      const Expr factor = Expr::Cast(acc, in[k](from));
      product = product ? product * factor : factor;
    }
    return product;
  });
  return {Expr::Cast(t, sum)};
}

std::string Written(const std::string& term) {
  std::string text;
  for (const char c : term) text += c == kDots ? std::string("...") : std::string(1, c);
  return text;
}
/// A letter that no term has; kUnsupported when all are taken.
char FreshLetter(const NodePtr& n, const std::string& taken) {
  for (const char* from : {"az", "AZ"})
    for (char c = from[0]; c <= from[1]; ++c)
      if (taken.find(c) == std::string::npos) return c;
  WEFT_THROW(kUnsupported, "{}: no letter is left to write a diagonal with", n->Describe());
}

/// d operand = Einsum(dy, other operands, ones like it -> its term). A letter that a term repeats
/// reads a diagonal: its gradient is put there by an identity matrix over two letters.
std::vector<NodeEntry> EinsumGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> grads(n->inputs.size());
  if (!dy[0]) return grads;
  const Equation e = ParseEquation(n);
  for (size_t k = 0; k < grads.size(); ++k) {
    std::string term = e.inputs[k], taken = e.output;
    for (const std::string& t : e.inputs) taken += t;
    std::vector<std::pair<char, char>> equal;  // letters of one diagonal
    for (size_t i = 0; i < term.size(); ++i) {
      if (term.find(term[i]) == i) continue;
      const char fresh = FreshLetter(n, taken);
      equal.emplace_back(term[i], fresh);
      taken += fresh;
      term[i] = fresh;
    }
    std::vector<NodeEntry> operands{dy[0]};
    std::string equation = Written(e.output);
    for (size_t j = 0; j < grads.size(); ++j) {
      if (j == k) continue;
      operands.push_back(n->inputs[j]);
      equation += "," + Written(e.inputs[j]);
    }
    const NodeEntry x = n->inputs[k];
    const NodeEntry ones = ExpandLike(ScalarOf(x, 1), x);
    operands.push_back(ones);
    equation += "," + Written(term);
    for (const auto& [a, b] : equal) {
      const std::string pair{a, b};
      const NodeEntry square =
          ApplyOp("Einsum", {ones}, {{"equation", Written(term) + "->" + pair}});
      operands.push_back(ApplyOp("EyeLike", {square}));
      equation += "," + pair;
    }
    equation += "->" + Written(term);
    grads[k] = SumTo(ApplyOp("Einsum", operands, {{"equation", equation}}), x);
  }
  return grads;
}

SymInt EinsumFlops(const NodePtr& n, const std::vector<Shape>& in, const std::vector<Shape>&) {
  for (const Shape& s : in)
    if (!s.has_rank()) return SymInt();
  const Extents x = Measure(ParseEquation(n), in, n, nullptr, [](SymInt a, SymInt) { return a; });
  SymInt points = Product(x.dots);
  for (const auto& [c, extent] : x.of) points = points * extent;
  return points * SymInt(int64_t(n->inputs.size()));
}

}  // namespace

WEFT_REGISTER_OP(Einsum)
    .describe(
        "Sums of products by letters: output[axes] = sum over the letters it lacks of the product "
        "of the operands.\n"
        "Gradient: Einsum of dy with the other operands, on the diagonal for a repeated letter. "
        "Errors: an equation that does not parse (kBadAttribute), dimensions of one letter that "
        "differ (kShapeMismatch). Source: ONNX Einsum-12.")
    .variadic_input("Inputs", TypeDoc(kNumeric))
    .output("Output", "T")
    .set_num_inputs(1, 64)
    .param<EinsumParam>()
    .example({"f32[2, 3, 4]", "f32[2, 4, 5]"}, "equation = \"bij,bjk->bik\"")
    .example({"f32[n, 3]"}, "equation = \"ij->i\"")
    .example({"f32[2, 3, 3]"}, "equation = \"...ii->...i\"")
    .set_attr<FInferType>("FInferType", SameType(kNumeric))
    .set_attr<FInferShape>("FInferShape", EinsumShape)
    .set_attr<FCodeGen>("FCodeGen", EinsumCode)
    .set_attr<FFlops>("FFlops", EinsumFlops)
    .set_attr<FGradient>("FGradient", EinsumGrad);

}  // namespace weft::ops
