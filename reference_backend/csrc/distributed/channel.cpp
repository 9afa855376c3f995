#include "distributed/channel.h"

#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>

#include "memory/access_set.h"
#include "memory/allocator.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/gil.h"
#include "runtime/queue.h"
#include "runtime/stream.h"
#include "runtime/vector_clock.h"

namespace hpu_reference::distributed {

class TransferWork final : public runtime::Work {
 public:
  TransferWork(std::shared_ptr<Transfer> transfer, std::function<void()> run)
      : transfer_(std::move(transfer)), run_(std::move(run)) {
  }
  void run() override {
    std::exception_ptr error;
    transfer_->begin();
    try {
      runtime::TraceSpan span(runtime::TraceKind::Collective, transfer_->name_);
      span.add_bytes(transfer_->bytes_);
      run_();
    } catch (...) {
      error = std::current_exception();
    }
    transfer_->complete(std::move(error));
  }
  bool uses_intraop_threads() const override {
    return false;
  }
  // `run` may hold the last reference to a process group, so a host thread must destroy this object.
  bool must_be_destroyed_on_host() const override {
    return true;
  }
  std::string name() const override {
    return transfer_->name_;
  }

 private:
  std::shared_ptr<Transfer> transfer_;
  std::function<void()> run_;
};

class TransferWait final : public runtime::Work {
 public:
  TransferWait(std::shared_ptr<const Transfer> transfer, c10::StreamId stream)
      : transfer_(std::move(transfer)), stream_(stream) {
  }
  void run() override {
    // If the waiting stream shares the queue of the stream that issued the transfer, the queue already has
    // the error.
    if (transfer_->error_ != nullptr &&
        runtime::queue_of(stream_) != runtime::queue_of(transfer_->issued_on_)) {
      std::rethrow_exception(transfer_->error_);
    }
  }
  bool is_ready() const override {
    return transfer_->is_done();
  }
  int blocked_by() const override {
    return runtime::queue_of(transfer_->runs_on_);
  }
  bool uses_intraop_threads() const override {
    return false;
  }
  std::string name() const override {
    return "a wait for " + transfer_->name_;
  }
  runtime::TraceKind trace_kind() const override {
    return runtime::TraceKind::Wait;
  }

 private:
  std::shared_ptr<const Transfer> transfer_;
  c10::StreamId stream_;
};

namespace {
std::atomic<std::uint64_t> g_failures{0};
}  // namespace

std::uint64_t Transfer::failures() {
  return g_failures;
}

void Transfer::begin() {
  started_ = c10::getTime();
}

Transfer::Transfer(std::string name, c10::StreamId issued_on, c10::StreamId runs_on)
    : name_(std::move(name)), issued_on_(issued_on), runs_on_(runs_on) {
}

// Stores the error for the stream that issued the collective: the stream's next synchronization throws it, on
// any thread.
void Transfer::complete(std::exception_ptr error) {
  error_ = error;
  completed_ = c10::getTime();
  g_failures += error != nullptr ? 1 : 0;
  if (error != nullptr) {
    runtime::store_error(runtime::queue_of(issued_on_), std::move(error), name_);
  }
  done_.store(true, std::memory_order_release);
}

std::exception_ptr Transfer::error() const {
  return is_done() ? error_ : nullptr;
}

void Transfer::rethrow() const {
  if (error_ != nullptr) {
    // The queue then does not throw the error again.
    runtime::throw_queue_error(runtime::queue_of(issued_on_));
    std::rethrow_exception(error_);
  }
}

void Transfer::block_current_stream() const {
  runtime::order_queue_after(runtime::queue_of(runtime::current_stream_id()), clock_);
  if (is_done()) {
    rethrow();
    return;
  }
  if (!runtime::is_pipeline_enabled() || runtime::is_sync_debug_mode()) {
    finish(std::chrono::milliseconds(0));
    return;
  }
  runtime::flush_recorded();
  const c10::StreamId stream = runtime::current_stream_id();
  runtime::enqueue(stream, std::make_unique<TransferWait>(shared_from_this(), stream));
}

bool Transfer::finish(std::chrono::milliseconds timeout) const {
  runtime::flush_recorded();
  const int queue = runtime::queue_of(runs_on_);
  if (timeout.count() == 0) {
    runtime::help_until(queue, [this] { return is_done(); });
  } else if (!runtime::wait_until([this] { return is_done(); }, timeout)) {
    return false;
  }
  runtime::order_host_after(clock_);
  runtime::release_finished_work();
  if (is_done()) {
    rethrow();
  }
  return true;
}

Channel::Channel() : stream_(runtime::acquire_exclusive_stream()) {
}

Channel::~Channel() {
  runtime::release_exclusive_stream(stream_);
}

// Returns true if a transfer that accesses this memory, issued now on the calling thread, need not wait for
// earlier work.
bool Channel::may_run_now(const memory::AccessSet& access_set) const {
  return !runtime::is_queue_all() && !runtime::are_vector_clocks_enabled() &&
         runtime::is_queue_idle(runtime::current_stream_id()) && runtime::is_queue_idle(stream_) &&
         !(runtime::is_work_pending() && access_set.has_conflicts(stream_));
}

// Runs the attempt on the calling thread and returns its result. If the result is true, adds a trace row on
// the channel's stream.
bool Channel::try_transfer_now(const Transfer& transfer, const std::function<bool()>& try_at_once) const {
  const std::uint64_t start = runtime::is_tracing() ? runtime::trace_clock() : 0;
  if (!try_at_once()) {
    return false;
  }
  if (start != 0) {
    runtime::add_trace_row(
        runtime::TraceKind::Collective, transfer.name_, runtime::queue_of(stream_), start, transfer.bytes_);
  }
  return true;
}

std::shared_ptr<Transfer> Channel::issue(std::string name,
                                         const std::vector<at::Tensor>& used,
                                         const std::vector<at::Tensor>& written,
                                         std::function<void()> run,
                                         const std::function<bool()>& try_at_once) {
  runtime::acquire();
  runtime::flush_recorded();
  runtime::release_finished_work();
  const c10::StreamId current = runtime::current_stream_id();
  auto transfer = std::make_shared<Transfer>(std::move(name), current, stream_);
  memory::AccessSet access_set;
  for (const std::vector<at::Tensor>* tensors : {&used, &written}) {
    for (const at::Tensor& tensor : *tensors) {
      const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
      memory::mark_used_later(storage);
      access_set.add(storage, /*written=*/tensors == &written);
      transfer->bytes_ += tensors == &used ? tensor.nbytes() : 0;
    }
  }
  if (try_at_once && may_run_now(access_set)) {
    const runtime::GilRelease unlocked;
    const std::lock_guard<std::mutex> lock(order_);
    if (runtime::is_queue_idle(stream_)) {
      transfer->begin();
      if (try_transfer_now(*transfer, try_at_once)) {
        transfer->complete(nullptr);
      } else {
        access_set.enqueue(
            stream_, std::make_unique<TransferWork>(transfer, std::move(run)), /*retain_memory=*/true);
      }
      return transfer;
    }
  }
  runtime::Event mark;
  mark.record(current);
  mark.block(stream_);
  const std::lock_guard<std::mutex> lock(order_);
  access_set.enqueue(
      stream_, std::make_unique<TransferWork>(transfer, std::move(run)), /*retain_memory=*/true);
  transfer->clock_ = runtime::clock_of(runtime::queue_of(stream_));
  return transfer;
}

void Channel::drain() const {
  runtime::drain(stream_, /*throw_errors=*/false);
}

}  // namespace hpu_reference::distributed
