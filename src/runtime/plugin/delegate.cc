/// delegate.cc: delegates of plugins of the C tier, and the functions by which they look at what
/// they are given.
#include "weft/core/module/delegate.h"

#include <memory>
#include <mutex>

#include "services.h"
#include "weft/core/module/onnx_writer.h"
#include "weft/core/op/staging.h"
#include "weft/support/strings.h"

struct WeftDelegateOptions {
  const weft::DelegateOptions* values;
};
struct WeftBytes {
  std::string bytes;
};
struct WeftRows {
  std::vector<weft::DelegateRow> rows;
};

namespace weft::plugin {
namespace {

/// What is registered, with texts of its own. Lives as long as the process.
struct Definition {
  WeftDelegateDef def{};
  std::string name, doc;
  std::vector<DelegateOption> options;
  std::string Doing(const char* what) const { return fmt::format("delegate '{}': {}", name, what); }
};
using DefinitionPtr = std::shared_ptr<const Definition>;

class PluginInstance final : public DelegateInstance {
 public:
  PluginInstance(DefinitionPtr d, void* engine) : d_(std::move(d)), instance_(engine) {
    if (!d_->def.prepare) return;
    instance_ = nullptr;
    CallPlugin(d_->Doing("preparing a region"),
               [&] { return d_->def.prepare(d_->def.user, engine, &instance_); });
  }
  ~PluginInstance() override {
    if (d_->def.release) d_->def.release(d_->def.user, instance_);
  }
  PluginInstance(const PluginInstance&) = delete;
  PluginInstance& operator=(const PluginInstance&) = delete;

  int64_t Run(const std::vector<DelegateTensor>& inputs, const std::vector<DelegateTensor>& outputs,
              void* stream) override {
    inputs_.Set(inputs);
    outputs_.Set(outputs);
    WeftRegionCall call{};
    call.struct_size = sizeof call;
    call.num_inputs = int32_t(inputs.size());
    call.num_outputs = int32_t(outputs.size());
    call.inputs = inputs_.data();
    call.outputs = outputs_.data();
    call.stream = stream;
    CallPlugin(running_, [&] { return d_->def.run(d_->def.user, instance_, &call); });
    return call.copied_bytes;
  }
  std::vector<DelegateRow> Profile() override {
    WeftRows rows;
    if (d_->def.profile)
      CallPlugin(d_->Doing("telling where time went"),
                 [&] { return d_->def.profile(d_->def.user, instance_, &rows); });
    return std::move(rows.rows);
  }

 private:
  /// Views of operands, kept from run to run.
  class Operands {
   public:
    void Set(const std::vector<DelegateTensor>& tensors) {
      if (views_.size() != tensors.size()) {
        views_ = std::deque<View>(tensors.size());
        pointers_.clear();
        for (const View& v : views_) pointers_.push_back(&v.view);
      }
      for (size_t i = 0; i < tensors.size(); ++i) {
        const DelegateTensor& t = tensors[i];
        if (views_[i].view.struct_size == 0 || views_[i].dims != t.dims)
          views_[i].Set(t.dtype, t.dims, t.data);
        else
          views_[i].view.data = views_[i].view.num_elements > 0 ? t.data : nullptr;
      }
    }
    const WeftView* const* data() const { return pointers_.data(); }

   private:
    std::deque<View> views_;
    std::vector<const WeftView*> pointers_;
  };

  const DefinitionPtr d_;
  const std::string running_ = d_->Doing("running a region");
  void* instance_;
  Operands inputs_, outputs_;
};

class PluginEngine final : public DelegateEngine {
 public:
  PluginEngine(DefinitionPtr d, void* engine) : d_(std::move(d)), engine_(engine) {}
  ~PluginEngine() override { d_->def.destroy(d_->def.user, engine_); }
  PluginEngine(const PluginEngine&) = delete;
  PluginEngine& operator=(const PluginEngine&) = delete;

  std::unique_ptr<DelegateInstance> Prepare() override {
    return std::make_unique<PluginInstance>(d_, engine_);
  }
  std::string Export() override {
    WeftBytes bytes;
    if (d_->def.export_engine)
      CallPlugin(d_->Doing("exporting a region"),
                 [&] { return d_->def.export_engine(d_->def.user, engine_, &bytes); });
    return std::move(bytes.bytes);
  }

