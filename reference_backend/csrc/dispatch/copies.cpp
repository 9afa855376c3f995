// Copies within the device and between device and host, and the read of one element into Python.
#include "dispatch/copies.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_empty_affine_quantized.h>
#include <ATen/ops/_empty_per_channel_affine_quantized.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/copy_ops.h>
#include <torch/library.h>

#include <atomic>

#include "device_key.h"
#include "dispatch/boxed_kernel.h"
#include "engine/call.h"
#include "graph/capture_recorder.h"
#include "graph/lazy.h"
#include "kernels/hardware_limits.h"
#include "kernels/host_call.h"
#include "kernels/operator_plan.h"
#include "kernels/trace_labels.h"
#include "memory/access_set.h"
#include "memory/allocator.h"
#include "memory/pinned.h"
#include "runtime/host_access.h"
#include "runtime/queue.h"
#include "runtime/stream.h"
#include "runtime/trace.h"

namespace hpu_reference::dispatch {

namespace {

const char* const kName = "aten::copy_";

const kernels::OperatorPlan& plan() {
  static const auto* value =
      new kernels::OperatorPlan(c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""));
  return *value;
}

const BoxedKernel& kernel(const c10::OperatorHandle& op) {
  static const auto* value = new BoxedKernel(op, c10::DispatchKey::CPU);
  return *value;
}

void copy_now(at::Tensor& self, const at::Tensor& source, bool non_blocking, bool throw_errors) {
  kernels::HostCall call(/*redirect=*/false, throw_errors);
  call.allow_cpu_tensors(true);
  const at::Tensor from = call.host(source, kernels::Access::Read, kName);
  at::Tensor to = kernels::is_device_tensor(self) ? call.host(self, kernels::Access::Write, kName) : self;
  {
    runtime::TraceSpan span(
        runtime::TraceKind::Copy,
        kernels::copy_label(kernels::is_device_tensor(source), kernels::is_device_tensor(self)));
    if (span.is_active()) {
      span.add_bytes(to.nbytes());
    }
    at::_ops::copy_::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), to, from, non_blocking);
  }
  if (C10_UNLIKELY(kernels::has_hardware_limits()) && kernels::is_device_tensor(self)) {
    kernels::round_to_hardware(to);
  }
}

bool is_pinned_cpu(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.has_storage() &&
         memory::is_pinned(tensor.storage().data());
}

bool is_dense_device(const at::Tensor& tensor) {
  return kernels::is_device_tensor(tensor) && tensor.layout() == at::kStrided && !tensor.is_quantized() &&
         !tensor.is_nested() && tensor.has_storage() &&
         memory::block_of(tensor.storage().data_ptr()) != nullptr;
}

// A queued copy between pinned host memory and the device.
class CopyWork final : public runtime::Work {
 public:
  CopyWork(engine::Call&& call, c10::Storage host) : call_(std::move(call)), host_(std::move(host)) {
  }
  void run() override {
    call_.run();
  }
  // This object may hold the last reference to the storage of the user's tensor. Python objects that are
  // attached to the storage must be destroyed on a host thread.
  bool must_be_destroyed_on_host() const override {
    return true;
  }
  std::string name() const override {
    return "aten::copy_";
  }

 private:
  engine::Call call_;
  c10::Storage host_;
};

// Minimum size in bytes of a copy that is queued on an idle stream. A smaller copy takes less time than
// queueing it.
constexpr std::size_t kWorthQueue = std::size_t{1} << 20;
std::atomic<bool> g_queues_to_device{true};
std::atomic<bool> g_queues_to_host{true};
std::atomic<std::size_t> g_worth_queue_to_device{kWorthQueue};

bool enqueue_copy(at::Tensor& self, const at::Tensor& source) {
  const bool to_device = kernels::is_device_tensor(self);
  const at::Tensor& host = to_device ? source : self;
  const at::Tensor& device = to_device ? self : source;
  if (!(to_device ? g_queues_to_device : g_queues_to_host) || !is_pinned_cpu(host) ||
      !is_dense_device(device) || !runtime::is_pipeline_enabled() || runtime::is_sync_debug_mode()) {
    return false;
  }
  runtime::flush_recorded();
  const c10::StreamId stream = runtime::current_stream_id();
  memory::AccessSet access_set;
  access_set.add(device.storage().unsafeGetStorageImpl(), /*written=*/to_device);
  const std::size_t worth = to_device ? g_worth_queue_to_device.load() : kWorthQueue;
  if (runtime::is_queue_idle(stream) && !runtime::is_queue_all() && device.nbytes() < worth &&
      !access_set.has_conflicts(stream)) {
    return false;
  }
  if (!at::is_expandable_to(source.sizes(), self.sizes())) {
    return false;  // the caller then copies at once, which throws
  }
  runtime::release_finished_work();
  engine::Call call = engine::make_host_copy(plan(), self, source, [](c10::StorageImpl* storage) {
    memory::mark_used_later(storage);
    return engine::make_host_storage(memory::arena().to_host(storage->data_ptr().get()), storage->nbytes());
  });
  access_set.enqueue(
      stream, std::make_unique<CopyWork>(std::move(call), host.storage()), /*retain_memory=*/true);
  return true;
}

