/// shape.cc: shapes as values: text form, element counts, axes and broadcasting.
#include "weft/core/tensor/shape.h"

#include <algorithm>

#include "weft/core/tensor/demand.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/strings.h"

namespace weft {

Shape Shape::OfInts(const std::vector<int64_t>& dims) {
  return Shape(std::vector<SymInt>(dims.begin(), dims.end()));
}

int Shape::rank() const {
  WEFT_ICHECK(known_, "the rank of a shape was asked for that is not known");
  return int(dims_.size());
}

void Shape::ThrowAxis(int axis) const {
  WEFT_THROW(kShapeMismatch, "axis {} is out of range for the shape {}", axis, ToString());
}

bool Shape::fully_known() const {
  if (!known_) return false;
  for (const SymInt d : dims_) {
    if (!d.known()) return false;
  }
  return true;
}

bool Shape::is_static() const {
  if (!known_) return false;
  for (const SymInt d : dims_) {
    if (!d.known() || !d.is_const()) return false;
  }
  return true;
}

std::vector<int64_t> Shape::ints() const {
  WEFT_ICHECK(is_static(), "the dimensions of {} are not all integers", ToString());
  std::vector<int64_t> out;
  out.reserve(dims_.size());
  for (const SymInt d : dims_) out.push_back(d.value());
  return out;
}

SymInt Shape::num_elements() const {
  if (!known_) return SymInt();
  // A zero extent decides before an unknown one or an overflow does.
  for (const SymInt d : dims_) {
    if (d.is(0)) return 0;
  }
  return Product(dims_);
}

bool Shape::same(const Shape& o) const {
  if (known_ != o.known_ || dims_.size() != o.dims_.size()) return false;
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (!dims_[i].same(o.dims_[i])) return false;
  }
  return true;
}

std::string Shape::ToString() const {
  if (!known_) return "?";
  std::string out = "[";
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (i) out += ", ";
    const SymInt d = dims_[i];
    if (d.known() && d.is_const()) {
      const fmt::format_int digits(d.value());
      out.append(digits.data(), digits.size());
    } else {
      out += d.ToString();
    }
  }
  out += ']';
  return out;
}

Shape Shape::Parse(std::string_view text) {
  const std::string_view all = Trim(text);
  if (all == "?") return Shape();
  WEFT_CHECK(all.size() >= 2 && all.front() == '[' && all.back() == ']', kSyntax,
             "expected a shape such as '[2, n]' or '?', got '{}'", all.substr(0, 200));
  std::string_view body = Trim(all.substr(1, all.size() - 2));
  std::vector<SymInt> dims;
  while (!body.empty()) {
    size_t end = 0;
    for (int depth = 0; end < body.size() && (depth > 0 || body[end] != ','); ++end) {
      depth += (body[end] == '(') - (body[end] == ')');
    }
    const std::string_view dim = Trim(body.substr(0, end));
    dims.push_back(dim == "?" ? SymInt() : SymInt::Parse(dim));
    WEFT_CHECK(end + 1 != body.size(), kSyntax, "a dim is missing after the last ',' of '{}'",
               all.substr(0, 200));
    body = end < body.size() ? body.substr(end + 1) : std::string_view();
  }
  return Shape(std::move(dims));
}

int NormalizeAxis(int64_t axis, int rank) {
  WEFT_CHECK(axis >= -rank && axis < rank, kBadAttribute,
             "axis {} out of range [{}, {}) for rank {}", axis, -rank, rank, rank);
  return int(axis < 0 ? axis + rank : axis);
}

namespace {

SymInt BroadcastDims(SymInt a, SymInt b, const Facts* facts) {
  if (!a.known() || !b.known()) {
    // An extent other than 1 decides whatever the unknown one turns out to be.
    const SymInt k = a.known() ? a : b;
    return k.known() && k.is_const() && k.value() != 1 ? k : SymInt();
  }
  if (a == b) return a;
  if (facts && !(a.is_const() && b.is_const())) {
    if (facts->ProvedEqual(a, b)) return b.size() < a.size() ? b : a;
    if (!a.is_const() && !b.is_const()) {
      if (facts->ProvedNot1(a)) return a;
      if (facts->ProvedNot1(b)) return b;
    }
  }
  return Bcast(a, b);
}

}  // namespace

Shape BroadcastShapes(const Shape& a, const Shape& b, const Facts* facts) {
  if (!a.has_rank() || !b.has_rank()) return Shape();
  const int rank = std::max(a.rank(), b.rank());
  std::vector<SymInt> dims(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    if (ia < 0) {
      dims[i] = b[ib];
    } else if (ib < 0) {
      dims[i] = a[ia];
    } else {
      const SymInt da = a[ia], db = b[ib];
      WEFT_CHECK(!da.known() || !db.known() || !da.is_const() || !db.is_const() || da == db ||
                     da.is(1) || db.is(1),
                 kShapeMismatch, "shapes {} and {} do not broadcast: {} against {}", a.ToString(),
                 b.ToString(), da.value(), db.value());
      dims[i] = BroadcastDims(da, db, facts);
    }
  }
  return Shape(std::move(dims));
}

void DemandBroadcast(SymInt from, SymInt to, Facts* facts) {
  if (!from.known() || !to.known() || from.is(1) || facts->ProvedEqual(from, to)) return;
  // Where `from` is 1, so is `to`: min(1024, n) to n.
  const auto one_says_equal = [&] {
    if (from.is_symbol() || facts->LessEqual(from, to) != Proof::kYes) return false;
    Facts where_one = *facts;
    return !where_one.AddEqual(from, 1) || where_one.ProvedEqual(to, 1);
  };
  const bool equal = facts->ProvedNot1(from) || to.is(1) || one_says_equal();
  // bcast(from, k) fails when it is computed.
  if (!equal && !facts->ProvedNot1(to) && Bcast(from, to) == to) return;
  const auto distance = [](SymInt a, SymInt b) { return Max(a - b, b - a); };
  // Either distance is 0. Where one cannot be, the equality says more.
  const bool fits = equal ? facts->AddEqual(from, to)
                          : facts->AddEqual(Min(distance(from, 1), distance(from, to)), 0);
  WEFT_CHECK(fits, kShapeMismatch, "dimension {} does not broadcast to {}", from.ToString(),
             to.ToString());
}

Shape BroadcastDemanded(const Shape& a, const Shape& b, Facts* facts) {
  Shape out = BroadcastShapes(a, b, facts);
  if (!facts || !out.has_rank()) return out;
  // What one axis demands may decide another.
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
      const SymInt da = a[a.rank() - i], db = b[b.rank() - i];
      SymInt to = out[out.rank() - i];
      const bool undecided = to != da && to != db;
      if (!to.known() || (round > 0 && !undecided)) continue;
      if (undecided) out.set(out.rank() - i, to = BroadcastDims(da, db, facts));
      if (to == da) DemandBroadcast(db, da, facts);
      if (to == db) DemandBroadcast(da, db, facts);
    }
  }
  return out;
}

int64_t NumElements(const std::vector<int64_t>& dims) {
  for (const int64_t d : dims) WEFT_CHECK(d >= 0, kInvalidModel, "negative dimension {}", d);
  return CheckedProduct(dims);
}

}  // namespace weft
