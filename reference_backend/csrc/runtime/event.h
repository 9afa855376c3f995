// Events: marks in a stream's work. Each record() is a new version; waiting and asking are about the version
// that was recorded last at that moment.
#pragma once

#include <c10/core/Stream.h>

#include <chrono>
#include <cstdint>
#include <memory>

namespace hpu_reference::runtime {

struct EventState;

class Event {
 public:
  Event();

  // Behind the work that is in the stream now; complete at once where there is none.
  void record(c10::StreamId stream, bool timing);
  // Later work of the stream runs after the event. Never recorded: no effect.
  void block(c10::StreamId stream) const;
  bool query() const;
  void synchronize() const;
  bool recorded() const;
  // Milliseconds from `start` to this event; throws where one of them is not recorded or not complete.
  double since(const Event& start) const;

 private:
  std::shared_ptr<EventState> state_;
};

}  // namespace hpu_reference::runtime
