// Interposes the guard of a device: torch's queries about streams, events and memory.
#include "device_guard.h"

#include <c10/core/Device.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <map>
#include <optional>

namespace mutation {

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using c10::impl::DeviceGuardImplInterface;

constexpr int kMaxMutants = 64;

// A mutant's number is its index in the list passed to `install_guard`.
std::map<std::pair<std::string, std::string>, int> g_numbers;
std::array<std::atomic<bool>, kMaxMutants> g_triggered{};
std::atomic<bool> g_observing_guard{false};
std::atomic<int> g_enabled_mutant{-1};
std::atomic<int64_t> g_triggered_calls{0};

// One possible mutant of the guard. If a call of a guard function meets the mutant's trigger condition, the
// function calls `trigger`, which records the call and returns whether the mutant is enabled.
class GuardMutant {
 public:
  GuardMutant(const char* point, const char* mutation_operator) {
    const auto found = g_numbers.find({std::string("guard::") + point, mutation_operator});
    number_ = found == g_numbers.end() ? kMaxMutants : found->second;
  }
  bool trigger() const {
    if (number_ == kMaxMutants) {
      return false;
    }
    if (g_observing_guard.load(std::memory_order_relaxed)) {
      g_triggered[static_cast<std::size_t>(number_)].store(true, std::memory_order_relaxed);
    }
    if (g_enabled_mutant.load(std::memory_order_relaxed) != number_) {
      return false;
    }
    g_triggered_calls++;
    return true;
  }

