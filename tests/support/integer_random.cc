/// integer_random.cc: random graphs of integers. Their values are computed beside them, by the
/// table: what a graph should give needs no interpreter. Every tensor is a scalar or a vector of
/// one length, which may be run-time.
#include <algorithm>
#include <random>

#include "tests/support/integer_cases.h"

namespace weft::integers {
namespace {

struct Value {
  NodeEntry entry;
  DType dtype = DType::kI64;
  bool vector = true;
  /// Elements of each run; one for a scalar.
  std::vector<Column> runs;
  /// Inference follows it: with large constants it would be a size beyond 64 bits.
  bool is_size = false;
};

class RandomMaker {
 public:
  explicit RandomMaker(uint64_t seed) : rng_(seed) {
    c_.name = "random integers " + std::to_string(seed);
    const bool symbolic = Chance(0.4);
    rows_ = symbolic ? std::vector<int64_t>{2, 1, 6} : std::vector<int64_t>(3, Int(1, 4));
    length_ = symbolic ? SymInt::Symbol("m") * 4 : SymInt(rows_[0] * 4);
    c_.runs.resize(rows_.size());
    if (symbolic) {
      // Gives the symbol its value.
      c_.graph.AddInput("rows", DType::kI8, Shape({SymInt::Symbol("m")}));
      for (size_t r = 0; r < rows_.size(); ++r)
        c_.runs[r].inputs["rows"] = MakeTensor(DType::kI8, {rows_[r]}, {});
    }
    main_ = Pick<DType>({DType::kI64, DType::kI64, DType::kI64, DType::kI32, DType::kI8, DType::kU8,
                         DType::kU16, DType::kU32, DType::kU64});
    values_.push_back(Input(main_, true));
  }

  Case Run() {
    const int nodes = Int(3, 14);
    for (int tries = 0, added = 0; added < nodes && tries < 10 * nodes; ++tries) added += Add();
    std::vector<Value> outputs = {values_.back()};
    for (int i = Int(0, 2); i-- > 0;) outputs.push_back(Pick(values_));
    for (const Value& v : outputs) {
      c_.graph.outputs.push_back(v.entry);
      c_.what.push_back("output " + std::to_string(c_.what.size()));
      for (size_t r = 0; r < c_.runs.size(); ++r)
        c_.runs[r].expected.push_back(MakeTensor(v.dtype, Dims(v, r), v.runs[r]));
    }
    return std::move(c_);
  }

 private:
  int Int(int lo, int hi) { return lo + int(rng_() % uint64_t(hi - lo + 1)); }
  bool Chance(double p) { return double(rng_() >> 11) * 0x1p-53 < p; }
  template <class T>
  T Pick(const std::vector<T>& all) {
    return all[size_t(Int(0, int(all.size()) - 1))];
  }
  int64_t Length(size_t run) const { return rows_[run] * 4; }
  std::vector<int64_t> Dims(const Value& v, size_t run) const {
    return v.vector ? std::vector<int64_t>{Length(run)} : std::vector<int64_t>{};
  }
  NodeEntry Node(const std::string& op, const std::vector<NodeEntry>& in, AttrDict attrs = {}) {
    return NodeEntry(c_.graph.AddNode(op, in, std::move(attrs)));
  }
  NodeEntry Ints(std::vector<int64_t> v) {
    return c_.graph.AddConstant(Tensor::Ints(std::move(v)));
  }

