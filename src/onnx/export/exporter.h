/// exporter.h: writes one model. ModelExporter holds what the model shares (functions, operator
/// set, problems); a GraphWriter writes one graph: the main one, the body of a function, or the
/// body of an If, Loop or Scan.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "export_opset.h"
#include "export_proto.h"
#include "onnx/proto/source.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/onnx/export.h"

namespace weft_onnx {
class OpSchema;
}

namespace weft::onnx_export {

using onnx_import::ModelSource;
using NodeList = google::protobuf::RepeatedPtrField<pb::NodeProto>;

/// Value names in use. A graph shares its table with the graphs inside of it.
class Names {
 public:
  bool Take(const std::string& name) { return taken_.insert(name).second; }
  /// `base`, or `base.2`, `base.3` ... where it is taken.
  std::string Unique(const std::string& base);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;
};

/// A local function, and the symbols whose values it takes behind its other inputs.
struct FunctionRef {
  std::string name;
  std::vector<std::string> symbols;
};

/// Symbols whose values are needed to write a graph.
struct GraphSymbols {
  std::vector<std::string> outer;  ///< that somebody around it has to give, sorted
  std::set<std::string> own;       ///< data-dependent ones that a node of its own determines
};

class ModelExporter {
 public:
  /// For operator set `oldest` or a newer one: `needs()` is known after Run, and where that is
  /// newer the model is to be written again for it.
  ModelExporter(const Graph& graph, const ExportOptions& options, int64_t oldest)
      : graph_(graph),
        options_(options),
        source_(graph.AttrOr<ModelSource>(ModelSource::kAttr)),
        opset_(oldest) {}
  /// The whole model, without the bytes of tensors that `large` collects for another file.
  struct Large {
    TensorPtr tensor;
    pb::TensorProto* proto;
  };
  void Run(pb::ModelProto* model, std::vector<Large>* large);
  int64_t needs() const { return opset_.version(); }

  // For GraphWriter.
  const ExportOptions& options() const { return options_; }
  const ModelSource& source() const { return source_; }
  /// Whether a value in between gets a value info.
  bool Tells(const std::string& value) const {
    using Info = ExportOptions::ValueInfo;
    return options_.value_info == Info::kKnown ||
           (options_.value_info == Info::kDeclared && source_.value_infos.count(value));
  }
  OpsetChooser& opset() { return opset_; }
  void Problem(const NodePtr& node, const std::string& why);
  FunctionRef Fused(const GraphPtr& body);
  /// The function of an operator that states its ONNX form; none where that is the operator of the
  /// same name. Throws kUnsupported for a node that has neither.
  std::optional<FunctionRef> OfOperator(const NodePtr& node, const TypeMap* types,
                                        const ShapeMap* shapes);
  const GraphSymbols& SymbolsOf(const Graph& g);
  /// Symbols whose values a node is written with: in its graphs and its extents.
  std::set<std::string> NeededBy(const NodePtr& n);
  /// A place for a tensor among the initializers.
  void WriteInitializer(const std::string& name, const TensorPtr& t);
  /// Runtimes ask for names of nodes that differ, graphs need none.
  std::string NodeName(const std::string& name) { return node_names_.Unique(name); }
  void EnterNested();
  void LeaveNested() { --depth_; }

 private:
  FunctionRef Intern(std::string base, pb::FunctionProto f, std::vector<std::string> symbols);
  void ThrowProblems() const;

  const Graph& graph_;
  const ExportOptions& options_;
  const ModelSource source_;
  OpsetChooser opset_;
  std::vector<std::string> problems_;
  size_t total_problems_ = 0;
  int64_t depth_ = 0;
  Names node_names_;
  pb::GraphProto* main_ = nullptr;
  std::vector<Large>* large_ = nullptr;
  std::vector<pb::FunctionProto> functions_;           ///< in the order of their first call
  std::map<std::string, std::string> function_names_;  ///< by what the function holds
  std::map<std::string, int> numbers_;                 ///< functions by first part of their name
  std::unordered_map<const Graph*, GraphSymbols> symbols_;
  std::unordered_map<const Graph*, FunctionRef> fused_;
};

/// The graph with the targets of Reshape and Expand that ONNX says without a symbol as constants.
Graph WithConstantTargets(Graph graph);

/// What calls may pass a value to and what stands around it.
class GraphWriter {
 public:
  GraphWriter(ModelExporter* model, const Graph& graph, Names* names, NodeList* nodes,
              GraphWriter* outer = nullptr);
  void WriteMain(pb::GraphProto* out);
  /// Inputs are i0.., then a value for every symbol; outputs o0...
  void WriteFunction(pb::FunctionProto* out);
  /// The last inputs stand for values of the graph around, called `captures`.
  void WriteNested(const std::vector<std::string>& captures, pb::GraphProto* out);
  /// The name of an i64[1] value of that symbol, computed where first asked for.
  const std::string& SymbolValue(const std::string& symbol);

