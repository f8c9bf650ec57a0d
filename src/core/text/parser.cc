/// parser.cc: reads a graph from text (the form is described in text.h).
///
/// Recursive only over nested bodies, whose depth is bounded. Nodes are made in the order of the
/// text, so that the n-th node has the id n: attribute texts that name nodes rely on it.
#include <algorithm>
#include <unordered_map>

#include "attr_reader.h"
#include "lexer.h"
#include "placeholder.h"
#include "util.h"
#include "value.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/value_name.h"
#include "weft/core/op/op.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// Whatever the caller allows: the reader recurses over nested bodies, and what is deeper
/// could not be printed.
constexpr int kMaxNesting = 200;

/// What all graphs of one text share.
struct ParseState {
  TextCursor in;
  const ParseOptions& options;
  TextCache cache;
  std::unordered_map<std::string_view, const Op*> ops;
};

/// Reads one graph: "@name<symbols>(..) -> (..) {..}" and its attributes.
class GraphParser {
 public:
  GraphParser(ParseState* state, int depth)
      : s_(*state), in_(state->in), depth_(depth), attrs_(&state->in, state->options) {
    const int deepest = std::min(s_.options.max_depth, kMaxNesting);
    if (depth > deepest)
      in_.Fail(ErrorCode::kLimit, fmt::format("graphs are nested deeper than {}", deepest),
               in_.pos());
  }

  Graph Parse() {
    if (in_.Accept('@')) g_.set_name(std::string(in_.Name("the name of the graph")));
    if (in_.Accept('<')) ReadSymbols();
    ReadVariables();
    in_.Expect("->", "before the outputs");
    ReadOutputNames();
    in_.Expect('{', "before the nodes");
    while (!in_.Accept('}')) ReadNode();
    SetOutputs();
    attrs_.ReadWhole();
    attrs_.Store(&g_);
    return std::move(g_);
  }

 private:
  struct OutputText {
    size_t begin;
    std::string name;
    bool named;
  };
  /// Where a node's name stands, and what it is.
  struct NameText {
    std::string_view key, name;  ///< key: how it is found; name: of the node, empty for a number
    int64_t index;               ///< after ':', else -1
    size_t at;
  };

  void ReadSymbols() {
    while (!in_.Accept('>')) {
      in_.Name("a symbol");
      if (!in_.Accept(',') && in_.Peek() != '>')
        in_.FailExpected("',' or '>' in the list of symbols");
    }
  }

  NameText ReadName() {
    NameText n{{}, {}, -1, 0};
    in_.Expect('%', "before the name of a node");
    n.at = in_.pos() - 1;
    const char c = in_.Here();
    if (c >= '0' && c <= '9') {
      const size_t begin = in_.pos();
      while (in_.Here() >= '0' && in_.Here() <= '9') in_.Advance(1);
      n.key = in_.Slice(begin, in_.pos());
    } else {
      const bool quoted = c == '"';
      const size_t begin = in_.pos();
      n.name = n.key = in_.Name("the name of a node");
      // A quoted name keeps its quotes as a key, so that "0" is no number; %"a" and %a are one.
      if (quoted && !IsPlainName(n.name)) n.key = in_.Slice(begin, in_.pos());
    }
    return n;
  }

  void ReadIndex(NameText* n) {
    if (in_.Here() != ':') return;
    in_.Advance(1);
    n->index = in_.Integer("the number of an output after ':'");
  }

  void Define(const NameText& name, NodeEntry entry) {
    if (!names_.emplace(name.key, entry).second) {
      in_.Fail(ErrorCode::kInvalidModel, fmt::format("%{} is defined twice", name.key), name.at);
    }
  }

  NodeEntry ReadOperand() {
    if (in_.AcceptWord("_")) return NodeEntry();
    NameText n = ReadName();
    ReadIndex(&n);
    const auto it = names_.find(n.key);
    if (it == names_.end()) {
      std::vector<std::string> known;
      for (const auto& [key, entry] : names_) known.emplace_back(key);
      in_.Fail(ErrorCode::kInvalidModel, fmt::format("%{} is not defined before this place", n.key),
               n.at, DidYouMean(n.key, known));
    }
    if (n.index < 0) return it->second;
    const NodePtr node = it->second.node;
    if (it->second.index != 0 || n.index >= node->num_outputs()) {
      in_.Fail(ErrorCode::kInvalidModel, fmt::format("%{} has no output {}", n.key, n.index), n.at);
    }
    return NodeEntry(node, uint32_t(n.index));
  }