  /// Small, negative, at a corner, or anything.
  Wide Number(DType t, int mode) {
    if (t == DType::kBool) return Int(0, 1);
    switch (mode) {
      case 0:
        return Wrap(t, Int(0, 12));
      case 1:
        return Wrap(t, Int(-6, 6));
      case 2:
        return Pick(Corners(t));
      default:
        return Wrap(t, Wide(rng_()));
    }
  }
  Value Input(DType t, bool vector) {
    Value v{{}, t, vector, {}};
    const std::string name = "x" + std::to_string(next_input_++);
    v.entry = NodeEntry(c_.graph.AddInput(name, t, vector ? Shape({length_}) : Shape::Scalar()));
    for (size_t r = 0; r < rows_.size(); ++r) {
      const int mode = Int(0, 3);
      v.runs.emplace_back();
      for (int64_t i = 0; i < (vector ? Length(r) : 1); ++i)
        v.runs[r].push_back(Number(t, Chance(0.2) ? 2 : mode));
      c_.runs[r].inputs[name] = MakeTensor(t, Dims(v, r), v.runs[r]);
    }
    return v;
  }
  Value Constant(DType t, Wide number) {
    Value v{c_.graph.AddConstant(ScalarOf(t, number)), t, false, {}};
    v.runs.assign(rows_.size(), {number});
    return v;
  }
  Value Size() {
    Value v{Node("Squeeze", {Node("Shape", {values_[0].entry})}), DType::kI64, false, {}, true};
    for (size_t r = 0; r < rows_.size(); ++r) v.runs.push_back({Length(r)});
    return v;
  }
  /// start, start + step ..
  Value Positions(DType t) {
    const Wide start = Int(-5, 9), step = Chance(0.6) ? 1 : Pick<int>({-1, 2, 3, -4});
    const NodeEntry size =
        t == DType::kI64 ? Size().entry : Node("Cast", {Size().entry}, {{"to", t}});
    const Value first = Constant(t, start), delta = Constant(t, step);
    const NodeEntry limit = Node("Add", {Node("Mul", {size, delta.entry}), first.entry});
    Value v{Node("Range", {first.entry, limit, delta.entry}), t, true, {}};
    for (size_t r = 0; r < rows_.size(); ++r) {
      v.runs.emplace_back();
      for (int64_t i = 0; i < Length(r); ++i) v.runs[r].push_back(start + step * i);
    }
    return v;
  }
  /// An operand of dtype t: something that is there, a leaf, or a cast.
  Value Operand(DType t) {
    if (Chance(0.6)) {
      std::vector<Value> known;
      for (const Value& v : values_)
        if (v.dtype == t) known.push_back(v);
      if (!known.empty()) return Chance(0.5) ? known.back() : Pick(known);
    }
    if (Chance(0.45)) return Constant(t, Number(t, Int(0, 2)));
    if ((t == DType::kI64 || t == DType::kI32) && Chance(0.5)) return Positions(t);
    if (t == DType::kI64 && Chance(0.15)) return Size();
    if (Chance(0.3)) return Cast(Pick(values_), t);
    return Remember(Input(t, Chance(0.75)));
  }
  Value Remember(const Value& v) {
    values_.push_back(v);
    return v;
  }
  template <class F>
  Value Mapped(NodeEntry e, DType to, const std::vector<Value>& in, F f) {
    Value y{e, to, false, {}};
    for (const Value& v : in) y.vector |= v.vector, y.is_size |= v.is_size;
    y.is_size &= !y.vector;
    for (size_t r = 0; r < rows_.size(); ++r) {
      y.runs.emplace_back();
      for (int64_t i = 0; i < (y.vector ? Length(r) : 1); ++i) {
        Column x;
        for (const Value& v : in) x.push_back(v.runs[r][v.vector ? size_t(i) : 0]);
        y.runs[r].push_back(f(x));
      }
    }
    return y;
  }
  Value Cast(const Value& v, DType to) {
    return Mapped(Node("Cast", {v.entry}, {{"to", to}}), to, {v},
                  [&](const Column& x) { return CastInteger(x[0], to); });
  }

