// The process group of backend "hccl": torch's collectives on device tensors. gloo carries them out on host
// aliases. Collectives of ranks that share memory run in that memory.
//
// Each method checks its tensors, makes their host aliases and issues a transfer. gloo is called on the
// group's channel, so that it assigns tags in the order in which the host issued the collectives.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "distributed/channel.h"
#include "distributed/checks.h"
#include "distributed/missing_rank_report.h"
#include "distributed/shared_collective.h"

namespace hpu_reference::distributed {

constexpr const char* kName = "hccl";

// Sets whether the call of a collective returns only after the collective has run. Sends and receives never
// wait.
void set_blocking_collectives(bool on);

// The backend. c10d::Backend documents its methods.
class ProcessGroupHccl final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds timeout) : c10d::Backend::Options(kName, timeout) {
    }
  };
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // `gloo` is a gloo backend over the same ranks with the same timeout. `synchronizes_first`: the ranks
  // rendezvous in the store before each collective, and the call of a collective returns only after the
  // collective has run. All ranks must pass the same value.
  ProcessGroupHccl(c10::intrusive_ptr<c10d::Backend> gloo,
                   c10::intrusive_ptr<c10d::Store> store,
                   int rank,
                   int size,
                   std::chrono::milliseconds timeout,
                   bool synchronizes_first = false);
  ~ProcessGroupHccl() override;

  const std::string getBackendName() const override {
    return kName;
  }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions();
  bool supportsCoalescing() const {
    return true;
  }
  void setTimeout(std::chrono::milliseconds timeout);
  void setSequenceNumberForGroup() override {
  }
  std::uint64_t getSequenceNumberForGroup() override;
  // Returns true if collectives use memory that the ranks share.
  bool shares_memory() const {
    return shared_ != nullptr;
  }
  void shutdown();
  void abort();

  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs,
                    Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output,
                          at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs,
                              Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs,
                                          Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs,
                  std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs,
                         std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output,
                               at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs,
                                          Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output,
                        at::Tensor& input,
                        std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

 private:
  // Runs a collective when its channel reaches it: calls gloo once, or once for each tensor.
  using Start = std::function<std::vector<WorkPtr>(c10d::Backend&)>;
  struct Request {
    c10d::OpType operation;
    Tensors used;     // device tensors whose memory is read or written
    Tensors outputs;  // the tensors of `used` that the user receives
    std::chrono::milliseconds timeout;
    Start start;
    std::vector<std::shared_ptr<SharedCollective>> shared = {};  // used instead of gloo if possible
    std::optional<int> peer = std::nullopt;                      // the other rank of a send or receive
    bool message = false;                                        // a send, a receive or a batch of these
  };

  void add_shared_collective(Request& request, CollectiveTensors&& tensors);
  void share_all_reduce(Request& request, const at::Tensor& host, c10d::ReduceOp::RedOpType operation);
  // Returns a list that contains the tensor once for each rank.
  Tensors for_each_rank(const at::Tensor& tensor) const;
  // Returns a list with one tensor per rank: the given tensor at `rank`, undefined tensors elsewhere.
  Tensors at_rank(std::int64_t rank, const at::Tensor& tensor) const;
  // Divides a flat tensor into equal parts, one per rank.
  Tensors equal_parts(const at::Tensor& flat) const;
  // Divides dimension 0 into parts of the sizes in `splits`, one per rank. If `splits` is empty, the parts
  // are equal.
  Tensors parts_by_rows(const at::Tensor& tensor, const std::vector<std::int64_t>& splits) const;
  bool is_batching() const;
  WorkPtr submit(Request&& request);
  WorkPtr issue(Channel& channel, Request&& request, bool is_collective, bool blocking);
  WorkPtr point_to_point(Request&& request, int peer, bool sends);
  std::chrono::milliseconds timeout_of(std::chrono::milliseconds requested) const;

  const c10::intrusive_ptr<c10d::Backend> gloo_;
  const std::shared_ptr<const MissingRankReport> missing_rank_report_;
  const std::shared_ptr<SharedGroup> shared_;  // null if the ranks do not share memory
  std::chrono::milliseconds timeout_;
  Channel collectives_;
  mutable std::mutex mutex_;
  // Sends and receives between two ranks are ordered with each other, but not with other messages and
  // collectives.
  std::map<std::pair<int, bool>, std::unique_ptr<Channel>> peers_;
  std::uint64_t sequence_ = 0;
  const bool synchronizes_first_;
  std::uint64_t rendezvous_count_ = 0;  // the same on all ranks, unlike the number of sends and receives
  std::optional<Request> batch_;        // set between startCoalescing() and endCoalescing()
};

}  // namespace hpu_reference::distributed
