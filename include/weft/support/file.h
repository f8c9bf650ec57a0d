/// file.h: whole files, read with a size limit and written so that a reader sees the old or the new
/// one, never a part.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/support/api.h"

namespace weft {

/// The content of a regular file. Throws kIo where it cannot be read, kLimit where it has more than
/// `max_bytes`.
WEFT_API std::string ReadFile(const std::string& path, int64_t max_bytes = int64_t{1} << 40);

/// Writes a temporary file in the same folder, flushes it to disk and renames it. On failure throws
/// kIo and leaves neither a part nor the temporary.
WEFT_API void WriteFileAtomic(const std::string& path, std::string_view content);

/// True for a file or folder that exists.
WEFT_API bool FileExists(const std::string& path);
/// Makes the folder and those above it, with mode 0700 (masked) where `is_private`. Throws kIo.
WEFT_API void MakeDirectories(const std::string& path, bool is_private = false);
/// "a/b" for "a/b/c.txt", "." where there is no slash.
WEFT_API std::string DirectoryOf(const std::string& path);
/// "c.txt" for "a/b/c.txt".
WEFT_API std::string BaseName(const std::string& path);
/// Of files that nobody needs for long: $TMPDIR, else /tmp.
WEFT_API std::string TemporaryFolder();
/// b where it is absolute, else a/b.
WEFT_API std::string JoinPath(const std::string& a, const std::string& b);

}  // namespace weft
