/// importer.h: builds a Graph from a validated model.
///
/// Nodes are taken in order; functions (of the model or of ONNX itself) are entered by recursion,
/// bounded by limits.depth and by the expanded size that the validator has computed. A node that
/// cannot be built poisons its outputs; the rest is still looked at, so that one run reports
/// everything there is to say.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "onnx/lift/lift.h"
#include "onnx/proto/diagnostics.h"
#include "onnx/proto/source.h"
#include "onnx/proto/symbols.h"
#include "onnx/proto/tensor_data.h"
#include "onnx/validate/validate.h"
#include "shape_tracker.h"
#include "type_tracker.h"
#include "weft/onnx/import.h"

namespace weft_onnx {
class OpSchema;
}

namespace weft::onnx_import {

/// What a name of the model stands for.
struct Value {
  enum State : uint8_t {
    kEntry,        ///< `entry`
    kAbsent,       ///< an optional argument that the caller of a function left out
    kPoisoned,     ///< output of a node that could not be built
    kMissing,      ///< an output the operator of this build does not have
    kInitializer,  ///< `tensor` or `sparse`, made a parameter at first use
  };
  State state = kPoisoned;
  NodeEntry entry;
  pb::TensorProto* tensor = nullptr;
  pb::SparseTensorProto* sparse = nullptr;

  static Value Of(NodeEntry e) {
    Value v;
    v.state = kEntry;
    v.entry = e;
    return v;
  }
  static Value Of(State s) {
    Value v;
    v.state = s;
    return v;
  }
};
using Values = std::unordered_map<std::string, Value>;

/// A gradient in a body, which holds inputs of iterations for constants.
struct HeldGradient {
  Record record;
  std::string place;
  std::vector<NodePtr> held;
  /// What it is taken by: in the body, in the graph around it, in the one around that ..
  std::vector<std::unordered_map<EntryKey, size_t>> named;
};

/// A graph under construction: the main one, or the body of an If, Loop or Scan.
struct Build {
  /// A value of the graph around a body, and the input that stands for it.
  struct Captured {
    NodePtr variable;
    NodeEntry value;  ///< null: it could not be built
  };

  Graph graph;
  TypeTracker types;
  ShapeTracker shapes{&types};
  std::vector<NodePtr> inputs;  ///< declared ones, then `captured`
  NodeNames node_names;
  bool has_cuts = false;   ///< variables stand for outputs of unsupported nodes
  Build* outer = nullptr;  ///< of a body: the graph that its node is in
  std::vector<Captured> captured;
  std::vector<HeldGradient> gradients;

  NodePtr AddCaptured(const NodeEntry& value, const std::string& name);
  /// The input that stands for a value of `outer`; a new one where there was none.
  NodeEntry Capture(const NodeEntry& value);
};
/// Of an input that a body gets without a name of the model.
std::string CapturedName(const Graph& body, size_t number);

/// Attributes given to the function whose body is being read.
struct Bindings {
  AttrDict attrs;
  std::vector<std::pair<std::string, void*>> graphs;
};

/// One name space: the main graph, a sub-graph, one call of a function.
struct Scope {
  Build* build = nullptr;
  Scope* outer = nullptr;  ///< of a body: where its node is
  const Opsets* opsets = nullptr;
  const Bindings* bindings = nullptr;  ///< null outside of functions
  std::string path;                    ///< "main", "main/node[3] 'f' (d::F)"
  std::string prefix;                  ///< of node names
  Origin origin;                       ///< the user's node that a function body stands for
  int depth = 0;                       ///< of calls and sub-graphs
  /// protos of this scope die before the import ends: nothing may be cached by address
  bool temporary = false;
  Values values;
  Values* group = nullptr;  ///< names of one lifted node and what was put around it
};

/// What a node gives its bodies.
struct BodyOperands {
  const Record& node;
  std::vector<NodeEntry> own;       ///< operands that stand for inputs of bodies, in their order
  std::vector<std::string> names;   ///< of captured values
  std::vector<NodeEntry> captured;  ///< those first; bodies may add more
  std::vector<std::string> absent;  ///< names of arguments that were left out
};

/// Nodes of one kind that could not be imported.
struct UnsupportedGroup {
  ErrorCode code;
  std::string op, reason, hint;
  int64_t count = 0;
  std::vector<std::string> places;  ///< the first few
};

/// The shape that the model declares for a value of the main graph.
struct DeclaredShape {
  const char* what;  ///< "value_info", "output", "input"
  const pb::ValueInfoProto* value;
  NodeEntry entry;

