/// cublaslt_test.cc: what cuBLASLt is told and asked
/// (src/backends/cuda/libraries/cublaslt.cc). A table of ours notes every attribute; any call
/// may fail, and nothing may be left. Where cuBLASLt itself is available, its own descriptors
/// are filled: they check numbers and sizes of attributes, and need no GPU. Numbers below are
/// those of CUDA's headers.
#include "backends/cuda/libraries/cublaslt.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "backends/cuda/doubles/failing_driver.h"
#include "backends/cuda/driver/device.h"
#include "tests/support/e2e_util.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;
using namespace weft::cuda;

/// What any of the library's handles points to here.
struct Object {
  std::vector<int64_t> made_with;
  std::map<int, std::string> values;  ///< by attribute
  template <class T>
  T Get(int attribute) const {
    REQUIRE(values.count(attribute) == 1);
    T value{};
    REQUIRE(values.at(attribute).size() == sizeof(T));
    std::memcpy(&value, values.at(attribute).data(), sizeof(T));
    return value;
  }
  bool operator==(const Object& o) const { return made_with == o.made_with; }
};

struct FakeLt {
  int64_t calls = 0, failing = -1;  ///< the number of the call that fails
  lt::Status status = 14;           ///< with that
  std::set<Object*> alive;
  std::vector<std::string> problems;
  /// Of the heuristic.
  int algorithms = 1, asked = 0;
  size_t workspace = 0;
  Object preference;
  struct Run {
    Object desc, a_layout, b_layout, c_layout, y_layout;
    double alpha = 0, beta = 0;
    const void *a, *b, *c, *y, *workspace;
    size_t workspace_bytes;
    uint64_t algo;
    StreamHandle* stream;
  };
  std::vector<Run> runs;

  static FakeLt& Get() {
    static FakeLt f;
    return f;
  }
};
FakeLt& F() { return FakeLt::Get(); }
bool Fails() { return F().calls++ == F().failing; }

template <class T>
const Object& Of(const T* handle) {
  auto* o = const_cast<Object*>(reinterpret_cast<const Object*>(handle));
  if (F().alive.count(o) == 0) F().problems.push_back("what is not alive is used");
  return *o;
}
template <class T>
lt::Status Make(T** handle, std::vector<int64_t> with) {
  if (Fails()) return F().status;
  auto* made = new Object{std::move(with), {}};
  F().alive.insert(made);
  *handle = reinterpret_cast<T*>(made);
  return 0;
}
template <class T>
lt::Status Drop(T* handle) {
  auto* o = reinterpret_cast<Object*>(handle);
  if (F().alive.erase(o) == 0)
    F().problems.push_back("dropped twice");
  else
    delete o;
  return 0;
}
template <class T>
lt::Status Set(T* handle, int attribute, const void* value, size_t bytes) {
  if (Fails()) return F().status;
  const_cast<Object&>(Of(handle)).values[attribute] = {static_cast<const char*>(value), bytes};
  return 0;
}

CublasLtApi Table() {
  CublasLtApi a;
  a.GetVersion = [] { return size_t{130100}; };
  a.StatusString = [](lt::Status) { return "what went wrong"; };
  a.Create = [](lt::Handle** h) { return Make(h, {}); };
  a.Destroy = [](lt::Handle* h) { return Drop(h); };
  a.DescCreate = [](lt::Desc** d, int compute, int scale) { return Make(d, {compute, scale}); };
  a.DescDestroy = [](lt::Desc* d) { return Drop(d); };
  a.DescSet = [](lt::Desc* d, int n, const void* v, size_t b) { return Set(d, n, v, b); };
  a.LayoutCreate = [](lt::Layout** l, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    return Make(l, {type, int64_t(rows), int64_t(columns), leading});
  };
  a.LayoutDestroy = [](lt::Layout* l) { return Drop(l); };
  a.LayoutSet = [](lt::Layout* l, int n, const void* v, size_t b) { return Set(l, n, v, b); };
  a.PreferenceCreate = [](lt::Preference** p) { return Make(p, {}); };
  a.PreferenceDestroy = [](lt::Preference* p) { return Drop(p); };
  a.PreferenceSet = [](lt::Preference* p, int n, const void* v, size_t b) {
    return Set(p, n, v, b);
  };
  a.AlgoGetHeuristic = [](lt::Handle*, lt::Desc* d, lt::Layout* x, lt::Layout* y, lt::Layout*,
                          lt::Layout*, lt::Preference* p, int most, lt::Found* found, int* count) {
    if (Fails()) return F().status;
    Of(d), Of(x), Of(y);
    F().preference = Of(p);
    *count = std::min(most, F().algorithms);
    ++F().asked;
    found->algo.data[0] = uint64_t(F().asked);
    found->workspace_bytes = F().workspace;
    return 0;
  };
  a.Matmul = [](lt::Handle*, lt::Desc* d, const void* alpha, const void* a, lt::Layout* al,
                const void* b, lt::Layout* bl, const void* beta, const void* c, lt::Layout* cl,
                void* y, lt::Layout* yl, const lt::Algo* algo, void* workspace, size_t bytes,
                StreamHandle* stream) {
    if (Fails()) return F().status;
    FakeLt::Run r{Of(d), Of(al), Of(bl),    Of(cl), Of(yl),        0,     0, a, b,
                  c,     y,      workspace, bytes,  algo->data[0], stream};
    const bool wide = r.desc.made_with[1] == 1;
    r.alpha = wide ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
    r.beta = wide ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
    F().runs.push_back(r);
    return 0;
  };
  return a;
}

