// What real files contain against the standard: each is taken and warned of once, a strict import
// refuses it, and what only looks like it is refused by any.
#include <algorithm>

#include "onnx/proto/diagnostics.h"
#include "onnx/proto/onnx_test_util.h"
#include "tests/support/temp_folder.h"
#include "weft/support/file.h"

namespace weft::onnx_import {
namespace {

/// y = Relu(-x * w), of which x = [1, -2, 3] makes [0, 4, 0].
const char* const kChain = R"(g (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> {
    a = Neg(x)  b = Mul(a, w)  y = Relu(b) })";
const std::vector<double> kX = {1, -2, 3}, kY = {0, 4, 0};

std::vector<double> Run(const Graph& g, std::vector<int64_t> dims = {3}) {
  const TensorPtr y =
      GetEvaluator()->Eval(g, {Tensor::FromDoubles(DType::kF32, std::move(dims), kX)}, {})[0];
  std::vector<double> out;
  for (int64_t i = 0; i < y->num_elements(); ++i) out.push_back(y->at(i));
  return out;
}

/// The model is taken with this one warning, and refused by a strict import for the same reason.
Graph Tolerated(const pb::ModelProto& model, Oddity oddity, const std::string& place,
                int64_t count = 1) {
  const OddityRow& row = RowOf(oddity);
  CAPTURE(row.name);
  std::vector<Finding> findings;
  ImportOptions options;
  options.findings = &findings;
  Graph g = ImportOnnxBytes(BytesOf(model), options);
  VerifyGraph(g);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].oddity == row.name);
  CHECK_MESSAGE(findings[0].place.find(place) == 0, findings[0].place);
  CHECK(findings[0].hint == row.cure);
  CHECK(findings[0].count == count);
  options.strict = true;
  options.findings = nullptr;
  const Error refused = ErrorOf(model, options);
  CHECK(refused.code() == row.code);
  CHECK_MESSAGE(Says(refused, std::string(row.cure)), refused.what());
  return g;
}

/// Valid ONNX: nothing is said, and a strict import takes it too.
Graph Plain(const pb::ModelProto& model) {
  std::vector<Finding> findings;
  ImportOptions options;
  options.findings = &findings;
  options.strict = true;
  Graph g = ImportOnnxBytes(BytesOf(model), options);
  VerifyGraph(g);
  CHECK(findings.empty());
  return g;
}

pb::ModelProto Chain(int opset = 21) { return GraphOf(kChain, opset); }

pb::TensorShapeProto_Dimension* Dim(pb::ValueInfoProto* v, int k = 0) {
  return v->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(k);
}

/// A value_info of the main graph.
pb::ValueInfoProto* Declare(pb::ModelProto* model, const char* name, const std::vector<int>& dims,
                            int dtype = pb::TensorProto::FLOAT) {
  auto* v = model->mutable_graph()->add_value_info();
  v->set_name(name);
  v->mutable_type()->mutable_tensor_type()->set_elem_type(dtype);
  auto* shape = v->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const int d : dims) shape->add_dim()->set_dim_value(d);
  return v;
}

