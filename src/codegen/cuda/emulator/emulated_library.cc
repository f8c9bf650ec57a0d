/// emulated_library.cc: CUDA sources to shared libraries for the emulator.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "emulation_prelude.h"
#include "emulator.h"
#include "weft/support/check.h"
#include "weft/support/hash.h"
#include "weft/support/parallel_for.h"

namespace weft::cuda {

void* EmulatedMachine();  // emulator.cc

namespace {

namespace fs = std::filesystem;

constexpr const char* kCompiler = "c++";
// What a GPU does not do, or does in another way than x86, ends in an invalid instruction.
// Optimised code would run twice as fast and take three times as long to compile, which is most of
// the time of a test.
constexpr const char* kFlags =
    "-std=c++17 -O0 -w -shared -fPIC -ffp-contract=off -fno-strict-aliasing -fno-exceptions "
    "-fno-rtti -fsanitize=alignment,bounds,signed-integer-overflow,integer-divide-by-zero "
    "-fsanitize-undefined-trap-on-error";
/// Files that a cache may have; the longest unused go first.
constexpr size_t kMaxCached = 600;

void ReplaceAll(std::string* text, const std::string& from, const std::string& to) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size()))
    text->replace(at, from.size(), to);
}

/// Inline assembly and dynamic shared memory in terms of the prelude.
std::string HostText(const std::string& source) {
  std::string text = source;
  ReplaceAll(&text, R"(asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));)", "h = EmuToHalf(v);");
  ReplaceAll(&text, R"(asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));)", "v = EmuFromHalf(h);");
  WEFT_CHECK(text.find("asm(") == std::string::npos, kUnsupported,
             "inline assembly that the emulator does not know");
  // extern __shared__ T name[];  ->  T* name = (T*)dynamic shared memory
  const std::string dynamic = "extern __shared__ ";
  for (size_t at = text.find(dynamic); at != std::string::npos; at = text.find(dynamic, at)) {
    const size_t end = text.find("[];", at);
    const std::string declared = text.substr(at + dynamic.size(), end - at - dynamic.size());
    const size_t space = declared.rfind(' ');
    text.replace(at, end + 3 - at,
                 fmt::format("{0}* {1} = ({0}*)emu->dynamic_shared;", declared.substr(0, space),
                             declared.substr(space + 1)));
  }
  return text;
}

struct Signature {
  std::string name;
  unsigned max_threads = 1024;
  std::vector<std::string> types;  ///< of parameters
};

/// Every `__global__ void [__launch_bounds__(n)] name(type name, ...)`.
std::vector<Signature> Entries(const std::string& source) {
  std::vector<Signature> found;
  const std::string head = "__global__ void ";
  for (size_t at = source.find(head); at != std::string::npos; at = source.find(head, at)) {
    at += head.size();
    Signature s;
    const std::string bounds = "__launch_bounds__(";
    if (source.compare(at, bounds.size(), bounds) == 0) {
      s.max_threads = unsigned(std::atoi(source.c_str() + at + bounds.size()));
      at = source.find(") ", at) + 2;
    }
    const size_t open = source.find('(', at), close = source.find(')', open);
    s.name = source.substr(at, open - at);
    for (size_t from = open + 1; from < close;) {
      const size_t comma = std::min(source.find(',', from), close);
      std::string type = source.substr(from, comma - from);
      type.resize(type.find_last_of(" *") + 1);
      s.types.push_back(type);
      from = comma + 1;
    }
    found.push_back(std::move(s));
  }
  return found;
}

/// `emu_<name>` takes its arguments as words.
std::string Trampolines(const std::vector<Signature>& entries) {
  std::string text;
  for (const Signature& s : entries) {
    std::string arguments, sizes;
    for (size_t i = 0; i < s.types.size(); ++i) {
      const std::string& t = s.types[i];
      const bool word = t.find('*') != std::string::npos || t.find("i64") != std::string::npos ||
                        t.find("u64") != std::string::npos;
      arguments += fmt::format(word ? "{}({})a[{}]" : "{}*({}*)a[{}]", i ? ", " : "", t, i);
      sizes += fmt::format(word ? "8, " : "sizeof({}), ", t);
    }
    text +=
        fmt::format("extern \"C\" const unsigned long emu_bytes_{}[] = {{{}0}};\n", s.name, sizes);
    text += fmt::format("extern \"C\" void emu_{0}(const EmuWord* a) {{ {0}({1}); }}\n", s.name,
                        arguments);
  }
  return text;
}

