/// json_test.cc: load(save(g)) prints as g; the exact form of a small graph; NNVM's dialect; and
/// what hostile JSON meets.
#include "weft/core/json/json.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <ostream>

#include "doc.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/metadata.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/error.h"

namespace weft {
namespace {

// The operators and graph attributes of text_test.cc: TextAny, TextTwo, TextSplit, text_level ...

/// Checks the law and gives the JSON.
std::string CheckLaw(const Graph& g) {
  PrintOptions print;
  print.origins = print.inline_all = print.hidden_attributes = true;
  const std::string json = SaveJson(g);
  Graph back;
  CHECK_NOTHROW(back = LoadJson(json));
  VerifyGraph(back);
  CHECK(PrintGraph(back, print) == PrintGraph(g, print));
  CHECK(back.id_bound() <= g.id_bound());
  CHECK(SaveJson(back) == json);
  return json;
}

/// The error that loading gives; fails the test where there is none.
Error ErrorOf(const std::string& json, const JsonOptions& options = {}) {
  try {
    LoadJson(json, options);
  } catch (const UserError& e) {
    return e;
  }
  FAIL_CHECK("loading succeeded: " << json.substr(0, 300));
  return Error(ErrorCode::kInternal, "");
}
bool Says(const Error& e, const std::string& text) {
  return std::string(e.what()).find(text) != std::string::npos;
}

std::string Document(const std::string& nodes, const std::string& rest = "\"outputs\": []",
                     const std::string& tensors = "") {
  return "{\"format\": \"weft\", \"version\": [1, 0], \"graph\": {\"nodes\": [" + nodes + "], " +
         rest + "}" + (tensors.empty() ? "" : ", \"tensors\": [" + tensors + "]") + "}";
}

Graph Sample() {
  Graph g;
  g.set_name("a \"graph\"");
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape{SymInt::Symbol("n"), SymInt(), SymInt(3)}));
  const auto w = std::make_shared<Tensor>(DType::kBF16, std::vector<int64_t>{5});
  for (int i = 0; i < 5; ++i) w->mutable_data_as<uint16_t>()[i] = uint16_t(0x3f80 + i);
  const NodeEntry p(g.AddParam("w\xff\xe9\n", w));
  const auto words = std::make_shared<Tensor>(DType::kString, std::vector<int64_t>{2, 1});
  words->mutable_strings() = {"a\0b", "\xf0\x9f\x98\x80 \xed\xa0\x80"};
  auto body = std::make_shared<Graph>();
  const NodeEntry bx(body->AddInput("", DType::kF32, Shape{SymInt::Symbol("n")}));
  body->outputs = {NodeEntry(body->AddNode("TextTwo", {bx}, {{"w", TensorPtr(w)}}))};
  AttrDict dict{{"i", int64_t{INT64_MIN}},
                {"d", 1.0},
                {"tiny", 5e-324},
                {"minus", -0.0},
                {"inf", -std::numeric_limits<double>::infinity()},
                {"nan", std::nan("")},
                {"s", "\x01\"\\/\u00e9\x7f"},
                {"t", DType::kF8E5M2},
                {"shape", Shape{SymInt::Symbol("n") * SymInt(2), SymInt(0)}},
                {"unranked", Shape()},
                {"ints", Ints{1, -2}},
                {"no_ints", Ints{}},
                {"floats", Floats{1, 2}},
                {"odd", Floats{1, std::nan("")}},
                {"no_floats", Floats{}},
                {"strings", Strings{"a", ""}},
                {"no_strings", Strings{}},
                {"tensor", TensorPtr(words)},
                {"no_tensor", TensorPtr()},
                {"no_graph", GraphPtr()},
                {"none", AttrValue()},
                {"body", GraphPtr(body)}};
  const NodeEntry a(g.AddNode("TextAny", {x, NodeEntry(), p}, std::move(dict), "a"));
  const NodePtr s = g.AddNode("TextSplit", {a}, {}, "split");
  const NodePtr t = g.AddNode("TextTwo", {NodeEntry(s, 1)}, {{"w", TensorPtr(w)}});
  t->control_deps.push_back(a.node);
  g.SetOrigin(t, std::make_shared<const std::vector<std::string>>(
                     std::vector<std::string>{"user", "other"}));
  g.outputs = {NodeEntry(t), NodeEntry(s, 1), NodeEntry(s, 1)};
  g.SetOutputName(1, "right");
  TypeMap types;
  types.set(x, DType::kF32);
  types.set(NodeEntry(s, 1), Type(TypeKind::kSequence, DType::kI64));
  g.SetAttr("dtype", types);
  ShapeMap shapes;
  shapes.set(NodeEntry(s, 1), Shape{SymInt::Symbol("n") + SymInt(1)});
  g.SetAttr("shape", shapes);
  SetMetadata(&g, {{"character", "a\nb\n\xff"}, {"", "empty"}});
  return g;
}

