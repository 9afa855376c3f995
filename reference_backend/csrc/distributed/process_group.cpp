#include "distributed/process_group.h"

#include <atomic>

#include "distributed/flight_recorder.h"
#include "distributed/gloo_workarounds.h"
#include "distributed/work.h"
#include "runtime/capture_scope.h"
#include "runtime/queue.h"
#include "torch_release.h"

namespace hpu_reference::distributed {

using c10d::OpType;
using Milliseconds = std::chrono::milliseconds;

namespace {
std::atomic<bool> g_blocking_collectives{false};
}  // namespace

void set_blocking_collectives(bool on) {
  g_blocking_collectives = on;
}

ProcessGroupHccl::ProcessGroupHccl(c10::intrusive_ptr<c10d::Backend> gloo,
                                   c10::intrusive_ptr<c10d::Store> store,
                                   int rank,
                                   int size,
                                   Milliseconds timeout,
                                   bool synchronizes_first)
    : Backend(rank, size),
      gloo_(std::move(gloo)),
      missing_rank_report_(std::make_shared<MissingRankReport>(store, rank, size)),
      shared_(SharedGroup::create(*store, rank, size)),
      timeout_(timeout),
      synchronizes_first_(synchronizes_first) {
}

// Does not wait for running transfers. They hold references to gloo and to the shared memory, and end on the
// channel's thread.
ProcessGroupHccl::~ProcessGroupHccl() {
  if (shared_ != nullptr && runtime::is_queue_idle(collectives_.stream())) {
    shared_->leave();  // leave now, because finished transfers may hold the shared memory much longer
  }
}

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupHccl::getBackendOptions() {
  return c10::make_intrusive<Options>(timeout_);
}

void ProcessGroupHccl::setTimeout(Milliseconds timeout) {
  timeout_ = timeout;
}

std::uint64_t ProcessGroupHccl::getSequenceNumberForGroup() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sequence_;
}

void ProcessGroupHccl::shutdown() {
  collectives_.drain();
}

void ProcessGroupHccl::abort() {
  if (shared_ != nullptr) {
    shared_->abort();
  }
#if HPU_TORCH_AT_LEAST(2, 8)
  gloo_->abort();
#endif
}

Milliseconds ProcessGroupHccl::timeout_of(Milliseconds requested) const {
  return requested == c10d::kUnsetTimeout || requested == kNoTimeout ? timeout_ : requested;
}

// Lets the request use the memory that the ranks share, if they share memory. Either all ranks must call this
// for a collective, or none.
void ProcessGroupHccl::add_shared_collective(Request& request, CollectiveTensors&& tensors) {
  if (shared_ != nullptr) {
    request.shared.push_back(
        std::make_shared<SharedCollective>(shared_, std::move(tensors), request.timeout));
  }
}

void ProcessGroupHccl::share_all_reduce(Request& request,
                                        const at::Tensor& host,
                                        c10d::ReduceOp::RedOpType operation) {
  add_shared_collective(
      request,
      {.operation = OpType::ALLREDUCE, .reduction = operation, .sent = for_each_rank(host), .reduced = host});
}

Tensors ProcessGroupHccl::for_each_rank(const at::Tensor& tensor) const {
  return Tensors(static_cast<std::size_t>(size_), tensor);
}

Tensors ProcessGroupHccl::at_rank(std::int64_t rank, const at::Tensor& tensor) const {
  Tensors tensors(static_cast<std::size_t>(size_));
  tensors[static_cast<std::size_t>(rank)] = tensor;
  return tensors;
}

Tensors ProcessGroupHccl::equal_parts(const at::Tensor& flat) const {
  const std::int64_t each = flat.numel() / size_;
  Tensors parts;
  for (std::int64_t rank = 0; rank < size_; rank++) {
    parts.push_back(flat.narrow(0, rank * each, each));
  }
  return parts;
}

