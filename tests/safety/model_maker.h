/// model_maker.h: ONNX models by code, for tests that need what no exporter writes.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace weft::safety {

namespace pb = ::weft_onnx;
using Names = std::vector<std::string>;
using Numbers = std::vector<int64_t>;

constexpr int kF32 = pb::TensorProto::FLOAT, kI64 = pb::TensorProto::INT64,
              kStr = pb::TensorProto::STRING, kBool = pb::TensorProto::BOOL;

/// Attributes of one node: Attrs(n).Int("axis", 1).Ints("perm", {1, 0}).
class Attrs {
 public:
  explicit Attrs(pb::NodeProto* n) : n_(n) {}
  Attrs& Int(const char* name, int64_t v) {
    Add(name, pb::AttributeProto::INT)->set_i(v);
    return *this;
  }
  Attrs& Float(const char* name, float v) {
    Add(name, pb::AttributeProto::FLOAT)->set_f(v);
    return *this;
  }
  Attrs& Ints(const char* name, const Numbers& vs) {
    auto* a = Add(name, pb::AttributeProto::INTS);
    for (int64_t v : vs) a->add_ints(v);
    return *this;
  }
  Attrs& String(const char* name, const std::string& v) {
    Add(name, pb::AttributeProto::STRING)->set_s(v);
    return *this;
  }
  Attrs& Body(const char* name, const pb::GraphProto& g) {
    *Add(name, pb::AttributeProto::GRAPH)->mutable_g() = g;
    return *this;
  }
  pb::AttributeProto* Add(const char* name, pb::AttributeProto::AttributeType type) {
    auto* a = n_->add_attribute();
    a->set_name(name);
    a->set_type(type);
    return a;
  }

 private:
  pb::NodeProto* n_;
};

/// One model with its graph.
class ModelMaker {
 public:
  explicit ModelMaker(int opset = 21) {
    model.set_ir_version(9);
    model.add_opset_import()->set_version(opset);
    graph = model.mutable_graph();
    graph->set_name("g");
  }
  ModelMaker(const ModelMaker&) = delete;

  static void Declare(pb::ValueInfoProto* v, const std::string& name, int type,
                      const Numbers& dims) {
    v->set_name(name);
    auto* t = v->mutable_type()->mutable_tensor_type();
    t->set_elem_type(type);
    auto* shape = t->mutable_shape();
    for (int64_t d : dims) {
      if (d == kSymbol)
        shape->add_dim()->set_dim_param("N");
      else
        shape->add_dim()->set_dim_value(d);
    }
  }
  /// An extent called N.
  static constexpr int64_t kSymbol = INT64_MIN;

  void In(const std::string& name, int type, const Numbers& dims) {
    Declare(graph->add_input(), name, type, dims);
  }
  /// An output of which nothing is declared but its element type.
  void Out(const std::string& name, int type = kF32) {
    auto* v = graph->add_output();
    v->set_name(name);
    v->mutable_type()->mutable_tensor_type()->set_elem_type(type);
  }
  pb::NodeProto* Node(const std::string& op, const Names& in, const Names& out,
                      const std::string& name = "") {
    return NodeOf(graph, op, in, out, name);
  }
  template <class G>
  static pb::NodeProto* NodeOf(G* g, const std::string& op, const Names& in, const Names& out,
                               const std::string& name = "") {
    auto* n = g->add_node();
    n->set_op_type(op);
    n->set_name(name);
    for (const std::string& i : in) n->add_input(i);
    for (const std::string& o : out) n->add_output(o);
    return n;
  }
  void Ints(const std::string& name, const Numbers& values) {
    auto* t = Tensor(name, kI64, {int64_t(values.size())});
    for (int64_t v : values) t->add_int64_data(v);
  }
  void Scalar(const std::string& name, int64_t value) {
    Tensor(name, kI64, {})->add_int64_data(value);
  }
  void Floats(const std::string& name, const std::vector<float>& values) {
    auto* t = Tensor(name, kF32, {int64_t(values.size())});
    for (float v : values) t->add_float_data(v);
  }
  pb::TensorProto* Tensor(const std::string& name, int type, const Numbers& dims) {
    auto* t = graph->add_initializer();
    t->set_name(name);
    t->set_data_type(type);
    for (int64_t d : dims) t->add_dims(d);
    return t;
  }
  std::string Bytes() const { return model.SerializeAsString(); }

  pb::ModelProto model;
  pb::GraphProto* graph;
};

}  // namespace weft::safety
