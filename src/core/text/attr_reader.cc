/// attr_reader.cc: reads `#name = text` into attribute values.
#include "attr_reader.h"

#include "core/graph/store.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"

namespace weft {

void GraphAttrReader::SetType(NodeEntry e, const TypeAndShape& t) {
  const bool is_op = !e.node->is_variable();
  if (t.type.known() || !t.type.is_tensor()) {
    types_.set(e, t.type);
    any_type_ = any_type_ || is_op;
  } else {
    missing_type_ = true;
  }
  if (t.shape.has_rank()) {
    shapes_.set(e, t.shape);
    any_shape_ = any_shape_ || is_op;
  }
  if (t.type.is_tensor() && !t.shape.fully_known()) missing_shape_ = true;
}

const AttrType& GraphAttrReader::ReadName(size_t at, std::string* name) {
  *name = std::string(in_.Name("the name of a graph attribute"));
  if (const AttrType* type = FindAttrType(*name)) return *type;
  std::vector<std::string> known;
  for (const AttrType* t : ListAttrTypes()) known.push_back(t->name);
  in_.Fail(ErrorCode::kSyntax, fmt::format("there is no graph attribute '{}'", *name), at,
           DidYouMean(*name, known));
}

void GraphAttrReader::ReadRows(Graph* g, NodePtr n) {
  while (in_.Peek() == '#') {
    in_.Advance(1);
    const size_t at = in_.pos();
    if (in_.AcceptWord("origin")) {
      in_.Expect('=', "after 'origin'");
      g->SetOrigin(n, std::make_shared<const std::vector<std::string>>(ReadStringList(in_)));
      continue;
    }
    std::string name;
    const AttrType& type = ReadName(at, &name);
    int64_t index = 0;
    if (in_.Here() == ':') {
      in_.Advance(1);
      index = in_.Integer("the number of an output after ':'");
    }
    if (type.scope == AttrScope::kGraph) {
      in_.Fail(ErrorCode::kSyntax, fmt::format("'{}' is an attribute of the whole graph", name),
               at);
    }
    if (index >= std::max(1u, n->num_outputs()) || (index && type.scope == AttrScope::kNode)) {
      in_.Fail(ErrorCode::kSyntax, fmt::format("there is no output {} here", index), at);
    }
    ReadValue(type, at, n->id(), uint32_t(index));
  }
}

void GraphAttrReader::ReadWhole() {
  while (in_.Peek() == '#') {
    in_.Advance(1);
    const size_t at = in_.pos();
    std::string name(in_.Name("the name of a graph attribute"));
    const size_t after_name = in_.pos();
    in_.Expect('=', "after the name of an attribute");
    if (in_.Peek() == kOpaqueText[0] && options_.allow_opaque) {
      in_.Expect(kOpaqueText, "");
      continue;
    }
    in_.Seek(at);
    const AttrType& type = ReadName(at, &name);
    in_.Seek(after_name);
    if (type.scope != AttrScope::kGraph && in_.Peek() == '=') {
      in_.Fail(ErrorCode::kSyntax,
               fmt::format("'{}' is an attribute of nodes, not of the graph", name), at);
    }
    ReadValue(type, at, 0, 0);
  }
}

void GraphAttrReader::ReadValue(const AttrType& type, size_t at, NodeId id, uint32_t index) {
  in_.Expect('=', "after the name of an attribute");
  bool opaque = false;
  const std::string text = ReadAttrText(in_, &opaque);
  if (opaque || !type.parse) {
    in_.Fail(ErrorCode::kSyntax, fmt::format("graph attribute '{}' has no text form", type.name),
             at);
  }
  std::any& value = attrs_[type.name];
  if (!value.has_value()) value = type.make();
  try {
    type.parse(value, id, index, text);
  } catch (const Error& e) {
    in_.Fail(e.code(), e.message(), at, e.hint());
  } catch (const std::exception& e) {
    // A parser that is another's code may throw what it likes, std::stoi for one.
    in_.Fail(ErrorCode::kSyntax,
             fmt::format("'{}' is not a value of '{}': {}", text, type.name, e.what()), at);
  }
}

void GraphAttrReader::Store(Graph* g) {
  (void)g->HasAttr("");  // new nodes count as edited; settled before the values come in
  const auto store = [g](const std::string& name, std::any value) {
    g->attrs[name] = std::make_shared<std::any>(std::move(value));
  };
  for (auto& [name, value] : attrs_) store(name, std::move(value));
  // Types of the variables alone are declarations, not the result of inference.
  if (any_type_) store("dtype", std::move(types_));
  if (any_shape_) store("shape", std::move(shapes_));
  if (any_type_ && missing_type_) g->store()->partial.insert("dtype");
  if (any_shape_ && missing_shape_) g->store()->partial.insert("shape");
}

}  // namespace weft
