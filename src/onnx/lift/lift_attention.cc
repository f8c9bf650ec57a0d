/// lift_attention.cc: attention and rotary embedding, of the standard and of com.microsoft, written
/// out. The products, the scale, one sum with what hides keys, the soft-max: the form of which the
/// pass Attention makes one call.
///
///   y = Softmax(scale q k' + hide) v        q [b, n, s, d]   k [b, n, t, d]   v [b, n, t, e]
///
/// Where several heads of queries share one of keys, all have an axis more, along which the keys
/// broadcast, so that nothing is repeated: q [b, n, g, s, d], k [b, n, 1, t, d].
#include "lift_attention.h"

#include <cmath>
#include <limits>

#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::onnx_import {
namespace {

constexpr int64_t kAll = INT64_MAX;
constexpr int64_t kToEnd = INT64_MAX;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- small words ----

std::string Number(Lift* l, int64_t v) {
  return l->Constant(Tensor::Scalar(DType::kI64, double(v)));
}
std::string Slice(Lift* l, const std::string& x, int64_t begin, int64_t end, int64_t axis,
                  int64_t step = 1) {
  return l->Before("Slice",
                   {x, l->Ints({begin}), l->Ints({end}), l->Ints({axis}), l->Ints({step})});
}
std::string Reshaped(Lift* l, const std::string& x, const std::vector<int64_t>& dims) {
  return l->Before("Reshape", {x, l->Ints(dims)});
}
std::string Transposed(Lift* l, const std::string& x, Ints perm) {
  return l->Before("Transpose", {x}, {{"perm", std::move(perm)}});
}
std::string Unsqueezed(Lift* l, const std::string& x, const std::vector<int64_t>& axes) {
  return l->Before("Unsqueeze", {x, l->Ints(axes)});
}
/// One extent, [1] or as a scalar.
std::string ExtentAt(Lift* l, const std::string& x, int64_t axis) {
  const AttrDict attrs =
      axis == -1 ? AttrDict{{"start", axis}} : AttrDict{{"start", axis}, {"end", axis + 1}};
  return l->Before("Shape", {x}, attrs);
}
std::string ExtentScalar(Lift* l, const std::string& x, int64_t axis) {
  return l->Before("Squeeze", {ExtentAt(l, x, axis), l->Ints({0})});
}
std::string Range(Lift* l, const std::string& from, const std::string& to) {
  return l->Before("Range", {from, to, Number(l, 1)});
}
std::string Sum(Lift* l, const std::string& a, const std::string& b) {
  return a.empty() ? b : b.empty() ? a : l->Before("Add", {a, b});
}
std::string Both(Lift* l, const std::string& a, const std::string& b) {
  return a.empty() ? b : b.empty() ? a : l->Before("And", {a, b});
}
/// What is added to the scores: 0 where `allowed`, else `hidden`, a scalar or a tensor.
std::string Hide(Lift* l, const std::string& allowed, double hidden, const std::string& like,
                 const std::string& otherwise = {}) {
  return l->Before("Where", {allowed, otherwise.empty() ? l->ScalarLike(0, like) : otherwise,
                             l->ScalarLike(hidden, like)});
}

// ---- one soft-max ----

struct Scores {
  std::string product, capped, hidden, weights, y;
};
/// q and k may have any number of batch axes, `rank` of them and the two of the matrices. `safe`:
/// rows of which every key is hidden by -inf give zeros. `sink`: the score of one key more, which
/// has no value; "": there is none.
Scores Attend(Lift* l, int rank, const std::string& q, const std::string& k, const std::string& v,
              const std::string& scale, double softcap, const std::string& hide,
              const std::string& like, bool safe = false, DType precision = DType::kUnknown,
              const std::string& sink = {}) {
  Ints perm;
  for (int i = 0; i < rank; ++i) perm.push_back(i);
  std::swap(perm[size_t(rank - 2)], perm[size_t(rank - 1)]);
  Scores s;
  s.product = l->Before("MatMul", {q, Transposed(l, k, perm)});
  if (!scale.empty()) s.product = l->Before("Mul", {s.product, scale});
  s.capped = s.product;
  if (softcap != 0) {
    const std::string cap = l->ScalarLike(softcap, like);
    s.capped = l->Before("Mul", {l->Before("Tanh", {l->Before("Div", {s.product, cap})}), cap});
  }
  s.hidden = Sum(l, s.capped, hide);
  std::string in = s.hidden;
  if (precision != DType::kUnknown) in = l->Before("Cast", {in}, {{"to", precision}});
  s.weights = l->Before("Softmax", {in}, {{"axis", int64_t{-1}}});
  if (safe)
    s.weights = l->Before("Where",
                          {l->Before("IsNaN", {s.weights}),
                           precision == DType::kUnknown ? l->ScalarLike(0, like)
                                                        : l->Constant(Tensor::Scalar(precision, 0)),
                           s.weights});
  if (!sink.empty()) {
    // exp(x) / (sum + exp(sink)) = softmax(x) sigmoid(log(sum) - sink)
    const std::string sum = l->Before("ReduceLogSumExp", {s.hidden, l->Ints({-1})});
    const std::string share = l->Before("Sigmoid", {l->Before("Sub", {sum, sink})});
    s.weights = l->Before("Mul", {s.weights, share});
  }
  std::string weights = s.weights;
  if (precision != DType::kUnknown) weights = l->Before("CastLike", {weights, like});
  s.y = l->Before("MatMul", {weights, v});
  return s;
}

/// 1 / sqrt(size) of the last axis of x, or its square root, as a constant where it is known.
std::string DefaultScale(Lift* l, const std::string& x, std::optional<int64_t> size,
                         const std::string& like) {
  if (size) return l->ScalarLike(1 / std::sqrt(double(*size)), like);
  const std::string extent = l->Before("Cast", {ExtentAt(l, x, -1)}, {{"to", DType::kF32}});
  const std::string scale = l->Before("Reciprocal", {l->Before("Sqrt", {extent})});
  return l->Before("CastLike", {scale, like});
}

/// [rows, keys]: row i sees the keys up to i + offset.
std::string Causal(Lift* l, const std::string& rows, const std::string& keys,
                   const std::string& offset) {
  std::string row = Range(l, Number(l, 0), rows);
  if (!offset.empty()) row = l->Before("Add", {row, offset});
  const std::string key = Range(l, Number(l, 0), keys);
  return l->Before("LessOrEqual", {Unsqueezed(l, key, {0}), Unsqueezed(l, row, {1})});
}

/// [b, s, n d] -> [b, n, s, d]
std::string HeadsApart(Lift* l, const std::string& x, int64_t heads) {
  return Transposed(l, Reshaped(l, x, {0, 0, heads, -1}), {0, 2, 1, 3});
}
/// [b, n, s, d] -> [b, s, n d]
std::string HeadsTogether(Lift* l, const std::string& x) {
  return Reshaped(l, Transposed(l, x, {0, 2, 1, 3}), {0, 0, -1});
}
/// The same with groups: [b, n, g, s, d].
std::string GroupsTogether(Lift* l, const std::string& x) {
  return Reshaped(l, Transposed(l, x, {0, 3, 1, 2, 4}), {0, 0, -1});
}
/// [b, n g, s, t] -> [b, n, g, s, t]; one for all heads stays so.
std::string SplitGroups(Lift* l, const std::string& x, int64_t heads, int64_t groups) {
  const std::string tail = l->Before("Shape", {x}, {{"start", int64_t{2}}});
  return l->Before("Reshape",
                   {x, l->Before("Concat", {l->Ints({0, heads, groups}), tail}, {{"axis", 0}})});
}
/// A summand of [b, n g, s, t] for grouped scores.
std::string GroupedSummand(Lift* l, const std::string& x, int rank, std::optional<int64_t> own,
                           int64_t heads, int64_t groups) {
  if (rank < 3 || groups == 1) return x;
  const std::string whole = rank == 3 ? Unsqueezed(l, x, {0}) : x;
  if (own == 1) return Unsqueezed(l, whole, {2});
  return SplitGroups(l, l->Before("Expand", {whole, l->Ints({1, heads * groups, 1, 1})}), heads,
                     groups);
}

// ---- rotary embedding ----

/// Pairs of the last axis of x (four axes) turned by angles whose cosines and sines broadcast to
/// half of them; from `turned` on it stays (0: all of it turns).
std::string Rotated(Lift* l, const std::string& x, const std::string& cos, const std::string& sin,
                    int64_t turned, bool interleaved) {
  const std::string part = turned > 0 ? Slice(l, x, 0, turned, -1) : x;
  std::string a, b;
  if (interleaved) {
    a = Slice(l, part, 0, kToEnd, -1, 2);
    b = Slice(l, part, 1, kToEnd, -1, 2);
  } else {
    const auto halves =
        l->BeforeMany("Split", {part}, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}}, 2);
    a = halves[0];
    b = halves[1];
  }
  std::string real = l->Before("Sub", {l->Before("Mul", {a, cos}), l->Before("Mul", {b, sin})});
  std::string imaginary =
      l->Before("Add", {l->Before("Mul", {a, sin}), l->Before("Mul", {b, cos})});
  std::string y;
  if (interleaved) {
    real = Unsqueezed(l, real, {-1});
    imaginary = Unsqueezed(l, imaginary, {-1});
    y = Reshaped(l, l->Before("Concat", {real, imaginary}, {{"axis", int64_t{-1}}}), {0, 0, 0, -1});
  } else {
    y = l->Before("Concat", {real, imaginary}, {{"axis", int64_t{-1}}});
  }
  if (turned == 0) return y;
  return l->Before("Concat", {y, Slice(l, x, turned, kToEnd, -1)}, {{"axis", int64_t{-1}}});
}

