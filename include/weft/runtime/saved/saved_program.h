/// saved_program.h: compiled programs in files (`.weftx`): saved where a model is compiled, run
/// where there is no ONNX and no compiler.
///
///   SaveProgram(*Compile(graph, {"cpu"}), "net.weftx");
///   auto program = LoadProgram("net.weftx");
///
/// A file holds the graph as the passes left it (text form), its constants, and the machine code
/// of every distinct kernel. Loading lowers the fused bodies again, which needs no compiler, and
/// takes the code of each from the file. Code that the machine cannot run, or that another version
/// of the generator made, is compiled anew where a compiler is there, and interpreted with a
/// warning where none is.
///
/// An element-wise operator that the library does not register itself is saved as what it computes
/// (weft::Expression), so that the file runs where nobody registers it. Operators of others that
/// have another form of FCodeGen, a library call or an FHostEval have to be registered there. Of a
/// backend's own program (weft/runtime/program/backend_program.h) the file holds the graph that it
/// was made of, as it is, and the sections that it gives; Backend::LoadProgram makes it again.
///
/// A file names the plugins that it needs, with what it needs of each: loading it where that is not
/// there says which plugin is missing.
///
///   "WEFTX\0\0\1" | hash of the rest, 16 bytes | number of sections, u64
///                 | {tag, 8 bytes; offset, size, u64} ... | data
///
///   sections  "meta"     key=value lines: backend, target, generator; of a program with a
///                        memory budget: memory, ways
///             "graph"    text form, tensors by hash; of further ways to keep the budget "way1" ..
///             "tensors"  {content hash, dtype, rank, extents, offset, bytes} as u64 each
///             "data"     the tensors' bytes at multiples of 64 of the file
///             "kernels"  {key hi, lo, bytes} as u64, then the code; repeated
///             "plugins"  where there are any, a line each: name, version, and {kind of item, its
///                        name} ..., apart by tabs
///             "own"      sections of a backend's program: {bytes of the name, of the content} as
///                        u64, name, content; repeated
///
/// Numbers are little-endian. A newer format version is refused, a damaged file too
/// (kInvalidModel). A file holds machine code and is as trusted as a shared library: load only
/// what you would run.
#pragma once

#include <memory>
#include <string>

#include "weft/core/target.h"
#include "weft/runtime/program/program.h"

namespace weft {

/// The bytes of a `.weftx` file of a graph that went through RTCGen for `target`
/// (KernelCompiler::target()) and will run on `backend`. For a program that this machine cannot run
/// (`weft compile --target cuda:sm_90`). `compiled_for`: PassOptions::target of its passes, where
/// that is not the backend.
WEFT_API std::string PackProgram(const Graph& compiled, const std::string& backend,
                                 const std::string& target, const Target& compiled_for = {});
/// Of a compiled program: what SaveProgram writes.
WEFT_API std::string PackProgram(const Program& program);
/// Writes `program`; the old or the new file is there at any moment. Throws kIo.
WEFT_API void SaveProgram(const Program& program, const std::string& path);

struct LoadOptions {
  std::string backend;  ///< empty: the one that the file names
  int threads = 0;      ///< 0: what the process may use
  Limits limits;
  CallOptions calls;  ///< as in CompileOptions
  /// In the place of the program's own; with none, that one counts. Ways are those of the file.
  MemoryBudget memory_budget = {};
};
/// Constants are views of the mapped file. Throws kIo, kLimit, kInvalidModel, and kPlugin where a
/// plugin is missing.
WEFT_API std::shared_ptr<const Program> LoadProgram(const std::string& path,
                                                    const LoadOptions& options = {});
/// As LoadProgram, from bytes that stay alive as long as `owner`. `name` stands in messages.
WEFT_API std::shared_ptr<const Program> LoadProgramFromMemory(const void* data, size_t size,
                                                              std::shared_ptr<void> owner,
                                                              const std::string& name,
                                                              const LoadOptions& options = {});

}  // namespace weft