Tensors ProcessGroupHccl::parts_by_rows(const at::Tensor& tensor,
                                        const std::vector<std::int64_t>& splits) const {
  if (splits.empty()) {
    return equal_parts(tensor.view({-1}));
  }
  Tensors parts;
  std::int64_t start = 0;
  for (const std::int64_t split : splits) {
    parts.push_back(tensor.narrow(0, start, split));
    start += split;
  }
  return parts;
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::issue(Channel& channel,
                                                  Request&& request,
                                                  bool is_collective,
                                                  bool blocking) {
  // During a capture, the collective would run only now and be missing from each replay. Replays would
  // compute wrong values without an error.
  TORCH_CHECK(!runtime::is_capturing(),
              "collective nonSFG is not supported during hpu graph capturing: ",
              c10d::opTypeToString(request.operation),
              " of hccl; end the capture before the collective and begin another capture after it");
  // Sends and receives skip the rendezvous: two ranks that each send before they receive would deadlock.
  const bool synchronizes_first = synchronizes_first_ && is_collective && !request.message;
  const bool waits = synchronizes_first || (g_blocking_collectives && is_collective && !request.message);
  std::uint64_t number = 0;
  std::uint64_t rendezvous_number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    number = is_collective ? ++sequence_ : sequence_;
    rendezvous_number = synchronizes_first ? ++rendezvous_count_ : 0;
  }
  const std::optional<std::uint64_t> flight = record_flight({c10d::opTypeToString(request.operation),
                                                             getGroupUid(),
                                                             getGroupDesc(),
                                                             number,
                                                             request.peer,
                                                             rank_,
                                                             request.timeout,
                                                             &request.used,
                                                             &request.outputs});
  Collective collective{c10d::opTypeToString(request.operation),
                        number,
                        getGroupDesc().empty() ? getGroupUid() : getGroupDesc(),
                        request.timeout};
  std::string name = "hccl " + collective.name;
  std::function<bool()> try_at_once;
  if (request.shared.size() == 1 && request.shared.front()->is_small() && !synchronizes_first) {
    try_at_once = [shared = request.shared.front()] { return shared->try_at_once(); };
  }
  // `run` holds a reference to gloo, because it may be called after the group is destroyed.
  auto run = [gloo = gloo_,
              missing_rank_report = missing_rank_report_,
              group = shared_,
              shared = std::move(request.shared),
              start = std::move(request.start),
              collective = std::move(collective),
              is_collective,
              rendezvous_number] {
    try {
      if (rendezvous_number != 0) {
        try {
          missing_rank_report->rendezvous(collective, rendezvous_number);
        } catch (...) {
          if (group != nullptr) {
            group->fail();  // the other ranks may have completed the rendezvous
          }
          throw;
        }
      }
      if (!shared.empty() &&
          SharedCollective::finish_all(shared, missing_rank_report->arrival_delay(collective), [&] {
            missing_rank_report->record_arrival(collective);
          })) {
        return;
      }
      for (const WorkPtr& work : start(*gloo)) {
        is_collective ? missing_rank_report->wait(*work, collective) : static_cast<void>(work->wait());
      }
    } catch (const std::exception& error) {
      if (dynamic_cast<const DifferentCollectives*>(&error) != nullptr) {
        TORCH_CHECK_WITH(DistBackendError,
                         false,
                         "hccl: ",
                         collective.name,
                         " (number ",
                         collective.number,
                         " of process group ",
                         collective.group,
                         ") failed: ",
                         error.what());
      }
      if (is_collective) {
        TORCH_CHECK_WITH(DistBackendError, false, missing_rank_report->describe(collective, error.what()));
      }
      TORCH_CHECK_WITH(DistBackendError,
                       false,
                       "hccl: ",
                       collective.name,
                       " of process group ",
                       collective.group,
                       " failed (transport: ",
                       error.what(),
                       ")");
    }
  };
  auto transfer = channel.issue(std::move(name), request.used, request.outputs, std::move(run), try_at_once);
  set_transfer(flight, transfer);
  if (waits) {
    transfer->finish(Milliseconds(0));
  }
  return c10::make_intrusive<HcclWork>(
      rank_, request.operation, number, std::move(transfer), std::move(request.outputs), blocking);
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::submit(Request&& request) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!batch_.has_value()) {
    lock.unlock();
    return issue(collectives_, std::move(request), /*is_collective=*/true, /*blocking=*/false);
  }
  // gloo carries out a batch, not the shared memory, because a batch may have sends and receives on some
  // ranks only. Start the parts in the same order on all ranks, so that gloo's tags match. Do not wait
  // between the parts.
  batch_->start = [before = std::move(batch_->start), next = std::move(request.start)](c10d::Backend& gloo) {
    std::vector<WorkPtr> works = before(gloo);
    for (WorkPtr& work : next(gloo)) {
      works.push_back(std::move(work));
    }
    return works;
  };
  batch_->used.insert(batch_->used.end(), request.used.begin(), request.used.end());
  batch_->outputs.insert(batch_->outputs.end(), request.outputs.begin(), request.outputs.end());
  batch_->timeout = std::max(batch_->timeout, request.timeout);
  batch_->message = batch_->message && request.message;
  // No caller waits for a part of the batch; endCoalescing() returns the Work of the whole batch.
  return c10::make_intrusive<c10d::Work>(rank_, request.operation);
}

