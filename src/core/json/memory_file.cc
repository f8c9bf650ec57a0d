/// memory_file.cc: problems of memory from JSON; see memory_file.h.
#include "weft/core/json/memory_file.h"

#include <algorithm>
#include <unordered_map>

#include "core/json/doc.h"
#include "weft/support/check.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

using Ref = JsonDoc::Ref;
using Kind = JsonDoc::Kind;

// A token of JsonDoc is 32 bytes: what may be read stays below 3 GiB.
constexpr size_t kMostBytes = size_t{1} << 29, kMostNodes = size_t{1} << 21;

class Reader {
 public:
  Reader(std::string_view text, const std::string& source) : doc_(text, source, 16) {}

  MemoryFile Read() {
    doc_.Expect(0, Kind::kObject, "an object with the key \"nodes\"");
    const auto nodes = doc_.Find(0, "nodes");
    if (!nodes) doc_.Fail(ErrorCode::kSyntax, "expected the key \"nodes\"", 0);
    doc_.Expect(*nodes, Kind::kArray, "the list of nodes");
    if (doc_.size(*nodes) > kMostNodes)
      doc_.Fail(ErrorCode::kLimit, fmt::format("more than {} nodes", kMostNodes), *nodes);
    for (Ref r = doc_.First(*nodes); r != doc_.End(*nodes); r = doc_.Next(r)) {
      if (names_.size() % 1024 == 0) RequestScope::Poll();
      ReadNode(r);
    }
    file_.names.resize(names_.size());
    for (const auto& [name, k] : names_) file_.names[size_t(k)] = name;
    return std::move(file_);
  }

 private:
  int64_t Amount(Ref r, const char* what) const {
    const int64_t v = doc_.Int(r, what);
    if (v < 0)
      doc_.Fail(ErrorCode::kInvalidModel, fmt::format("expected {} >= 0, got {}", what, v), r);
    return v;
  }
  bool Bool(Ref r, const char* what) const {
    if (doc_.is(r, Kind::kTrue)) return true;
    doc_.Expect(r, Kind::kFalse, what);
    return false;
  }

  /// "a" or "a:1", made by a node above.
  int Input(Ref r) const {
    std::string name = doc_.String(r, "the name of a node that is read");
    size_t output = 0;
    auto it = names_.find(name);
    // A name may have a colon in it.
    if (const size_t colon = name.rfind(':'); it == names_.end() && colon != std::string::npos)
      if (const auto index = TryParseInt64(name.substr(colon + 1)); index && *index >= 0) {
        output = size_t(*index);
        it = names_.find(name.substr(0, colon));
      }
    if (it == names_.end())
      doc_.Fail(ErrorCode::kInvalidModel,
                fmt::format("'{}' is not an output of a node above", name), r,
                "nodes stand in an order in which they can run; \"a:1\" is the second output of a");
    const auto& outputs = file_.problem.nodes[size_t(it->second)].outputs;
    if (output >= outputs.size())
      doc_.Fail(ErrorCode::kInvalidModel,
                fmt::format("'{}': {} has {} output(s)", name, it->first, outputs.size()), r);
    return outputs[output];
  }

  void ReadNode(Ref node) {
    doc_.Expect(node, Kind::kObject, "a node");
    const int index = int(names_.size());
    MemoryNode n;
    bool keep = false;
    std::string name;
    std::optional<Ref> inplace;
    std::vector<int64_t> bytes;
    for (Ref key = doc_.First(node); key != doc_.End(node);) {
      const Ref value = doc_.Next(key);
      const auto each = [&](const char* what, const auto& element) {
        doc_.Expect(value, Kind::kArray, what);
        for (Ref r = doc_.First(value); r != doc_.End(value); r = doc_.Next(r)) element(r);
      };
      if (doc_.Equals(key, "name"))
        name = doc_.String(value, "the name of a node");
      else if (doc_.Equals(key, "inputs"))
        each("a list of names", [&](Ref r) { n.inputs.push_back(Input(r)); });
      else if (doc_.Equals(key, "outputs"))
        each("a list of bytes", [&](Ref r) { bytes.push_back(Amount(r, "bytes")); });
      else if (doc_.Equals(key, "cost"))
        n.cost = Amount(value, "a cost");
      else if (doc_.Equals(key, "recompute"))
        n.recompute = Bool(value, "true or false");
      else if (doc_.Equals(key, "keep"))
        keep = Bool(value, "true or false");
      else if (doc_.Equals(key, "inplace"))
        inplace = value;
      else
        doc_.Fail(ErrorCode::kSyntax, fmt::format("unknown key \"{}\"", doc_.String(key, "a key")),
                  key, "a node has name, inputs, outputs, cost, inplace, recompute and keep");
      key = doc_.Next(value);
    }
    if (name.empty()) doc_.Fail(ErrorCode::kSyntax, "expected a node with a \"name\"", node);
    for (int64_t b : bytes) {
      n.outputs.push_back(int(file_.problem.values.size()));
      file_.problem.values.push_back({b, index, -1, keep});
    }
    if (inplace) ReadInplace(*inplace, &n);
    if (!names_.emplace(name, index).second)
      doc_.Fail(ErrorCode::kInvalidModel, fmt::format("a second node '{}'", name), node);
    file_.problem.nodes.push_back(std::move(n));
  }

  void ReadInplace(Ref list, MemoryNode* n) const {
    doc_.Expect(list, Kind::kArray, "a list of pairs [input, output]");
    for (Ref pair = doc_.First(list); pair != doc_.End(list); pair = doc_.Next(pair)) {
      doc_.Expect(pair, Kind::kArray, "a pair [input, output]");
      if (doc_.size(pair) != 2)
        doc_.Fail(ErrorCode::kSyntax, "expected a pair [input, output]", pair);
      const Ref first = doc_.First(pair), second = doc_.Next(first);
      const int64_t in = Amount(first, "an input"), out = Amount(second, "an output");
      if (size_t(in) >= n->inputs.size() || size_t(out) >= n->outputs.size())
        doc_.Fail(ErrorCode::kInvalidModel,
                  fmt::format("[{}, {}]: the node has {} input(s) and {} output(s)", in, out,
                              n->inputs.size(), n->outputs.size()),
                  pair);
      n->inplace.emplace_back(int(in), int(out));
    }
  }

  JsonDoc doc_;
  MemoryFile file_;
  std::unordered_map<std::string, int> names_;
};

}  // namespace

MemoryFile ParseMemoryFile(std::string_view text, const std::string& source) {
  WEFT_CHECK(text.size() <= kMostBytes, kLimit, "{}: more than {}", source,
             FormatBytes(int64_t(kMostBytes)));
  return Reader(text, source).Read();
}

}  // namespace weft
