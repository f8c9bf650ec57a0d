/// integer_cases.cc: see integer_cases.h.
#include "integer_cases.h"

#include <cmath>
#include <limits>

namespace weft::integers {
namespace {

std::string Text(Wide v) {
  return v < 0 ? std::to_string(int64_t(v)) : std::to_string(uint64_t(v));
}
std::string Name(const std::string& op, const AttrDict& attrs) {
  if (op == "Mod") return attrs.at("fmod").get<int64_t>() != 0 ? "Fmod" : "Mod";
  if (op == "BitShift") return op + " " + attrs.at("direction").get<std::string>();
  return op;
}

/// A graph under construction, with one run.
class Maker {
 public:
  explicit Maker(std::string name, size_t runs = 1) {
    c_.name = std::move(name);
    c_.runs.resize(runs);
  }
  NodeEntry Input(const std::string& name, DType t, std::vector<int64_t> dims,
                  const Column& values) {
    for (Run& r : c_.runs) r.inputs[name] = MakeTensor(t, dims, values);
    return NodeEntry(c_.graph.AddInput(name, t, Shape::OfInts(dims)));
  }
  NodeEntry Constant(DType t, std::vector<int64_t> dims, const Column& values) {
    return c_.graph.AddConstant(MakeTensor(t, std::move(dims), values));
  }
  NodeEntry Scalar(DType t, Wide v) { return Constant(t, {}, {v}); }
  NodeEntry Add(const std::string& op, std::vector<NodeEntry> in, AttrDict attrs = {}) {
    return NodeEntry(c_.graph.AddNode(op, in, std::move(attrs)));
  }
  void Output(const NodeEntry& e, std::string what, TensorPtr expected, size_t run = 0) {
    if (run == 0) {
      c_.graph.outputs.push_back(e);
      c_.what.push_back(std::move(what));
    }
    c_.runs[run].expected.push_back(std::move(expected));
  }
  Case& get() { return c_; }
  Case Finish() { return std::move(c_); }

