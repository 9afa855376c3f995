#include "runtime/log_file.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace hpu_reference::runtime {

class LogFile::Handle {
 public:
  explicit Handle(int file) : file(file) {
  }
  ~Handle() {
    ::close(file);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const int file;
};

namespace {

// Moves an open file to a number above the standard files. Returns its new number, or -1.
int duplicate_above(int file) {
  const int moved = ::fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(file);
  errno = error;
  return moved;
}

}  // namespace

int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
  return 0;
}

int Console::append(std::string_view text) {
  constexpr int kWriteTimeout = 1000;  // milliseconds
  std::string whole;
  if (line_cut_.exchange(false)) {
    whole = "\n" + std::string(text);
    text = whole;
  }
  const std::size_t size = text.size();
  while (!text.empty()) {
    pollfd state{file_, POLLOUT, 0};
    const int ready = ::poll(&state, 1, stalled_.load() ? 0 : kWriteTimeout);
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      stalled_ = true;
      line_cut_ = text.size() != size;
      return ready < 0 ? errno : EAGAIN;
    }
    stalled_ = false;
    // A pipe that is ready accepts at least PIPE_BUF bytes without blocking.
    const ssize_t written = ::write(file_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno != EINTR && errno != EAGAIN) {
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
  return 0;
}

LogFile::LogFile(std::string path, std::int64_t bytes, int files)
    : path_(std::move(path)), bytes_(std::max<std::int64_t>(bytes, 1)), files_(std::max(files, 1)) {
}

std::shared_ptr<LogFile::Handle> LogFile::handle(int& error) {
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr && open_error_ == 0) {
    std::error_code failed;
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), failed);
    // With O_NONBLOCK, open() fails for a pipe without a reader instead of waiting for a reader.
    int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
    // If the program has closed a standard file, the log must not get its number: the program's output to
    // this number would go into the log.
    if (file >= 0 && file <= STDERR_FILENO) {
      file = duplicate_above(file);
    }
    if (file >= 0) {
      handle_ = std::make_shared<Handle>(file);
    } else {
      open_error_ = failed ? failed.value() : errno;
    }
  }
  error = open_error_;
  return handle_;
}

int LogFile::append(std::string_view text) {
  int error = 0;
  const std::shared_ptr<Handle> open = handle(error);
  if (open == nullptr) {
    return error;
  }
  // One call with O_APPEND keeps lines of several processes separate. The lock is not held, because the call
  // may take long.
  error = write_all(open->file, text);
  struct stat state{};
  if (error == 0 && ::fstat(open->file, &state) == 0 && S_ISREG(state.st_mode) && state.st_size >= bytes_) {
    rotate(open);
  }
  return error;
}

std::string LogFile::rotated_path(int number) const {
  const std::filesystem::path path(path_);
  const std::string name = path.stem().string() + "." + std::to_string(number) + path.extension().string();
  return (path.parent_path() / name).string();
}

// Renames each file to the next number and opens a new file, unless another thread or process has done so.
void LogFile::rotate(const std::shared_ptr<Handle>& full) {
  const std::lock_guard lock(mutex_);
  if (handle_ != full) {
    return;
  }
  // The file lock allows only one process at a time to rotate the file.
  if (::flock(full->file, LOCK_EX | LOCK_NB) != 0) {
    return;  // the process that holds the file lock rotates the file; the next line notices the rotation
  }
  struct stat open{};
  struct stat named{};
  const bool current = ::fstat(full->file, &open) == 0 && ::stat(path_.c_str(), &named) == 0 &&
                       open.st_ino == named.st_ino && open.st_dev == named.st_dev;
  if (current) {
    for (int i = files_ - 1; i > 1; i--) {
      std::rename(rotated_path(i - 1).c_str(), rotated_path(i).c_str());
    }
    if (files_ > 1) {
      std::rename(path_.c_str(), rotated_path(1).c_str());
    } else {
      ::unlink(path_.c_str());
    }
  }
  ::flock(full->file, LOCK_UN);
  handle_ = nullptr;
}

}  // namespace hpu_reference::runtime