  bool Add() {
    const DType t = Chance(0.7) ? values_.back().dtype : Pick(values_).dtype;
    const int what = Int(0, 19);
    if (what < 11) return AddBinary(t);
    switch (what) {
      case 11: {
        const Value x = Operand(t);
        const UnaryRow row = Pick(UnaryRows(t));
        Remember(Mapped(Node(row.op, {x.entry}, row.attrs), t, {x},
                        [&](const Column& v) { return Wrap(t, row.f(v[0], t)); }));
        return true;
      }
      case 12: {
        const Value x = Pick(values_);
        if (x.is_size) return false;
        Remember(Cast(x, Chance(0.5) ? DType::kI64 : Pick(kTypes)));
        return true;
      }
      case 13: {
        const Value c = Operand(DType::kBool), x = Operand(t), y = Operand(t);
        Remember(Mapped(Node("Where", {c.entry, x.entry, y.entry}), t, {c, x, y},
                        [](const Column& v) { return v[0] != 0 ? v[1] : v[2]; }));
        return true;
      }
      case 14: {
        if (t == DType::kBool) return false;
        const Value x = Operand(t), lo = Constant(t, Number(t, 1)), hi = Constant(t, Number(t, 2));
        Remember(Mapped(Node("Clip", {x.entry, lo.entry, hi.entry}), t, {x, lo, hi},
                        [](const Column& v) { return std::min(std::max(v[0], v[1]), v[2]); }));
        return true;
      }
      case 15:
        return AddLine(t);
      case 16:
      case 17:
        return AddMove(t);
      default:
        return AddGather(t);
    }
  }
  bool AddBinary(DType t) {
    const Value a = Operand(t), b = Operand(t);
    if ((a.is_size || b.is_size) && !a.vector && !b.vector) return false;
    const BinaryRow row = Pick(BinaryRows(t));
    const DType to = row.to_bool ? DType::kBool : t;
    Remember(Mapped(Node(row.op, {a.entry, b.entry}, row.attrs), to, {a, b},
                    [&](const Column& x) { return Wrap(to, row.f(x[0], x[1], t)); }));
    return true;
  }
  /// A reduction of the whole, or a running sum.
  bool AddLine(DType t) {
    const Value x = Operand(t);
    if (!x.vector || t == DType::kBool) return false;
    const LineRow row = Pick(LineRows(t));
    if (row.op.rfind("Arg", 0) == 0) return false;
    AttrDict attrs = row.attrs;
    const NodeEntry axis = row.running ? c_.graph.AddConstant(ScalarOf(DType::kI64, 0)) : Ints({0});
    if (!row.running) attrs["keepdims"] = 0;
    Value y{Node(row.op, {x.entry, axis}, attrs), t, row.running, {}};
    for (const Column& line : x.runs) y.runs.push_back(row.f(line, t));
    Remember(y);
    return true;
  }
  /// The elements in another order: backward, or as a matrix of 4 columns transposed.
  bool AddMove(DType t) {
    const Value x = Operand(t);
    if (!x.vector) return false;
    Value y = x;
    if (Chance(0.4)) {
      y.entry = Node("Slice", {x.entry, Ints({-1}), Ints({INT64_MIN}), Ints({0}), Ints({-1})});
      for (Column& line : y.runs) std::reverse(line.begin(), line.end());
    } else {
      const NodeEntry matrix = Node("Reshape", {x.entry, Ints({-1, 4})});
      y.entry = Node("Reshape", {Node("Transpose", {matrix}), Ints({-1})});
      for (size_t r = 0; r < rows_.size(); ++r)
        for (int64_t i = 0; i < Length(r); ++i)
          y.runs[r][size_t(i)] = x.runs[r][size_t(i % rows_[r] * 4 + i / rows_[r])];
    }
    Remember(y);
    return true;
  }
  /// Elements at positions that are computed: any integers modulo the length, negative
  /// ones now and then.
  bool AddGather(DType t) {
    const DType at = Chance(0.7) ? DType::kI64 : DType::kI32;
    const Value x = Operand(t), raw = Operand(at);
    if (!x.vector || raw.is_size) return false;
    const bool below = Chance(0.3);
    const NodeEntry size =
        at == DType::kI64 ? Size().entry : Node("Cast", {Size().entry}, {{"to", at}});
    NodeEntry index = Node("Mod", {raw.entry, size}, {{"fmod", 0}});
    if (below) index = Node("Sub", {index, size});
    Value y{Node("Gather", {x.entry, index}), t, raw.vector, {}};
    for (size_t r = 0; r < rows_.size(); ++r) {
      y.runs.emplace_back();
      const Wide n = Length(r);
      for (Wide i : raw.runs[r]) y.runs[r].push_back(x.runs[r][size_t((i % n + n) % n)]);
    }
    Remember(y);
    return true;
  }

  std::mt19937_64 rng_;
  Case c_;
  std::vector<int64_t> rows_;  ///< a quarter of the length, per run
  SymInt length_;
  DType main_ = DType::kI64;
  std::vector<Value> values_;
  int next_input_ = 0;
};

}  // namespace

Case RandomIntegers(uint64_t seed) { return RandomMaker(seed).Run(); }

}  // namespace weft::integers
