/// registry.cc: the table of passes, registration statements, and pipelines as text.
#include <dmlc/registry.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <memory>

#include "core/graph/attr_providers.h"
#include "resolve.h"
#include "weft/core/op/staging.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace dmlc {
DMLC_REGISTRY_ENABLE(::weft::PassEntry);
}

namespace weft {
namespace {

/// Passes that replaced others. Entries are handed out by pointer and may be running: what was
/// there before stays as it is, and the name points at another from then on.
struct Replacements {
  std::deque<PassEntry> entries;
  std::map<std::string, const PassEntry*> current;
};
Replacements& Table() {
  static Replacements* table = new Replacements;  // outlives every static object that registers
  return *table;
}

/// dmlc's table forgets nothing: a pass that was taken back stays in it without a body.
const PassEntry* Lookup(const std::string& name) {
  if (auto it = Table().current.find(name); it != Table().current.end()) return it->second;
  const PassEntry* p = dmlc::Registry<PassEntry>::Find(name);
  return p && p->body ? p : nullptr;
}

}  // namespace

const PassEntry* PassEntry::Find(std::string_view name) {
  CheckRegistrations();
  RegistryRead lock;
  return Lookup(std::string(name));
}
std::vector<const PassEntry*> PassEntry::List() {
  RegistryRead lock;
  std::vector<const PassEntry*> list;
  for (const PassEntry* p : dmlc::Registry<PassEntry>::List())
    if (const PassEntry* current = Lookup(p->name)) list.push_back(current);
  std::sort(list.begin(), list.end(),
            [](const PassEntry* a, const PassEntry* b) { return a->name < b->name; });
  return list;
}
const PassEntry* PassEntry::Get(std::string_view name) {
  if (const PassEntry* p = Find(name)) return p;
  std::vector<std::string> names;
  for (const PassEntry* p : List()) names.push_back(p->name);
  std::string near;
  for (const std::string& n : NearestNames(std::string(name), names))
    near += (near.empty() ? "did you mean " : " or ") + n;
  if (near.empty()) near = "weft --list-passes names all that are registered";
  ThrowError(ErrorCode::kUnknownPass, fmt::format("no pass '{}' is registered", name), "", near);
}

NamedDocs PassEntry::AllStatistics() const {
  NamedDocs all = statistics;
  if (listed_counts)
    for (auto& [statistic, doc] : listed_counts()) all.emplace_back(statistic, doc);
  return all;
}

// ---- registration statements ----

PassBuilder::PassBuilder(std::string name, Owner owner) {
  entry_.name = std::move(name);
  entry_.owner = std::move(owner);
}
PassBuilder& PassBuilder::describe(std::string doc) {
  entry_.description = std::move(doc);
  return *this;
}
PassBuilder& PassBuilder::set_pass_body(PassBody body) {
  entry_.body = std::move(body);
  return *this;
}
PassBuilder& PassBuilder::set_change_graph(bool changes) {
  entry_.changes_graph = changes;
  return *this;
}
PassBuilder& PassBuilder::depend_graph_attr(std::string n) {
  entry_.depends.push_back(std::move(n));
  return *this;
}
PassBuilder& PassBuilder::provide_graph_attr(std::string n) {
  entry_.provides.push_back(std::move(n));
  return *this;
}
PassBuilder& PassBuilder::preserve_graph_attr(std::string n) {
  entry_.preserves.push_back(std::move(n));
  return *this;
}
PassBuilder& PassBuilder::preserve_all() {
  entry_.preserves_all = true;
  return *this;
}
PassBuilder& PassBuilder::depend_op_attr(std::string n) {
  entry_.depends_op.push_back(std::move(n));
  return *this;
}
PassBuilder& PassBuilder::add_option(Option def, std::string doc) {
  entry_.options.emplace_back(std::move(def), std::move(doc));
  return *this;
}
PassBuilder& PassBuilder::statistic(std::string n, std::string doc) {
  entry_.statistics.emplace_back(std::move(n), std::move(doc));
  return *this;
}
PassBuilder& PassBuilder::statistics(std::function<NamedDocs()> list) {
  entry_.listed_counts = std::move(list);
  return *this;
}
PassBuilder& PassBuilder::report(std::string column, std::string doc) {
  entry_.report.emplace_back(std::move(column), std::move(doc));
  return *this;
}
PassBuilder& PassBuilder::rewrite(std::string n, std::string doc) {
  entry_.rewrites.emplace_back(std::move(n), std::move(doc));
  return *this;
}
PassBuilder& PassBuilder::any_name() {
  entry_.any_name = true;
  return *this;
}
PassBuilder& PassBuilder::plevel(int level) {
  entry_.plevel = level;
  return *this;
}
PassBuilder& PassBuilder::result(PassResult r) {
  entry_.result = r;
  return *this;
}
PassBuilder& PassBuilder::enters_bodies() {
  entry_.enters_bodies = true;
  return *this;
}
PassBuilder& PassBuilder::keeps_onnx() {
  entry_.keeps_onnx = true;
  return *this;
}
PassBuilder& PassBuilder::fuses(std::vector<Option> unfused) {
  entry_.fuses = true;
  entry_.unfused = std::move(unfused);
  return *this;
}
PassBuilder& PassBuilder::override_pass() {
  entry_.override_declared = true;
  return *this;
}

namespace {

/// Nothing has seen a pass of a transaction that fails: its place may be written again.
void AddEntry(const PassEntry& entry) {
  PassEntry* slot = &dmlc::Registry<PassEntry>::Get()->__REGISTER_OR_GET__(entry.name);
  PassEntry empty;
  empty.name = entry.name;
  OnRollback([slot, empty]() mutable { *slot = std::move(empty); });
  *slot = entry;
}

void ReplaceEntry(const PassEntry& entry) {
  Replacements& t = Table();
  const auto it = t.current.find(entry.name);
  const PassEntry* before = it == t.current.end() ? nullptr : it->second;
  OnRollback([&t, name = entry.name, size = t.entries.size(), before] {
    while (t.entries.size() > size) t.entries.pop_back();
    if (before)
      t.current[name] = before;  // is there: needs no memory
    else
      t.current.erase(name);
  });
  t.entries.push_back(entry);
  t.current[entry.name] = &t.entries.back();
}

}  // namespace

void PassBuilder::Commit() {
  WEFT_CHECK(entry_.body != nullptr, kApiMisuse, "pass '{}' of {} has no body", entry_.name,
             entry_.owner.ToString());
  RegistryTransaction([this] {
    PassEntry entry = entry_;
    entry.owner.module = RegisteringModule(entry.owner.module);
    const PassEntry* old = Lookup(entry.name);
    if (old && !entry.override_declared)
      ThrowError(ErrorCode::kDuplicate,
                 fmt::format("pass '{}' is registered twice: by {} and by {}", entry.name,
                             old->owner.ToString(), entry.owner.ToString()),
                 "", "a pass that means to replace another declares override_pass()");
    if (old)
      ReplaceEntry(entry);
    else
      AddEntry(entry);
    NoteRegistration("pass", entry.name);
  });
}
RegisteredPass::RegisteredPass(PassBuilder& builder) {
  auto kept = std::make_shared<PassBuilder>(std::move(builder));
  CommitRegistration([kept] { kept->Commit(); });
}

// ---- pipelines as text ----

namespace {

std::string OptionText(const OptionValue& v) {
  struct Visit {
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return fmt::format("{}", i); }
    std::string operator()(double d) const {
      std::string s = FormatDouble(d);
      return s.find_first_of(".einf") == std::string::npos ? s + ".0" : s;
    }
    std::string operator()(const std::string& s) const {
      std::string out = "\"";
      for (char c : s) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
      }
      return out + '"';
    }
  };
  return std::visit(Visit(), v);
}

