/// manager.cc: ApplyPasses. The manager holds the discipline, so that authors of passes cannot
/// forget it: it runs what provides a missing attribute (resolve.h), minds the life of
/// attributes, verifies, checks claims, dumps, counts and times.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <new>
#include <optional>
#include <regex>
#include <set>
#include <stdexcept>
#include <utility>

#include "checks.h"
#include "core/graph/attr_value.h"
#include "core/graph/claims.h"
#include "resolve.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/operands.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"
#include "weft/core/pass/pass_trace.h"
#include "weft/core/pass/provide.h"
#include "weft/core/pass/reproducer.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/log.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace weft {

namespace {

bool ThrowsFaults(const PassOptions& options) {
  if (options.faults != FaultPolicy::kDefault) return options.faults == FaultPolicy::kThrow;
  const char* said = std::getenv("WEFT_FAULTS");
  return said && std::string_view(said) == "throw";
}

class Context final : public PassContext {
 public:
  Context(const PassEntry& pass, OptionValues values, const PassOptions& options,
          bool throws_faults, int64_t* fuel, PassRecord* record, PassTrace* trace)
      : pass_(pass),
        values_(std::move(values)),
        options_(options),
        throws_faults_(throws_faults),
        fuel_(fuel),
        record_(record),
        trace_(trace) {}
  const PassEntry& pass() const override { return pass_; }
  const OptionValue& Value(std::string_view name) const override {
    auto it = values_.find(name);
    WEFT_ICHECK(it != values_.end(), "pass '{}' reads the undeclared option '{}'", pass_.name,
                name);
    return it->second;
  }
  const Target& target() const override { return options_.target; }
  const Limits& limits() const override { return options_.limits; }
  const CancelToken& cancel() const override { return options_.cancel; }
  bool Fuel(std::string_view rewrite, const NodePtr& node) override {
    RequestScope::Poll();
    if (ChecksNames() && !IsDeclared(rewrite) && !Has(pass_.rewrites, rewrite))
      ThrowUndeclared("asks fuel for", rewrite, ".statistic or .rewrite");
    if (*fuel_ == 0) return false;
    if (*fuel_ > 0) --*fuel_;
    if (trace_) trace_->Rewrite(pass_, rewrite, node);
    return true;
  }
  void Count(std::string_view statistic, int64_t n) override {
    if (ChecksNames() && !IsDeclared(statistic)) ThrowUndeclared("counts", statistic, ".statistic");
    record_->statistics[std::string(statistic)] += n;
  }
  void Report(std::vector<OptionValue> cells) override {
    WEFT_ICHECK(cells.size() == pass_.report.size(),
                "pass '{}' reports {} cells and declares {} columns", pass_.name, cells.size(),
                pass_.report.size());
    record_->report.push_back(std::move(cells));
  }
  void Warn(std::string message) override {
    WEFT_LOG(kWarning, "pass {}: {}", pass_.name, message);
    record_->warnings.push_back(std::move(message));
  }
  void Fault(std::string message) override {
    if (throws_faults_) throw InternalError(ErrorCode::kInternal, std::move(message));
    WEFT_LOG(kError, "pass {}: {}", pass_.name, message);
    record_->faults.push_back(std::move(message));
  }

 private:
#ifdef NDEBUG
  static constexpr bool kDebug = false;
#else
  static constexpr bool kDebug = true;
#endif
  static bool Has(const NamedDocs& names, std::string_view name) {
    return std::any_of(names.begin(), names.end(), [&](const auto& n) { return n.first == name; });
  }
  bool IsDeclared(std::string_view statistic) {
    if (declared_.empty()) declared_ = pass_.AllStatistics();
    return Has(declared_, statistic);
  }
  [[noreturn]] void ThrowUndeclared(const char* does, std::string_view name, const char* how) {
    NamedDocs known = declared_;
    known.insert(known.end(), pass_.rewrites.begin(), pass_.rewrites.end());
    std::string list;
    for (const auto& [n, doc] : known) list += (list.empty() ? "" : ", ") + n;
    ThrowError(
        ErrorCode::kInternal,
        fmt::format("pass '{}' {} '{}', which it does not declare", pass_.name, does, name), "",
        fmt::format("register it with {}; declared: {}", how, list.empty() ? "nothing" : list));
  }
  bool ChecksNames() const { return !pass_.any_name && (kDebug || throws_faults_); }