void copy_in_order(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const bool to_host = !kernels::is_device_tensor(self);
  if (source.numel() == 0) {
    const runtime::InlineScope scope;  // do not wait: an empty copy accesses no memory
    copy_now(self, source, non_blocking, /*throw_errors=*/false);
    return;
  }
  if (const std::shared_ptr<graph::CaptureRecording> recording = graph::current_capture_recording()) {
    const bool repeatable = !to_host || (non_blocking && is_pinned_cpu(self));
    const bool dense = (to_host || is_dense_device(self)) && (to_host ? is_dense_device(source) : true) &&
                       source.layout() == at::kStrided;
    if (repeatable && dense) {
      recording->record_host_copy(self, source, [&] {
        const runtime::InlineScope scope;
        copy_now(self, source, non_blocking, /*throw_errors=*/false);
      });
      return;
    }
  }
  if (non_blocking && enqueue_copy(self, source)) {
    return;
  }
  if (!to_host && graph::is_lazy() && is_dense_device(self) &&
      graph::is_unused_by_pending_work(self.storage().unsafeGetStorageImpl())) {
    const runtime::InlineScope scope;
    copy_now(self, source, non_blocking, /*throw_errors=*/false);
    memory::block_of(self.storage().data_ptr())->host_written = true;
    return;
  }
  copy_now(self, source, non_blocking, /*throw_errors=*/to_host);
}

// Either tensor may be a CPU tensor. The CPU's copy kernel receives host aliases and host tensors; it
// converts dtypes, resolves conj and neg bits, and broadcasts.
at::Tensor& copy_between_devices(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 21;
  const bool needs_ordering = runtime::is_work_pending() || non_blocking || self.numel() >= kLarge;
  if (C10_LIKELY(!needs_ordering)) {
    copy_now(self, source, non_blocking, /*throw_errors=*/false);
  } else if (kernels::is_device_tensor(self) && kernels::is_device_tensor(source)) {
    static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
    torch::jit::Stack stack{self, source, non_blocking};
    kernel(op)(op, c10::DispatchKeySet(c10::DispatchKey::DEVICE_KEY), &stack);
  } else {
    copy_in_order(self, source, non_blocking);
  }
  return self;
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (C10_UNLIKELY(kernels::has_hardware_limits())) {
    return copy_between_devices(self, kernels::round_source_to_hardware(self, source), non_blocking);
  }
  return copy_between_devices(self, source, non_blocking);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& destination, bool non_blocking) {
  at::Tensor target = destination;
  copy_(target, self, non_blocking);
  return destination;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& destination) {
  destination.resize_(self.sizes());
  return copy_from(self, destination, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  kernels::HostCall call(/*redirect=*/false, /*throw_errors=*/true);
  const at::Tensor host = call.host(self, kernels::Access::Read, "aten::_local_scalar_dense");
  runtime::TraceSpan span(runtime::TraceKind::Copy, kernels::copy_label(true, false));
  span.add_bytes(host.nbytes());
  return at::native::_local_scalar_dense_cpu(host);
}

// For a copy to the CPU, replaces torch's _to_copy(), which would put the result on the device of the
// quantized tensor.
at::Tensor quantized_to_copy(const at::Tensor& self,
                             std::optional<at::ScalarType> dtype,
                             std::optional<at::Layout> layout,
                             std::optional<at::Device> device,
                             std::optional<bool> pin_memory,
                             bool non_blocking,
                             std::optional<at::MemoryFormat> memory_format) {
  if (!device.has_value() || !device->is_cpu()) {
    return at::native::_to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format);
  }
  const auto options = self.options().device(at::kCPU);
  at::Tensor result =
      self.qscheme() == at::kPerTensorAffine
          ? at::_empty_affine_quantized(self.sizes(), options, self.q_scale(), self.q_zero_point())
          : at::_empty_per_channel_affine_quantized(self.sizes(),
                                                    self.q_per_channel_scales().cpu(),
                                                    self.q_per_channel_zero_points().cpu(),
                                                    self.q_per_channel_axis(),
                                                    options);
  return copy_(result, self, /*non_blocking=*/false);
}

TORCH_LIBRARY_IMPL(aten, DEVICE_KEY, m) {
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
}

TORCH_LIBRARY_IMPL(aten, QUANTIZED_DEVICE_KEY, m) {
  m.impl("_to_copy", quantized_to_copy);
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
}

}  // namespace

void set_copy_queue(bool to_device, bool to_host, std::size_t smallest) {
  g_queues_to_device = to_device;
  g_queues_to_host = to_host;
  g_worth_queue_to_device = smallest;
}

}  // namespace hpu_reference::dispatch