TEST_CASE("every row of the table says what a report needs") {
  std::vector<std::string_view> names;
  for (int i = 0; i <= int(Oddity::kExternalKey); ++i) {
    const OddityRow& row = RowOf(Oddity(i));
    CHECK(!row.taken.empty());
    CHECK(!row.cure.empty());
    names.push_back(row.name);
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("nodes out of order") {
  auto model = Chain();
  model.mutable_graph()->mutable_node()->SwapElements(0, 2);
  CHECK(Run(Tolerated(model, Oddity::kNodeOrder, "main/node[0] (Relu)", 2)) == kY);
  // Places are those of the file.
  model.mutable_graph()->mutable_node(0)->add_attribute()->set_name("slope");
  model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_f(1);
  CHECK(Says(ErrorOf(model), "main/node[0] (Relu): Relu of version 21 has no attribute 'slope'"));
}

TEST_CASE("nodes out of order in a branch, and a branch that reads what comes later") {
  auto model = GraphOf(R"(g (float[3] x) => (float[3] y) <bool yes = {1}> {
      a = Neg(x)
      y = If(yes) <then_branch = t () => (float[3] p) { q = Mul(a, a)  p = Sub(q, x) },
                   else_branch = e () => (float[3] r) { r = Neg(x) }> })");
  const std::vector<double> want = {0, 6, 6};  // x^2 - x
  CHECK(Run(Plain(model)) == want);
  auto* nodes = model.mutable_graph()->mutable_node();
  auto inner = model;
  inner.mutable_graph()
      ->mutable_node(1)
      ->mutable_attribute(0)
      ->mutable_g()
      ->mutable_node()
      ->SwapElements(0, 1);
  CHECK(Run(Tolerated(inner, Oddity::kNodeOrder, "main/node[1] (If).then_branch/node[0]")) == want);
  nodes->SwapElements(0, 1);
  CHECK(Run(Tolerated(model, Oddity::kNodeOrder, "main/node[0] (If)")) == want);
  // A branch cannot wait for the node that holds it.
  nodes->Mutable(0)->mutable_attribute(0)->mutable_g()->mutable_node(0)->set_input(0, "y");
  const Error cycle = ErrorOf(model);
  CHECK(cycle.code() == ErrorCode::kCycle);
  CHECK(Says(cycle, "main/node[0] (If) -> main/node[0] (If)"));
}

TEST_CASE("nodes out of order in a function") {
  const auto of = [](const char* body) {
    return ModelOf(std::string(R"(<ir_version: 9, opset_import: ["" : 20, "d" : 1]>
      g (float[3] x) => (float[3] y) { y = d.F(x) }
      <domain: "d", opset_import: ["" : 20]> F (a) => (b) {)") +
                   body + "}");
  };
  CHECK(Run(Tolerated(of("b = Neg(t)  t = Abs(a)"), Oddity::kNodeOrder,
                      "function 'd::F'/node[0]")) == std::vector<double>{-1, -2, -3});
  CHECK(ErrorOf(of("b = Neg(t)  t = Abs(b)")).code() == ErrorCode::kCycle);
}

TEST_CASE("a long list back to front is sorted in linear time") {
  auto model = GraphOf("g (float[3] x) => (float[3] y) { y = Neg(x) }");
  auto* graph = model.mutable_graph();
  graph->clear_node();
  constexpr int kNodes = 100'000;
  for (int i = kNodes - 1; i >= 0; --i) {
    auto* n = graph->add_node();
    n->set_op_type("Neg");
    n->add_input(i == 0 ? "x" : "t" + std::to_string(i - 1));
    n->add_output(i + 1 == kNodes ? "y" : "t" + std::to_string(i));
  }
  CHECK(ImportOnnxBytes(BytesOf(model)).num_nodes() == kNodes + 1);
}

TEST_CASE("a size of -1") {
  auto model = Chain();
  Dim(model.mutable_graph()->mutable_input(0))->set_dim_value(-1);
  Dim(model.mutable_graph()->mutable_output(0))->set_dim_value(-1);
  const Graph g = Tolerated(model, Oddity::kMinusOneDim, "main/input 'x'", 2);
  CHECK(g.inputs()[0]->attr<Shape>("shape").ToString() == "[x_d0]");
  CHECK(Run(g) == kY);
  Dim(model.mutable_graph()->mutable_output(0))->set_dim_value(-2);
  CHECK(ErrorOf(model).code() == ErrorCode::kInvalidModel);
  model = Chain();
  Dim(Declare(&model, "b", {3}))->set_dim_value(-1);
  CHECK(Run(Tolerated(model, Oddity::kMinusOneDim, "main/value_info 'b'")) == kY);
  Dim(model.mutable_graph()->mutable_value_info(0))->set_dim_value(INT64_MIN);
  CHECK(ErrorOf(model).code() == ErrorCode::kInvalidModel);
}

TEST_CASE("names of dims that say nothing are no names, others are kept apart") {
  auto model = GraphOf("g (float[A] a, float[B] b, float[C, D] c) => (float[A] y) { y = Relu(a) }");
  const auto name = [&](int input, int k, const char* text) {
    Dim(model.mutable_graph()->mutable_input(input), k)->set_dim_param(text);
  };
  name(0, 0, "?");
  name(1, 0, "?");
  name(2, 0, "-1");
  name(2, 1, "unk__12");
  const Graph g = Plain(model);
  CHECK(g.inputs()[0]->attr<Shape>("shape").ToString() == "[a_d0]");
  CHECK(g.inputs()[1]->attr<Shape>("shape").ToString() == "[b_d0]");
  CHECK(g.inputs()[2]->attr<Shape>("shape").ToString() == "[c_d0, unk__12]");
  name(0, 0, "N/2");
  name(1, 0, "N/2");
  name(2, 0, "N*2");
  name(2, 1, "\xe6\x89\xb9");
  const Graph h = Plain(model);
  const auto dim = [&](int input, int k) {
    return h.inputs()[size_t(input)]->attr<Shape>("shape")[k];
  };
  CHECK(dim(0, 0) == dim(1, 0));
  CHECK(dim(0, 0) != dim(2, 0));
  CHECK(dim(2, 0) != dim(2, 1));
}

TEST_CASE("no IR version") {
  auto model = Chain();
  model.clear_ir_version();
  CHECK(Run(Tolerated(model, Oddity::kMissingIr, "")) == kY);
  model.clear_graph();
  CHECK(ErrorOf(BytesOf(model)).code() == ErrorCode::kInvalidModel);
}

TEST_CASE("no import of an operator set") {
  // Softmax of all axes behind 1 became one of the last in version 13, and IR version 6 is of 11.
  auto model = GraphOf("g (float[1, 2, 2] x) => (float[1, 2, 2] y) { y = Softmax(x) }");
  model.clear_opset_import();
  for (const auto& [ir, sum] : {std::pair{6, 1.0}, std::pair{8, 2.0}}) {
    model.set_ir_version(ir);
    const Graph g = Tolerated(model, Oddity::kMissingOpset, "main/node[0] (Softmax)");
    const TensorPtr y =
        GetEvaluator()->Eval(g, {Tensor::FromDoubles(DType::kF32, {1, 2, 2}, {1, 2, 3, 4})}, {})[0];
    CHECK(y->at(0) + y->at(1) + y->at(2) + y->at(3) == doctest::Approx(sum));
  }
  model =
      GraphOf("g (float[3] x) => (float[3] y) { y = ai.onnx.ml.Binarizer<threshold = 0.5>(x) }");
  CHECK(Run(Tolerated(model, Oddity::kMissingOpset, "main/node[0]")) ==
        std::vector<double>{1, 0, 1});
  model.mutable_graph()->mutable_node(0)->set_domain("ai.onnx.nl");
  CHECK(Says(ErrorOf(model), "the operator set of domain 'ai.onnx.nl' is not imported"));
  model = Chain();
  model.clear_opset_import();
  model.mutable_graph()->mutable_node(0)->set_op_type("Negg");
  CHECK(ErrorOf(model).code() == ErrorCode::kUnknownOp);
}

TEST_CASE("a function that leaves its operator set to the model") {
  auto model = ModelOf(R"(<ir_version: 9, opset_import: ["" : 20, "d" : 1]>
      g (float[3] x) => (float[3] y) { y = d.F(x) }
      <domain: "d", opset_import: ["" : 20]> F (a) => (b) { b = Neg(a) })");
  Plain(model);
  model.mutable_functions(0)->clear_opset_import();
  CHECK(Run(Tolerated(model, Oddity::kMissingOpset, "function 'd::F'/node[0] (Neg)")) ==
        std::vector<double>{-1, 2, -3});
}

TEST_CASE("an operator set newer than known, whose operators are as they were") {
  auto model = Chain(NewestOpset() + 1);
  CHECK(Run(Tolerated(model, Oddity::kNewerOpset, "opset_import")) == kY);
  auto changed = model;
  auto* n = changed.mutable_graph()->mutable_node(2);
  n->add_input("x");
  CHECK(ErrorOf(changed).code() == ErrorCode::kArity);
  n->mutable_input()->RemoveLast();
  n->add_attribute()->set_name("negative_slope");
  n->mutable_attribute(0)->set_f(0.5);
  CHECK(ErrorOf(changed).code() == ErrorCode::kBadAttribute);
  n->clear_attribute();
  n->set_op_type("Relu7");
  CHECK(ErrorOf(changed).code() == ErrorCode::kUnknownOp);
  CHECK(ErrorOf(Chain(NewestOpset() + 11)).code() == ErrorCode::kUnsupported);
  auto* import = model.add_opset_import();
  import->set_domain("ai.onnx.ml");
  import->set_version(INT64_MAX);
  CHECK(ErrorOf(model).code() == ErrorCode::kUnsupported);
}

TEST_CASE("an operator of a set that is newer than the one imported") {
  auto model = GraphOf("g (float[3] x) => (float[3] y) { y = Mish(x) }", 17);  // of 18
  Tolerated(model, Oddity::kNewerOperator, "main/node[0] (Mish)");
  Plain(GraphOf("g (float[3] x) => (float[3] y) { y = Mish(x) }", 18));
  // It is what that set says: GroupNormalization of 18 has a scale for each group.
  const Graph g = Tolerated(
      GraphOf(R"(g (float[1, 2, 1] x) => (float[1, 2, 1] y) <float[1] s = {2}, float[1] b = {3}> {
          y = GroupNormalization<num_groups = 1>(x, s, b) })",
              17),
      Oddity::kNewerOperator, "main/node[0] (GroupNormalization)");
  const TensorPtr y =
      GetEvaluator()->Eval(g, {Tensor::FromDoubles(DType::kF32, {1, 2, 1}, {-1, 1})}, {})[0];
  CHECK(y->at(0) == doctest::Approx(1).epsilon(1e-4));
  CHECK(y->at(1) == doctest::Approx(5).epsilon(1e-4));
  model.mutable_graph()->mutable_node(0)->add_attribute()->set_name("alpha");
  model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_f(1);
  CHECK(ErrorOf(model).code() == ErrorCode::kBadAttribute);
  model.mutable_graph()->mutable_node(0)->clear_attribute();
  model.mutable_graph()->mutable_node(0)->add_input("x");
  CHECK(ErrorOf(model).code() == ErrorCode::kArity);
  model.mutable_graph()->mutable_node(0)->set_op_type("Misch");
  CHECK(ErrorOf(model).code() == ErrorCode::kUnknownOp);
}