 private:
  const DefinitionPtr d_;
  void* const engine_;
};

class PluginDelegate final : public Delegate {
 public:
  explicit PluginDelegate(DefinitionPtr d) : d_(std::move(d)) {}
  std::string name() const override { return d_->name; }
  std::string doc() const override { return d_->doc; }
  DelegateTraits traits() const override {
    DelegateTraits t;
    t.concurrent = d_->def.flags & WEFT_DELEGATE_CONCURRENT;
    t.deterministic = d_->def.flags & WEFT_DELEGATE_DETERMINISTIC;
    t.own_threads = d_->def.flags & WEFT_DELEGATE_OWN_THREADS;
    t.any_extents = d_->def.flags & WEFT_DELEGATE_ANY_EXTENTS;
    t.streams = d_->def.flags & WEFT_DELEGATE_STREAMS;
    t.memory = int16_t(d_->def.device);
    return t;
  }
  std::vector<DelegateOption> options() const override { return d_->options; }
  std::string Version() const override {
    const char* text = nullptr;
    CallPlugin(d_->Doing("opening the engine"),
               [&] { return d_->def.version(d_->def.user, &text); });
    return TextOrEmpty(text);
  }
  std::string WhyNot(const Graph& graph, const NodePtr& node,
                     const DelegateOptions& options) const override {
    const WeftGraph looked_at(graph);
    const WeftDelegateOptions given{&options};
    SetPluginFailure(WEFT_OK, {});
    const WeftStatus status = d_->def.supports(d_->def.user, &given, &looked_at, HandleOf(node));
    if (status == WEFT_OK) return {};
    if (status == WEFT_E_UNSUPPORTED)
      return PluginFailure().empty() ? "not supported" : PluginFailure();
    ThrowPluginStatus(status, d_->Doing("asked about a node"));
    return {};
  }
  std::shared_ptr<DelegateEngine> Compile(const DelegateRegion& region) const override {
    return Made("compiling a region", region, [&](const WeftRegion& r, void** engine) {
      return d_->def.compile(d_->def.user, &r, engine);
    });
  }
  std::shared_ptr<DelegateEngine> Import(const DelegateRegion& region,
                                         std::string_view bytes) const override {
    if (!d_->def.import_engine) return Delegate::Import(region, bytes);
    return Made("importing a region", region, [&](const WeftRegion& r, void** engine) {
      return d_->def.import_engine(d_->def.user, &r, bytes.data(), bytes.size(), engine);
    });
  }
  double Estimate(const DelegateRegion& region) const override {
    double us = -1;
    if (d_->def.estimate)
      With(region, [&](const WeftRegion& r) {
        CallPlugin(d_->Doing("estimating a region"),
                   [&] { return d_->def.estimate(d_->def.user, &r, &us); });
      });
    return us;
  }

 private:
  template <class F>
  static void With(const DelegateRegion& region, F f) {
    WeftGraph body(*region.body);
    body.shows_once = true;
    const WeftDelegateOptions options{&region.options};
    WeftRegion r{};
    r.struct_size = sizeof r;
    r.graph = &body;
    r.options = &options;
    r.threads = region.threads;
    r.extents = region.is_static() ? WEFT_EXTENTS_FIXED : WEFT_EXTENTS_ANY;
    f(r);
  }
  template <class F>
  std::shared_ptr<DelegateEngine> Made(const char* doing, const DelegateRegion& region,
                                       F make) const {
    void* engine = nullptr;
    With(region, [&](const WeftRegion& r) {
      CallPlugin(d_->Doing(doing), [&] { return make(r, &engine); });
    });
    WEFT_CHECK(engine, kPlugin, "{} gave no engine", d_->Doing(doing));
    return std::make_shared<PluginEngine>(d_, engine);
  }

