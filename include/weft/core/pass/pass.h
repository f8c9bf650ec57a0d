/// pass.h: passes and the pass manager.
///
///   WEFT_REGISTER_PASS(Fusion).describe("...").set_body(Fusion).set_change_graph(true)
///       .depend_graph_attr("shape").depend_graph_attr("dtype").provide_graph_attr("subgraph")
///       .option("max_ops", int64_t{256}, "largest kernel, in nodes");
///   g = ApplyPasses(g, {"Simplify", {"Fusion", {{"max_ops", 64}}}, "CodeGen"});
///   g = ApplyPasses(g, "Simplify,Fusion{max_ops=64},CodeGen");
///
/// For every pass the manager: runs the provider of a missing attribute first (and says why);
/// checks `depend_op_attr`, naming every offending node; runs the body; drops derived attributes
/// that were not preserved; verifies the graph; checks that what was promised is there; records
/// time, node counts and statistics. With `Checks` it also recomputes preserved attributes,
/// tests "changed" against a hash, runs twice and compares, and compares results on random
/// inputs before and after.
#pragma once

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/op/op.h"
#include "weft/core/target.h"
#include "weft/support/limits.h"
#include "weft/support/request.h"

namespace weft {

class PassContext;
struct PassEntry;

/// Value of a pass option.
using OptionValue = std::variant<bool, int64_t, double, std::string>;
/// From text by the type of the option's default.
struct WEFT_API Option {
  std::string name;
  OptionValue value;
  Option(std::string n, bool v) : name(std::move(n)), value(v) {}
  Option(std::string n, int v) : name(std::move(n)), value(int64_t{v}) {}
  Option(std::string n, int64_t v) : name(std::move(n)), value(v) {}
  Option(std::string n, double v) : name(std::move(n)), value(v) {}
  Option(std::string n, const char* v) : name(std::move(n)), value(std::string(v)) {}
  Option(std::string n, std::string v) : name(std::move(n)), value(std::move(v)) {}
};

/// One pass of a pipeline with the options of this call.
struct WEFT_API PassSpec {
  std::string name;
  std::vector<Option> options;
  PassSpec(const char* n) : name(n) {}             // NOLINT
  PassSpec(std::string n) : name(std::move(n)) {}  // NOLINT
  PassSpec(std::string n, std::vector<Option> o) : name(std::move(n)), options(std::move(o)) {}
};

/// Passes in order. Text form: `Simplify,Fusion{max_ops=64,levels=false}`.
class WEFT_API Pipeline {
 public:
  Pipeline() = default;
  Pipeline(std::initializer_list<PassSpec> passes) : passes_(passes) {}
  explicit Pipeline(std::vector<PassSpec> passes) : passes_(std::move(passes)) {}
  Pipeline(const std::vector<std::string>& names)
      : passes_(names.begin(), names.end()) {}   // NOLINT
  static Pipeline Parse(std::string_view text);  ///< throws kSyntax
  std::string ToString() const;
  const std::vector<PassSpec>& passes() const { return passes_; }
  void push_back(PassSpec p) { passes_.push_back(std::move(p)); }

