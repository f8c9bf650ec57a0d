/// shell_check.cc: see shell_check.h.
#include "shell_check.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "command_line.h"
#include "weft/api/model.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

std::string WithFile(const std::string& command, const std::string& file) {
  std::string out;
  size_t at = 0;
  for (size_t hole; (hole = command.find("{}", at)) != std::string::npos; at = hole + 2)
    out += command.substr(at, hole - at) + ShellWord(file);
  return at == 0 ? command + " " + ShellWord(file) : out + command.substr(at);
}

}  // namespace

std::string ShellWord(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

int RunShell(const std::string& line, bool show_output) {
  const pid_t child = fork();
  WEFT_CHECK(child >= 0, kIo, "cannot start a process: {}", std::strerror(errno));
  if (child == 0) {
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(show_output ? STDERR_FILENO : null, STDOUT_FILENO);
    if (!show_output) dup2(null, STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    WEFT_CHECK(errno == EINTR, kIo, "cannot wait for the check: {}", std::strerror(errno));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void AddCheck(Options& app, CheckArgs* args) {
  app.Add("--check CMD", &args->command,
          "command for /bin/sh; {} is the model's file, appended where there is none; exit code 0: "
          "good, another: bad");
  app.Add("--fail-code N", &args->fail_codes, "only this exit code is bad (repeatable)");
  app.AddFlag("--show-output", &args->show_output, "what the check writes, on stderr");
}

CheckCommand::CheckCommand(CheckArgs args, std::string extension, Limits limits)
    : args_(std::move(args)), limits_(limits), file_(folder_ / ("model" + extension)) {}

bool CheckCommand::IsBad(const Graph& graph) {
  WriteModel(graph, file_, {limits_, false});
  ++runs_;
  const int code = RunShell(WithFile(args_.command, file_), args_.show_output);
  WEFT_CHECK(code != 126 && code != 127, kUsage,
             "the check '{}' cannot be run: the shell gave exit code {}", args_.command, code);
  if (args_.fail_codes.empty()) return code != 0;
  return std::find(args_.fail_codes.begin(), args_.fail_codes.end(), code) !=
         args_.fail_codes.end();
}

std::string ExtensionOf(const std::string& path) {
  WritableFormat(path);
  return ToLower(path.substr(path.rfind('.')));
}

}  // namespace weft::tool