 private:
  int number_;
};

class MutatedGuard final : public DeviceGuardImplInterface {
 public:
  explicit MutatedGuard(const DeviceGuardImplInterface* original) : original_(original) {
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
    if (is_inactive()) {
      return right;
    }
    const std::optional<Stream> default_stream = default_stream_of(right.device());
    return default_stream && right != *default_stream && default_returned_.trigger() ? *default_stream
                                                                                     : right;
  }
  Stream getDefaultStream(Device device) const override {
    return original_->getDefaultStream(device);
  }
  Stream getStreamFromGlobalPool(Device device, bool high) const override {
    return original_->getStreamFromGlobalPool(device, high);
  }
  Stream getNewStream(Device device, int priority) const override {
    const std::optional<Stream> default_stream =
        is_inactive() ? std::nullopt : default_stream_of(with_index(device));
    return default_stream && new_stream_.trigger() ? *default_stream
                                                   : original_->getNewStream(device, priority);
  }
  Stream exchangeStream(Stream stream) const override {
    if (is_inactive()) {
      return original_->exchangeStream(stream);
    }
    const Stream before = original_->getStream(stream.device());
    if (before != stream && not_set_.trigger()) {
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
    if (recorded_.trigger()) {
      original_->record(event, original_->getNewStream(stream.device(), 0), index, flag);
    } else {
      original_->record(event, stream, index, flag);
    }
  }
  void block(void* event, const Stream& stream) const override {
    if (block_dropped_.trigger()) {
      return;
    }
    if (host_waits_.trigger()) {
      original_->synchronizeEvent(event);
    }
    original_->block(event, stream);
  }
  bool queryEvent(void* event) const override {
    return mutated_query_result(event_early_, event_waits_, event_never_, original_->queryEvent(event), [&] {
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
    return mutated_query_result(
        stream_early_, stream_waits_, stream_never_, original_->queryStream(stream), [&] {
          original_->synchronizeStream(stream);
        });
  }
  void synchronizeStream(const Stream& stream) const override {
    if ((is_inactive() || original_->queryStream(stream)) || !stream_dropped_.trigger()) {
      original_->synchronizeStream(stream);
    }
  }
  bool isStreamCapturing(const Stream& stream) const override {
    return original_->isStreamCapturing(stream);
  }
  void synchronizeEvent(void* event) const override {
    if ((is_inactive() || original_->queryEvent(event)) || !event_dropped_.trigger()) {
      original_->synchronizeEvent(event);
    }
  }
  void synchronizeDevice(const DeviceIndex index) const override {
    if (!device_dropped_.trigger()) {
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
    if (zero_.trigger()) {
      return 0;
    }
    if (negative_.trigger()) {
      return -right;
    }
    return micro_.trigger() ? right * 1000 : right;
  }

 private:
  static bool is_inactive() {
    return g_enabled_mutant.load(std::memory_order_relaxed) < 0 &&
           !g_observing_guard.load(std::memory_order_relaxed);
  }
  // Return the default stream of a device, or nothing if the device has no default stream.
  std::optional<Stream> default_stream_of(Device device) const {
    try {
      return original_->getDefaultStream(device);
    } catch (const c10::Error&) {
      return std::nullopt;
    }
  }
  Device with_index(Device device) const {
    return device.has_index() ? device : original_->getDevice();
  }
  template <class Wait>
  static bool mutated_query_result(
      const GuardMutant& early, const GuardMutant& waits, const GuardMutant& never, bool right, Wait wait) {
    if (!right && early.trigger()) {
      return true;
    }
    if (!right && waits.trigger()) {
      wait();
      return true;
    }
    if (right && never.trigger()) {
      return g_triggered_calls.load() % 2 == 0;
    }
    return right;
  }

  const DeviceGuardImplInterface* original_;
  const GuardMutant default_returned_{"getStream", "default-returned"};
  const GuardMutant new_stream_{"getNewStream", "one-stream"};
  const GuardMutant not_set_{"exchangeStream", "stream-not-set"};
  const GuardMutant recorded_{"record", "on-an-idle-stream"};
  const GuardMutant block_dropped_{"block", "wait-dropped"};
  const GuardMutant host_waits_{"block", "host-waits"};
  const GuardMutant event_early_{"queryEvent", "ready-too-early"};
  const GuardMutant event_waits_{"queryEvent", "query-waits"};
  const GuardMutant event_never_{"queryEvent", "never-ready"};
  const GuardMutant stream_early_{"queryStream", "ready-too-early"};
  const GuardMutant stream_waits_{"queryStream", "query-waits"};
  const GuardMutant stream_never_{"queryStream", "never-ready"};
  const GuardMutant stream_dropped_{"synchronizeStream", "wait-dropped"};
  const GuardMutant event_dropped_{"synchronizeEvent", "wait-dropped"};
  const GuardMutant device_dropped_{"synchronizeDevice", "wait-dropped"};
  const GuardMutant zero_{"elapsedTime", "time-zero"};
  const GuardMutant negative_{"elapsedTime", "time-negative"};
  const GuardMutant micro_{"elapsedTime", "time-in-microseconds"};
};

}  // namespace

void install_guard(const std::string& device,
                   const std::vector<std::pair<std::string, std::string>>& mutants) {
  TORCH_CHECK(mutants.size() < kMaxMutants,
              "the guard supports at most ",
              kMaxMutants - 1,
              " mutants, not ",
              mutants.size());
  for (std::size_t i = 0; i < mutants.size(); i++) {
    g_numbers[mutants[i]] = static_cast<int>(i);
  }
  auto& slot = c10::impl::device_guard_impl_registry[static_cast<std::size_t>(Device(device).type())];
  // The new guard is never destroyed, because torch never destroys guards.
  slot.store(new MutatedGuard(slot.load()));
}

void observe_guard(bool on) {
  g_observing_guard.store(on);
}

std::vector<int> take_triggered_guard_mutants() {
  std::vector<int> triggered;
  for (int i = 0; i < kMaxMutants; i++) {
    if (g_triggered[static_cast<std::size_t>(i)].exchange(false)) {
      triggered.push_back(i);
    }
  }
  return triggered;
}

void activate_guard(int mutant) {
  g_triggered_calls = 0;
  g_enabled_mutant.store(mutant);
}

int64_t deactivate_guard() {
  g_enabled_mutant.store(-1);
  return g_triggered_calls.load();
}

}  // namespace mutation
