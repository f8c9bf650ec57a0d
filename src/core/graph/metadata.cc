/// metadata.cc: the graph attribute "metadata". In text it is a list of strings, keys and values in
/// turn: the keys of a model are free text.
#include "weft/core/graph/metadata.h"

#include "core/text/value.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {

const ModelMetadata& Metadata(const Graph& graph) {
  static const ModelMetadata none;
  return graph.HasAttr("metadata") ? graph.GetAttr<ModelMetadata>("metadata") : none;
}

void SetMetadata(Graph* graph, ModelMetadata metadata) {
  if (metadata.empty()) return graph->DropAttr("metadata");
  graph->SetAttr("metadata", std::move(metadata));
}

namespace {

std::string MetadataText(const ModelMetadata& metadata) {
  Strings items;
  for (const auto& [key, value] : metadata) {
    items.push_back(key);
    items.push_back(value);
  }
  return AttrValue(std::move(items));
}

ModelMetadata ParseMetadata(const std::string& text) {
  TextCursor in(text, "metadata");
  const Strings items = ReadStringList(in);
  WEFT_CHECK(in.AtEnd() && items.size() % 2 == 0, kSyntax,
             "metadata is a list of keys and values in turn");
  ModelMetadata metadata;
  for (size_t i = 0; i < items.size(); i += 2) {
    WEFT_CHECK(metadata.emplace(items[i], items[i + 1]).second, kSyntax,
               "metadata has the key {} twice", Quote(items[i]));
  }
  return metadata;
}

}  // namespace

WEFT_REGISTER_GRAPH_ATTR(metadata, kGiven, ModelMetadata)
    .describe("what the author of the model says beside the graph: keys and values")
    .text(MetadataText, ParseMetadata);

}  // namespace weft
