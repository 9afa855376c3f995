// Events: marks in the work of a stream. Each record() makes a new mark; the other methods refer to the
// latest mark.
#pragma once

#include <c10/core/Stream.h>

#include <chrono>
#include <memory>

namespace hpu_reference::runtime {

// The mark of one record() call.
struct EventMark;

// A torch event. Several threads may call its methods.
class Event {
 public:
  // Marks the end of the work that the stream contains now. The mark is complete at once if the stream has no
  // work.
  void record(c10::StreamId stream);
  // Makes later work of the stream wait for the event. Adds the stream to the capture that recorded the
  // event's stream. Has no effect if the event was never recorded.
  void block(c10::StreamId stream) const;
  // Returns true if the latest mark is complete or the event was never recorded.
  bool query() const;
  // Waits for the latest mark and throws any error of work on the stream of the mark.
  void synchronize() const;
  // Returns the milliseconds from `start` to this event. Throws if one of the two events is not recorded or
  // not complete.
  double elapsed_since(const Event& start) const;

 private:
  std::shared_ptr<EventMark> latest_;  // accessed atomically: several threads may record and wait
};

}  // namespace hpu_reference::runtime
