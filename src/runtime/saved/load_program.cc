/// load_program.cc: reads `.weftx` files; the format stands in saved_program.h. Nothing in a file
/// is believed: its hash finds damage, and every offset and size is judged again.
#include <algorithm>
#include <climits>
#include <cstddef>
#include <map>

#include "needed_plugins.h"
#include "runtime/compile/budget_program.h"
#include "runtime/compile/constant_extents.h"
#include "runtime/own/own_program.h"
#include "runtime/plan/instruction.h"
#include "runtime/plan/usable_layouts.h"
#include "runtime/program/body_programs.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/provide.h"
#include "weft/core/text/text.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/placement.h"
#include "weft/runtime/program/backend_program.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/log.h"
#include "weft/support/mapped_file.h"
#include "weft/support/out_of_memory.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"
#include "weftx.h"

namespace weft {
namespace {

class Reader {
 public:
  Reader(std::string_view file, std::shared_ptr<void> owner, const LoadOptions& options)
      : file_(file), owner_(std::move(owner)), options_(options) {}

  std::shared_ptr<Program> Load() {
    const Timer timer;
    RequestScope scope(options_.limits);
    ReadFrame();
    ReadMeta();
    if (const auto it = sections_.find(weftx::kPlugins); it != sections_.end())
      CheckPlugins(it->second);
    const std::string name = options_.backend.empty() ? backend_ : options_.backend;
    const std::shared_ptr<Backend> backend = BackendFor(name, options_.threads);
    PassOptions passes;
    passes.limits = options_.limits;
    std::vector<PassRecord> records;
    passes.records = &records;
    CompileOptions compile;
    compile.backend = name;
    compile.passes.limits = options_.limits;
    compile.threads = options_.threads;
    compile.calls = options_.calls;
    const bool plans = backend->target().traits().kernels;
    if (plans) {
      passes.target = backend->target();
      ReadKernels(*backend);
      passes.enters = [](const PassEntry&, const Graph&) { return false; };  // WithPlan does
    }
    const SideData side = ReadTensors();
    PlannedWays planned;
    planned.budget = options_.memory_budget.any() ? options_.memory_budget : budget_;
    WEFT_CHECK(plans || !options_.memory_budget.any(), kUnsupported,
               "the backend {} plans no memory; a budget means nothing to it", name);
    const bool has_budget = plans && planned.budget.any();
    for (size_t k = 0; k < (has_budget ? ways_ : 1); ++k) {
      Graph g = ReadGraph(weftx::GraphTag(k), side);
      CheckEffects(g);
      if (plans) g = WithPlan(ProvideTypes(std::move(g), passes), passes);
      planned.ways.push_back(
          CompilesPerExtents(g, *backend)
              ? CompilePerExtents(std::move(g), compile, backend)
              : MakeAnyProgram(std::move(g), backend, compile, OwnSections(name)));
      if (!has_budget) continue;
      Program::Impl& way = *planned.ways.back();
      DescribeProgram(&way, name);
      way.limits_ = options_.limits;
      const Program::Impl& first = *planned.ways.front();
      WEFT_CHECK(SameIo(way.inputs_, first.inputs_) && SameIo(way.outputs_, first.outputs_) &&
                     SameIo(way.variables_, first.variables_) && way.written_ == first.written_ &&
                     way.numbers_ == first.numbers_,
                 kInvalidModel, "{}way {} is another program", kDamaged, k);
      WEFT_CHECK(k > 0 || options_.memory_budget.kind != MemoryBudget::Kind::kShare ||
                     WayOf(way.graph_, {}).copies == 0,
                 kUsage,
                 "--memory-budget: the file holds no plan without recomputation, which shares are "
                 "of; give bytes");
    }
    std::shared_ptr<Program> program = FinishProgram(
        has_budget ? MakeBudgetProgram(std::move(planned)) : std::move(planned.ways.front()), name,
        std::move(records), options_.limits, options_.calls);
    program->impl().stats_.compile_seconds = timer.seconds();
    return program;
  }