TEST_CASE("a graph with everything comes back") {
  const Graph g = Sample();
  const std::string json = CheckLaw(g);
  const Graph back = LoadJson(json);
  CHECK(Metadata(back) == Metadata(g));
  // What was shared is shared.
  const auto tensor = [](const Graph& of, const char* node) {
    for (NodePtr n : of.TopoOrder()) {
      if (n->attrs.name == node || (n->op() && n->op()->name == node))
        return n->attrs.dict.find("value") ? n->attr<TensorPtr>("value") : n->attr<TensorPtr>("w");
    }
    return TensorPtr();
  };
  CHECK(tensor(back, "w\xff\xe9\n") == tensor(back, "TextTwo"));
  CHECK(json.find("\\udcff\\udce9\\n") != std::string::npos);
}

TEST_CASE("ids stay, also with holes; where nearly all are gone they are made anew") {
  Graph g;
  NodeEntry e(g.AddInput("x"));
  for (int i = 0; i < 10; ++i) e = NodeEntry(g.AddNode("TextTwo", {e}));
  const NodePtr last = g.AddNode("TextTwo", {NodeEntry(g.inputs()[0])}, {}, "last");
  g.outputs = {NodeEntry(last)};
  g.EraseDead();
  CheckLaw(g);
  CHECK(LoadJson(SaveJson(g)).outputs[0].node->id() == last->id());
  // A node that reads one with a higher id.
  g.SetInput(last, 0, NodeEntry(g.AddNode("TextTwo", {NodeEntry(g.inputs()[0])})));
  CheckLaw(g);
  for (int i = 0; i < 100000; ++i) g.Erase(g.AddNode("TextTwo", {NodeEntry(g.inputs()[0])}));
  g.SetInput(last, 0, NodeEntry(g.AddNode("TextTwo", {NodeEntry(g.inputs()[0])})));
  g.EraseDead();
  const Graph back = LoadJson(SaveJson(g));
  CHECK(back.id_bound() == 3);
  CHECK(PrintGraph(back) == PrintGraph(g));
}

TEST_CASE("the form of a small graph") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kI64, Shape{SymInt(2)}));
  const NodeEntry c(g.AddParam("c", Tensor::Ints({1, -1})));
  g.outputs = {
      NodeEntry(g.AddNode("TextAny", {x, NodeEntry(), c}, {{"axis", -1}, {"f", 2.0}}, "y"))};
  CHECK(SaveJson(g) == R"({"format": "weft", "version": [1, 0],
"graph": {"nodes": [
{"id": 0, "name": "x", "attrs": {"dtype": {"dtype": "i64"}, "shape": {"shape": "[2]"}}},
{"id": 1, "name": "c", "attrs": {"value": {"tensor": 0}}},
{"id": 2, "op": "TextAny", "name": "y", "inputs": [[0, 0], null, [1, 0]], "attrs": {"axis": -1, "f": 2.0}}],
"inputs": [0], "outputs": [[2, 0]]},
"tensors": [
{"dtype": "i64", "dims": [2], "data": "AQAAAAAAAAD//////////w=="}]}
)");
}

