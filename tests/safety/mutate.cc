/// mutate.cc: see mutate.h. Messages have no reflection in the lite runtime, so every
/// edit is written out.
#include "mutate.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace weft::safety {
namespace {

using NodeList = google::protobuf::RepeatedPtrField<pb::NodeProto>;

/// Every list of nodes and every tensor and type of a model.
struct Parts {
  std::vector<NodeList*> lists;
  std::vector<pb::GraphProto*> graphs;
  std::vector<pb::TensorProto*> tensors;
  std::vector<pb::ValueInfoProto*> values;

  void Add(pb::GraphProto* g) {
    graphs.push_back(g);
    for (auto& t : *g->mutable_initializer()) tensors.push_back(&t);
    for (auto& v : *g->mutable_input()) values.push_back(&v);
    for (auto& v : *g->mutable_output()) values.push_back(&v);
    for (auto& v : *g->mutable_value_info()) values.push_back(&v);
    Add(g->mutable_node());
  }
  void Add(NodeList* list) {
    lists.push_back(list);
    for (auto& n : *list) {
      for (auto& a : *n.mutable_attribute()) {
        if (a.has_t()) tensors.push_back(a.mutable_t());
        if (a.has_g()) Add(a.mutable_g());
      }
    }
  }
};

const std::vector<std::string>& Operators() {
  static const std::vector<std::string> ops = {
      "Add",       "MatMul",     "Softmax", "Split",   "Resize",  "Concat",   "Slice",
      "Gather",    "ScatterND",  "Pad",     "Tile",    "Expand",  "Reshape",  "Transpose",
      "Conv",      "MaxPool",    "OneHot",  "Range",   "TopK",    "Where",    "CumSum",
      "ReduceSum", "NonZero",    "Einsum",  "LSTM",    "Loop",    "If",       "Scan",
      "Cast",      "Identity",   "Flatten", "Squeeze", "Unique",  "Upsample", "Compress",
      "EyeLike",   "GatherND",   "ArgMax",  "Trilu",   "Shape",   "Size",     "Attention",
      "RoiAlign",  "GridSample", "DFT",     "STFT",    "Dropout", "Clip",     "ConstantOfShape"};
  return ops;
}

std::string SomeName(const NodeList& nodes, Choices* c) {
  if (nodes.empty() || c->OneIn(8)) return c->OneIn(2) ? "" : "nothing_of_this_name";
  const pb::NodeProto& n = nodes.Get(int(c->Below(size_t(nodes.size()))));
  const auto& names = c->OneIn(2) && n.input_size() > 0 ? n.input() : n.output();
  return names.empty() ? "" : names.Get(int(c->Below(size_t(names.size()))));
}

void MutateAttribute(pb::AttributeProto* a, Choices* c) {
  switch (c->Below(9)) {
    case 0:
    case 1:
    case 2:
      if (a->ints_size() > 0)
        a->set_ints(int(c->Below(size_t(a->ints_size()))), c->Number());
      else if (a->floats_size() > 0)
        a->set_floats(int(c->Below(size_t(a->floats_size()))), float(c->Number()));
      else if (a->has_f())
        a->set_f(c->OneIn(3) ? std::numeric_limits<float>::quiet_NaN() : float(c->Number()));
      else if (a->has_s())
        a->set_s(c->OneIn(2) ? std::string() : a->s() + a->s());
      else
        a->set_i(c->Number());
      break;
    case 3:
      if (a->ints_size() > 0) a->mutable_ints()->RemoveLast();
      break;
    case 4:
      for (size_t k = c->Below(6); k > 0; --k) a->add_ints(c->Number());
      break;
    case 5:
      for (auto& v : *a->mutable_ints()) v = c->Number();
      break;
    case 6:
      a->set_type(pb::AttributeProto::AttributeType(c->Below(15)));
      break;
    case 7:
      a->set_name(c->OneIn(2) ? "axis" : "axes");
      break;
    default:
      a->clear_ints();
      a->clear_i();
      break;
  }
}

void MutateTensor(pb::TensorProto* t, Choices* c) {
  switch (c->Below(9)) {
    case 0:
      if (t->dims_size() > 0)
        t->set_dims(int(c->Below(size_t(t->dims_size()))), c->Number());
      else
        t->add_dims(c->Number());
      break;
    case 1:
      t->add_dims(c->OneIn(2) ? 1 : c->Number());
      break;
    case 2:
      t->clear_dims();
      break;
    case 3:
      t->set_data_type(int(c->Below(28)));
      break;
    case 4:
      if (t->has_raw_data()) t->mutable_raw_data()->resize(c->Below(t->raw_data().size() + 1));
      break;
    case 5:
      // Values: shapes, axes, indices, scales.
      if (t->int64_data_size() > 0)
        t->set_int64_data(int(c->Below(size_t(t->int64_data_size()))), c->Number());
      if (t->float_data_size() > 0)
        t->set_float_data(int(c->Below(size_t(t->float_data_size()))), float(c->Number()));
      if (t->raw_data().size() >= 8) {
        const int64_t v = c->Number();
        const size_t at = c->Below(t->raw_data().size() / 8) * 8;
        for (size_t k = 0; k < 8; ++k)
          (*t->mutable_raw_data())[at + k] = char(uint64_t(v) >> (8 * k));
      }
      break;
    case 6:
      t->set_data_location(pb::TensorProto::EXTERNAL);
      break;
    case 7:
      t->add_float_data(1);
      break;
    default:
      t->clear_raw_data();
      t->clear_float_data();
      break;
  }
}

void MutateValue(pb::ValueInfoProto* v, Choices* c) {
  auto* type = v->mutable_type();
  if (!type->has_tensor_type() || c->OneIn(12)) {
    if (c->OneIn(2))
      type->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type();
    else
      type->mutable_optional_type()->mutable_elem_type()->mutable_tensor_type();
    return;
  }
  auto* tensor = type->mutable_tensor_type();
  auto* shape = tensor->mutable_shape();
  switch (c->Below(6)) {
    case 0:
    case 1:
      if (shape->dim_size() > 0)
        shape->mutable_dim(int(c->Below(size_t(shape->dim_size()))))->set_dim_value(c->Number());
      break;
    case 2:
      if (shape->dim_size() > 0)
        shape->mutable_dim(int(c->Below(size_t(shape->dim_size()))))
            ->set_dim_param(c->OneIn(2) ? "N" : "M");
      break;
    case 3:
      shape->add_dim()->set_dim_value(int64_t(c->Below(4)));
      break;
    case 4:
      tensor->set_elem_type(int(c->Below(28)));
      break;
    default:
      tensor->clear_shape();
      break;
  }
}

void MutateNode(NodeList* list, Choices* c) {
  const size_t count = size_t(list->size());
  pb::NodeProto* n = list->Mutable(int(c->Below(count)));
  switch (c->Below(12)) {
    case 0:
      if (n->input_size() > 0)
        n->set_input(int(c->Below(size_t(n->input_size()))),
                     c->OneIn(3) ? std::string() : SomeName(*list, c));
      break;
    case 1:
      if (n->input_size() > 1)
        n->mutable_input()->SwapElements(int(c->Below(size_t(n->input_size()))),
                                         int(c->Below(size_t(n->input_size()))));
      break;
    case 2:
      n->add_input(SomeName(*list, c));
      break;
    case 3:
      if (n->input_size() > 0) n->mutable_input()->RemoveLast();
      break;
    case 4:
      if (n->output_size() > 0)
        n->set_output(int(c->Below(size_t(n->output_size()))), SomeName(*list, c));
      break;
    case 5:
      n->add_output(c->OneIn(2) ? "" : "one_more");
      break;
    case 6:
      if (n->output_size() > 1) n->mutable_output()->RemoveLast();
      break;
    case 7:
      list->SwapElements(int(c->Below(count)), int(c->Below(count)));
      break;
    case 8:
      list->DeleteSubrange(int(c->Below(count)), 1);
      break;
    case 9: {
      const pb::NodeProto copy = *n;
      auto* added = list->Add();
      *added = copy;
      if (c->OneIn(2))
        for (auto& o : *added->mutable_output()) o += "_2";
      break;
    }
    case 10:
      n->set_op_type(c->Of(Operators()));
      break;
    default:
      if (n->attribute_size() > 0)
        n->mutable_attribute()->DeleteSubrange(int(c->Below(size_t(n->attribute_size()))), 1);
      break;
  }
}

void MutateModelOnce(pb::ModelProto* model, Choices* c) {
  Parts parts;
  parts.Add(model->mutable_graph());
  for (auto& f : *model->mutable_functions()) parts.Add(f.mutable_node());
  std::vector<NodeList*> lists;
  std::vector<pb::AttributeProto*> attributes;
  for (NodeList* list : parts.lists) {
    if (!list->empty()) lists.push_back(list);
    for (auto& n : *list)
      for (auto& a : *n.mutable_attribute()) attributes.push_back(&a);
  }
  const size_t what = c->Below(100);
  if (what < 30 && !attributes.empty()) return MutateAttribute(c->Of(attributes), c);
  if (what < 45 && !parts.tensors.empty()) return MutateTensor(c->Of(parts.tensors), c);
  if (what < 65 && !parts.values.empty()) return MutateValue(c->Of(parts.values), c);
  if (what < 92 && !lists.empty()) return MutateNode(c->Of(lists), c);
  if (what < 96 && model->opset_import_size() > 0) {
    model->mutable_opset_import(0)->set_version(c->OneIn(4) ? c->Number()
                                                            : 6 + int64_t(c->Below(22)));
    return;
  }
  // An operand becomes a constant of extreme values: axes, shapes, repeats, indices.
  pb::GraphProto* g = model->mutable_graph();
  if (g->input_size() == 0) return;
  const int at = int(c->Below(size_t(g->input_size())));
  auto* t = g->add_initializer();
  t->set_name(g->input(at).name());
  t->set_data_type(c->OneIn(4) ? kF32 : kI64);
  const size_t count = c->Below(5);
  t->add_dims(int64_t(count));
  for (size_t k = 0; k < count; ++k) {
    if (t->data_type() == kF32)
      t->add_float_data(float(c->Number()));
    else
      t->add_int64_data(c->Number());
  }
  g->mutable_input()->DeleteSubrange(at, 1);
}

}  // namespace

