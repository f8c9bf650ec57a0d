/// test_delegate.cc: see test_delegate.h.
#include "tests/delegates/test_delegate.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/module/delegate.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::e2e {
namespace {

int64_t Number(const DelegateOptions& options, const char* name) {
  return std::stoll(options.at(name));
}

/// Throws where the options ask for it; `calls` counts those of the place.
void FailWhereAsked(const DelegateOptions& options, const char* place,
                    std::atomic<int64_t>* calls) {
  const int64_t call = ++*calls, at = Number(options, "at");
  if (options.at("fail") != place || (at > 0 && call != at)) return;
  const std::string& code = options.at("code");
  ThrowError(code == "oom"           ? ErrorCode::kOutOfMemory
             : code == "unsupported" ? ErrorCode::kUnsupported
                                     : ErrorCode::kPlugin,
             fmt::format("{} fails as the test asks", place));
}

class Instance final : public DelegateInstance {
 public:
  Instance(const Graph& body, const DelegateOptions& options, std::atomic<int>* running)
      : body_(body), options_(options), running_(running) {
    ++TestDelegateCounts::Get().instances;
  }
  ~Instance() override { --TestDelegateCounts::Get().instances; }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  int64_t Run(const std::vector<DelegateTensor>& inputs, const std::vector<DelegateTensor>& outputs,
              void*) override {
    TestDelegateCounts& counts = TestDelegateCounts::Get();
    if (running_->fetch_add(1) > 0) ++counts.overlaps;
    const struct Leave {
      std::atomic<int>* running;
      ~Leave() { --*running; }
    } leave{running_};
    FailWhereAsked(options_, "run", &counts.runs);
    std::this_thread::sleep_for(std::chrono::milliseconds(Number(options_, "sleep_ms")));
    std::vector<TensorPtr> in;
    for (const DelegateTensor& t : inputs)
      in.push_back(std::make_shared<Tensor>(t.dtype, t.dims, t.data, nullptr));
    const std::vector<TensorPtr> out = GetEvaluator()->Eval(body_, in);
    WEFT_CHECK(out.size() == outputs.size(), kPlugin, "{} results, not {}", out.size(),
               outputs.size());
    for (size_t k = 0; k < out.size(); ++k) {
      WEFT_CHECK(out[k]->dtype() == outputs[k].dtype && out[k]->dims() == outputs[k].dims, kPlugin,
                 "result {} is {}{}", k, DTypeName(out[k]->dtype()), out[k]->shape().ToString());
      if (out[k]->num_bytes() > 0)
        std::memcpy(outputs[k].data, out[k]->data(), size_t(out[k]->num_bytes()));
    }
    const double off = std::stod(options_.at("off"));
    for (const DelegateTensor& t : outputs) {
      if (off == 0 || !IsFloat(t.dtype) || t.data == nullptr) continue;
      Tensor result(t.dtype, t.dims, t.data, nullptr);
      if (result.num_elements() > 0) result.set(0, result.at(0) + off);
    }
    return Number(options_, "copies");
  }
  std::vector<DelegateRow> Profile() override { return {{"interpreter", "test", 1}}; }

 private:
  const Graph& body_;
  const DelegateOptions& options_;
  std::atomic<int>* running_;
};

class Engine final : public DelegateEngine {
 public:
  explicit Engine(const DelegateRegion& region) : body_(*region.body), options_(region.options) {
    ++TestDelegateCounts::Get().engines;
  }
  ~Engine() override { --TestDelegateCounts::Get().engines; }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::unique_ptr<DelegateInstance> Prepare() override {
    FailWhereAsked(options_, "prepare", &TestDelegateCounts::Get().prepared);
    return std::make_unique<Instance>(body_, options_, &running_);
  }
  std::string Export() override { return "test " + std::to_string(body_.num_nodes()); }

