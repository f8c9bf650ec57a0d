/// session.cc: programs by what is fetched and fed.
#include "tinyflow/session.h"

#include <algorithm>

#include "tinyflow/engine.h"
#include "weft/core/graph/variable.h"
#include "weft/onnx/export.h"
#include "weft/support/bounded_cache.h"
#include "weft/support/check.h"

namespace tf {
namespace {

/// What a program was compiled for: entries and, for placeholders that declare no shape, the
/// extents that it took.
using Key = std::vector<int64_t>;

engine::Entries EntriesOf(const std::vector<Tensor>& tensors) {
  engine::Entries entries;
  for (const Tensor& t : tensors) entries.push_back(t.entry());
  return entries;
}

/// Shapes for placeholders without one: the first extent is the batch wherever all agree on it, so
/// that another batch needs no other program.
std::vector<weft::Shape> ShapesOf(const Feeds& feeds, Key* key) {
  std::vector<weft::Shape> shapes(feeds.size());
  int64_t batch = -1;
  bool agree = true;
  const auto undeclared = [](const Tensor& t) {
    const auto shape = weft::DeclaredShape(t.entry().node);
    return !shape || !shape->has_rank();
  };
  for (const auto& [tensor, value] : feeds) {
    if (!undeclared(tensor) || value->rank() == 0) continue;
    agree = agree && (batch == -1 || batch == value->dims()[0]);
    batch = value->dims()[0];
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!undeclared(feeds[i].first)) continue;
    shapes[i] = feeds[i].second->shape();
    if (agree && feeds[i].second->rank() > 0) shapes[i].set(0, weft::SymInt::Symbol("batch"));
    key->push_back(feeds[i].second->rank());
    for (const weft::SymInt d : shapes[i].dims()) key->push_back(d.try_value().value_or(-1));
  }
  return shapes;
}

std::vector<Array> ValuesOf(const Feeds& feeds) {
  std::vector<Array> values;
  for (const auto& f : feeds) values.push_back(f.second);
  return values;
}

}  // namespace

struct Session::Impl {
  engine::Executable* Find(const std::vector<Tensor>& fetches, const Feeds& feeds, Mode mode) {
    WEFT_CHECK(!fetches.empty(), kApiMisuse, "nothing is fetched");
    Key key{int64_t(mode), int64_t(fetches.size())};
    for (const Tensor& t : fetches) {
      WEFT_CHECK(t && t.graph() == graph, kApiMisuse,
                 "a fetch is null, or not of the graph that this session was made for");
      key.push_back(t.entry().node->id());
      key.push_back(t.entry().index);
    }
    for (const auto& [tensor, value] : feeds) {
      WEFT_CHECK(tensor && tensor.graph() == graph, kApiMisuse,
                 "a fed tensor is null, or not of the graph that this session was made for");
      WEFT_CHECK(value, kBadInput, "'{}' is fed nothing", tensor.name());
      const weft::NodePtr n = tensor.entry().node;
      WEFT_CHECK(n->is_variable() && !n->has_attr("state"), kBadBinding,
                 "'{}' is fed, but it is not a placeholder", tensor.name());
      WEFT_CHECK(std::find(key.begin() + 2, key.end(), -2 - int64_t(n->id())) == key.end(),
                 kBadBinding, "'{}' is fed twice", tensor.name());
      WEFT_CHECK(value->dtype() == tensor.dtype(), kBadInput, "'{}' has dtype {}, fed {}",
                 tensor.name(), weft::DTypeName(tensor.dtype()), weft::DTypeName(value->dtype()));
      key.push_back(-2 - int64_t(n->id()));
    }
    const std::vector<weft::Shape> shapes = ShapesOf(feeds, &key);
    const auto compile = [&] {
      engine::Entries inputs;
      std::vector<weft::Shape> fed;
      for (const auto& f : feeds) {
        inputs.push_back(f.first.entry());
        fed.push_back(f.second->shape());
      }
      auto program = std::make_unique<engine::Executable>(graph->graph, EntriesOf(fetches), inputs,
                                                          shapes, mode, config, store, fed);
      ++compiled;
      return program;
    };
    // A budget is of all programs together, and of those that are compiled while others wait.
    const auto* known = programs.Find(key);
    if (config.memory.any() && latest && (!known || known->get() != latest)) latest->Rest();
    return latest = programs.GetOrMake(key, compile).get();
  }