/// Columns of a table of cosines or sines that are used; tables may be wider.
std::string UsedColumns(Lift* l, const std::string& table, const std::string& rows,
                        int64_t turned) {
  if (turned == 0 || l->ExtentOf(table, -1) == turned / 2) return rows;
  return Slice(l, rows, 0, turned / 2, -1);
}

void RotaryEmbedding(Lift* l) {
  const bool interleaved = l->Take<int64_t>("interleaved", 0) != 0;
  int64_t turned = l->Take<int64_t>("rotary_embedding_dim", 0);
  const int64_t heads = l->Take<int64_t>("num_heads", 0);
  const std::string x = l->input(0), positions = l->input(3);
  const int rank = l->RankOf(x, "X");
  if (rank != 3 && rank != 4) l->Unsupported(fmt::format("X has {} axes, 3 or 4 are taken", rank));
  if (rank == 3 && heads <= 0)
    WEFT_THROW(kBadAttribute, "RotaryEmbedding of 3 axes needs the attribute num_heads");
  const auto rows = [&](const std::string& table) {
    const std::string own =
        positions.empty() ? table : l->Before("Gather", {table, positions}, {{"axis", 0}});
    return Unsqueezed(l, UsedColumns(l, table, own, turned), {rank == 3 ? 2 : 1});
  };
  const std::string cos = rows(l->input(1)), sin = rows(l->input(2));
  if (l->ExtentOf(x, -1) == (rank == 3 ? CheckedMul(turned, heads) : turned)) turned = 0;
  const std::string apart = rank == 3 ? Reshaped(l, x, {0, 0, heads, -1}) : x;
  const std::string y = Rotated(l, apart, cos, sin, turned, interleaved);
  l->Replace({rank == 3 ? Reshaped(l, y, {0, 0, -1}) : y});
}