 private:
  // export_graph.cc
  Type TypeOf(const NodeEntry& e) const;
  Shape ShapeOf(const NodeEntry& e) const;
  std::vector<NodePtr> Order();
  void NameOutputs(const std::string& prefix);
  void WriteNodes();
  void WriteOutputs();
  const std::string& NameOf(const NodeEntry& e);
  void SetName(const NodeEntry& e, std::string name) {
    names_of_[e.node->id()][e.index] = std::move(name);
  }
  bool WriteValueInfo(const std::string& name, const NodeEntry& e, pb::ValueInfoProto* out);
  void RestoreDims(const std::string& output, const Shape& shape, pb::ValueInfoProto* info) const;
  pb::NodeProto* Add(std::string domain, std::string op);
  // export_node.cc
  const char* AttributeForOperand1(const NodePtr& n) const;
  void WriteNode(const NodePtr& n);
  void WriteConstant(const NodePtr& n);
  void WriteShapeTensor(const NodePtr& n);
  void WriteStandard(const NodePtr& n, const std::string& domain, const std::string& op,
                     const pb::OpSchema* schema);
  bool HasEqualParts(const NodePtr& n) const;
  void WriteAttributes(const NodePtr& n, const pb::OpSchema* schema, pb::NodeProto* out);
  void WriteCall(const NodePtr& n, const FunctionRef& f);
  void NameNode(const NodePtr& n, pb::NodeProto* out);
  void WriteInputs(const NodePtr& n, size_t count, pb::NodeProto* out);
  bool IsUsed(const NodeEntry& e) const;
  // export_symbols.cc
  struct Source {
    NodeEntry entry;
    int axis = 0;
    int64_t times = 1;      ///< the extent is so many times the symbol
    bool is_value = false;  ///< element `axis` of the value, no extent
  };
  void FindSources();
  std::string Step(const std::string& base, const std::string& op,
                   const std::vector<std::string>& inputs);
  std::string Element(const NodeEntry& e, int at);
  std::string IntsValue(const std::vector<int64_t>& values);
  // export_extents.cc
  /// Dimensions of a value that has been written.
  struct Place {
    NodeEntry entry;
    int axis;
  };
  /// A step of the arithmetic that a size is made by.
  struct SizePart {
    SymInt size;
    char op = 0;  ///< of SymVisitor; 0: a constant or a symbol
    size_t a = 0, b = 0;
  };
  /// Sizes [begin, end) of some are the dimensions of `entry` from `axis` on.
  struct Run {
    size_t begin = 0, end = 0;
    NodeEntry entry;
    int axis = 0;
    size_t size() const { return end - begin; }
  };
  void NoteExtents(const NodeEntry& e);
  std::string Extents(const NodeEntry& e, int axis, size_t count, const std::string& base);
  std::string Concatenated(const std::vector<std::string>& vectors);
  Run RunAround(const std::vector<SymInt>& sizes, size_t at);
  std::string RunValue(const std::vector<SymInt>& sizes, const Run& run);
  size_t PartOf(SymInt size);
  bool AreMadeAlike(size_t a, size_t b) const;
  int StepsLeft(size_t part) const;
  std::string SizesValue(std::vector<size_t> parts);
  std::string Operation(char op, bool natural, const std::string& a, const std::string& b);
  std::vector<std::string> ExtentParts(const std::vector<SymInt>& sizes);

  ModelExporter& model_;
  const Graph& g_;
  Names* names_;
  NodeList* nodes_;
  GraphWriter* outer_;
  enum class Kind { kMain, kFunction, kNested } kind_ = Kind::kMain;
  const ShapeMap* shapes_ = nullptr;
  const TypeMap* types_ = nullptr;
  const onnx_import::NodeNames* node_names_ = nullptr;
  std::vector<NodePtr> order_;
  std::unordered_map<NodeId, std::unordered_map<uint32_t, std::string>> names_of_;
  std::vector<uint8_t> is_output_;
  std::unordered_set<EntryKey> used_;  ///< entries that are read as operands, or outputs
  std::vector<std::string> output_names_;
  const Facts facts_;
  std::unordered_set<std::string> input_dims_, input_symbols_;  ///< of dims of the model's inputs
  std::map<std::string, Source> sources_;                       ///< by symbol
  std::map<std::string, std::string> values_;                   ///< of symbols, by name
  std::map<std::string, std::string> steps_;  ///< values of constants and of operations on others
  std::unordered_map<SymInt, std::vector<Place>> places_;  ///< by size, as they were written
  std::vector<SizePart> parts_;
  std::unordered_map<SymInt, size_t> part_of_;    ///< index in parts_
  std::unordered_map<SymInt, std::string> made_;  ///< values of sizes that are no symbols
};

}  // namespace weft::onnx_export