 private:
  std::vector<PassSpec> passes_;
};

/// How a pass changes what the graph computes; checked by the equivalence check.
enum class PassResult : uint8_t { kSame, kAppends, kDiffers };

using PassBody = std::function<Graph(Graph, PassContext&)>;

using NamedDocs = std::vector<std::pair<std::string, std::string>>;  ///< name, doc

/// A registered pass.
struct WEFT_API PassEntry {
  std::string name, description;
  PassBody body;
  bool changes_graph = true;
  std::vector<std::string> depends, provides, preserves, depends_op;
  bool preserves_all = false;
  std::vector<std::pair<Option, std::string>> options;  ///< default and doc
  NamedDocs statistics;
  NamedDocs rewrites;                        ///< given to Fuel and not counted under that name
  std::function<NamedDocs()> listed_counts;  ///< further statistics, of a registry that grows
  NamedDocs report;                          ///< columns of the rows given to Report
  bool any_name = false;                     ///< Count and Fuel take undeclared names
  int plevel = 10;                           ///< chosen provider: the highest
  PassResult result = PassResult::kSame;
  bool keeps_onnx = false;
  bool fuses = false;
  bool enters_bodies = false;
  /// Of a pass that fuses: its options in a pipeline without fusion; none: it is left out there.
  std::vector<Option> unfused;
  Owner owner;
  bool override_declared = false;
  /// `statistics`, then `listed_counts`.
  NamedDocs AllStatistics() const;
  static const PassEntry* Get(std::string_view name);  ///< throws kUnknownPass with near names
  static const PassEntry* Find(std::string_view name);
  static std::vector<const PassEntry*> List();  ///< by name
};

class WEFT_API PassBuilder {
 public:
  PassBuilder(std::string name, Owner owner);
  PassBuilder& describe(std::string doc);
  template <class F>
  PassBuilder& set_body(F f) {
    if constexpr (std::is_invocable_v<F, Graph, PassContext&>)
      return set_pass_body(PassBody(std::move(f)));
    else
      return set_pass_body(
          [f = std::move(f)](Graph g, PassContext&) -> Graph { return f(std::move(g)); });
  }
  PassBuilder& set_pass_body(PassBody body);
  PassBuilder& set_change_graph(bool changes);
  PassBuilder& depend_graph_attr(std::string name);
  PassBuilder& provide_graph_attr(std::string name);
  PassBuilder& preserve_graph_attr(std::string name);
  /// Every derived attribute survives: the pass only adds attributes.
  PassBuilder& preserve_all();
  /// Every op of the graph must have this attribute when the pass starts.
  PassBuilder& depend_op_attr(std::string name);
  template <class T>
  PassBuilder& option(std::string name, T def, std::string doc) {
    return add_option(Option(std::move(name), def), std::move(doc));
  }
  PassBuilder& add_option(Option def, std::string doc);
  /// A name that the body gives to Count, and perhaps to Fuel.
  PassBuilder& statistic(std::string name, std::string doc);
  /// Statistics that stand in a registry, as Simplify's rules do.
  PassBuilder& statistics(std::function<NamedDocs()> list);
  /// A column of the table that the body's calls of Report make.
  PassBuilder& report(std::string column, std::string doc);
  /// A name that the body gives to Fuel only.
  PassBuilder& rewrite(std::string name, std::string doc);
  /// Names need no declaration: for interfaces that cannot declare them.
  PassBuilder& any_name();
  PassBuilder& plevel(int level);
  PassBuilder& result(PassResult r);
  /// What it makes of ONNX's operators has a form in them again, local functions included, so that
  /// a model exported behind it runs elsewhere and gives the same. Tested beside ONNX Runtime.
  PassBuilder& keeps_onnx();
  /// The pass makes one kernel or call of several operators. A pipeline without fusion leaves it
  /// out, or where it is needed to make kernels at all, gives it these options.
  PassBuilder& fuses(std::vector<Option> unfused = {});
  /// The manager runs the pass in the bodies of If, Loop and Scan too, behind the graph around
  /// them: each a graph of its own, with what is known of its operands (core/pass/body_types.h).
  PassBuilder& enters_bodies();
  /// Replaces a pass of the same name; without it a second registration is refused.
  PassBuilder& override_pass();
  void Commit();