 private:
  static constexpr uint64_t kLeastView = 64 << 10;  // as many bytes as come with a page of Linux's
  static bool SameIo(const std::vector<IoSpec>& a, const std::vector<IoSpec>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const IoSpec& x, const IoSpec& y) {
      return x.name == y.name && x.type() == y.type() && x.shape.same(y.shape);
    });
  }
  static constexpr const char* kDamaged = "the file is damaged: ";

  void ReadFrame() {
    using namespace weftx;
    WEFT_CHECK(file_.size() >= kBodyAt + 8 && file_.substr(0, 7) == std::string_view(kMagic, 7),
               kInvalidModel, "this is not a compiled program: it does not begin with WEFTX");
    WEFT_CHECK(file_[7] == kMagic[7], kInvalidModel,
               "the program has format {}, this build reads format {}", int(uint8_t(file_[7])),
               int(kMagic[7]));
    WEFT_CHECK(IsSealed(file_), kInvalidModel, "{}its hash does not match", kDamaged);
    const uint64_t count = ReadWord(file_.data() + kBodyAt);
    WEFT_CHECK(count <= (file_.size() - kBodyAt - 8) / kEntryBytes, kInvalidModel, "{}{} sections",
               kDamaged, count);
    for (uint64_t i = 0; i < count; ++i) {
      const char* entry = file_.data() + kBodyAt + 8 + i * kEntryBytes;
      const std::string tag(entry, strnlen(entry, 8));
      const uint64_t offset = ReadWord(entry + 8), size = ReadWord(entry + 16);
      WEFT_CHECK(offset <= file_.size() && size <= file_.size() - offset, kInvalidModel,
                 "{}section '{}' leaves it", kDamaged, tag);
      sections_[tag] = file_.substr(offset, size);
    }
  }
  std::string_view Section(const char* tag) const {
    const auto it = sections_.find(tag);
    WEFT_CHECK(it != sections_.end(), kInvalidModel, "{}it has no section '{}'", kDamaged, tag);
    return it->second;
  }
  void ReadMeta() {
    std::map<std::string, std::string> meta;
    for (const std::string& line : Split(std::string(Section(weftx::kMeta)), '\n')) {
      const size_t at = line.find('=');
      if (at != std::string::npos) meta[line.substr(0, at)] = line.substr(at + 1);
    }
    backend_ = meta["backend"];
    target_ = meta["target"];
    is_current_ = meta["generator"] == std::to_string(KernelCache::GeneratorVersion());
    WEFT_CHECK(!backend_.empty(), kInvalidModel, "{}it names no backend", kDamaged);
    try {
      budget_ = MemoryBudget::Parse(meta["memory"], "memory");
    } catch (const UserError&) {
      WEFT_THROW(kInvalidModel, "{}it has the memory budget '{}'", kDamaged, meta["memory"]);
    }
    const std::string& ways = meta["ways"];
    const int64_t count = ways.empty() ? 1 : TryParseInt64(ways).value_or(0);
    WEFT_CHECK(count > 0 && count <= 64, kInvalidModel, "{}it has {} ways", kDamaged, ways);
    ways_ = size_t(count);
  }

  /// The next number of a section, which shrinks by it.
  static uint64_t Take(std::string_view* in) {
    WEFT_CHECK(in->size() >= 8, kInvalidModel, "{}a table ends early", kDamaged);
    const uint64_t v = weftx::ReadWord(in->data());
    in->remove_prefix(8);
    return v;
  }
  static std::string_view TakeBytes(std::string_view* in, uint64_t size) {
    WEFT_CHECK(in->size() >= size, kInvalidModel, "{}a table ends early", kDamaged);
    const std::string_view bytes = in->substr(0, size);
    in->remove_prefix(size);
    return bytes;
  }