  void ReadVariables() {
    in_.Expect('(', "before the inputs");
    std::vector<NodePtr> inputs;
    bool first = true;
    while (!in_.Accept(')')) {
      if (!first) in_.Expect(',', "between inputs");
      first = false;
      const NameText name = ReadName();
      in_.Expect(':', "before a type");
      const TypeAndShape type = ReadType(in_, &s_.cache);
      const bool is_param = in_.AcceptWord("param"), is_free = !is_param && in_.AcceptWord("free");
      TensorPtr value;
      if (is_param || in_.Peek() == '=') {
        in_.Expect('=', "before the value of a parameter");
        value = ReadTensorData(in_, type, s_.options);
      }
      NodePtr n = value ? g_.AddParam(std::string(name.name), value)
                        : g_.AddInput(std::string(name.name), type.type, type.shape);
      Define(name, {n, 0});
      if (in_.Peek() == '{') {
        for (auto& [key, v] : ReadDict()) n->attrs.dict[key] = v;
      }
      attrs_.SetType({n, 0}, type);
      attrs_.ReadRows(&g_, n);
      if (!is_param && !is_free) inputs.push_back(n);
    }
    g_.SetInputs(inputs);
  }

  /// Outputs name nodes that come later: their text is kept and resolved at the end.
  void ReadOutputNames() {
    in_.Expect('(', "before the outputs");
    bool first = true;
    while (!in_.Accept(')')) {
      if (!first) in_.Expect(',', "between outputs");
      first = false;
      in_.SkipSpace();
      OutputText o{in_.pos(), {}, false};
      if (!in_.AcceptWord("_")) {
        NameText n = ReadName();
        ReadIndex(&n);
      }
      if (in_.AcceptWord("as")) {
        o.name = in_.QuotedString("the name of an output in quotes");
        o.named = true;
      }
      outputs_.push_back(std::move(o));
    }
  }

