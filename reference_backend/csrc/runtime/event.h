// Events: marks in a stream's work. Each record() makes a new mark; waiting and asking are about the one that
// was made last before.
#pragma once

#include <c10/core/Stream.h>

#include <chrono>
#include <memory>

namespace hpu_reference::runtime {

struct EventMark;

class Event {
 public:
  // Behind the work that is in the stream now; complete at once where there is none.
  void record(c10::StreamId stream);
  // Later work of the stream runs after the event. Never recorded: no effect.
  void block(c10::StreamId stream) const;
  bool query() const;
  // Waits, and throws an error that its stream's work has met.
  void synchronize() const;
  // Milliseconds from `start` to this event; throws where one of them is not recorded or not complete.
  double since(const Event& start) const;

 private:
  std::shared_ptr<EventMark> latest_;  // accessed atomically: several threads may record and wait
};

}  // namespace hpu_reference::runtime
