/// backend.cc: the backend `hsimd`: graphs compiled by the passes of this room, and run by the
/// simulator.
#include "weft/runtime/backend/backend.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../l1/simulator.h"
#include "../report/report.h"
#include "l3.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/pass/pass.h"
#include "weft/core/tensor/tensor.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/program/backend_program.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using namespace weft;

/// Elements as words of 32 bits.
std::vector<uint32_t> ToWords(const Tensor& t, const std::string& name) {
  const size_t n = size_t(t.num_elements());
  std::vector<uint32_t> words(n);
  switch (t.dtype()) {
    case DType::kF32:
    case DType::kI32:
      std::memcpy(words.data(), t.data(), n * 4);
      break;
    case DType::kBool:
      for (size_t i = 0; i < n; ++i) words[i] = static_cast<const uint8_t*>(t.data())[i] ? 1 : 0;
      break;
    case DType::kU8:
      for (size_t i = 0; i < n; ++i) words[i] = static_cast<const uint8_t*>(t.data())[i];
      break;
    case DType::kI64:
      for (size_t i = 0; i < n; ++i) {
        const int64_t v = static_cast<const int64_t*>(t.data())[i];
        WEFT_CHECK(v >= INT32_MIN && v <= INT32_MAX, kBadInput,
                   "{}: element {} is {}; the machine's integers have 32 bits", name, i, v);
        words[i] = uint32_t(int32_t(v));
      }
      break;
    default:
      WEFT_THROW(kUnsupported, "{}: dtype {}; the machine has f32, i32, i64 that fits, u8, bool",
                 name, Type(t.dtype()).ToString());
  }
  return words;
}

void FromWords(const std::vector<uint32_t>& words, Tensor* t, const std::string& name) {
  const size_t n = words.size();
  switch (t->dtype()) {
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
      std::memcpy(t->mutable_data(), words.data(), n * 4);
      break;
    case DType::kBool:
      for (size_t i = 0; i < n; ++i) static_cast<uint8_t*>(t->mutable_data())[i] = words[i] != 0;
      break;
    case DType::kU8:
      for (size_t i = 0; i < n; ++i)
        static_cast<uint8_t*>(t->mutable_data())[i] = uint8_t(words[i]);
      break;
    case DType::kI64:
      for (size_t i = 0; i < n; ++i)
        static_cast<int64_t*>(t->mutable_data())[i] = int32_t(words[i]);
      break;
    default:
      WEFT_THROW(kUnsupported, "{}: a result of dtype {}; the machine has words of 32 bits", name,
                 Type(t->dtype()).ToString());
  }
}

