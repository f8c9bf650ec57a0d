/// op_signature.cc: reads a formula of types and shapes, and infers by it.
#include "weft/core/op/op_signature.h"

#include <algorithm>
#include <map>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"
#include "weft/sym/symbols.h"

namespace weft {
namespace {

struct Term {
  DType dtype = DType::kUnknown;  // where the formula names one
  char letter = 0;                // else this one's
  bool has_shape = false, any_lead = false;
  std::vector<SymInt> dims;  // over the formula's names
};

bool IsName(std::string_view s) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !s.empty() && letter(s[0]) && std::all_of(s.begin(), s.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

class FormulaReader {
 public:
  explicit FormulaReader(std::string_view text) : text_(text) {}

  void Read(std::vector<Term>* inputs, std::vector<Term>* outputs) {
    const size_t arrow = text_.find("->");
    if (arrow == std::string_view::npos) Fail("has no '->'");
    ReadTerms(text_.substr(0, arrow), false, inputs);
    ReadTerms(text_.substr(arrow + 2), true, outputs);
    if (outputs->empty()) Fail("has no output");
  }

 private:
  [[noreturn]] void Fail(const std::string& why) const {
    ThrowError(ErrorCode::kSyntax, fmt::format("the signature \"{}\" {}", text_, why), "",
               "as in \"T[..., n, k], T[..., k, m] -> T[..., n, m]\"");
  }
  /// Pieces between commas outside of brackets.
  std::vector<std::string_view> Pieces(std::string_view text) const {
    std::vector<std::string_view> pieces;
    int depth = 0;
    size_t begin = 0;
    for (size_t i = 0; i <= text.size(); ++i) {
      const char c = i < text.size() ? text[i] : ',';
      depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
      if (depth < 0) Fail("has a bracket too many");
      if (c == ',' && (depth == 0 || i == text.size())) {
        pieces.push_back(Trim(text.substr(begin, i - begin)));
        begin = i + 1;
      }
    }
    if (depth != 0) Fail("has an open bracket");
    return pieces;
  }
  void ReadTerms(std::string_view text, bool output, std::vector<Term>* terms) {
    if (Trim(text).empty()) return;
    for (std::string_view piece : Pieces(text)) {
      Term t;
      const size_t open = piece.find('[');
      const std::string_view type = Trim(piece.substr(0, open));
      if (type.size() == 1 && type[0] >= 'A' && type[0] <= 'Z') {
        t.letter = type[0];
        if (output && letters_.find(t.letter) == std::string::npos)
          Fail(fmt::format("has the type '{}' behind the arrow only", type));
        letters_ += t.letter;
      } else if (const auto dtype = ParseDType(type)) {
        t.dtype = *dtype;
      } else {
        Fail(fmt::format("has '{}' where a dtype or a capital letter is expected", type));
      }
      if (open != std::string_view::npos) {
        if (piece.back() != ']')
          Fail(fmt::format("has something behind the bracket of '{}'", piece));
        ReadDims(piece.substr(open + 1, piece.size() - open - 2), output, &t);
      }
      terms->push_back(std::move(t));
    }
  }
  void ReadDims(std::string_view text, bool output, Term* t) {
    t->has_shape = true;
    if (Trim(text).empty()) return;
    for (std::string_view piece : Pieces(text)) {
      if (piece == "...") {
        if (t->any_lead || !t->dims.empty())
          Fail("has a '...' that is not the first of its dimensions");
        if (output && !lead_) Fail("has '...' behind the arrow only");
        t->any_lead = lead_ = true;
        continue;
      }
      if (!output && !IsName(piece) && !TryParseInt64(piece))
        Fail(fmt::format("has '{}' in front of the arrow, where a dimension is a number or a name",
                         piece));
      SymInt dim;
      try {
        dim = SymInt::Parse(piece);
      } catch (const Error& e) {
        Fail(fmt::format("has a dimension '{}' that does not parse: {}", piece, e.message()));
      }
      for (SymInt s : dim.Symbols()) {
        if (!output) names_.push_back(s);
        if (std::find(names_.begin(), names_.end(), s) == names_.end())
          Fail(fmt::format("has the dimension '{}' behind the arrow only", s.symbol_name()));
      }
      if (auto v = dim.try_value(); v && *v < 0) Fail("has a negative dimension");
      t->dims.push_back(dim);
    }
  }

  std::string_view text_;
  std::string letters_;
  std::vector<SymInt> names_;
  bool lead_ = false;
};

using Names = std::map<std::string, SymInt>;

/// The value of a formula's expression; unknown where a name of it is.
SymInt ValueOf(SymInt e, const Names& names) {
  return Substitute(e, [&](SymInt s) {
    const auto it = names.find(s.symbol_name());
    return it == names.end() ? SymInt() : it->second;
  });
}

}  // namespace

struct OpSignature::Impl {
  std::string text;
  std::vector<Term> inputs, outputs;