  void SetOutputs() {
    const size_t end = in_.pos();
    std::vector<NodeEntry> entries;
    for (const OutputText& o : outputs_) {
      in_.Seek(o.begin);
      entries.push_back(ReadOperand());
      if (!entries.back().node)
        in_.Fail(ErrorCode::kInvalidModel, "an output cannot be absent", o.begin);
    }
    in_.Seek(end);
    g_.outputs = entries;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].named) g_.SetOutputName(i, std::move(outputs_[i].name));
    }
  }

  void ReadNode() {
    RequestScope::Poll();
    in_.SkipSpace();
    const size_t at = in_.pos();
    std::vector<NameText> names;
    do {
      names.push_back(ReadName());
      ReadIndex(&names.back());
    } while (in_.Accept(','));
    in_.Expect('=', "after the name of a node");
    in_.SkipSpace();
    const size_t op_at = in_.pos();
    const std::string_view op_name = in_.Name("an operator", true);
    const Op* op = FindOp(op_name, names.size(), op_at);
    in_.Expect('(', "before the operands");
    operands_.clear();
    while (!in_.Accept(')')) {
      if (!operands_.empty()) in_.Expect(',', "between operands");
      operands_.push_back(ReadOperand());
    }
    AttrDict dict;
    if (in_.Peek() == '{') dict = ReadDict();
    if (in_.AcceptWord("body")) dict["body"] = ReadNested();
    NodePtr n;
    try {
      n = g_.AddNode(op, operands_, std::move(dict), std::string(names[0].name));
    } catch (Error& e) {
      e.AddPlace(in_.Place(at));
      throw;
    }
    DefineOutputs(names, n);
    if (in_.AcceptWord("after")) ReadControl(n);
    ReadTypes(n);
    attrs_.ReadRows(&g_, n);
  }

  void DefineOutputs(const std::vector<NameText>& names, NodePtr n) {
    const uint32_t count = n->num_outputs();
    if (names.size() != std::max(1u, count)) {
      in_.Fail(
          ErrorCode::kArity,
          fmt::format("{} has {} outputs, {} names are given", n->op()->name, count, names.size()),
          names[0].at);
    }
    for (uint32_t k = 0; k < names.size(); ++k) {
      const bool is_first = names[k].key == names[0].key;
      if (k == 0 || !is_first) {
        if (names[k].index > 0)
          in_.Fail(ErrorCode::kSyntax, "the outputs of a node are %n, %n:1, %n:2 ...", names[k].at);
        Define(names[k], {n, k});
        if (k > 0 && !names[k].name.empty()) SetValueName(&g_, {n, k}, std::string(names[k].name));
      } else if (names[k].index != int64_t{k}) {
        in_.Fail(ErrorCode::kSyntax,
                 fmt::format("expected '%{}:{}' for output {}", names[0].key, k, k), names[k].at);
      }
    }
  }

  const Op* FindOp(std::string_view name, size_t num_outputs, size_t at) {
    const auto it = s_.ops.find(name);
    if (it != s_.ops.end()) return it->second;
    if (const Op* op = Op::Find(name)) return s_.ops.emplace(name, op).first->second;
    if (s_.options.allow_unknown) return PlaceholderOp(name, int(num_outputs));
    std::vector<std::string> known;
    for (const Op* op : Op::List()) known.push_back(op->name);
    std::string hint = DidYouMean(name, known);
    in_.Fail(ErrorCode::kUnknownOp, fmt::format("there is no operator '{}'", name), at,
             hint.empty() ? "a plugin that defines it may not be loaded" : std::move(hint));
  }

  void ReadControl(NodePtr n) {
    in_.Expect('(', "after 'after'");
    do {
      const NodeEntry e = ReadOperand();
      if (!e.node) in_.FailExpected("a node");
      n->control_deps.push_back(e.node);
    } while (in_.Accept(','));
    in_.Expect(')', "after the nodes to wait for");
  }

  void ReadTypes(NodePtr n) {
    if (!in_.Accept(':')) return;
    const size_t at = in_.pos();
    uint32_t k = 0;
    do {
      const TypeAndShape type = ReadType(in_, &s_.cache);
      if (k < n->num_outputs()) attrs_.SetType({n, k}, type);
      ++k;
    } while (in_.Accept(','));
    if (k != n->num_outputs()) {
      in_.Fail(ErrorCode::kSyntax, fmt::format("{} types for {} outputs", k, n->num_outputs()), at);
    }
  }

  AttrDict ReadDict() {
    return ReadAttrDict(in_, &s_.cache, s_.options, [this] { return ReadNested(); });
  }

  GraphPtr ReadNested() {
    return std::make_shared<const Graph>(GraphParser(&s_, depth_ + 1).Parse());
  }

  ParseState& s_;
  TextCursor& in_;
  const int depth_;
  Graph g_;
  std::unordered_map<std::string_view, NodeEntry> names_;
  std::vector<OutputText> outputs_;
  std::vector<NodeEntry> operands_;
  GraphAttrReader attrs_;
};

}  // namespace

Graph ParseGraph(std::string_view text, const ParseOptions& options) {
  ParseState state{TextCursor(text, options.source_name), options, {}, {}};
  TextCursor& in = state.in;
  in.SkipSpace();
  const size_t at = in.pos();
  if (!in.AcceptWord("weft")) in.FailExpected("'weft 1'");
  const int64_t version = in.Integer("the version of the text form");
  if (version != 1)
    in.Fail(ErrorCode::kSyntax,
            fmt::format("version {} of the text form is not known, only 1", version), at);
  if (!in.AcceptWord("graph")) in.FailExpected("'graph'");
  Graph g = GraphParser(&state, 0).Parse();
  if (!in.AtEnd()) in.FailExpected("the end of the text");
  return g;
}

Graph ParseGraph(std::string_view text, const std::string& source_name) {
  ParseOptions options;
  options.source_name = source_name;
  return ParseGraph(text, options);
}

}  // namespace weft