TEST_CASE("an operator set imported twice") {
  auto model = Chain();
  *model.add_opset_import() = model.opset_import(0);
  CHECK(Run(Plain(model)) == kY);
  // The standard lets the newest win, wherever it stands: axes of 13 are an input.
  model = GraphOf(
      "g (float[3] x) => (float[3] y) <int64[1] k = {0}> { t = Unsqueeze(x, k) "
      "y = Squeeze(t, k) }",
      11);
  auto* import = model.add_opset_import();
  import->set_version(13);
  CHECK(Run(Tolerated(model, Oddity::kTwoOpsets, "opset_import")) == kX);
  import->set_version(-13);
  CHECK(ErrorOf(model).code() == ErrorCode::kInvalidModel);
}

TEST_CASE("declared dtypes: those in between are ignored, those of inputs and outputs hold") {
  auto model = Chain();
  Declare(&model, "b", {3}, pb::TensorProto::INT64);
  CHECK(Run(Tolerated(model, Oddity::kDeclaredType, "main/value_info 'b'")) == kY);
  model.mutable_graph()
      ->mutable_value_info(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->set_elem_type(777);
  CHECK(ErrorOf(model).code() == ErrorCode::kUnsupported);
  model = Chain();
  model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      pb::TensorProto::DOUBLE);
  const Error output = ErrorOf(model);
  CHECK(output.code() == ErrorCode::kTypeMismatch);
  CHECK(Says(output, "main/output 'y': declared as f64, it is f32"));
  model = Chain();
  auto* w = model.mutable_graph()->add_input();
  *w = model.graph().input(0);
  w->set_name("w");
  Plain(model);
  w->mutable_type()->mutable_tensor_type()->set_elem_type(pb::TensorProto::INT32);
  CHECK(Says(ErrorOf(model), "main/input 'w': declared as i32, it is f32"));
}

