// One call of a CPU kernel on host aliases of device tensors.
//
//   device tensor --host()--> CPU tensor over the same bytes --CPU kernel--> CPU result in arena memory
//                                                                --device()--> device tensor, without a copy
//
// Arguments that share a storage also share it on the host side. finish() writes changes of the metadata or
// storage of written arguments back to the device tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <unordered_map>

#include "device_key.h"
#include "memory/allocation_redirect.h"

namespace hpu_reference::kernels {

// Returns true for a device tensor of any layout.
inline bool is_device_tensor(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has_backend(c10::BackendComponent::DEVICE_KEY_BIT);
}

enum class Access { Read, Write };

// One call of a CPU kernel; see above.
class HostCall {
 public:
  // Waits for earlier queued or recorded work of the stream. host() then waits for work of other streams that
  // uses the argument's memory.
  //   redirect: allocations of the kernel use device memory. Disable it for kernels that return no tensor.
  //   throw_errors: the caller reads data on the host, so errors of earlier work are thrown here.
  //   recorder_declined: the recorder of the current capture has already declined this call.
  // If `recorder_declined` is false, throws if a capture would have to record the call. Another thread may
  // have begun this capture after the caller looked for a recorder.
  explicit HostCall(bool redirect = true, bool throw_errors = false, bool recorder_declined = false);
  // Writes back out= arguments that a kernel resized before it threw, as the CPU does.
  ~HostCall();
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  // Returns the host alias of the tensor for the kernel. `name` is the operator's name, for messages.
  at::Tensor host(const at::Tensor& tensor, Access access, const char* name);

  // Ends the redirection of allocations. Call it after the kernel and before converting results.
  void kernel_done();

  // Returns the device tensor for a result of the kernel: the argument itself, a view of it, or the result
  // turned into a device tensor in place. `holders`: the number of references to the result that this call
  // holds.
  at::Tensor device(at::Tensor&& result, std::size_t holders = 1);

  // Writes changed metadata and storages back to the written arguments.
  void finish();

  // Allows or rejects CPU tensors of one or more dimensions as the arguments that follow.
  void allow_cpu_tensors(bool allowed) {
    cpu_tensors_allowed_ = allowed;
  }

  // Does not wait for work that only reads the following arguments, although their access is Write. The
  // caller must know that the call does not change their values.
  void assume_values_unchanged() {
    values_unchanged_ = true;
  }

  // Accepts tensors that are larger than their storage. resize_() needs this, because it enlarges the
  // storage.
  void allow_short_storages() {
    short_storages_allowed_ = true;
  }

 private:
  friend class NonStridedLayouts;

  struct StoragePair {
    c10::StorageImpl* device;  // storage of an argument or of a copied result
    c10::intrusive_ptr<c10::StorageImpl> host;
    const void* address;  // address of the host storage before the kernel ran
    std::size_t bytes;
    bool argument;
    c10::intrusive_ptr<c10::StorageImpl> replaced = {};  // `device`, if set_() detached it from its tensor
  };
  struct TensorPair {
    at::Tensor device;
    at::Tensor host;
    bool written;
  };

  c10::intrusive_ptr<c10::StorageImpl> host_storage(c10::StorageImpl* device,
                                                    Access access,
                                                    const char* name);
  at::Tensor host_dense(const at::Tensor& tensor, Access access, const char* name);
  void check_storage(const c10::TensorImpl* tensor, const char* name) const;
  at::Tensor cpu_argument(const at::Tensor& tensor, Access access, const char* name) const;
  void adopt_storage_of(c10::TensorImpl* impl, bool has_other_owners);
  c10::StorageImpl* device_storage_for(c10::StorageImpl* host) const;
  void write_back(const TensorPair& pair);
  void write_back_all(bool failed);

  c10::impl::ExcludeDispatchKeyGuard keys_;
  memory::AllocationRedirect redirect_;
  const bool throw_errors_;
  const char* name_ = "an operator";  // operator of the latest argument
  void add(StoragePair&& pair);
  void add(TensorPair&& pair);
  void release_arguments();
  const TensorPair* find_device_tensor(const c10::TensorImpl* device) const;
  const TensorPair* find_host_tensor(const c10::TensorImpl* host) const;
  const StoragePair* find_device_storage(const c10::StorageImpl* device) const;
  const StoragePair* find_host_storage(const c10::StorageImpl* host) const;

  // Maps the address of a device or host object to the index of its pair. Used only for calls with many
  // tensors.
  using Positions = std::unique_ptr<std::unordered_map<const void*, std::size_t>>;

  c10::SmallVector<StoragePair, 6> storages_;
  c10::SmallVector<TensorPair, 6> tensors_;
  Positions tensor_positions_;
  Positions storage_positions_;
  bool cpu_tensors_allowed_ = false;
  bool short_storages_allowed_ = false;
  bool values_unchanged_ = false;
  bool finished_ = false;
};

// Returns the host alias of a dense strided tensor, for code that reads or writes its bytes itself.
at::Tensor host_view(const at::Tensor& tensor);

}  // namespace hpu_reference::kernels
