#include "distributed/gloo_workarounds.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "torch_release.h"

namespace hpu_reference::distributed::gloo_workarounds {

#if HPU_TORCH_AT_LEAST(2, 13)

WorkPtr reduce_scatter(c10d::Backend& gloo,
                       Tensors& to,
                       std::vector<Tensors>& from,
                       const c10d::ReduceScatterOptions& options) {
  return gloo.reduce_scatter(to, from, options);
}

WorkPtr reduce_scatter_base(c10d::Backend& gloo,
                            at::Tensor& to,
                            at::Tensor& from,
                            const c10d::ReduceScatterOptions& options) {
  return gloo._reduce_scatter_base(to, from, options);
}

WorkPtr alltoall(c10d::Backend& gloo, Tensors& to, Tensors& from, const c10d::AllToAllOptions& options) {
  return gloo.alltoall(to, from, options);
}

#else

namespace {

// A collective with a last step on this rank. The thread that waits for the collective runs the step.
class WorkWithLastStep : public c10d::Work {
 public:
  WorkWithLastStep(WorkPtr work, std::function<void()> last)
      : work_(std::move(work)), last_step_(std::move(last)) {
  }
  bool isCompleted() override {
    return work_->isCompleted();
  }
  bool wait(std::chrono::milliseconds timeout) override {
    const bool done = work_->wait(timeout);
    if (last_step_ != nullptr) {
      std::exchange(last_step_, nullptr)();
    }
    return done;
  }

 private:
  WorkPtr work_;
  std::function<void()> last_step_;
};

at::Tensor concatenate(const Tensors& tensors) {
  Tensors rows;
  for (const at::Tensor& tensor : tensors) {
    rows.push_back(tensor.reshape({-1}));
  }
  return at::cat(rows);
}

// Reduces and scatters: every rank reduces all parts and keeps its own part. gloo's own function in torch 2.6
// does not accept a list of tensors, and computes the sum for every operation.
WorkPtr all_reduce_and_copy(c10d::Backend& gloo,
                            const at::Tensor& to,
                            at::Tensor whole,
                            const c10d::ReduceScatterOptions& options) {
  c10d::AllreduceOptions gloo_options;
  gloo_options.reduceOp = options.reduceOp;
  gloo_options.timeout = options.timeout;
  Tensors single{whole};
  WorkPtr work = gloo.allreduce(single, gloo_options);
  return c10::make_intrusive<WorkWithLastStep>(std::move(work), [to, whole, rank = gloo.getRank()]() mutable {
    const std::int64_t count = to.numel();
    to.copy_(whole.narrow(0, rank * count, count).view(to.sizes()));
  });
}

}  // namespace

WorkPtr reduce_scatter(c10d::Backend& gloo,
                       Tensors& to,
                       std::vector<Tensors>& from,
                       const c10d::ReduceScatterOptions& options) {
  return all_reduce_and_copy(gloo, to.front(), concatenate(from.front()), options);
}

WorkPtr reduce_scatter_base(c10d::Backend& gloo,
                            at::Tensor& to,
                            at::Tensor& from,
                            const c10d::ReduceScatterOptions& options) {
  if (options.reduceOp == c10d::ReduceOp::SUM) {
    return gloo._reduce_scatter_base(to, from, options);
  }
  return all_reduce_and_copy(gloo, to, from.reshape({-1}).clone(), options);
}

WorkPtr alltoall(c10d::Backend& gloo, Tensors& to, Tensors& from, const c10d::AllToAllOptions& options) {
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;
  std::int64_t count = 0;
  for (std::size_t rank = 0; rank < to.size(); rank++) {
    sent.push_back(from[rank].numel());
    received.push_back(to[rank].numel());
    count += to[rank].numel();
  }
  at::Tensor input = concatenate(from);
  at::Tensor output = at::empty({count}, input.options());
  WorkPtr work = gloo.alltoall_base(output, input, received, sent, options);
  return c10::make_intrusive<WorkWithLastStep>(std::move(work), [to, output]() mutable {
    std::int64_t start = 0;
    for (at::Tensor& tensor : to) {
      tensor.copy_(output.narrow(0, start, tensor.numel()).view(tensor.sizes()));
      start += tensor.numel();
    }
  });
}

#endif

}  // namespace hpu_reference::distributed::gloo_workarounds
