// What makes it safe for the host to touch the device's data: earlier work is finished, and no graph is being
// captured that could not repeat what the host does.
#pragma once

namespace hpu_reference::runtime {

// Whether a graph is being captured, by any thread.
bool is_capturing();
void set_capturing(bool on);

// Runs this thread's calls inline while one lives, whatever is recorded or queued.
class InlineScope {
 public:
  InlineScope();
  ~InlineScope();
  InlineScope(const InlineScope&) = delete;
  InlineScope& operator=(const InlineScope&) = delete;

 private:
  bool before_;
};

// Whether this thread's calls must run at once: it is in an InlineScope or runs queued work.
bool runs_inline();

// Makes host access to device data safe on this thread: launches what is recorded and waits for the current
// stream. With `surface`, throws the error that the stream's work has met. Throws during a capture.
void wait_for_earlier_work(bool surface);

}  // namespace hpu_reference::runtime
