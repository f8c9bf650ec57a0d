/// nnvm.h: the interface of NNVM and NNVM-Fusion as of 2016, for code of that time: a real
/// `namespace nnvm` and its macros, over the types of Weft. What is registered here fuses and
/// runs like everything else.
///
/// Extent (this list is complete): NNVM_REGISTER_OP, NNVM_REGISTER_OP_GROUP, NNVM_REGISTER_PASS
/// with their setters; one op registered from several files; FGradient; FCodeGen over ASTPtr; own
/// attribute types through set_attr<T> and Op::GetAttr<T>; FloatAST, VariableAST, BinaryAST
/// and + - * / on ASTPtr, ->CodeGen(); Graph with attrs, GetAttr<T> and outputs; DFSVisit,
/// IndexedGraph; Node::Create, MakeNode; Symbol; ApplyPass, ApplyPasses.
///
/// Differs on purpose: a missing dependency runs its provider instead of failing
/// (PassOptions::strict: as in 2016); a stale IndexedGraph throws; equal priorities of one
/// attribute are an error that names both owners; `any` is std::any. Nodes made without inputs live
/// in the ambient graph of the thread (inside a pass: the graph of the pass); assigning them to the
/// outputs of another Graph copies what they reach. NodeEntry::version reads as 0 and cannot be
/// assigned (it takes no room); elements of Graph::outputs are assigned by outputs.set(i, e);
/// AttrDict::find gives a pointer.
#pragma once

#include <algorithm>
#include <any>
#include <locale>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "weft/codegen/expr/expr.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/graph.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

#define NNVM_REGISTER_OP(Name) WEFT_REGISTER_OP(Name)
#define NNVM_REGISTER_OP_GROUP(Name) WEFT_REGISTER_OP_GROUP(Name)
#define NNVM_REGISTER_PASS(Name) WEFT_REGISTER_PASS(Name)

namespace nnvm {

using weft::ApplyPass;
using weft::ApplyPasses;
using weft::FCodeGen;
using weft::FGradient;
using weft::Graph;
using weft::IndexedGraph;
using weft::kVarg;
using weft::Node;
using weft::NodeAttrs;
using weft::NodeEntry;
using weft::NodePtr;
using weft::Op;
using weft::OpMap;

using any = std::any;
template <class T>
T& get(any& a) {
  return std::any_cast<T&>(a);
}
template <class T>
const T& get(const any& a) {
  return std::any_cast<const T&>(a);
}

/// Calls f(const NodePtr&) for what `heads` reach, producers first.
template <class F>
void DFSVisit(const std::vector<NodeEntry>& heads, F f) {
  weft::DFSVisit(heads, f);
}
template <class F>
void DFSVisit(const weft::OutputList& heads, F f) {
  weft::DFSVisit(heads, f);
}

/// A node of operator `op` over `inputs`; attributes are strings, read by the operator's parser.
inline NodeEntry MakeNode(const char* op, std::string name, std::vector<NodeEntry> inputs = {},
                          std::unordered_map<std::string, std::string> attrs = {}) {
  weft::AttrDict dict;
  for (auto& [key, value] : attrs) dict[key] = value;  // AttrDict sorts: order does not matter
  return weft::MakeNode(op, std::move(name), inputs, std::move(dict));
}

// ---- abstract syntax trees of kernels ----

/// Handle to an expression; `ASTPtr(new FloatAST(1))` takes the expression out of its maker.
using ASTPtr = weft::Expr;

/// A literal. It takes the type of the other operand; the decimal that was written is kept (1e-8f
/// is 1e-8, in double too).
struct FloatAST : weft::ExprMaker {
  explicit FloatAST(float value) : ExprMaker(ASTPtr::Literal(Decimal(value))) {}

 private:
  static double Decimal(float v) {
    std::ostringstream shortest;
    shortest.imbue(std::locale::classic());
    for (int digits = 6; digits <= 9; ++digits) {
      shortest.str("");
      shortest.precision(digits);
      shortest << v;
      std::istringstream back(shortest.str());
      back.imbue(std::locale::classic());
      double d = 0;
      if (back >> d && float(d) == v) return d;
    }
    return double(v);  // infinities and NaN
  }
};
/// A named scalar, for text; a kernel has no such thing.
struct VariableAST : weft::ExprMaker {
  explicit VariableAST(std::string name) : ExprMaker(ASTPtr::Variable(std::move(name))) {}
};
/// '+', '-', '*' or '/' of two expressions.
struct BinaryAST : weft::ExprMaker {
  BinaryAST(char op, ASTPtr lhs, ASTPtr rhs) : ExprMaker(Make(op, lhs, rhs)) {}

