// Memory, the current device and the hooks through which torch finds the device.
#include "tiny.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Storage.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>

namespace tiny {

int development_stage() {
  static const int value = [] {
    const char* text = std::getenv("TINY_STAGE");
    return text == nullptr ? 99 : std::atoi(text);
  }();
  return value;
}

namespace {

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device(kDevice, 0);
    if (bytes == 0) {
      return {nullptr, nullptr, &release, device};
    }
    void* block = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "tiny: no memory for ", bytes, " bytes");
    auto* address = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(block) | kWindow);
    return {address, block, &release, device};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &release;
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to_host_address(to), to_host_address(from), bytes);
  }

  static void release(void* block) {
    std::free(block);
  }
};

DeviceAllocator memory;

struct DeviceGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kDevice;
  }
  c10::Device exchangeDevice(c10::Device) const override {
    return {kDevice, 0};
  }
  c10::Device getDevice() const override {
    return {kDevice, 0};
  }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() <= 0, "tiny has one device, number 0; ", device, " does not exist");
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {
  }
  c10::Stream getStream(c10::Device) const override {
    return c10::Stream(c10::Stream::DEFAULT, {kDevice, 0});
  }
  c10::Stream exchangeStream(c10::Stream) const override {
    return c10::Stream(c10::Stream::DEFAULT, {kDevice, 0});
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return 1;
  }
  // Does nothing from stage 3 on, because every kernel has finished when its call returns. Before stage 3,
  // torch's default raises an error.
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    if (development_stage() < 3) {
      DeviceGuardImplInterface::synchronizeDevice(device);
    }
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, DeviceGuard);

struct DeviceHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return true;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return 1;
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return 0;
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override {
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override {
    return 0;
  }
  void setCurrentDevice(c10::DeviceIndex) const override {
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto fresh = memory.allocate(bytes);
    const auto kept = std::min(bytes, storage.nbytes());
    if (kept > 0) {
      memory.copy_data(fresh.mutable_get(), storage.data(), kept);
    }
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(fresh));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

}  // namespace

c10::Allocator* allocator() {
  return &memory;
}

namespace {

const bool registered = [] {
  c10::SetAllocator(kDevice, &memory);
  if (development_stage() >= 2) {
    at::RegisterPrivateUse1HooksInterface(new DeviceHooks());
  }
  return true;
}();

}  // namespace
}  // namespace tiny