  TensorPtr ReadTensor(std::string_view* table, std::string_view data) {
    const uint64_t type = Take(table), rank = Take(table);
    WEFT_CHECK(type < uint64_t(kNumDTypes) && rank <= 64, kInvalidModel,
               "{}a tensor of dtype {} and rank {}", kDamaged, type, rank);
    const auto dtype = DType(type);
    std::vector<int64_t> dims;
    for (uint64_t i = 0; i < rank; ++i) dims.push_back(int64_t(Take(table)));
    const uint64_t offset = Take(table), size = Take(table);
    WEFT_CHECK(offset <= data.size() && size <= data.size() - offset, kInvalidModel,
               "{}a tensor extends beyond it", kDamaged);
    std::string_view bytes = data.substr(offset, size);
    if (dtype == DType::kString) {
      uint64_t count = 1;
      for (int64_t d : dims) {
        WEFT_CHECK(
            d >= 0 && !__builtin_mul_overflow(count, uint64_t(d), &count) && count <= size / 8,
            kInvalidModel, "{}a tensor has too few strings", kDamaged);
      }
      auto t = std::make_shared<Tensor>(dtype, dims);
      for (std::string& s : t->mutable_strings()) s = TakeBytes(&bytes, Take(&bytes));
      return t;
    }
    // The constructor judges the extents; the view is never written through.
    auto view =
        std::make_shared<Tensor>(dtype, std::move(dims), const_cast<char*>(bytes.data()), owner_);
    WEFT_CHECK(uint64_t(view->num_bytes()) == size, kInvalidModel, "{}a tensor of {} bytes has {}",
               kDamaged, view->num_bytes(), size);
    // Aligned in the file, so in a mapping; bytes given by a caller may begin anywhere.
    // Small ones are copied: a page that is read brings those around it, of packed weights.
    const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % alignof(std::max_align_t) == 0;
    if (size == 0 || (aligned && size >= kLeastView)) return view;
    auto copy = std::make_shared<Tensor>(dtype, view->dims());
    std::memcpy(copy->mutable_data(), bytes.data(), size);
    return copy;
  }

  SideData ReadTensors() {
    std::string_view table = Section(weftx::kTensors);
    const std::string_view data = Section(weftx::kData);
    SideData side;
    while (!table.empty()) {
      const uint64_t hash = Take(&table);
      side[hash] = ReadTensor(&table, data);
    }
    return side;
  }
  Graph ReadGraph(const std::string& section, const SideData& side) const {
    SideData known = side;
    ParseOptions parse;
    parse.source_name = section;
    parse.side_data = &known;
    parse.max_depth = int(std::min<int64_t>(options_.limits.depth, INT_MAX));
    Graph g = ParseGraph(Section(section.c_str()), parse);
    Limits::Check("nodes", int64_t(g.num_nodes()), options_.limits.nodes);
    return g;
  }

  /// Of the backend's own program, for the same backend.
  std::vector<NamedBytes> OwnSections(const std::string& backend) const {
    std::vector<NamedBytes> own;
    const auto it = sections_.find(weftx::kOwn);
    if (it == sections_.end() || SplitTarget(backend).first != SplitTarget(backend_).first)
      return own;
    std::string_view in = it->second;
    while (!in.empty()) {
      const uint64_t name = Take(&in), bytes = Take(&in);
      NamedBytes& s = own.emplace_back();
      s.name = TakeBytes(&in, name);
      s.bytes = TakeBytes(&in, bytes);
    }
    return own;
  }

  /// Kernels of the file, where this machine runs them.
  void ReadKernels(const Backend& backend) {
    if (is_current_ && backend.Runs(target_)) {
      std::string_view in = Section(weftx::kKernels);
      while (!in.empty()) {
        const Hash128 key{Take(&in), Take(&in)};
        auto compiled = std::make_shared<CompiledKernel>();
        compiled->target = target_;
        compiled->binary = TakeBytes(&in, Take(&in));
        compiled->from_cache = true;
        saved_[key] = std::move(compiled);
      }
    } else {
      WEFT_LOG(kInfo, "the program holds code for {}, which this machine or version does not run",
               target_);
    }
  }

