// The device's hooks: torch.accelerator, generators and pinned memory.
#include "device_key.h"

#ifdef HPU_REFERENCE_PRIVATEUSE1
#include <ATen/detail/PrivateUse1HooksInterface.h>
#else
#include <ATen/detail/HPUHooksInterface.h>
#endif

#include "memory/host_storage.h"
#include "memory/pinned.h"
#include "runtime/device.h"
#include "runtime/generator.h"

namespace at {

#ifdef HPU_REFERENCE_PRIVATEUSE1
struct Hooks final : PrivateUse1HooksInterface {
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    hpu_reference::memory::resize_storage(storage.unsafeGetStorageImpl(), bytes);
  }
#else
struct Hooks final : HPUHooksInterface {
  explicit Hooks(HPUHooksArgs) {
  }
  bool hasHPU() const override {
    return true;
  }
#endif

  void init() const override {
    hpu_reference::runtime::acquire();
  }
  bool isBuilt() const {
    return true;
  }
  bool isAvailable() const {
    return deviceCount() > 0;
  }
  bool hasPrimaryContext(DeviceIndex index) const override {
    return index == 0 && hpu_reference::runtime::is_initialized();
  }
  DeviceIndex deviceCount() const override {
    return hpu_reference::runtime::device_count();
  }
  void setCurrentDevice(DeviceIndex index) const override {
    hpu_reference::runtime::check_exists(index);
  }
  DeviceIndex getCurrentDevice() const override {
    return 0;
  }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    hpu_reference::runtime::check_exists(index);
    return 0;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    hpu_reference::runtime::check_exists(index);
    return 0;
  }
  Device getDeviceFromPtr(void*) const override {
    return Device(DeviceType::DEVICE_KEY, 0);
  }
  bool isPinnedPtr(const void* data) const override {
    return hpu_reference::memory::is_pinned(data);
  }
  Allocator* getPinnedMemoryAllocator() const override {
    return hpu_reference::memory::pinned_allocator();
  }
  const Generator& getDefaultGenerator(DeviceIndex index = -1) const override {
    // torch.accelerator.random passes the index of each Gaudi module of the machine. The index of any module
    // denotes the device of this process, as in set_device_index().
    hpu_reference::runtime::check_exists(index);
    return hpu_reference::runtime::default_generator();
  }
  Generator getNewGenerator(DeviceIndex index = -1) const override {
    hpu_reference::runtime::checked_index(index);
    return at::make_generator<hpu_reference::runtime::Generator>(c10::default_rng_seed_val);
  }
};

#ifdef HPU_REFERENCE_PRIVATEUSE1
namespace {
const bool g_registered = [] {
  static Hooks hooks;
  RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();
}  // namespace
#else
// torch looks the hooks up by their class name.
using HPUHooks = Hooks;
REGISTER_HPU_HOOKS(HPUHooks)
#endif

}  // namespace at