 private:
  Case c_;
};

DType ResultOf(const BinaryRow& r, DType t) { return r.to_bool ? DType::kBool : t; }
Wide Value(const BinaryRow& r, DType t, Wide a, Wide b) {
  return Wrap(ResultOf(r, t), r.f(a, b, t));
}
template <class F>
Column Map(const Column& x, F f) {
  Column out;
  for (Wide v : x) out.push_back(f(v));
  return out;
}
int64_t Count(const Column& x) { return int64_t(x.size()); }

bool IsNarrow(DType t) { return DTypeBits(t) == 8; }
Column ValuesOf(DType t) { return IsNarrow(t) ? AllValues(t) : Corners(t); }

Case PairsOf(DType t, bool constant) {
  Maker m(std::string(constant ? "constant pairs " : "pairs ") + DTypeName(t).data());
  const Column x = constant ? Corners(t) : ValuesOf(t);
  const int64_t n = Count(x);
  const bool flat = IsNarrow(t) && !constant;
  Column a, b;
  for (Wide p : x)
    for (Wide q : x) a.push_back(p), b.push_back(q);
  const std::vector<int64_t> dims = flat ? std::vector<int64_t>{n * n} : std::vector<int64_t>{n, n};
  const auto leaf = [&](const char* name, std::vector<int64_t> d, const Column& v) {
    return constant ? m.Constant(t, d, v) : m.Input(name, t, d, v);
  };
  const NodeEntry p = flat ? leaf("a", {n * n}, a) : leaf("a", {n, 1}, x),
                  q = flat ? leaf("b", {n * n}, b) : leaf("b", {n}, x);
  for (const BinaryRow& r : BinaryRows(t)) {
    Column y;
    for (size_t i = 0; i < a.size(); ++i) y.push_back(Value(r, t, a[i], b[i]));
    m.Output(m.Add(r.op, {p, q}, r.attrs), Name(r.op, r.attrs),
             MakeTensor(ResultOf(r, t), dims, y));
  }
  const NodeEntry less = m.Add("Less", {q, p});
  Column smaller;
  for (size_t i = 0; i < a.size(); ++i) smaller.push_back(b[i] < a[i] ? b[i] : a[i]);
  m.Output(m.Add("Where", {less, q, p}), "Where(b < a, b, a)", MakeTensor(t, dims, smaller));
  for (const UnaryRow& r : UnaryRows(t))
    m.Output(m.Add(r.op, {p}, r.attrs), r.op,
             MakeTensor(t, flat ? std::vector<int64_t>{n * n} : std::vector<int64_t>{n, 1},
                        Map(flat ? a : x, [&](Wide v) { return Wrap(t, r.f(v, t)); })));
  return m.Finish();
}

}  // namespace

Case Pairs(DType t) { return PairsOf(t, false); }
Case ConstantPairs(DType t) { return PairsOf(t, true); }

Case Scalars(DType t) {
  const Column values = FewCorners(t);
  const size_t n = values.size();
  Maker m("scalars " + std::string(DTypeName(t)), n * n);
  const NodeEntry a = m.Input("a", t, {}, {0}), b = m.Input("b", t, {}, {0}),
                  x = m.Input("x", t, {Count(values)}, values);
  const std::vector<BinaryRow> rows = BinaryRows(t);
  std::vector<NodeEntry> y;
  for (const BinaryRow& r : rows) {
    y.push_back(m.Add(r.op, {a, b}, r.attrs));
    y.push_back(m.Add(r.op, {a, x}, r.attrs));
    y.push_back(m.Add(r.op, {x, b}, r.attrs));
  }
  for (size_t i = 0; i < n * n; ++i) {
    const Wide p = values[i / n], q = values[i % n];
    m.get().runs[i].inputs["a"] = ScalarOf(t, p);
    m.get().runs[i].inputs["b"] = ScalarOf(t, q);
    for (size_t k = 0; k < rows.size(); ++k) {
      const BinaryRow& r = rows[k];
      const DType to = ResultOf(r, t);
      const std::string what = Name(r.op, r.attrs);
      m.Output(y[3 * k], what + "(a, b)", ScalarOf(to, Value(r, t, p, q)), i);
      m.Output(
          y[3 * k + 1], what + "(a, x)",
          MakeTensor(to, {Count(values)}, Map(values, [&](Wide v) { return Value(r, t, p, v); })),
          i);
      m.Output(
          y[3 * k + 2], what + "(x, b)",
          MakeTensor(to, {Count(values)}, Map(values, [&](Wide v) { return Value(r, t, v, q); })),
          i);
    }
  }
  return m.Finish();
}

Case Constants(DType t) {
  Maker m("constants " + std::string(DTypeName(t)));
  const Column x = ValuesOf(t);
  const NodeEntry in = m.Input("x", t, {Count(x)}, x);
  for (const BinaryRow& r : BinaryRows(t)) {
    const DType to = ResultOf(r, t);
    for (Wide c : FewCorners(t)) {
      const std::string what = Name(r.op, r.attrs);
      m.Output(m.Add(r.op, {in, m.Scalar(t, c)}, r.attrs), what + "(x, " + Text(c) + ")",
               MakeTensor(to, {Count(x)}, Map(x, [&](Wide v) { return Value(r, t, v, c); })));
      m.Output(m.Add(r.op, {m.Scalar(t, c), in}, r.attrs), what + "(" + Text(c) + ", x)",
               MakeTensor(to, {Count(x)}, Map(x, [&](Wide v) { return Value(r, t, c, v); })));
    }
  }
  return m.Finish();
}

Case Chains(DType t) {
  Maker m("chains " + std::string(DTypeName(t)));
  const Column x = ValuesOf(t);
  const NodeEntry in = m.Input("x", t, {Count(x)}, x);
  const Column few = FewCorners(t);
  for (Wide lo : few)
    for (Wide hi : few) {
      m.Output(
          m.Add("Clip", {in, m.Scalar(t, lo), m.Scalar(t, hi)}),
          "Clip(x, " + Text(lo) + ", " + Text(hi) + ")",
          MakeTensor(t, {Count(x)}, Map(x, [&](Wide v) { return std::min(std::max(v, lo), hi); })));
    }
  // (x op c) op d, and (x op c) against x: sums, products and quotients meet each other's rules.
  std::vector<BinaryRow> rows;
  for (const BinaryRow& r : BinaryRows(t))
    if (r.op == "Add" || r.op == "Sub" || r.op == "Mul" || r.op == "Div" || r.op == "Mod" ||
        r.op == "Max" || r.op == "Greater" || r.op == "Equal")
      rows.push_back(r);
  const Column inner = {1, 3, IsSigned(t) ? Wide(-1) : Most(t) - 1, Most(t)},
               outer = {1, IsSigned(t) ? Wide(-3) : Wide(3), 15, Most(t)};
  for (const BinaryRow& r : rows) {
    if (r.to_bool) continue;
    for (Wide c : inner) {
      const NodeEntry y = m.Add(r.op, {in, m.Scalar(t, c)}, r.attrs);
      const Column first = Map(x, [&](Wide v) { return Value(r, t, v, c); });
      for (const BinaryRow& s : rows) {
        const std::string what = Name(s.op, s.attrs) + "(" + Name(r.op, r.attrs) + "(x, " + Text(c);
        Column against;
        for (size_t i = 0; i < x.size(); ++i) against.push_back(Value(s, t, first[i], x[i]));
        m.Output(m.Add(s.op, {y, in}, s.attrs), what + "), x)",
                 MakeTensor(ResultOf(s, t), {Count(x)}, against));
        if (s.to_bool) continue;
        for (Wide d : outer)
          m.Output(
              m.Add(s.op, {y, m.Scalar(t, d)}, s.attrs), what + "), " + Text(d) + ")",
              MakeTensor(t, {Count(x)}, Map(first, [&](Wide v) { return Value(s, t, v, d); })));
      }
    }
  }
  return m.Finish();
}

Case Lines(DType t) {
  Maker m("lines " + std::string(DTypeName(t)));
  const Column x = Corners(t);
  const int64_t n = Count(x), lines = 4;
  Column all;
  for (int64_t k = 0; k < lines; ++k)
    for (int64_t i = 0; i < n; ++i) {
      const Wide v = x[size_t((i * (2 * k + 1) + 5 * k) % n)];
      all.push_back(k == 3 ? Wrap(t, v | 1) : v);  // no zeros: products stay
    }
  const NodeEntry in = m.Input("x", t, {lines, n}, all), axes = m.Constant(DType::kI64, {1}, {1}),
                  axis = m.Scalar(DType::kI64, 1);
  for (const LineRow& r : LineRows(t)) {
    Column y;
    for (int64_t k = 0; k < lines; ++k)
      for (Wide v : r.f(Column(all.begin() + k * n, all.begin() + (k + 1) * n), t)) y.push_back(v);
    AttrDict attrs = r.attrs;
    std::vector<NodeEntry> operands = {in};
    if (r.op.rfind("Arg", 0) == 0) {
      attrs["axis"] = 1;
    } else {
      operands.push_back(r.running ? axis : axes);
    }
    m.Output(m.Add(r.op, operands, attrs), Name(r.op, r.attrs),
             MakeTensor(r.result == DType::kUnknown ? t : r.result, {lines, r.running ? n : 1}, y));
  }
  return m.Finish();
}

namespace {

/// An integer, or the float it became.
struct Number {
  Wide i = 0;
  double f = 0;
};
Number Converted(Number v, DType from, DType to) {
  Number y;
  if (IsFloat(to))
    y.f = IsFloat(from) ? v.f : CastToFloat(v.i, to);
  else
    y.i = IsFloat(from) ? CastFloat(v.f, to) : CastInteger(v.i, to);
  if (IsFloat(from) && IsFloat(to)) {
    if (to == DType::kF16) y.f = HalfToFloat(FloatToHalf(float(v.f)));
    if (to == DType::kBF16) y.f = BFloat16ToFloat(FloatToBFloat16(float(v.f)));
    if (to == DType::kF32) y.f = float(v.f);
  }
  return y;
}
TensorPtr TensorOf(DType t, const std::vector<Number>& values) {
  auto y = std::make_shared<Tensor>(t, std::vector<int64_t>{int64_t(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsFloat(t))
      y->set(int64_t(i), values[i].f);
    else
      y->set_int(int64_t(i), int64_t(values[i].i));
  }
  return y;
}
std::vector<DType> Targets() {
  std::vector<DType> all = kTypes;
  all.insert(all.end(), kFloatTypes.begin(), kFloatTypes.end());
  all.push_back(DType::kBool);
  return all;
}
std::vector<Number> Mapped(const std::vector<Number>& x, DType from, DType to) {
  std::vector<Number> y;
  for (const Number& v : x) y.push_back(Converted(v, from, to));
  return y;
}

}  // namespace

Case Casts(DType t) {
  Maker m("casts " + std::string(DTypeName(t)));
  m.get().floats = true;
  std::vector<Number> x;
  for (Wide v : ValuesOf(t)) x.push_back({v, 0});
  // Halfway between two floats of 24 and 53 bits, and a little beyond.
  for (int k : {30, 60})
    for (Wide d : {0, 1, 3}) {
      const Wide v = (Wide(1) << k) + (Wide(d) << (k - 24)) + d % 2;
      if (v <= Most(t)) x.push_back({v, 0});
    }
  Column column;
  for (const Number& v : x) column.push_back(v.i);
  const NodeEntry in = m.Input("x", t, {Count(column)}, column);
  for (DType to : Targets()) {
    m.Output(m.Add("Cast", {in}, {{"to", to}}), "to " + std::string(DTypeName(to)),
             TensorOf(to, Mapped(x, t, to)));
  }
  return m.Finish();
}

Case CastChains(DType t) {
  Maker m("cast chains " + std::string(DTypeName(t)));
  m.get().floats = true;
  const Column values = Corners(t);
  std::vector<Number> x;
  for (Wide v : values) x.push_back({v, 0});
  const NodeEntry in = m.Input("x", t, {Count(values)}, values);
  for (DType by : Targets()) {
    const std::vector<Number> y = Mapped(x, t, by);
    const NodeEntry middle = m.Add("Cast", {in}, {{"to", by}});
    for (DType to : Targets())
      m.Output(m.Add("Cast", {middle}, {{"to", to}}),
               "by " + std::string(DTypeName(by)) + " to " + std::string(DTypeName(to)),
               TensorOf(to, Mapped(y, by, to)));
  }
  return m.Finish();
}

Case FloatCasts(DType t) {
  Maker m("casts of " + std::string(DTypeName(t)));
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> values = {0.0,    -0.0, 0.5,  -0.5,         0.999, -0.999, 1.5,  -1.5, 2.5,
                                -128.5, inf,  -inf, std::nan(""), 1e-40, -1e-40, 1e30, -1e30};
  for (DType i : kTypes)
    for (Wide end : {Least(i), Most(i)})
      for (double d : {-1.0, -0.5, 0.0, 0.5, 1.0}) {
        const double v = double(end) + d;
        values.insert(values.end(), {v, std::nextafter(v, inf), std::nextafter(v, -inf)});
        values.push_back(double(std::nextafter(float(v), float(inf))));
        values.push_back(double(std::nextafter(float(v), float(-inf))));
      }
  std::vector<Number> x;
  for (double v : values) x.push_back(Converted({0, v}, DType::kF64, t));
  const TensorPtr in = TensorOf(t, x);
  const NodeEntry e(m.get().graph.AddInput("x", t, in->shape()));
  m.get().runs[0].inputs["x"] = in;
  for (DType to : Targets()) {
    if (IsFloat(to)) continue;
    m.Output(m.Add("Cast", {e}, {{"to", to}}), "to " + std::string(DTypeName(to)),
             TensorOf(to, Mapped(x, t, to)));
  }
  return m.Finish();
}

namespace {

/// What a position is made of: its node and its values in each run.
struct Positions {
  std::string name;
  NodeEntry entry;
  std::vector<Column> values;  ///< per run; one element for a scalar
  bool vector = true;
};

Case IndexCase(DType t, bool symbolic) {
  // Static: whole vectors, or some and a rest.
  const std::vector<int64_t> extents =
      symbolic ? std::vector<int64_t>{7, 1, 12} : std::vector<int64_t>{t == DType::kI64 ? 8 : 9};
  Maker m("positions " + std::string(DTypeName(t)) + (symbolic ? " of a symbol" : ""),
          extents.size());
  Graph& g = m.get().graph;
  const SymInt n = symbolic ? SymInt::Symbol("n") : SymInt(extents[0]);
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({n})));
  const NodeEntry divisor(g.AddInput("d", t, Shape::Scalar()));
  const Column signs = {-2, 0, 3};
  for (size_t r = 0; r < extents.size(); ++r) {
    m.get().runs[r].inputs["x"] =
        std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{extents[r]});
    m.get().runs[r].inputs["d"] = ScalarOf(t, signs[r % signs.size()]);
  }
  NodeEntry size = m.Add("Shape", {x});
  size = m.Add("Squeeze", {size});
  if (t != DType::kI64) size = m.Add("Cast", {size}, {{"to", t}});
  const auto range = [&](Wide start, Wide step) {
    // start + step * n as the limit: n elements.
    const NodeEntry first = m.Scalar(t, start), delta = m.Scalar(t, step);
    const NodeEntry limit = m.Add("Add", {m.Add("Mul", {size, delta}), first});
    Positions p{"Range(" + Text(start) + " by " + Text(step) + ")",
                m.Add("Range", {first, limit, delta}),
                {}};
    for (int64_t k : extents) {
      p.values.emplace_back();
      for (int64_t i = 0; i < k; ++i) p.values.back().push_back(start + step * i);
    }
    return p;
  };
  std::vector<Positions> leaves = {range(0, 1), range(5, 3), range(-3, 1), range(8, -1)};
  leaves.push_back({"Shape", size, {}, false});
  for (int64_t k : extents) leaves.back().values.push_back({k});
  leaves.push_back({"5", m.Scalar(t, 5), {}, false});
  for (size_t r = 0; r < extents.size(); ++r) leaves.back().values.push_back({5});
  leaves.push_back({"d", divisor, {}, false});
  for (size_t r = 0; r < extents.size(); ++r)
    leaves.back().values.push_back({signs[r % signs.size()]});