int64_t Choices::Number() {
  static constexpr int64_t kExtreme[] = {INT64_MAX,
                                         INT64_MIN,
                                         INT64_MAX - 1,
                                         INT64_MIN + 1,
                                         INT32_MAX,
                                         INT32_MIN,
                                         int64_t{1} << 31,
                                         int64_t{1} << 32,
                                         int64_t{1} << 62,
                                         1000,
                                         -1000,
                                         65536,
                                         1 << 20,
                                         (int64_t{1} << 40),
                                         -1};
  if (OneIn(2)) return int64_t(Below(9)) - 3;
  return kExtreme[Below(std::size(kExtreme))];
}

void MutateModel(pb::ModelProto* model, Choices* choices) {
  for (size_t edits = 1 + choices->Below(3); edits > 0; --edits) MutateModelOnce(model, choices);
}

void MutateBytes(std::string* bytes, Choices* c) {
  for (size_t edits = 1 + c->Below(8); edits > 0 && !bytes->empty(); --edits) {
    const size_t at = c->Below(bytes->size());
    switch (c->Below(6)) {
      case 0:
        (*bytes)[at] = char(c->Next());
        break;
      case 1:
        (*bytes)[at] = char((*bytes)[at] ^ (1 << c->Below(8)));
        break;
      case 2:
        bytes->erase(at, 1 + c->Below(8));
        break;
      case 3:
        bytes->insert(at, 1, char(c->Next()));
        break;
      case 4:
        bytes->insert(at, bytes->substr(c->Below(bytes->size()), c->Below(32)));
        break;
      default:
        if (c->OneIn(8)) bytes->resize(at);
        break;
    }
  }
}

}  // namespace weft::safety