std::shared_ptr<Device> NewDevice() {
  REQUIRE(FailingDriver::Get().alive() == 0);
  FailingDriver::Get().Reset();
  return Device::Open(0, FailingDriverTable());
}
CublasLt New(CublasLtApi table = Table()) {
  F() = FakeLt();
  return CublasLt(NewDevice(), std::make_shared<const CublasLtApi>(std::move(table)));
}
void CheckNothingLeft() {
  CHECK(F().alive.empty());
  for (const std::string& p : F().problems) FAIL_CHECK(p);
  CHECK(FailingDriver::Get().alive() == 0);
}

void* At(uint64_t address) { return reinterpret_cast<void*>(address); }
StreamHandle* const kStream = reinterpret_cast<StreamHandle*>(0x77);
/// a, b, y, row, c
void* const kOperands[] = {At(0x1000), At(0x2000), At(0x3000), At(0x4000), At(0x5000)};

/// What one run of the plan tells the library.
FakeLt::Run RunOf(const std::shared_ptr<const LibraryPlan>& plan) {
  REQUIRE((plan != nullptr));
  F().runs.clear();
  plan->Run(kStream, kOperands, At(0x6000));
  REQUIRE(F().runs.size() == 1);
  return F().runs[0];
}

/// Messages while it lives.
struct Heard {
  std::vector<std::string> messages;
  LogLevel before = GetLogLevel();
  LogSink sink = SetLogSink([this](LogLevel level, const char*, int, std::string_view text) {
    if (level >= LogLevel::kWarning) messages.emplace_back(text);
  });
  Heard() { SetLogLevel(LogLevel::kWarning); }
  ~Heard() {
    SetLogSink(sink);
    SetLogLevel(before);
  }
};

ProductSpec Spec(int64_t m, int64_t n, int64_t k) {
  ProductSpec s;
  s.m = m;
  s.n = n;
  s.k = k;
  return s;
}
/// One of every kind.
std::vector<ProductSpec> AllKinds() {
  std::vector<ProductSpec> specs;
  for (DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16})
    for (int bits = 0; bits < 4; ++bits)
      for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGeluTanh}) {
        ProductSpec s = Spec(5, 7, 3);
        s.type = type;
        s.trans_a = bits & 1;
        s.trans_b = bits & 2;
        s.bias = bits == 1 || bits == 2;
        s.activation = activation;
        s.beta = bits == 3;
        if (bits == 2) {
          s.batch = 4;
          s.step_a = 15;
        }
        specs.push_back(s);
      }
  return specs;
}

}  // namespace

