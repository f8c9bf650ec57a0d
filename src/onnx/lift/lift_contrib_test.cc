// com.microsoft: every row of tests/onnxruntime/contrib_ops.txt, which contrib_ops.py there records
// from ONNX Runtime; the form after lifting; and what is refused.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "lift.h"
#include "onnx/proto/onnx_test_util.h"
#include "weft/core/op/op.h"

namespace weft::onnx_import {
namespace {

std::vector<std::string> Parts(const std::string& text, const std::string& between) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(between, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + between.size();
  }
}
DType NumpyType(const std::string& name) {
  if (name == "bool") return DType::kBool;
  if (name[0] == 'f') return *ParseDType("f" + name.substr(5));
  return *ParseDType(name.substr(0, 1) + name.substr(name.find_first_of("0123456789")));
}
/// "float32[2, 3]"
std::shared_ptr<Tensor> TensorOf(const std::string& type) {
  const size_t at = type.find('[');
  std::vector<int64_t> dims;
  std::istringstream list(type.substr(at + 1, type.find(']') - at - 1));
  for (int64_t d; list >> d; list.ignore(2)) dims.push_back(d);
  return std::make_shared<Tensor>(NumpyType(type.substr(0, at)), dims);
}
std::vector<double> NumbersOf(const std::string& text) {
  std::vector<double> v;
  if (text.empty()) return v;
  for (const std::string& n : Parts(text, ",")) v.push_back(std::strtod(n.c_str(), nullptr));
  return v;
}
/// "TYPE = numbers", or "TYPE ~ seed scale offset": `drawn` of contrib_ops.py makes the same.
TensorPtr OperandOf(const std::string& text) {
  const std::shared_ptr<Tensor> t = TensorOf(text);
  const bool whole = !IsFloat(t->dtype());
  const auto put = [&](int64_t i, double v) {
    if (whole)
      t->set_int(i, int64_t(v));
    else
      t->set(i, v);
  };
  const size_t drawn = text.find(" ~ ");
  if (drawn == std::string::npos) {
    const std::vector<double> v = NumbersOf(text.substr(text.find(" = ") + 3));
    for (int64_t i = 0; i < t->num_elements(); ++i) put(i, v.at(size_t(i)));
    return t;
  }
  std::istringstream in(text.substr(drawn + 3));
  int64_t seed = 0;
  double scale = 0, offset = 0;
  in >> seed >> scale >> offset;
  for (int64_t i = 0; i < t->num_elements(); ++i)
    put(i, double((i * i * 17 + i * (29 + seed) + seed * 7) % 61 - 30) * scale + offset);
  return t;
}

void SetAttribute(pb::NodeProto* node, const std::string& text) {
  const std::vector<std::string> word = Parts(text, " ");
  pb::AttributeProto* a = node->add_attribute();
  a->set_name(word.at(0));
  const std::string &kind = word.at(1), &value = word.at(2);
  if (kind == "i") {
    a->set_type(pb::AttributeProto::INT);
    a->set_i(std::strtoll(value.c_str(), nullptr, 10));
  } else if (kind == "f") {
    a->set_type(pb::AttributeProto::FLOAT);
    a->set_f(std::strtof(value.c_str(), nullptr));
  } else if (kind == "s") {
    a->set_type(pb::AttributeProto::STRING);
    a->set_s(value);
  } else if (kind == "is") {
    a->set_type(pb::AttributeProto::INTS);
    for (const double v : NumbersOf(value)) a->add_ints(int64_t(v));
  } else {
    REQUIRE(kind == "fs");
    a->set_type(pb::AttributeProto::FLOATS);
    for (const double v : NumbersOf(value)) a->add_floats(float(v));
  }
}

struct Row {
  pb::ModelProto model;
  std::vector<TensorPtr> feeds;
  double tolerance = 0, steps = 0;
  std::vector<std::string> results;
};
/// `behind`: every operand comes out of a node, so that only inference tells its rank.
Row RowOf(const std::string& line, bool behind) {
  const std::vector<std::string> part = Parts(line, " | ");
  REQUIRE(part.size() == 4);
  const std::vector<std::string> head = Parts(part[0], " ");
  Row row;
  pb::ModelProto& m = row.model;
  m.set_ir_version(10);
  auto* standard = m.add_opset_import();
  standard->set_version(std::atoi(head.at(2).c_str()));
  auto* contrib = m.add_opset_import();
  contrib->set_domain("com.microsoft");
  contrib->set_version(1);
  pb::GraphProto* g = m.mutable_graph();
  g->set_name("g");
  pb::NodeProto node;
  node.set_op_type(head[1]);
  node.set_domain(head[0] == "ai.onnx" ? "" : head[0]);
  node.set_name("it");
  int k = 0;
  for (std::string operand : Parts(part[1], "; ")) {
    std::string name = "x" + std::to_string(k++);
    if (operand == "_") {
      node.add_input("");
      continue;
    }
    const bool constant = operand.rfind("const ", 0) == 0;
    if (constant) operand.erase(0, 6);
    const TensorPtr t = OperandOf(operand);
    if (constant) {
      pb::TensorProto* p = g->add_initializer();
      p->set_name(name);
      p->set_data_type(TraitsOf(t->dtype()).onnx);
      for (const int64_t d : t->dims()) p->add_dims(d);
      p->set_raw_data(t->data(), size_t(t->num_bytes()));
    } else {
      row.feeds.push_back(t);
      pb::ValueInfoProto* v = g->add_input();
      v->set_name(name);
      auto* type = v->mutable_type()->mutable_tensor_type();
      type->set_elem_type(TraitsOf(t->dtype()).onnx);
      type->mutable_shape();
      for (const int64_t d : t->dims()) type->mutable_shape()->add_dim()->set_dim_value(d);
      if (behind) {
        pb::NodeProto* copy = g->add_node();
        copy->set_op_type("Identity");
        copy->add_input(name);
        copy->add_output(name += "_");
      }
    }
    node.add_input(name);
  }
  if (!part[2].empty())
    for (const std::string& a : Parts(part[2], "; ")) SetAttribute(&node, a);
  const int outputs = std::atoi(head.at(3).c_str());
  for (int i = 0; i < outputs; ++i) {
    const std::string name = "y" + std::to_string(i);
    node.add_output(("," + head.at(4) + ",").find("," + name + ",") == std::string::npos ? name
                                                                                         : "");
  }
  *g->add_node() = node;
  row.tolerance = std::atof(head.at(5).c_str());
  row.steps = std::atof(head.at(6).c_str());
  row.results = Parts(part[3], "; ");
  for (const std::string& r : row.results) g->add_output()->set_name(Parts(r, " ").at(0));
  return row;
}

std::vector<std::string> Lines() {
  std::ifstream in("tests/onnxruntime/contrib_ops.txt");
  REQUIRE(in.good());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (line[0] != '#') lines.push_back(line);
  return lines;
}

void CheckResult(const Tensor& y, const std::string& text, const Row& row) {
  const size_t type_end = text.find(']') + 1, name_end = text.find(' ');
  const std::shared_ptr<Tensor> like = TensorOf(text.substr(name_end + 1, type_end - name_end));
  CHECK(y.dtype() == like->dtype());
  REQUIRE(y.dims() == like->dims());
  std::istringstream in(text.substr(type_end));
  int64_t step = 1;
  std::string list;
  in >> step >> list;
  const std::vector<double> want = NumbersOf(list);
  double most = 1e-3;
  for (const double w : want)
    if (std::isfinite(w)) most = std::max(most, std::fabs(w));
  const double allowed = IsFloat(y.dtype()) ? 2 * row.tolerance * most : row.steps;
  for (size_t i = 0; i < want.size(); ++i) {
    const double got = y.at(int64_t(i) * step);
    const bool equal = std::isfinite(want[i]) ? std::fabs(got - want[i]) <= allowed
                                              : std::isnan(want[i]) == std::isnan(got);
    CHECK_MESSAGE(equal, "element ", int64_t(i) * step, " is ", got, " instead of ", want[i]);
  }
}

TEST_CASE("com.microsoft: what ONNX Runtime gives, alone and behind other nodes") {
  if (!GetEvaluator()) return;
  const std::vector<std::string> lines = Lines();
  CHECK(lines.size() > 250);
  for (const bool behind : {false, true}) {
    for (const std::string& line : lines) {
      // Of another part of the tree; import says so until it is there.
      if (line.find("QLinearConv") != std::string::npos && !Op::Find("QLinearConv")) continue;
      CAPTURE(line);
      const Row row = RowOf(line, behind);
      const Graph g = ImportOnnxBytes(BytesOf(row.model));
      const std::vector<TensorPtr> y = GetEvaluator()->Eval(g, row.feeds);
      REQUIRE(y.size() == row.results.size());
      for (size_t i = 0; i < y.size(); ++i) CheckResult(*y[i], row.results[i], row);
    }
  }
}

/// The operators that one node of com.microsoft becomes, without constants.
std::vector<std::string> Forms(const std::string& inputs, const std::string& node) {
  const Graph g = ImportOnnxBytes(
      BytesOf(ModelOf("<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]> g (" +
                      inputs + ") => (y) { y = com.microsoft." + node + " }")));
  std::vector<std::string> ops;
  for (const std::string& op : OpsOf(g))
    if (op != "Constant") ops.push_back(op);
  return ops;
}
using Names = std::vector<std::string>;

TEST_CASE("com.microsoft: the form that fusion joins again") {
  const std::string x = "float[2, 3, 4] x, float[4] b, float[4, 5] w";
  CHECK(Forms(x, "BiasGelu(x, b)") == Names{"Add", "Gelu"});
  CHECK(Forms(x, "FastGelu(x)") == Names{"Gelu"});
  CHECK(Forms(x, "QuickGelu(x)") == Names{"Swish"});
  CHECK(Forms(x, "SkipLayerNormalization(x, x, b, b)") == Names{"Add", "LayerNormalization"});
  CHECK(Forms(x, "SkipSimplifiedLayerNormalization(x, x, b)") == Names{"Add", "RMSNormalization"});
  CHECK(Forms(x, "FusedMatMul(x, w)") == Names{"MatMul"});
  CHECK(Forms("float[4, 2] x, float[4, 5] w", "FusedMatMul<transA = 1, alpha = 2.0>(x, w)") ==
        Names{"Transpose", "MatMul", "Mul"});
  CHECK(Forms("float[1, 2, 5, 5] x, float[3, 2, 3, 3] w",
              "FusedConv<activation = \"Relu\">(x, w)") == Names{"Conv", "Relu"});
  CHECK(Forms("uint8[n] a, float s, uint8 z", "QLinearAdd(a, s, z, a, s, z, s, z)") ==
        Names{"DequantizeLinear", "DequantizeLinear", "Add", "QuantizeLinear"});
}

TEST_CASE("MatMulNBits: what fills the last block of a column is not part of the weight") {
  // 3 columns of 20 numbers of 4 bits, in blocks of 16.
  std::string bytes;
  for (int i = 0; i < 48; ++i) bytes += fmt::format("{}{}", i == 0 ? "" : ", ", (i * 37) % 256);
  const Graph g = ImportOnnxBytes(BytesOf(
      ModelOf("<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]> g (float[2, 20] "
              "x) => (y) "
              "<uint8[3, 2, 8] w = {" +
              bytes +
              "}, float[6] s = {1, 2, 3, 4, 5, 6}> "
              "{ y = com.microsoft.MatMulNBits<K = 20, N = 3, block_size = 16>(x, w, s) }")));
  std::vector<std::string> ops;
  for (const NodePtr n : g.TopoOrder()) {
    if (!n->op() || n->op()->name == "Constant") continue;
    ops.push_back(n->op()->name);
    if (n->op()->name != "DequantizeLinear") continue;
    const TensorPtr w = Graph::ConstantOf(n->inputs[0]);
    REQUIRE(w);
    CHECK(w->dtype() == DType::kU4);
    CHECK(w->dims() == std::vector<int64_t>{3, 20});
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 20; ++k) {
        const int byte = int((j * 16 + k / 2) * 37 % 256);
        CHECK(w->at_int(j * 20 + k) == (byte >> (k % 2 * 4) & 15));
      }
  }
  CHECK(ops == Names{"Reshape", "DequantizeLinear", "Transpose", "MatMul"});
}

