// Hostile and damaged models: each ends in an Error of the right code, quickly, and never in a
// crash.
#include <chrono>
#include <random>

#include "onnx/proto/onnx_test_util.h"

namespace weft::onnx_import {
namespace {

const char* const kSmall =
    R"(g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {1, 2, 3}, int64[2] s = {0, 3}> {
    a = Add(x, w)  b = Relu(a)  c = Reshape<allowzero = 0>(b, s)  y = Mul(c, w) })";

template <class F>
double SecondsOf(F f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST_CASE("dtypes of ONNX that no dtype stands for are named, other codes are numbers") {
  auto model = GraphOf("g (float[3] x) => (float[3] y) { y = Neg(x) }");
  auto* type = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  type->set_elem_type(pb::TensorProto::FLOAT6E2M3);
  CHECK(Says(ErrorOf(model), "dtype FLOAT6E2M3 is not supported"));
  type->set_elem_type(777);
  CHECK(Says(ErrorOf(model), "dtype code 777 is not known"));
}

TEST_CASE("empty, random and truncated files") {
  CHECK(ErrorOf(std::string()).code() == ErrorCode::kInvalidModel);
  CHECK(ErrorOf(std::string("not a model, just some text")).code() == ErrorCode::kInvalidModel);
  const std::string bytes = BytesOf(GraphOf(kSmall));
  for (size_t n = 0; n + 1 < bytes.size(); ++n) {
    try {
      VerifyGraph(ImportOnnxBytes(bytes.substr(0, n)));
    } catch (const Error& e) {
      CHECK(e.code() != ErrorCode::kInternal);
    }
  }
}

TEST_CASE("headers") {
  auto model = GraphOf(kSmall);
  model.set_ir_version(-1);
  CHECK(ErrorOf(model).code() == ErrorCode::kInvalidModel);
  model.set_ir_version(99);
  CHECK(ErrorOf(model).code() == ErrorCode::kUnsupported);
  model = GraphOf(kSmall, 1000);
  CHECK(ErrorOf(model).code() == ErrorCode::kUnsupported);
  model = GraphOf(kSmall, 0);
  CHECK(ErrorOf(model).code() == ErrorCode::kInvalidModel);
  model = GraphOf(kSmall);
  model.clear_graph();
  CHECK(ErrorOf(model).code() == ErrorCode::kInvalidModel);
  model = GraphOf("g (float[2] x) => (float[2] y) { y = other.Foo(x) }");
  CHECK(Says(ErrorOf(model), "the operator set of domain 'other' is not imported"));
}

TEST_CASE("names: duplicate, undefined, cyclic") {
  const Error duplicate =
      ErrorOf(GraphOf("g (float[2] x) => (float[2] y) { y = Relu(x)  y = Neg(x) }"));
  CHECK(duplicate.code() == ErrorCode::kInvalidModel);
  CHECK(Says(duplicate, "main/node[1] (Neg)"));
  const Error undefined =
      ErrorOf(GraphOf("g (float[2] input) => (float[2] y) { y = Relu(inputt) }"));
  CHECK(undefined.code() == ErrorCode::kInvalidModel);
  CHECK(Says(undefined, "did you mean 'input'"));
  const Error cycle = ErrorOf(GraphOf(
      "g (float[2] x) => (float[2] y) { a = Add(x, c)  b = Relu(a)  c = Neg(b)  y = Relu(c) }"));
  CHECK(cycle.code() == ErrorCode::kCycle);
  CHECK(Says(
      cycle,
      "main/node[0] (Add) -> main/node[1] (Relu) -> main/node[2] (Neg) -> main/node[0] (Add)"));
  auto model = GraphOf(kSmall);
  auto* second = model.mutable_graph()->add_initializer();
  *second = model.graph().initializer(0);
  second->set_float_data(1, 7);
  CHECK(Says(ErrorOf(model), "two initializers have this name"));
  model = GraphOf(kSmall);
  *model.mutable_graph()->add_input() = model.graph().input(0);
  CHECK(Says(ErrorOf(model), "two inputs have this name"));
  model = GraphOf(kSmall);
  model.mutable_graph()->mutable_output(0)->set_name("nothing");
  CHECK(Says(ErrorOf(model), "nothing computes this output"));
}

TEST_CASE("up to 20 faults come in one message") {
  std::string text = "g (float[2] x) => (float[2] y) { y = Relu(x) ";
  for (int i = 0; i < 30; ++i)
    text += " a" + std::to_string(i) + " = Relu(u" + std::to_string(i) + ") ";
  const Error e = ErrorOf(GraphOf(text + "}"));
  CHECK(Says(e, "main/node[1] (Relu): input 'u0' is not defined"));
  CHECK(Says(e, "'u19'"));
  CHECK(!Says(e, "'u25'"));
}

TEST_CASE("nodes against their operators") {
  CHECK(ErrorOf(GraphOf("g (float[2] x) => (float[2] y) { y = Relu(x, x) }")).code() ==
        ErrorCode::kArity);
  CHECK(ErrorOf(GraphOf("g (float[2] x) => (float[2] y) { y, z = Relu(x) }")).code() ==
        ErrorCode::kArity);
  CHECK(ErrorOf(GraphOf("g (float[2] x) => (float[2] y) { y = Add(x, ) }")).code() ==
        ErrorCode::kArity);
  const Error unknown =
      ErrorOf(GraphOf("g (float[2] x) => (float[2] y) { y = LeakyRelu<alpa = 1.0>(x) }"));
  CHECK(unknown.code() == ErrorCode::kBadAttribute);
  CHECK(Says(unknown, "did you mean 'alpha'"));
  CHECK(ErrorOf(GraphOf("g (float[2] x) => (float[2] y) { y = LeakyRelu<alpha = \"a\">(x) }"))
            .code() == ErrorCode::kBadAttribute);
  CHECK(ErrorOf(GraphOf("g (float[2] x) => (int32[2] y) { y = Cast(x) }")).code() ==
        ErrorCode::kBadAttribute);
  CHECK(ErrorOf(GraphOf("g (float[2] x) => (int32[2] y) { y = Cast<to = 99>(x) }")).code() ==
        ErrorCode::kBadAttribute);
  const Error types =
      ErrorOf(GraphOf("g (float[2] x, int64[2] i) => (float[2] y) { y = Add(x, i) }"));
  CHECK(types.code() == ErrorCode::kTypeMismatch);
  CHECK(Says(types, "main/node[0] (Add)"));
}

TEST_CASE("attributes that do not hold what they say") {
  auto model = GraphOf("g (float[2] x) => (float[2] y) { y = LeakyRelu<alpha = 1.0>(x) }");
  auto* a = model.mutable_graph()->mutable_node(0)->mutable_attribute(0);
  a->set_i(3);
  CHECK(ErrorOf(model).code() == ErrorCode::kBadAttribute);
  a->clear_i();
  a->set_ref_attr_name("other");
  CHECK(ErrorOf(model).code() == ErrorCode::kBadAttribute);
  a->clear_ref_attr_name();
  *model.mutable_graph()->mutable_node(0)->add_attribute() = *a;
  CHECK(Says(ErrorOf(model), "is given twice"));
  model.mutable_graph()->mutable_node(0)->mutable_attribute()->RemoveLast();
  model.mutable_graph()->mutable_node(0)->clear_op_type();
  CHECK(Says(ErrorOf(model), "has no operator"));
}

TEST_CASE("lying tensors") {
  const auto with = [](auto change) {
    auto model = GraphOf(kSmall);
    auto* t = model.mutable_graph()->mutable_initializer(0);
    t->clear_float_data();
    t->set_raw_data(std::string(12, '\0'));
    change(t);
    return model;
  };
  VerifyGraph(ImportOnnxBytes(BytesOf(with([](auto*) {}))));
  CHECK(ErrorOf(with([](auto* t) { t->set_dims(0, 4); })).code() == ErrorCode::kInvalidModel);
  CHECK(ErrorOf(with([](auto* t) { t->set_dims(0, -3); })).code() == ErrorCode::kInvalidModel);
  CHECK(ErrorOf(with([](auto* t) { t->set_dims(0, int64_t{1} << 62), t->add_dims(64); })).code() ==
        ErrorCode::kLimit);
  CHECK(ErrorOf(with([](auto* t) { t->set_dims(0, int64_t{100} << 40); })).code() ==
        ErrorCode::kLimit);
  CHECK(ErrorOf(with([](auto* t) { t->set_data_type(0); })).code() == ErrorCode::kInvalidModel);
  CHECK(ErrorOf(with([](auto* t) { t->set_data_type(777); })).code() == ErrorCode::kUnsupported);
  CHECK(ErrorOf(with([](auto* t) { t->add_float_data(1); })).code() == ErrorCode::kInvalidModel);
  CHECK(ErrorOf(with([](auto* t) { t->set_data_type(pb::TensorProto::STRING); })).code() ==
        ErrorCode::kInvalidModel);
  CHECK(ErrorOf(with([](auto* t) { t->set_data_location(pb::TensorProto::EXTERNAL); })).code() ==
        ErrorCode::kInvalidModel);
  auto model = GraphOf(kSmall);
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_value(-2);
  CHECK(ErrorOf(model).code() == ErrorCode::kInvalidModel);
}

std::string FunctionChain(int count) {
  std::string text =
      "<ir_version: 9, opset_import: [\"\" : 20, \"d\" : 1]> g (float[2] x) => (float[2] y) { y = "
      "d.F" +
      std::to_string(count - 1) +
      "(x) }\n<domain: \"d\", opset_import: [\"\" : 18, \"d\" : 1]> F0 (a) => (b) { b = Relu(a) "
      "}\n";
  for (int i = 1; i < count; ++i) {
    const std::string callee = "d.F" + std::to_string(i - 1);
    text += "<domain: \"d\", opset_import: [\"\" : 18, \"d\" : 1]> F" + std::to_string(i) +
            " (a) => (b) { t = " + callee + "(a) b = " + callee + "(t) }\n";
  }
  return text;
}

TEST_CASE("a bomb of functions is measured, not expanded") {
  const std::string bytes = BytesOf(ModelOf(FunctionChain(30)));
  const double seconds = SecondsOf([&] {
    const Error e = ErrorOf(bytes);
    CHECK(e.code() == ErrorCode::kLimit);
    CHECK(Says(e, "expanded_nodes"));
  });
  CHECK(seconds < 0.5);
  VerifyGraph(ImportOnnxBytes(BytesOf(ModelOf(FunctionChain(8)))));
  CHECK(ErrorOf(BytesOf(ModelOf(FunctionChain(70)))).code() == ErrorCode::kLimit);
}

TEST_CASE("functions: rings, duplicates, arity, unknown attributes") {
  const std::string head =
      "<ir_version: 9, opset_import: [\"\" : 20, \"d\" : 1]> g (float[2] x) => (float[2] y) { y = "
      "d.F(x) }\n";
  const std::string opsets = "<domain: \"d\", opset_import: [\"\" : 18, \"d\" : 1]> ";
  CHECK(ErrorOf(ModelOf(head + opsets + "F (a) => (b) { b = d.G(a) }\n" + opsets +
                        "G (a) => (b) { b = d.F(a) }"))
            .code() == ErrorCode::kCycle);
  CHECK(ErrorOf(ModelOf(head + opsets + "F (a) => (b) { b = d.F(a) }")).code() ==
        ErrorCode::kCycle);
  CHECK(ErrorOf(ModelOf(head + opsets + "F (a) => (b) { b = Relu(a) }\n" + opsets +
                        "F (a) => (b) { b = Neg(a) }"))
            .code() == ErrorCode::kInvalidModel);
  CHECK(ErrorOf(ModelOf(head + opsets + "F (a) => (b) { c = Relu(a) }")).code() ==
        ErrorCode::kInvalidModel);
  CHECK(ErrorOf(ModelOf(head + opsets + "F () => (b) { b = Constant<value_float = 1.0>() }"))
            .code() == ErrorCode::kArity);
  CHECK(ErrorOf(ModelOf(head + opsets + "F (a) => (b) { b = Relu(zz) }")).code() ==
        ErrorCode::kInvalidModel);
}

TEST_CASE("a chain of 200,000 nodes") {
  auto model = GraphOf("g (float[2] x) => (float[2] y) { y = Relu(x) }");
  auto* graph = model.mutable_graph();
  graph->clear_node();
  constexpr int kNodes = 200'000;
  for (int i = 0; i < kNodes; ++i) {
    auto* n = graph->add_node();
    n->set_op_type("Relu");
    n->add_input(i == 0 ? "x" : "t" + std::to_string(i - 1));
    n->add_output(i + 1 == kNodes ? "y" : "t" + std::to_string(i));
  }
  const Graph g = ImportOnnxBytes(BytesOf(model));
  CHECK(g.num_nodes() == kNodes + 1);
  graph->mutable_node(0)->set_input(0, "t" + std::to_string(kNodes / 2));
  CHECK(ErrorOf(model).code() == ErrorCode::kCycle);
  ImportOptions options;
  options.limits.nodes = 1000;
  CHECK(ErrorOf(model, options).code() == ErrorCode::kLimit);
}

TEST_CASE("nested graphs and deep messages") {
  const auto nested = [](int depth) {
    auto model = GraphOf("g (bool[] c, float[2] x) => (float[2] y) { y = Relu(x) }");
    pb::GraphProto body;
    body.set_name("b");
    body.add_output()->set_name("x");
    for (int i = 0; i < depth; ++i) {
      pb::GraphProto outer;
      outer.set_name("b");
      auto* n = outer.add_node();
      n->set_op_type("If");
      n->add_input("c");
      n->add_output("o");
      for (const char* name : {"then_branch", "else_branch"}) {
        auto* a = n->add_attribute();
        a->set_name(name);
        a->set_type(pb::AttributeProto::GRAPH);
        if (name[0] == 't')
          *a->mutable_g() = body;
        else
          a->mutable_g()->add_output()->set_name("x");
      }
      outer.add_output()->set_name("o");
      body = outer;
    }
    auto* graph = model.mutable_graph();
    graph->clear_node();
    *graph->mutable_node() = body.node();
    if (graph->node_size()) graph->mutable_output(0)->set_name("o");
    return model;
  };
  try {
    ImportOnnxBytes(BytesOf(nested(10)));
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kUnknownOp);
  }
  ImportOptions options;
  options.limits.depth = 5;
  CHECK(ErrorOf(nested(10), options).code() == ErrorCode::kLimit);
  CHECK(ErrorOf(nested(60)).code() == ErrorCode::kInvalidModel);  // refused by the parser
}

