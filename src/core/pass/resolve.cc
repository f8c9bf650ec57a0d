/// resolve.cc: see resolve.h.
#include "resolve.h"

#include <algorithm>
#include <functional>

#include "weft/core/graph/graph_attr.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"

namespace weft {

bool Contains(const std::vector<std::string>& v, const std::string& s) {
  return std::find(v.begin(), v.end(), s) != v.end();
}

const PassEntry& BestOf(const std::vector<const PassEntry*>& providers, const std::string& attr,
                        const std::string& needed_by) {
  if (providers.size() == 1) return *providers[0];
  std::vector<const PassEntry*> best;
  for (const PassEntry* p : providers) {
    if (!best.empty() && p->plevel > best[0]->plevel) best.clear();
    if (best.empty() || p->plevel == best[0]->plevel) best.push_back(p);
  }
  WEFT_CHECK(!best.empty(), kDependency,
             "pass '{}' requires the graph attribute '{}', which no pass provides", needed_by,
             attr);
  if (best.size() > 1) {
    std::string names;
    for (const PassEntry* p : best)
      names += (names.empty() ? "" : ", ") + p->name + " of " + p->owner.ToString();
    ThrowError(ErrorCode::kDependency,
               fmt::format("pass '{}' requires the graph attribute '{}', which several passes of "
                           "equal priority provide: {}",
                           needed_by, attr, names),
               "", "run the one you want first, or give it a higher plevel");
  }
  return *best[0];
}

OptionValues ResolveOptions(const PassEntry& pass, const std::vector<Option>& given) {
  OptionValues values;
  for (const auto& [option, doc] : pass.options) values[option.name] = option.value;
  for (const Option& o : given) {
    auto it = values.find(o.name);
    if (it == values.end()) {
      std::vector<std::string> names;
      for (const auto& [option, doc] : pass.options) names.push_back(option.name);
      std::string hint;
      for (const std::string& n : NearestNames(o.name, names))
        hint += (hint.empty() ? "did you mean " : " or ") + n;
      ThrowError(ErrorCode::kUnknownOption,
                 fmt::format("pass '{}' has no option '{}'", pass.name, o.name), "", hint);
    }
    if (o.value.index() == it->second.index()) {
      it->second = o.value;
    } else if (std::holds_alternative<double>(it->second) &&
               std::holds_alternative<int64_t>(o.value)) {
      it->second = double(std::get<int64_t>(o.value));
    } else if (std::holds_alternative<std::string>(it->second) &&
               std::holds_alternative<int64_t>(o.value)) {
      it->second = std::to_string(std::get<int64_t>(o.value));  // text that may be a number
    } else {
      static constexpr const char* kTypes[] = {"true or false", "an integer", "a number", "text"};
      WEFT_THROW(kUnknownOption, "option '{}' of pass '{}' takes {}, {} was given", o.name,
                 pass.name, kTypes[it->second.index()], kTypes[o.value.index()]);
    }
  }
  return values;
}

Pipeline ResolvePipeline(const Graph& graph, const Pipeline& pipeline, const PassOptions& options) {
  // Walks the declarations only: a pass that changes the graph leaves what
  // it preserves and provides.
  std::vector<std::string> have;
  for (const auto& [name, value] : graph.attrs)
    if (value && graph.IsComplete(name)) have.push_back(name);
  Pipeline out;
  std::function<void(const PassSpec&, int)> add = [&](const PassSpec& spec, int depth) {
    const PassEntry& pass = *PassEntry::Get(spec.name);
    WEFT_CHECK(depth < 64, kDependency, "passes need each other in a circle at '{}'", spec.name);
    for (const std::string& attr : pass.depends) {
      if (Contains(have, attr)) continue;
      WEFT_CHECK(!options.strict, kDependency,
                 "pass '{}' requires the graph attribute '{}' (strict mode)", pass.name, attr);
      add(PassSpec(BestOf(ProvidersOf(attr), attr, pass.name).name), depth + 1);
    }
    out.push_back(spec);
    if (pass.changes_graph && !pass.preserves_all)
      have.erase(std::remove_if(have.begin(), have.end(),
                                [&](const std::string& a) {
                                  const AttrType* t = FindAttrType(a);
                                  return !(t && t->kind == AttrKind::kGiven) &&
                                         !Contains(pass.preserves, a);
                                }),
                 have.end());
    for (const std::string& a : pass.provides)
      if (!Contains(have, a)) have.push_back(a);
  };
  for (const PassSpec& spec : pipeline.passes()) add(spec, 0);
  return out;
}

}  // namespace weft
