/// import.cc: the public functions: bytes to proto with bounds, validation, building, and what the
/// caller hears of it.
#include "weft/onnx/import.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx-data.pb.h>

#include <climits>
#include <cstring>

#include "importer.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/file_reader.h"
#include "weft/support/log.h"
#include "weft/support/out_of_memory.h"
#include "weft/support/request.h"
#include "weft/support/text_proto.h"

namespace weft {
namespace {

using namespace onnx_import;  // the private half of this room
namespace io = google::protobuf::io;

/// Without its package.
template <class Message>
std::string NameOf(const Message& message) {
  const std::string name = message.GetTypeName();
  return name.substr(name.rfind('.') + 1);
}

/// A message comes as bytes in memory or from a file. A file is parsed as it is read: weights,
/// which are most of it, go from the page cache to where they stay, and memory is touched once.
class Source {
 public:
  explicit Source(std::string_view bytes) : bytes_(bytes), size_(int64_t(bytes.size())) {}
  /// `path`: of the file.
  Source(FileReader* file, const std::string& path)
      : file_(file), size_(file->size()), is_text_(IsTextProto(path)) {}

  int64_t size() const { return size_; }
  /// False where the bytes are no such message. The parser's own bound on nesting (100) stays.
  template <class Message>
  bool Parse(Message* message) const {
    if (!file_) return message->ParseFromArray(bytes_.data(), int(size_));
    if (is_text_) return ParseText(message);
    Chunks chunks(file_);
    io::CopyingInputStreamAdaptor stream(&chunks, kChunkBytes);
    return message->ParseFromBoundedZeroCopyStream(&stream, int(size_));
  }

 private:
  static constexpr int kChunkBytes = 256 << 10;  // stays in the second level cache
  struct Chunks final : io::CopyingInputStream {
    explicit Chunks(FileReader* f) : file(f) {}
    int Read(void* buffer, int bytes) override { return int(file->Read(buffer, size_t(bytes))); }
    FileReader* file;
  };

  template <class Message>
  bool ParseText(Message* message) const {
    std::string text(size_t(size_), '\0');
    text.resize(file_->Read(text.data(), text.size()));
    return message->ParseFromString(BytesOfTextProto(NameOf(*message), text));
  }