TEST_CASE("keys in any order, blanks anywhere, escapes") {
  const Graph g = LoadJson(R"( {"tensors":[ ], "graph":{"outputs":[[4,0]] , "inputs":[1],
    "nodes":[{"attrs":{}, "name":"\u0078\uD83D\uDE00", "id":1}, {"inputs":[[1,0]],"op":"TextTwo","id":4}]},
    "version":[1,0], "format":"weft"} )");
  CHECK(g.inputs()[0]->attrs.name == "x\xf0\x9f\x98\x80");
  CHECK(g.outputs[0].node->id() == 4);
}

TEST_CASE("versions") {
  const std::string newer =
      R"({"format": "weft", "version": [1, 7], "later": 1, "graph": {"nodes": [{"id": 0, "colour": "red"}],
          "outputs": [[0, 0]], "attributes": {"unheard_of": [[1]]}}})";
  CHECK(LoadJson(newer).num_nodes() == 1);
  std::string same = newer;
  same.replace(same.find("[1, 7]"), 6, "[1, 0]");
  const Error unknown = ErrorOf(same);
  CHECK(unknown.code() == ErrorCode::kSyntax);
  CHECK(Says(unknown, "<json>:1:"));
  same.replace(same.find("[1, 0]"), 6, "[2, 0]");
  CHECK(ErrorOf(same).code() == ErrorCode::kUnsupported);
}

TEST_CASE("operators that are not registered are all named, or stand as they are") {
  const std::string json = Document(
      R"({"id": 0}, {"id": 1, "op": "TexTwo", "inputs": [[0, 0]]},
         {"id": 2, "op": "Nothing", "inputs": [[1, 3]], "outputs": 2}, {"id": 3, "op": "TextTwo", "inputs": [[2, 1]]})",
      R"("outputs": [[3, 0]])");
  const Error e = ErrorOf(json);
  CHECK(e.code() == ErrorCode::kUnknownOp);
  CHECK(Says(e, "Nothing"));
  CHECK(Says(e, "TextTwo"));  // the near name
  JsonOptions options;
  options.allow_unknown = true;
  std::string valid = json;
  valid.replace(valid.find("[1, 3]"), 6, "[1, 0]");
  const Graph g = LoadJson(valid, options);
  CHECK(g.node(2)->num_outputs() == 2);
  CHECK(ErrorOf(json, options).code() == ErrorCode::kInvalidModel);
}

TEST_CASE("NNVM's dialect") {
  const Graph g = LoadJson(R"j({
    "nodes": [{"op": "null", "name": "x", "attrs": {"__shape__": "(2, 3)"}, "inputs": []},
              {"op": "null", "name": "w", "inputs": []},
              {"op": "TextAny", "name": "f", "attr": {"k": "1"}, "inputs": [[0, 0, 0], [1, 0, 0]], "control_deps": [1]},
              {"op": "TextSplit", "name": "s", "param": {}, "inputs": [[2, 0]]}],
    "arg_nodes": [0, 1], "node_row_ptr": [0, 1, 2, 3, 5], "heads": [[3, 1, 0]],
    "attrs": {"shape": ["list_shape", [[2, 3], [0, 3], [], [1], [1]]], "dtype": ["list_int", [0, 4, -1, 0, 0]],
              "storage_id": ["list_int", [0, 1, 2, 3, 4]]}})j");
  VerifyGraph(g);
  CHECK(PrintGraph(g) == R"w(weft 1
graph (%x: f32[2, 3] {__shape__ = "(2, 3)"}, %w: i32[?, 3]) -> (%s:1) {
  %f = TextAny(%x, %w) {k = "1"} after(%w) : ?
  %s, %s:1 = TextSplit(%f) : f32[1], f32[1]
}
)w");
  CHECK(!g.IsComplete("shape"));
  for (
      const char* bad : {
          R"({"nodes": [], "arg_nodes": []})",
          R"({"nodes": 1, "heads": []})",
          R"({"nodes": [{"op": "null", "name": "x"}], "heads": []})",
          R"({"nodes": [{"op": "TextTwo", "name": "x", "inputs": [[0, 0, 0]]}], "heads": []})",
          R"({"nodes": [{"op": "null", "name": "x", "inputs": []}], "arg_nodes": [0, 0], "heads": []})",
          R"({"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": [[0, 1, 0]]})",
          R"({"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": [], "attrs": {"shape": ["list_shape", []]}})",
          R"({"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": [], "attrs": {"dtype": ["list_int", [99]]}})",
      }) {
    CAPTURE(bad);
    CHECK(Says(ErrorOf(bad), "<json>:1:"));
  }
}

