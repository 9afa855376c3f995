// The device guard: current device and stream, events and synchronization for torch.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "device_key.h"
#include "memory/allocator.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/queue.h"
#include "runtime/stream.h"
#include "runtime/thread_state.h"
#include "runtime/vector_clock.h"
#include "torch_release.h"

namespace hpu_reference::device {

namespace {

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  static constexpr c10::DeviceType static_type = c10::DeviceType::DEVICE_KEY;

  c10::DeviceType type() const override {
    return static_type;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    setDevice(device);
    return getDevice();
  }
  c10::Device getDevice() const override {
    return {static_type, 0};
  }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == static_type, "expected a device of type " DEVICE_NAME ", but got ", device);
    runtime::check_exists(device.index());
    runtime::record_backward_thread();
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {
  }
  // Returns 1, the number of devices of this process, not the number of Gaudi modules in the machine. torch
  // starts one backward thread per device, and a thread that is still starting when the interpreter exits
  // aborts the process.
  c10::DeviceIndex deviceCount() const noexcept override {
    return runtime::device_count() > 0 ? 1 : 0;
  }
#if HPU_TORCH_AT_LEAST(2, 10)
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    return {};  // all dtypes
  }
#endif

  c10::Stream getStream(c10::Device) const HPU_GUARD_NOEXCEPT override {
    return runtime::stream_of(runtime::current_stream_id());
  }
  c10::Stream getDefaultStream(c10::Device) const override {
    return runtime::stream_of(runtime::kDefaultStream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device);
  }
  c10::Stream getNewStream(c10::Device device, int = 0) const override {
    runtime::checked_index(device.index());
    runtime::acquire();
    return runtime::stream_of(runtime::new_stream());
  }
  c10::Stream exchangeStream(c10::Stream stream) const HPU_GUARD_NOEXCEPT override {
    return runtime::stream_of(runtime::exchange_stream(stream.id()));
  }
  bool queryStream(const c10::Stream& stream) const override {
    runtime::flush_recorded();
    const bool idle = runtime::is_stream_idle(stream.id());
    if (idle) {
      runtime::order_host_after(runtime::clock_of(runtime::queue_of(stream.id())));
    }
    return idle;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    runtime::synchronize_stream(stream.id());
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    runtime::checked_index(index);
    runtime::synchronize_device();
  }
  void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override {
    memory::device_allocator()->recordStream(pointer, stream);
  }

  void record(void** event,
              const c10::Stream& stream,
              const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) {
      *event = new runtime::Event();
    }
    static_cast<runtime::Event*>(*event)->record(stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) {
      static_cast<runtime::Event*>(event)->block(stream.id());
    }
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || static_cast<runtime::Event*>(event)->query();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      static_cast<runtime::Event*>(event)->synchronize();
    }
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<runtime::Event*>(event);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "Both events must be recorded before calculating elapsed time.");
    return static_cast<runtime::Event*>(end)->elapsed_since(*static_cast<runtime::Event*>(start));
  }
};

C10_REGISTER_GUARD_IMPL(DEVICE_KEY, Guard)

}  // namespace

}  // namespace hpu_reference::device