TEST_CASE("cuBLASLt: a row-major product is the product of the transposed operands, swapped") {
  {
    CublasLt lt = New();
    F().workspace = 12345;
    ProductSpec s = Spec(5, 7, 3);
    s.alpha = 0.5;
    const auto plan = lt.Plan(s);
    const FakeLt::Run r = RunOf(plan);
    CHECK(r.desc.made_with == std::vector<int64_t>{68, 0});  // float32 sums and factors
    CHECK(r.desc.values.empty());
    // Rows, columns and the distance of columns: b [3, 7], a [5, 3], y [5, 7].
    CHECK(r.a_layout.made_with == std::vector<int64_t>{0, 7, 3, 7});
    CHECK(r.b_layout.made_with == std::vector<int64_t>{0, 3, 5, 3});
    CHECK(r.y_layout.made_with == std::vector<int64_t>{0, 7, 5, 7});
    CHECK(r.c_layout == r.y_layout);
    CHECK(r.a_layout.values.empty());
    CHECK(r.a == kOperands[1]);
    CHECK(r.b == kOperands[0]);
    CHECK(r.y == kOperands[2]);
    CHECK(r.c == kOperands[2]);
    CHECK(r.alpha == 0.5);
    CHECK(r.beta == 0);
    CHECK(r.stream == kStream);
    CHECK(r.algo == 1);
    CHECK(r.workspace == At(0x6000));
    CHECK(r.workspace_bytes == 12345);
    CHECK(plan->workspace_bytes() == 12345);
    // The preference: 32 MiB, parts added in float32, and the alignment of what the runtime places.
    CHECK(F().preference.Get<uint64_t>(1) == 32 << 20);
    CHECK(F().preference.Get<uint32_t>(3) == 2);
    for (int which : {5, 6, 7, 8}) CHECK(F().preference.Get<uint32_t>(which) == 64);
  }
  CheckNothingLeft();
}

TEST_CASE("cuBLASLt: operands that lie transposed") {
  {
    CublasLt lt = New();
    ProductSpec s = Spec(5, 7, 3);
    s.trans_a = true;
    FakeLt::Run r = RunOf(lt.Plan(s));
    CHECK(r.desc.values.size() == 1);
    CHECK(r.desc.Get<int32_t>(4) == 1);  // its B is our a
    CHECK(r.b_layout.made_with == std::vector<int64_t>{0, 5, 3, 5});
    s.trans_a = false;
    s.trans_b = true;
    r = RunOf(lt.Plan(s));
    CHECK(r.desc.values.size() == 1);
    CHECK(r.desc.Get<int32_t>(3) == 1);
    CHECK(r.a_layout.made_with == std::vector<int64_t>{0, 3, 7, 3});
    CHECK(r.y_layout.made_with == std::vector<int64_t>{0, 7, 5, 7});
  }
  CheckNothingLeft();
}

TEST_CASE("cuBLASLt: types") {
  {
    CublasLt lt = New();
    const auto of = [&](DType type, bool tf32) {
      ProductSpec s = Spec(5, 7, 3);
      s.type = type;
      s.tf32 = tf32;
      s.alpha = 0.1;
      const FakeLt::Run r = RunOf(lt.Plan(s));
      CHECK(r.alpha == (type == DType::kF64 ? 0.1 : double(0.1f)));
      return std::vector<int64_t>{r.desc.made_with[0], r.desc.made_with[1],
                                  r.y_layout.made_with[0]};
    };
    CHECK(of(DType::kF32, false) == std::vector<int64_t>{68, 0, 0});
    CHECK(of(DType::kF32, true) == std::vector<int64_t>{77, 0, 0});
    CHECK(of(DType::kF64, false) == std::vector<int64_t>{70, 1, 1});
    CHECK(of(DType::kF16, false) == std::vector<int64_t>{68, 0, 2});
    CHECK(of(DType::kBF16, false) == std::vector<int64_t>{68, 0, 14});
  }
  CheckNothingLeft();
}

TEST_CASE("cuBLASLt: what follows the sums") {
  {
    CublasLt lt = New();
    const struct {
      bool bias;
      Activation activation;
      uint32_t epilogue;
    } rows[] = {{true, Activation::kNone, 4},
                {false, Activation::kRelu, 2},
                {true, Activation::kRelu, 6},
                {false, Activation::kGeluTanh, 32},
                {true, Activation::kGeluTanh, 36}};
    for (const auto& row : rows) {
      CAPTURE(row.epilogue);
      ProductSpec s = Spec(5, 7, 3);
      s.bias = row.bias;
      s.activation = row.activation;
      s.beta = -2;
      const FakeLt::Run r = RunOf(lt.Plan(s));
      CHECK(r.desc.Get<uint32_t>(7) == row.epilogue);
      CHECK(r.desc.values.count(8) == size_t(row.bias));
      if (row.bias) CHECK(r.desc.Get<void*>(8) == kOperands[3]);
      CHECK(r.c == kOperands[4]);
      CHECK(r.beta == -2);
    }
  }
  CheckNothingLeft();
}