// ---- attention of the standard ----

void StandardAttention(Lift* l) {
  const int64_t version = l->node.version;
  const bool causal = l->Take<int64_t>("is_causal", 0) != 0;
  const AttrValue given_scale = l->Take("scale");
  const double softcap = l->Take<double>("softcap", 0);
  const int64_t mode = l->Take<int64_t>("qk_matmul_output_mode", 0);
  const AttrValue given_precision = l->Take("softmax_precision");
  int64_t q_heads = l->Take<int64_t>("q_num_heads", 0),
          kv_heads = l->Take<int64_t>("kv_num_heads", 0);
  const std::string like = l->input(0);
  std::string q = l->input(0), k = l->input(1), v = l->input(2);
  const std::string mask = l->input(3), past_k = l->input(4), past_v = l->input(5),
                    valid = l->input(6);
  if (mode < 0 || mode > 3)
    l->Unsupported(fmt::format("qk_matmul_output_mode = {}, 0 to 3 are taken", mode));
  DType precision = DType::kUnknown;
  if (!given_precision.empty()) {
    const auto t = DTypeOfOnnx(given_precision.get<int64_t>());
    if (!t || !IsFloat(*t))
      l->Unsupported(fmt::format("softmax_precision = {} is not a float dtype that is supported",
                                 given_precision.get<int64_t>()));
    if (*t != l->dtype_of(like)) precision = *t;
  }

  int rank = l->rank_of(q);
  if (rank < 0) rank = q_heads > 0 && kv_heads > 0 ? 3 : 4;
  if (rank != 3 && rank != 4) l->Unsupported(fmt::format("Q has {} axes, 3 or 4 are taken", rank));
  std::optional<int64_t> size = l->ExtentOf(q, -1);
  if (rank == 3) {
    if (q_heads <= 0 || kv_heads <= 0)
      WEFT_THROW(kBadAttribute,
                 "Attention of 3 axes needs the attributes q_num_heads and kv_num_heads");
    if (size) size = *size / q_heads;
  } else {
    const Shape qs = l->shape_of(q), ks = l->shape_of(k);
    const auto own_q = l->ExtentOf(q, 1), own_k = l->ExtentOf(k, 1);
    const bool equal = qs.has_rank() && ks.has_rank() && ks.rank() == 4 && qs[1].known() &&
                       ks[1].known() && qs[1] == ks[1];
    if (!equal && (!own_q || !own_k)) l->Unsupported("the numbers of heads are not known");
    q_heads = equal ? 1 : *own_q;
    kv_heads = equal ? 1 : *own_k;
  }
  if (kv_heads <= 0 || q_heads % kv_heads != 0)
    WEFT_THROW(kShapeMismatch, "{} heads of queries, {} of keys: not a multiple", q_heads,
               kv_heads);
  const int64_t groups = q_heads / kv_heads;

  // The mask and the keys as the model gives them say how long they are; what is made here has no
  // shape yet.
  SymInt keys;
  if (l->rank_of(k) == rank) keys = l->shape_of(k)[rank - 2];
  if (!past_k.empty() && keys.known()) {
    const Shape past = l->shape_of(past_k);
    keys = past.has_rank() && past.rank() == 4 && past[2].known() ? keys + past[2] : SymInt();
  }
  if (rank == 3) {
    q = HeadsApart(l, q, q_heads);
    k = HeadsApart(l, k, kv_heads);
    v = HeadsApart(l, v, kv_heads);
  }
  if (!past_k.empty()) k = l->Before("Concat", {past_k, k}, {{"axis", int64_t{2}}});
  if (!past_v.empty()) v = l->Before("Concat", {past_v, v}, {{"axis", int64_t{2}}});
  const std::string present_k = k, present_v = v;

  std::string hide, allowed;
  if (!mask.empty()) {
    const DType dtype = l->dtype_of(mask);
    if (dtype == DType::kUnknown) l->Unsupported("the dtype of attn_mask is not known");
    const bool chooses = dtype == DType::kBool;
    std::string own =
        chooses || dtype == l->dtype_of(like) ? mask : l->Before("CastLike", {mask, like});
    const Shape ms = l->shape_of(mask);
    const bool whole = ms.has_rank() && ms.rank() > 0 && keys.known() &&
                       ms[ms.rank() - 1].known() && ms[ms.rank() - 1] == keys;
    if (version >= 24 && !whole) {
      // From 24 on a mask may end early; what lies behind is hidden.
      const std::string missing = l->Before("Sub", {ExtentAt(l, k, 2), ExtentAt(l, mask, -1)});
      const std::string pads = l->Before("Concat", {l->Ints({0}), missing}, {{"axis", 0}});
      const std::string last =
          chooses ? l->Constant(Tensor::Scalar(DType::kBool, 0)) : l->ScalarLike(-kInfinity, like);
      own = l->Before("Pad", {own, pads, last, l->Ints({-1})});
    }
    if (groups > 1)
      own = GroupedSummand(l, own, l->RankOf(mask, "attn_mask"), l->ExtentOf(mask, -3), kv_heads,
                           groups);
    (chooses ? allowed : hide) = own;
  }
  if (causal)
    allowed = Both(l, allowed,
                   Causal(l, ExtentScalar(l, q, 2), ExtentScalar(l, k, 2),
                          past_k.empty() ? "" : ExtentAt(l, past_k, 2)));
  if (!valid.empty()) {
    const std::string key = Range(l, Number(l, 0), ExtentScalar(l, k, 2));
    const std::string ends = Unsqueezed(l, valid, groups > 1 ? Ints{1, 2, 3, 4} : Ints{1, 2, 3});
    allowed = Both(l, allowed, l->Before("Less", {key, ends}));
  }
  if (!allowed.empty()) hide = Sum(l, hide, Hide(l, allowed, -kInfinity, like));

  if (groups > 1) {
    q = SplitGroups(l, q, kv_heads, groups);
    k = Unsqueezed(l, k, {2});
    v = Unsqueezed(l, v, {2});
  }
  // The standard puts the root of the scale on either side: half floats overflow later.
  std::string root;
  if (!given_scale.empty())
    root = l->ScalarLike(std::sqrt(given_scale.get<double>()), like);
  else if (size)
    root = l->ScalarLike(std::sqrt(1 / std::sqrt(double(*size))), like);
  else
    root = l->Before("Sqrt", {DefaultScale(l, q, size, like)});
  const Scores s =
      Attend(l, groups > 1 ? 5 : 4, l->Before("Mul", {q, root}), l->Before("Mul", {k, root}), v, "",
             softcap, hide, like, !mask.empty() || !valid.empty(), precision);
  // [b, n, g, s, x] -> [b, n g, s, x]
  const auto merged = [&](const std::string& x) {
    if (groups == 1) return x;
    const std::string tail = l->Before("Shape", {x}, {{"start", int64_t{3}}});
    return l->Before("Reshape",
                     {x, l->Before("Concat", {l->Ints({0, q_heads}), tail}, {{"axis", 0}})});
  };
  std::string scores;
  if (l->HasOutput(3))
    scores = merged(mode == 0   ? s.product
                    : mode == 1 ? s.capped
                    : mode == 2 ? s.hidden
                                : s.weights);
  const std::string y = rank == 4     ? merged(s.y)
                        : groups == 1 ? HeadsTogether(l, s.y)
                                      : GroupsTogether(l, s.y);
  l->Replace({y, present_k, present_v, scores});
}

