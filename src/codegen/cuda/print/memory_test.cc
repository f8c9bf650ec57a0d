/// Tests of how generated kernels use the memory of a GPU: 16 bytes an access, reads before
/// what is computed from them, and enough bytes under way. Read from the machine code that
/// NVRTC makes for sm_90.
#include <algorithm>
#include <cstring>

#include "codegen/cuda/nvrtc/cubin_info.h"
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "tests/support/kernels/kernel_case_builder.h"
#include "text.h"
#include "weft/codegen/lower/lower.h"

namespace weft {
namespace {

/// Bytes that an H200 wants under way on each multiprocessor (elementwise.cc).
constexpr int kWanted = 48 << 10;

// ---- machine code ----

template <class T>
T At(const std::string& bytes, size_t offset) {
  T v{};
  REQUIRE(offset + sizeof v <= bytes.size());
  std::memcpy(&v, bytes.data() + offset, sizeof v);
  return v;
}

/// The section ".text.<entry>" of a cubin, an ELF file of 64 bits.
std::string CodeOf(const std::string& cubin, const std::string& entry) {
  const size_t table = At<uint64_t>(cubin, 0x28), size = At<uint16_t>(cubin, 0x3a);
  const size_t names = At<uint64_t>(cubin, table + size * At<uint16_t>(cubin, 0x3e) + 0x18);
  for (size_t i = 0; i < At<uint16_t>(cubin, 0x3c); ++i) {
    const size_t section = table + size * i;
    if (std::string(cubin.c_str() + names + At<uint32_t>(cubin, section)) != ".text." + entry)
      continue;
    return cubin.substr(At<uint64_t>(cubin, section + 0x18), At<uint64_t>(cubin, section + 0x20));
  }
  FAIL("no code of " << entry);
  return {};
}

/// What this test knows of instructions, which take 16 bytes each from sm_70 on: the operation is
/// in the lowest 9 bits, what form its operands have in the next 3; loads and stores have the size
/// in bits 73 to 75.
enum class What { kOther, kLoad, kStore, kCompute };
struct Instruction {
  What what = What::kOther;
  int bytes = 0;  ///< of a load or store
};
Instruction Decode(uint64_t low, uint64_t high) {
  static constexpr int kBytes[] = {1, 1, 2, 2, 4, 8, 16, 16};
  const int bytes = kBytes[high >> 9 & 7];
  switch (low & 0xfff) {
    case 0x981:  // LDG
      return {What::kLoad, bytes};
    case 0x986:  // STG
      return {What::kStore, bytes};
  }
  switch (low & 0x1ff) {
    case 0x008:  // FSEL
    case 0x009:  // FMNMX
    case 0x020:  // FMUL
    case 0x021:  // FADD
    case 0x023:  // FFMA
    case 0x029:  // DADD
    case 0x030:  // HADD2, also f16 to f32
      return {What::kCompute, 0};
  }
  return {};
}

struct Use {
  int together = 0;    ///< most vector loads with neither a computation nor a store between them
  int all_loads = 0;   ///< vector loads of the entry
  int all_stores = 0;  ///< vector stores
  int registers = 0;
};
Use UseOf(const KernelPtr& kernel, const std::string& entry, int vector_bytes = 16) {
  NvrtcCompiler compiler(90, 1);
  std::vector<std::string> errors;
  const std::string cubin = compiler.Compile({kernel}, &errors)[0];
  REQUIRE(errors[0] == "");
  const std::string code = CodeOf(cubin, entry);
  Use use;
  use.registers = cuda::ReadCubin(cubin, entry).registers;
  int run = 0;
  for (size_t at = 0; at + 16 <= code.size(); at += 16) {
    const Instruction i = Decode(At<uint64_t>(code, at), At<uint64_t>(code, at + 8));
    const bool vector = i.bytes == vector_bytes;
    use.all_loads += i.what == What::kLoad && vector;
    use.all_stores += i.what == What::kStore && vector;
    if (i.what == What::kLoad && vector) use.together = std::max(use.together, ++run);
    if (i.what == What::kStore || i.what == What::kCompute) run = 0;
  }
  return use;
}

/// Bytes that a multiprocessor of sm_90 has under way when each of its threads has `bytes`: 65536
/// registers, which warps get by 8 a thread; 2048 threads; 32 blocks.
int UnderWay(int bytes, int registers, int block) {
  const int by_registers = 65536 / ((registers + 7) / 8 * 8 * block);
  return std::min({by_registers, 2048 / block, 32}) * block * bytes;
}

// ---- kernels ----

/// The sum of `inputs` tensors of type `t`; of one, Relu.
KernelPtr Elementwise(DType t, SymInt n, int inputs) {
  ComputeSpec spec;
  Expr y;
  for (int i = 0; i < inputs; ++i) {
    spec.inputs.push_back({t, {n}});
    const Expr x = Expr::Cast(AccumulatorOf(t), Expr::Load(i, t, {Expr::Index(0)}));
    y = i == 0 ? x : y + x;
  }
  if (inputs == 1) y = Max(y, Expr::Const(y->dtype(), 0));
  spec.outputs = {{t, {n}}};
  spec.values = {Expr::Cast(t, y)};
  return LowerKernel(spec, Facts()).kernel;
}

bool Skip() {
  std::string why;
  if (NvrtcAvailable(&why)) return false;
  MESSAGE("skipped: ", why);
  return true;
}

TEST_CASE(
    "element-wise kernels move 16 bytes an access, read before they compute, enough at a time") {
  if (Skip()) return;
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kU8})
    for (const int inputs : {1, 2, 3})
      for (const bool dynamic : {false, true}) {
        const KernelPtr k =
            Elementwise(t, dynamic ? SymInt::Symbol("n") : SymInt(int64_t{1} << 24), inputs);
        const Use use = UseOf(k, k->Name());
        CAPTURE(DTypeName(t));
        CAPTURE(inputs);
        CAPTURE(dynamic);
        CAPTURE(use.registers);
        // A single input is read twice.
        const int vectors = inputs == 1 ? 2 : inputs;
        CHECK(use.together == vectors);
        CHECK(use.all_loads == vectors);
        CHECK(use.all_stores == (inputs == 1 ? 2 : 1));
        CHECK(UnderWay(16 * vectors, use.registers, 256) >= kWanted);
      }
}

