/// plugin_file.cc: looks at a plugin's file before it is opened: is it there, is it a shared
/// library for this machine, which headers was it compiled against. Every offset in it is checked:
/// a damaged file is refused, not trusted.
#include "plugin_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "weft/support/check.h"

namespace weft {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint16_t kMachine = EM_NONE;  // not checked
#endif
// ours has some 80 bytes; a real file's notes stay below 1 KiB
constexpr uint64_t kMaxNotes = 1 << 16;

class FileReader {
 public:
  FileReader(const std::string& path) : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    WEFT_CHECK(fd_ >= 0, kIo, "plugin '{}' cannot be read: {}", path, std::strerror(errno));
  }
  ~FileReader() { close(fd_); }
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;
  int fd() const { return fd_; }
  bool Read(uint64_t at, void* to, size_t size) const {
    size_t done = 0;
    while (done < size) {
      const ssize_t n = pread(fd_, static_cast<char*>(to) + done, size - done, off_t(at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      done += size_t(n);
    }
    return true;
  }
  [[noreturn]] void Refuse(const std::string& why) const {
    ThrowError(ErrorCode::kPlugin, fmt::format("plugin '{}' {}", path_, why), "",
               "a plugin is a shared library made by weft_add_plugin or with -shared");
  }

 private:
  const std::string& path_;
  int fd_;
};

/// The text of the note "Weft" of type 1 in one segment of notes.
std::optional<std::string> FindNote(const std::vector<char>& notes) {
  auto up = [](uint64_t n) { return (n + 3) / 4 * 4; };
  for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr head;
    std::memcpy(&head, notes.data() + at, sizeof head);
    const uint64_t name = at + sizeof head, text = name + up(head.n_namesz);
    if (text + head.n_descsz > notes.size()) return std::nullopt;
    if (head.n_type == 1 && head.n_namesz == 5 &&
        std::memcmp(notes.data() + name, "Weft", 5) == 0) {
      const std::string all(notes.data() + text, head.n_descsz);
      return std::string(all.c_str());
    }
    at = text + up(head.n_descsz);
  }
  return std::nullopt;
}

std::optional<std::string> ReadAbiId(const FileReader& file) {
  Elf64_Ehdr head;
  if (!file.Read(0, &head, sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    file.Refuse("is not a shared library: it does not begin as an ELF file");
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB ||
      (kMachine != EM_NONE && head.e_machine != kMachine))
    file.Refuse(fmt::format("is for another machine (ELF machine {}, class {})", head.e_machine,
                            int(head.e_ident[EI_CLASS])));
  if (head.e_type != ET_DYN || head.e_phentsize != sizeof(Elf64_Phdr))
    file.Refuse("is an ELF file, but no shared library");
  for (uint16_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (head.e_phoff > INT64_MAX - (uint64_t{1} << 32) ||
        !file.Read(head.e_phoff + uint64_t{i} * sizeof segment, &segment, sizeof segment))
      file.Refuse("is cut off");
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNotes) continue;
    std::vector<char> notes(segment.p_filesz);
    if (segment.p_offset > uint64_t{INT64_MAX} - kMaxNotes ||
        !file.Read(segment.p_offset, notes.data(), notes.size()))
      file.Refuse("is cut off");
    if (auto id = FindNote(notes)) return id;
  }
  return std::nullopt;
}

}  // namespace

PluginFile InspectPlugin(const std::string& path) {
  if (path.find('/') == std::string::npos)
    ThrowError(ErrorCode::kPlugin,
               fmt::format("plugin '{}' is a bare name; plugins are not searched for", path), "",
               fmt::format("give a path: ./{}", path));
  const FileReader file(path);
  struct stat status {};
  WEFT_CHECK(fstat(file.fd(), &status) == 0, kIo, "plugin '{}' cannot be read: {}", path,
             std::strerror(errno));
  if (!S_ISREG(status.st_mode)) file.Refuse("is not a regular file");
  PluginFile out;
  char* real = realpath(path.c_str(), nullptr);
  out.path = real ? real : path;
  std::free(real);
  out.device = uint64_t(status.st_dev);
  out.inode = uint64_t(status.st_ino);
  out.abi_id = ReadAbiId(file);
  return out;
}

}  // namespace weft
