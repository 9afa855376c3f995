// Channels of a process group: streams for its collectives alone, and the work that runs there.
//
//   issue on a stream --mark--> channel's stream: [wait for the mark][transfer on host views] --> done
//                                                                    stream of wait(): [wait for done]
//
// A transfer reads and writes the host views of device memory, which its footprint keeps from being used
// again under it. Only Transfer::finish() blocks the host. A transfer that has nothing in front of it may be
// done on the thread that issues it, if that takes no longer than a moment.
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

// One collective on its way, shared by the queue and the threads that may wait for it.
class Transfer : public std::enable_shared_from_this<Transfer> {
 public:
  // `name` is for messages; the streams are those of the caller and of the channel.
  Transfer(std::string name, c10::StreamId issued_on, c10::StreamId runs_on);

  // True once it has run or failed.
  bool is_done() const {
    return done_.load(std::memory_order_acquire);
  }
  // Lets later work of the calling thread's current stream run behind it; the host goes on. Throws if it has
  // failed already.
  void block_current_stream() const;
  // Returns when it is done, or false after `timeout` (0: none). Throws if it has failed.
  bool finish(std::chrono::milliseconds timeout) const;
  // The error that it has failed with, or null.
  std::exception_ptr error() const;
  const std::string& name() const {
    return name_;
  }
  c10::StreamId stream() const {
    return runs_on_;
  }
  // When it began to run and when it was done, in nanoseconds since 1970; 0 for not yet.
  std::int64_t started() const {
    return started_.load(std::memory_order_relaxed);
  }
  std::int64_t completed() const {
    return completed_.load(std::memory_order_relaxed);
  }
  // Number of transfers of this process that have failed.
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
  std::size_t bytes_ = 0;      // of what it uses
  runtime::VectorClock clock_;  // what comes before its end
  std::exception_ptr error_;   // set before done_
  std::atomic<std::int64_t> started_{0};
  std::atomic<std::int64_t> completed_{0};
  std::atomic<bool> done_{false};
};

// A stream of its own, on which transfers run one after the other in the order in which the host issued them.
class Channel {
 public:
  Channel();
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Issues a transfer: `run` is called behind what the calling thread's current stream contains now.
  // `used` are the tensors whose memory it uses, of which it writes `written`. `name` is for messages.
  // `attempt`, if given, is called first, on this thread, when nothing is in front of the transfer: it must
  // end within a moment, and the transfer is done if it returns true; otherwise `run` goes on.
  std::shared_ptr<Transfer> issue(std::string name,
                                  const std::vector<at::Tensor>& used,
                                  const std::vector<at::Tensor>& written,
                                  std::function<void()> run,
                                  const std::function<bool()>& attempt = {});
  // Returns when everything issued so far is done.
  void drain() const;

  c10::StreamId stream() const {
    return stream_;
  }

 private:
  bool may_run_now(const memory::AccessSet& access_set) const;
  bool attempt_now(const Transfer& transfer, const std::function<bool()>& attempt) const;

  const c10::StreamId stream_;
  std::mutex order_;  // of those who issue; an attempt has it too
};

}  // namespace hpu_reference::distributed
