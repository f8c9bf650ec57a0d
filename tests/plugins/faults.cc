/// faults.cc: loads plugins that go wrong, all into one process, and looks at every
/// registry after each: nothing of them may be there. Then loads good ones, which must work
/// as if nothing had happened.
///
///   faults FOLDER_OF_THE_BUILT_PLUGINS
#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/module/plugin.h"
#include "weft/core/op/op.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"
#include "weft/support/error.h"

using namespace weft;

namespace {

std::string folder;
int failures = 0, checks = 0;

void Check(bool good, const std::string& what) {
  ++checks;
  if (good) return;
  ++failures;
  std::printf("FAILED: %s\n", what.c_str());
}

/// Everything that is registered, and by whom.
std::string Registries() {
  std::string s;
  const char* attributes[] = {"FCodeGen",  "FInferType", "FInferShape", "FGradient", "FCompute",
                              "FHostEval", "TTestGrade", "THalf",       "THalfOwn"};
  for (const Op* op : Op::List()) {
    s += op->name + "|" + op->description + "|" + std::to_string(op->num_inputs) + "|" +
         std::to_string(op->owners.size()) + "|" + std::to_string(op->aliases.size());
    for (const char* a : attributes)
      if (op->has(a)) s += std::string(" ") + a + "=" + op->attr_owner(a).ToString();
    s += "\n";
  }
  for (const char* a : {"THalf", "THalfOwn"}) s += Op::HasAttr(a) ? "has " + std::string(a) : "";
  s += Op::Find("half::Alias") ? "alias" : "";
  for (const PassEntry* p : PassEntry::List())
    s += p->name + "|" + p->description + "|" + p->owner.ToString() + "\n";
  for (const AttrType* t : ListAttrTypes()) s += t->name + "|" + t->owner + "\n";
  for (const RewriteRule& r : ListRewriteRules()) s += r.name + "|" + r.owner.ToString() + "\n";
  for (const std::string& b : ListBackendModules()) s += b + "\n";
  for (const PluginInfo& p : LoadedPlugins()) s += p.name + "\n";
  return s;
}

std::string Path(const std::string& name) { return folder + "/lib" + name + ".so"; }

/// Loading must fail with this code and say this; nothing may have changed. `trial`: with a
/// child process, or without.
void Fails(const std::string& path, ErrorCode code, const std::string& says, bool trial) {
  const std::string before = Registries(), where = path + (trial ? " (tried first)" : " (at once)");
  PluginOptions options;
  options.trial = trial;
  options.trial_seconds = 5;
  try {
    LoadPlugin(path, options);
    Check(false, where + " was loaded");
  } catch (const UserError& e) {
    Check(e.code() == code, where + " gives another code: " + e.what());
    Check(std::string(e.what()).find(says) != std::string::npos,
          where + " does not say '" + says + "': " + e.what());
  } catch (const std::exception& e) {
    Check(false, where + " throws something else: " + e.what());
  }
  Check(Registries() == before, where + " left something behind");
}
void FailsBothWays(const std::string& name, ErrorCode code, const std::string& says) {
  Fails(Path(name), code, says, true);
  Fails(Path(name), code, says, false);
  Fails(Path(name), code, says, false);  // once more: it is not tried again, and says the same
}

double RunModel(const char* op, double x, const std::string& backend) {
  const Graph g = ParseGraph(std::string("weft 1\ngraph @m(%x: f32[2]) -> (%y) {\n  %y = ") + op +
                             "(%x) : ?\n}\n");
  CompileOptions options;
  options.backend = backend;
  Session session(Compile(g, options));
  return session.Run({Tensor::FromDoubles(DType::kF32, {2}, {x, x})})[0]->at(1);
}

void WriteText(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

void FilesThatAreNone() {
  Fails("libgood.so", ErrorCode::kPlugin, "bare name", true);
  Fails(folder + "/libnone.so", ErrorCode::kIo, "No such file", true);
  Fails(folder, ErrorCode::kPlugin, "not a regular file", true);
  WriteText(folder + "/text.so", "this is no library\n");
  Fails(folder + "/text.so", ErrorCode::kPlugin, "does not begin as an ELF file", true);
  WriteText(folder + "/empty.so", "");
  Fails(folder + "/empty.so", ErrorCode::kPlugin, "does not begin as an ELF file", true);
  std::ifstream in(Path("good"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  std::string other = whole;
  other[18] = 8;  // MIPS
  WriteText(folder + "/machine.so", other);
  Fails(folder + "/machine.so", ErrorCode::kPlugin, "another machine", true);
  WriteText(folder + "/cut.so", whole.substr(0, 100));
  Fails(folder + "/cut.so", ErrorCode::kPlugin, "cut off", true);
  // Headers with any byte of theirs turned over: refused, or loaded by a linker that does not mind;
  // never a crash of ours.
  const std::string before = Registries();
  for (size_t at = 0; at < 64; at += 3) {
    std::string bent = whole;
    bent[at] = char(~bent[at]);
    WriteText(folder + "/bent.so", bent);
    try {
      TryPlugin(folder + "/bent.so");
    } catch (const Error&) {
    }
  }
  Check(Registries() == before, "a bent file left something behind");
}

void EachFault() {
  FailsBothWays("no_entry", ErrorCode::kPlugin, "no entry 'weft_plugin_init_v1'");
  FailsBothWays("undefined_symbol", ErrorCode::kPlugin, "weft_test_missing");
  FailsBothWays("other_headers", ErrorCode::kPluginAbi, "0123456789abcdef");
  FailsBothWays("wrong_abi_info", ErrorCode::kPluginAbi, AbiId());
  FailsBothWays("no_abi_id", ErrorCode::kPluginAbi, "does not say which");
  FailsBothWays("too_small", ErrorCode::kPluginAbi, "16 bytes");
  FailsBothWays("too_new", ErrorCode::kPluginAbi,
                "needs version 7 to 9 of the plugin interface, this library speaks 1 to 1");
  FailsBothWays("too_old", ErrorCode::kPluginAbi, "needs version 0 to 0");
  FailsBothWays("refuses", ErrorCode::kPlugin, "this machine has no abacus");
  FailsBothWays("no_name", ErrorCode::kPlugin, "has no name");
  FailsBothWays("bad_def", ErrorCode::kPlugin, "no function that computes it");
  FailsBothWays("bad_signature", ErrorCode::kPlugin, "'m' behind the arrow only");
  FailsBothWays("null_op", ErrorCode::kPlugin, "WeftOpDef is null");
  FailsBothWays("throws", ErrorCode::kPlugin, "threw from its entry: the entry throws");
  FailsBothWays("throws_int", ErrorCode::kPlugin, "not an exception");
  FailsBothWays("c_duplicate", ErrorCode::kDuplicate,
                "operator 'Relu' is registered twice: by weft");
  FailsBothWays("unknown_op", ErrorCode::kUnknownOp, "wrong::Nobody");
  FailsBothWays("duplicate_op", ErrorCode::kDuplicate,
                "operator 'Relu' is registered twice: by weft");
  FailsBothWays("duplicate_pass", ErrorCode::kDuplicate,
                "pass 'Fusion' is registered twice: by weft");
  FailsBothWays("tie", ErrorCode::kDuplicate,
                "attribute 'FCodeGen' of operator 'Relu' is registered twice");
  FailsBothWays("half", ErrorCode::kTypeConflict, "graph attribute 'shape' is registered by");
  std::string why;
  Check(!FindKernelCompiler("half", &why), "half left a kernel compiler behind");
  // What only a child survives.
  Fails(Path("static_throw"), ErrorCode::kPlugin, "no configuration", true);
  Fails(Path("static_abort"), ErrorCode::kPlugin, "signal 6", true);
  Fails(Path("aborts"), ErrorCode::kPlugin, "signal 6", true);
  Fails(Path("exits"), ErrorCode::kPlugin, "exit code 3", true);
  Fails(Path("hangs"), ErrorCode::kPlugin, "did not start within 5 s", true);
}

/// A plugin on a host that lacks members of the table, or has none of them set: it refuses, and
/// does not call them.
void OlderHost() {
  void* handle = dlopen(Path("needs_host").c_str(), RTLD_NOW | RTLD_LOCAL);
  auto entry =
      handle ? reinterpret_cast<WeftPluginInit>(dlsym(handle, "weft_plugin_init_v1")) : nullptr;
  Check(entry != nullptr, "needs_host cannot be opened");
  if (!entry) return;
  for (const bool shorter : {true, false}) {
    WeftHost host = PluginHost();
    if (shorter)
      host.struct_size = offsetof(WeftHost, kernel_close);
    else
      host.kernel_close = nullptr;
    WeftPluginInfo info{};
    info.struct_size = sizeof info;
    Check(entry(&host, &info) == WEFT_E_UNSUPPORTED && PluginFailure() == "this host is too old",
          "a plugin on an older host");
  }
  // A host whose info is smaller than the plugin's: what is behind it stays untouched.
  struct {
    WeftPluginInfo info;
    char behind[32];
  } room{};
  room.info.struct_size = offsetof(WeftPluginInfo, abi_id);
  Check(entry(&PluginHost(), &room.info) == WEFT_OK && room.info.abi_id == nullptr &&
            room.info.struct_size == offsetof(WeftPluginInfo, abi_id),
        "a plugin on a host with a smaller info");
  Check(LoadPlugin(Path("needs_host")).name == "needs_host", "the same on this host");
}

void Good() {
  Check(RunModel("Relu", -3, "cpu") == 0 && RunModel("Relu", 3, "cpu") == 3,
        "Relu is not what it was");
  // Only tried: nothing is registered.
  const std::string before = Registries();
  const PluginInfo tried = TryPlugin(Path("good"));
  Check(tried.name == "good" && tried.items.size() == 7, "what a try tells");
  Check(Registries() == before, "a try left something behind");

  const PluginInfo good = LoadPlugin(Path("good"));
  Check(good.tier == "C++" && good.version == "1.0" && good.items == tried.items,
        "what loading tells");
  std::string items;
  for (const RegisteredItem& i : good.items) items += i.kind + " " + i.name + ";";
  Check(items ==
            "op test::Twice;op group TestGroup;op attributes Relu;pass TestPass;graph attribute "
            "test_mark;"
            "rule test-rule;backend test;",
        "the items: " + items);
  Check(Op::Get("test::Twice")->owners[0].module == "good", "the owner of an operator");
  Check(Op::Get("Relu")->attr_owner("TTestGrade").module == "good", "the owner of an attribute");
  Check(Op::GetAttr<int>("TTestGrade")[Op::Get("test::Twice")] == 7, "a group of the plugin");
  Check(PassEntry::Get("TestPass")->owner.module == "good", "the owner of a pass");
  Check(RunModel("test::Twice", 1.5, "cpu") == 3 && RunModel("test::Twice", 1.5, "test") == 3,
        "an operator");

  // Twice is once; also by another name, and from many threads.
  const std::string loaded = Registries();
  Check(LoadPlugin(Path("good")).items == good.items, "loading twice");
  Check(LoadPlugin(folder + "/../" + folder.substr(folder.rfind('/') + 1) + "/libgood.so").name ==
            "good",
        "loading by another path");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int k = 0; k < 20; ++k) {
        LoadPlugin(Path("good"));
        LoadedPlugins();
        Op::Get("test::Twice");
      }
    });
  for (std::thread& t : threads) t.join();
  Check(Registries() == loaded, "loading twice registered twice");
  // A copy of the file is another plugin of the same name.
  std::ifstream in(Path("good"), std::ios::binary);
  WriteText(folder + "/copy.so", std::string((std::istreambuf_iterator<char>(in)), {}));
  Fails(folder + "/copy.so", ErrorCode::kDuplicate, "is called 'good' as the one loaded from",
        true);

  Check(LoadPlugin(Path("older")).tier == "C" && RunModel("older::Copy", 4, "cpu") == 4,
        "an older plugin");
  Check(LoadPlugin(Path("newer")).api == 3 && RunModel("newer::Copy", 5, "ref") == 5,
        "a newer plugin");
  LoadPlugin(Path("registers_late"));
  try {
    RunModel("wrong::Copy", 1, "cpu");
    Check(false, "an operator that registers another while it runs");
  } catch (const UserError& e) {
    Check(e.code() == ErrorCode::kApiMisuse &&
              std::string(e.what()).find("inside weft_plugin_init_v1 only") != std::string::npos,
          std::string("registering late: ") + e.what());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  folder = argv[1];
  GetBackend("cpu");  // what it registers is there before we look
  FilesThatAreNone();
  EachFault();
  OlderHost();
  Good();
  std::printf("faults: %d checks, %d failed\n", checks, failures);
  return failures ? 1 : 0;
} catch (const Error& e) {
  std::puts(e.what());
  return 1;
}
