#include "memory/shared_statistics.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace hpu_reference::memory {

namespace {

std::string& path_of_record() {
  static auto* value = new std::string();
  return *value;
}
pid_t g_record_owner = 0;

// Removes the file. A forked child must not remove its parent's file.
void remove_record() {
  if (getpid() == g_record_owner) {
    unlink(path_of_record().c_str());
  }
}

// Returns the start time of the process: field 22 of its stat file. Fields are counted from the end of the
// process name (field 2), because the name may contain blanks.
std::int64_t start_of_process() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) {
    return 0;
  }
  std::istringstream fields(text.substr(end + 1));
  std::string item;
  for (int field = 0; field < 20; field++) {
    fields >> item;
  }
  return std::strtoll(item.c_str(), nullptr, 10);
}

std::int64_t integer_variable(const char* name, std::int64_t default_value) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') {
    return default_value;
  }
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  return *end == '\0' && value >= 0 ? value : default_value;
}

// Returns the module that the environment names, otherwise the visible module of the local rank.
std::int64_t own_module_id() {
  if (const std::int64_t named = integer_variable("HLS_MODULE_ID", -1); named >= 0) {
    return named;
  }
  const auto rank = static_cast<std::size_t>(integer_variable("LOCAL_RANK", 0));
  const char* text = std::getenv("HABANA_VISIBLE_MODULES");
  std::vector<std::int64_t> modules;
  std::istringstream items(text == nullptr ? "" : text);
  for (std::string item; std::getline(items, item, ',');) {
    char* end = nullptr;
    const long long module = std::strtoll(item.c_str(), &end, 10);
    if (end != item.c_str()) {
      modules.push_back(module);
    }
  }
  return modules.empty() ? static_cast<std::int64_t>(rank % 8) : modules[rank % modules.size()];
}

std::string statistics_folder() {
  if (const char* configured_folder = std::getenv("HPU_REFERENCE_STATE_DIR");
      configured_folder != nullptr && *configured_folder != '\0') {
    return configured_folder;
  }
  return "/dev/shm/hpu-reference." + std::to_string(getuid());
}

// Removes the records of killed processes.
void remove_records_of_dead_processes(int directory) {
  DIR* entries = fdopendir(dup(directory));
  if (entries == nullptr) {
    return;
  }
  while (const dirent* entry = readdir(entries)) {
    char* end = nullptr;
    const long process = std::strtol(entry->d_name, &end, 10);
    if (*end == '\0' && process > 0 && kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) {
      unlinkat(directory, entry->d_name, 0);
    }
  }
  closedir(entries);
}

void* map_record() {
  const std::string directory = statistics_folder();
  mkdir(directory.c_str(), 0755);
  const int opened = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status = {};
  if (opened < 0 || fstat(opened, &status) != 0 || status.st_uid != getuid()) {
    if (opened >= 0) {
      close(opened);
    }
    return MAP_FAILED;
  }
  remove_records_of_dead_processes(opened);
  const std::string name = std::to_string(getpid());
  unlinkat(opened, name.c_str(), 0);
  const int file = openat(opened, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  close(opened);
  if (file < 0) {
    return MAP_FAILED;
  }
  path_of_record() = directory + "/" + name;
  void* mapped = MAP_FAILED;
  // Reserve the space now, so that a full file system is an error here and not a signal later.
  if (posix_fallocate(file, 0, sizeof(SharedStatistics)) == 0) {
    mapped = mmap(nullptr, sizeof(SharedStatistics), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (mapped == MAP_FAILED) {
    unlink(path_of_record().c_str());
  }
  return mapped;
}

}  // namespace

SharedStatistics* create_shared_statistics() {
  void* mapped = map_record();
  if (mapped == MAP_FAILED) {
    return new SharedStatistics();
  }
  auto* record = static_cast<SharedStatistics*>(mapped);
  record->process = getpid();
  record->started = start_of_process();
  record->module = own_module_id();
  std::memcpy(record->magic, "hpuref1", sizeof(record->magic));
  g_record_owner = getpid();
  std::atexit(&remove_record);
  return record;
}

}  // namespace hpu_reference::memory