TEST_CASE("hostile texts") {
  const auto refused = [](const std::string& json, ErrorCode code) {
    CAPTURE(json.substr(0, 200));
    const Error e = ErrorOf(json);
    CHECK(e.code() == code);
    CHECK((e.code() == ErrorCode::kLimit || Says(e, "<json>:1:")));
  };
  const ErrorCode kSyntax = ErrorCode::kSyntax, kInvalid = ErrorCode::kInvalidModel;
  for (const char* text :
       {"",
        " ",
        "{",
        "[",
        "nul",
        "{}",
        "[]",
        "1",
        "\"a",
        "{\"a\"}",
        "{\"a\": 1,}",
        "{,}",
        "[1 2]",
        "{\"format\": \"weft\"} x",
        "{\"format\": 'weft'}",
        "{\"a\": 01}",
        "{\"a\": +1}",
        "{\"a\": .5}",
        "{\"a\": 1.}",
        "{\"a\": 1e}",
        "{\"a\": NaN}",
        "{\"a\": \"\\x41\"}",
        "{\"a\": \"\\ud800\"}",
        "{\"a\": \"\\udc00\"}",
        "{\"a\": \"\\u12\"}",
        "{\"a\": \"\x01\"}",
        "{\"a\": \"\xff\"}",
        "{\"a\": \"\xc0\x80\"}",
        "{\"a\": 1, \"a\": 2}",
        "{\"a\": 1, \"\\u0061\": 2}",
        "// x\n{}",
        "{\"format\": \"weft\"}",
        "{\"format\": \"weft\", \"version\": 1}",
        "{\"format\": \"weft\", \"version\": [1]}",
        "{\"format\": \"weft\", \"version\": [1, 0]}",
        "{\"format\": \"doc\", \"version\": [1, 0], \"graph\": {\"nodes\": [], \"outputs\": []}}"})
    refused(text, kSyntax);
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"k" + std::to_string(i % 99) + "\": 0,";
  refused(many + "\"z\": 0}", kSyntax);
  refused(std::string(1000000, '['), ErrorCode::kLimit);
  std::string deep = "{\"a\":", close = "}";
  for (int i = 0; i < 12; ++i) deep += deep, close += close;
  refused(deep + "1" + close, ErrorCode::kLimit);

  // Types, numbers, ids.
  const char* x = "{\"id\": 0}, ";
  refused(Document("1"), kSyntax);
  refused(Document("{}"), kSyntax);
  refused(Document("{\"id\": \"0\"}"), kSyntax);
  refused(Document("{\"id\": 1.5}"), kSyntax);
  refused(Document("{\"id\": -1}"), kInvalid);
  refused(Document("{\"id\": 4294967296}"), kInvalid);
  refused(Document("{\"id\": 99999999999999999999999}"), kSyntax);
  refused(Document("{\"id\": 4000000000}"), kInvalid);
  refused(Document("{\"id\": 0}, {\"id\": 0}"), kInvalid);
  refused(Document("{\"id\": 0, \"name\": 1}"), kSyntax);
  refused(Document("{\"id\": 0, \"nam\": \"x\"}"), kSyntax);
  refused(Document("{\"id\": 0, \"inputs\": [[0, 0]]}"), kInvalid);
  refused(Document("{\"id\": 0, \"op\": \"TextTwo\", \"inputs\": [[0, 0]]}"), kInvalid);
  refused(Document("{\"id\": 0, \"op\": \"TextTwo\", \"inputs\": [[1, 0]]}, {\"id\": 1, \"op\": "
                   "\"TextTwo\", \"inputs\": [[0, 0]]}"),
          kInvalid);
  refused(Document("{\"id\": 0, \"op\": \"TextTwo\"}"), ErrorCode::kArity);
  refused(Document(std::string(x) + "{\"id\": 1, \"op\": \"TextTwo\", \"inputs\": [[0, 1]]}"),
          kInvalid);
  refused(Document(std::string(x) + "{\"id\": 1, \"op\": \"TextTwo\", \"inputs\": [[0, -1]]}"),
          kInvalid);
  refused(Document(std::string(x) + "{\"id\": 1, \"op\": \"TextTwo\", \"inputs\": [[7, 0]]}"),
          kInvalid);
  refused(Document(std::string(x) + "{\"id\": 1, \"op\": \"TextTwo\", \"inputs\": [[0]]}"),
          kSyntax);
  refused(Document(std::string(x) + "{\"id\": 1, \"op\": \"TextTwo\", \"inputs\": [0]}"), kSyntax);
  refused(Document(std::string(x) + "{\"id\": 1, \"op\": \"TextTwo\", \"inputs\": [[0, 0]], "
                                    "\"outputs\": 2}"),
          ErrorCode::kArity);
  refused(Document(std::string(x) + "{\"id\": 1, \"op\": \"TextTwo\", \"inputs\": [[0, 0]], "
                                    "\"control\": [1]}"),
          kInvalid);
  refused(Document("{\"id\": 0}", "\"inputs\": [0, 0], \"outputs\": []"), kInvalid);
  refused(Document("{\"id\": 0}", "\"outputs\": [null]"), kSyntax);
  refused(Document("{\"id\": 0}", "\"outputs\": [[0, 0]], \"output_names\": []"), kInvalid);
  refused(Document("{\"id\": 0}", "\"inputs\": [0]"), kSyntax);

  // Attribute values.
  const auto value = [](const std::string& v) {
    return Document("{\"id\": 0, \"attrs\": {\"a\": " + v + "}}");
  };
  for (const char* v :
       {"{}", "{\"flot\": 1}", "{\"float\": \"one\"}", "[1, \"a\"]", "[\"a\", 1]", "[[1]]", "1e999",
        "{\"dtype\": \"f33\"}", "{\"shape\": \"[2\"}", "{\"shape\": \"[2 $ 3]\"}",
        "{\"tensor\": 1.5}", "{\"graph\": 1}", "99999999999999999999"})
    refused(value(v), kSyntax);
  refused(value("{\"tensor\": 0}"), kInvalid);
  refused(value("{\"tensor\": -1}"), kInvalid);

  // Graph attributes.
  const auto attribute = [&](const std::string& a) {
    return Document("{\"id\": 0}", "\"outputs\": [], \"attributes\": {" + a + "}");
  };
  for (const char* a :
       {"\"shpae\": []", "\"shape\": 1", "\"shape\": [[0, 0]]", "\"shape\": [[0, 0, 1]]",
        "\"shape\": [[0, 0, \"[\"]]", "\"dtype\": [[0, 0, \"f33\"]]", "\"text_peak\": \"x\"",
        "\"text_peak\": 3", "\"metadata\": \"[1]\""})
    refused(attribute(a), kSyntax);
  refused(attribute("\"shape\": [[1, 0, \"[2]\"]]"), kInvalid);
  refused(attribute("\"shape\": [[0, 4000000000, \"[2]\"]]"), kInvalid);
}