/// Of f32 rows.
KernelPtr Lower(std::vector<TensorSpec> inputs, TensorSpec output, Expr value) {
  ComputeSpec spec;
  spec.inputs = std::move(inputs);
  spec.outputs = {std::move(output)};
  spec.values = {std::move(value)};
  // Sums of rows that may be empty, of which nothing is known, are not lowered to rows.
  Facts facts;
  for (const TensorSpec& t : spec.inputs)
    for (SymInt d : t.dims)
      if (!d.is_const()) facts.SetRange(d, {1, INT64_MAX});
  return LowerKernel(spec, facts).kernel;
}
Expr Over(ReduceOp op, const std::vector<SymInt>& extents, const std::function<Expr(Indices)>& f) {
  return Expr::Reduce(op, extents, [&](const Indices& v) { return f(v); });
}
Expr Load(const Indices& at) { return Expr::Load(0, DType::kF32, at); }
Expr I(int k) { return Expr::Index(k); }

KernelPtr RowSum(SymInt p, SymInt r, DType t = DType::kF32) {
  return Lower({{t, {p, r}}}, {DType::kF32, {p}}, Over(ReduceOp::kSum, {r}, [&](const Indices& v) {
                 return Expr::Cast(DType::kF32, Expr::Load(0, t, {I(0), v[0]}));
               }));
}
KernelPtr ColumnSum(SymInt p, SymInt r) {
  return Lower({{DType::kF32, {p, r}}}, {DType::kF32, {r}},
               Over(ReduceOp::kSum, {p}, [](const Indices& v) {
                 return Load({v[0], I(0)});
               }));
}
KernelPtr Softmax(SymInt p, SymInt r) {
  const TensorSpec matrix{DType::kF32, {p, r}};
  const auto row = [](const Indices& v) { return Load({I(0), v[0]}); };
  const Expr most = Over(ReduceOp::kMax, {r}, row);
  const auto power = [&](const Indices& v) { return Expr::Call(CallOp::kExp, {row(v) - most}); };
  return Lower({matrix}, matrix, power({I(1)}) / Over(ReduceOp::kSum, {r}, power));
}
/// What a batch norm begins with: sums over batch and pictures.
KernelPtr ChannelSum(SymInt batch, int64_t channels, int64_t picture) {
  return Lower({{DType::kF32, {batch, channels, picture}}}, {DType::kF32, {channels}},
               Over(ReduceOp::kSum, {batch, picture}, [](const Indices& v) {
                 return Load({v[0], I(0), v[1]});
               }));
}

/// Of all entries that read the input, the least that is under way at a time.
void CheckRows(const std::string& what, const KernelPtr& k, int vector_bytes,
               int wanted = kWanted) {
  CHECK(k->tmpl == KernelTemplate::kRow);
  const int block = ScheduleCuda(*k).block;
  for (const std::string& entry : CudaEntries(*k)) {
    const std::string suffix = entry.substr(k->Name().size());
    // Steps behind the first read little; entries for the largest extents and for many parts
    // are for rare uses.
    if (suffix != "" && suffix != "_n" && suffix != "_s0") continue;
    if (suffix == "" && k->num_symbols > 0) continue;
    const Use use = UseOf(k, entry, vector_bytes);
    CAPTURE(what);
    CAPTURE(suffix);
    CAPTURE(use.together);
    CAPTURE(use.registers);
    CHECK(UnderWay(vector_bytes * use.together, use.registers, block) >= wanted);
  }
}

TEST_CASE("rows read enough at a time, short and long, by rows and by columns") {
  if (Skip()) return;
  for (const int64_t r : {128, 512, 1000, 4096, 65536}) {
    CAPTURE(r);
    CheckRows("sum", RowSum(8192, r), 16);
    CheckRows("soft-max", Softmax(8192, r), 16);
  }
  CheckRows("slices", RowSum(4, int64_t{1} << 20), 16);
  CheckRows("columns", ColumnSum(8192, 1000), 4);
  CheckRows("channels", ChannelSum(64, 64, 112 * 112), 16);
  const SymInt n = SymInt::Symbol("n"), m = SymInt::Symbol("m");
  CheckRows("channels of a run-time batch", ChannelSum(n, 64, 112 * 112), 16);
  CheckRows("sum of a run-time number of rows", RowSum(n, 1000), 16);
  // The length known at run time only, or odd pictures: eight single elements a thread.
  CheckRows("sum of run-time rows", RowSum(n, m), 4);
  // 16 in one launch; of slices the compiler reads 8 before the first is added.
  CheckRows("sum of run-time rows of 16 bits", RowSum(n, m, DType::kBF16), 2, 32 << 10);
  CheckRows("soft-max of run-time rows", Softmax(n, m), 4);
  CheckRows("columns of a run-time matrix", ColumnSum(n, m), 4);
  CheckRows("channels of odd pictures, run-time batch", ChannelSum(n, 64, 7 * 7), 4);
}

}  // namespace
}  // namespace weft
