#include "recipes/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace elastiq {
namespace {

/// While it lives this process takes SIGINT, SIGTERM and SIGCHLD by asking for them.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&held_, signal);
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }

  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  const sigset_t& before() const { return before_; }

  /// Waits for one of them, at most a second, and passes on to the child what a process sent to
  /// this one alone. Ctrl-C of a terminal reaches the child without us.
  void relay_one_to(pid_t child) const {
    const timespec second{1, 0};
    siginfo_t info{};
    const int signal = sigtimedwait(&held_, &info, &second);
    if (signal == SIGTERM || (signal == SIGINT && info.si_code <= 0)) kill(child, signal);
  }

 private:
  sigset_t held_{};
  sigset_t before_{};
};

/// The attributes of a spawn, released at the end.
struct SpawnSetup {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};

  SpawnSetup(const std::string& output, const sigset_t& mask) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawnattr_init(&attributes);
    // A blocked signal would stay blocked in the child.
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  }

  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }

  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
};

Error spawn_error(const std::string& program, int reason) {
  const ErrorCode code = reason == ENOENT ? ErrorCode::kMissing : ErrorCode::kIo;
  return Error{code, program, std::string("cannot be started: ") + std::strerror(reason)};
}

}  // namespace

Result<ChildResult> run_child(const std::vector<std::string>& arguments,
                              const std::filesystem::path& output) {
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const HeldSignals signals;
  SpawnSetup setup(output.string(), signals.before());
  const auto start = std::chrono::steady_clock::now();
  pid_t pid = 0;
  const int failed =
      posix_spawn(&pid, argv[0], &setup.files, &setup.attributes, argv.data(), environ);
  if (failed != 0) return spawn_error(arguments[0], failed);
  int status = 0;

  struct rusage usage {};

  for (pid_t ended = 0; ended != pid; ended = wait4(pid, &status, WNOHANG, &usage)) {
    if (ended < 0 && errno != EINTR) return spawn_error(arguments[0], errno);
    signals.relay_one_to(pid);
  }
  ChildResult result;
  result.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  // Linux counts in KiB.
  result.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  return result;
}

Json error_json(const Error& error) {
  return {{"format", "elastiq.error/1"},
          {"exit", exit_status(error)},
          {"error",
           {{"code", static_cast<int>(error.code)},
            {"name", code_name(error.code)},
            {"subject", error.subject},
            {"detail", error.detail},
            {"byte_offset", error.byte_offset}}}};
}

Error error_from_json(const Json& json) {
  Error error;
  const auto it = json.find("error");
  if (it == json.end() || !it->is_object()) {
    return Error{ErrorCode::kInternal, "stage", "ended without a result"};
  }
  error.code = static_cast<ErrorCode>(it->value("code", 99));
  error.subject = it->value("subject", "");
  error.detail = it->value("detail", "");
  error.byte_offset = it->value("byte_offset", std::uint64_t{0});
  return error;
}

}  // namespace elastiq
