/// c_program.cc: programs, sessions and plugins of weft.h.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "c_object.h"
#include "c_options.h"
#include "weft/api/model.h"
#include "weft/core/module/plugin.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/inputs/sample_inputs.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/edit_distance.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

using namespace weft;
using namespace weft::capi;

struct WeftSession {
  explicit WeftSession(std::shared_ptr<const Program> p)
      : session(std::move(p)),
        inputs(session.program().inputs().size()),
        bound(session.program().outputs().size()) {}
  Session session;
  std::vector<TensorPtr> inputs;
  std::vector<std::shared_ptr<Tensor>> bound, results;
};

namespace {

/// A context of the caller, released with its last user.
struct ReleasedContext {
  void* context = nullptr;
  void (*release)(void*) = nullptr;
  ~ReleasedContext() {
    if (release) release(context);
  }
};

WeftIoText TextOf(const IoSpec& spec) {
  WeftIoText t;
  if (!spec.shape.has_rank()) return t;
  for (SymInt d : spec.shape.dims()) {
    const auto value = d.known() ? d.try_value() : std::nullopt;
    t.dims.push_back(value.value_or(-1));
    t.texts.push_back(d.known() ? d.ToString() : "?");
  }
  for (const std::string& s : t.texts) t.pointers.push_back(s.c_str());
  return t;
}

WeftProgram* Wrap(std::shared_ptr<const Program> program) {
  auto made = std::make_unique<WeftProgram>();
  for (const IoSpec& s : program->inputs()) made->inputs.push_back(TextOf(s));
  for (const IoSpec& s : program->outputs()) made->outputs.push_back(TextOf(s));
  made->program = std::move(program);
  return made.release();
}

WeftStatus DescribeIo(const std::vector<IoSpec>& specs, const std::vector<WeftIoText>& texts,
                      size_t index, WeftIo* io) {
  return Guard([&] {
    CheckArgument(io, "io");
    WEFT_CHECK(io->struct_size >= sizeof(size_t), kApiMisuse, "WeftIo.struct_size is {}",
               io->struct_size);
    WEFT_CHECK(index < specs.size(), kBadBinding, "there is no number {} of {}", index,
               specs.size());
    const IoSpec& spec = specs[index];
    WeftIo full{};
    full.struct_size = io->struct_size;
    full.name = spec.name.c_str();
    const bool tells_kind = io->struct_size >= offsetof(WeftIo, kind) + sizeof(WeftKind);
    if (spec.kind != TypeKind::kTensor && !tells_kind)
      ThrowError(ErrorCode::kUnsupported,
                 fmt::format("'{}' is a value of type {}", spec.name, spec.type().ToString()),
                 "WeftIo", "compile with a weft.h whose WeftIo has a kind");
    full.kind = KindOf(spec.kind);
    full.dtype = WeftDType(spec.dtype);
    full.rank = spec.shape.has_rank() ? spec.shape.rank() : -1;
    full.dims = texts[index].dims.data();
    full.dim_texts = texts[index].pointers.data();
    std::memcpy(io, &full, std::min(io->struct_size, sizeof full));
  });
}

size_t IndexOf(const std::vector<IoSpec>& specs, const char* name, const char* what) {
  CheckArgument(name, "name");
  std::vector<std::string> names;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return i;
    names.push_back(specs[i].name);
  }
  const std::string near = DidYouMean(name, names);
  ThrowError(ErrorCode::kBadBinding, fmt::format("the program has no {} '{}'", what, name), "",
             near.empty() ? "it has: " + Join(names, ", ") : near);
}

}  // namespace

WeftStatus weft_program_load(const char* path, const WeftOptions* options, WeftProgram** program) {
  return Guard([&] {
    CheckArgument(path, "path");
    CheckArgument(program, "program");
    const Setup setup(options);
    Cancellable(setup, [&] {
      *program = Wrap(FormatOfPath(path).is_program()
                          ? LoadProgram(path, setup.Load())
                          : Compile(LoadModel(path, setup.import), setup.compile));
    });
  });
}

WeftStatus weft_program_load_memory(const void* data, size_t size, const char* format,
                                    const WeftOptions* options, WeftProgram** program) {
  return Guard([&] {
    CheckArgument(data, "data");
    CheckArgument(format, "format");
    CheckArgument(program, "program");
    const Setup setup(options);
    const std::string_view bytes(static_cast<const char*>(data), size);
    const ModelFormat& kind = GetModelFormat(format);
    Cancellable(setup, [&] {
      if (!kind.is_program()) {
        *program = Wrap(Compile(LoadModelBytes(bytes, kind, setup.import), setup.compile));
        return;
      }
      const auto copy = std::make_shared<std::string>(bytes);
      *program = Wrap(LoadProgramFromMemory(copy->data(), size, copy, "<bytes>", setup.Load()));
    });
  });
}