// ---- attention of com.microsoft ----

/// What the forms of a mask of com.microsoft hide: 0 or `hidden`, to be added to the scores.
///   [b]      keys from that number on            [2 b]  and those below a second one
///   [b, t]   keys with 0    [b, s, t]  for each row
std::string HideByMask(Lift* l, const std::string& mask, const std::string& batch_like,
                       const std::string& k, double hidden, const std::string& like) {
  const int rank = l->RankOf(mask, "the mask");
  std::string allowed;
  if (rank == 1) {
    const Shape m = l->shape_of(mask), b = l->shape_of(batch_like);
    const bool known = m[0].known() && b.has_rank() && b.rank() > 0 && b[0].known();
    const bool ends = known && m[0] == b[0], both = known && m[0] == b[0] * 2;
    if (!ends && !both)
      l->Unsupported("a mask of one axis that is not known to have batch or 2 * batch numbers");
    const std::string key = Range(l, Number(l, 0), ExtentScalar(l, k, 2));
    const auto bound = [&](const std::string& x) {
      return Unsqueezed(l, l->Before("Cast", {x}, {{"to", DType::kI64}}), {1, 2, 3});
    };
    std::string end = mask, begin;
    if (both) {
      const auto halves =
          l->BeforeMany("Split", {mask}, {{"axis", 0}, {"num_outputs", int64_t{2}}}, 2);
      end = halves[0];
      begin = l->Before("GreaterOrEqual", {key, bound(halves[1])});
    }
    allowed = Both(l, l->Before("Less", {key, bound(end)}), begin);
  } else if (rank == 2 || rank == 3) {
    allowed = l->Before(
        "Greater", {Unsqueezed(l, mask, rank == 2 ? Ints{1, 2} : Ints{1}), l->ScalarLike(0, mask)});
  } else {
    l->Unsupported(fmt::format("a mask of {} axes is not supported, only 1 to 3", rank));
  }
  return Hide(l, allowed, hidden, like);
}

