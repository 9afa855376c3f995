// Captures in progress: which streams and threads each of them records. Several may run at once.
#pragma once

#include <c10/core/Stream.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace hpu_reference::runtime {

// One capture in progress. It holds the work that is issued on the stream on which it began, and on streams
// that have waited for an event of one of its streams since. The recorder derives from it.
class CaptureScope {
 public:
  // The calling thread's current stream is the first. `this_thread`: work of other threads is not part of it,
  // on whatever stream.
  explicit CaptureScope(bool this_thread);
  virtual ~CaptureScope() = default;
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

  // True if work that the calling thread issues on the stream is part of the capture.
  bool holds(c10::StreamId stream) const;
  // True if the stream is part of the capture.
  bool has_stream(c10::StreamId stream) const;
  // Makes the stream part of the capture.
  void join(c10::StreamId stream);
  // True if it records one thread only.
  bool is_bound_to_thread() const {
    return this_thread_;
  }

 private:
  const std::thread::id thread_;
  const bool this_thread_;
  mutable std::mutex mutex_;
  std::vector<c10::StreamId> streams_;
};

// Registers the capture; throws if work of the calling thread on its stream is part of another one already.
void begin_capture(std::shared_ptr<CaptureScope> scope);
// Removes the capture; work issued from now on is not part of it.
void end_capture(const CaptureScope* scope);
// True from begin_capture() to end_capture().
bool is_in_progress(const CaptureScope* scope);

// The capture that work of the calling thread on the stream is part of, or nullptr. Cheap if nothing is
// captured.
std::shared_ptr<CaptureScope> capture_of(c10::StreamId stream);
// The same for the calling thread's current stream; nullptr on a thread that must run its calls at once.
std::shared_ptr<CaptureScope> capture_here();
// True if work of the calling thread on its current stream is part of a capture.
bool is_capturing();

}  // namespace hpu_reference::runtime