TEST_CASE("huge attributes and strange names are carried, not interpreted") {
  auto model = GraphOf("g (float[2] x) => (float[2] y) { y = d.Foo<s = \"a\">(x) }");
  model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_s(std::string(10'000'000, 'z'));
  model.mutable_graph()->mutable_node(0)->set_name(std::string("\x1b[31m\n\0*/", 9) +
                                                   std::string(100'000, 'n'));
  const Error e = ErrorOf(model);
  CHECK(e.code() == ErrorCode::kUnknownOp);
  CHECK(std::string(e.what()).size() < 2000);
  CHECK(std::string(e.what()).find('\x1b') == std::string::npos);
}

TEST_CASE("structural mutations") {
  // Well-formed protobuf, wrong content: names swapped, extents and attributes extreme, parts
  // dropped or doubled.
  const std::vector<pb::ModelProto> seeds = {
      GraphOf(kSmall), ModelOf(FunctionChain(4)),
      GraphOf("g (float[N, 4] x) => (float[N, 4] y, float[N, 2] z) { s = Softmax<axis = 0>(x) y = "
              "Clip<min = 0.0, max = 1.0>(s) z, w = Split<axis = 1>(y) }",
              8),
      GraphOf(
          "g (float[N, 3, 4, 4] x) => (float[N, 3, 4, 4] y) { m = MeanVarianceNormalization<axes = "
          "[0, 2, 3]>(x) c = Celu<alpha = 2.0>(m) y = Upsample(c, s) }",
          13),
      GraphOf("g (float[N, 4] x) => (float[N, 4] y) { a = Squeeze<axes = [1]>(x) b = Pad<pads = "
              "[0, 0], value = 1.0>(a) v, i = TopK<k = 2>(b) y = ReduceMax<axes = [0]>(v) }",
              9)};
  std::mt19937 random(7);
  const auto start = std::chrono::steady_clock::now();
  const int64_t extremes[] = {0, 1, -1, 2, 64, INT32_MAX, INT64_MAX, INT64_MIN, int64_t{1} << 40};
  int accepted = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    if (round % 64 == 0 && std::chrono::steady_clock::now() - start > std::chrono::seconds(20))
      break;
    pb::ModelProto model = seeds[size_t(round) % seeds.size()];
    auto* g = model.mutable_graph();
    auto* nodes = model.functions_size() > 0 && random() % 2
                      ? model.mutable_functions(int(random() % unsigned(model.functions_size())))
                            ->mutable_node()
                      : g->mutable_node();
    for (int e = 1 + int(random() % 2); e > 0; --e) {
      const int64_t extreme = extremes[random() % std::size(extremes)];
      auto* n =
          nodes->size() ? nodes->Mutable(int(random() % unsigned(nodes->size()))) : g->add_node();
      auto* a = n->attribute_size() ? n->mutable_attribute(0) : nullptr;
      switch (random() % 14) {
        case 0:
          if (n->input_size())
            n->set_input(0, random() % 2                  ? ""
                            : nodes->Get(0).output_size() ? nodes->Get(0).output(0)
                                                          : "x");
          break;
        case 1:
          n->add_input("x");
          break;
        case 2:
          n->add_output(random() % 2 ? "" : "extra");
          break;
        case 3:
          n->clear_input();
          break;
        case 4:
          n->clear_output();
          break;
        case 5:
          if (a) a->set_i(extreme);
          break;
        case 6:
          if (a)
            for (auto& v : *a->mutable_ints()) v = extreme;
          break;
        case 7:
          if (a) a->set_type(pb::AttributeProto::AttributeType(1 + random() % 14));
          break;
        case 8:
          if (a) a->clear_ints(), a->clear_floats();
          break;
        case 9:
          n->clear_attribute();
          break;
        case 10:
          n->set_op_type(std::vector<std::string>{"Softmax", "Split", "Resize",
                                                  "GroupNormalization", "If", "Attention",
                                                  "Constant", "Celu", "Clip"}[random() % 9]);
          break;
        case 11:
          if (g->initializer_size() && g->initializer(0).dims_size())
            g->mutable_initializer(0)->set_dims(0, extreme);
          break;
        case 12:
          model.mutable_opset_import(0)->set_version(7 + int(random() % 20));
          break;
        default:
          if (nodes->size() > 1) nodes->SwapElements(0, nodes->size() - 1);
          break;
      }
    }
    ImportOptions options;
    options.allow_unsupported = random() % 2;
    try {
      VerifyGraph(ImportOnnxBytes(BytesOf(model), options));
      ++accepted;
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInternal) FAIL_CHECK(e.what());
      ++refused;
    }
  }
  CHECK(accepted > 100);
  CHECK(refused > 100);
  MESSAGE(accepted << " accepted, " << refused << " refused");
}