bool ProcessGroupHccl::is_batching() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return batch_.has_value();
}

void ProcessGroupHccl::startCoalescing() {
  const std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(!batch_.has_value(), "hccl: a batch of collectives is already open: end the batch first");
  batch_ = Request{
      OpType::COALESCED, {}, {}, Milliseconds(0), [](c10d::Backend&) { return std::vector<WorkPtr>(); }};
  batch_->message = true;
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::endCoalescing() {
  std::optional<Request> batch;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(batch_.has_value(), "hccl: no batch of collectives is open: start a batch first");
    std::swap(batch, batch_);
  }
  batch->timeout = batch->timeout.count() == 0 ? timeout_ : batch->timeout;
  return issue(collectives_, std::move(*batch), /*is_collective=*/true, /*blocking=*/false);
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::broadcast(Tensors& tensors,
                                                      const c10d::BroadcastOptions& options) {
  check_single(tensors);
  check_root(options.rootRank, size_);
  c10d::BroadcastOptions gloo_options = options;
  gloo_options.timeout = timeout_of(options.timeout);
  Tensors hosts = host_aliases_of(tensors);
  Request request{OpType::BROADCAST,
                  tensors,
                  tensors,
                  gloo_options.timeout,
                  [hosts, gloo_options](c10d::Backend& gloo) mutable {
                    return std::vector<WorkPtr>{gloo.broadcast(hosts, gloo_options)};
                  }};
  add_shared_collective(request,
                        {.operation = OpType::BROADCAST,
                         .root = options.rootRank,
                         .sent = options.rootRank == rank_ ? for_each_rank(hosts.front()) : Tensors(),
                         .received = at_rank(options.rootRank, hosts.front())});
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::allreduce(Tensors& tensors,
                                                      const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = check_single(tensors);
  const Reduction reduction = reduction_of(options.reduceOp, tensor.scalar_type());
  c10d::AllreduceOptions gloo_options = options;
  gloo_options.reduceOp = reduction.operation;
  gloo_options.timeout = timeout_of(options.timeout);
  Tensors hosts = reduction.view(host_aliases_of(tensors));
  Request request{OpType::ALLREDUCE,
                  tensors,
                  tensors,
                  gloo_options.timeout,
                  [hosts, gloo_options](c10d::Backend& gloo) mutable {
                    return std::vector<WorkPtr>{gloo.allreduce(hosts, gloo_options)};
                  }};
  share_all_reduce(request, hosts.front(), reduction.operation);
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  check_tensors(tensors);
  const Reduction reduction = reduction_of(options.reduceOp, tensors.front().scalar_type());
  c10d::AllreduceOptions gloo_options = options;
  gloo_options.reduceOp = reduction.operation;
  gloo_options.timeout = timeout_of(options.timeout);
  Tensors hosts = reduction.view(host_aliases_of(tensors));
  Request request{OpType::ALLREDUCE_COALESCED,
                  tensors,
                  tensors,
                  gloo_options.timeout,
                  [hosts, gloo_options](c10d::Backend& gloo) {
                    std::vector<WorkPtr> works;
                    for (const at::Tensor& host : hosts) {
                      Tensors single{host};
                      works.push_back(gloo.allreduce(single, gloo_options));
                    }
                    return works;
                  }};
  for (const at::Tensor& host : hosts) {
    share_all_reduce(request, host, reduction.operation);
  }
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = check_single(tensors);
  check_root(options.rootRank, size_);
  const Reduction reduction = reduction_of(options.reduceOp, tensor.scalar_type());
  c10d::ReduceOptions gloo_options = options;
  gloo_options.reduceOp = reduction.operation;
  gloo_options.timeout = timeout_of(options.timeout);
  const bool is_root = options.rootRank == rank_;
  at::Tensor host = reduction.view(host_alias_of(tensor));
  Request request{OpType::REDUCE,
                  tensors,
                  tensors,
                  gloo_options.timeout,
                  [host, gloo_options, is_root](c10d::Backend& gloo) {
                    // Ranks other than the root keep their values; gloo would leave partial sums in them.
                    Tensors single{is_root ? host : host.clone()};
                    return std::vector<WorkPtr>{gloo.reduce(single, gloo_options)};
                  }};
  add_shared_collective(request,
                        {.operation = OpType::REDUCE,
                         .root = options.rootRank,
                         .reduction = reduction.operation,
                         .sent = at_rank(options.rootRank, host),
                         .reduced = is_root ? host : at::Tensor()});
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::allgather(std::vector<Tensors>& outputs,
                                                      Tensors& inputs,
                                                      const c10d::AllgatherOptions& options) {
  const at::Tensor& input = check_single(inputs);
  check_list(outputs, static_cast<std::size_t>(size_), input);
  c10d::AllgatherOptions gloo_options = options;
  gloo_options.timeout = timeout_of(options.timeout);
  Tensors used = outputs.front();
  used.push_back(input);
  std::vector<Tensors> to{host_aliases_of(outputs.front())};
  Tensors from = host_aliases_of(inputs);
  Request request{OpType::ALLGATHER,
                  std::move(used),
                  outputs.front(),
                  gloo_options.timeout,
                  [to, from, gloo_options](c10d::Backend& gloo) mutable {
                    return std::vector<WorkPtr>{gloo.allgather(to, from, gloo_options)};
                  }};
  add_shared_collective(
      request, {.operation = OpType::ALLGATHER, .sent = for_each_rank(from.front()), .received = to.front()});
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::_allgather_base(at::Tensor& output,
                                                            at::Tensor& input,
                                                            const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(!inputs.empty() && inputs.size() == outputs.size(),
                    "Tensor list must be non-empty, with an output for each input, but there are ",
                    outputs.size(),
                    " and ",
                    inputs.size());
  for (std::size_t index = 0; index < inputs.size(); index++) {
    check_tensor(inputs[index]);
    check_tensor(outputs[index]);
    check_sizes(outputs[index],
                inputs[index],
                size_,
                "output tensor size must be equal to world_size times input tensor size");
  }
  c10d::AllgatherOptions gloo_options = options;
  gloo_options.timeout = timeout_of(options.timeout);
  Tensors used = outputs;
  used.insert(used.end(), inputs.begin(), inputs.end());
  Tensors to = flattened(host_aliases_of(outputs));
  Tensors from = flattened(host_aliases_of(inputs));
  Request request{OpType::_ALLGATHER_BASE,
                  std::move(used),
                  outputs,
                  gloo_options.timeout,
                  [to, from, gloo_options](c10d::Backend& gloo) mutable {
                    std::vector<WorkPtr> works;
                    for (std::size_t index = 0; index < to.size(); index++) {
                      works.push_back(gloo._allgather_base(to[index], from[index], gloo_options));
                    }
                    return works;
                  }};
  for (std::size_t index = 0; index < to.size(); index++) {
    add_shared_collective(request,
                          {.operation = OpType::_ALLGATHER_BASE,
                           .sent = for_each_rank(from[index]),
                           .received = equal_parts(to[index])});
  }
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::allgather_coalesced(std::vector<Tensors>& outputs,
                                                                Tensors& inputs,
                                                                const c10d::AllgatherOptions& options) {
  TORCH_CHECK(false, "hccl does not support allgather_coalesced: use all_gather_into_tensor");
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::gather(std::vector<Tensors>& outputs,
                                                   Tensors& inputs,
                                                   const c10d::GatherOptions& options) {
  const at::Tensor& input = check_single(inputs);
  check_root(options.rootRank, size_);
  std::vector<Tensors> to;
  Tensors from = host_aliases_of(inputs);
  Tensors used{input};
  Tensors root_outputs;
  if (options.rootRank == rank_) {
    check_list(outputs, static_cast<std::size_t>(size_), input);
    to.push_back(host_aliases_of(outputs.front()));
    root_outputs = outputs.front();
    used.insert(used.end(), root_outputs.begin(), root_outputs.end());
  } else {
    TORCH_CHECK_VALUE(
        outputs.empty(), "gather: only the root rank ", options.rootRank, " may pass output tensors");
  }
  c10d::GatherOptions gloo_options = options;
  gloo_options.timeout = timeout_of(options.timeout);
  Request request{OpType::GATHER,
                  std::move(used),
                  std::move(root_outputs),
                  gloo_options.timeout,
                  [to, from, gloo_options](c10d::Backend& gloo) mutable {
                    return std::vector<WorkPtr>{gloo.gather(to, from, gloo_options)};
                  }};
  add_shared_collective(request,
                        {.operation = OpType::GATHER,
                         .root = options.rootRank,
                         .sent = at_rank(options.rootRank, from.front()),
                         .received = to.empty() ? Tensors() : to.front()});
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::scatter(Tensors& outputs,
                                                    std::vector<Tensors>& inputs,
                                                    const c10d::ScatterOptions& options) {
  const at::Tensor& output = check_single(outputs);
  check_root(options.rootRank, size_);
  std::vector<Tensors> from;
  Tensors used{output};
  if (options.rootRank == rank_) {
    check_list(inputs, static_cast<std::size_t>(size_), output);
    from.push_back(host_aliases_of(inputs.front()));
    used.insert(used.end(), inputs.front().begin(), inputs.front().end());
  } else {
    TORCH_CHECK_VALUE(
        inputs.empty(), "scatter: only the root rank ", options.rootRank, " may pass input tensors");
  }
  c10d::ScatterOptions gloo_options = options;
  gloo_options.timeout = timeout_of(options.timeout);
  Tensors to = host_aliases_of(outputs);
  Request request{OpType::SCATTER,
                  std::move(used),
                  outputs,
                  gloo_options.timeout,
                  [to, from, gloo_options](c10d::Backend& gloo) mutable {
                    return std::vector<WorkPtr>{gloo.scatter(to, from, gloo_options)};
                  }};
  add_shared_collective(request,
                        {.operation = OpType::SCATTER,
                         .root = options.rootRank,
                         .sent = from.empty() ? Tensors() : from.front(),
                         .received = at_rank(options.rootRank, to.front())});
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::reduce_scatter(Tensors& outputs,
                                                           std::vector<Tensors>& inputs,
                                                           const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = check_single(outputs);
  check_list(inputs, static_cast<std::size_t>(size_), output);
  const Reduction reduction = reduction_of(options.reduceOp, output.scalar_type());
  c10d::ReduceScatterOptions gloo_options = options;
  gloo_options.reduceOp = reduction.operation;
  gloo_options.timeout = timeout_of(options.timeout);
  Tensors used = inputs.front();
  used.push_back(output);
  Tensors to = reduction.view(host_aliases_of(outputs));
  std::vector<Tensors> from{reduction.view(host_aliases_of(inputs.front()))};
  Request request{
      OpType::REDUCE_SCATTER,
      std::move(used),
      outputs,
      gloo_options.timeout,
      [to, from, gloo_options](c10d::Backend& gloo) mutable {
        return std::vector<WorkPtr>{gloo_workarounds::reduce_scatter(gloo, to, from, gloo_options)};
      }};
  add_shared_collective(request,
                        {.operation = OpType::REDUCE_SCATTER,
                         .reduction = reduction.operation,
                         .sent = from.front(),
                         .reduced = to.front()});
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::_reduce_scatter_base(at::Tensor& output,
                                                                 at::Tensor& input,
                                                                 const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(!inputs.empty() && inputs.size() == outputs.size(),
                    "Tensor list must be non-empty, with an output for each input, but there are ",
                    outputs.size(),
                    " and ",
                    inputs.size());
  std::vector<c10d::ReduceScatterOptions> gloo_options;
  Tensors to;
  Tensors from;
  for (std::size_t index = 0; index < inputs.size(); index++) {
    check_tensor(inputs[index]);
    check_tensor(outputs[index]);
    check_sizes(inputs[index],
                outputs[index],
                size_,
                "input tensor must be the same size as output size times world size");
    const Reduction reduction = reduction_of(options.reduceOp, inputs[index].scalar_type());
    gloo_options.push_back(options);
    gloo_options.back().reduceOp = reduction.operation;
    gloo_options.back().timeout = timeout_of(options.timeout);
    to.push_back(reduction.view(host_alias_of(outputs[index])));
    from.push_back(reduction.view(host_alias_of(inputs[index])));
  }
  Tensors used = outputs;
  used.insert(used.end(), inputs.begin(), inputs.end());
  to = flattened(to);
  from = flattened(from);
  Request request{OpType::_REDUCE_SCATTER_BASE,
                  std::move(used),
                  outputs,
                  timeout_of(options.timeout),
                  [to, from, gloo_options](c10d::Backend& gloo) mutable {
                    std::vector<WorkPtr> works;
                    for (std::size_t index = 0; index < to.size(); index++) {
                      works.push_back(gloo_workarounds::reduce_scatter_base(
                          gloo, to[index], from[index], gloo_options[index]));
                    }
                    return works;
                  }};
  for (std::size_t index = 0; index < to.size(); index++) {
    add_shared_collective(request,
                          {.operation = OpType::_REDUCE_SCATTER_BASE,
                           .reduction = static_cast<c10d::ReduceOp::RedOpType>(gloo_options[index].reduceOp),
                           .sent = equal_parts(from[index]),
                           .reduced = to[index]});
  }
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::alltoall_base(at::Tensor& output,
                                                          at::Tensor& input,
                                                          std::vector<std::int64_t>& output_splits,
                                                          std::vector<std::int64_t>& input_splits,
                                                          const c10d::AllToAllOptions& options) {
  check_tensor(output);
  check_tensor(input);
  check_sizes(output, output, 1, "");
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(),
                   "Tensors must have identical type, but got ",
                   output.scalar_type(),
                   " and ",
                   input.scalar_type());
  check_splits(output, output_splits, size_, "output");
  check_splits(input, input_splits, size_, "input");
  c10d::AllToAllOptions gloo_options = options;
  gloo_options.timeout = timeout_of(options.timeout);
  at::Tensor to = host_alias_of(output);
  at::Tensor from = host_alias_of(input);
  Request request{
      OpType::ALLTOALL_BASE,
      {output, input},
      {output},
      gloo_options.timeout,
      [to, from, output_splits, input_splits, gloo_options](c10d::Backend& gloo) mutable {
        return std::vector<WorkPtr>{gloo.alltoall_base(to, from, output_splits, input_splits, gloo_options)};
      }};
  add_shared_collective(request,
                        {.operation = OpType::ALLTOALL_BASE,
                         .sent = parts_by_rows(from, input_splits),
                         .received = parts_by_rows(to, output_splits)});
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::alltoall(Tensors& outputs,
                                                     Tensors& inputs,
                                                     const c10d::AllToAllOptions& options) {
  check_tensors(outputs);
  check_tensors(inputs);
  TORCH_CHECK_VALUE(static_cast<int>(outputs.size()) == size_ && static_cast<int>(inputs.size()) == size_,
                    "alltoall takes one input and one output tensor for each of the ",
                    size_,
                    " ranks, but got ",
                    inputs.size(),
                    " inputs and ",
                    outputs.size(),
                    " outputs");
  c10d::AllToAllOptions gloo_options = options;
  gloo_options.timeout = timeout_of(options.timeout);
  Tensors used = outputs;
  used.insert(used.end(), inputs.begin(), inputs.end());
  Tensors to = host_aliases_of(outputs);
  Tensors from = host_aliases_of(inputs);
  Request request{OpType::ALLTOALL,
                  std::move(used),
                  outputs,
                  gloo_options.timeout,
                  [to, from, gloo_options](c10d::Backend& gloo) mutable {
                    return std::vector<WorkPtr>{gloo_workarounds::alltoall(gloo, to, from, gloo_options)};
                  }};
  add_shared_collective(request, {.operation = OpType::ALLTOALL, .sent = from, .received = to});
  return submit(std::move(request));
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::point_to_point(Request&& request, int peer, bool sends) {
  Channel* channel = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Channel>& own = peers_[{peer, sends}];
    if (own == nullptr) {
      own = std::make_unique<Channel>();
    }
    channel = own.get();
  }
  request.peer = peer;
  return issue(*channel, std::move(request), /*is_collective=*/false, /*blocking=*/false);
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::send(Tensors& tensors, int destination, int tag) {
  check_single(tensors);
  check_root(destination, size_);
  Request request{OpType::SEND,
                  tensors,
                  {},
                  timeout_,
                  [hosts = host_aliases_of(tensors), destination, tag](c10d::Backend& gloo) mutable {
                    return std::vector<WorkPtr>{gloo.send(hosts, destination, tag)};
                  }};
  request.message = true;
  return is_batching() ? submit(std::move(request))
                       : point_to_point(std::move(request), destination, /*sends=*/true);
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::recv(Tensors& tensors, int source, int tag) {
  check_single(tensors);
  check_root(source, size_);
  Request request{OpType::RECV,
                  tensors,
                  tensors,
                  timeout_,
                  [hosts = host_aliases_of(tensors), source, tag](c10d::Backend& gloo) mutable {
                    return std::vector<WorkPtr>{gloo.recv(hosts, source, tag)};
                  }};
  request.message = true;
  return is_batching() ? submit(std::move(request))
                       : point_to_point(std::move(request), source, /*sends=*/false);
}

ProcessGroupHccl::WorkPtr ProcessGroupHccl::barrier(const c10d::BarrierOptions& options) {
  c10d::BarrierOptions gloo_options = options;
  gloo_options.timeout = timeout_of(options.timeout);
  gloo_options.device = std::nullopt;
  Request request{OpType::BARRIER, {}, {}, gloo_options.timeout, [gloo_options](c10d::Backend& gloo) {
                    return std::vector<WorkPtr>{gloo.barrier(gloo_options)};
                  }};
  add_shared_collective(request, {.operation = OpType::BARRIER});
  return issue(collectives_, std::move(request), /*is_collective=*/true, /*blocking=*/true);
}

}  // namespace hpu_reference::distributed
