#include "runtime/stream_gate.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <string>

#include "runtime/queue.h"

namespace hpu_reference::runtime {

namespace {

class Delay final : public Work {
 public:
  explicit Delay(double seconds) : seconds_(seconds) {
  }
  void run() override {
    wait_until([] { return false; }, std::chrono::microseconds(static_cast<std::int64_t>(seconds_ * 1e6)));
  }
  bool uses_intraop_threads() const override {
    return false;
  }
  std::string name() const override {
    return "a delay";
  }
  TraceKind trace_kind() const override {
    return TraceKind::Wait;
  }

 private:
  double seconds_;
};

class StreamGateWork final : public Work {
 public:
  explicit StreamGateWork(std::shared_ptr<std::atomic<bool>> open) : open_(std::move(open)) {
  }
  void run() override {
  }
  bool is_ready() const override {
    return *open_;
  }
  bool uses_intraop_threads() const override {
    return false;
  }
  std::string name() const override {
    return "a gate";
  }
  TraceKind trace_kind() const override {
    return TraceKind::Wait;
  }

 private:
  std::shared_ptr<std::atomic<bool>> open_;
};

}  // namespace

std::unique_ptr<Work> make_delay(double seconds) {
  return std::make_unique<Delay>(seconds);
}

void enqueue_delay(c10::StreamId id, double seconds) {
  TORCH_CHECK(seconds >= 0, "a delay of ", seconds, " seconds is negative; give 0 or more");
  enqueue(id, make_delay(seconds));
}

void StreamGate::enqueue(c10::StreamId id) {
  runtime::enqueue(id, std::make_unique<StreamGateWork>(open_));
}

void StreamGate::open() {
  *open_ = true;
  notify_queues();
}

}  // namespace hpu_reference::runtime