  const auto combined = [&](const BinaryRow& r, const Positions& a, const Positions& b) {
    Positions y{Name(r.op, r.attrs) + "(" + a.name + ", " + b.name + ")",
                m.Add(r.op, {a.entry, b.entry}, r.attrs),
                {},
                a.vector || b.vector};
    for (size_t k = 0; k < extents.size(); ++k) {
      const Column &p = a.values[k], &q = b.values[k];
      const size_t count = y.vector ? size_t(extents[k]) : 1;
      y.values.emplace_back();
      for (size_t i = 0; i < count; ++i)
        y.values[k].push_back(Value(r, t, p[a.vector ? i : 0], q[b.vector ? i : 0]));
    }
    return y;
  };
  const auto constant = [&](Wide v) {
    Positions p{Text(v), m.Scalar(t, v), {}, false};
    p.values.assign(extents.size(), {v});
    return p;
  };
  std::vector<Positions> outputs;
  std::vector<DType> types;
  const std::vector<BinaryRow> rows = BinaryRows(t);
  const auto put = [&](const BinaryRow& r, const Positions& a, const Positions& b) {
    outputs.push_back(combined(r, a, b));
    types.push_back(ResultOf(r, t));
  };
  for (const BinaryRow& r : rows) {
    if (r.op.rfind("Bitwise", 0) == 0 || r.op == "Pow" || r.op == "LessOrEqual" ||
        r.op == "Greater")
      continue;
    for (const Positions& a : leaves) {
      for (Wide c : {Wide(-4), Wide(-1), Wide(0), Wide(3), Least(t), Most(t)}) {
        if (symbolic && a.name == "Shape" && (c == Least(t) || c == Most(t))) continue;
        put(r, a, constant(c));
        put(r, constant(c), a);
      }
      for (const Positions& b : leaves) {
        if (a.vector || b.vector) put(r, a, b);
      }
    }
  }
  // Sums that divisions are to see through, and sums that wrap.
  const auto row = [&](const char* op, int64_t fmod = -1) {
    for (const BinaryRow& r : rows)
      if (r.op == op && (fmod < 0 || r.attrs.at("fmod").get<int64_t>() == fmod)) return r;
    return rows[0];
  };
  const Wide most = Most(t);
  for (Wide factor : {Wide(3), Wide(-3), most / 2, most})
    for (Wide offset : {Wide(1), Wide(-1), most}) {
      const Positions sum =
          combined(row("Add"), combined(row("Mul"), leaves[0], constant(factor)), constant(offset));
      for (Wide d : {Wide(3), Wide(8), factor, Wide(-2), Wide(15)}) {
        put(row("Div"), sum, constant(d));
        put(row("Mod", 0), sum, constant(d));
        put(row("Mod", 1), sum, constant(d));
      }
      for (const char* op : {"Less", "GreaterOrEqual", "Equal", "Max", "Min"}) {
        put(row(op), sum, leaves[0]);
        put(row(op), sum, constant(0));
        put(row(op), sum, combined(row("Mul"), leaves[0], constant(factor)));
      }
    }
  // Reductions that read nothing.
  const NodeEntry axes = m.Constant(DType::kI64, {1}, {0}), axis = m.Scalar(DType::kI64, 0);
  for (const LineRow& r : LineRows(t)) {
    for (const Positions& x : {leaves[0], leaves[2], combined(row("Mul"), leaves[1], leaves[3])}) {
      AttrDict attrs = r.attrs;
      std::vector<NodeEntry> operands = {x.entry};
      if (r.op.rfind("Arg", 0) == 0)
        attrs["axis"] = 0;
      else
        operands.push_back(r.running ? axis : axes);
      if (!r.running) attrs["keepdims"] = 0;
      Positions y{r.op + "(" + x.name + ")", m.Add(r.op, operands, attrs), {}, r.running};
      for (const Column& line : x.values) y.values.push_back(r.f(line, t));
      outputs.push_back(y);
      types.push_back(r.result == DType::kUnknown ? t : r.result);
    }
  }
  for (size_t k = 0; k < outputs.size(); ++k)
    for (size_t r = 0; r < extents.size(); ++r) {
      const std::vector<int64_t> dims =
          outputs[k].vector ? std::vector<int64_t>{extents[r]} : std::vector<int64_t>{};
      m.Output(outputs[k].entry, outputs[k].name, MakeTensor(types[k], dims, outputs[k].values[r]),
               r);
    }
  return m.Finish();
}

}  // namespace