 private:
  static ASTPtr Make(char op, const ASTPtr& a, const ASTPtr& b) {
    switch (op) {
      case '+':
        return a + b;
      case '-':
        return a - b;
      case '*':
        return a * b;
      case '/':
        return a / b;
      default:
        weft::ThrowError(weft::ErrorCode::kApiMisuse,
                         std::string("BinaryAST knows + - * /, not '") + op + "'");
    }
  }
};

// ---- symbols ----

/// Entries under composition. Symbols are made in the ambient graph of their thread, which lives as
/// long as one of them; those derived from others hold the graphs of these.
class Symbol {
 public:
  enum ListInputOption { kAll = 0, kReadOnlyArgs = 1, kAuxiliaryStates = 2 };
  std::vector<NodeEntry> outputs;

  Symbol() : stores_{weft::AmbientStore()} {}

  static Symbol CreateVariable(const std::string& name) {
    Symbol s;
    NodePtr n = Node::Create();
    n->attrs.name = name;
    s.outputs.emplace_back(n);
    return s;
  }
  /// An operator that waits for its inputs: see Compose.
  static Symbol CreateFunctor(const Op* op,
                              std::unordered_map<std::string, std::string> attrs = {}) {
    Symbol s;
    NodePtr n = Node::Create();
    n->attrs.op = op;
    for (auto& [key, value] : attrs) n->attrs.dict[key] = value;
    Parse(n);
    for (uint32_t i = 0; i < n->num_outputs(); ++i) s.outputs.emplace_back(n, i);
    return s;
  }
  static Symbol CreateGroup(const std::vector<Symbol>& symbols) {
    Symbol s;
    for (const Symbol& x : symbols) {
      s.outputs.insert(s.outputs.end(), x.outputs.begin(), x.outputs.end());
      s.Hold(x);
    }
    return s;
  }