/// Recursive-descent over `Name{a=1,b="x"},Name`: two levels, no recursion needed.
class PipelineParser {
 public:
  explicit PipelineParser(std::string_view text) : text_(text) {}
  Pipeline Parse() {
    Pipeline p;
    Space();
    if (at_ == text_.size()) return p;
    while (true) {
      PassSpec spec{Word("a pass name")};
      if (Eat('{')) {
        if (!Eat('}')) {
          do {
            std::string name = Word("an option name");
            Expect('=');
            spec.options.push_back(ParseValue(std::move(name)));
          } while (Eat(','));
          Expect('}');
        }
      }
      p.push_back(std::move(spec));
      if (at_ == text_.size()) return p;
      Expect(',');
    }
  }

 private:
  [[noreturn]] void Fail(const std::string& wanted) {
    WEFT_THROW(kSyntax, "pipeline: expected {} at column {}, got {}\n  {}\n  {}^", wanted, at_ + 1,
               at_ < text_.size() ? fmt::format("'{}'", text_[at_]) : "the end", text_,
               std::string(at_, ' '));
  }
  void Space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  bool Eat(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    Space();
    return true;
  }
  void Expect(char c) {
    if (!Eat(c)) Fail(fmt::format("'{}'", c));
  }
  /// `more`: characters that it may hold beside letters, digits and "_:-.+".
  std::string Word(const char* what, std::string_view more = {}) {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (isalnum(static_cast<unsigned char>(text_[at_])) ||
            std::string_view("_:-.+").find(text_[at_]) != std::string_view::npos ||
            more.find(text_[at_]) != std::string_view::npos))
      ++at_;
    if (at_ == begin) Fail(what);
    std::string w(text_.substr(begin, at_ - begin));
    Space();
    return w;
  }
  Option ParseValue(std::string name) {
    if (at_ < text_.size() && text_[at_] == '"') {
      std::string s;
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
        s += text_[at_];
      }
      Expect('"');
      return Option(std::move(name), std::move(s));
    }
    const std::string w = Word("a value", ";=|/");  // lists, options of what is named, paths
    if (w == "true") return Option(std::move(name), true);
    if (w == "false") return Option(std::move(name), false);
    int64_t i;
    if (auto r = std::from_chars(w.data(), w.data() + w.size(), i);
        r.ec == std::errc() && r.ptr == w.data() + w.size())
      return Option(std::move(name), i);
    double d;
    if (auto r = std::from_chars(w.data(), w.data() + w.size(), d);
        r.ec == std::errc() && r.ptr == w.data() + w.size())
      return Option(std::move(name), d);
    return Option(std::move(name), w);
  }
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Pipeline Pipeline::Parse(std::string_view text) { return PipelineParser(text).Parse(); }

