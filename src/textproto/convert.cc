/// convert.cc: libweftpart_textproto.so: messages of ONNX between their bytes and their text.
///
/// The messages are made from descriptors, in a pool of this library's own, not from generated
/// code: that of full protobuf would enter a registry that all copies of ONNX in a process share.
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/text_format.h>

#include <climits>

#include "weft/support/check.h"
#include "weft/support/text_proto.h"

namespace weft::textproto {

extern const unsigned char kOnnxMessages[];
extern const unsigned long kOnnxMessagesSize;

namespace {

namespace pb = google::protobuf;

constexpr int kDepth = 100;  // as deep as the parser of bytes goes

/// The descriptors, and messages of them.
class Messages {
 public:
  Messages() {
    pb::FileDescriptorSet files;
    WEFT_ICHECK(files.ParseFromArray(kOnnxMessages, int(kOnnxMessagesSize)), "the descriptors");
    for (const pb::FileDescriptorProto& file : files.file())
      WEFT_ICHECK(pool_.BuildFile(file), "descriptor {}", file.name());
  }
  std::unique_ptr<pb::Message> New(const std::string& name) {
    const pb::Descriptor* type = pool_.FindMessageTypeByName("onnx." + name);
    WEFT_ICHECK(type, "no message {}", name);
    return std::unique_ptr<pb::Message>(factory_.GetPrototype(type)->New());
  }

 private:
  pb::DescriptorPool pool_;
  pb::DynamicMessageFactory factory_{&pool_};
};

/// Keeps the first error.
class FirstError final : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (text_.empty()) text_ = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::string Convert(const std::string& name, bool to_text, std::string_view in) {
  static Messages messages;
  WEFT_CHECK(in.size() <= INT_MAX, kLimit, "{} bytes; a protobuf message has at most 2 GiB",
             in.size());
  const std::unique_ptr<pb::Message> message = messages.New(name);
  std::string out;
  if (to_text) {
    WEFT_ICHECK(message->ParseFromArray(in.data(), int(in.size())), "no {}", name);
    pb::TextFormat::Printer printer;
    printer.SetUseUtf8StringEscaping(true);
    WEFT_ICHECK(printer.PrintToString(*message, &out), "{} has no text", name);
    return out;
  }
  FirstError error;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kDepth);
  pb::io::ArrayInputStream stream(in.data(), int(in.size()));
  const bool read = parser.Parse(&stream, message.get());
  WEFT_CHECK(read, kSyntax, "{}", error.text().empty() ? "no " + name : error.text());
  WEFT_CHECK(message->SerializeToString(&out), kLimit, "a message of more than 2 GiB");
  return out;
}

}  // namespace weft::textproto

extern "C" WEFT_API void weft_convert_text_proto(const std::string& message, bool to_text,
                                                 std::string_view in, std::string* out) {
  *out = weft::textproto::Convert(message, to_text, in);
}
