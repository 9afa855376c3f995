#include "runtime/event.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "runtime/capture_scope.h"
#include "runtime/device.h"
#include "runtime/queue.h"
#include "runtime/stream.h"
#include "runtime/vector_clock.h"

namespace hpu_reference::runtime {

using Clock = std::chrono::steady_clock;

// The mark of one record() call. A waiter waits for the mark that was the latest when the wait began.
struct EventMark {
  explicit EventMark(c10::StreamId stream)
      : queue(queue_of(stream)), capture(capture_of(stream)), clock(clock_of(queue_of(stream))) {
  }
  const int queue;
  const std::weak_ptr<CaptureScope> capture;  // the capture that recorded the stream, if any
  const VectorClock clock;  // work that happens before the mark, if vector clocks are enabled
  std::atomic<Clock::rep> time{0};
  std::atomic<bool> done{false};

  void complete() {
    time = Clock::now().time_since_epoch().count();
    done.store(true, std::memory_order_release);
  }
};

namespace {

const std::string kName = "an event";

class Record final : public Work {
 public:
  explicit Record(std::shared_ptr<EventMark> mark) : mark_(std::move(mark)) {
  }
  void run() override {
    mark_->complete();
  }
  bool uses_intraop_threads() const override {
    return false;
  }
  std::string name() const override {
    return kName;
  }
  TraceKind trace_kind() const override {
    return TraceKind::Event;
  }

 private:
  std::shared_ptr<EventMark> mark_;
};

class Wait final : public Work {
 public:
  explicit Wait(std::shared_ptr<EventMark> mark) : mark_(std::move(mark)) {
  }
  void run() override {
  }
  bool is_ready() const override {
    return mark_->done.load(std::memory_order_acquire);
  }
  int blocked_by() const override {
    return mark_->queue;
  }
  bool uses_intraop_threads() const override {
    return false;
  }
  std::string name() const override {
    return "a wait for an event";
  }
  TraceKind trace_kind() const override {
    return TraceKind::Wait;
  }

 private:
  std::shared_ptr<EventMark> mark_;
};

bool is_done(const std::shared_ptr<EventMark>& mark) {
  return mark == nullptr || mark->done.load(std::memory_order_acquire);
}

}  // namespace

void Event::record(c10::StreamId stream) {
  acquire();
  flush_recorded();
  auto mark = std::make_shared<EventMark>(stream);
  if (is_queue_idle(stream)) {
    // Complete the mark before it is published: the stream has no work whose end would wake a thread that
    // waits for the mark.
    mark->complete();
    if (is_tracing()) {
      add_trace_row(TraceKind::Event, kName, queue_of(stream), 0);
    }
    std::atomic_store(&latest_, std::move(mark));
  } else {
    // Enqueue the mark before it is published. Otherwise a wait for the mark could precede the mark in the
    // same queue and block the queue forever.
    enqueue(stream, std::make_unique<Record>(mark));
    std::atomic_store(&latest_, std::move(mark));
  }
}

void Event::block(c10::StreamId stream) const {
  std::shared_ptr<EventMark> mark = std::atomic_load(&latest_);
  if (mark != nullptr) {
    if (const auto capture = mark->capture.lock(); capture != nullptr && is_in_progress(capture.get())) {
      const auto stream_capture = capture_of(stream);
      TORCH_CHECK(stream_capture == nullptr || stream_capture == capture,
                  "stream ",
                  stream,
                  " is part of a capture and cannot wait for an event of another capture; end one of the "
                  "captures first");
      capture->join(stream);
    }
    order_queue_after(queue_of(stream), mark->clock);
  }
  if (is_done(mark)) {
    return;
  }
  flush_recorded();
  if (is_pipeline_enabled() && !is_sync_debug_mode()) {
    enqueue(stream, std::make_unique<Wait>(std::move(mark)));
  } else {
    help_until(mark->queue, [&] { return is_done(mark); });
  }
}

bool Event::query() const {
  flush_recorded();
  const std::shared_ptr<EventMark> mark = std::atomic_load(&latest_);
  const bool done = is_done(mark);
  if (done && mark != nullptr) {
    order_host_after(mark->clock);
  }
  return done;
}

void Event::synchronize() const {
  flush_recorded();
  const std::shared_ptr<EventMark> mark = std::atomic_load(&latest_);
  if (mark == nullptr) {
    return;
  }
  if (!is_done(mark)) {
    help_until(mark->queue, [&] { return is_done(mark); });
  }
  order_host_after(mark->clock);
  release_finished_work();
  throw_queue_error(mark->queue);
}

double Event::elapsed_since(const Event& start) const {
  const std::shared_ptr<EventMark> end_mark = std::atomic_load(&latest_);
  const std::shared_ptr<EventMark> start_mark = std::atomic_load(&start.latest_);
  TORCH_CHECK(end_mark != nullptr && start_mark != nullptr,
              "Both events must be recorded before calculating elapsed time.");
  TORCH_CHECK(is_done(end_mark) && is_done(start_mark),
              "Both events must be completed before calculating elapsed time; synchronize() them first");
  const Clock::duration elapsed(end_mark->time - start_mark->time);
  return std::chrono::duration<double, std::milli>(elapsed).count();
}

}  // namespace hpu_reference::runtime