  const DefinitionPtr d_;
};

WeftStatus RegisterDelegateDef(const WeftDelegateDef* given) {
  return Guard([&] {
    RequirePluginEntry();
    auto d = std::make_shared<Definition>();
    d->def = ReadDef(given, WEFT_SIZE_UP_TO(WeftDelegateDef, user), "WeftDelegateDef");
    d->name = RequiredText(d->def.name, "the name of a delegate");
    d->doc = TextOrEmpty(d->def.doc);
    WEFT_CHECK(d->name.find_first_of(",;+:= ") == std::string::npos, kApiMisuse,
               "delegate '{}': its name holds a character that separates names", d->name);
    WEFT_CHECK(d->def.version && d->def.supports && d->def.compile && d->def.destroy && d->def.run,
               kApiMisuse,
               "delegate '{}' lacks one of `version`, `supports`, `compile`, `destroy`, `run`",
               d->name);
    WEFT_CHECK(!d->def.prepare == !d->def.release, kApiMisuse,
               "delegate '{}' has one of `prepare` and `release`, not both", d->name);
    if (d->def.device == 0) d->def.device = MemoryPlace::kHost;
    for (size_t k = 0; k < d->def.num_options; ++k) {
      const WeftOptionDef& o = d->def.options[k];
      WEFT_CHECK(std::string_view("bifs").find(o.type) != std::string_view::npos && o.type,
                 kApiMisuse, "delegate '{}': option {} has the type '{}', not b, i, f or s",
                 d->name, k, o.type);
      d->options.push_back({RequiredText(o.name, "the name of an option"),
                            DelegateOption::Type(o.type), TextOrEmpty(o.default_value),
                            TextOrEmpty(o.doc)});
    }
    RegisterDelegate(std::make_shared<PluginDelegate>(std::move(d)));
  });
}

// ---- what delegates ask ----

const std::string& ValueOf(const WeftDelegateOptions* options, const char* name) {
  WEFT_CHECK(options, kApiMisuse, "an option is asked for with a null pointer");
  const auto it = options->values->find(RequiredText(name, "the name of an option"));
  WEFT_CHECK(it != options->values->end(), kApiMisuse, "there is no option '{}'", name);
  return it->second;
}

WeftEntry EntryHandle(const NodeEntry& e) { return {HandleOf(e.node), e.index}; }

[[maybe_unused]] const bool registered = [] {
  WeftHost& h = PluginHost();
  h.register_delegate = RegisterDelegateDef;
  h.option_int = [](const WeftDelegateOptions* options, const char* name, int64_t* value) {
    return Guard([&] {
      const auto n = TryParseInt64(ValueOf(options, name));
      WEFT_CHECK(n && value, kApiMisuse, "option '{}' is not an integer", name);
      *value = *n;
    });
  };
  h.option_float = [](const WeftDelegateOptions* options, const char* name, double* value) {
    return Guard([&] {
      const auto x = TryParseDouble(ValueOf(options, name));
      WEFT_CHECK(x && value, kApiMisuse, "option '{}' is not a number", name);
      *value = *x;
    });
  };
  h.option_string = [](const WeftDelegateOptions* options, const char* name, const char** value) {
    return Guard([&] {
      WEFT_CHECK(value, kApiMisuse, "option_string was given a null pointer");
      *value = ValueOf(options, name).c_str();
    });
  };
  h.bytes_write = [](WeftBytes* bytes, const void* data, size_t size) {
    return Guard([&] {
      WEFT_CHECK(bytes && (data || size == 0), kApiMisuse, "bytes_write was given a null pointer");
      bytes->bytes.append(static_cast<const char*>(data), size);
    });
  };
  h.rows_add = [](WeftRows* rows, const char* name, const char* kind, double us) {
    return Guard([&] {
      WEFT_CHECK(rows, kApiMisuse, "rows_add was given a null pointer");
      rows->rows.push_back({TextOrEmpty(name), TextOrEmpty(kind), us});
    });
  };
  h.graph_num_inputs = [](const WeftGraph* g) { return g ? g->graph->inputs().size() : 0; };
  h.graph_num_outputs = [](const WeftGraph* g) { return g ? g->graph->outputs.size() : 0; };
  h.graph_input = [](const WeftGraph* g, size_t i) -> WeftEntry {
    if (!g || i >= g->graph->inputs().size()) return {nullptr, 0};
    return EntryHandle(NodeEntry(g->graph->inputs()[i]));
  };
  h.graph_output = [](const WeftGraph* g, size_t i) -> WeftEntry {
    if (!g || i >= g->graph->outputs.size()) return {nullptr, 0};
    return EntryHandle(g->graph->outputs[i]);
  };
  h.graph_entry_uses = [](const WeftGraph* g, WeftEntry entry) -> size_t {
    size_t uses = 0;
    Guard([&] {
      WEFT_CHECK(g && entry.node && g->graph->owns(NodeOf(entry.node)), kApiMisuse,
                 "a node is not of this graph");
      const NodeEntry e(NodeOf(entry.node), entry.index);
      for (const Use& u : e.node->uses()) uses += !u.control && u.user->inputs[u.slot] == e;
      for (const NodeEntry& out : g->graph->outputs) uses += out == e;
    });
    return uses;
  };
  h.graph_onnx = [](const WeftGraph* g, const void** bytes, size_t* size) {
    return Guard([&] {
      WEFT_CHECK(g && bytes && size, kApiMisuse, "graph_onnx was given a null pointer");
      if (g->onnx.empty()) g->onnx = WriteAsOnnx(*g->graph);
      *bytes = g->onnx.data();
      *size = g->onnx.size();
    });
  };
  h.graph_onnx_file = [](const WeftGraph* g, const char** path) {
    return Guard([&] {
      WEFT_CHECK(g && path, kApiMisuse, "graph_onnx_file was given a null pointer");
      if (!g->folder) {
        auto folder = std::make_unique<ScratchFolder>();
        g->file = *folder / "model.onnx";
        WriteAsOnnxFile(*g->graph, g->file);
        g->folder = std::move(folder);
      }
      *path = g->file.c_str();
    });
  };
  return true;
}();

}  // namespace
}  // namespace weft::plugin