class SimulatedProgram final : public BackendProgram {
 public:
  explicit SimulatedProgram(const Graph& g) : program_(g.GetAttr<MachineProgram>("hsimd_program")) {
    const MachineMemories memories = MemoriesOf(*program_.machine);
    dram_ = memories.dram;
    layout_gap_ = g.GetAttr<LayoutCosts>("hsimd_layout_costs").gap();
    const PlaceMap& places = g.GetAttr<PlaceMap>("hsimd_place");
    const TypeMap& types = g.GetAttr<TypeMap>("dtype");
    for (const NodePtr& n : g.AllInputs()) {
      const ValuePlace* place = places.find(NodeEntry(n));  // null: nothing reads it
      inputs_.push_back(place ? OffChipAt(n->attrs.name, *place, types[NodeEntry(n)]) : OffChip());
    }
    for (const NodeId id : g.GetAttr<Order>("order").nodes)
      if (const TensorPtr value = Graph::ConstantOf(NodeEntry(g.node(id))))
        if (const ValuePlace* place = places.find(NodeEntry(g.node(id))))
          constants_.push_back({place->base, ToWords(*value, g.node(id)->Describe())});
    for (const NodePtr& n : StateVariables(g)) {
      const ValuePlace* place = places.find(NodeEntry(n));  // null: nothing reads or writes it
      variables_.push_back(place ? OffChipAt(n->attrs.name, *place, types[NodeEntry(n)])
                                 : OffChip());
      bool written = false;
      for (const Use& use : n->uses()) written |= !use.control && IsOp(use.user, builtin::kAssign);
      written_.push_back(written);
    }
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      const NodeEntry& y = g.outputs[i];
      const ValuePlace* place = places.find(y);  // null: it has no elements
      outputs_.push_back(place ? OffChipAt(g.OutputName(i), *place, types[y])
                               : OffChip{g.OutputName(i), types[y].dtype,
                                         g.GetAttr<ShapeMap>("shape")[y].ints(), -1});
    }
    planned_.resize(program_.machine->memories.size());
    for (const NodeId id : g.GetAttr<Order>("order").nodes) {
      const NodePtr node = g.node(id);
      for (uint32_t k = 0; k < node->num_outputs(); ++k)
        if (const ValuePlace* place = places.find(NodeEntry(node, k))) {
          int64_t& end = planned_[size_t(program_.machine->MemoryNamed(place->memory))];
          end = std::max(end, place->base + std::max<int64_t>(Words(place->layout), 1));
          values_.push_back({node->Describe(), place->memory, place->base, place->layout});
        }
    }
  }

  struct Machinery final : State {
    std::shared_ptr<Simulator> simulator;
    Execution last;
  };
  /// The words of a state variable in the memory off chip, where they stay from run to run.
  struct OffChipHome final : VariableHome {
    OffChipHome(std::shared_ptr<Simulator> s, int m, int64_t b, std::string n)
        : simulator(std::move(s)), memory(m), base(b), name(std::move(n)) {}
    void Load(const Tensor& host) override {
      const std::vector<uint32_t> words = ToWords(host, name);
      simulator->SetWords(memory, base, words.data(), int64_t(words.size()));
    }
    void Fetch(Tensor* host) override {
      std::vector<uint32_t> words(size_t(host->num_elements()));
      simulator->GetWords(memory, base, words.data(), int64_t(words.size()));
      FromWords(words, host, name);
    }
    std::shared_ptr<Simulator> simulator;
    int memory;
    int64_t base;
    std::string name;
  };
  bool has_homes() const override { return true; }

  std::unique_ptr<State> NewState() const override {
    auto state = std::make_unique<Machinery>();
    state->simulator = std::make_shared<Simulator>(*program_.machine, *program_.program);
    for (const Constant& c : constants_)
      state->simulator->SetWords(dram_, c.base, c.words.data(), int64_t(c.words.size()));
    return state;
  }

  void Run(State& state, ProgramRun& run) const override {
    Machinery& m = static_cast<Machinery&>(state);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].base < 0) continue;
      const std::vector<uint32_t> words = ToWords(*run.inputs()[i], inputs_[i].name);
      m.simulator->SetWords(dram_, inputs_[i].base, words.data(), int64_t(words.size()));
    }
    for (size_t i = 0; i < variables_.size(); ++i) {
      const OffChip& v = variables_[i];
      if (v.base < 0) continue;
      run.variables()[i].At<OffChipHome>(m.simulator, written_[i], [&] {
        return std::make_unique<OffChipHome>(m.simulator, dram_, v.base, v.name);
      });
    }
    m.last = m.simulator->Run();
    WEFT_ICHECK(m.last.cycles == program_.cycles, "{} cycles were predicted, {} executed",
                program_.cycles, m.last.cycles);
    std::vector<uint32_t> words;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const OffChip& o = outputs_[i];
      const std::shared_ptr<Tensor> y = run.NewResult(i, o.dtype, o.dims);
      if (o.base < 0) continue;
      words.resize(size_t(y->num_elements()));
      m.simulator->GetWords(dram_, o.base, words.data(), int64_t(words.size()));
      FromWords(words, y.get(), o.name);
    }
  }

  std::vector<ProgramField> Fields(const State* last) const override {
    std::vector<ProgramField> fields = {
        {"predicted_cycles", program_.cycles},
        {"bound_cycles", program_.bound_cycles},
        {"sequence_cycles", program_.sequence_cycles},
        {"layout_gap", layout_gap_},
        {"instructions", int64_t(program_.program->instructions.size())}};
    if (last) {
      const Execution& e = static_cast<const Machinery*>(last)->last;
      fields.push_back({"cycles", e.cycles});
      std::vector<ProgramField> busy, peak;
      for (size_t i = 0; i < e.busy.size(); ++i)
        busy.push_back({program_.machine->units[i].name, e.busy[i]});
      for (size_t i = 0; i < e.extent_words.size(); ++i)
        peak.push_back({program_.machine->memories[i].name, e.extent_words[i]});
      std::vector<ProgramField> planned;
      for (size_t i = 0; i < planned_.size(); ++i)
        planned.push_back({program_.machine->memories[i].name, planned_[i]});
      fields.push_back({"planned_words", std::move(planned)});
      fields.push_back({"busy", std::move(busy)});
      fields.push_back({"peak_words", std::move(peak)});
    }
    return fields;
  }

  std::vector<NamedBytes> Artifacts() const override {
    return {{"program.l1", PrintProgram(*program_.program, *program_.machine)},
            {"machine.json", PrintMachine(*program_.machine)}};
  }
  std::string ReportPage() const override {
    ReportInput input;
    input.title = "hsimd on " + program_.machine->name;
    input.numbers = {{"bound_cycles", program_.bound_cycles},
                     {"sequence_cycles", program_.sequence_cycles}};
    input.values = values_;
    return MakeReport(*program_.program, *program_.machine, input);
  }

 private:
  struct OffChip {
    std::string name;
    DType dtype = DType::kUnknown;
    std::vector<int64_t> dims;
    int64_t base = -1;
  };
  static OffChip OffChipAt(const std::string& name, const ValuePlace& place, const Type& type) {
    return {name, type.dtype, place.layout.shape, place.base};
  }
  struct Constant {
    int64_t base = 0;
    std::vector<uint32_t> words;
  };
  MachineProgram program_;
  int dram_ = 0;
  double layout_gap_ = 0;
  std::vector<OffChip> inputs_, variables_, outputs_;
  std::vector<bool> written_;  ///< by variable
  std::vector<Constant> constants_;
  std::vector<ReportValue> values_;
  std::vector<int64_t> planned_;  ///< by memory: words that values take
};

