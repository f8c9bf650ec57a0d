/// c_api_test.cc: weft.h as a caller in another language uses it, rightly and wrongly.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "weft/core/tensor/dlpack.h"
#include "weft/core/tensor/dtype.h"
#include "weft/core/text/text.h"
#include "weft/onnx/export.h"
#include "weft/support/error.h"
#include "weft/weft.h"

extern "C" const char* weft_test_cancel_from_c(void);

namespace {

constexpr const char* kModel =
    "weft 1\ngraph (%x: f32[n, 3], %k: f32[3]) -> (%y as \"out:0\", %s) {\n"
    "  %y = Add(%x, %k) : ?\n  %s = Shape(%x) : ?\n}\n";

struct Model {
  WeftProgram* program = nullptr;
  WeftSession* session = nullptr;
  explicit Model(const char* text = kModel) {
    WeftOptions options{};
    options.struct_size = sizeof options;
    options.backend = "ref";
    REQUIRE_MESSAGE(
        weft_program_load_memory(text, std::strlen(text), "weft", &options, &program) == WEFT_OK,
        weft_error_text());
    REQUIRE(weft_session_create(program, &session) == WEFT_OK);
  }
  ~Model() {
    weft_session_release(session);
    weft_program_release(program);
  }
};

WeftTensor* Floats(std::vector<int64_t> dims, const std::vector<float>& values) {
  WeftTensor* t = nullptr;
  REQUIRE(weft_tensor_create(WEFT_F32, int32_t(dims.size()), dims.data(), &t) == WEFT_OK);
  REQUIRE(weft_tensor_bytes(t) == int64_t(values.size() * sizeof(float)));
  std::memcpy(weft_tensor_data(t), values.data(), values.size() * sizeof(float));
  return t;
}
const float* Data(WeftTensor* t) { return static_cast<const float*>(weft_tensor_data(t)); }

/// WeftOptions as of the header before `tf32`: its last four bytes were padding.
struct OlderOptions {
  size_t struct_size;
  const char *backend, *passes;
  int32_t threads;
  const char* limits;
  WeftCancel* cancel;
  int32_t tune;
};

TEST_CASE("options of a caller with an older header: no field lies where its padding was") {
  static_assert(sizeof(WeftOptions) > sizeof(OlderOptions));
  CHECK(offsetof(WeftOptions, tune) == offsetof(OlderOptions, tune));
  CHECK(offsetof(WeftOptions, tf32) >= sizeof(OlderOptions));
  OlderOptions options;
  std::memset(&options, 0xFF, sizeof options);
  options.struct_size = sizeof options;
  options.backend = "ref";
  options.passes = options.limits = nullptr;
  options.threads = options.tune = 0;
  options.cancel = nullptr;
  WeftProgram* program = nullptr;
  CHECK(weft_program_load_memory(kModel, std::strlen(kModel), "weft",
                                 reinterpret_cast<const WeftOptions*>(&options),
                                 &program) == WEFT_OK);
  weft_program_release(program);
}

TEST_CASE("an initializer that is an input too is a constant, or fed where the caller says so") {
  std::string model =
      weft::ExportOnnxBytes(weft::ParseGraph("weft 1\ngraph (%x: f32[2], %w: f32[2] param = [10, "
                                             "20]) -> (%y) {\n  %y = Add(%x, %w) : ?\n}\n"));
  // A second GraphProto is merged into the first: { input { name: "w" type { tensor_type {
  // elem_type: 1 } } } }.
  const auto field = [](int number, const std::string& bytes) {
    return std::string{char(number << 3 | 2), char(bytes.size())} + bytes;
  };
  const std::string type = field(2, field(1, std::string{1 << 3, 1}));
  model += field(7, field(11, field(1, "w") + type));
  const auto run = [&](const char* overridable, bool bind) {
    WeftOptions options{};
    options.struct_size = sizeof options;
    options.backend = "ref";
    options.overridable = overridable;
    WeftProgram* program = nullptr;
    REQUIRE_MESSAGE(
        weft_program_load_memory(model.data(), model.size(), "onnx", &options, &program) == WEFT_OK,
        weft_error_text());
    CHECK(weft_program_num_inputs(program) == (overridable ? 2 : 1));
    WeftSession* session = nullptr;
    REQUIRE(weft_session_create(program, &session) == WEFT_OK);
    WeftTensor *x = Floats({2}, {1, 2}), *w = Floats({2}, {100, 200}), *y = nullptr;
    CHECK(weft_session_bind_input(session, "x", x) == WEFT_OK);
    CHECK((weft_session_bind_input(session, "w", w) == WEFT_OK) == bind);
    REQUIRE_MESSAGE(weft_session_run(session) == WEFT_OK, weft_error_text());
    REQUIRE(weft_session_output(session, 0, &y) == WEFT_OK);
    const std::vector<float> got(Data(y), Data(y) + 2);
    for (WeftTensor* t : {x, w, y}) weft_tensor_release(t);
    weft_session_release(session);
    weft_program_release(program);
    return got;
  };
  CHECK(run(nullptr, false) == std::vector<float>{11, 22});
  CHECK(run("w", true) == std::vector<float>{101, 202});
  WeftOptions options{};
  options.struct_size = sizeof options;
  options.overridable = "v";
  WeftProgram* program = nullptr;
  CHECK(weft_program_load_memory(model.data(), model.size(), "onnx", &options, &program) ==
        WEFT_E_BAD_BINDING);
}

TEST_CASE("load, bind, run, read") {
  Model m;
  WeftTensor *x = Floats({2, 3}, {1, 2, 3, 4, 5, 6}), *k = Floats({3}, {10, 20, 30});
  CHECK(weft_session_bind_input(m.session, "x", x) == WEFT_OK);
  CHECK(weft_session_bind_input(m.session, "k", k) == WEFT_OK);
  weft_tensor_release(k);  // the session keeps what is bound
  REQUIRE_MESSAGE(weft_session_run(m.session) == WEFT_OK, weft_error_text());
  WeftTensor *y = nullptr, *s = nullptr;
  REQUIRE(weft_session_output(m.session, 0, &y) == WEFT_OK);
  REQUIRE(weft_session_output(m.session, 1, &s) == WEFT_OK);
  CHECK(weft_tensor_dtype(y) == WEFT_F32);
  CHECK(weft_tensor_rank(y) == 2);
  CHECK(weft_tensor_dims(y)[1] == 3);
  CHECK(Data(y)[5] == 36);
  CHECK(weft_tensor_dtype(s) == WEFT_I64);
  CHECK(static_cast<int64_t*>(weft_tensor_data(s))[0] == 2);
  for (WeftTensor* t : {x, y, s}) weft_tensor_release(t);
}

TEST_CASE("results are written where the caller wants them") {
  Model m;
  WeftTensor *x = Floats({1, 3}, {1, 2, 3}), *k = Floats({3}, {1, 1, 1}), *out = nullptr;
  std::vector<float> mine(3);
  const int64_t dims[] = {1, 3};
  int released = 0;
  REQUIRE(weft_tensor_wrap(
              WEFT_F32, 2, dims, mine.data(), [](void* p) { ++*static_cast<int*>(p); }, &released,
              &out) == WEFT_OK);
  weft_session_bind_input(m.session, "x", x);
  weft_session_bind_input(m.session, "k", k);
  CHECK(weft_session_bind_output(m.session, "out:0", out) == WEFT_OK);
  REQUIRE(weft_session_run(m.session) == WEFT_OK);
  CHECK(mine == std::vector<float>{2, 3, 4});
  WeftTensor* wide = Floats({2, 3}, {0, 0, 0, 0, 0, 0});
  weft_session_bind_input(m.session, "x", wide);
  CHECK(weft_session_run(m.session) == WEFT_E_BAD_BINDING);
  CHECK(std::string(weft_error_message()).find("out:0") != std::string::npos);
  weft_tensor_release(out);
  CHECK(released == 0);  // still bound
  weft_session_bind_output(m.session, "out:0", nullptr);
  CHECK(weft_session_run(m.session) == WEFT_OK);
  CHECK(released == 1);
  for (WeftTensor* t : {x, k, wide}) weft_tensor_release(t);
}

TEST_CASE("results are born in memory that the caller gives") {
  Model m;
  struct Caller {
    int asked = 0, released = 0, contexts_released = 0;
    std::vector<float> memory = std::vector<float>(8);
    WeftDType gives = WEFT_F32;
    bool full = false;
  } caller;
  const auto allocate = [](void* context, size_t index, WeftDType dtype, int32_t rank,
                           const int64_t* dims) -> WeftTensor* {
    Caller& c = *static_cast<Caller*>(context);
    ++c.asked;
    if (c.full) return nullptr;
    WeftTensor* t = nullptr;
    if (index == 1) {
      CHECK(dtype == WEFT_I64);
      CHECK(weft_tensor_create(dtype, rank, dims, &t) == WEFT_OK);
      return t;
    }
    CHECK(dtype == WEFT_F32);
    CHECK(rank == 2);
    CHECK(dims[1] == 3);
    CHECK(weft_tensor_wrap(
              c.gives, rank, dims, c.memory.data(), [](void* p) { ++*static_cast<int*>(p); },
              &c.released, &t) == WEFT_OK);
    return t;
  };
  const auto release = [](void* context) { ++static_cast<Caller*>(context)->contexts_released; };
  REQUIRE(weft_session_set_allocator(m.session, allocate, release, &caller) == WEFT_OK);
  WeftTensor *x = Floats({2, 3}, {1, 2, 3, 4, 5, 6}), *k = Floats({3}, {1, 1, 1}), *y = nullptr;
  weft_session_bind_input(m.session, "x", x);
  weft_session_bind_input(m.session, "k", k);
  REQUIRE_MESSAGE(weft_session_run(m.session) == WEFT_OK, weft_error_text());
  CHECK(caller.asked == 2);
  CHECK(caller.memory == std::vector<float>{2, 3, 4, 5, 6, 7, 0, 0});
  REQUIRE(weft_session_output(m.session, 0, &y) == WEFT_OK);
  CHECK(Data(y) == caller.memory.data());
  weft_tensor_release(y);
  caller.gives = WEFT_I32;
  CHECK(weft_session_run(m.session) == WEFT_E_BAD_BINDING);
  caller.full = true;
  CHECK(weft_session_run(m.session) == WEFT_E_OUT_OF_MEMORY);
  CHECK(caller.contexts_released == 0);
  REQUIRE(weft_session_set_allocator(m.session, nullptr, nullptr, nullptr) == WEFT_OK);
  CHECK(caller.contexts_released == 1);
  const int asked = caller.asked;
  CHECK(weft_session_run(m.session) == WEFT_OK);
  CHECK(caller.asked == asked);
  CHECK(caller.released == 2);  // every tensor that it gave
  CHECK(weft_session_set_allocator(nullptr, allocate, release, &caller) == WEFT_E_API_MISUSE);
  for (WeftTensor* t : {x, k}) weft_tensor_release(t);
}

TEST_CASE("inputs and outputs describe themselves, also to callers of an older header") {
  Model m;
  REQUIRE(weft_program_num_inputs(m.program) == 2);
  REQUIRE(weft_program_num_outputs(m.program) == 2);
  WeftIo io{};
  io.struct_size = sizeof io;
  REQUIRE(weft_program_input(m.program, 0, &io) == WEFT_OK);
  CHECK(std::string(io.name) == "x");
  CHECK(io.dtype == WEFT_F32);
  CHECK(io.rank == 2);
  CHECK(io.dims[0] == -1);
  CHECK(std::string(io.dim_texts[0]) == "n");
  CHECK(io.dims[1] == 3);
  REQUIRE(weft_program_output(m.program, 0, &io) == WEFT_OK);
  CHECK(std::string(io.name) == "out:0");
  WeftIo old{};
  old.struct_size = offsetof(WeftIo, rank);
  old.rank = 77;
  REQUIRE(weft_program_input(m.program, 0, &old) == WEFT_OK);
  CHECK(std::string(old.name) == "x");
  CHECK(old.rank == 77);  // beyond what the caller's struct holds
  CHECK(weft_program_input(m.program, 2, &io) == WEFT_E_BAD_BINDING);
  io.struct_size = 1;
  CHECK(weft_program_input(m.program, 0, &io) == WEFT_E_API_MISUSE);
}

TEST_CASE("a run and an import are cancelled from another thread, in C") {
  const char* problem = weft_test_cancel_from_c();
  CHECK_MESSAGE(problem == nullptr, problem);
}

TEST_CASE("every wrong call is a status with a message") {
  Model m;
  WeftProgram* program = nullptr;
  WeftTensor* t = nullptr;
  const int64_t dims[] = {2, -1};
  CHECK(weft_program_load("/nonexistent/net.onnx", nullptr, &program) == WEFT_E_IO);
  CHECK(weft_program_load("net.txt", nullptr, &program) == WEFT_E_USAGE);
  CHECK(weft_program_load(nullptr, nullptr, &program) == WEFT_E_API_MISUSE);
  CHECK(weft_program_load_memory("x", 1, "onnx", nullptr, &program) == WEFT_E_INVALID_MODEL);
  CHECK(weft_program_load_memory("x", 1, "weft", nullptr, &program) == WEFT_E_SYNTAX);
  CHECK(weft_program_load_memory("x", 1, "zip", nullptr, &program) == WEFT_E_USAGE);
  CHECK(std::string(weft_error_message()) == "'zip' is not a model format");
  CHECK(std::string(weft_error_hint()) ==
        "the formats are json, onnx, pb, pbtxt, prototxt, textproto, weft, weftx");
  CHECK(program == nullptr);
  WeftOptions options{};
  options.struct_size = sizeof options;
  options.backend = "nothing";
  CHECK(weft_program_load_memory(kModel, std::strlen(kModel), "weft", &options, &program) ==
        WEFT_E_UNSUPPORTED);
  CHECK(weft_tensor_create(WEFT_F32, 2, dims, &t) != WEFT_OK);
  CHECK(weft_tensor_create(999, 0, nullptr, &t) == WEFT_E_API_MISUSE);
  CHECK(weft_tensor_create(WEFT_F32, 1, nullptr, &t) == WEFT_E_API_MISUSE);
  CHECK(weft_tensor_create(WEFT_F32, 1 << 30, dims, &t) == WEFT_E_API_MISUSE);  // never set
  const int64_t huge[] = {int64_t{1} << 62, 16};
  CHECK(weft_tensor_create(WEFT_F32, 2, huge, &t) != WEFT_OK);
  CHECK(t == nullptr);
  CHECK(weft_session_bind_input(m.session, "X", nullptr) == WEFT_E_BAD_BINDING);
  CHECK(std::string(weft_error_hint()).find("x") != std::string::npos);
  CHECK(weft_session_run(m.session) == WEFT_E_BAD_INPUT);  // nothing bound
  CHECK(weft_session_output(m.session, 0, &t) == WEFT_E_API_MISUSE);
  CHECK(weft_plugin_load("/nonexistent/plugin.so") == WEFT_E_IO);
  CHECK(std::string(weft_error_text()).find("error[WEFT-E0201]") == 0);
  weft_program_release(nullptr);
  weft_session_release(nullptr);
  weft_tensor_release(nullptr);
}

TEST_CASE("numbers of statuses are the codes that tools print") {
  using weft::ErrorCode;
  CHECK(WEFT_E_USAGE == int(ErrorCode::kUsage));
  CHECK(WEFT_E_UNKNOWN_PASS == int(ErrorCode::kUnknownPass));
  CHECK(WEFT_E_UNKNOWN_OPTION == int(ErrorCode::kUnknownOption));
  CHECK(WEFT_E_DEPENDENCY == int(ErrorCode::kDependency));
  CHECK(WEFT_E_BAD_BINDING == int(ErrorCode::kBadBinding));
  CHECK(WEFT_E_API_MISUSE == int(ErrorCode::kApiMisuse));
  CHECK(WEFT_E_IO == int(ErrorCode::kIo));
  CHECK(WEFT_E_SYNTAX == int(ErrorCode::kSyntax));
  CHECK(WEFT_E_BAD_TENSOR_FILE == int(ErrorCode::kBadTensorFile));
  CHECK(WEFT_E_INVALID_MODEL == int(ErrorCode::kInvalidModel));
  CHECK(WEFT_E_UNKNOWN_OP == int(ErrorCode::kUnknownOp));
  CHECK(WEFT_E_BAD_ATTRIBUTE == int(ErrorCode::kBadAttribute));
  CHECK(WEFT_E_TYPE_MISMATCH == int(ErrorCode::kTypeMismatch));
  CHECK(WEFT_E_SHAPE_MISMATCH == int(ErrorCode::kShapeMismatch));
  CHECK(WEFT_E_ARITY == int(ErrorCode::kArity));
  CHECK(WEFT_E_CYCLE == int(ErrorCode::kCycle));
  CHECK(WEFT_E_BAD_INPUT == int(ErrorCode::kBadInput));
  CHECK(WEFT_E_INDEX_RANGE == int(ErrorCode::kIndexRange));
  CHECK(WEFT_E_UNSUPPORTED == int(ErrorCode::kUnsupported));
  CHECK(WEFT_E_MISSING_OP_ATTR == int(ErrorCode::kMissingOpAttr));
  CHECK(WEFT_E_LIMIT == int(ErrorCode::kLimit));
  CHECK(WEFT_E_OVERFLOW == int(ErrorCode::kOverflow));
  CHECK(WEFT_E_OUT_OF_MEMORY == int(ErrorCode::kOutOfMemory));
  CHECK(WEFT_E_CANCELLED == int(ErrorCode::kCancelled));
  CHECK(WEFT_E_DUPLICATE == int(ErrorCode::kDuplicate));
  CHECK(WEFT_E_TYPE_CONFLICT == int(ErrorCode::kTypeConflict));
  CHECK(WEFT_E_PLUGIN == int(ErrorCode::kPlugin));
  CHECK(WEFT_E_PLUGIN_ABI == int(ErrorCode::kPluginAbi));
  CHECK(WEFT_E_CHECK_FAILED == int(ErrorCode::kCheckFailed));
  CHECK(WEFT_E_DEVICE == int(ErrorCode::kDevice));
  CHECK(WEFT_E_INTERNAL == int(ErrorCode::kInternal));
}

TEST_CASE("a strict load refuses what another one takes") {
  std::string model = weft::ExportOnnxBytes(
      weft::ParseGraph("weft 1\ngraph (%x: f32[2]) -> (%y) {\n  %y = Neg(%x) : ?\n}\n"));
  // A second entry of opset_import: { version: 13 }.
  model += std::string{8 << 3 | 2, 2, 2 << 3, 13};
  for (const int32_t strict : {0, 1}) {
    WeftOptions options{};
    options.struct_size = sizeof options;
    options.backend = "ref";
    options.strict = strict;
    WeftProgram* program = nullptr;
    const WeftStatus status =
        weft_program_load_memory(model.data(), model.size(), "onnx", &options, &program);
    CHECK(status == (strict ? WEFT_E_INVALID_MODEL : WEFT_OK));
    if (strict) CHECK(std::string(weft_error_hint()) == "import the domain in one version");
    weft_program_release(program);
  }
}

/// Model of a sequence and an optional: the first element, the sequence backwards, is there one?
constexpr const char* kLists =
    "weft 1\ngraph (%s: seq(f32), %o: opt(f32)) -> (%first, %back, %has) {\n"
    "  %zero = Constant() {value = tensor i64[] [0]} : ?\n"
    "  %one = Constant() {value = tensor i64[] [1]} : ?\n"
    "  %first = SequenceAt(%s, %zero) : ?\n  %second = SequenceAt(%s, %one) : ?\n"
    "  %back = SequenceConstruct(%second, %first) : ?\n"
    "  %has = OptionalHasElement(%o) : ?\n}\n";

TEST_CASE("sequences and optionals go in and come out") {
  Model m(kLists);
  WeftIo io{};
  io.struct_size = sizeof io;
  REQUIRE(weft_program_input(m.program, 0, &io) == WEFT_OK);
  CHECK(io.kind == WEFT_KIND_SEQUENCE);
  CHECK(io.dtype == WEFT_F32);
  CHECK(io.rank == -1);
  REQUIRE(weft_program_input(m.program, 1, &io) == WEFT_OK);
  CHECK(io.kind == WEFT_KIND_OPTIONAL);
  REQUIRE(weft_program_output(m.program, 1, &io) == WEFT_OK);
  CHECK(io.kind == WEFT_KIND_SEQUENCE);
  io.struct_size = offsetof(WeftIo, kind);  // of an older header
  CHECK(weft_program_input(m.program, 0, &io) == WEFT_E_UNSUPPORTED);
  CHECK(std::string(weft_error_message()) == "'s' is a value of type seq(f32)");

  WeftTensor *a = Floats({2}, {1, 2}), *b = Floats({1, 1}, {3});
  WeftTensor *pair[] = {a, b}, *s = nullptr, *none = nullptr;
  REQUIRE(weft_list_create(WEFT_KIND_SEQUENCE, WEFT_F32, 2, pair, &s) == WEFT_OK);
  REQUIRE(weft_list_create(WEFT_KIND_OPTIONAL, WEFT_F32, 0, nullptr, &none) == WEFT_OK);
  CHECK(weft_tensor_kind(s) == WEFT_KIND_SEQUENCE);
  CHECK(weft_tensor_kind(a) == WEFT_KIND_TENSOR);
  CHECK(weft_list_size(s) == 2);
  CHECK(weft_list_size(none) == 0);
  CHECK(weft_list_size(a) == 0);
  CHECK(weft_tensor_data(s) == nullptr);
  weft_tensor_release(a);  // the sequence keeps what it holds
  weft_tensor_release(b);
  REQUIRE(weft_session_bind_input(m.session, "s", s) == WEFT_OK);
  REQUIRE(weft_session_bind_input(m.session, "o", none) == WEFT_OK);
  REQUIRE_MESSAGE(weft_session_run(m.session) == WEFT_OK, weft_error_text());
  WeftTensor *first = nullptr, *back = nullptr, *has = nullptr, *element = nullptr;
  REQUIRE(weft_session_output(m.session, 0, &first) == WEFT_OK);
  CHECK(Data(first)[1] == 2);
  REQUIRE(weft_session_output(m.session, 1, &back) == WEFT_OK);
  REQUIRE(weft_list_size(back) == 2);
  REQUIRE(weft_list_element(back, 0, &element) == WEFT_OK);
  CHECK(weft_tensor_rank(element) == 2);
  CHECK(Data(element)[0] == 3);
  REQUIRE(weft_session_output(m.session, 2, &has) == WEFT_OK);
  CHECK(!*static_cast<const bool*>(weft_tensor_data(has)));

  // What does not fit is a status.
  WeftTensor* wrong = nullptr;
  CHECK(weft_list_element(back, 2, &wrong) == WEFT_E_API_MISUSE);
  CHECK(weft_list_element(first, 0, &wrong) == WEFT_E_API_MISUSE);
  WeftTensor* two[] = {first, element};
  CHECK(weft_list_create(WEFT_KIND_OPTIONAL, WEFT_F32, 2, two, &wrong) == WEFT_E_TYPE_MISMATCH);
  CHECK(weft_list_create(WEFT_KIND_SEQUENCE, WEFT_I64, 2, two, &wrong) == WEFT_E_TYPE_MISMATCH);
  CHECK(weft_list_create(WEFT_KIND_TENSOR, WEFT_F32, 1, two, &wrong) == WEFT_E_API_MISUSE);
  CHECK(weft_list_create(WEFT_KIND_SEQUENCE, WEFT_F32, 1, nullptr, &wrong) == WEFT_E_API_MISUSE);
  DLManagedTensor* managed = nullptr;
  CHECK(weft_tensor_to_dlpack(s, &managed) == WEFT_E_UNSUPPORTED);
  CHECK(wrong == nullptr);
  CHECK(weft_session_bind_output(m.session, "back", s) == WEFT_E_UNSUPPORTED);
  CHECK(std::string(weft_error_place()) == "output 'back'");
  REQUIRE(weft_session_bind_input(m.session, "s", first) == WEFT_OK);
  CHECK(weft_session_run(m.session) == WEFT_E_BAD_INPUT);  // a tensor for a sequence
  for (WeftTensor* t : {s, none, first, back, has, element}) weft_tensor_release(t);
}

TEST_CASE("numbers of kinds are those of the library") {
  using weft::TypeKind;
  CHECK(WEFT_KIND_TENSOR == int(TypeKind::kTensor));
  CHECK(WEFT_KIND_SEQUENCE == int(TypeKind::kSequence));
  CHECK(WEFT_KIND_OPTIONAL == int(TypeKind::kOptional));
  CHECK(WEFT_KIND_OPAQUE == int(TypeKind::kOpaque));
  CHECK(WEFT_KIND_OPTIONAL_SEQUENCE == int(TypeKind::kOptionalSequence));
}

TEST_CASE("tensors cross as DLPack") {
  WeftTensor *t = Floats({2}, {3, 4}), *back = nullptr;
  DLManagedTensor* managed = nullptr;
  REQUIRE(weft_tensor_to_dlpack(t, &managed) == WEFT_OK);
  weft_tensor_release(t);
  REQUIRE(weft_tensor_from_dlpack(managed, &back) == WEFT_OK);
  CHECK(Data(back)[1] == 4);
  weft_tensor_release(back);
  CHECK(weft_tensor_from_dlpack(nullptr, &back) == WEFT_E_API_MISUSE);
}

TEST_CASE("memory of a device says where it is, and a program of the host refuses it") {
  Model m;
  WeftTensor *x = Floats({1, 3}, {1, 2, 3}), *k = nullptr;
  int32_t kind = 0, device = 7;
  REQUIRE(weft_tensor_place(x, &kind, &device) == WEFT_OK);
  CHECK(kind == 1);
  CHECK(device == 0);
  float memory[3] = {};
  const auto there =
      std::make_shared<weft::Tensor>(weft::DType::kF32, std::vector<int64_t>{3}, memory, nullptr,
                                     weft::MemoryPlace{weft::MemoryPlace::kCuda, 2});
  REQUIRE(weft_tensor_from_dlpack(weft::ToDLPack(there), &k) == WEFT_OK);
  REQUIRE(weft_tensor_place(k, &kind, &device) == WEFT_OK);
  CHECK(kind == 2);
  CHECK(device == 2);
  CHECK(weft_tensor_place(k, nullptr, nullptr) == WEFT_OK);
  CHECK(weft_tensor_place(nullptr, &kind, &device) == WEFT_E_API_MISUSE);
  weft_session_bind_input(m.session, "x", x);
  weft_session_bind_input(m.session, "k", k);
  CHECK(weft_session_run(m.session) == WEFT_E_BAD_INPUT);
  CHECK(std::string(weft_error_message()) ==
        "input 'k' is on CUDA device 2, the program takes what is on the host");
  for (WeftTensor* t : {x, k}) weft_tensor_release(t);
}

TEST_CASE("tensors cross as versioned DLPack, and what is read-only stays so") {
  Model m;
  WeftTensor *t = Floats({3}, {3, 4, 5}), *back = nullptr;
  CHECK(weft_tensor_read_only(t) == 0);
  DLManagedTensorVersioned* managed = nullptr;
  REQUIRE(weft_tensor_to_dlpack_versioned(t, &managed) == WEFT_OK);
  weft_tensor_release(t);
  REQUIRE(weft_tensor_from_dlpack_versioned(managed, &back) == WEFT_OK);
  CHECK(Data(back)[1] == 4);
  CHECK(weft_tensor_read_only(back) == 0);
  weft_tensor_release(back);

  const weft::TensorPtr shared = weft::Tensor::FromDoubles(weft::DType::kF32, {3}, {1, 2, 3});
  WeftTensor* lent = nullptr;
  REQUIRE(weft_tensor_from_dlpack_versioned(weft::ToDLPackVersioned(shared, {true, false}),
                                            &lent) == WEFT_OK);
  CHECK(weft_tensor_read_only(lent) != 0);
  CHECK(weft_tensor_data(lent) == nullptr);
  CHECK(std::string(weft_error_message()) == "a read-only tensor f32[3] cannot be written");
  CHECK(weft_tensor_const_data(lent) == shared->data());
  DLManagedTensor* old = nullptr;
  CHECK(weft_tensor_to_dlpack(lent, &old) == WEFT_E_UNSUPPORTED);
  CHECK(weft_session_bind_output(m.session, "out:0", lent) == WEFT_E_BAD_BINDING);
  CHECK(std::string(weft_error_place()) == "output 'out:0'");
  // To read it is what it is for.
  WeftTensor *x = Floats({1, 3}, {1, 1, 1}), *y = nullptr;
  weft_session_bind_input(m.session, "x", x);
  CHECK(weft_session_bind_input(m.session, "k", lent) == WEFT_OK);
  REQUIRE_MESSAGE(weft_session_run(m.session) == WEFT_OK, weft_error_text());
  REQUIRE(weft_session_output(m.session, 0, &y) == WEFT_OK);
  CHECK(Data(y)[2] == 4);
  for (WeftTensor* each : {x, y, lent}) weft_tensor_release(each);
  CHECK(weft_tensor_from_dlpack_versioned(nullptr, &back) == WEFT_E_API_MISUSE);
}

}  // namespace