TEST_CASE("declared shapes that cannot be") {
  auto model = Chain();
  Declare(&model, "b", {4});
  CHECK(Run(Tolerated(model, Oddity::kDeclaredShape, "main/value_info 'b'")) == kY);
  model = Chain();
  Declare(&model, "b", {3, 1});
  CHECK(Run(Tolerated(model, Oddity::kDeclaredShape, "main/value_info 'b'")) == kY);
  model = Chain();
  Dim(model.mutable_graph()->mutable_output(0))->set_dim_value(4);
  CHECK(Run(Tolerated(model, Oddity::kDeclaredShape, "main/output 'y'")) == kY);
  model = Chain();
  auto* w = model.mutable_graph()->add_input();
  *w = model.graph().input(0);
  w->set_name("w");
  Dim(w)->set_dim_value(1);
  CHECK(Run(Tolerated(model, Oddity::kDeclaredShape, "main/input 'w'")) == kY);
  // Another name, a name for a number, a number for a name: nothing that cannot be.
  model = GraphOf("g (float[N] x) => (float[M] y) { a = Neg(x)  b = Abs(x)  y = Relu(a) }");
  Declare(&model, "a", {3});
  Dim(Declare(&model, "b", {3}))->set_dim_param("K");
  CHECK(Run(Plain(model)) == std::vector<double>{0, 2, 0});
}