TEST_CASE("cuBLASLt: many products at once") {
  {
    CublasLt lt = New();
    ProductSpec s = Spec(5, 7, 3);
    s.batch = 11;
    s.step_b = 21;
    const FakeLt::Run r = RunOf(lt.Plan(s));
    for (const Object* l : {&r.a_layout, &r.b_layout, &r.y_layout}) CHECK(l->Get<int32_t>(5) == 11);
    CHECK(r.a_layout.Get<int64_t>(6) == 21);
    CHECK(r.b_layout.Get<int64_t>(6) == 0);  // one a for all
    CHECK(r.y_layout.Get<int64_t>(6) == 35);
  }
  CheckNothingLeft();
}

TEST_CASE("cuBLASLt: equal specs share a plan, and no is remembered") {
  {
    CublasLt lt = New();
    const auto plan = lt.Plan(Spec(5, 7, 3));
    CHECK((lt.Plan(Spec(5, 7, 3)) == plan));
    CHECK(F().asked == 1);
    for (ProductSpec s : AllKinds()) CHECK((lt.Plan(s) != nullptr));
    CHECK(F().asked == int(AllKinds().size()));  // the first of them is known
    F().algorithms = 0;
    CHECK((lt.Plan(Spec(8, 8, 8)) == nullptr));
    F().algorithms = 1;
    CHECK((lt.Plan(Spec(8, 8, 8)) == nullptr));
    CHECK((lt.Plan(Spec(8, 8, 9)) != nullptr));
    // What it is not asked about at all.
    const int asked = F().asked;
    for (ProductSpec s : {Spec(0, 7, 3), Spec(5, 0, 3), Spec(5, 7, 0)})
      CHECK((lt.Plan(s) == nullptr));
    ProductSpec ints = Spec(5, 7, 3), many = ints;
    ints.type = DType::kI32;
    many.batch = 65536;
    for (const ProductSpec& s : {ints, many}) CHECK((lt.Plan(s) == nullptr));
    CHECK(F().asked == asked);
    // What it takes for impossible: the last call of a plan.
    F().calls = 0;
    REQUIRE((lt.Plan(Spec(1, 2, 3)) != nullptr));
    F().failing = 2 * F().calls - 1;
    F().status = lt::kInvalidValue;
    CHECK((lt.Plan(Spec(1, 2, 4)) == nullptr));
    CHECK((lt.Plan(Spec(1, 2, 4)) == nullptr));
    // Plans go when there are very many of them, but not from who has one.
    for (int64_t i = 1; i < 3000; ++i) lt.Plan(Spec(i, 2, 2));
    CHECK(F().alive.size() < 10000);
    CHECK(RunOf(plan).y == kOperands[2]);
  }
  CheckNothingLeft();
}

TEST_CASE("cuBLASLt: any call that fails is told, and nothing is left") {
  ProductSpec s = Spec(5, 7, 3);
  s.trans_a = s.trans_b = s.bias = true;
  s.batch = 2;
  s.step_a = 15;
  int failures = 0;
  for (int64_t n = 0; n < 100; ++n) {
    CAPTURE(n);
    {
      const Heard heard;
      CublasLt lt = New();
      F().failing = n;
      const auto plan = lt.Plan(s);
      if (plan && F().failing >= F().calls) break;
      ++failures;
      REQUIRE(!plan);
      REQUIRE(heard.messages.size() == 1);
      CHECK(heard.messages[0].find("what went wrong") != std::string::npos);
      // Another time it does, unless there is no handle.
      CHECK((lt.Plan(s) != nullptr) == (n > 0));
      CHECK(heard.messages.size() == 1);
    }
    CheckNothingLeft();
  }
  CHECK(failures == 1 + 5 + 3 * 3 + 7 + 1);  // the handle, the description, layouts, the preference
}

