/// strings.cc: StringConcat, StringSplit, StringNormalizer, RegexFullMatch, TfIdfVectorizer.
///
/// Strings live on the host. Case changes touch the letters of ASCII and leave other bytes as they
/// are; the attribute `locale` is not used.
#include <algorithm>
#include <map>

#include "ops/util/host_util.h"
#include "regex.h"
#include "weft/support/checked.h"
#include "weft/support/request.h"

namespace weft::ops {
namespace {

constexpr DTypeSet kStrings{DType::kString};

struct StringSplitParam : OpParam<StringSplitParam> {
  std::string delimiter;
  int64_t maxsplit;
  WEFT_OP_PARAM(StringSplitParam) {
    WEFT_FIELD(delimiter).set_default("").describe("empty: runs of white space");
    WEFT_FIELD(maxsplit).set_default(-1).describe("most cuts a string; negative: no bound");
  }
};
WEFT_REGISTER_OP_PARAM(StringSplitParam);

struct StringNormalizerParam : OpParam<StringNormalizerParam> {
  std::string case_change_action, locale;
  int64_t is_case_sensitive;
  Strings stopwords;
  WEFT_OP_PARAM(StringNormalizerParam) {
    WEFT_FIELD(case_change_action).set_default("NONE").describe("\"LOWER\", \"UPPER\" or \"NONE\"");
    WEFT_FIELD(is_case_sensitive).set_default(0).set_range(0, 1).describe("of stop words");
    WEFT_FIELD(locale).set_default("").describe("not used");
    WEFT_FIELD(stopwords).set_default({}).describe("strings that are left out");
  }
};
WEFT_REGISTER_OP_PARAM(StringNormalizerParam);

struct RegexParam : OpParam<RegexParam> {
  std::string pattern;
  WEFT_OP_PARAM(RegexParam) { WEFT_FIELD(pattern).describe("a regular expression of RE2"); }
};
WEFT_REGISTER_OP_PARAM(RegexParam);

struct TfIdfParam : OpParam<TfIdfParam> {
  int64_t max_gram_length, max_skip_count, min_gram_length;
  std::string mode;
  Ints ngram_counts, ngram_indexes, pool_int64s;
  Strings pool_strings;
  Floats weights;
  WEFT_OP_PARAM(TfIdfParam) {
    WEFT_FIELD(max_gram_length).set_lower_bound(1).describe("longest n-gram that counts");
    WEFT_FIELD(max_skip_count)
        .set_range(0, int64_t{1} << 31)
        .describe("most items between two of an n-gram");
    WEFT_FIELD(min_gram_length).set_lower_bound(1).describe("shortest n-gram that counts");
    WEFT_FIELD(mode).describe(
        "\"TF\" counts, \"IDF\" weights of those there are, \"TFIDF\" products");
    WEFT_FIELD(ngram_counts).describe("where the n-grams of each length begin in the pool");
    WEFT_FIELD(ngram_indexes).describe("column of each n-gram of the pool");
    WEFT_FIELD(pool_int64s).set_default({}).describe("n-grams of integers");
    WEFT_FIELD(pool_strings).set_default({}).describe("n-grams of strings");
    WEFT_FIELD(weights).set_default({}).describe("of each n-gram of the pool; default 1");
  }
};
WEFT_REGISTER_OP_PARAM(TfIdfParam);

Tensors StringConcatHost(const NodePtr&, const Tensors& in) {
  auto y = NewTensor(DType::kString, BroadcastDims(*in[0], *in[1]));
  int64_t bytes = 0;  // in a loop, strings can double with each iteration
  for (int64_t i = 0; i < y->num_elements(); ++i) {
    const std::string& a = in[0]->strings()[size_t(BroadcastOffset(i, y->dims(), in[0]->dims()))];
    const std::string& b = in[1]->strings()[size_t(BroadcastOffset(i, y->dims(), in[1]->dims()))];
    bytes = CheckedAdd(bytes, CheckedAdd(int64_t(a.size()), int64_t(b.size())));
    RequestScope::CheckTensor(bytes);
    RequestScope::CheckMemory(bytes);
    y->mutable_strings()[size_t(i)] = a + b;
  }
  return {y};
}

// ---- StringSplit ----

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
/// By runs of white space, none at the ends.
std::vector<std::string> SplitSpace(const std::string& s, int64_t most) {
  std::vector<std::string> parts;
  size_t i = 0;
  for (;;) {
    while (i < s.size() && IsSpace(s[i])) ++i;
    if (i == s.size()) return parts;
    if (most >= 0 && int64_t(parts.size()) == most) {
      size_t end = s.size();
      while (end > i && IsSpace(s[end - 1])) --end;
      parts.push_back(s.substr(i, end - i));
      return parts;
    }
    const size_t begin = i;
    while (i < s.size() && !IsSpace(s[i])) ++i;
    parts.push_back(s.substr(begin, i - begin));
  }
}
std::vector<std::string> SplitBy(const std::string& s, const std::string& by, int64_t most) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t at;
       (most < 0 || int64_t(parts.size()) < most) && (at = s.find(by, begin)) != std::string::npos;
       begin = at + by.size())
    parts.push_back(s.substr(begin, at - begin));
  parts.push_back(s.substr(begin));
  return parts;
}
void StringSplitType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kStrings);
  ctx.set_out(0, DType::kString);
  ctx.set_out(1, DType::kI64);
}
void StringSplitShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  ctx.set_out(1, x);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  std::vector<SymInt> dims = x.dims();
  dims.push_back(ctx.unbacked(0));
  ctx.set_out(0, Shape(std::move(dims)));
  Unknown(ctx, 0, "it depends on the strings");
}
Tensors StringSplitHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<StringSplitParam>(n);
  const Tensor& x = *in[0];
  std::vector<std::vector<std::string>> all;
  size_t longest = 0;
  for (const std::string& s : x.strings()) {
    all.push_back(p.delimiter.empty() ? SplitSpace(s, p.maxsplit)
                                      : SplitBy(s, p.delimiter, p.maxsplit));
    longest = std::max(longest, all.back().size());
  }
  Dims dims = x.dims();
  dims.push_back(int64_t(longest));
  auto y = NewTensor(DType::kString, dims), counts = NewTensor(DType::kI64, x.dims());
  for (size_t i = 0; i < all.size(); ++i) {
    counts->set_int(int64_t(i), int64_t(all[i].size()));
    std::copy(all[i].begin(), all[i].end(), y->mutable_strings().begin() + long(i * longest));
  }
  return {y, counts};
}

