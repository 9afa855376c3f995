// A log file to which several processes append whole lines, and which is rotated when it is full.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/lock_order.h"

namespace hpu_reference::runtime {

class LogFile {
 public:
  // The file is opened when the first line is appended.
  //   bytes: size at which the file is renamed to NAME.1.txt, NAME.1.txt to NAME.2.txt and so on.
  //   files: number of files to keep, including the current file.
  LogFile(std::string path, std::int64_t bytes, int files);

  // Appends the text. Returns 0 or the errno of the failure. If the file could not be opened, later calls do
  // not try again.
  int append(std::string_view text);

  const std::string& path() const {
    return path_;
  }

 private:
  class Handle;

  std::shared_ptr<Handle> handle(int& error);
  void rotate(const std::shared_ptr<Handle>& full);
  std::string rotated_path(int number) const;

  const std::string path_;
  const std::int64_t bytes_;
  const int files_;
  RankedMutex<LockRank::Leaf> mutex_;
  std::shared_ptr<Handle> handle_;
  int open_error_ = 0;  // errno of the first attempt to open the file
};

// A pipe, terminal or file that was already open. Its reader may have been stopped, or may be a thread of
// this process that waits for a lock of the writer (the GIL). Writers therefore wait only briefly.
class Console {
 public:
  explicit Console(int file) : file_(file) {
  }
  // Appends the text. Text that the reader does not accept within a second is dropped. Later lines are
  // dropped at once until the reader accepts data again. Returns 0 or the errno of the failure.
  int append(std::string_view text);

 private:
  const int file_;
  std::atomic<bool> stalled_{false};
  std::atomic<bool> line_cut_{false};  // the last line was cut and has no line break
};

// Writes the whole text to an open file. Returns 0 or the errno of the failure.
int write_all(int file, std::string_view text);

}  // namespace hpu_reference::runtime