  void InferTypes(InferTypeContext& ctx) const {
    std::map<char, Type> letters;
    for (int i = 0; i < int(inputs.size()) && i < ctx.num_inputs(); ++i) {
      if (!ctx.has_input(i)) continue;
      const Term& t = inputs[size_t(i)];
      const Type got = ctx.in(i);
      if (!got.known()) continue;
      Type want = t.letter ? got : Type(t.dtype);
      if (t.letter) want = letters.emplace(t.letter, got).first->second;
      WEFT_CHECK(got == want, kTypeMismatch, "{}: input {} has the type {}, expected {} by \"{}\"",
                 ctx.node()->Describe(), i, got.ToString(), want.ToString(), text);
    }
    for (int i = 0; i < int(outputs.size()) && i < ctx.num_outputs(); ++i) {
      const Term& t = outputs[size_t(i)];
      if (!t.letter)
        ctx.set_out(i, Type(t.dtype));
      else if (auto it = letters.find(t.letter); it != letters.end())
        ctx.set_out(i, it->second);
    }
  }

  void Bind(InferShapeContext& ctx, int i, int axis, SymInt name, SymInt got, Names* names) const {
    if (!got.known()) return;
    SymInt want = name;
    if (name.is_symbol()) {
      want = names->emplace(name.symbol_name(), got).first->second;
      if (want == got) return;
    }
    WEFT_CHECK(ctx.facts().Equal(want, got) != Proof::kNo, kShapeMismatch,
               "{}: dimension {} of input {} is {}, expected {} by \"{}\"", ctx.node()->Describe(),
               axis, i, got.ToString(), want.ToString(), text);
    // A known number is the better name of the two from here on.
    if (name.is_symbol() && got.is_const()) (*names)[name.symbol_name()] = got;
    ctx.facts().AddEqual(want, got);
  }

  void InferShapes(InferShapeContext& ctx) const {
    Names names;
    Shape lead;
    bool lead_known = false;
    for (int i = 0; i < int(inputs.size()) && i < ctx.num_inputs(); ++i) {
      const Term& t = inputs[size_t(i)];
      if (!t.has_shape || !ctx.has_input(i) || !ctx.in(i).has_rank()) continue;
      const Shape& got = ctx.in(i);
      const int fixed = int(t.dims.size()), more = got.rank() - fixed;
      WEFT_CHECK(t.any_lead ? more >= 0 : more == 0, kShapeMismatch,
                 "{}: input {} has the shape {}, which does not fit \"{}\"", ctx.node()->Describe(),
                 i, got.ToString(), text);
      for (int d = 0; d < fixed; ++d)
        Bind(ctx, i, more + d, t.dims[size_t(d)], got[more + d], &names);
      if (!t.any_lead) continue;
      std::vector<SymInt> dims(got.dims().begin(), got.dims().begin() + more);
      if (!lead_known) {
        lead = Shape(std::move(dims));
        lead_known = true;
        continue;
      }
      WEFT_CHECK(lead.rank() == more, kShapeMismatch,
                 "{}: the leading dimensions of input {} are {} in number, those of another are {}",
                 ctx.node()->Describe(), i, more, lead.rank());
      for (int d = 0; d < more; ++d) {
        if (!lead[d].known()) lead.set(d, dims[size_t(d)]);
        if (!dims[size_t(d)].known() || lead[d] == dims[size_t(d)]) continue;
        WEFT_CHECK(ctx.facts().Equal(lead[d], dims[size_t(d)]) != Proof::kNo, kShapeMismatch,
                   "{}: dimension {} of input {} is {}, that of another is {}",
                   ctx.node()->Describe(), d, i, dims[size_t(d)].ToString(), lead[d].ToString());
        ctx.facts().AddEqual(lead[d], dims[size_t(d)]);
        if (dims[size_t(d)].is_const()) lead.set(d, dims[size_t(d)]);
      }
    }
    for (int i = 0; i < int(outputs.size()) && i < ctx.num_outputs(); ++i) {
      const Term& t = outputs[size_t(i)];
      if (!t.has_shape) {
        ctx.explain(i, fmt::format("the signature \"{}\" does not say it", text));
        continue;
      }
      if (t.any_lead && !lead_known) continue;
      std::vector<SymInt> dims;
      if (t.any_lead) dims = lead.dims();
      for (SymInt d : t.dims) dims.push_back(ValueOf(d, names));
      ctx.set_out(i, Shape(std::move(dims)));
    }
  }
};

OpSignature::OpSignature(std::string_view text) {
  auto impl = std::make_shared<Impl>();
  impl->text = std::string(text);
  FormulaReader(text).Read(&impl->inputs, &impl->outputs);
  impl_ = std::move(impl);
}
int OpSignature::num_inputs() const { return int(impl_->inputs.size()); }
int OpSignature::num_outputs() const { return int(impl_->outputs.size()); }
FInferType OpSignature::types() const {
  return [impl = impl_](InferTypeContext& ctx) { impl->InferTypes(ctx); };
}
FInferShape OpSignature::shapes() const {
  return [impl = impl_](InferShapeContext& ctx) { impl->InferShapes(ctx); };
}

}  // namespace weft