  GraphPtr graph;
  engine::Config config;
  std::shared_ptr<weft::VariableStore> store = std::make_shared<weft::VariableStore>();
  weft::BoundedCache<Key, std::unique_ptr<engine::Executable>> programs{kKept,
                                                                        weft::Evict::kLeastRecent};
  engine::Executable* latest = nullptr;  ///< the last of `programs` to go
  int compiled = 0;
};

Session::Session(const std::string& config, int threads, bool tune,
                 const weft::MemoryBudget& memory, const weft::DivisionOptions& division)
    : impl_(std::make_unique<Impl>()) {
  impl_->graph = default_graph();
  impl_->config = engine::ParseConfig(config);
  impl_->config.threads = threads;
  impl_->config.calls.tune = tune;
  impl_->config.memory = memory;
  impl_->config.division = division;
}
Session::~Session() = default;

std::vector<Array> Session::run(const std::vector<Tensor>& fetches, const Feeds& feeds, Mode mode) {
  return impl_->Find(fetches, feeds, mode)->Run(ValuesOf(feeds));
}
Array Session::run(const Tensor& fetch, const Feeds& feeds, Mode mode) {
  return run(std::vector<Tensor>{fetch}, feeds, mode)[0];
}
weft::PendingRun Session::start(const std::vector<Tensor>& fetches, const Feeds& feeds, Mode mode) {
  return impl_->Find(fetches, feeds, mode)->Start(ValuesOf(feeds));
}
std::vector<weft::StepTime> Session::profile(const std::vector<Tensor>& fetches, const Feeds& feeds,
                                             Mode mode) {
  return impl_->Find(fetches, feeds, mode)->Profile(ValuesOf(feeds));
}
ProgramInfo Session::info(const std::vector<Tensor>& fetches, const Feeds& feeds, Mode mode) {
  const engine::Executable* e = impl_->Find(fetches, feeds, mode);
  const weft::ProgramStats& s = e->stats();
  return {s.kernels,         s.distinct_kernels, s.library_calls, s.reorders,  s.interpreted,
          s.compile_seconds, e->arena_bytes(),   e->live_bytes(), e->memory(), s.launches,
          s.replays,         s.host_waits,       e->backend()};
}

Array Session::value(const Tensor& variable) const {
  return has(variable) ? impl_->store->Get(variable.name()) : nullptr;
}
void Session::set(const Tensor& variable, const Array& value) {
  const weft::Shape shape = variable.shape();
  WEFT_CHECK(
      value && value->dtype() == variable.dtype() &&
          (!shape.is_static() || shape.ints() == value->dims()),
      kBadInput, "variable '{}' is {}{}, not {}", variable.name(),
      weft::DTypeName(variable.dtype()), shape.ToString(),
      value ? std::string(weft::DTypeName(value->dtype())) + value->shape().ToString() : "nothing");
  impl_->store->Set(variable.name(), value);
}

void Session::export_onnx(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                          const std::string& path) const {
  weft::Graph g =
      engine::Freeze(impl_->graph->graph, EntriesOf(outputs), EntriesOf(inputs), *impl_->store);
  for (size_t i = 0; i < outputs.size(); ++i) g.SetOutputName(i, outputs[i].name());
  weft::ExportOnnx(g, path);
}

int Session::compiled() const { return impl_->compiled; }
const std::shared_ptr<weft::VariableStore>& Session::store() const { return impl_->store; }
const GraphPtr& Session::graph() const { return impl_->graph; }

}  // namespace tf
