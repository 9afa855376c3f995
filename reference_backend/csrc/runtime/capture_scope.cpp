#include "runtime/capture_scope.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>

#include "runtime/queue.h"
#include "runtime/stream.h"

namespace hpu_reference::runtime {

namespace {

// Never destroyed: the destruction of a tensor at exit may look up captures.
struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<CaptureScope>> scopes;
  std::atomic<int> count{0};
};

Registry& registry() {
  static auto* value = new Registry();
  return *value;
}

}  // namespace

CaptureScope::CaptureScope(bool this_thread)
    : thread_(std::this_thread::get_id()), this_thread_(this_thread), streams_{current_stream_id()} {
}

bool CaptureScope::has_stream(c10::StreamId stream) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::find(streams_.begin(), streams_.end(), stream) != streams_.end();
}

bool CaptureScope::captures_work_on(c10::StreamId stream) const {
  return (!this_thread_ || thread_ == std::this_thread::get_id()) && has_stream(stream);
}

void CaptureScope::join(c10::StreamId stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) {
    streams_.push_back(stream);
  }
}

void begin_capture(std::shared_ptr<CaptureScope> scope) {
  Registry& self = registry();
  const c10::StreamId stream = current_stream_id();
  const std::lock_guard<std::mutex> lock(self.mutex);
  for (const auto& capture : self.scopes) {
    TORCH_CHECK(!capture->captures_work_on(stream), "GRAPH:: graph Capture already in progress");
  }
  // Put captures that are bound to one thread first, so that a lookup finds them first: a capture of all
  // threads may record the same stream.
  const auto at = scope->is_bound_to_thread() ? self.scopes.begin() : self.scopes.end();
  self.scopes.insert(at, std::move(scope));
  self.count.fetch_add(1, std::memory_order_release);
  g_pending_work.fetch_add(1, std::memory_order_release);
}

void end_capture(const CaptureScope* scope) {
  Registry& self = registry();
  std::shared_ptr<CaptureScope> ended;  // may hold the last reference: destroyed after the lock
  const std::lock_guard<std::mutex> lock(self.mutex);
  const auto position = std::find_if(
      self.scopes.begin(), self.scopes.end(), [&](const auto& capture) { return capture.get() == scope; });
  if (position != self.scopes.end()) {
    ended = std::move(*position);
    self.scopes.erase(position);
    self.count.fetch_sub(1, std::memory_order_release);
    g_pending_work.fetch_sub(1, std::memory_order_release);
  }
}

bool is_in_progress(const CaptureScope* scope) {
  Registry& self = registry();
  const std::lock_guard<std::mutex> lock(self.mutex);
  return std::any_of(
      self.scopes.begin(), self.scopes.end(), [&](const auto& capture) { return capture.get() == scope; });
}

std::shared_ptr<CaptureScope> capture_of(c10::StreamId stream) {
  Registry& self = registry();
  if (C10_LIKELY(self.count.load(std::memory_order_acquire) == 0)) {
    return nullptr;
  }
  const std::lock_guard<std::mutex> lock(self.mutex);
  for (const auto& scope : self.scopes) {
    if (scope->captures_work_on(stream)) {
      return scope;
    }
  }
  return nullptr;
}

std::shared_ptr<CaptureScope> current_capture() {
  return is_running_work() ? nullptr : capture_of(current_stream_id());
}

bool is_capturing() {
  return current_capture() != nullptr;
}

}  // namespace hpu_reference::runtime
