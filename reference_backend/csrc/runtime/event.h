// Events: marks in a stream's work. Each record() makes a new mark; the other methods refer to the latest
// one.
#pragma once

#include <c10/core/Stream.h>

#include <chrono>
#include <memory>

namespace hpu_reference::runtime {

// One record() of an event.
struct EventMark;

// An event of torch; methods may be called from several threads.
class Event {
 public:
  // Marks the end of the work that is in the stream now; the mark is complete at once if there is none.
  void record(c10::StreamId stream);
  // Lets later work of the stream run after the event, and makes the stream part of the capture that the
  // event's stream was part of. No effect if it was never recorded.
  void block(c10::StreamId stream) const;
  // True if the latest mark is complete, or there is none.
  bool query() const;
  // Waits for the mark, and throws the error that its stream's work has met.
  void synchronize() const;
  // Milliseconds from `start` to this event; throws if one of them is not recorded or not complete.
  double since(const Event& start) const;

 private:
  std::shared_ptr<EventMark> latest_;  // accessed atomically: several threads may record and wait
};

}  // namespace hpu_reference::runtime