TEST_CASE("value infos") {
  auto model = Chain();
  Declare(&model, "nobody", {7});
  model.mutable_graph()->add_value_info()->set_name("a");
  Declare(&model, "x", {3});
  Plain(model);
  Declare(&model, "b", {3});
  Declare(&model, "b", {3});
  CHECK(Run(Tolerated(model, Oddity::kTwoValueInfos, "main/value_info 'b'")) == kY);
  Dim(model.mutable_graph()->mutable_value_info(4))->set_dim_value(-3);
  CHECK(ErrorOf(model).code() == ErrorCode::kInvalidModel);
}

TEST_CASE("initializers") {
  auto model = Chain();
  auto* spare = model.mutable_graph()->add_initializer();
  *spare = model.graph().initializer(0);
  CHECK(Run(Tolerated(model, Oddity::kTwoInitializers, "main/initializer 'w'")) == kY);
  auto other = model;
  other.mutable_graph()->mutable_initializer(1)->set_float_data(0, 9);
  CHECK(ErrorOf(other).code() == ErrorCode::kInvalidModel);
  other = model;
  other.mutable_graph()->mutable_initializer(1)->add_dims(1);
  CHECK(ErrorOf(other).code() == ErrorCode::kInvalidModel);
  spare->set_name("nobody");
  CHECK(Run(Plain(model)) == kY);
  spare->add_float_data(4);
  CHECK(ErrorOf(model).code() == ErrorCode::kInvalidModel);
}

TEST_CASE("two initializers of one name in other fields of the message") {
  auto model = Chain();
  auto* spare = model.mutable_graph()->add_initializer();
  spare->set_name("w");
  spare->set_data_type(pb::TensorProto::FLOAT);
  spare->add_dims(3);
  const float values[] = {1, 2, 3};
  spare->set_raw_data(values, sizeof values);
  CHECK(Run(Tolerated(model, Oddity::kTwoInitializers, "main/initializer 'w'")) == kY);
  (*spare->mutable_raw_data())[0] = 1;  // 1 and a bit
  CHECK(ErrorOf(model).code() == ErrorCode::kInvalidModel);
  spare->mutable_raw_data()->resize(8);
  CHECK(Says(ErrorOf(model), "the payload has 8"));
}

