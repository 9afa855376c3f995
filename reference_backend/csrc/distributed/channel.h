// Channels of a process group: streams that only run collectives, and the work on these streams.
//
//   issue on a stream --mark--> channel's stream: [wait for the mark][transfer on host aliases] --> done
//                                                                 stream of wait(): [wait for done]
//
// A transfer reads and writes the host aliases of device tensors. Its access set retains the memory until the
// transfer is done. Only Transfer::finish() blocks the host. A transfer without pending predecessors may run
// on the thread that issues it, if it takes only a moment.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "memory/access_set.h"
#include "runtime/vector_clock.h"

namespace hpu_reference::distributed {

// A collective in progress, shared by the queue and the threads that may wait for it.
class Transfer : public std::enable_shared_from_this<Transfer> {
 public:
  // `name` is for messages. `issued_on` is the stream of the caller, `runs_on` is the stream of the channel.
  Transfer(std::string name, c10::StreamId issued_on, c10::StreamId runs_on);

  // Returns true once the transfer has run or failed.
  bool is_done() const {
    return done_.load(std::memory_order_acquire);
  }
  // Makes later work of the calling thread's current stream wait for the transfer, without blocking the host.
  // Throws if the transfer has already failed.
  void block_current_stream() const;
  // Waits until the transfer is done. Returns false after `timeout` (0: no timeout). Throws if the transfer
  // has failed.
  bool finish(std::chrono::milliseconds timeout) const;
  // Returns the transfer's error, or null.
  std::exception_ptr error() const;
  const std::string& name() const {
    return name_;
  }
  c10::StreamId stream() const {
    return runs_on_;
  }
  // Start and end of the transfer in nanoseconds since 1970; 0 if it has not started or ended.
  std::int64_t started() const {
    return started_.load(std::memory_order_relaxed);
  }
  std::int64_t completed() const {
    return completed_.load(std::memory_order_relaxed);
  }
  // Returns the number of failed transfers of this process.
  static std::uint64_t failures();

 private:
  friend class Channel;
  friend class TransferWork;
  friend class TransferWait;
  void complete(std::exception_ptr error);
  void rethrow() const;
  void begin();

  const std::string name_;
  const c10::StreamId issued_on_;
  const c10::StreamId runs_on_;
  std::size_t bytes_ = 0;       // bytes of the tensors that the transfer uses
  runtime::VectorClock clock_;  // clock at the end of the transfer
  std::exception_ptr error_;    // set before done_
  std::atomic<std::int64_t> started_{0};
  std::atomic<std::int64_t> completed_{0};
  std::atomic<bool> done_{false};
};

// A stream on which transfers run one after the other, in the order in which the host issued them.
class Channel {
 public:
  Channel();
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Issues a transfer: `run` is called after the present work of the calling thread's current stream.
  //   name: for messages.
  //   used: tensors whose memory the transfer uses.
  //   written: the tensors of `used` that the transfer writes.
  //   try_at_once: if set, called first on this thread if the transfer has no pending predecessors. It must
  //   return within a moment. If it returns true, the transfer is done; otherwise `run` completes it.
  std::shared_ptr<Transfer> issue(std::string name,
                                  const std::vector<at::Tensor>& used,
                                  const std::vector<at::Tensor>& written,
                                  std::function<void()> run,
                                  const std::function<bool()>& try_at_once = {});
  // Waits until all transfers issued so far are done.
  void drain() const;

  c10::StreamId stream() const {
    return stream_;
  }

 private:
  bool may_run_now(const memory::AccessSet& access_set) const;
  bool try_transfer_now(const Transfer& transfer, const std::function<bool()>& try_at_once) const;

  const c10::StreamId stream_;
  std::mutex order_;  // held while issuing and during an attempt
};

}  // namespace hpu_reference::distributed