TEST_CASE("hostile tensors take no memory") {
  const auto tensor = [](const std::string& t) { return Document("", "\"outputs\": []", t); };
  const auto refused = [&](const std::string& t, ErrorCode code) {
    CAPTURE(t);
    CHECK(ErrorOf(tensor(t)).code() == code);
  };
  const ErrorCode kInvalid = ErrorCode::kInvalidModel;
  refused(R"({"dtype": "f32", "dims": [1000000000000], "data": ""})", ErrorCode::kLimit);
  refused(R"({"dtype": "f32", "dims": [100000000], "data": ""})", kInvalid);
  refused(R"({"dtype": "f32", "dims": [9223372036854775807, 2], "data": ""})",
          ErrorCode::kOverflow);
  refused(R"({"dtype": "f32", "dims": [-1], "data": ""})", kInvalid);
  refused(R"({"dtype": "f32", "dims": [1], "data": "AAAA"})", kInvalid);
  refused(R"({"dtype": "f32", "dims": [1], "data": "AAAAAA=="} , 1)", ErrorCode::kSyntax);
  refused(R"({"dtype": "f32", "dims": [1], "data": "AAAAAB=="})", kInvalid);  // bits beyond the end
  refused(R"({"dtype": "f32", "dims": [1], "data": "AAAAA==="})", kInvalid);
  refused(R"({"dtype": "f32", "dims": [1], "data": "AA\u0041AAA=="})", kInvalid);
  refused(R"({"dtype": "?", "dims": [1], "data": ""})", kInvalid);
  refused(R"({"dtype": "str", "dims": [1000000000000], "strings": []})", kInvalid);
  refused(R"({"dtype": "str", "dims": [1], "data": ""})", kInvalid);
  refused(R"({"dtype": "f32", "dims": [1], "strings": ["a"]})", kInvalid);
  CHECK_NOTHROW(LoadJson(tensor(R"({"dtype": "f32", "dims": [1], "data": "AAAAAA=="})")));
  CHECK_NOTHROW(LoadJson(tensor(R"({"dtype": "f32", "dims": [0, 5], "data": ""})")));
}

