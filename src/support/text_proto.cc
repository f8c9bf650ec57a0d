/// text_proto.cc: opens libweftpart_textproto.so.
#include "weft/support/text_proto.h"

#include "weft/support/check.h"
#include "weft/support/shared_library.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

using Converter = void(const std::string& message, bool to_text, std::string_view in,
                       std::string* out);

std::string Convert(const std::string& message, bool to_text, std::string_view in) {
  static std::string why;
  static Converter* const converter =
      FindFunctionOfPart<Converter>("libweftpart_textproto.so", "weft_convert_text_proto", &why);
  WEFT_CHECK(converter != nullptr, kUnsupported,
             "the text form of protobuf cannot be converted: {}", why);
  std::string out;
  converter(message, to_text, in, &out);
  return out;
}

}  // namespace

bool IsTextProto(const std::string& path) {
  const std::string lower = ToLower(path);
  for (const char* extension : {".textproto", ".pbtxt", ".prototxt"})
    if (EndsWith(lower, extension)) return true;
  return false;
}

std::string BytesOfTextProto(const std::string& message, std::string_view text) {
  return Convert(message, false, text);
}
std::string TextOfProto(const std::string& message, std::string_view bytes) {
  return Convert(message, true, bytes);
}

}  // namespace weft
