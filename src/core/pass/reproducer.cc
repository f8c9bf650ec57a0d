/// reproducer.cc: see reproducer.h. Only the header is written and read here; the graph is text IR.
#include "weft/core/pass/reproducer.h"

#include "core/graph/attr_value.h"
#include "core/text/util.h"
#include "weft/core/module/plugin.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

constexpr const char* kNoPass = "(command)";

struct CheckName {
  const char* name;
  bool Checks::*field;
};
constexpr CheckName kChecks[] = {{"preserved", &Checks::preserved},
                                 {"changed", &Checks::changed},
                                 {"deterministic", &Checks::deterministic},
                                 {"equivalent", &Checks::equivalent}};

int64_t TensorBytes(const Graph& g) {
  int64_t bytes = 0;
  for (NodeId id = 0; id < g.id_bound(); ++id)
    if (NodePtr n = g.node(id))
      if (TensorPtr t = Graph::ConstantOf(NodeEntry(n))) bytes += t->num_bytes();
  return bytes;
}

/// A copy that holds the attributes that its text can hold: those with a text form, and of the
/// derived ones only those that are complete, since reading a part back would make it look whole.
Graph Printable(const Graph& graph, std::vector<std::string>* without) {
  Graph g = graph;
  std::vector<std::string> drop;
  for (const auto& [name, value] : g.attrs) {
    if (!value) continue;
    const AttrType* t = AttrTypeOf(name, value);
    const bool holes = t && t->kind == AttrKind::kDerived && !g.IsComplete(name);
    if (!t || !t->format || !t->parse || holes) drop.push_back(name);
  }
  for (const std::string& name : drop) g.DropAttr(name);
  *without = drop;
  return g;
}

/// A pipeline as it is, in quotes where an option's text would break the line.
std::string OnOneLine(const std::string& pipeline) {
  for (const char c : pipeline)
    if (static_cast<unsigned char>(c) < 0x20) return Quote(pipeline);
  return pipeline;
}

/// Reads what Quote writes, from the front of `in`.
std::string TakeQuoted(std::string_view* in, const std::string& where) {
  *in = Trim(*in);
  size_t end = 1;
  while (end < in->size() && (*in)[end] != '"') end += (*in)[end] == '\\' ? 2 : 1;
  const bool quoted = StartsWith(*in, "\"") && end < in->size();
  const auto text = quoted ? Unescape(in->substr(1, end - 1)) : std::nullopt;
  if (!text) ThrowError(ErrorCode::kSyntax, "expected text in double quotes in the header", where);
  in->remove_prefix(end + 1);
  return *text;
}

/// One line of the header into its field. Keys of later versions are passed over.
void ReadLine(std::string_view key, std::string_view value, const std::string& where,
              Reproducer* r) {
  auto text = [&] { return TakeQuoted(&value, where); };
  if (key == "error") {
    r->error = std::string(value);
  } else if (key == "message") {
    r->message = text();
  } else if (key == "place") {
    r->place = text();
  } else if (key == "rest") {
    r->rest = text();
  } else if (key == "weft") {
    r->version = text();
  } else if (key == "target") {
    r->options.target = text();
  } else if (key == "strict") {
    r->options.strict = value == "true";
  } else if (key == "fuel") {
    r->options.fuel = ParseInt64(value, "fuel");
  } else if (key == "limits") {
    r->options.limits = Limits::Parse(text());
  } else if (key == "skip") {
    r->options.skip.push_back(text());
  } else if (key == "check") {
    for (const CheckName& c : kChecks)
      if (value == c.name) r->options.checks.*c.field = true;
  } else if (key == "unavailable") {
    r->options.checks.equivalence_unavailable.push_back(text());
  } else if (key == "seed") {
    r->options.checks.seed = uint64_t(ParseInt64(value, "seed"));
  } else if (key == "plugin") {
    Reproducer::Plugin p;
    p.name = text();
    p.version = text();
    p.path = text();
    r->plugins.push_back(std::move(p));
  } else if (key == "argument") {
    r->arguments.push_back(text());
  } else if (key == "without") {
    r->without.push_back(text());
  } else if (key == "tensors") {
    r->tensors_by_hash = value == "hash";
  }
}

}  // namespace

std::string FormatReproducer(Reproducer r, const Graph* graph) {
  r.version = WEFT_VERSION;
  r.plugins.clear();
  for (const PluginInfo& p : LoadedPlugins()) r.plugins.push_back({p.name, p.version, p.path});
  Graph printable;
  if (graph) {
    printable = Printable(*graph, &r.without);
    r.tensors_by_hash = TensorBytes(printable) > kReproducerInlineBytes;
  }
  std::string out =
      fmt::format("// repro {}\n// error {}\n", r.pass.empty() ? kNoPass : OnOneLine(r.pass),
                  r.error.empty() ? "none" : r.error);
  auto line = [&](const char* key, const std::string& value) {
    out += fmt::format("// {} {}\n", key, Quote(value));
  };
  line("message", r.message);
  line("place", r.place);
  if (!r.rest.empty()) line("rest", r.rest);
  line("weft", r.version);
  line("target", r.options.target.name());
  out += fmt::format("// strict {}\n// fuel {}\n", r.options.strict, r.options.fuel);
  line("limits", r.options.limits.ToString());
  for (const std::string& s : r.options.skip) line("skip", s);
  for (const CheckName& c : kChecks)
    if (r.options.checks.*c.field) out += fmt::format("// check {}\n", c.name);
  for (const std::string& s : r.options.checks.equivalence_unavailable) line("unavailable", s);
  out += fmt::format("// seed {}\n", int64_t(r.options.checks.seed));
  for (const Reproducer::Plugin& p : r.plugins)
    out += fmt::format("// plugin {} {} {}\n", Quote(p.name), Quote(p.version), Quote(p.path));
  for (const std::string& s : r.arguments) line("argument", s);
  for (const std::string& s : r.without) line("without", s);
  if (r.tensors_by_hash) out += "// tensors hash\n";
  if (!graph) return out;
  PrintOptions print;
  print.inline_all = !r.tensors_by_hash;
  print.hidden_attributes = true;
  print.origins = true;
  return out + PrintGraph(printable, print);
}

Reproducer ParseReproducer(std::string_view text, const std::string& source_name) {
  Reproducer r;
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const bool comment = StartsWith(line, "//");
    if (number == 1)
      WEFT_CHECK(comment && StartsWith(Trim(line.substr(2)), "repro "), kSyntax,
                 "'{}' is not a reproducer: its first line does not say '// repro'", source_name);
    if (line.empty()) continue;
    if (!comment) {
      r.has_graph = true;
      break;
    }
    line = Trim(line.substr(2));
    const size_t blank = std::min(line.find(' '), line.size());
    const std::string_view key = line.substr(0, blank), value = Trim(line.substr(blank));
    if (number == 1) {
      std::string_view pass = value;
      if (StartsWith(pass, "\""))
        r.pass = TakeQuoted(&pass, source_name);
      else if (pass != kNoPass)
        r.pass = std::string(pass);
    } else {
      ReadLine(key, value, fmt::format("{}:{}", source_name, number), &r);
    }
  }
  WEFT_CHECK(number > 0, kSyntax, "'{}' is not a reproducer: it is empty", source_name);
  return r;
}

}  // namespace weft