// ---- StringNormalizer ----

std::string ChangeCase(std::string s, bool upper) {
  for (char& c : s) {
    if (upper && c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
    if (!upper && c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  }
  return s;
}
void StringType(InferTypeContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) CheckInputType(ctx, i, kStrings);
  ctx.set_out(0, DType::kString);
}
void StringNormalizerShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<StringNormalizerParam>(ctx.node());
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  WEFT_CHECK(x.rank() == 1 || (x.rank() == 2 && (!x[0].is_const() || x[0].is(1))), kShapeMismatch,
             "{}: x has shape {}, expected [C] or [1, C]", ctx.node()->Describe(), x.ToString());
  if (p.stopwords.empty()) return ctx.set_out(0, x);
  const SymInt count = ctx.unbacked(0);
  ctx.set_out(0, x.rank() == 1 ? Shape({count}) : Shape({SymInt(1), count}));
  Unknown(ctx, 0, "it depends on the strings");
}
Tensors StringNormalizerHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<StringNormalizerParam>(n);
  WEFT_CHECK(p.case_change_action == "NONE" || p.case_change_action == "LOWER" ||
                 p.case_change_action == "UPPER",
             kBadAttribute, "{}: case_change_action \"{}\"", n->Describe(), p.case_change_action);
  const auto stops = [&](const std::string& s) {
    return std::any_of(p.stopwords.begin(), p.stopwords.end(), [&](const std::string& w) {
      return p.is_case_sensitive ? w == s : ChangeCase(w, false) == ChangeCase(s, false);
    });
  };
  std::vector<std::string> out;
  for (const std::string& s : in[0]->strings()) {
    if (stops(s)) continue;
    out.push_back(p.case_change_action == "NONE" ? s
                                                 : ChangeCase(s, p.case_change_action == "UPPER"));
  }
  if (out.empty() && !p.stopwords.empty()) out.push_back("");  // ONNX has no empty result here
  Dims dims = in[0]->dims();
  dims.back() = int64_t(out.size());
  auto y = NewTensor(DType::kString, dims);
  y->mutable_strings() = out;
  return {y};
}