  std::string_view bytes_;
  FileReader* file_ = nullptr;
  int64_t size_;
  bool is_text_ = false;  ///< a file in text form
};

void CheckSize(const Source& source, const Limits& limits) {
  Limits::Check("file_bytes", source.size(), limits.file_bytes);
  WEFT_CHECK(source.size() <= INT_MAX, kLimit,
             "{} bytes; a protobuf message has at most 2 GiB, larger models keep their tensors in "
             "external files",
             source.size());
}

void ReportUnsupported(const std::vector<UnsupportedGroup>& groups, const ImportOptions& options) {
  if (groups.empty()) return;
  const auto text_of = [](const UnsupportedGroup& g) {
    std::string text = fmt::format("operator {} is not supported", Printable(g.op));
    if (!g.reason.empty()) text += ": " + g.reason;
    return text;
  };
  if (options.allow_unsupported) {
    if (!options.findings) return;
    for (const UnsupportedGroup& g : groups) {
      options.findings->push_back(
          {g.code, g.places.front(), text_of(g), g.hint, g.op, g.count, ""});
    }
    return;
  }
  const UnsupportedGroup& first = groups.front();
  const auto places = [](const UnsupportedGroup& g) {
    std::string text =
        fmt::format("{} node{}: {}", g.count, g.count == 1 ? "" : "s", fmt::join(g.places, ", "));
    return g.count > int64_t(g.places.size()) ? text + ", ..." : text;
  };
  ErrorCode code = ErrorCode::kUnsupported;
  for (const UnsupportedGroup& g : groups) {
    if (g.code == ErrorCode::kUnknownOp) code = ErrorCode::kUnknownOp;
  }
  if (groups.size() == 1) {
    ThrowError(code, fmt::format("{} ({})", text_of(first), places(first)), options.source_name,
               first.hint);
  }
  std::string text = fmt::format("{} operators are not supported", groups.size());
  for (const UnsupportedGroup& g : groups) {
    text += fmt::format("\n  {} ({})", text_of(g), places(g));
    if (!g.hint.empty()) text += fmt::format(" (hint: {})", g.hint);
  }
  ThrowError(code, std::move(text), options.source_name);
}

void ReportOddities(const Diagnostics& diag, const ImportOptions& options) {
  for (const auto& [oddity, warning] : diag.warnings()) {
    const OddityRow& row = RowOf(oddity);
    const std::string text = fmt::format("{}; {}", warning.message, row.taken);
    if (options.findings) {
      options.findings->push_back({row.code, warning.place, text, std::string(row.cure), "",
                                   warning.count, std::string(row.name)});
    } else {
      WEFT_LOG(kInfo, "{}: {}: {} [{}, {} in all]", options.source_name, warning.place, text,
               row.name, warning.count);
    }
  }
}

/// `path`: of the model; empty where it came from memory.
Graph Import(const Source& source, const ImportOptions& options, const std::string& path) {
  CheckSize(source, options.limits);
  WEFT_CHECK(source.size() > 0, kInvalidModel, "the file is empty");
  pb::ModelProto model;
  WEFT_CHECK(source.Parse(&model), kInvalidModel,
             "the file is damaged, or no ONNX model ({} bytes)", source.size());
  Diagnostics diag(options.strict);
  const ValidModel valid = ValidateModel(&model, options.limits, &diag);
  diag.ThrowIfAny(options.source_name);
  if (options.findings && !model.unknown_fields().empty()) {
    options.findings->push_back(
        {ErrorCode::kUnsupported, "",
         fmt::format("{} bytes of unknown fields were left out", model.unknown_fields().size()), "",
         "", 1, ""});
  }
  ExternalFiles files(options.external_data_dir, path, options.limits.external_links > 0);
  Importer importer(&model, options, valid, &files, &diag);
  Graph graph = importer.Run();
  diag.ThrowIfAny(options.source_name);
  ReportUnsupported(importer.unsupported(), options);
  if (options.findings || options.strict)
    graph =
        CheckDeclaredShapes(std::move(graph), importer.declared_shapes(), options.limits, &diag);
  diag.ThrowIfAny(options.source_name);
  ReportOddities(diag, options);
  return graph;
}

/// Tensors, sequences, optionals and maps from their messages.
class ValueReader {
 public:
  /// `path`: of the file that is read; empty where it came from memory.
  ValueReader(const Limits& limits, const std::string& path)
      : files_(path.empty() ? path : DirectoryOf(path), path, limits.external_links > 0),
        tensors_(limits, &files_) {}

  TensorPtr Read(const Source& source, Type type) {
    try {
      if (type.is_sequence()) return Sequence(Parse<pb::SequenceProto>(source), type);
      if (type.is_map_sequence()) return Maps(Parse<pb::SequenceProto>(source), type);
      if (type.is_map()) return Map(Parse<pb::MapProto>(source), type);
      if (type.is_optional()) return Optional(Parse<pb::OptionalProto>(source), type);
      pb::TensorProto t = Parse<pb::TensorProto>(source);
      return tensors_.Read(&t);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kInvalidModel && e.code() != ErrorCode::kUnsupported &&
          e.code() != ErrorCode::kTypeMismatch)
        throw;
      ThrowError(ErrorCode::kBadTensorFile, e.message(), e.place(), e.hint());
    }
  }