std::vector<Case> IndexArithmetic() {
  std::vector<Case> all;
  all.push_back(IndexCase(DType::kI64, false));
  all.push_back(IndexCase(DType::kI64, true));
  all.push_back(IndexCase(DType::kI32, false));
  return all;
}

std::vector<Case> AllCases() {
  std::vector<Case> all;
  for (DType t : kTypes) {
    all.push_back(Pairs(t));
    all.push_back(ConstantPairs(t));
    all.push_back(Lines(t));
    all.push_back(Casts(t));
  }
  // Compilers take their time for what follows: types of either sign, and those of positions.
  for (DType t : {DType::kI8, DType::kI32, DType::kI64, DType::kU16, DType::kU64}) {
    all.push_back(Scalars(t));
    all.push_back(Constants(t));
  }
  for (DType t : {DType::kI16, DType::kI64, DType::kU32}) all.push_back(Chains(t));
  for (DType t : {DType::kI8, DType::kU64}) all.push_back(CastChains(t));
  for (DType t : kFloatTypes) all.push_back(FloatCasts(t));
  for (Case& c : IndexArithmetic()) all.push_back(std::move(c));
  return all;
}

std::string Check(const Case& c, const RunGraph& run) {
  std::string text;
  int wrong = 0;
  for (size_t r = 0; r < c.runs.size(); ++r) {
    const std::vector<TensorPtr> got = run(c.runs[r]);
    if (got.size() != c.what.size()) return c.name + ": another number of results";
    for (size_t k = 0; k < got.size(); ++k) {
      const std::string why = FirstDifference(*got[k], *c.runs[r].expected[k]);
      if (why.empty() || ++wrong > 8) continue;
      text += "\n  " + c.what[k] + ", run " + std::to_string(r) + ": " + why;
    }
  }
  return text.empty() ? text : c.name + ": " + std::to_string(wrong) + " results differ" + text;
}

}  // namespace weft::integers
