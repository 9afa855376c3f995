#include "node_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

namespace hpu_reference::tools {

namespace {

const std::string kShared = "/dev/shm";
const std::string kPrefix = "hpu-reference.";

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads the record of a process. Returns false if the file is not a record. Other users may write any files
// to this folder, so the function reads only a regular file of exactly the size of a record.
bool read_record(const std::string& path, Record& record) {
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) {
    return false;
  }
  struct stat status = {};
  const bool whole = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                     status.st_size == sizeof(record) &&
                     read(file, &record, sizeof(record)) == static_cast<ssize_t>(sizeof(record));
  close(file);
  return whole;
}

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  if (DIR* opened = opendir(folder.c_str())) {
    while (const dirent* entry = readdir(opened)) {
      names.emplace_back(entry->d_name);
    }
    closedir(opened);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> folders() {
  if (const char* given = std::getenv("HPU_REFERENCE_STATE_DIR"); given != nullptr && *given != '\0') {
    return {given};
  }
  std::vector<std::string> found;
  for (const std::string& name : entries(kShared)) {
    if (name.rfind(kPrefix, 0) == 0) {
      found.push_back(kShared + "/" + name);
    }
  }
  return found;
}

// Reads name and processor time of a process from /proc/ID/stat. Returns false if the process that started at
// `started` no longer exists. In the file, the name is in parentheses and may contain any character. Fields
// 14, 15 and 22 are user time, system time and start.
bool read_status(std::int64_t id, std::int64_t started, Process& process) {
  const std::string text = contents("/proc/" + std::to_string(id) + "/stat");
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) {
    return false;
  }
  process.name = text.substr(open + 1, close - open - 1);
  // A process can choose any name. Replace control characters, so that each output line stays one line.
  std::replace_if(
      process.name.begin(), process.name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  std::istringstream fields(text.substr(close + 1));
  std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
  if (words.size() < 20 || words[0] == "Z" || std::strtoll(words[19].c_str(), nullptr, 10) != started) {
    return false;
  }
  process.ticks = std::strtoll(words[11].c_str(), nullptr, 10) + std::strtoll(words[12].c_str(), nullptr, 10);
  return true;
}

std::map<unsigned, std::int64_t> ticks_by_module() {
  std::map<unsigned, std::int64_t> ticks;
  for (const Process& process : processes()) {
    ticks[process.module] += process.ticks;
  }
  return ticks;
}

}  // namespace

std::vector<Process> processes() {
  std::vector<Process> found;
  for (const std::string& folder : folders()) {
    for (const std::string& name : entries(folder)) {
      Record record;
      if (name[0] == '.' || !read_record(folder + "/" + name, record)) {
        continue;
      }
      Process process;
      if (std::memcmp(record.magic, "hpuref1", 8) != 0 || record.module < 0 || record.module >= kModules ||
          record.process <= 0 || !read_status(record.process, record.started, process)) {
        continue;
      }
      process.id = record.process;
      process.module = static_cast<unsigned>(record.module);
      process.limit = record.limit;
      process.in_use = record.in_use;
      process.max_in_use = record.max_in_use;
      found.push_back(process);
    }
  }
  std::sort(found.begin(), found.end(), [](const Process& a, const Process& b) { return a.id < b.id; });
  return found;
}

std::int64_t default_limit() {
  const auto pages = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<std::int64_t>(sysconf(_SC_PAGESIZE)) / 5 * 4;
}

std::vector<unsigned> utilization() {
  using Clock = std::chrono::steady_clock;
  static std::mutex mutex;
  static Clock::time_point measured;
  static std::vector<unsigned> known;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!known.empty() && Clock::now() - measured < std::chrono::seconds(1)) {
    return known;
  }
  const auto before = ticks_by_module();
  const auto start = Clock::now();
  known.assign(kModules, 0);
  if (!before.empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    for (const auto& [module, ticks] : ticks_by_module()) {
      const auto earlier = before.find(module);
      const double used = earlier == before.end() ? 0
                                                  : static_cast<double>(ticks - earlier->second) /
                                                        static_cast<double>(sysconf(_SC_CLK_TCK));
      known[module] = static_cast<unsigned>(std::clamp(100 * used / elapsed.count(), 0.0, 100.0));
    }
  }
  measured = Clock::now();
  return known;
}

}  // namespace hpu_reference::tools
