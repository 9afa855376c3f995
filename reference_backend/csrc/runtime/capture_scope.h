// Captures in progress and the streams and threads that each capture records. Several captures may run at
// once.
#pragma once

#include <c10/core/Stream.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace hpu_reference::runtime {

// A capture in progress. It records the work issued on the stream on which the capture began, and on streams
// that have since waited for an event of a captured stream. The capture recorder derives from this class.
class CaptureScope {
 public:
  // Begins a capture of the calling thread's current stream. If `this_thread` is true, the capture ignores
  // work of other threads on every stream.
  explicit CaptureScope(bool this_thread);
  virtual ~CaptureScope() = default;
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

  // Returns true if the capture records work that the calling thread issues on the stream.
  bool captures_work_on(c10::StreamId stream) const;
  bool has_stream(c10::StreamId stream) const;
  // Adds the stream to the capture.
  void join(c10::StreamId stream);
  bool is_bound_to_thread() const {
    return this_thread_;
  }

 private:
  const std::thread::id thread_;
  const bool this_thread_;
  mutable std::mutex mutex_;
  std::vector<c10::StreamId> streams_;
};

// Registers the capture. Throws if another capture already records the calling thread's work on its stream.
void begin_capture(std::shared_ptr<CaptureScope> scope);
// Removes the capture. It does not record work that is issued after this call.
void end_capture(const CaptureScope* scope);
// Returns true between begin_capture() and end_capture().
bool is_in_progress(const CaptureScope* scope);

// Returns the capture that records the calling thread's work on the stream, or nullptr. Cheap if no capture
// is in progress.
std::shared_ptr<CaptureScope> capture_of(c10::StreamId stream);
// Returns the capture that records the calling thread's work on its current stream. Returns nullptr on a
// thread that must run its calls at once.
std::shared_ptr<CaptureScope> current_capture();
// Returns true if a capture records the calling thread's work on its current stream.
bool is_capturing();

}  // namespace hpu_reference::runtime