struct Options {
  std::optional<double> scale;
  bool causal;
  double hidden;
};
Options TakeOptions(Lift* l) {
  Options o;
  const AttrValue scale = l->Take("scale");
  // 0 is as good as absent.
  if (!scale.empty() && scale.get<double>() != 0) o.scale = scale.get<double>();
  o.causal = l->Take<int64_t>("unidirectional", 0) != 0;
  o.hidden = l->Take<double>("mask_filter_value", -10000);
  return o;
}

/// q, k, v with heads apart and past keys in them; the result with heads together.
std::string AttendContrib(Lift* l, const Options& o, const std::string& q, const std::string& k,
                          const std::string& v, std::optional<int64_t> size,
                          const std::string& batch_like, const std::string& mask,
                          const std::string& bias, const std::string& like) {
  std::string hide;
  if (!mask.empty()) hide = HideByMask(l, mask, batch_like, k, o.hidden, like);
  if (o.causal) {
    const std::string rows = ExtentScalar(l, q, 2), keys = ExtentScalar(l, k, 2);
    // Keys that come later are hidden from everyone, also where the mask hides all others.
    hide = Hide(l, Causal(l, rows, keys, l->Before("Sub", {keys, rows})),
                std::numeric_limits<float>::lowest(), like, hide);
  }
  hide = Sum(l, hide, bias);
  const std::string scale =
      o.scale ? l->ScalarLike(*o.scale, like) : DefaultScale(l, q, size, like);
  return HeadsTogether(l, Attend(l, 4, q, k, v, scale, 0, hide, like).y);
}

}  // namespace

void AttendProjection(Lift* l, const std::string& projection, const std::string& like,
                      std::optional<int64_t> hidden, const std::string& mask,
                      const std::string& past, const std::string& bias) {
  const Options o = TakeOptions(l);
  const int64_t heads = l->Take<int64_t>("num_heads", 0);
  if (heads <= 0) WEFT_THROW(kBadAttribute, "com.microsoft::{} needs num_heads", l->node.op);
  const AttrValue sizes = l->Take("qkv_hidden_sizes");
  l->Only("past_present_share_buffer", 0);
  l->Only("do_rotary", 0);
  l->Take("rotary_embedding_dim");  // of do_rotary
  AttrDict split{{"axis", int64_t{-1}}, {"num_outputs", int64_t{3}}};
  std::vector<std::string> in{projection};
  if (!sizes.empty() && !sizes.get<Ints>().empty()) {
    if (sizes.get<Ints>().size() != 3)
      WEFT_THROW(kBadAttribute, "qkv_hidden_sizes has {} numbers, expected 3",
                 sizes.get<Ints>().size());
    in.push_back(l->Ints(sizes.get<Ints>()));
    hidden = sizes.get<Ints>()[0];
  }
  const auto parts = l->BeforeMany("Split", in, split, 3);
  const std::string q = HeadsApart(l, parts[0], heads);
  std::string k = HeadsApart(l, parts[1], heads), v = HeadsApart(l, parts[2], heads);
  if (!past.empty()) {
    const auto before = [&](const std::string& x, int64_t i) {
      const std::string own = l->Before("Gather", {past, Number(l, i)}, {{"axis", 0}});
      return l->Before("Concat", {own, x}, {{"axis", int64_t{2}}});
    };
    k = before(k, 0);
    v = before(v, 1);
  }
  std::string present;
  if (l->HasOutput(1))
    present = l->Before("Concat", {Unsqueezed(l, k, {0}), Unsqueezed(l, v, {0})}, {{"axis", 0}});
  if (hidden) hidden = *hidden / heads;
  l->Replace({AttendContrib(l, o, q, k, v, hidden, l->input(0), mask, bias, like), present});
}