TEST_CASE("an input that does not say its element type") {
  auto model = Chain();
  auto* type = model.mutable_graph()->mutable_input(0)->mutable_type();
  type->mutable_tensor_type()->clear_elem_type();
  CHECK(Run(Tolerated(model, Oddity::kUntypedInput, "main/input 'x'")) == kY);
  type->Clear();
  CHECK(Run(Tolerated(model, Oddity::kUntypedInput, "main/input 'x'")) == kY);
  type->mutable_tensor_type()->set_elem_type(99);
  CHECK(ErrorOf(model).code() == ErrorCode::kUnsupported);
  // Those of bodies get what the node gives them, and initializers say it themselves.
  model = GraphOf(R"(g (float[3] x) => (float[3] y) <int64 n = {2}, bool go = {1}> {
      y = Loop(n, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
          d = Identity(c)  w = Neg(v) }> })");
  model.mutable_graph()
      ->mutable_node(0)
      ->mutable_attribute(0)
      ->mutable_g()
      ->mutable_input(2)
      ->clear_type();
  model.mutable_graph()->add_input()->set_name("n");
  CHECK(Run(Plain(model)) == kX);
}

TEST_CASE("an attribute that does not say its type") {
  auto model = GraphOf("g (float[3] x) => (float[3] y) { y = LeakyRelu<alpha = 0.5>(x) }");
  auto* alpha = model.mutable_graph()->mutable_node(0)->mutable_attribute(0);
  Plain(model);
  alpha->clear_type();
  CHECK(Run(Tolerated(model, Oddity::kUntypedAttribute, "main/node[0] (LeakyRelu)")) ==
        std::vector<double>{1, -1, 3});
  auto two = model;
  two.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_i(1);
  CHECK(ErrorOf(two).code() == ErrorCode::kBadAttribute);
  alpha->set_type(pb::AttributeProto::INT);
  CHECK(Says(ErrorOf(model), "has type int and a value of type float"));
  alpha->clear_type();
  alpha->clear_f();
  CHECK(Says(ErrorOf(model), "has no type and no value"));
  alpha->add_ints(1);
  CHECK(Says(ErrorOf(model), "is of type ints, float is expected"));
  // Of one that is a type: sequences of it are made.
  model = GraphOf("g (float[3] x) => (float[3] y) { o = Identity(x)  y = OptionalGetElement(o) }");
  auto* n = model.mutable_graph()->mutable_node(0);
  n->set_op_type("Optional");
  auto* type = n->add_attribute();
  type->set_name("type");
  type->mutable_tp()->mutable_tensor_type()->set_elem_type(pb::TensorProto::FLOAT);
  CHECK(Run(Tolerated(model, Oddity::kUntypedAttribute, "main/node[0] (Optional)")) == kX);
}

TEST_CASE("a result that must be there and has no name") {
  auto model = GraphOf(R"(g (float[3] x) => (float[3] y) <int64[1] k = {2}> {
      y = Relu(x)  v, i = TopK(x, k) })");
  model.mutable_graph()->mutable_node(1)->set_output(0, "");
  CHECK(Run(Tolerated(model, Oddity::kUnnamedResult, "main/node[1] (TopK)")) ==
        std::vector<double>{1, 0, 3});
  model.mutable_graph()->mutable_node(1)->set_output(1, "");
  Tolerated(model, Oddity::kUnnamedResult, "main/node[1] (TopK)", 2);
  model.mutable_graph()->mutable_node(1)->clear_output();
  CHECK(ErrorOf(model).code() == ErrorCode::kArity);
  // Of a result that may be left out there is nothing to say.
  model = GraphOf(
      "g (float[1, 1, 3] x) => (float[1, 1, 3] y) { "
      "y, i = MaxPool<kernel_shape = [1]>(x) }");
  model.mutable_graph()->mutable_node(0)->set_output(1, "");
  Plain(model);
}

TEST_CASE("external data with keys of other tools") {
  const e2e::TempFolder folder;
  const float values[] = {1, 2, 3};
  WriteFileAtomic(folder / "w.bin", std::string(reinterpret_cast<const char*>(values), 12));
  auto model = Chain();
  auto* w = model.mutable_graph()->mutable_initializer(0);
  w->clear_float_data();
  w->set_data_location(pb::TensorProto::EXTERNAL);
  const auto entry = [&](const char* key, const char* value) {
    auto* e = w->add_external_data();
    e->set_key(key);
    e->set_value(value);
  };
  std::vector<Finding> findings;
  ImportOptions options;
  options.external_data_dir = folder.path();
  options.findings = &findings;
  entry("location", "w.bin");
  entry("checksum", "00");
  CHECK(Run(ImportOnnxBytes(BytesOf(model), options)) == kY);
  CHECK(findings.empty());
  entry("prefetch", "yes");
  CHECK(Run(ImportOnnxBytes(BytesOf(model), options)) == kY);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].oddity == "external-key");
  CHECK(findings[0].place == "main/initializer 'w'");
  CHECK(Says(ErrorOf(model,
                     [&] {
                       ImportOptions strict = options;
                       strict.strict = true;
                       return strict;
                     }()),
             "'prefetch'"));
  entry("location", "w.bin");
  findings.clear();
  CHECK(Run(ImportOnnxBytes(BytesOf(model), options)) == kY);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].count == 2);
  entry("location", "v.bin");
  CHECK(Says(ErrorOf(model, options), "two values of 'location'"));
}