std::string Pipeline::ToString() const {
  std::string out;
  for (const PassSpec& p : passes_) {
    if (!out.empty()) out += ',';
    out += p.name;
    if (p.options.empty()) continue;
    out += '{';
    for (size_t i = 0; i < p.options.size(); ++i)
      out += (i ? "," : "") + p.options[i].name + "=" + OptionText(p.options[i].value);
    out += '}';
  }
  return out;
}

namespace {

using Providers = std::map<std::string, std::vector<const PassEntry*>, std::less<>>;

/// By attribute. Graphs of one node ask for types as well, some hundred times a run.
std::shared_ptr<const Providers> AllProviders() {
  static DerivedFromRegistries<Providers> known;
  return known.Get([] {
    auto found = std::make_shared<Providers>();
    for (const PassEntry* p : PassEntry::List())
      for (const std::string& attribute : p->provides) (*found)[attribute].push_back(p);
    return found;
  });
}

}  // namespace

std::vector<const PassEntry*> ProvidersOf(std::string_view attribute) {
  const auto all = AllProviders();
  const auto it = all->find(attribute);
  return it == all->end() ? std::vector<const PassEntry*>() : it->second;
}
std::string PassesThatProvide(std::string_view attribute) {
  std::vector<std::string> names;
  for (const PassEntry* p : ProvidersOf(attribute)) names.push_back(p->name);
  return Join(names, ", ");
}

}  // namespace weft