TEST_CASE("Attention: heads of keys are not repeated for the queries that share them") {
  const Graph g = ImportText(
      "g (float[b, 8, s, 16] q, float[b, 2, t, 16] k, float[b, 2, t, 16] v) => (y) "
      "{ y = Attention(q, k, v) }",
      24);
  for (const NodePtr n : g.TopoOrder()) CHECK((!n->op() || n->op()->name != "Expand"));
}

TEST_CASE("com.microsoft: what is not taken is named with what is") {
  const auto said = [](const std::string& inputs, const std::string& node) {
    return ErrorOf(
        ModelOf("<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]> g (" + inputs +
                ") => (y) { y = com.microsoft." + node + " }"));
  };
  const std::string x = "float[2, 3, 4] x, float[4, 12] w";
  const Error rotary = said(x, "Attention<num_heads = 2, do_rotary = 1>(x, w)");
  CHECK(rotary.code() == ErrorCode::kUnsupported);
  CHECK(Says(rotary, "do_rotary = 1 is not supported, only 0"));
  CHECK(Says(said(x, "Attention(x, w)"), "num_heads"));
  CHECK(Says(said(x, "Attention<num_heads = 2, colour = 1>(x, w)"), "attribute 'colour'"));
  CHECK(Says(said(x, "Gelu(x, w)"), "takes 1 to 1 inputs, 2 given"));
  CHECK(Says(said(x, "FusedMatMulActivation<activation = \"Softmax\">(x, w)"),
             "activation = Softmax is not supported, only Relu"));
  CHECK(Says(said("float[2, 3, 4] x, uint8[6, 1, 2] w, float[6] s",
                  "MatMulNBits<K = 4, N = 6, block_size = 4>(x, w, s)"),
             "B is not a constant"));
  // Numbers that would leave 64 bits, or fit nothing.
  for (const char* sizes :
       {"K = 9223372036854775807, N = 6, block_size = 16",
        "K = 32, N = 9223372036854775807, block_size = 16",
        "K = 32, N = 6, block_size = 9223372036854775807",
        "K = 32, N = 6, block_size = 16, bits = 0", "K = 48, N = 6, block_size = 16"})
    CHECK(
        ErrorOf(ModelOf(fmt::format(
                    "<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]> "
                    "g (float[2, 32] x) => (y) <uint8[4] w = {{1, 2, 3, 4}}, float[1] s = {{1.0}}> "
                    "{{ y = com.microsoft.MatMulNBits<{}>(x, w, s) }}",
                    sizes)))
            .code() != ErrorCode::kInternal);
  CHECK(Says(said("float[2, 3, 16] x, int32[2] n, int32 t",
                  "GroupQueryAttention<num_heads = 9223372036854775807, kv_num_heads = "
                  "9223372036854775807>(x, , , , , n, t)"),
             "64 bits"));
  // An operator that no table has: the message says which.
  CHECK(Says(said(x, "LongformerAttention<num_heads = 2>(x, w)"), "LongformerAttention"));
  // A lift that waits for it has nothing to say of its own.
  const Error both =
      ErrorOf(ModelOf("<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]> g (" + x +
                      ") => (y) { t = com.microsoft.LongformerAttention(x)\n"
                      "y = com.microsoft.FusedMatMul<transA = 1>(t, w) }"));
  CHECK(Says(both, "LongformerAttention"));
  CHECK(!Says(both, "FusedMatMul"));
  // Wrong types of attributes are not read as something else.
  CHECK(Says(said(x, "FusedMatMul<transA = \"yes\">(x, w)"), "int"));
}

}  // namespace
}  // namespace weft::onnx_import