  std::string place() const;
  /// Warns where a value of shape `found` cannot have it.
  void Check(const Shape& found, Diagnostics* diag) const;
};
/// Those of computed values, against what inference finds, which the returned graph keeps. A graph
/// that inference refuses comes back as it is.
Graph CheckDeclaredShapes(Graph graph, const std::vector<DeclaredShape>& declared,
                          const Limits& limits, Diagnostics* diag);

class Importer {
 public:
  Importer(pb::ModelProto* model, const ImportOptions& options, const ValidModel& valid,
           ExternalFiles* files, Diagnostics* diag)
      : model_(model),
        options_(options),
        valid_(valid),
        diag_(diag),
        tensors_(options.limits, files, options.make_missing),
        deadline_(options.limits.deadline_s > 0 ? Deadline(options.limits.deadline_s)
                                                : Deadline()) {}
  /// Faults go to the diagnostics; the graph is good only where there are none and nothing is
  /// unsupported (or that is allowed).
  Graph Run();
  /// By operator key.
  std::vector<UnsupportedGroup> unsupported() const;
  /// Of values whose shapes have to be inferred.
  const std::vector<DeclaredShape>& declared_shapes() const { return declared_shapes_; }

 private:
  using Place = std::string;
  // importer.cc: graphs and names
  void ImportInputs(Scope* s, pb::GraphProto* g);
  void ImportOutputs(Scope* s, const pb::GraphProto& g);
  void ImportNodes(Scope* s, google::protobuf::RepeatedPtrField<pb::NodeProto>* nodes);
  void ImportNode(Scope* s, pb::NodeProto* n, const Place& place);
  Graph ImportBody(Scope* s, pb::GraphProto* g, BodyOperands* operands, const Place& place);
  Value* Find(Scope* s, const std::string& name);
  const Value& Resolve(Scope* s, const std::string& name);
  void Define(Scope* s, const std::string& name, Value v);
  /// Calls a value as the model does.
  void NameValue(Scope* s, const std::string& name, const Value& v);
  DType DTypeOf(Scope* s, const std::string& name);
  Shape ShapeOf(Scope* s, const std::string& name);
  TensorPtr ConstantOf(Scope* s, const std::string& name);  ///< of initializers too; or null
  /// Dtype and, where known, shape of a value for ONNX's function builders; no value where the
  /// dtype is not known.
  pb::TypeProto ProtoTypeOf(Scope* s, const std::string& name);
  void FinishGraph(Build* build);
  ModelSource Source() const;

  // declared.cc: what the model says of values, against what they are
  void CheckDeclared(Scope* s, const pb::GraphProto& g);
  void CheckDeclared(Scope* s, const pb::ValueInfoProto& v, const char* what, bool is_interface);

  // import_node.cc: one record
  Record MakeRecord(Scope* s, pb::NodeProto* n);
  void ConvertAttribute(const Scope& s, pb::AttributeProto* a, AttrDict* attrs,
                        std::vector<std::pair<std::string, void*>>* graphs);
  void ImportRecord(Scope* s, Record r, const Place& place);
  void Emit(Scope* s, const Record& r, const Place& place);
  void BuildNode(Scope* s, const Op* op, const Record& r, const Place& place);
  void Unsupported(Scope* s, const Record& r, ErrorCode code, const std::string& reason,
                   const Place& place);
  void Poison(Scope* s, const Record& r, bool cut);

  // import_gradient.cc: Gradient of ai.onnx.preview.training
  void BuildGradient(Scope* s, const Record& r, const Place& place);
  Value ValueAround(Scope* s, const std::string& name);
  /// Of a body that is complete: refuses gradients that reach back through iterations.
  void CheckGradients(Scope* s, const BodyOperands& operands);

  // import_function.cc: bodies of functions
  void CallFunction(Scope* s, pb::FunctionProto* f, pb::NodeProto* n, const Place& place);
  /// Replaces a node by the body ONNX gives for it; returns why not, or nothing.
  std::string ExpandSchemaBody(Scope* s, const Record& r, const pb::OpSchema& schema,
                               const Place& place);
  void RunBody(Scope* s, Scope* inner, pb::FunctionProto* f, const std::vector<std::string>& inputs,
               const std::vector<std::string>& outputs);
  void CountNode();

  pb::ModelProto* model_;
  const ImportOptions& options_;
  const ValidModel& valid_;
  Diagnostics* diag_;
  TensorReader tensors_;
  SymbolNames symbols_;
  Deadline deadline_;
  std::map<const pb::FunctionProto*, Opsets> function_opsets_;
  std::map<std::pair<const void*, int64_t>, std::unique_ptr<pb::FunctionProto>> schema_bodies_;
  std::map<std::string, UnsupportedGroup> unsupported_;
  std::vector<DeclaredShape> declared_shapes_;
  int64_t nodes_seen_ = 0;
};

/// Schema of the operator in that version of its domain; null where ONNX knows none.
const pb::OpSchema* FindSchema(const Record& r);
bool HasBody(const pb::OpSchema& schema);
/// Numbers of inputs and outputs, names and types of attributes, against the schema. Throws kArity,
/// kBadAttribute.
void CheckSchema(const pb::OpSchema& schema, const Record& r);
/// A node that stands for the gradient of a value of its graph.
bool IsGradient(const Record& r);

}  // namespace weft::onnx_import