TEST_CASE("limits") {
  JsonOptions options;
  options.limits.nodes = 2;
  CHECK(ErrorOf(Document("{\"id\": 0}, {\"id\": 1}, {\"id\": 2}"), options).code() ==
        ErrorCode::kLimit);
  options = {};
  options.limits.file_bytes = 10;
  CHECK(ErrorOf(Document(""), options).code() == ErrorCode::kLimit);
  auto g = std::make_shared<Graph>();
  g->outputs = {NodeEntry(g->AddInput("x"))};
  for (int i = 0; i < 5; ++i) {
    auto outer = std::make_shared<Graph>();
    outer->outputs = {NodeEntry(outer->AddNode("TextAny", {}, {{"body", GraphPtr(g)}}))};
    g = outer;
  }
  options = {};
  options.limits.depth = 6;
  CHECK_NOTHROW(LoadJson(SaveJson(*g), options));
  options.limits.depth = 5;
  CHECK(ErrorOf(SaveJson(*g), options).code() == ErrorCode::kLimit);
}

TEST_CASE("cut at every byte, and with every byte changed") {
  const std::string json = SaveJson(Sample());
  for (size_t i = 0; i < json.size() - 1; ++i) {
    const Error e = ErrorOf(json.substr(0, i));
    CHECK(e.code() == ErrorCode::kSyntax);
  }
  // A changed byte gives an error of the user or another graph; never anything else.
  int accepted = 0;
  for (const char c : {'\0', '"', '0', '9', '{', ']', '\\', '\xff'}) {
    for (size_t i = 0; i < json.size(); ++i) {
      std::string changed = json;
      changed[i] = c;
      try {
        VerifyGraph(LoadJson(changed));
        ++accepted;
      } catch (const UserError&) {
      } catch (const DeviceError&) {
      }
    }
  }
  CHECK(accepted > 0);
}

TEST_CASE("base64") {
  for (size_t n = 0; n < 9; ++n) {
    std::string bytes;
    for (size_t i = 0; i < n; ++i) bytes += char(250 + 7 * i);
    std::string text;
    AppendBase64(&text, bytes.data(), n);
    std::string back(n, '\0');
    CHECK(ReadBase64(text, back.data(), n));
    CHECK(back == bytes);
    CHECK_FALSE(ReadBase64(text + "A", back.data(), n));
  }
  std::string text;
  AppendBase64(&text, "foobar", 6);
  CHECK(text == "Zm9vYmFy");  // RFC 4648
}

}  // namespace
}  // namespace weft
