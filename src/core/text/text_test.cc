/// text_test.cc: the law print(parse(print(g))) == print(g) and the exact text of small graphs.
/// What the parser refuses is in error_test.cc.
#include "weft/core/text/text.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>

#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft {
namespace {

WEFT_REGISTER_OP(TextAny).set_num_inputs(kVarg);
WEFT_REGISTER_OP(TextTwo).set_num_inputs(1);
WEFT_REGISTER_OP(TextSplit).set_num_inputs(1).set_num_outputs(2);
WEFT_REGISTER_OP_IN(weft, Fused).set_num_inputs(kVarg);

// Attributes of each scope; text_target names a node.
WEFT_REGISTER_GRAPH_ATTR(text_layout, kGiven, EntryMap<std::string>)
    .text([](const std::string& s) { return s; }, [](const std::string& s) { return s; });
WEFT_REGISTER_GRAPH_ATTR(text_level, kGiven, NodeMap<int64_t>)
    .text([](int64_t v) { return std::to_string(v); },
          [](const std::string& s) { return std::stoll(s); });
WEFT_REGISTER_GRAPH_ATTR(text_peak, kGiven, int64_t)
    .text([](int64_t v) { return std::to_string(v); },
          [](const std::string& s) { return std::stoll(s); });
WEFT_REGISTER_GRAPH_ATTR(text_hidden, kGiven, std::string)
    .hidden()
    .text([](const std::string& s) { return s; }, [](const std::string& s) { return s; });
struct Target {
  NodeId id;
};
WEFT_REGISTER_GRAPH_ATTR(text_target, kGiven, Target)
    .remap([](Target& t, const std::vector<NodeId>& map) { t.id = map[t.id]; })
    .text([](const Target& t) { return std::to_string(t.id); },
          [](const std::string& s) { return Target{NodeId(std::stoul(s))}; });

const SymInt n = SymInt::Symbol("n"), m = SymInt::Symbol("m");

std::string Normal(const std::string& text, const ParseOptions& options = {}) {
  return PrintGraph(ParseGraph(text, options));
}

/// Checks the law and gives the text.
std::string CheckLaw(const Graph& g, PrintOptions print = {}) {
  SideData side;
  print.side_data = &side;
  const std::string text = PrintGraph(g, print);
  ParseOptions parse;
  parse.side_data = &side;
  Graph back;
  CHECK_NOTHROW(back = ParseGraph(text, parse));
  VerifyGraph(back);
  CHECK(PrintGraph(back, print) == text);
  return text;
}

/// A text that is its own canonical form.
void CheckFixed(const std::string& text) { CHECK(Normal(text) == text); }

TEST_CASE("canonical texts are their own canonical form") {
  CheckFixed("weft 1\ngraph () -> () {\n}\n");
  CheckFixed(R"(weft 1
graph @mlp<batch>(%x: f32[batch, 784], %b: f32[2] param = [0.5, -1.0]) -> (%y as "out:0", %a:1) {
  %h = TextAny(%x, %b) {allowzero = 0, mode = "edge"} : f32[batch, 10]
  %0 = TextAny(%h, _) after(%h) : f32[?, 5] #text_level = 3
  %a, %a:1 = TextSplit(%0) {axis = -1} : f32[?, 5], ? #text_layout = nchw #text_layout:1 = "a b"
  %y = weft::Fused(%a, %a:1) body (%0: f32[?, 5], %1: ?) -> (%2) {
    %2 = TextAny(%0, %1) {alpha = 0.1} : f32?
  } : ?[batch]
}
#text_peak = 81920
)");
  CheckFixed(R"(weft 1
graph <n, m>(
    %x: f32[n, 2*m + 1],
    %s: seq(f32),
    %o: opt(i64)[],
    %q: opaque,
    %d: i64[] = [7],
    %p: bool[3] param = [true, false, true] {lr = 0.5},
    %"free one": f16? free) -> (%x, %1 as "x") {
  %0 = TextAny(%s, %o, %q, %d, %p, %"free one") : seq(f32)
  %1 = TextAny() after(%0, %x) : str[0]
}
)");
}

TEST_CASE("every kind of attribute value") {
  const std::string text = R"(weft 1
graph () -> () {
  %0 = TextAny() {"a b" = 1, big = -9223372036854775808, d = f8e4m3fnuz, du = ?, e = [], ef = floats[], es = strings[], f = 1.0, fl = [1.0, 0.1, -inf, nan, 1e-05], i = [1, -2], inf = inf, m = graph (%x: f32?) -> (%x) {
  }, n = none, ng = graph none, nt = tensor none, nz = -0.0, s = "q\"\\\n\x01é", sh = shape[2, n//2, ?], su = shape?, ss = ["a", "b,]"], t = tensor i4[3] [-8, 7, 0], tf = tensor f32[2, 1] [0.1, -inf], th = tensor u64[1] [18446744073709551615], ts = tensor str[2] ["a", ""], tz = tensor f64[0, 3] []} : ?
}
)";
  // The nested graph closes at its own indentation.
  const std::string printed = Normal(text);
  CHECK(Normal(printed) == printed);
  const Graph g = ParseGraph(text);
  const AttrDict& d = g.node(0)->attrs.dict;
  CHECK(d.at("a b") == AttrValue(1));
  CHECK(d.at("big") == AttrValue(INT64_MIN));
  CHECK(d.at("d") == AttrValue(DType::kF8E4M3FNUZ));
  CHECK(d.at("du") == AttrValue(DType::kUnknown));
  CHECK(d.at("e") == AttrValue(Ints{}));
  CHECK(d.at("ef") == AttrValue(Floats{}));
  CHECK(d.at("es") == AttrValue(Strings{}));
  CHECK(d.at("f") == AttrValue(1.0));
  CHECK(d.at("fl").get<Floats>()[2] == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(d.at("fl").get<Floats>()[3]));
  CHECK(d.at("i") == AttrValue(Ints{1, -2}));
  CHECK(d.at("n").empty());
  CHECK(d.at("nz") == AttrValue(-0.0));
  CHECK(d.at("s") == AttrValue("q\"\\\n\x01\xc3\xa9"));
  CHECK(d.at("sh") == AttrValue(Shape{2, FloorDiv(n, 2), SymInt()}));
  CHECK(d.at("su") == AttrValue(Shape()));
  CHECK(d.at("ss") == AttrValue(Strings{"a", "b,]"}));
  CHECK(d.at("t").get<TensorPtr>()->at(0) == -8);
  CHECK(d.at("tf").get<TensorPtr>()->data_as<float>()[0] == 0.1f);
  CHECK(d.at("th").get<TensorPtr>()->at_int(0) == -1);
  CHECK(d.at("ts").get<TensorPtr>()->strings()[0] == "a");
  CHECK(d.at("tz").get<TensorPtr>()->dims() == std::vector<int64_t>{0, 3});
  CHECK(d.at("m").get<GraphPtr>()->inputs().size() == 1);
  CHECK(d.at("nt").get<TensorPtr>() == nullptr);
  CheckLaw(g);
  // Graphs compare by text.
  const Graph h = ParseGraph(text);
  CHECK(h.node(0)->attrs.dict == d);
}

TEST_CASE("names: quoting, numbers for the unnamed, suffixes for the taken") {
  Graph g;
  const NodePtr x = g.AddInput("x");
  const NodePtr a = g.AddNode("TextAny", {x}, {}, "x");
  const NodePtr b = g.AddNode("TextAny", {a}, {}, "x");
  const NodePtr c = g.AddNode("TextAny", {b}, {}, "x.2");
  const NodePtr d = g.AddNode("TextAny", {c}, {}, "0");
  const NodePtr e = g.AddNode("TextAny", {d}, {}, "");
  const NodePtr f = g.AddNode("TextAny", {e}, {}, "a \"b\"");
  g.outputs = {f, a, e};
  CHECK(CheckLaw(g) == R"(weft 1
graph (%x: ?) -> (%"a \"b\"", %x.2 as "x", %0) {
  %x.2 = TextAny(%x) : ?
  %x.3 = TextAny(%x.2) : ?
  %x.2.2 = TextAny(%x.3) : ?
  %"0" = TextAny(%x.2.2) : ?
  %0 = TextAny(%"0") : ?
  %"a \"b\"" = TextAny(%0) : ?
}
)");
  CHECK(g.OutputName(2) == ParseGraph(PrintGraph(g)).OutputName(2));
  // A needlessly quoted name is the same name.
  CHECK(Normal("weft 1 graph (%\"a\": f32[]) -> (%a) {}") ==
        "weft 1\ngraph (%a: f32[]) -> (%a) {\n}\n");
}

TEST_CASE("nodes are printed producers first, and those that nothing reads too") {
  Graph g;
  const NodePtr late = g.AddNode("TextAny", {}, {}, "late");
  const NodePtr x = g.AddInput("x");
  const NodePtr early = g.AddNode("TextAny", {x}, {}, "early");
  g.AddNode("TextAny", {}, {}, "dead");
  late->inputs = {early};
  const NodePtr waits = g.AddNode("TextAny", {}, {}, "waits");
  const NodePtr last = g.AddNode("TextAny", {}, {}, "last");
  waits->control_deps.push_back(last);
  g.outputs = {late};
  g.SetAttr("text_target", Target{late->id()});
  NodeMap<int64_t> level;
  level.set(early, 7);
  g.SetAttr("text_level", std::move(level));
  CHECK(CheckLaw(g) == R"(weft 1
graph (%x: ?) -> (%late) {
  %early = TextAny(%x) : ? #text_level = 7
  %late = TextAny(%early) : ?
  %dead = TextAny() : ?
  %last = TextAny() : ?
  %waits = TextAny() after(%last) : ?
}
#text_target = 2
)");
  // Node 2 of the text is %late.
  const Graph back = ParseGraph(PrintGraph(g));
  CHECK(back.node(back.GetAttr<Target>("text_target").id)->attrs.name == "late");
  g.Erase(g.node(3));
  CheckLaw(g);
}

TEST_CASE("a cycle can be printed") {
  Graph g;
  const NodePtr a = g.AddNode("TextAny", {}, {}, "a");
  const NodePtr b = g.AddNode("TextAny", {a}, {}, "b");
  a->inputs = {b};
  CHECK(PrintGraph(g).find("%a = TextAny(%b)") != std::string::npos);
}

TEST_CASE("types come back as declarations and as the attributes of inference") {
  Graph g = ParseGraph(R"(weft 1
graph (%x: f32[n, 4], %y: ?) -> (%a) {
  %a = TextAny(%x, %y) : f32[n, ?]
  %b = TextAny(%a) : f32[2]
})");
  CHECK(g.inputs()[0]->attrs.dict.at("dtype") == AttrValue(DType::kF32));
  CHECK(g.inputs()[0]->attrs.dict.at("shape") == AttrValue(Shape{n, 4}));
  CHECK(g.inputs()[1]->attrs.dict.empty());
  CHECK(g.GetAttr<TypeMap>("dtype")[g.outputs[0]] == Type(DType::kF32));
  CHECK(g.GetAttr<ShapeMap>("shape")[g.outputs[0]].same(Shape{n, SymInt()}));
  CHECK(g.GetAttr<ShapeMap>("shape")[g.inputs()[0]].same(Shape{n, 4}));
  CHECK_FALSE(g.IsComplete("shape"));  // a dim is unknown
  CHECK_FALSE(g.IsComplete("dtype"));  // that of %y
  const Graph full = ParseGraph("weft 1 graph (%x: f32[n]) -> (%a) { %a = TextAny(%x) : f32[n] }");
  CHECK(full.IsComplete("shape"));
  CHECK(full.IsComplete("dtype"));
  const Graph none = ParseGraph("weft 1 graph (%x: f32[n]) -> (%a) { %a = TextAny(%x) }");
  CHECK_FALSE(none.HasAttr("shape"));
  // Inference knows more than the declaration: the text shows what is known.
  Graph h;
  const NodePtr x = h.AddInput("x");
  h.outputs = {x};
  TypeMap types;
  types.set(x, DType::kI8);
  h.SetAttr("dtype", std::move(types));
  CHECK(CheckLaw(h).find("%x: i8?") != std::string::npos);
}

TEST_CASE("large tensors: hash and side data, or hexadecimal") {
  Graph g;
  auto t = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{5, 5});
  for (int i = 0; i < 25; ++i) t->set(i, i * 0.1);
  auto names = std::make_shared<Tensor>(DType::kString, std::vector<int64_t>{20});
  names->mutable_strings()[3] = "x\ty";
  const NodePtr p = g.AddParam("p", t);
  const NodePtr q =
      g.AddNode("TextAny", {p}, {{"names", TensorPtr(names)}, {"same", TensorPtr(t)}}, "q");
  g.outputs = {q};
  SideData side;
  PrintOptions print;
  print.side_data = &side;
  const std::string text = PrintGraph(g, print);
  CHECK(side.size() == 2);
  CHECK(text.find("param = #hash=") != std::string::npos);
  ParseOptions parse;
  parse.side_data = &side;
  const Graph back = ParseGraph(text, parse);
  CHECK(Graph::ConstantOf(back.outputs[0].node->inputs[0]) == t);
  CHECK_THROWS_AS(ParseGraph(text), UserError);
  parse.side_data = nullptr;
  parse.allow_missing_data = true;
  CHECK(Graph::ConstantOf(ParseGraph(text, parse).outputs[0].node->inputs[0])->dims() == t->dims());
  print.inline_all = true;
  const std::string whole = PrintGraph(g, print);
  const Graph again = ParseGraph(whole);
  CHECK(Graph::ConstantOf(again.outputs[0].node->inputs[0])->Equals(*t));
  CHECK(again.outputs[0].node->attrs.dict.at("names").get<TensorPtr>()->Equals(*names));
  CHECK(PrintGraph(again, print) == whole);
}

TEST_CASE("attributes: hidden, opaque, origins") {
  Graph g;
  const NodePtr a = g.AddNode("TextAny", {}, {}, "a");
  g.outputs = {a};
  g.SetAttr("text_hidden", std::string("secret"));
  g.SetOrigin(a, std::make_shared<const std::vector<std::string>>(
                     std::vector<std::string>{"conv 1", "relu"}));
  CHECK(CheckLaw(g).find('#') == std::string::npos);
  PrintOptions print;
  print.origins = print.hidden_attributes = true;
  const std::string text = CheckLaw(g, print);
  CHECK(text.find("#origin = [\"conv 1\", \"relu\"]") != std::string::npos);
  CHECK(text.find("#text_hidden = secret") != std::string::npos);
  CHECK(ParseGraph(text).node(0)->origin()->at(1) == "relu");
  g.attrs["thing"] = std::make_shared<std::any>(1.5f);
  const std::string opaque = PrintGraph(g);
  CHECK(opaque.find("\n#thing = <opaque>\n") != std::string::npos);
  CHECK_THROWS_AS(ParseGraph(opaque), UserError);
  ParseOptions parse;
  parse.allow_opaque = true;
  CHECK_NOTHROW(ParseGraph(opaque, parse));
}

/// Random graphs with everything that the form can say.
Graph RandomGraph(std::mt19937& rng, int depth) {
  const auto pick = [&](int k) { return int(rng() % unsigned(k)); };
  const auto random_name = [&]() -> std::string {
    const char* const names[] = {"", "a", "b", "conv/1.x", "0", "a b", "x\n", "_", "%"};
    return names[pick(9)] + std::string(pick(3) == 0 ? std::to_string(pick(20)) : "");
  };
  const SymInt dims[] = {SymInt(),     0, 1, 7, n, m, n * 2 + m, Bcast(n, m), FloorDiv(n, 3),
                         Max(n, m) - 1};
  const auto random_shape = [&] {
    if (pick(4) == 0) return Shape();
    std::vector<SymInt> d(size_t(pick(4)));
    for (SymInt& v : d) v = dims[pick(10)];
    return Shape(d);
  };
  Graph g;
  if (pick(2)) g.set_name(random_name());
  std::vector<NodeEntry> entries{NodeEntry()};
  TypeMap types;
  ShapeMap shapes;
  EntryMap<std::string> layouts;
  const int count = 1 + pick(30);
  for (int i = 0; i < count; ++i) {
    NodePtr node;
    const int kind = pick(8);
    if (kind == 0) {
      node = g.AddInput(random_name(), Type(DType(pick(kNumDTypes))), random_shape());
    } else if (kind == 1) {
      node = g.AddParam(random_name(), Tensor::Ints(std::vector<int64_t>(size_t(pick(30)), 5)));
    } else {
      std::vector<NodeEntry> in;
      AttrDict dict;
      if (pick(3) == 0) dict["i"] = pick(100);
      if (pick(3) == 0) dict["f"] = std::ldexp(double(rng()), pick(200) - 100);
      if (pick(3) == 0) dict["s"] = random_name();
      if (pick(5) == 0) dict["shape"] = random_shape();
      if (pick(9) == 0 && depth < 2)
        dict["g"] = std::make_shared<const Graph>(RandomGraph(rng, depth + 1));
      const bool fused = pick(6) == 0 && depth < 2, split = !fused && pick(4) == 0;
      if (fused) dict["body"] = std::make_shared<const Graph>(RandomGraph(rng, depth + 1));
      for (int k = split ? 1 : pick(4); k > 0; --k)
        in.push_back(entries[size_t(pick(int(entries.size())))]);
      node = g.AddNode(fused                      ? "weft::Fused"
                       : split && in.front().node ? "TextSplit"
                                                  : "TextAny",
                       in, dict, random_name());
      const NodeEntry before = entries[size_t(pick(int(entries.size())))];
      if (pick(5) == 0 && before.node && before.node != node)
        node->control_deps.push_back(before.node);
      for (uint32_t k = 0; k < node->num_outputs(); ++k) {
        if (pick(2)) types.set({node, k}, Type(DType(pick(kNumDTypes))));
        if (pick(2)) shapes.set({node, k}, random_shape());
        if (pick(5) == 0) layouts.set({node, k}, random_name());
      }
    }
    for (uint32_t k = 0; k < node->num_outputs(); ++k) entries.emplace_back(node, k);
  }
  std::vector<NodeEntry> outputs;
  for (int k = pick(4); k > 0 && entries.size() > 1; --k)
    outputs.push_back(entries[1 + size_t(pick(int(entries.size()) - 1))]);
  g.outputs = outputs;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (pick(3) == 0) g.SetOutputName(k, "out " + std::to_string(k));
  }
  if (pick(2)) g.SetAttr("dtype", std::move(types));
  if (pick(2)) g.SetAttr("shape", std::move(shapes));
  if (pick(2)) g.SetAttr("text_layout", std::move(layouts));
  if (pick(2)) g.SetAttr("text_peak", int64_t{pick(100)});
  return g;
}