 private:
  PassEntry entry_;
};
struct WEFT_API RegisteredPass {
  RegisteredPass(PassBuilder& builder);                               // NOLINT
  RegisteredPass(PassBuilder&& builder) : RegisteredPass(builder) {}  // NOLINT
};
#define WEFT_REGISTER_PASS(Name)                                                              \
  [[maybe_unused]] static const ::weft::RegisteredPass WEFT_CONCAT(weft_pass_, __COUNTER__) = \
      ::weft::PassBuilder(#Name, WEFT_OWNER_)

/// What a pass body may ask for and report.
class WEFT_API PassContext {
 public:
  virtual ~PassContext() = default;
  virtual const PassEntry& pass() const = 0;
  /// Option of this call or its declared default; throws InternalError for an undeclared
  /// name or another type.
  template <class T>
  T option(std::string_view name) const {
    return std::get<T>(Value(name));
  }
  virtual const OptionValue& Value(std::string_view name) const = 0;
  virtual const Target& target() const = 0;
  virtual const Limits& limits() const = 0;
  virtual const CancelToken& cancel() const = 0;
  /// One rewrite asks before it happens; false: the budget of rewrites is used up (bisecting inside
  /// a pass). An undeclared name is an InternalError here and in Count, in debug builds and where
  /// faults are thrown (WEFT_FAULTS=throw, as in all tests).
  virtual bool Fuel(std::string_view rewrite, const NodePtr& node) = 0;
  virtual void Count(std::string_view statistic, int64_t n = 1) = 0;
  /// A row of the pass's table, one cell for each column that it declares: what it did to one node
  /// or tensor. `weft opt --stats` shows the table.
  virtual void Report(std::vector<OptionValue> cells) = 0;
  /// A warning for people, shown once.
  virtual void Warn(std::string message) = 0;
  /// A bug of ours that the program survives, as a kernel that cannot be generated: printed as an
  /// error, kept in PassRecord::faults, a reason to write PassOptions::reproducer; thrown as
  /// InternalError where PassOptions::faults says so.
  virtual void Fault(std::string message) = 0;
};

/// What becomes of PassContext::Fault. kDefault: kThrow where the environment has WEFT_FAULTS=throw
/// (all tests do), else kReport.
enum class FaultPolicy : uint8_t { kDefault, kReport, kThrow };

enum class Trigger { kAsked, kDependency };
/// Record of one executed pass.
struct PassRecord {
  int number = 0;  ///< 1-based application number
  std::string name;
  Trigger trigger = Trigger::kAsked;
  std::string reason;  ///< "Fusion needs 'shape'"
  double seconds = 0;
  size_t nodes_before = 0, nodes_after = 0;
  bool changed = false, skipped = false;
  std::map<std::string, int64_t> statistics;
  std::vector<std::vector<OptionValue>> report;  ///< rows; their columns: PassEntry::report
  std::vector<std::string> warnings;
  std::vector<std::string> faults;  ///< PassContext::Fault
};

/// Claims to check after each pass.
struct Checks {
  bool preserved = false;      ///< recompute preserved attributes and compare
  bool changed = false;        ///< `set_change_graph(false)` against a hash
  bool deterministic = false;  ///< run twice, compare texts
  bool equivalent = false;     ///< outputs on random inputs, through the Evaluator
  /// ops for which a missing evaluation is accepted
  std::vector<std::string> equivalence_unavailable;
  uint64_t seed = 1;
  static Checks All() {
    Checks c;
    c.preserved = c.changed = c.deterministic = c.equivalent = true;
    return c;
  }
};

/// How ApplyPasses works; every field has the default that users want.
struct PassOptions {
  Target target = "cpu";
  bool strict = false;  ///< a missing dependency is an error, as in NNVM
  bool verify = true;
  Checks checks;
  Limits limits;
  CancelToken cancel;
  int64_t fuel = -1;              ///< rewrites allowed over the whole pipeline; -1: no bound
  std::vector<std::string> skip;  ///< "Fusion", or one application of it: "Fusion#2"
  std::string dump_dir;           ///< numbered text file after each change
  std::string print_before, print_after;          ///< pass name patterns (regular expressions)
  std::function<void(const std::string&)> print;  ///< where they go; default: stderr
  std::function<void(const PassRecord&)> on_pass;
  /// Asked before each pass of the pipeline, when what it requires is there. False: the pipeline
  /// ends before it.
  std::function<bool(const PassEntry& next, const Graph& graph)> go_on;
  /// Asked before each pass that enters bodies. False: it leaves this one as it is.
  std::function<bool(const PassEntry& next, const Graph& body)> enters;
  std::vector<PassRecord>* records = nullptr;
  std::string reproducer;  ///< file written when a pass fails or reports a fault; empty: none
  FaultPolicy faults = FaultPolicy::kDefault;
};

WEFT_API Graph ApplyPasses(Graph graph, const Pipeline& pipeline, const PassOptions& options = {});
WEFT_API Graph ApplyPasses(Graph graph, const char* pipeline, const PassOptions& options = {});
WEFT_API Graph ApplyPass(Graph graph, const std::string& pass, const PassOptions& options = {});
/// The pipeline with every dependency that would be run written out, ready to paste back.
WEFT_API Pipeline ResolvePipeline(const Graph& graph, const Pipeline& pipeline,
                                  const PassOptions& options = {});

/// Structural check of a graph, linear: all nodes (also those no output reaches) acyclic; entries,
/// control edges, outputs and declared inputs living and in range; arity; use lists both ways; no
/// more output names than outputs. Throws InternalError (kCycle as UserError) with all findings, at
/// most 20. Attribute rows are not looked at.
WEFT_API void VerifyGraph(const Graph& graph);

}  // namespace weft