  /// The graph and its bodies with all that plans are made from.
  Graph WithPlan(Graph g, const PassOptions& passes) const {
    SubgraphMap fused;
    for (NodePtr n : g.TopoOrder()) {
      if (IsOp(n, builtin::kFused)) fused.set(n, FusedBody(n));
      if (!MayHaveBodyPrograms(n)) continue;
      for (const std::string& name : BodyNames(n)) {
        Graph body = *n->attr<GraphPtr>(name);
        if (!body.HasAttr(weftx::kPlanned)) continue;
        body.DropAttr(weftx::kPlanned);
        ReplaceBody(g, n, name, WithPlan(ProvideTypes(std::move(body), passes), passes));
      }
    }
    if (HasRegions(g)) return g;
    g.SetAttr("subgraph", std::move(fused));
    // Another machine's libraries may take other layouts.
    if (g.HasAttr("layout") && !UsableLayouts(g, passes.target))
      g = ApplyPasses(std::move(g), PipelineBetween(PipelineEnd::kGraph, PipelineEnd::kLayouts),
                      passes);
    g = WithCode(std::move(g), passes);
    return ApplyPasses(std::move(g), PipelineBetween(PipelineEnd::kCode, PipelineEnd::kPlan),
                       passes);
  }

  /// The graph with "kernel" and "rtc": code from the file where it is there, else what a compiler
  /// makes.
  Graph WithCode(Graph g, const PassOptions& passes) const {
    g = ApplyPasses(std::move(g), PipelineBetween(PipelineEnd::kLayouts, PipelineEnd::kKernels),
                    passes);
    const KernelMap& kernels = g.GetAttr<KernelMap>("kernel");
    RtcMap rtc;
    bool complete = true;
    for (NodeId id = 0; id < kernels.id_bound(); ++id) {
      const LoweredKernel* k = kernels.find(id);
      if (!k) continue;
      CompiledKernels own;
      for (const KernelPtr& kernel : k->Kernels())
        if (const auto it = saved_.find(kernel->Key()); it != saved_.end())
          own.push_back(it->second);
      if (own.size() == k->Kernels().size())
        rtc.set(id, std::move(own));
      else
        complete = false;
    }
    if (complete) {
      g.SetAttr("rtc", std::move(rtc));
      return g;
    }
    g = ApplyPasses(std::move(g), PipelineBetween(PipelineEnd::kKernels, PipelineEnd::kCode),
                    passes);
    RtcMap all = g.TakeAttrOr<RtcMap>("rtc");
    for (NodeId id = 0; id < rtc.id_bound(); ++id)
      if (const CompiledKernels* c = rtc.find(id)) all.set(id, *c);
    g.SetAttr("rtc", std::move(all));
    return g;
  }

  std::string_view file_;
  std::shared_ptr<void> owner_;
  const LoadOptions& options_;
  std::map<std::string, std::string_view> sections_;
  std::string backend_, target_;
  bool is_current_ = false;
  MemoryBudget budget_;
  size_t ways_ = 1;
  std::map<Hash128, CompiledKernelPtr> saved_;
};

}  // namespace

std::shared_ptr<const Program> LoadProgramFromMemory(const void* data, size_t size,
                                                     std::shared_ptr<void> owner,
                                                     const std::string& name,
                                                     const LoadOptions& options) {
  try {
    return WithMemoryTo("load the program", {}, [&] {
      return Reader({static_cast<const char*>(data), size}, std::move(owner), options).Load();
    });
  } catch (Error& e) {
    e.AddPlace(name);
    throw;
  }
}

std::shared_ptr<const Program> LoadProgram(const std::string& path, const LoadOptions& options) {
  size_t size = 0;
  const std::shared_ptr<void> map = MapFile(path, options.limits.file_bytes, &size);
  auto program = LoadProgramFromMemory(map.get(), size, map, path, options);
  ReleaseMapped(map.get(), int64_t(size));  // all of it was hashed
  return program;
}

}  // namespace weft