// ---- RegexFullMatch ----

void RegexType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kStrings);
  ctx.set_out(0, DType::kBool);
}
Tensors RegexHost(const NodePtr& n, const Tensors& in) {
  const Regex pattern(ParamOf<RegexParam>(n).pattern);
  auto y = NewTensor(DType::kBool, in[0]->dims());
  for (int64_t i = 0; i < y->num_elements(); ++i)
    y->set_int(i, pattern.MatchesAll(in[0]->strings()[size_t(i)]));
  return {y};
}

// ---- TfIdfVectorizer ----

int64_t ColumnsOf(const NodePtr& n) {
  const auto& indexes = ParamOf<TfIdfParam>(n).ngram_indexes;
  WEFT_CHECK(!indexes.empty() && *std::min_element(indexes.begin(), indexes.end()) >= 0,
             kBadAttribute, "{}: ngram_indexes is empty or holds a negative one", n->Describe());
  return *std::max_element(indexes.begin(), indexes.end()) + 1;
}
void TfIdfType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kIndexTypes | kStrings);
  ctx.set_out(0, DType::kF32);
}
void TfIdfShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  WEFT_CHECK(x.rank() == 1 || x.rank() == 2, kShapeMismatch,
             "{}: x has shape {}, expected [C] or [N, C]", ctx.node()->Describe(), x.ToString());
  const SymInt columns = ColumnsOf(ctx.node());
  ctx.set_out(0, x.rank() == 1 ? Shape({columns}) : Shape({x[0], columns}));
}
/// n-gram -> its number in the pool.
std::map<std::vector<std::string>, int64_t> PoolOf(const NodePtr& n) {
  const auto& p = ParamOf<TfIdfParam>(n);
  std::vector<std::string> items(p.pool_strings.begin(), p.pool_strings.end());
  if (items.empty())
    for (const int64_t v : p.pool_int64s) items.push_back(fmt::format("{}", v));
  std::map<std::vector<std::string>, int64_t> pool;
  int64_t number = 0;
  for (size_t k = 0; k < p.ngram_counts.size(); ++k) {
    const int64_t begin = p.ngram_counts[k];
    const int64_t end =
        k + 1 < p.ngram_counts.size() ? p.ngram_counts[k + 1] : int64_t(items.size());
    const int64_t length = int64_t(k) + 1;
    WEFT_CHECK(begin >= 0 && begin <= end && end <= int64_t(items.size()), kBadAttribute,
               "{}: ngram_counts [{}, {}) of {} items", n->Describe(), begin, end, items.size());
    for (int64_t i = begin; i + length <= end; i += length)
      pool.emplace(std::vector<std::string>(items.begin() + i, items.begin() + i + length),
                   number++);
  }
  WEFT_CHECK(number <= int64_t(p.ngram_indexes.size()), kBadAttribute,
             "{}: {} n-grams and {} indexes", n->Describe(), number, p.ngram_indexes.size());
  return pool;
}
Tensors TfIdfHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<TfIdfParam>(n);
  WEFT_CHECK(p.mode == "TF" || p.mode == "IDF" || p.mode == "TFIDF", kBadAttribute,
             "{}: mode \"{}\"", n->Describe(), p.mode);
  const Tensor& x = *in[0];
  const auto pool = PoolOf(n);
  const int64_t columns = ColumnsOf(n);
  const int64_t length = x.dims().back(), rows = x.rank() == 2 ? x.dims()[0] : 1;
  auto y = NewTensor(DType::kF32, x.rank() == 2 ? Dims{rows, columns} : Dims{columns});
  for (int64_t r = 0; r < rows; ++r) {
    const auto item = [&](int64_t i) {
      return x.dtype() == DType::kString ? x.strings()[size_t(r * length + i)]
                                         : fmt::format("{}", x.at_int(r * length + i));
    };
    const auto count = [&](int64_t size, int64_t step) {
      for (int64_t begin = 0; begin + (size - 1) * step < length; ++begin) {
        std::vector<std::string> gram;
        for (int64_t k = 0; k < size; ++k) gram.push_back(item(begin + k * step));
        const auto found = pool.find(gram);
        if (found == pool.end()) continue;
        const size_t number = size_t(found->second);
        const int64_t at = r * columns + p.ngram_indexes[number];
        const double weight = number < p.weights.size() ? p.weights[number] : 1;
        if (p.mode == "TF")
          y->set(at, y->at(at) + 1);
        else
          y->set(at, p.mode == "IDF" ? weight : y->at(at) + weight);
      }
    };
    // Longer than the longest of the pool, or wider than the row, is nothing to look for.
    const int64_t longest = std::min(p.max_gram_length, int64_t(p.ngram_counts.size()));
    for (int64_t size = p.min_gram_length; size <= longest; ++size) {
      for (int64_t step = 1; step <= p.max_skip_count + 1 && (size - 1) * step < length; ++step) {
        RequestScope::Poll();
        count(size, step);
        if (size == 1) break;
      }
    }
  }
  return {y};
}

}  // namespace

