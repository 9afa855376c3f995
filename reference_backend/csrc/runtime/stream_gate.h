// Work that blocks a stream, for tests.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <memory>

namespace hpu_reference::runtime {

class Work;

// Creates work that sleeps for `seconds`.
std::unique_ptr<Work> make_delay(double seconds);
// Queues work that sleeps for `seconds`. For tests.
void enqueue_delay(c10::StreamId id, double seconds);
// Work that blocks its stream until the host opens the gate. For tests.
class StreamGate {
 public:
  // Appends the gate to the stream's queue.
  void enqueue(c10::StreamId id);
  // Lets the stream continue.
  void open();

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace hpu_reference::runtime