TEST_CASE("cuBLASLt: a run that fails") {
  {
    CublasLt lt = New();
    ProductSpec s = Spec(5, 7, 3);
    s.bias = true;
    const auto plan = lt.Plan(s);
    REQUIRE((plan != nullptr));
    for (int64_t n : {0, 1}) {
      F().failing = F().calls + n;
      const auto caught = Catch([&] { plan->Run(kStream, kOperands, nullptr); });
      REQUIRE(caught);
      CHECK(caught->code == ErrorCode::kDevice);
      CHECK(caught->says("what went wrong"));
    }
    CHECK(RunOf(plan).desc.Get<void*>(8) == kOperands[3]);
    void* const crooked[] = {At(0x1000), At(0x2010), At(0x3000), At(0x4000), nullptr};
    CHECK(Catch([&] { plan->Run(kStream, crooked, nullptr); })->code == ErrorCode::kInternal);
  }
  CheckNothingLeft();
}

TEST_CASE("cuBLASLt: threads run one plan with rows of their own") {
  {
    CublasLt lt = New();
    ProductSpec s = Spec(5, 7, 3);
    s.bias = true;
    const auto plan = lt.Plan(s);
    REQUIRE((plan != nullptr));
    F().runs.clear();
    std::vector<std::thread> threads;
    for (uint64_t i = 1; i <= 4; ++i)
      threads.emplace_back([&plan, i] {
        void* const operands[] = {At(0x1000), At(0x2000), At(i << 16), At(i << 24), nullptr};
        for (int run = 0; run < 300; ++run) plan->Run(kStream, operands, nullptr);
      });
    for (std::thread& t : threads) t.join();
    CHECK(F().runs.size() == 1200);
    int wrong = 0;
    for (const FakeLt::Run& r : F().runs)
      wrong += uint64_t(r.desc.Get<void*>(8)) != uint64_t(r.y) << 8;
    CHECK(wrong == 0);
  }
  CheckNothingLeft();
}

TEST_CASE("cuBLASLt: what is missing is told once") {
  {
    const Heard heard;
    CublasLtApi none;
    none.error = "cuBLASLt was not found (libcublasLt.so.13: cannot open)";
    CublasLt lt = New(none);
    for (const ProductSpec& s : AllKinds()) CHECK((lt.Plan(s) == nullptr));
    REQUIRE(heard.messages.size() == 1);
    CHECK(heard.messages[0].find("libcublasLt.so.13") != std::string::npos);
  }
  CheckNothingLeft();
}

TEST_CASE("cuBLASLt: the library takes every attribute that we set") {
  const auto real = CublasLtLibrary();
  if (!real->ok()) {
    MESSAGE("skipped: " << real->error);
    return;
  }
  MESSAGE("cuBLASLt " << real->GetVersion());
  // Its own descriptors; what needs a GPU is ours.
  CublasLtApi mixed = *real;
  const CublasLtApi ours = Table();
  mixed.Create = ours.Create;
  mixed.Destroy = ours.Destroy;
  mixed.AlgoGetHeuristic = [](lt::Handle*, lt::Desc*, lt::Layout*, lt::Layout*, lt::Layout*,
                              lt::Layout*, lt::Preference*, int, lt::Found*, int* count) {
    ++F().asked;
    *count = 1;
    return 0;
  };
  mixed.Matmul = [](lt::Handle*, lt::Desc*, const void*, const void*, lt::Layout*, const void*,
                    lt::Layout*, const void*, const void*, lt::Layout*, void*, lt::Layout*,
                    const lt::Algo*, void*, size_t, StreamHandle*) { return 0; };
  {
    const Heard heard;
    CublasLt lt = New(mixed);
    for (const ProductSpec& s : AllKinds()) {
      const auto plan = lt.Plan(s);
      REQUIRE((plan != nullptr));
      plan->Run(kStream, kOperands, nullptr);
    }
    CHECK(F().asked == int(AllKinds().size()));
    CHECK(heard.messages.empty());
  }
  CheckNothingLeft();
  // It does tell wrong ones.
  lt::Desc* desc = nullptr;
  REQUIRE(real->DescCreate(&desc, lt::kCompute32F, lt::kF32) == 0);
  const int32_t one = 1;
  CHECK(real->DescSet(desc, lt::kTransA, &one, 3) != 0);
  CHECK(real->DescSet(desc, 12345, &one, 4) != 0);
  CHECK(real->DescDestroy(desc) == 0);
}