TEST_CASE("outputs of one name are one value") {
  auto model = Chain();
  *model.mutable_graph()->add_output() = model.graph().output(0);
  const Graph g = Plain(model);
  REQUIRE(g.outputs.size() == 2);
  CHECK(g.OutputName(1) == "y");
  CHECK(Run(g) == kY);
}

TEST_CASE("names of nodes") {
  auto model = Chain();
  for (auto& n : *model.mutable_graph()->mutable_node()) n.set_name("n");
  CHECK(Run(Tolerated(model, Oddity::kTwoNodeNames, "main/node[1] 'n'", 2)) == kY);
  for (auto& n : *model.mutable_graph()->mutable_node()) n.clear_name();
  Plain(model);
  model.mutable_graph()->mutable_node(1)->set_name("y");  // of a value: another name space
  Plain(model);
}

TEST_CASE("a name inside that hides one outside") {
  auto model = GraphOf(R"(g (float[3] x) => (float[3] y) <bool yes = {1}> {
      a = Neg(x)
      y = If(yes) <then_branch = t () => (float[3] p) { a = Abs(x)  p = Add(a, a) },
                   else_branch = e () => (float[3] y) { y = Neg(x) }> })");
  CHECK(Run(Tolerated(model, Oddity::kHiddenName, "main/node[1] (If).then_branch/node[0] (Abs)")) ==
        std::vector<double>{2, 4, 6});
  // Read before it is computed, it is the inner one as well: a cycle here.
  auto* then = model.mutable_graph()->mutable_node(1)->mutable_attribute(0)->mutable_g();
  then->mutable_node(0)->set_input(0, "p");
  CHECK(ErrorOf(model).code() == ErrorCode::kCycle);
}

TEST_CASE("two kinds are two warnings, and without a listener they are no error") {
  auto model = Chain();
  model.mutable_graph()->mutable_node()->SwapElements(0, 1);
  model.clear_ir_version();
  std::vector<Finding> findings;
  ImportOptions options;
  options.findings = &findings;
  ImportOnnxBytes(BytesOf(model), options);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].oddity == "node-order");
  CHECK(findings[1].oddity == "missing-ir");
  CHECK(Run(ImportOnnxBytes(BytesOf(model))) == kY);
}

TEST_CASE("hints name what a user may have meant, and nothing else") {
  const auto hint = [](const std::string& node, int opset = 21) {
    return ErrorOf(
               GraphOf("g (float[3] x) => (float[3] y) { t1 = Neg(x)  y = " + node + " }", opset))
        .hint();
  };
  CHECK(hint("Reluu(t1)") == "did you mean 'Relu'?");
  CHECK(hint("Qx(t1)").empty());
  CHECK(hint("Relu(t7)").empty());  // t1 is another value
  CHECK(hint("Relu(tt1)") == "did you mean 't1'?");
  // The name is right: the build lacks it, and that is no misspelling.
  auto model = ModelOf(R"(<ir_version: 8, opset_import: ["" : 21, "ai.onnx.ml" : 3]>
      g (float[3] x) => (float[3] y) { y = ai.onnx.ml.Binarizr(x) })");
  CHECK(ErrorOf(model).hint() == "did you mean 'Binarizer'?");
  model.mutable_graph()->mutable_node(0)->set_op_type("Relu");
  CHECK(ErrorOf(model).hint().empty());  // of another domain
}

}  // namespace
}  // namespace weft::onnx_import
