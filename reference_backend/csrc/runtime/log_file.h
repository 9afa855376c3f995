// A file that several processes append whole lines to, and that is set aside when it is full.
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
  // Nothing is opened before the first line.
  //   bytes: from which on the file becomes NAME.1.txt, that one NAME.2.txt and so on.
  //   files: that are kept, the one that is written to included.
  LogFile(std::string path, std::int64_t bytes, int files);

  // Appends. Returns 0, or the number of the system's error. A file that could not be opened is not tried
  // again.
  int append(std::string_view text);

  const std::string& path() const {
    return path_;
  }

 private:
  class Handle;

  std::shared_ptr<Handle> handle(int& error);
  void set_aside(const std::shared_ptr<Handle>& full);
  std::string older(int number) const;

  const std::string path_;
  const std::int64_t bytes_;
  const int files_;
  RankedMutex<LockRank::Leaf> mutex_;
  std::shared_ptr<Handle> handle_;
  int refused_ = 0;  // error of the first attempt to open it
};

// A pipe, terminal or file that was open already. Its reader may be a thread of this process, which waits for
// what the writer has (the interpreter's lock), or may have been stopped: nothing waits for it for long.
class Console {
 public:
  explicit Console(int file) : file_(file) {
  }
  // Appends; what is not taken within a second is dropped, and later lines at once until it takes some again.
  // Returns 0, or the number of the system's error.
  int append(std::string_view text);

 private:
  const int file_;
  std::atomic<bool> stalled_{false};
  std::atomic<bool> cut_{false};  // the last line has no end
};

// Writes all of the text to an open file. Returns 0, or the number of the system's error.
int write_all(int file, std::string_view text);

}  // namespace hpu_reference::runtime