void ContribAttention(Lift* l) {
  if (!l->input(6).empty())
    l->Unsupported("past_sequence_length (one buffer for past and present) is not supported");
  std::optional<int64_t> hidden = l->ExtentOf(l->input(1), 1);
  if (hidden) hidden = *hidden / 3;
  std::string x = l->Before("MatMul", {l->input(0), l->input(1)});
  if (!l->input(2).empty()) x = l->Before("Add", {x, l->input(2)});
  AttendProjection(l, x, l->input(0), hidden, l->input(3), l->input(4), l->input(5));
}

void ContribMultiHeadAttention(Lift* l) {
  const Options o = TakeOptions(l);
  const int64_t heads = l->Take<int64_t>("num_heads", 0);
  if (heads <= 0) WEFT_THROW(kBadAttribute, "com.microsoft::MultiHeadAttention needs num_heads");
  const std::string query = l->input(0), key = l->input(1), value = l->input(2);
  const std::string biases = l->input(3), past_k = l->input(6), past_v = l->input(7);
  if (!l->input(8).empty() || !l->input(9).empty())
    l->Unsupported("past_sequence_length and cache_indirection are not supported");

  // All as [b, s, n, d]; of a packed tensor one along axis 3.
  std::string q, k, v;
  std::optional<int64_t> hidden = l->ExtentOf(query, -1);
  const auto unpacked = [&](const std::string& x, int64_t i) {
    return l->Before("Gather", {x, Number(l, i)}, {{"axis", int64_t{3}}});
  };
  const auto apart = [&](const std::string& x) { return Reshaped(l, x, {0, 0, heads, -1}); };
  bool cross = false;  // keys and values of another sequence, heads apart already
  if (key.empty()) {
    if (hidden) hidden = CheckedMul(*hidden, heads);
    q = unpacked(query, 0);
    k = unpacked(query, 1);
    v = unpacked(query, 2);
  } else {
    q = apart(query);
    if (value.empty()) {
      k = unpacked(key, 0);
      v = unpacked(key, 1);
    } else {
      cross = l->RankOf(key, "key") == 4;
      k = cross ? key : apart(key);
      v = cross ? value : apart(value);
    }
  }
  if (!biases.empty()) {
    if (!hidden) l->Unsupported("a bias where the hidden size of the query is not known");
    const auto add = [&](std::string* x, int64_t begin, int64_t end) {
      const std::string own = Slice(l, biases, begin, end, 0);
      *x = l->Before("Add", {*x, Reshaped(l, own, {heads, -1})});
    };
    add(&q, 0, *hidden);
    if (!cross) add(&k, *hidden, CheckedMul(2, *hidden));
    if (!cross) add(&v, CheckedMul(2, *hidden), kToEnd);
  }
  q = Transposed(l, q, {0, 2, 1, 3});
  if (!cross) {
    k = Transposed(l, k, {0, 2, 1, 3});
    v = Transposed(l, v, {0, 2, 1, 3});
  }
  if (!past_k.empty()) k = l->Before("Concat", {past_k, k}, {{"axis", int64_t{2}}});
  if (!past_v.empty()) v = l->Before("Concat", {past_v, v}, {{"axis", int64_t{2}}});
  std::optional<int64_t> size = hidden;
  if (size) size = *size / heads;
  l->Replace({AttendContrib(l, o, q, k, v, size, query, l->input(4), l->input(5), query), k, v});
}