 private:
  const Graph body_;
  const DelegateOptions options_;
  std::atomic<int> running_ = 0;
};

class TestDelegate final : public Delegate {
 public:
  TestDelegate(std::string name, DelegateTraits traits) : name_(std::move(name)), traits_(traits) {}
  std::string name() const override { return name_; }
  std::string doc() const override { return "the interpreter, for tests"; }
  DelegateTraits traits() const override { return traits_; }
  std::vector<DelegateOption> options() const override {
    using Type = DelegateOption::Type;
    return {{"at", Type::kInt, "0", ""},       {"code", Type::kText, "internal", ""},
            {"copies", Type::kInt, "0", ""},   {"fail", Type::kText, "", ""},
            {"largest", Type::kInt, "-1", ""}, {"off", Type::kFloat, "0", ""},
            {"ops", Type::kText, "", ""},      {"quick", Type::kBool, "false", ""},
            {"sleep_ms", Type::kInt, "0", ""}};
  }
  std::string Version() const override {
    if (name_ == "test_absent")
      ThrowError(ErrorCode::kUnsupported, "libabsent.so.3 is not installed", "",
                 "install it, or let ABSENT_LIBRARY say where it is");
    return "1.0";
  }
  std::string WhyNot(const Graph&, const NodePtr& node,
                     const DelegateOptions& options) const override {
    static std::atomic<int64_t> asked = 0;
    FailWhereAsked(options, "supports", &asked);
    if (!BodyNames(node).empty()) return "it holds a graph";
    const std::vector<std::string> ops = Split(options.at("ops"), '|');
    if (!options.at("ops").empty() &&
        std::find(ops.begin(), ops.end(), node->op()->name) == ops.end())
      return "it is not an operator of the option 'ops'";
    return GetEvaluator()->WhyNot(node);
  }
  std::shared_ptr<DelegateEngine> Compile(const DelegateRegion& region) const override {
    FailWhereAsked(region.options, "compile", &TestDelegateCounts::Get().compiled);
    const int64_t largest = Number(region.options, "largest");
    const ShapeMap& shapes = region.body->GetAttr<ShapeMap>("shape");
    for (const NodeEntry& e : region.body->outputs) {
      if (!shapes[e].is_static()) {
        WEFT_CHECK(traits_.any_extents, kPlugin, "a region without sizes");
        WEFT_CHECK(largest < 0, kUnsupported, "sizes that the option 'largest' cannot judge");
        continue;
      }
      const SymInt elements = shapes[e].num_elements();
      WEFT_CHECK(largest < 0 || elements.value() <= largest, kUnsupported,
                 "{} elements are more than the {} of the option 'largest'", elements.value(),
                 largest);
    }
    return std::make_shared<Engine>(region);
  }
  std::shared_ptr<DelegateEngine> Import(const DelegateRegion& region,
                                         std::string_view bytes) const override {
    WEFT_CHECK(bytes == "test " + std::to_string(region.body->num_nodes()), kPlugin,
               "an engine of another region");
    ++TestDelegateCounts::Get().imported;
    return std::make_shared<Engine>(region);
  }

 private:
  const std::string name_;
  const DelegateTraits traits_;
};

}  // namespace

TestDelegateCounts& TestDelegateCounts::Get() {
  static auto* counts = new TestDelegateCounts;
  return *counts;
}
void TestDelegateCounts::Reset() {
  for (auto* c : {&compiled, &prepared, &runs, &imported, &overlaps}) *c = 0;
}

bool RegisterTestDelegates() {
  static const bool once = [] {
    DelegateTraits any;
    any.concurrent = any.deterministic = true;
    DelegateTraits serial = any, device = any, sizeless = any;
    serial.concurrent = false;
    sizeless.any_extents = true;
    device.memory = MemoryPlace::kCuda;
    for (const char* name : {"test_a", "test_b", "test_absent"})
      RegisterDelegate(std::make_shared<TestDelegate>(name, any));
    RegisterDelegate(std::make_shared<TestDelegate>("test_serial", serial));
    RegisterDelegate(std::make_shared<TestDelegate>("test_any", sizeless));
    return RegisterDelegate(std::make_shared<TestDelegate>("test_device", device));
  }();
  return once;
}

}  // namespace weft::e2e
