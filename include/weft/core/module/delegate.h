/// delegate.h: engines that run parts of a graph in place of our kernels and library calls:
/// OpenVINO, libtorch, TensorRT, a vendor's own graph compiler. Registered under a name, by plugins
/// of the C tier (WeftDelegateDef of weft/plugin.h) or here.
///
///   const std::shared_ptr<Delegate> d = GetDelegate("openvino");
///   if (d->WhyNot(graph, node, options).empty()) ... the node may be part of a region ...
///   std::shared_ptr<DelegateEngine> engine = d->Compile({&body, options, threads});
///   engine->Prepare()->Run(inputs, outputs, nullptr);
///
/// The pass Delegate makes nodes weft::Delegated of what engines take; the runtime compiles their
/// bodies, once a set of extents, and runs them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"

namespace weft {

/// Values of a delegate's options by name, as text of their type; all that it declares.
using DelegateOptions = std::map<std::string, std::string>;

/// An option that a delegate declares.
struct DelegateOption {
  enum class Type : char { kBool = 'b', kInt = 'i', kFloat = 'f', kText = 's' };
  std::string name;
  Type type = Type::kText;
  std::string default_value, doc;
};

/// What is true of all engines of a delegate.
struct DelegateTraits {
  bool concurrent = false;     ///< several instances of one engine may run at a time
  bool deterministic = false;  ///< equal operands give equal bits
  bool any_extents = false;    ///< a region may be compiled before its symbols have values
  bool own_threads = false;    ///< runs on threads of its own, not on OpenMP's: ours sleep then
  bool streams = false;        ///< gives work to the stream of a run; else it is done at its end
  int16_t memory = MemoryPlace::kHost;  ///< MemoryPlace::kind of operands
};

/// A part of a graph that an engine compiles.
struct WEFT_API DelegateRegion {
  /// With "dtype" and "shape"; inputs and outputs in order. All extents are numbers, but where the
  /// delegate has any_extents and did not refuse the region with symbols.
  const Graph* body = nullptr;
  DelegateOptions options;
  int threads = 1;
  /// Every extent of its inputs and outputs is a number.
  bool is_static() const;
};

/// An operand of a run: dense, row-major, in memory of the delegate's kind.
struct DelegateTensor {
  DType dtype = DType::kUnknown;
  std::vector<int64_t> dims;
  void* data = nullptr;
};

/// A row of what an engine says of the latest run of an instance.
struct DelegateRow {
  std::string name, kind;
  double us = 0;
};

/// Serves one run at a time, on any thread.
class WEFT_API DelegateInstance {
 public:
  virtual ~DelegateInstance() = default;
  /// Writes the outputs. `stream`: of the device, to which the work is given; null: it is done when
  /// this returns. Returns the bytes of operands that had to be copied, since the engine could not
  /// use them where they lie.
  virtual int64_t Run(const std::vector<DelegateTensor>& inputs,
                      const std::vector<DelegateTensor>& outputs, void* stream) = 0;
  virtual std::vector<DelegateRow> Profile() { return {}; }
};

/// A compiled region. Thread-safe; outlives its instances.
class WEFT_API DelegateEngine {
 public:
  virtual ~DelegateEngine() = default;
  virtual std::unique_ptr<DelegateInstance> Prepare() = 0;
  /// As bytes that Delegate::Import takes; empty: it cannot be kept.
  virtual std::string Export() { return {}; }
};

class WEFT_API Delegate {
 public:
  virtual ~Delegate() = default;
  virtual std::string name() const = 0;
  virtual std::string doc() const = 0;
  virtual DelegateTraits traits() const = 0;
  virtual std::vector<DelegateOption> options() const { return {}; }
  /// Of the engine, which is opened. Throws kUnsupported with what this machine lacks and what to
  /// do.
  virtual std::string Version() const = 0;
  /// Empty: the node may be part of a region. The graph has "dtype" and "shape".
  virtual std::string WhyNot(const Graph& graph, const NodePtr& node,
                             const DelegateOptions& options) const = 0;
  /// Throws kUnsupported where the region has to run elsewhere. Never null.
  virtual std::shared_ptr<DelegateEngine> Compile(const DelegateRegion& region) const = 0;
  /// Of what Export gave. Throws where the bytes are of another region, version or machine.
  virtual std::shared_ptr<DelegateEngine> Import(const DelegateRegion& region,
                                                 std::string_view bytes) const;
  /// Microseconds of a run; negative: it cannot say.
  virtual double Estimate(const DelegateRegion&) const { return -1; }
};

/// Always true, for static initialisers. A second one of the same name is kDuplicate, thrown at the
/// next look-up.
WEFT_API bool RegisterDelegate(std::shared_ptr<const Delegate> delegate);
/// Throws kUnsupported with the names that there are.
WEFT_API std::shared_ptr<const Delegate> GetDelegate(const std::string& name);
/// Sorted.
WEFT_API std::vector<std::string> ListDelegates();

/// A delegate as users name it, with what they set of its options: "openvino:streams=2".
struct WEFT_API DelegateSpec {
  std::shared_ptr<const Delegate> delegate;
  DelegateOptions options;  ///< complete, each of its type
  /// With what differs from the defaults, sorted: what nodes and keys hold.
  std::string ToString() const;
};
/// One or several, in order: "openvino:streams=2,precision=f32,libtorch". Names are separated by
/// commas, semicolons or plus signs; what has an equals sign is an option of the name before it.
/// Empty: none. Throws kUnsupported for an unknown delegate, kUsage for an option that it has not,
/// a value of another type and a delegate named twice.
WEFT_API std::vector<DelegateSpec> ParseDelegates(std::string_view text);
/// Of an engine as tools name it: "cpu+openvino+libtorch:x=1" -> {"cpu", "openvino+libtorch:x=1"}.
WEFT_API std::pair<std::string, std::string> SplitDelegates(std::string_view engine);

}  // namespace weft