TEST_CASE("mutations of small models") {
  // Byte edits of models that use functions, sub-graphs, attributes and initializers; fixed seeds.
  const std::vector<std::string> seeds = {
      BytesOf(GraphOf(kSmall)), BytesOf(ModelOf(FunctionChain(4))),
      BytesOf(GraphOf("g (float[N, 4] x) => (float[N, 4] y, float[N, 2] z) { s = Softmax<axis = "
                      "0>(x) y = Clip<min = 0.0, max = 1.0>(s) z, w = Split<axis = 1>(y) }",
                      8)),
      BytesOf(GraphOf(
          "g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = a () => (float[2] p) "
          "{ p = Neg(x) }, else_branch = b () => (float[2] q) { q = Relu(x) }> }"))};
  std::mt19937 random(20240607);
  const auto start = std::chrono::steady_clock::now();
  int accepted = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    if (i % 64 == 0 && std::chrono::steady_clock::now() - start > std::chrono::seconds(20)) break;
    std::string bytes = seeds[size_t(i) % seeds.size()];
    const int edits = 1 + int(random() % 4);
    for (int e = 0; e < edits && !bytes.empty(); ++e) {
      const size_t at = random() % bytes.size();
      switch (random() % 5) {
        case 0:
          bytes[at] = char(random());
          break;
        case 1:
          bytes[at] ^= char(1 << random() % 8);
          break;
        case 2:
          bytes.erase(at, 1 + random() % 4);
          break;
        case 3:
          bytes.insert(at, 1, char(random()));
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 16));
          break;
      }
    }
    try {
      const Graph g = ImportOnnxBytes(bytes);
      VerifyGraph(g);
      ++accepted;
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInternal) FAIL_CHECK(e.what());
      ++refused;
    }
  }
  CHECK(refused > 100);
  MESSAGE(accepted << " accepted, " << refused << " refused");
}

}  // namespace
}  // namespace weft::onnx_import