WeftStatus weft_program_save(const WeftProgram* program, const char* path) {
  return Guard([&] {
    CheckArgument(program, "program");
    CheckArgument(path, "path");
    SaveProgram(*program->program, path);
  });
}

size_t weft_program_num_inputs(const WeftProgram* p) { return p ? p->inputs.size() : 0; }
size_t weft_program_num_outputs(const WeftProgram* p) { return p ? p->outputs.size() : 0; }
WeftStatus weft_program_input(const WeftProgram* p, size_t index, WeftIo* io) {
  return Guard([&] { CheckArgument(p, "program"); }) == WEFT_OK
             ? DescribeIo(p->program->inputs(), p->inputs, index, io)
             : WEFT_E_API_MISUSE;
}
WeftStatus weft_program_output(const WeftProgram* p, size_t index, WeftIo* io) {
  return Guard([&] { CheckArgument(p, "program"); }) == WEFT_OK
             ? DescribeIo(p->program->outputs(), p->outputs, index, io)
             : WEFT_E_API_MISUSE;
}
void weft_program_release(WeftProgram* p) { delete p; }

WeftStatus weft_session_create(const WeftProgram* program, WeftSession** session) {
  return Guard([&] {
    CheckArgument(program, "program");
    CheckArgument(session, "session");
    *session = new WeftSession(program->program);
  });
}
WeftStatus weft_session_bind_input(WeftSession* session, const char* name, WeftTensor* tensor) {
  return Guard([&] {
    CheckArgument(session, "session");
    session->inputs[IndexOf(session->session.program().inputs(), name, "input")] =
        tensor ? tensor->tensor : nullptr;
  });
}
WeftStatus weft_session_bind_output(WeftSession* session, const char* name, WeftTensor* tensor) {
  return Guard([&] {
    CheckArgument(session, "session");
    const std::vector<IoSpec>& outputs = session->session.program().outputs();
    const size_t i = IndexOf(outputs, name, "output");
    if (tensor && outputs[i].kind != TypeKind::kTensor)
      ThrowError(ErrorCode::kUnsupported,
                 fmt::format("a value of type {} is not written into another",
                             Type(outputs[i].kind, outputs[i].dtype).ToString()),
                 fmt::format("output '{}'", name), "take it from weft_session_output");
    if (tensor && tensor->tensor->read_only())
      ThrowError(ErrorCode::kBadBinding, "a read-only tensor takes no result",
                 fmt::format("output '{}'", name));
    session->bound[i] = tensor ? tensor->tensor : nullptr;
  });
}
WeftStatus weft_session_set_allocator(WeftSession* session, WeftAllocate allocate,
                                      void (*release)(void*), void* context) {
  return Guard([&] {
    CheckArgument(session, "session");
    if (!allocate) {
      session->session.set_result_allocator(nullptr);
      return;
    }
    // Made before the context is taken over.
    auto owner = std::make_shared<ReleasedContext>();
    session->session.set_result_allocator([allocate, owner](size_t index, DType dtype,
                                                            const std::vector<int64_t>& dims) {
      const std::unique_ptr<WeftTensor> made(
          allocate(owner->context, index, WeftDType(dtype), int32_t(dims.size()), dims.data()));
      WEFT_CHECK(made, kOutOfMemory, "the allocator of results has no memory for output {}", index);
      return made->tensor;
    });
    owner->context = context;
    owner->release = release;
  });
}
WeftStatus weft_session_run(WeftSession* s) {
  return Guard([&] {
    CheckArgument(s, "session");
    s->results = s->session.RunBound(s->inputs, s->bound);
  });
}
WeftStatus weft_session_set_cancel(WeftSession* session, const WeftCancel* cancel) {
  return Guard([&] {
    CheckArgument(session, "session");
    session->session.set_cancel(cancel ? cancel->token : CancelToken());
  });
}
WeftStatus weft_session_output(const WeftSession* session, size_t index, WeftTensor** tensor) {
  return Guard([&] {
    CheckArgument(session, "session");
    CheckArgument(tensor, "tensor");
    WEFT_CHECK(!session->results.empty() || session->bound.empty(), kApiMisuse,
               "the session has not run");
    WEFT_CHECK(index < session->results.size(), kBadBinding, "there is no output {} of {}", index,
               session->results.size());
    *tensor = new WeftTensor{session->results[index]};
  });
}
void weft_session_release(WeftSession* session) { delete session; }

WeftStatus weft_cancel_create(WeftCancel** cancel) {
  return Guard([&] {
    CheckArgument(cancel, "cancel");
    *cancel = new WeftCancel;
  });
}
void weft_cancel_request(WeftCancel* cancel) {
  if (cancel) cancel->token.Cancel();
}
void weft_cancel_release(WeftCancel* cancel) { delete cancel; }

WeftStatus weft_plugin_load(const char* path) {
  return Guard([&] {
    CheckArgument(path, "path");
    LoadPlugin(path);
  });
}