class HsimdBackend final : public Backend {
 public:
  HsimdBackend(std::string machine, bool fusion, std::string layouts)
      : machine_(std::move(machine)), fusion_(fusion), layouts_(std::move(layouts)) {
    FindMachine(machine_);  // says what is wrong with it now
  }
  std::string name() const override { return "hsimd"; }
  Target target() const override { return Target("hsimd"); }
  bool constant_extents() const override { return true; }

  std::string default_pipeline() const override {
    PipelineOptions options;
    options.until = PipelineEnd::kGraph;
    options.libraries = false;
    options.fusion = fusion_;
    Pipeline out;
    const auto slice = [&] {  // the bodies of fused nodes hold extents
      out.push_back({"HsimdSlice", {{"machine", machine_}, {"fusion", fusion_}}});
      out.push_back("InferShape");
    };
    // Kernels of several results that have nothing in common widen the graph that the layout
    // planner goes through.
    const Pipeline standard = StandardPipeline(options);
    for (PassSpec p : standard.passes()) {
      if (p.name == "Fusion") slice();
      if (p.name == "Fusion" && fusion_) {
        p.options.emplace_back("multi_small", int64_t{0});
        p.options.emplace_back("multi_bytes", int64_t{0});
      }
      out.push_back(std::move(p));
    }
    if (!fusion_) slice();
    for (const char* p : {"HsimdState", "InferShape", "HsimdViews", "InferShape"}) out.push_back(p);
    out.push_back({"HsimdSplit", {{"machine", machine_}}});
    out.push_back("InferShape");
    out.push_back({"HsimdLayout", {{"machine", machine_}, {"choice", layouts_}}});
    out.push_back("InferShape");
    for (const char* p : {"HsimdMeasure", "HsimdSchedule", "InferType", "InferShape",
                          "HsimdAddress", "HsimdLower", "HsimdEmit", "HsimdMerge"})
      out.push_back(p);
    return out.ToString();
  }

  std::shared_ptr<const BackendProgram> MakeProgram(const Graph& g,
                                                    const CompileOptions&) override {
    return std::make_shared<SimulatedProgram>(g);
  }

 private:
  std::string machine_;
  bool fusion_;
  std::string layouts_;
};

/// Programs of whole graphs; no kernels.
TargetTraits WholeGraphs() {
  TargetTraits traits;
  traits.kernels = false;
  return traits;
}

const bool kRegistered = RegisterBackendModule(
    BackendModule("hsimd")
        .set_traits(WholeGraphs())
        .set_parameters({{"toy4", "4 PEs in a ring, to see single words move"},
                         {"tree64", "64 PEs in a tree with matrix units (the default)"},
                         {"mnc2", "the public figures of MN-Core 2"},
                         {"FILE", "a machine of your own", BackendParameter::Kind::kFile},
                         {"no-fusion", "one operator a node"},
                         {"layouts",
                          "how layouts are chosen: plan (the default); to compare with: each, "
                          "greedy, single, batch",
                          BackendParameter::Kind::kValue}})
        .set_backend([](const BackendParameters& p) -> std::shared_ptr<Backend> {
          std::string machine = kDefaultMachine;
          for (const std::string& name : BuiltInMachines())
            if (p.Has(name)) machine = name;
          if (p.file()) machine = p.file()->path;
          return std::make_shared<HsimdBackend>(machine, !p.Has("no-fusion"),
                                                p.Value("layouts").value_or("plan"));
        }));

}  // namespace
}  // namespace hsimd