WEFT_REGISTER_OP(StringConcat)
    .describe("Each string of X followed by that of Y, broadcast. Source: ONNX StringConcat-20.")
    .input("X", "str")
    .input("Y", "str")
    .output("Z", "str")
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", StringType)
    .set_attr<FInferShape>("FInferShape", BroadcastShape)
    .set_attr<FHostEval>("FHostEval", StringConcatHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(StringSplit)
    .describe(
        "Each string cut at `delimiter` (empty: at runs of white space) into a row, filled up with "
        "empty strings, and how many parts it has. Source: ONNX StringSplit-20.")
    .input("X", "str")
    .output("Y", "str", "[..., most parts]")
    .output("Z", "i64", "the shape of X")
    .param<StringSplitParam>()
    .set_attr<FInferType>("FInferType", StringSplitType)
    .set_attr<FInferShape>("FInferShape", StringSplitShape)
    .set_attr<FHostEval>("FHostEval", StringSplitHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(StringNormalizer)
    .describe(
        "Strings without the stop words, in lower or upper case; one empty string where none is "
        "left. Source: ONNX StringNormalizer-10.")
    .input("X", "str", "[C] or [1, C]")
    .output("Y", "str")
    .param<StringNormalizerParam>()
    .set_attr<FInferType>("FInferType", StringType)
    .set_attr<FInferShape>("FInferShape", StringNormalizerShape)
    .set_attr<FHostEval>("FHostEval", StringNormalizerHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(RegexFullMatch)
    .describe(
        "Whether `pattern` matches the whole of each string. RE2's syntax but for \\p and \\C; "
        "letters of ASCII alone have a case and are words. Time is linear in the string.\n"
        "Errors: a pattern that is not one (kBadAttribute), more than 65536 states (kLimit). "
        "Source: ONNX RegexFullMatch-20.")
    .input("X", "str")
    .output("Y", "bool", "the shape of X")
    .param<RegexParam>()
    .set_attr<FInferType>("FInferType", RegexType)
    .set_attr<FInferShape>("FInferShape", UnaryShape)
    .set_attr<FHostEval>("FHostEval", RegexHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(TfIdfVectorizer)
    .describe(
        "How often each n-gram of the pool occurs in each row, weighted by `mode`. Source: ONNX "
        "TfIdfVectorizer-9.")
    .input("X", "str, i32 or i64", "[C] or [N, C]")
    .output("Y", "f32", "[columns] or [N, columns]")
    .param<TfIdfParam>()
    .set_attr<FInferType>("FInferType", TfIdfType)
    .set_attr<FInferShape>("FInferShape", TfIdfShape)
    .set_attr<FHostEval>("FHostEval", TfIdfHost)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
