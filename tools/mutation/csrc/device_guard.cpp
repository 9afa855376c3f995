// Interposes the guard of a device: torch's queries about streams, events and memory.
#include "device_guard.h"

#include <c10/core/Device.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <map>
#include <optional>

namespace power {

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using c10::impl::DeviceGuardImplInterface;

constexpr int kMost = 64;

// A mutant's number is its index in the list passed to `install_guard`.
std::map<std::pair<std::string, std::string>, int> g_numbers;
std::array<std::atomic<bool>, kMost> g_met_of_guard{};
std::atomic<bool> g_observing_guard{false};
std::atomic<int> g_armed{-1};
std::atomic<int64_t> g_count{0};

// One possible mutant of the guard. If a call of a guard function meets the mutant's trigger condition, the
// function calls `is_wrong`, which records the call and returns whether the mutant is enabled.
class Spot {
 public:
  Spot(const char* place, const char* kind) {
    const auto found = g_numbers.find({std::string("guard::") + place, kind});
    number_ = found == g_numbers.end() ? kMost : found->second;
  }
  bool is_wrong() const {
    if (number_ == kMost) {
      return false;
    }
    if (g_observing_guard.load(std::memory_order_relaxed)) {
      g_met_of_guard[static_cast<std::size_t>(number_)].store(true, std::memory_order_relaxed);
    }
    if (g_armed.load(std::memory_order_relaxed) != number_) {
      return false;
    }
    g_count++;
    return true;
  }

 private:
  int number_;
};

class Guard final : public DeviceGuardImplInterface {
 public:
  explicit Guard(const DeviceGuardImplInterface* original) : original_(original) {
  }

  c10::DeviceType type() const override {
    return original_->type();
  }
  Device exchangeDevice(Device device) const override {
    return original_->exchangeDevice(device);
  }
  Device getDevice() const override {
    return original_->getDevice();
  }
  void setDevice(Device device) const override {
    original_->setDevice(device);
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    original_->uncheckedSetDevice(device);
  }
  Stream getStream(Device device) const override {
    const Stream right = original_->getStream(device);
    if (quiet()) {
      return right;
    }
    const std::optional<Stream> first = default_of(right.device());
    return first && right != *first && default_returned_.is_wrong() ? *first : right;
  }
  Stream getDefaultStream(Device device) const override {
    return original_->getDefaultStream(device);
  }
  Stream getStreamFromGlobalPool(Device device, bool high) const override {
    return original_->getStreamFromGlobalPool(device, high);
  }
  Stream getNewStream(Device device, int priority) const override {
    const std::optional<Stream> first = quiet() ? std::nullopt : default_of(located(device));
    return first && made_.is_wrong() ? *first : original_->getNewStream(device, priority);
  }
  Stream exchangeStream(Stream stream) const override {
    if (quiet()) {
      return original_->exchangeStream(stream);
    }
    const Stream before = original_->getStream(stream.device());
    if (before != stream && not_set_.is_wrong()) {
      return before;
    }
    return original_->exchangeStream(stream);
  }
  void* getStreamNativeHandle(const Stream stream) const override {
    return original_->getStreamNativeHandle(stream);
  }
  void destroyEvent(void* event, const DeviceIndex index) const noexcept override {
    original_->destroyEvent(event, index);
  }
  void record(void** event,
              const Stream& stream,
              const DeviceIndex index,
              const c10::EventFlag flag) const override {
    if (recorded_.is_wrong()) {
      original_->record(event, original_->getNewStream(stream.device(), 0), index, flag);
    } else {
      original_->record(event, stream, index, flag);
    }
  }
  void block(void* event, const Stream& stream) const override {
    if (block_dropped_.is_wrong()) {
      return;
    }
    if (host_waits_.is_wrong()) {
      original_->synchronizeEvent(event);
    }
    original_->block(event, stream);
  }
  bool queryEvent(void* event) const override {
    return queried(event_early_, event_waits_, event_never_, original_->queryEvent(event), [&] {
      original_->synchronizeEvent(event);
    });
  }
  DeviceIndex deviceCount() const noexcept override {
    return original_->deviceCount();
  }
  c10::DeviceCapability getDeviceCapability(Device device) const override {
    return original_->getDeviceCapability(device);
  }
  bool queryStream(const Stream& stream) const override {
    return queried(stream_early_, stream_waits_, stream_never_, original_->queryStream(stream), [&] {
      original_->synchronizeStream(stream);
    });
  }
  void synchronizeStream(const Stream& stream) const override {
    if ((quiet() || original_->queryStream(stream)) || !stream_dropped_.is_wrong()) {
      original_->synchronizeStream(stream);
    }
  }
  bool isStreamCapturing(const Stream& stream) const override {
    return original_->isStreamCapturing(stream);
  }
  void synchronizeEvent(void* event) const override {
    if ((quiet() || original_->queryEvent(event)) || !event_dropped_.is_wrong()) {
      original_->synchronizeEvent(event);
    }
  }
  void synchronizeDevice(const DeviceIndex index) const override {
    if (!device_dropped_.is_wrong()) {
      original_->synchronizeDevice(index);
    }
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const Stream& stream) const override {
    original_->recordDataPtrOnStream(memory, stream);
  }
  double elapsedTime(void* begin, void* end, const DeviceIndex index) const override {
    const double right = original_->elapsedTime(begin, end, index);
    if (right == 0) {
      return right;
    }
    if (zero_.is_wrong()) {
      return 0;
    }
    if (negative_.is_wrong()) {
      return -right;
    }
    return micro_.is_wrong() ? right * 1000 : right;
  }