void ContribRotaryEmbedding(Lift* l) {
  const bool interleaved = l->Take<int64_t>("interleaved", 0) != 0;
  const int64_t turned = l->Take<int64_t>("rotary_embedding_dim", 0);
  int64_t heads = l->Take<int64_t>("num_heads", 0);
  l->Only("is_packed_batching", 0);
  const double scale = l->Take<double>("scale", 1);
  if (scale != 1) l->Unsupported(fmt::format("scale = {} is not supported, only 1", scale));
  const std::string x = l->input(0), positions = l->input(1), table = l->input(2);
  const int rank = l->RankOf(x, "the input");
  if (rank != 3 && rank != 4)
    l->Unsupported(fmt::format("the input has {} axes, 3 or 4 are taken", rank));
  std::string apart = x;
  if (rank == 3 && heads > 0 && turned > 0) {
    apart = Reshaped(l, x, {0, 0, heads, -1});
  } else if (rank == 3) {
    // Without a partial rotation the table says how large a head is.
    const auto half = l->ExtentOf(table, -1);
    if (!half && heads <= 0) l->Unsupported("neither num_heads nor the size of a head is known");
    apart = Reshaped(l, x, half ? Ints{0, 0, -1, CheckedMul(2, *half)} : Ints{0, 0, heads, -1});
  }
  // One number is where the sequence begins.
  std::string at = positions;
  if (l->RankOf(positions, "position_ids") == 1)
    at = l->Before("Add", {Range(l, Number(l, 0), ExtentScalar(l, x, rank - 2)), positions});
  const auto rows = [&](const std::string& t) {
    const std::string own = l->Before("Gather", {t, at}, {{"axis", 0}});
    return Unsqueezed(l, UsedColumns(l, t, own, turned), {rank == 3 ? -2 : -3});
  };
  const std::string cos = rows(table), sin = rows(l->input(3));
  const std::string y = Rotated(l, apart, cos, sin, turned, interleaved);
  l->Replace({rank == 3 ? Reshaped(l, y, {0, 0, -1}) : y});
}