  /// Gives a functor its inputs, by position and by name; names left
  /// open become variables `<name>_<input>`.
  void Compose(const std::vector<const Symbol*>& args,
               const std::unordered_map<std::string, const Symbol*>& kwargs,
               const std::string& name) {
    NodePtr n = outputs.empty() ? NodePtr() : outputs[0].node;
    if (!n || n->is_variable() || !n->inputs.empty())
      weft::ThrowError(weft::ErrorCode::kApiMisuse,
                       "only an operator without inputs can be composed");
    // Everything is checked first: a call that throws leaves the functor as it was.
    const std::vector<weft::ArgDoc>& declared = n->op()->inputs;
    std::vector<NodeEntry> inputs;
    for (const Symbol* a : args) inputs.push_back(a->Single());
    size_t used = 0;
    std::vector<std::pair<size_t, std::string>> open;  // inputs that become variables
    for (size_t i = inputs.size(); i < declared.size(); ++i) {
      auto it = kwargs.find(declared[i].name);
      if (it != kwargs.end()) {
        inputs.push_back(it->second->Single());
        ++used;
      } else if (!declared[i].optional && !declared[i].variadic) {
        open.emplace_back(inputs.size(), name + "_" + declared[i].name);
        inputs.emplace_back();
      }
    }
    if (used != kwargs.size())
      weft::ThrowError(weft::ErrorCode::kArity,
                       "operator '" + n->op()->name + "' has no input of one of the given names");
    const int got = int(inputs.size());
    const Op& op = *n->op();
    const int min = op.get_num_inputs ? int(op.get_num_inputs(n->attrs)) : op.min_inputs;
    const int max = op.get_num_inputs ? min : op.max_inputs;
    if (got < min || (max >= 0 && got > max))
      weft::ThrowError(weft::ErrorCode::kArity, "operator '" + op.name + "' takes " +
                                                    std::to_string(min) + " inputs, " +
                                                    std::to_string(got) + " given");
    for (const auto& [slot, variable] : open) inputs[slot] = CreateVariable(variable).outputs[0];
    n->inputs = inputs;
    n->attrs.name = name;
  }
  /// A composed copy of this functor.
  Symbol operator()(const std::vector<const Symbol*>& args,
                    const std::unordered_map<std::string, const Symbol*>& kwargs = {},
                    const std::string& name = "") const {
    Symbol s = Copy();
    s.Compose(args, kwargs, name);
    return s;
  }
  /// Copies every node that the outputs reach.
  Symbol Copy() const {
    std::unordered_map<Node*, NodePtr> twin;
    nnvm::DFSVisit(outputs, [&](const NodePtr& n) {
      NodePtr c = Node::Create();
      c->attrs = n->attrs;
      std::vector<NodeEntry> inputs;
      for (const NodeEntry& e : n->inputs)
        inputs.emplace_back(e.node ? twin.at(e.node.get()) : NodePtr(), e.index);
      c->inputs = inputs;
      for (Node* d : n->control_deps) c->control_deps.push_back(twin.at(d));
      twin[n.get()] = c;
    });
    Symbol s;
    for (const NodeEntry& e : outputs) s.outputs.emplace_back(twin.at(e.node.get()), e.index);
    return s;
  }
  Symbol operator[](size_t i) const {
    Symbol s;
    s.Hold(*this);
    s.outputs.push_back(outputs.at(i));
    return s;
  }
  /// Every entry that the outputs reach, producers first.
  Symbol GetInternals() const {
    Symbol s;
    s.Hold(*this);
    nnvm::DFSVisit(outputs, [&](const NodePtr& n) {
      for (uint32_t i = 0; i < n->num_outputs(); ++i) s.outputs.emplace_back(n, i);
    });
    return s;
  }
  std::vector<NodePtr> ListInputs(ListInputOption option = kAll) const {
    static const auto& mutates = Op::GetAttr<weft::FMutateInputs>("FMutateInputs");
    std::unordered_set<Node*> mutated;
    std::vector<NodePtr> all, out;
    nnvm::DFSVisit(outputs, [&](const NodePtr& n) {
      if (n->is_variable())
        all.push_back(n);
      else if (auto* f = mutates.find(n->op()))
        for (int i : (*f)(n)) mutated.insert(n->inputs.at(size_t(i)).node.get());
    });
    for (NodePtr n : all)
      if (option == kAll || (mutated.count(n.get()) != 0) == (option == kAuxiliaryStates))
        out.push_back(n);
    return out;
  }
  std::vector<std::string> ListInputNames(ListInputOption option = kAll) const {
    std::vector<std::string> names;
    for (NodePtr n : ListInputs(option)) names.push_back(n->attrs.name);
    return names;
  }
  std::vector<std::string> ListOutputNames() const {
    std::vector<std::string> names;
    for (const NodeEntry& e : outputs) {
      const std::string& base = e.node->attrs.name;
      names.push_back(e.node->is_variable()
                          ? base
                          : base + (e.node->num_outputs() > 1 ? "_output" + std::to_string(e.index)
                                                              : "_output"));
    }
    return names;
  }
  void SetAttrs(const std::vector<std::pair<std::string, std::string>>& attrs) {
    NodePtr n = Single().node;
    for (const auto& [key, value] : attrs) n->attrs.dict[key] = value;
    if (!n->is_variable()) Parse(n);
  }
  bool GetAttr(const std::string& key, std::string* out) const {
    const weft::AttrValue* v = Single().node->attrs.dict.find(key);
    if (v) *out = std::string(*v);
    return v != nullptr;
  }
  void AddControlDeps(const Symbol& before) {
    Single().node->control_deps.push_back(before.Single().node);
  }

 private:
  const NodeEntry& Single() const {
    if (outputs.size() != 1)
      weft::ThrowError(
          weft::ErrorCode::kApiMisuse,
          "a symbol with one output is needed, this one has " + std::to_string(outputs.size()));
    return outputs[0];
  }
  static void Parse(NodePtr n) { weft::ParseAttributes(*n); }
  void Hold(const Symbol& other) {
    for (const auto& store : other.stores_)
      if (std::find(stores_.begin(), stores_.end(), store) == stores_.end())
        stores_.push_back(store);
  }
  std::vector<std::shared_ptr<weft::GraphStore>> stores_;  ///< of the nodes of `outputs`
};

}  // namespace nnvm