 private:
  static bool quiet() {
    return g_armed.load(std::memory_order_relaxed) < 0 && !g_observing_guard.load(std::memory_order_relaxed);
  }
  // Return the default stream of a device, or nothing if the device has no default stream.
  std::optional<Stream> default_of(Device device) const {
    try {
      return original_->getDefaultStream(device);
    } catch (const c10::Error&) {
      return std::nullopt;
    }
  }
  Device located(Device device) const {
    return device.has_index() ? device : original_->getDevice();
  }
  template <class Wait>
  static bool queried(const Spot& early, const Spot& waits, const Spot& never, bool right, Wait wait) {
    if (!right && early.is_wrong()) {
      return true;
    }
    if (!right && waits.is_wrong()) {
      wait();
      return true;
    }
    if (right && never.is_wrong()) {
      return g_count.load() % 2 == 0;
    }
    return right;
  }

  const DeviceGuardImplInterface* original_;
  const Spot default_returned_{"getStream", "default-returned"};
  const Spot made_{"getNewStream", "one-stream"};
  const Spot not_set_{"exchangeStream", "stream-not-set"};
  const Spot recorded_{"record", "on-an-idle-stream"};
  const Spot block_dropped_{"block", "wait-dropped"};
  const Spot host_waits_{"block", "host-waits"};
  const Spot event_early_{"queryEvent", "ready-too-early"};
  const Spot event_waits_{"queryEvent", "query-waits"};
  const Spot event_never_{"queryEvent", "never-ready"};
  const Spot stream_early_{"queryStream", "ready-too-early"};
  const Spot stream_waits_{"queryStream", "query-waits"};
  const Spot stream_never_{"queryStream", "never-ready"};
  const Spot stream_dropped_{"synchronizeStream", "wait-dropped"};
  const Spot event_dropped_{"synchronizeEvent", "wait-dropped"};
  const Spot device_dropped_{"synchronizeDevice", "wait-dropped"};
  const Spot zero_{"elapsedTime", "time-zero"};
  const Spot negative_{"elapsedTime", "time-negative"};
  const Spot micro_{"elapsedTime", "time-in-microseconds"};
};

}  // namespace

void install_guard(const std::string& device,
                   const std::vector<std::pair<std::string, std::string>>& faults) {
  TORCH_CHECK(
      faults.size() < kMost, "the guard supports at most ", kMost - 1, " mutants, not ", faults.size());
  for (std::size_t i = 0; i < faults.size(); i++) {
    g_numbers[faults[i]] = static_cast<int>(i);
  }
  auto& slot = c10::impl::device_guard_impl_registry[static_cast<std::size_t>(Device(device).type())];
  // The new guard is never destroyed, because torch never destroys guards.
  slot.store(new Guard(slot.load()));
}

void observe_guard(bool on) {
  g_observing_guard.store(on);
}

std::vector<int> take_met_of_guard() {
  std::vector<int> met;
  for (int i = 0; i < kMost; i++) {
    if (g_met_of_guard[static_cast<std::size_t>(i)].exchange(false)) {
      met.push_back(i);
    }
  }
  return met;
}

void activate_guard(int fault) {
  g_count = 0;
  g_armed.store(fault);
}

int64_t deactivate_guard() {
  g_armed.store(-1);
  return g_count.load();
}

}  // namespace power
