/// out_of_memory.cc: memory runs out at every single allocation, for good, of committing a batch of
/// registrations and of loading and running a model through the C API. Taking back must need none:
/// after each failure every registry must be as before, and at last the batch goes through. No
/// exception may leave the C API, and nothing may end the process.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/op/op.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/op/staging.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/backend/backend.h"
#include "weft/weft.h"

namespace {
thread_local long allowed = -1;  // allocations until memory runs out; -1: it does not
}

void* operator new(size_t size) {
  if (allowed == 0) throw std::bad_alloc();
  if (allowed > 0) --allowed;
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace {

using namespace weft;

OpBuilder Build(const char* name, int line, bool group = false) {
  return OpBuilder(name, Owner{"a module with a name that is not short", "oom.cc", line}, group);
}
Graph Same(Graph g) { return g; }

void Stage() {
  static_cast<void>(Registered(
      Build("oom::Fresh", 1)
          .describe("an operator that was not there before, with a long text")
          .add_alias("oom::AnotherNameOfTheSameOperator")
          .include("OomGroup")
          .set_attr<std::string>("TOomAttribute", "a value that needs memory of its own")));
  static_cast<void>(Registered(Build("OomGroup", 2, true).set_attr<int>("TOomGrouped", 1)));
  static_cast<void>(
      Registered(Build("oom::Old", 3).set_attr<int>("TOomOld", 2, 50).include("OomOldGroup")));
  static_cast<void>(RegisteredPass(PassBuilder("OomPass", {"oom", "oom.cc", 4}).set_body(Same)));
  static_cast<void>(RegisteredPass(PassBuilder("OomOldPass", {"oom", "oom.cc", 5})
                                       .describe("new")
                                       .set_body(Same)
                                       .override_pass()));
  RegisterAttrType(
      detail::MakeAttrType<NodeMap<int>>("an_attribute_of_graphs_for_oom", AttrKind::kGiven));
  RegisterRewriteRule({"a-rule-with-a-name-that-is-not-short",
                       "a group with a name that is not short",
                       {"an-operator-with-a-name-that-is-not-short"},
                       false,
                       "",
                       [](RewriteContext&, const NodePtr&) { return std::vector<NodeEntry>(); },
                       {"oom", "oom.cc", 6}});
  RegisterBackendModule(BackendModule("a backend with a name that is not short")
                            .set_backend([](const BackendParameters&) { return GetBackend("ref"); })
                            .set_compiler([](const Target&) { return nullptr; }));
}

std::string State() {
  std::string s;
  for (const Op* op : Op::List())
    s += op->name + op->description + std::to_string(op->owners.size()) +
         std::to_string(op->aliases.size()) + op->attr_owner("TOomOld").ToString() +
         op->attr_owner("TOomGrouped").ToString() + "\n";
  for (const char* n : {"oom::Fresh", "oom::AnotherNameOfTheSameOperator"})
    s += Op::Find(n) ? "there" : "not";
  s += Op::HasAttr("TOomAttribute") ? "attr" : "";
  for (const PassEntry* p : PassEntry::List())
    s += p->name + p->description + p->owner.ToString() + "\n";
  for (const AttrType* t : ListAttrTypes()) s += t->name + "\n";
  for (const RewriteRule& r : ListRewriteRules()) s += r.name + "\n";
  for (const std::string& b : ListBackendModules()) s += b + "\n";
  return s;
}

WeftStatus LoadAndRun(WeftTensor* x) {
  static const char text[] =
      "weft 1\ngraph (%x: f32[n, 3]) -> (%y, %s) {\n  %a = Add(%x, %x) : ?\n"
      "  %y = Softmax(%a) {axis = -1} : ?\n  %s = Shape(%a) : ?\n}\n";
  WeftOptions options{};
  options.struct_size = sizeof options;
  options.backend = "ref";
  WeftProgram* program = nullptr;
  WeftSession* session = nullptr;
  WeftTensor* y = nullptr;
  WeftStatus status = weft_program_load_memory(text, std::strlen(text), "weft", &options, &program);
  if (status == WEFT_OK) status = weft_session_create(program, &session);
  if (status == WEFT_OK) status = weft_session_bind_input(session, "x", x);
  if (status == WEFT_OK) status = weft_session_run(session);
  if (status == WEFT_OK) status = weft_session_output(session, 0, &y);
  weft_tensor_release(y);
  weft_session_release(session);
  weft_program_release(program);
  return status;
}

int CApi() {
  const int64_t dims[] = {2, 3};
  WeftTensor* x = nullptr;
  if (weft_tensor_create(WEFT_F32, 2, dims, &x) != WEFT_OK) return 1;
  WeftStatus status = WEFT_E_OUT_OF_MEMORY;
  long n = 0;
  for (; n < 1000000 && status == WEFT_E_OUT_OF_MEMORY; ++n) {
    allowed = n;
    status = LoadAndRun(x);
    allowed = -1;
  }
  weft_tensor_release(x);
  std::printf("out of memory: %ld allocations of the C API, then status %d %s\n", n, status,
              status == WEFT_OK ? "" : weft_error_text());
  return status == WEFT_OK ? 0 : 1;
}

}  // namespace

int main() {
  if (CApi() != 0) return 1;
  Build("OomOldGroup", 10, true).set_attr<int>("TOomGrouped", 9).Commit();
  Build("oom::Old", 11).describe("old").set_attr<int>("TOomOld", 1).Commit();
  PassBuilder("OomOldPass", {"oom", "oom.cc", 12}).describe("old").set_body(Same).Commit();
  const std::string before = State();
  for (long n = 0; n < 100000; ++n) {
    StagingScope scope;
    Stage();
    bool failed = false;
    allowed = n;
    try {
      scope.CommitAll("the module that commits, with a long name");
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    allowed = -1;
    const std::string after = State();
    if (!failed) {
      const bool good = after != before &&
                        Op::Get("oom::AnotherNameOfTheSameOperator") == Op::Get("oom::Fresh") &&
                        Op::GetAttr<int>("TOomGrouped")[Op::Get("oom::Fresh")] == 1;
      std::printf("out of memory: %ld allocations, %s\n", n,
                  good ? "then it went through" : "then it is WRONG");
      return good ? 0 : 1;
    }
    if (after != before) {
      std::printf("FAILED: memory ran out at allocation %ld, and something was left\n", n);
      return 1;
    }
  }
  return 1;
}