 private:
  template <class Message>
  static Message Parse(const Source& source) {
    Message m;
    WEFT_CHECK(source.Parse(&m), kBadTensorFile, "the file is damaged, or no {} ({} bytes)",
               NameOf(m), source.size());
    return m;
  }
  TensorPtr Sequence(pb::SequenceProto s, Type type) {
    WEFT_CHECK(s.sparse_tensor_values_size() + s.sequence_values_size() + s.map_values_size() +
                       s.optional_values_size() ==
                   0,
               kUnsupported, "a sequence of other values than tensors");
    std::vector<TensorPtr> elements;
    for (pb::TensorProto& t : *s.mutable_tensor_values()) elements.push_back(tensors_.Read(&t));
    return Tensor::List(type, std::move(elements));
  }
  TensorPtr Maps(pb::SequenceProto s, Type type) {
    WEFT_CHECK(s.sparse_tensor_values_size() + s.sequence_values_size() + s.tensor_values_size() +
                       s.optional_values_size() ==
                   0,
               kUnsupported, "a sequence of other values than maps");
    std::vector<TensorPtr> elements;
    for (pb::MapProto& m : *s.mutable_map_values())
      elements.push_back(Map(std::move(m), type.element()));
    return Tensor::List(type, std::move(elements));
  }
  TensorPtr Map(pb::MapProto m, Type type) {
    const int64_t count = m.keys_size() + m.string_keys_size();
    WEFT_CHECK(count == m.values().tensor_values_size() &&
                   (m.keys_size() == 0 || m.string_keys_size() == 0),
               kInvalidModel, "a map of {} keys and {} values", count,
               m.values().tensor_values_size());
    const DType key = count == 0 ? type.key : m.keys_size() > 0 ? DType::kI64 : DType::kString;
    auto keys = std::make_shared<Tensor>(key, std::vector<int64_t>{count});
    auto values = std::make_shared<Tensor>(type.dtype, std::vector<int64_t>{count});
    for (int i = 0; i < int(count); ++i) {
      if (key == DType::kString)
        keys->mutable_strings()[size_t(i)] = m.string_keys(i);
      else
        keys->set_int(i, m.keys(i));
      const TensorPtr value = tensors_.Read(m.mutable_values()->mutable_tensor_values(i));
      WEFT_CHECK(value->dtype() == type.dtype && value->num_elements() == 1, kTypeMismatch,
                 "a value {}{} in a {}", DTypeName(value->dtype()), value->shape().ToString(),
                 type.ToString());
      if (value->dtype() == DType::kString)
        values->mutable_strings()[size_t(i)] = value->strings()[0];
      else
        std::memcpy(static_cast<char*>(values->mutable_data()) + i * value->num_bytes(),
                    value->data(), size_t(value->num_bytes()));
    }
    TensorPtr map = Tensor::Map(std::move(keys), std::move(values));
    WEFT_CHECK(map->type() == type, kTypeMismatch, "a {} in the place of a {}",
               map->type().ToString(), type.ToString());
    return map;
  }
  TensorPtr Optional(pb::OptionalProto o, Type type) {
    WEFT_CHECK(!o.has_sparse_tensor_value() && !o.has_map_value() && !o.has_optional_value(),
               kUnsupported, "an optional of another value than a tensor or a sequence of them");
    std::vector<TensorPtr> elements;
    if (o.has_tensor_value()) elements.push_back(tensors_.Read(o.mutable_tensor_value()));
    if (o.has_sequence_value())
      elements.push_back(Sequence(std::move(*o.mutable_sequence_value()), type.element()));
    return Tensor::List(type, std::move(elements));
  }

  ExternalFiles files_;
  TensorReader tensors_;
};

TensorPtr ReadValue(const Source& source, Type type, const Limits& limits,
                    const std::string& path) {
  CheckSize(source, limits);
  return ValueReader(limits, path).Read(source, type);
}

/// Memory that gives out is a status; so is whatever else a library throws.
template <class F>
auto Guarded(const std::string& source, F f) -> decltype(f()) {
  try {
    return WithMemoryTo("import the model", source, f);
  } catch (Error& e) {
    if (!source.empty() && e.place().rfind(source, 0) != 0) e.AddPlace(source);
    throw;
  }
}

}  // namespace

Graph ImportOnnxBytes(std::string_view bytes, const ImportOptions& options) {
  RequestScope scope(options.limits);
  return Guarded(options.source_name, [&] { return Import(Source(bytes), options, {}); });
}

Graph ImportOnnx(const std::string& path, const ImportOptions& options) {
  ImportOptions own = options;
  if (own.source_name.empty()) own.source_name = path;
  if (own.external_data_dir.empty()) own.external_data_dir = DirectoryOf(path);
  FileReader file(path, own.limits.file_bytes);
  RequestScope scope(own.limits);
  return Guarded(own.source_name, [&] { return Import(Source(&file, path), own, path); });
}

TensorPtr ReadTensorProto(const std::string& path, const Limits& limits) {
  FileReader file(path, limits.file_bytes);
  return Guarded(path, [&] { return ReadValue(Source(&file, path), {}, limits, path); });
}

TensorPtr ReadValueProto(const std::string& path, Type type, const Limits& limits) {
  FileReader file(path, limits.file_bytes);
  return Guarded(path, [&] { return ReadValue(Source(&file, path), type, limits, path); });
}

TensorPtr ReadTensorProtoBytes(std::string_view bytes, const Limits& limits) {
  return Guarded(std::string(),
                 [&] { return ReadValue(Source(bytes), {}, limits, std::string()); });
}

}  // namespace weft
