#include "runtime/log.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "runtime/lock_order.h"
#include "runtime/log_file.h"

namespace hpu_reference::runtime {

std::array<std::atomic<std::uint8_t>, kLogModules> g_log_levels{};

namespace {

constexpr std::array<const char*, kLogModules> kModules = {"PT_DEVICE",
                                                           "PT_KERNEL",
                                                           "PT_BRIDGE",
                                                           "PT_SYNHELPER",
                                                           "PT_DISTRIBUTED",
                                                           "PT_LAZY",
                                                           "PT_PINNED",
                                                           "PT_FALLBACK",
                                                           "PT_DEVMEM",
                                                           "PT_MEMLOG",
                                                           "PT_RECIPE_STATS",
                                                           "PT_HPUGRAPH",
                                                           "PT_COMPILE",
                                                           "PT_PYTHON"};
constexpr std::array<const char*, 6> kLevels = {"trace", "debug", "info", "warning", "error", "critical"};

struct Log {
  RankedMutex<LockRank::Leaf> mutex;
  LogSettings settings;
  std::shared_ptr<LogFile> file;
  std::atomic<bool> error_reported{false};
};

// Never destroyed: threads may log during static destruction.
Log& state() {
  static auto* value = new Log();
  return *value;
}

// Returns the process's rank: the first launcher variable in the list below whose value is a number.
std::string rank() {
  for (const char* name : {"ID", "OMPI_COMM_WORLD_RANK", "RANK"}) {
    const char* text = std::getenv(name);
    // Programs other than the launcher set ID too, so only a number is accepted as a rank.
    if (text != nullptr && *text != '\0' && std::strspn(text, "0123456789") == std::strlen(text)) {
      return text;
    }
  }
  return {};
}

// Returns the log file of the process, or null if no log folder is set.
std::shared_ptr<LogFile> file_of(Log& self) {
  if (self.file == nullptr && !self.settings.folder.empty()) {
    const std::string folder = rank();
    self.file = std::make_shared<LogFile>(
        self.settings.folder + (folder.empty() ? "" : "/" + folder) + "/pytorch_log.txt",
        self.settings.file_bytes,
        self.settings.files);
  }
  return self.file;
}

// Another thread of the parent may have held the lock at the fork, so the child does not read the file
// object. It opens its own file, which is named after its own rank.
void forget_file() {
  Log& self = state();
  new (&self.mutex) RankedMutex<LockRank::Leaf>();
  new (&self.file) std::shared_ptr<LogFile>();
}

std::string prefix(LogModule module, LogLevel level) {
  // Format the time without the C library: its time-zone lock stays locked in a child that is forked
  // meanwhile.
  const auto now = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  const auto midnight = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(midnight);
  const std::chrono::hh_mm_ss time(now - midnight);
  std::array<char, 128> text{};
  std::snprintf(text.data(),
                text.size(),
                "[%04d-%02u-%02u %02ld:%02ld:%02ld.%06ld][%s][%s][%d:%ld] ",
                static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()),
                static_cast<long>(time.hours().count()),
                static_cast<long>(time.minutes().count()),
                static_cast<long>(time.seconds().count()),
                static_cast<long>(time.subseconds().count()),
                kModules[static_cast<std::size_t>(module)],
                kLevels[static_cast<std::size_t>(level)],
                static_cast<int>(::getpid()),
                static_cast<long>(::syscall(SYS_gettid)));
  return text.data();
}

std::string lines_of(LogModule module, LogLevel level, std::string_view text) {
  const std::string front = prefix(module, level);
  std::string lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.append(front).append(text.substr(begin, end - begin)).push_back('\n');
    begin = end + 1;
    if (begin == text.size()) {
      break;  // no empty line after a final line break
    }
  }
  return lines;
}

void report_error_once(Log& self, const std::string& destination, int error) {
  if (error != 0 && !self.error_reported.exchange(true)) {
    std::fprintf(
        stderr,
        "hpu: the log cannot be written to %s (%s); the program continues without it: set another folder in "
        "HABANA_LOGS, or unset ENABLE_CONSOLE\n",
        destination.c_str(),
        std::strerror(error));
  }
}

}  // namespace

const std::array<const char*, kLogModules>& log_modules() {
  return kModules;
}

void set_log(const LogSettings& settings) {
  static std::once_flag watched;
  std::call_once(watched, [] { pthread_atfork(nullptr, nullptr, &forget_file); });
  std::shared_ptr<LogFile> before;
  Log& self = state();
  const std::lock_guard lock(self.mutex);
  self.settings = settings;
  before.swap(self.file);
  self.error_reported = false;
  for (std::size_t i = 0; i < kLogModules; i++) {
    g_log_levels[i].store(settings.levels[i], std::memory_order_relaxed);
  }
}

void write_log(LogModule module, LogLevel level, std::string_view text) noexcept try {
  const std::string lines = lines_of(module, level, text);
  Log& self = state();
  std::shared_ptr<LogFile> file;
  bool to_output = false;
  bool to_errors = false;
  {
    const std::lock_guard lock(self.mutex);
    file = file_of(self);
    to_output = self.settings.to_output;
    to_errors = self.settings.to_errors;
  }
  if (file != nullptr) {
    report_error_once(self, file->path(), file->append(lines));
  }
  if (to_output) {
    static Console console(STDOUT_FILENO);
    report_error_once(self, "the standard output", console.append(lines));
  }
  if (to_errors) {
    static Console console(STDERR_FILENO);
    console.append(lines);
  }
} catch (const std::bad_alloc&) {
  // The line is lost; the logged work is not affected.
}

}  // namespace hpu_reference::runtime