TEST_CASE("the law holds for random graphs") {
  std::mt19937 rng(7);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    CheckLaw(RandomGraph(rng, 0));
  }
}

TEST_CASE("no text makes the parser do worse than throw") {
  std::mt19937 rng(3);
  for (int i = 0; i < 1500; ++i) {
    std::string text = PrintGraph(RandomGraph(rng, 1));
    for (int k = 0; k < 3; ++k) {
      const size_t at = rng() % text.size();
      switch (rng() % 3) {
        case 0:
          text.erase(at, 1 + rng() % 4);
          break;
        case 1:
          text[at] = "[](){}%#\"\\:,=?_a0- \n/"[rng() % 21];
          break;
        default:
          text.resize(at);
          break;
      }
      if (text.empty()) text = "w";
    }
    ParseOptions options;
    options.allow_missing_data = true;
    try {
      VerifyGraph(ParseGraph(text, options));
    } catch (const UserError&) {
    }
  }
}

TEST_CASE("an unknown op can be let through") {
  ParseOptions options;
  options.allow_unknown = true;
  const std::string text = R"(weft 1
graph (%x: f32[2]) -> (%a:1) {
  %a, %a:1 = vendor::Mystery(%x) {k = 1} : f32[2], ?
}
)";
  CHECK(Normal(text, options) == text);
}

