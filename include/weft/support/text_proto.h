/// text_proto.h: messages of ONNX in protobuf's text form.
///
/// What reads and writes it is the whole of protobuf, which keeps a registry of the process; the
/// rest of Weft has the lite half, which keeps none. So it is in a library of its own,
/// libweftpart_textproto.so, opened when the first such file is met; a build without it lacks
/// nothing else.
#pragma once

#include <string>
#include <string_view>

#include "weft/support/api.h"

namespace weft {

/// By the extension, in any case: .textproto, .pbtxt, .prototxt.
WEFT_API bool IsTextProto(const std::string& path);

/// The bytes of a message ("ModelProto", "TensorProto" ...) from its text. Throws kSyntax with line
/// and column, kUnsupported where this build has no libweftpart_textproto.so.
WEFT_API std::string BytesOfTextProto(const std::string& message, std::string_view text);
/// The text of a message from its bytes.
WEFT_API std::string TextOfProto(const std::string& message, std::string_view bytes);

}  // namespace weft