/// Rows of the cache that come first are kept, new keys are written behind them, in each sequence
/// of the batch at its own place: seqlens_k is the last index that is valid afterwards.
void ContribGroupQueryAttention(Lift* l) {
  const int64_t heads = l->Take<int64_t>("num_heads", 0),
                kv_heads = l->Take<int64_t>("kv_num_heads", 0);
  if (heads <= 0 || kv_heads <= 0 || heads % kv_heads != 0)
    WEFT_THROW(kBadAttribute, "num_heads is {} and kv_num_heads {}, not a positive multiple", heads,
               kv_heads);
  const int64_t groups = heads / kv_heads, all_heads = CheckedAdd(heads, CheckedMul(2, kv_heads));
  const AttrValue given_scale = l->Take("scale");
  const double softcap = l->Take<double>("softcap", 0);
  const bool rotary = l->Take<int64_t>("do_rotary", 0) != 0;
  const bool interleaved = l->Take<int64_t>("rotary_interleaved", 0) != 0;
  const bool causal = l->Take<int64_t>("causal", 1) != 0;
  const int64_t window = l->Take<int64_t>("local_window_size", -1);
  const double epsilon = l->Take<double>("qk_norm_epsilon", 1e-6);
  const bool smooth = l->Take<int64_t>("smooth_softmax", -1) > 0;
  l->Only("qk_output", 0);
  l->Only("sliding_window_cache", 0);
  l->Only("kv_cache_bit_width", 0);
  for (const char* cache : {"k_quant_type", "v_quant_type"}) {
    const std::string kind = l->Take<std::string>(cache, "NONE");
    if (kind != "NONE")
      l->Unsupported(fmt::format("{} = {} is not supported, only NONE", cache, kind));
  }
  if (!l->input(12).empty() || !l->input(13).empty())
    l->Unsupported("quantized keys and values are not supported");

  const std::string query = l->input(0), past_k = l->input(3), past_v = l->input(4);
  const std::string& like = query;
  std::optional<int64_t> size = l->ExtentOf(query, -1);
  std::string q = query, k = l->input(1), v = l->input(2);
  const bool packed = k.empty();
  if (size) size = *size / (packed ? all_heads : heads);
  if (packed) {
    // Heads of q, k and v one after the other.
    const std::string all = Reshaped(l, q, {0, 0, all_heads, -1});
    const auto parts = l->BeforeMany("Split", {all, l->Ints({heads, kv_heads, kv_heads})},
                                     {{"axis", int64_t{2}}, {"num_outputs", int64_t{3}}}, 3);
    q = parts[0];
    k = parts[1];
    v = parts[2];
  } else {
    q = Reshaped(l, q, {0, 0, heads, -1});
    k = Reshaped(l, k, {0, 0, kv_heads, -1});
    v = Reshaped(l, v, {0, 0, kv_heads, -1});
  }
  const auto normed = [&](const std::string& x, const std::string& weight) {
    if (weight.empty()) return x;
    return l->Before("RMSNormalization", {x, weight},
                     {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
  };
  q = normed(q, l->input(14));
  k = normed(k, l->input(15));

  // [b] where the new keys begin, and the length that all sequences share.
  const std::string rows = ExtentScalar(l, query, 1);
  const auto number = [&](const std::string& x) {
    return l->Before("Cast", {x}, {{"to", DType::kI64}});
  };
  const std::string total = l->Before("Reshape", {number(l->input(6)), l->Ints({})});
  const std::string ends =
      l->Before("Add", {l->Before("Reshape", {number(l->input(5)), l->Ints({-1})}), Number(l, 1)});
  const std::string prompt = l->Before("Equal", {total, rows});
  const std::string begins =
      l->Before("Where", {prompt, Number(l, 0), l->Before("Sub", {ends, rows})});
  const std::string step = Range(l, Number(l, 0), rows);
  // [b, s]: the position of each row.
  const std::string at = l->Before("Add", {Unsqueezed(l, begins, {1}), step});

  if (rotary) {
    const std::string cos_table = l->input(7), sin_table = l->input(8);
    if (cos_table.empty() || sin_table.empty())
      WEFT_THROW(kArity, "do_rotary = 1 needs cos_cache and sin_cache");
    std::string positions = at;
    if (!l->input(9).empty()) {
      // Of a prompt only the first one is read.
      const std::string first =
          l->Before("Gather", {l->Before("Reshape", {l->input(9), l->Ints({-1})}), l->Ints({0})});
      positions = l->Before("Where", {prompt, l->Before("Add", {first, step}), l->input(9)});
    }
    const auto angles = [&](const std::string& table) {
      return Unsqueezed(l, l->Before("Gather", {table, positions}, {{"axis", 0}}), {2});
    };
    const std::string cos = angles(cos_table), sin = angles(sin_table);
    // A table that is as wide as half a head turns all of it.
    const auto half = l->ExtentOf(cos_table, -1);
    if (!half) l->Unsupported("do_rotary = 1 with a cos_cache whose width is not known");
    const int64_t both = CheckedMul(2, *half), turned = size == both ? 0 : both;
    q = Rotated(l, q, cos, sin, turned, interleaved);
    k = Rotated(l, k, cos, sin, turned, interleaved);
  }
  k = Transposed(l, k, {0, 2, 1, 3});
  v = Transposed(l, v, {0, 2, 1, 3});
  if (!past_k.empty()) {
    const auto appended = [&](const std::string& past, const std::string& x) {
      const std::string have = ExtentScalar(l, past, 2);
      const std::string more = l->Before("Sub", {l->Before("Max", {have, total}), have});
      const std::string pads =
          l->Before("Concat", {l->Ints({0}), Unsqueezed(l, more, {0})}, {{"axis", 0}});
      const std::string room = l->Before("Pad", {past, pads, "", l->Ints({2})});
      return l->Before("TensorScatter", {room, x, begins}, {{"axis", int64_t{2}}});
    };
    k = appended(past_k, k);
    v = appended(past_v, v);
  }

  const std::string keys = Range(l, Number(l, 0), ExtentScalar(l, k, 2));  // [t]
  // [b, s, 1] against [t]
  const std::string row = Unsqueezed(l, at, {2});
  std::string allowed;
  if (causal) {
    allowed = l->Before("LessOrEqual", {keys, row});
    if (window > 0)
      allowed =
          Both(l, allowed, l->Before("Less", {l->Before("Sub", {row, keys}), Number(l, window)}));
  } else {
    if (window > 0) l->Unsupported(fmt::format("local_window_size = {} with causal = 0", window));
    allowed = l->Before("Less", {keys, Unsqueezed(l, ends, {1, 2})});
  }
  std::string hide =
      Hide(l, Unsqueezed(l, allowed, groups > 1 ? Ints{1, 2} : Ints{1}), -kInfinity, like);
  const std::string bias = l->input(10);
  if (!bias.empty())
    hide = Sum(l, hide, GroupedSummand(l, bias, 4, l->ExtentOf(bias, 1), kv_heads, groups));

  std::string k_all = k, v_all = v;
  if (groups > 1) {
    q = Transposed(l, Reshaped(l, q, {0, 0, kv_heads, groups, -1}), {0, 2, 3, 1, 4});
    k_all = Unsqueezed(l, k, {2});
    v_all = Unsqueezed(l, v, {2});
  } else {
    q = Transposed(l, q, {0, 2, 1, 3});
  }
  const bool scaled = !given_scale.empty() && given_scale.get<double>() != 0;
  const std::string scale =
      scaled ? l->ScalarLike(given_scale.get<double>(), like) : DefaultScale(l, q, size, like);
  std::string sink;
  if (!l->input(11).empty())
    sink = Reshaped(l, l->input(11), groups > 1 ? Ints{kv_heads, groups, 1, 1} : Ints{heads, 1, 1});
  else if (smooth)
    sink = l->ScalarLike(0, like);
  const std::string y = Attend(l, groups > 1 ? 5 : 4, q, k_all, v_all, scale, softcap, hide, like,
                               false, DType::kUnknown, sink)
                            .y;
  l->Replace({groups > 1 ? GroupsTogether(l, y) : HeadsTogether(l, y), k, v});
}

std::vector<LiftRule> AttentionLifts() {
  return {
      {"Attention", 23, kAll, StandardAttention},
      {"RotaryEmbedding", 23, kAll, RotaryEmbedding},
  };
}

}  // namespace weft::onnx_import