TEST_CASE("comments, free spacing and names for single outputs") {
  CHECK(Normal(R"(// a test
weft 1 // version
graph(%x:f32[n//2,3])->(%b) { // body
  %a,%b=TextSplit(%x)
}
)") == R"(weft 1
graph <n>(%x: f32[n//2, 3]) -> (%b) {
  %a, %b = TextSplit(%x) : ?, ?
}
)");
}

TEST_CASE("a hundred thousand nodes") {
  Graph g;
  NodeEntry last = g.AddInput("x", DType::kF32, Shape{n, 64});
  TypeMap types;
  ShapeMap shapes;
  for (int i = 0; i < 100000; ++i) {
    const NodePtr node =
        g.AddNode("TextAny", {last, last}, {{"axis", -1}}, "layer" + std::to_string(i));
    types.set(node, DType::kF32);
    shapes.set(node, Shape{n, 64});
    last = node;
  }
  g.outputs = {last};
  g.SetAttr("dtype", std::move(types));
  g.SetAttr("shape", std::move(shapes));
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = PrintGraph(g);
  const auto printed = std::chrono::steady_clock::now();
  const Graph back = ParseGraph(text);
  const auto parsed = std::chrono::steady_clock::now();
  const auto ms = [](auto a, auto b) {
    return std::chrono::duration<double, std::milli>(b - a).count();
  };
  MESSAGE("print " << ms(begin, printed) << " ms, parse " << ms(printed, parsed) << " ms");
  CHECK(back.num_nodes() == g.num_nodes());
  CHECK(PrintGraph(back) == text);
}

}  // namespace
}  // namespace weft