  const PassEntry& pass_;
  OptionValues values_;
  const PassOptions& options_;
  const bool throws_faults_;
  int64_t* fuel_;
  PassRecord* record_;
  PassTrace* trace_;
  NamedDocs declared_;  // once asked for
};

class Manager {
 public:
  explicit Manager(const PassOptions& options)
      : options_(options),
        scope_(options.limits, &options.cancel),
        throws_faults_(ThrowsFaults(options)),
        fuel_(options.fuel),
        print_before_(Compiled(options.print_before)),
        print_after_(Compiled(options.print_after)),
        trace_(ExchangePassTrace(nullptr)) {}
  ~Manager() { ExchangePassTrace(trace_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  /// The passes that provide these, where they are missing or incomplete.
  Graph Provide(Graph g, const std::vector<std::string>& attrs) {
    CheckRegistrations();
    CheckOperands(g);
    return Provide(std::move(g), attrs, "the caller");
  }

  Graph Run(Graph g, const Pipeline& pipeline) {
    CheckRegistrations();
    for (const PassSpec& spec : pipeline.passes())
      ResolveOptions(*PassEntry::Get(spec.name), spec.options);  // all errors of the call first
    CheckOperands(g);  // a graph made by hand is the caller's, what a pass makes is the pass's
    for (const PassSpec& spec : pipeline.passes()) {
      rest_.assign(&spec, pipeline.passes().data() + pipeline.passes().size());
      g = RunOne(std::move(g), spec, Trigger::kAsked, "");
      if (stopped_) break;
    }
    return g;
  }

 private:
  Graph RunOne(Graph g, const PassSpec& spec, Trigger trigger, const std::string& reason) {
    const PassEntry& pass = *PassEntry::Get(spec.name);
    if (Contains(running_, pass.name)) {
      std::string chain;
      for (const std::string& r : running_) chain += r + " -> ";
      WEFT_THROW(kDependency, "passes need each other in a circle: {}{}", chain, pass.name);
    }
    running_.push_back(pass.name);
    g = Provide(std::move(g), pass.depends, pass.name);
    running_.pop_back();
    const bool in_pipeline = trigger == Trigger::kAsked && depth_ == 0;
    if (in_pipeline && options_.go_on && !options_.go_on(pass, g)) {
      stopped_ = true;
      return g;
    }
    options_.cancel.Check();
    WEFT_CHECK(g.num_nodes() <= size_t(options_.limits.nodes), kLimit,
               "the graph has {} nodes, the limit is {}", g.num_nodes(), options_.limits.nodes);

    PassRecord record;
    record.number = ++number_;
    record.name = pass.name;
    record.trigger = trigger;
    record.reason = reason;
    record.nodes_before = g.num_nodes();
    const int occurrence = ++occurrences_[pass.name];
    record.skipped = !options_.skip.empty() &&
                     (Contains(options_.skip, pass.name) ||
                      Contains(options_.skip, fmt::format("{}#{}", pass.name, occurrence)));
    if (trace_) trace_->Begin({spec, record.number, occurrence, trigger, record.skipped, body_});
    if (record.skipped) {
      record.nodes_after = g.num_nodes();
      Report(record);
      return g;
    }
    if (Matches(print_before_, pass.name))
      Print(fmt::format("// before {}\n{}", pass.name, PrintGraph(g)));
    CheckOpAttrs(pass, g);
    Graph out = Execute(std::move(g), pass, spec, &record);
    record.nodes_after = out.num_nodes();
    Report(record);
    if (Matches(print_after_, pass.name))
      Print(fmt::format("// after {}\n{}", pass.name, PrintGraph(out)));
    if (!options_.dump_dir.empty() && record.changed) {
      MakeDirectories(options_.dump_dir);
      WriteFileAtomic(fmt::format("{}/{:03}-{}.weft", options_.dump_dir, record.number, pass.name),
                      PrintGraph(out));
    }
    if (pass.enters_bodies) out = EnterBodies(std::move(out), pass, spec);
    return out;
  }

  /// The pass in bodies. They go on computing what they did: what is known of the graph around them
  /// still holds.
  Graph EnterBodies(Graph g, const PassEntry& pass, const PassSpec& spec) {
    const std::vector<NodePtr> order = g.TopoOrder();
    if (std::none_of(order.begin(), order.end(), HasControlBodies)) return g;
    g = Provide(std::move(g), {"dtype", "shape", "value"}, pass.name);
    struct Deeper {
      Manager& m;
      const std::string around = m.body_;
      explicit Deeper(Manager& manager) : m(manager) { ++m.depth_; }
      ~Deeper() {
        --m.depth_;
        m.body_ = around;
      }
    } deeper(*this);
    Limits::Check("depth", depth_, options_.limits.depth);
    const Facts facts = g.AttrOr<Facts>("facts");
    for (NodePtr n : g.TopoOrder()) {
      if (!HasControlBodies(n)) continue;
      for (const std::string& name : BodyNames(n)) {
        std::optional<Graph> body =
            FittingBody(n, name, g.GetAttr<ShapeMap>("shape"), g.GetAttr<TypeMap>("dtype"),
                        &g.GetAttr<ValueMap>("value"), &facts);
        if (!body || !TellsItsSizes(*body)) continue;
        if (options_.enters && !options_.enters(pass, *body)) continue;
        const std::string where = fmt::format("{} of {}", name, n->Describe());
        body_ = deeper.around.empty() ? where : deeper.around + " > " + where;
        body = RunOne(*std::move(body), spec, Trigger::kAsked, where);
        ReplaceBody(g, n, name, *std::move(body));
      }
    }
    return g;
  }

  /// Runs providers until everything that is needed is there and complete. A provider may undo
  /// what an earlier one gave.
  Graph Provide(Graph g, const std::vector<std::string>& attrs, const std::string& needed_by) {
    std::vector<const PassEntry*> ran;
    while (true) {
      std::string missing;
      for (const std::string& attr : attrs)
        if (!g.IsComplete(attr)) {
          missing = attr;
          break;
        }
      if (missing.empty()) return g;
      // A hand-set attribute with holes and no provider is taken as it is.
      const std::vector<const PassEntry*> providers = ProvidersOf(missing);
      if (providers.empty() && g.HasAttr(missing)) return g;
      if (options_.strict) {
        std::string hint;
        for (const PassEntry* p : providers)
          hint += (hint.empty() ? "it is provided by the pass " : ", ") + p->name;
        ThrowError(ErrorCode::kDependency,
                   fmt::format("pass '{}' requires the graph attribute '{}', which is missing or "
                               "incomplete (strict mode)",
                               needed_by, missing),
                   "", hint);
      }
      const PassEntry& provider = BestOf(providers, missing, needed_by);
      WEFT_CHECK(!Contains(options_.skip, provider.name), kDependency,
                 "pass '{}' requires the graph attribute '{}', whose provider '{}' is skipped",
                 needed_by, missing, provider.name);
      // Twice: once for what was missing, once for what another provider undid. More means that
      // they undo each other.
      ran.push_back(&provider);
      WEFT_CHECK(
          std::count(ran.begin(), ran.end(), &provider) <= 2, kDependency,
          "the passes that provide what '{}' needs undo each other's attributes ('{}' by '{}')",
          needed_by, missing, provider.name);
      std::string why;
      if (options_.records || options_.on_pass)
        why = fmt::format("{} needs '{}'", needed_by, missing);
      WEFT_LOG(kInfo, "running {}: {} needs '{}'", provider.name, needed_by, missing);
      g = RunOne(std::move(g), PassSpec(provider.name), Trigger::kDependency, why);
    }
  }
  void CheckOpAttrs(const PassEntry& pass, const Graph& g) {
    for (const std::string& attr : pass.depends_op) {
      std::string bad;
      for (NodePtr n : g.TopoOrder())
        if (n->op() && !n->op()->has(attr)) bad += "\n  " + n->Describe();
      if (!bad.empty())
        ThrowError(
            ErrorCode::kMissingOpAttr,
            fmt::format(
                "pass '{}' needs the operator attribute '{}', which these nodes' operators lack:{}",
                pass.name, attr, bad));
    }
  }

  Graph Execute(Graph g, const PassEntry& pass, const PassSpec& spec, PassRecord* record) {
    const Checks& c = options_.checks;
    const bool keep = c.equivalent || c.deterministic || !options_.reproducer.empty();
    Graph before = keep ? g : Graph();
    const uint64_t fingerprint = c.changed ? GraphFingerprint(g) : 0;
    const GraphStore* store = g.store();
    const uint64_t revision = g.revision();
    // what may have to be carried over; derived ones are not shared, so that passes
    // edit them in place
    GraphAttrMap attrs;
    for (const auto& [name, value] : g.attrs) {
      const AttrType* t = FindAttrType(name);
      if (!t || t->kind == AttrKind::kGiven) attrs.emplace(name, value);
    }
    const int64_t fuel = fuel_;
    try {
      Graph out = Body(std::move(g), pass, spec, record);
      record->changed = out.store() != store || out.revision() != revision;
      MindAttributes(pass, attrs, store, record->changed, &out);
      if (options_.verify) VerifyGraph(out);
      CheckProvides(pass, out);
      if (c.changed) CheckUnchanged(pass, fingerprint, out);
      if (c.deterministic) {
        fuel_ = fuel;
        PassRecord scratch;
        Graph again = Body(before, pass, spec, &scratch);
        MindAttributes(pass, attrs, before.store(), true, &again);
        CheckDeterministic(pass, out, again);
      }
      if (!record->faults.empty()) {
        InternalError fault(ErrorCode::kInternal, record->faults.front());
        fault.AddPlace("pass " + pass.name);
        WriteReproducer(before, spec, record->trigger, fuel, fault);
      }
      if (c.preserved) CheckPreserved(pass, out, options_);
      if (c.equivalent && record->changed) CheckEquivalent(pass, before, out, c);
      return out;
    } catch (Error& e) {
      e.AddPlace("pass " + pass.name);
      WriteReproducer(before, spec, record->trigger, fuel, e);
      throw;
    } catch (const std::bad_alloc&) {
      ThrowError(ErrorCode::kOutOfMemory, "no memory for the pass", "pass " + pass.name);
    } catch (const std::length_error&) {
      ThrowError(ErrorCode::kOutOfMemory, "no memory for the pass", "pass " + pass.name);
    } catch (const std::exception& e) {
      PollCallback::PassOn();
      InternalError thrown(ErrorCode::kInternal, fmt::format("the pass threw: {}", e.what()));
      thrown.AddPlace("pass " + pass.name);
      WriteReproducer(before, spec, record->trigger, fuel, thrown);
      throw thrown;
    }
  }

  Graph Body(Graph g, const PassEntry& pass, const PassSpec& spec, PassRecord* record) {
    Context context(pass, ResolveOptions(pass, spec.options), options_, throws_faults_, &fuel_,
                    record, trace_);
    AmbientScope ambient(g);
    std::shared_ptr<GraphStore> store = g.shared_store();
    g.HasAttr(
        "");  // settles what earlier edits made stale, before this pass's claims begin to hold
    Timer timer;
    Graph out;
    {
      // They hold for the body alone; a pass that runs passes gets its own back.
      const Claims claims(*store, {pass.preserves.begin(), pass.preserves.end()});
      out = pass.body(std::move(g), context);
      out.HasAttr("");
    }
    record->seconds = timer.seconds();
    return out;
  }

  /// The life of attributes across one pass: given ones follow imported nodes into a fresh graph;
  /// opaque ones die with a change unless the pass provides or preserves them. Derived rows have
  /// been cleared by the edits themselves.
  void MindAttributes(const PassEntry& pass, const GraphAttrMap& before,
                      const GraphStore* old_store, bool changed, Graph* out) {
    if (!changed) return;
    const bool fresh = out->store() != old_store;
    for (const auto& [name, value] : before) {
      if (!value) continue;
      const AttrType* t = AttrTypeOf(name, value);
      const bool kept =
          pass.preserves_all || Contains(pass.preserves, name) || Contains(pass.provides, name);
      if (!t) {
        // Opaque values cannot be compared; what counts is whether the pass has stored one. A
        // stored value is another object, `before` keeps the old one alive, so an equal address
        // means that nothing was stored.
        if (!kept && out->attrs.count(name) && out->attrs[name] == value) out->attrs.erase(name);
        if (kept && fresh && !out->attrs.count(name) && !Contains(pass.provides, name))
          out->attrs[name] = value;
        continue;
      }
      if (!fresh || t->kind != AttrKind::kGiven || out->attrs.count(name)) continue;
      if (t->scope == AttrScope::kGraph && !t->remap) {
        out->attrs[name] = value;
        continue;
      }
      auto went = out->store()->imported.find(old_store);
      if (went == out->store()->imported.end()) continue;
      if (t->scope == AttrScope::kGraph) {
        auto moved = std::make_shared<std::any>(*value);
        t->remap(*moved, went->second);
        out->attrs[name] = moved;
        continue;
      }
      auto moved = std::make_shared<std::any>(t->make());
      for (NodeId id = 0; id < went->second.size(); ++id)
        if (went->second[id] != ~0u) t->copy_rows(*value, id, *moved, went->second[id]);
      out->attrs[name] = moved;
    }
    out->store()->imported.clear();
  }

  /// Where one is asked for. The options as they were when the pass began: what was left of the
  /// fuel, and occurrences counted from here.
  void WriteReproducer(const Graph& before, const PassSpec& spec, Trigger trigger, int64_t fuel,
                       const Error& error) {
    if (options_.reproducer.empty()) return;
    Reproducer r;
    r.pass = Pipeline({spec}).ToString();
    const bool asked = trigger == Trigger::kAsked;  // else the pass that needs it is still to come
    r.rest = Pipeline(std::vector<PassSpec>(rest_.begin() + asked, rest_.end())).ToString();
    r.error = ErrorCodeName(error.code());
    r.message = error.message();
    r.place = error.place();
    r.options.target = options_.target;
    r.options.strict = options_.strict;
    r.options.limits = options_.limits;
    r.options.checks = options_.checks;
    r.options.fuel = fuel;
    for (const std::string& s : options_.skip) {
      const size_t hash = s.find('#');
      const auto n = hash == std::string::npos ? std::nullopt : TryParseInt64(s.substr(hash + 1));
      if (!n) {
        r.options.skip.push_back(s);
        continue;
      }
      const std::string name = s.substr(0, hash);
      const int64_t left = *n - occurrences_[name] + (name == spec.name);
      if (left > 0) r.options.skip.push_back(fmt::format("{}#{}", name, left));
    }
    try {
      WriteFileAtomic(options_.reproducer, FormatReproducer(std::move(r), &before));
    } catch (const std::exception& e) {
      WEFT_LOG(kWarning, "no reproducer: {}", e.what());
    }
  }

  using Pattern = std::optional<std::regex>;  // none matches nothing
  static Pattern Compiled(const std::string& pattern) {
    if (pattern.empty()) return std::nullopt;
    try {
      return std::regex(pattern);
    } catch (const std::regex_error& e) {
      WEFT_THROW(kUsage, "'{}' is not a regular expression: {}", pattern, e.what());
    }
  }
  static bool Matches(const Pattern& pattern, const std::string& name) {
    return pattern && std::regex_search(name, *pattern);
  }
  void Print(const std::string& text) {
    if (options_.print)
      options_.print(text);
    else
      std::cerr << text;
  }
  void Report(const PassRecord& r) {
    if (options_.on_pass) options_.on_pass(r);
    if (options_.records) options_.records->push_back(r);
  }

  const PassOptions& options_;
  RequestScope scope_;
  const bool throws_faults_;
  int64_t fuel_;
  const Pattern print_before_, print_after_;
  PassTrace* trace_;
  std::vector<PassSpec> rest_;  // from the asked pass that runs, or whose needs run, on
  int number_ = 0;
  int depth_ = 0;         // of bodies in bodies
  std::string body_;      // PassStart::body
  bool stopped_ = false;  // by PassOptions::go_on
  std::map<std::string, int> occurrences_;
  std::vector<std::string> running_;
};

}  // namespace

Graph ApplyPasses(Graph graph, const Pipeline& pipeline, const PassOptions& options) {
  return Manager(options).Run(std::move(graph), pipeline);
}
Graph ApplyPasses(Graph graph, const char* pipeline, const PassOptions& options) {
  return ApplyPasses(std::move(graph), Pipeline::Parse(pipeline), options);
}
Graph ProvideAttrs(Graph graph, const std::vector<std::string>& attrs, const PassOptions& options) {
  return Manager(options).Provide(std::move(graph), attrs);
}
Graph ProvideTypes(Graph graph, const PassOptions& options) {
  return ProvideAttrs(std::move(graph), {"dtype", "shape"}, options);
}
Graph ApplyPass(Graph graph, const std::string& pass, const PassOptions& options) {
  return ApplyPasses(std::move(graph), Pipeline({PassSpec(pass)}), options);
}

}  // namespace weft
