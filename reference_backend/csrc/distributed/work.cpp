#include "distributed/work.h"

#include "runtime/device.h"
#include "runtime/stream.h"

namespace hpu_reference::distributed {

namespace {

// Scope in which the stream is the calling thread's current stream.
class StreamScope {
 public:
  explicit StreamScope(c10::StreamId stream) : before_(runtime::exchange_stream_without_flush(stream)) {
  }
  ~StreamScope() {
    runtime::exchange_stream_without_flush(before_);
  }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  const c10::StreamId before_;
};

}  // namespace

HcclWork::HcclWork(int rank,
                   c10d::OpType operation,
                   std::uint64_t sequence,
                   std::shared_ptr<Transfer> transfer,
                   std::vector<at::Tensor> outputs,
                   bool blocking)
    : Work(rank, operation),
      sequence_(sequence),
      transfer_(std::move(transfer)),
      outputs_(std::move(outputs)),
      blocking_(blocking) {
  // A future of device tensors is completed with an event, which markCompleted() records on the transfer's
  // stream. A thread that waits for the future makes its own stream wait for this event.
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                     std::vector<c10::Device>{runtime::kDevice});
  const StreamScope scope(transfer_->stream());
  future_->markCompleted(at::IValue(outputs_));
}

bool HcclWork::isCompleted() {
  return transfer_->is_done();
}

bool HcclWork::isSuccess() const {
  return transfer_->is_done() && transfer_->error() == nullptr;
}

std::exception_ptr HcclWork::exception() const {
  return transfer_->error();
}

std::vector<at::Tensor> HcclWork::result() {
  return outputs_;
}

void HcclWork::synchronize() {
  transfer_->block_current_stream();
}

bool HcclWork::wait(std::chrono::milliseconds timeout) {
  if (!blocking_ && timeout == kNoTimeout) {
    transfer_->block_current_stream();
    return true;
  }
  TORCH_CHECK_WITH(DistBackendError,
                   transfer_->finish(timeout),
                   "hccl: ",
                   transfer_->name(),
                   " was not complete after the timeout of ",
                   timeout.count(),
                   " ms of wait()");
  return true;
}

void HcclWork::abort() {
  TORCH_CHECK(false, "hccl: Work.abort is not supported: destroy the process group instead");
}

c10::intrusive_ptr<c10::ivalue::Future> HcclWork::getFuture() {
  return future_;
}

std::uint64_t HcclWork::getSequencenumber() const {
  return sequence_;
}

}  // namespace hpu_reference::distributed