fs::path CacheFolder() {
  const char* build = std::getenv("WEFT_BUILD_DIR");
  fs::path folder = build != nullptr && *build
                        ? fs::path(build) / "cuda_emulation"
                        : fs::temp_directory_path() / fmt::format("weft_emulation_{}", getuid());
  fs::create_directories(folder);
  return folder;
}

void Trim(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code ignored;
  for (const auto& f : fs::directory_iterator(folder, ignored))
    files.emplace_back(fs::last_write_time(f.path(), ignored), f.path());
  if (files.size() <= kMaxCached) return;
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i + kMaxCached < files.size(); ++i) fs::remove(files[i].second, ignored);
}

/// Empty, or the compiler's words.
std::string Compile(const fs::path& library, const std::string& text) {
  const std::string base = library.string() + fmt::format(".{}", getpid()), file = base + ".cc",
                    log = base + ".log", made = base + ".so";
  std::ofstream(file) << text;
  const int rc = std::system(
      fmt::format("{} {} -o {} {} > {} 2>&1", kCompiler, kFlags, made, file, log).c_str());
  std::string problem;
  if (rc != 0) {
    std::ifstream in(log);
    problem = std::string((std::istreambuf_iterator<char>(in)), {});
    if (problem.empty()) problem = fmt::format("{} ended with {}", kCompiler, rc);
  }
  std::error_code ignored;
  if (problem.empty()) fs::rename(made, library, ignored);
  fs::remove(log, ignored);
  if (std::getenv("WEFT_KEEP_SOURCES") == nullptr) fs::remove(file, ignored);
  return problem;
}

}  // namespace

bool EmulatedLibrary::CanCompile() {
  static const bool can =
      std::system(fmt::format("{} --version > /dev/null 2>&1", kCompiler).c_str()) == 0;
  return can;
}

std::unique_ptr<EmulatedLibrary> EmulatedLibrary::Build(const std::vector<std::string>& sources,
                                                        std::string* why) {
  why->clear();
  if (!CanCompile()) {
    *why = fmt::format("no {} on this machine", kCompiler);
    return nullptr;
  }
  const fs::path folder = CacheFolder();
  auto out = std::make_unique<EmulatedLibrary>();
  std::vector<std::vector<Signature>> entries(sources.size());
  std::vector<fs::path> libraries(sources.size());
  std::vector<std::string> texts(sources.size()), problems(sources.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < sources.size(); ++i) {
    entries[i] = Entries(sources[i]);
    texts[i] = kEmulationPrelude + HostText(sources[i]) + Trampolines(entries[i]);
    const std::string key = texts[i] + kCompiler + kFlags + __VERSION__;
    libraries[i] = folder / (HashBytes(key.data(), key.size()).ToHex() + ".so");
    std::error_code ignored;
    if (fs::exists(libraries[i], ignored))
      fs::last_write_time(libraries[i], fs::file_time_type::clock::now(), ignored);
    else
      missing.push_back(i);
  }
  const unsigned cores = std::thread::hardware_concurrency();
  ParallelFor(missing.size(), int(std::clamp(cores, 1u, 8u)), [&](size_t k) {
    problems[missing[k]] = Compile(libraries[missing[k]], texts[missing[k]]);
  });
  out->compiled_ = int(missing.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!problems[i].empty()) {
      *why = fmt::format("unit {}: {}", i, problems[i]);
      return nullptr;
    }
    void* handle = dlopen(libraries[i].c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      *why = dlerror();
      return nullptr;
    }
    unsigned char *begin = nullptr, *end = nullptr;
    using Bind = void (*)(void*, unsigned char**, unsigned char**);
    reinterpret_cast<Bind>(dlsym(handle, "EmuBind"))(EmulatedMachine(), &begin, &end);
    for (const Signature& s : entries[i]) {
      EmulatedEntry e;
      e.name = s.name;
      e.max_threads = s.max_threads;
      e.run = reinterpret_cast<void (*)(const uint64_t*)>(dlsym(handle, ("emu_" + s.name).c_str()));
      e.shared_begin = begin, e.shared_end = end;
      const auto* sizes =
          static_cast<const unsigned long*>(dlsym(handle, ("emu_bytes_" + s.name).c_str()));
      e.parameter_bytes.assign(sizes, sizes + s.types.size());
      out->entries_[s.name] = e;
    }
  }
  Trim(folder);
  return out;
}

const EmulatedEntry* EmulatedLibrary::Find(const std::string& name) const {
  const auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

}  // namespace weft::cuda
