// Work that holds a stream back, for tests.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <memory>

namespace hpu_reference::runtime {

class Work;

// Makes a pause.
std::unique_ptr<Work> make_delay(double seconds);
// Queues a pause. For tests.
void enqueue_delay(c10::StreamId id, double seconds);
// Work that holds its stream back until the host opens it. For tests.
class Gate {
 public:
  // Puts the gate into the stream.
  void enqueue(c10::StreamId id);
  // Lets the stream go on.
  void open();

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace hpu_reference::runtime
