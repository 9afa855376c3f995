#include "runtime/event.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "runtime/device.h"
#include "runtime/queue.h"
#include "runtime/stream.h"

namespace hpu_reference::runtime {

using Clock = std::chrono::steady_clock;

struct EventState {
  std::atomic<std::uint64_t> recorded{0};
  std::atomic<std::uint64_t> completed{0};
  std::atomic<Clock::rep> time{0};
  std::atomic<int> queue{0};

  void complete(std::uint64_t version) {
    time = Clock::now().time_since_epoch().count();
    // Versions complete in the order of their streams; a late one of another stream must not go back.
    std::uint64_t before = completed;
    while (before < version && !completed.compare_exchange_weak(before, version)) {
    }
  }
};

namespace {

class Record final : public Work {
 public:
  Record(std::shared_ptr<EventState> state, std::uint64_t version)
      : state_(std::move(state)), version_(version) {
  }
  void run() override {
    state_->complete(version_);
  }
  bool computes() const override {
    return false;
  }
  std::string name() const override {
    return "an event";
  }

 private:
  std::shared_ptr<EventState> state_;
  std::uint64_t version_;
};

class Wait final : public Work {
 public:
  Wait(std::shared_ptr<EventState> state, std::uint64_t version)
      : state_(std::move(state)), version_(version) {
  }
  void run() override {
  }
  bool ready() const override {
    return state_->completed >= version_;
  }
  int blocked_by() const override {
    return state_->queue;
  }
  bool computes() const override {
    return false;
  }
  std::string name() const override {
    return "a wait for an event";
  }

 private:
  std::shared_ptr<EventState> state_;
  std::uint64_t version_;
};

}  // namespace

Event::Event() : state_(std::make_shared<EventState>()) {
}

void Event::record(c10::StreamId stream, bool) {
  acquire();
  flush_recorded();
  const std::uint64_t version = ++state_->recorded;
  state_->queue = queue_of(stream);
  if (is_queue_idle(stream)) {
    state_->complete(version);
    if (needs_attention()) {
      notify_queues();
    }
  } else {
    enqueue(stream, std::make_unique<Record>(state_, version));
  }
}

void Event::block(c10::StreamId stream) const {
  const std::uint64_t version = state_->recorded;
  if (state_->completed >= version) {
    return;
  }
  flush_recorded();
  if (is_pipeline_enabled() && !is_sync_debug_mode()) {
    enqueue(stream, std::make_unique<Wait>(state_, version));
  } else {
    synchronize();
  }
}

bool Event::query() const {
  flush_recorded();
  return state_->completed >= state_->recorded;
}

void Event::synchronize() const {
  flush_recorded();
  const std::uint64_t version = state_->recorded;
  const auto done = [&] { return state_->completed >= version; };
  if (!done()) {
    help_until(state_->queue, done);
  }
  if (version > 0) {
    surface_error(state_->queue);
  }
}

bool Event::recorded() const {
  return state_->recorded > 0;
}

double Event::since(const Event& start) const {
  TORCH_CHECK(recorded() && start.recorded(),
              "Both events must be recorded before calculating elapsed time.");
  TORCH_CHECK(query() && start.query(),
              "Both events must be completed before calculating elapsed time; synchronize() them first");
  const Clock::duration elapsed(state_->time - start.state_->time);
  return std::chrono::duration<double, std::milli>(elapsed).count();
}

}  // namespace hpu_reference::runtime
