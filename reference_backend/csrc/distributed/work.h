// A collective as a torch Work object: waiting for it blocks the stream, not the host.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "distributed/channel.h"

namespace hpu_reference::distributed {

// A collective in progress. c10d::Work documents the methods.
class HcclWork final : public c10d::Work {
 public:
  // `blocking`: wait() also blocks the host, as for a barrier.
  HcclWork(int rank,
           c10d::OpType operation,
           std::uint64_t sequence,
           std::shared_ptr<Transfer> transfer,
           std::vector<at::Tensor> outputs,
           bool blocking);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override;

 private:
  const std::uint64_t sequence_;
  const std::shared_ptr<Transfer> transfer_;
  const std::vector<at::Tensor> outputs_;
  const bool blocking_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // completed with an event after the transfer
};

}  // namespace hpu_reference::distributed
