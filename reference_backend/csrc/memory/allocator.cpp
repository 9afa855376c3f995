#include "memory/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>

#include "runtime/device.h"
#include "runtime/fork.h"
#include "runtime/notices.h"
#include "runtime/queue.h"
#include "runtime/stream.h"

namespace hpu_reference::memory {

namespace {

const c10::Device kDevice(c10::DeviceType::HPU, 0);

BlockPool* g_pool = nullptr;  // never destroyed: tensors may outlive static destruction

// Where CPU allocations of this thread go.
enum Detour : int { kHeap, kArena, kLogged, kDonated };
thread_local int tls_detour = kHeap;
thread_local AllocationLog* tls_log = nullptr;
thread_local DonationScope* tls_donations = nullptr;

void free_block(void* context) {
  // In a forked child the block belongs to the parent.
  if (!runtime::is_forked_child()) {
    g_pool->free(static_cast<Block*>(context));
  }
}

// For scratch blocks the context is the host address: torch's raw_allocate() asks for that.
void free_scratch(void* host) {
  if (!runtime::is_forked_child()) {
    g_pool->free(g_pool->block_at(host));
  }
}

c10::DeleterFnPtr g_free_heap = nullptr;

// What raw_deallocate() calls, which knows the address only.
void free_host(void* host) {
  if (g_pool != nullptr && g_pool->arena().contains_host(host)) {
    free_scratch(host);
  } else {
    g_free_heap(host);
  }
}

std::string megabytes(std::int64_t bytes) {
  std::ostringstream text;
  if (bytes < 1 << 20) {
    text << bytes << " bytes";
  } else {
    text.precision(2);
    text << std::fixed << static_cast<double>(bytes) / (1 << 20) << " MiB";
  }
  return text.str();
}

[[noreturn]] void throw_out_of_memory(std::size_t size) {
  const PoolStatistics stats = g_pool->statistics();
  const bool limited = stats.in_use + stats.scratch + static_cast<std::int64_t>(size) > stats.limit;
  // The upper-case part is what clients look for to retry with a smaller batch.
  TORCH_CHECK_WITH(OutOfMemoryError,
                   false,
                   "HPU out of memory: tried to allocate ",
                   megabytes(static_cast<std::int64_t>(size)),
                   " with ",
                   megabytes(stats.in_use),
                   " in use of a limit of ",
                   megabytes(stats.limit),
                   limited ? "" : " but no free range is large enough (largest: ",
                   limited ? "" : megabytes(stats.largest_free),
                   limited ? "" : ")",
                   "; free tensors, use a smaller batch or raise HPU_REFERENCE_MEMORY_LIMIT. ",
                   "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::",
                   size,
                   " (",
                   megabytes(static_cast<std::int64_t>(size)),
                   ")");
}

// What is queued or recorded may hold memory: it runs, then the pool is asked again.
Block* allocate_after_waiting(std::size_t size, bool scratch, bool in_order) {
  const auto start = std::chrono::steady_clock::now();
  Block* block = nullptr;
  if (runtime::needs_attention() && !runtime::is_running_work()) {
    runtime::flush_recorded();
    runtime::drain_all(/*surface=*/false);
    block = g_pool->allocate(size, runtime::current_stream_id(), scratch, in_order);
  }
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  runtime::publish(
      "MEMORY_DEFRAGMENTATION",
      {{"success", block == nullptr ? "false" : "true"}, {"milliseconds", std::to_string(elapsed.count())}});
  if (block == nullptr) {
    throw_out_of_memory(size);
  }
  return block;
}

Block* allocate_block(std::size_t size, bool scratch, bool in_order = true) {
  Block* block = g_pool->allocate(size, runtime::current_stream_id(), scratch, in_order);
  return C10_LIKELY(block != nullptr) ? block : allocate_after_waiting(size, scratch, in_order);
}

class Allocator final : public DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    return allocate_device(size);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;  // the context is a block, not the address
  }
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    runtime::flush_recorded();
    runtime::drain(runtime::current_stream_id(), /*surface=*/false);
    std::memcpy(arena().to_host(destination), arena().to_host(source), count);
  }
  bool initialized() override {
    return is_ready();
  }
  void emptyCache(std::pair<unsigned long long, unsigned long long>) override {
    if (is_ready()) {
      g_pool->empty_cache();
    }
  }
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    runtime::acquire();
    if (Block* block = block_of(pointer)) {
      g_pool->record_stream(block, stream.id());
    }
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override;
  void resetAccumulatedStats(c10::DeviceIndex) override {
    runtime::acquire();
    g_pool->reset_totals();
  }
  void resetPeakStats(c10::DeviceIndex) override {
    runtime::acquire();
    g_pool->reset_peak(false);
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) {
    runtime::acquire();
    const auto stats = g_pool->statistics();
    return {stats.limit - stats.in_use, stats.limit};
  }
};

c10::CachingDeviceAllocator::DeviceStats Allocator::getDeviceStats(c10::DeviceIndex) {
  using statistics::StatType;
  runtime::acquire();
  const PoolStatistics stats = g_pool->statistics();
  c10::CachingDeviceAllocator::DeviceStats result;
  const auto fill = [](statistics::StatArray& array,
                       std::int64_t current,
                       std::int64_t peak,
                       std::int64_t allocated,
                       std::int64_t freed) {
    auto& stat = array[static_cast<std::size_t>(StatType::AGGREGATE)];
    stat.current = current;
    stat.peak = peak;
    stat.allocated = allocated;
    stat.freed = freed;
  };
  fill(result.allocation, stats.active, stats.max_active, stats.total_allocations, stats.total_frees);
  fill(result.active, stats.active, stats.max_active, stats.total_allocations, stats.total_frees);
  fill(result.allocated_bytes, stats.in_use, stats.max_in_use, stats.bytes_allocated, stats.bytes_freed);
  fill(result.active_bytes, stats.in_use, stats.max_in_use, stats.bytes_allocated, stats.bytes_freed);
  fill(result.requested_bytes, stats.in_use, stats.max_in_use, stats.bytes_allocated, stats.bytes_freed);
  fill(result.reserved_bytes, stats.limit, stats.limit, stats.limit, 0);
  fill(result.segment, 1, 1, 1, 0);
  result.num_alloc_retries = stats.retries;
  result.num_ooms = stats.out_of_memory;
  result.num_device_alloc = 1;
  return result;
}

Allocator g_allocator;

REGISTER_ALLOCATOR(c10::DeviceType::HPU, &g_allocator)

// Sits in front of torch's CPU allocator; costs ordinary CPU allocations one thread-local read.
}  // namespace

class DetourAllocator final : public c10::Allocator {
 public:
  explicit DetourAllocator(c10::Allocator* heap) : heap_(heap) {
  }

  c10::DataPtr allocate(std::size_t size) override {
    if (tls_detour == kHeap) {
      return heap_->allocate(size);
    }
    if (tls_detour == kDonated) {
      return donated(size);
    }
    if (size == 0) {
      return {nullptr, c10::Device(c10::DeviceType::CPU)};
    }
    // Written at once: not memory that queued work of another thread may still read.
    Block* block = allocate_block(size, /*scratch=*/true, /*in_order=*/false);
    void* host = arena().to_host(block->device);
    if (C10_UNLIKELY(tls_detour == kLogged)) {
      tls_log->add(host);
    }
    return {host, host, &free_scratch, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &free_host;
  }
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    std::memcpy(destination, source, count);
  }

 private:
  // A size of 0 takes no position, as where positions are learned.
  c10::DataPtr donated(std::size_t size) {
    if (size > 0) {
      const int position = tls_donations->position_++;
      for (const Donation& donation : tls_donations->donations_) {
        if (donation.position == position && size <= donation.bytes) {
          void* host = const_cast<void*>(donation.storage->data());
          return {host, host, &leave_donation, c10::Device(c10::DeviceType::CPU)};
        }
      }
    }
    return heap_->allocate(size);
  }
  static void leave_donation(void*) {
  }

  c10::Allocator* heap_;
};

namespace {
DetourAllocator* g_detour = nullptr;
}

bool is_ready() {
  return g_pool != nullptr && !runtime::is_forked_child();
}

void acquire(std::size_t limit) {
  const Arena arena = map_arena(limit);
  g_pool = new BlockPool(arena, limit, &runtime::is_stream_idle);
}

BlockPool& pool() {
  return *g_pool;
}

const Arena& arena() {
  return g_pool->arena();
}

DeviceAllocator* device_allocator() {
  return &g_allocator;
}

c10::DataPtr allocate_device(std::size_t size, bool in_order) {
  runtime::acquire();
  if (size == 0) {
    return {nullptr, kDevice};
  }
  Block* block = allocate_block(size, /*scratch=*/false, in_order);
  return {block->device, block, &free_block, kDevice};
}

Block* block_of(const c10::DataPtr& pointer) {
  return pointer.get_deleter() == &free_block ? static_cast<Block*>(pointer.get_context()) : nullptr;
}

void touch(const c10::StorageImpl* device) {
  Block* block = block_of(device->data_ptr());
  std::uint64_t never = 0;
  if (block != nullptr) {
    block->recorded_in.compare_exchange_strong(never, UINT64_MAX);
  }
}

void install_host_detour() {
  c10::Allocator* heap = c10::GetCPUAllocator();
  g_free_heap = heap->raw_deleter();
  g_detour = new DetourAllocator(heap);
  c10::SetCPUAllocator(g_detour, /*priority=*/255);
}

HostDetour::HostDetour(bool enabled) : before_(tls_detour) {
  tls_detour = !enabled ? kHeap : tls_log != nullptr ? kLogged : kArena;
}

HostDetour::~HostDetour() {
  tls_detour = before_;
}

void HostDetour::end() {
  tls_detour = before_;
}

AllocationLog::AllocationLog() : before_(tls_log) {
  tls_log = this;
}

AllocationLog::~AllocationLog() {
  tls_log = before_;
}

int AllocationLog::position(const void* address) const {
  // The last one: memory of an earlier one may have been given back and handed out again.
  for (std::size_t i = addresses_.size(); i-- > 0;) {
    if (addresses_[i] == address) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

DonationScope::DonationScope(c10::ArrayRef<Donation> donations)
    : donations_(donations), before_(tls_detour), outer_(tls_donations) {
  tls_donations = this;
  tls_detour = kDonated;
}

DonationScope::~DonationScope() {
  tls_detour = before_;
  tls_donations = outer_;
}

bool adopt_storage(c10::StorageImpl* storage) {
  c10::DataPtr& pointer = storage->_mutable_data_ptr_no_checks();
  if (pointer.get() == nullptr) {
    storage->set_data_ptr_noswap(c10::DataPtr(nullptr, kDevice));
  } else if (pointer.get_deleter() == &free_scratch) {
    Block* block = g_pool->block_at(pointer.get());
    g_pool->promote(block);
    pointer.release_context();
    storage->set_data_ptr_noswap(c10::DataPtr(block->device, block, &free_block, kDevice));
  } else {
    return false;
  }
  storage->set_allocator(&g_allocator);
  return true;
}

c10::intrusive_ptr<c10::StorageImpl> host_storage_of(c10::StorageImpl* device) {
  const c10::DataPtr& pointer = device->data_ptr();
  const std::size_t bytes = device->nbytes();
  Block* block = block_of(pointer);
  const auto make = [&](void* address) {
    return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                 bytes,
                                                 c10::DataPtr(address, c10::Device(c10::DeviceType::CPU)),
                                                 g_detour,
                                                 device->resizable());
  };
  if (block == nullptr) {
    void* address = pointer.get();
    if (address != nullptr) {
      TORCH_CHECK(arena().contains_device(address),
                  "storage at address ",
                  address,
                  " is not memory of the hpu device; make the tensor with device='hpu'");
      address = arena().to_host(address);
    }
    return make(address);
  }
  void* address = arena().to_host(pointer.get());
  c10::StorageImpl* cached = block->host_storage.load(std::memory_order_acquire);
  if (cached == nullptr) {
    auto made = make(address);
    c10::StorageImpl* expected = nullptr;
    if (block->host_storage.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) {
      return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(made.release());
    }
    cached = expected;
  }
  if (C10_UNLIKELY(cached->nbytes() != bytes)) {
    set_bytes(cached, bytes);  // the block has been reused, or its storage shrunk in place
  }
  if (C10_UNLIKELY(cached->resizable() != device->resizable())) {
    cached->set_resizable(device->resizable());
  }
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(cached);
}

void keep_alive_if_kept(c10::StorageImpl* device, const c10::intrusive_ptr<c10::StorageImpl>& host) {
  Block* block = block_of(device->data_ptr());
  c10::StorageImpl* expected = host.get();
  const bool cached = block != nullptr && block->host_storage.load(std::memory_order_relaxed) == expected;
  if (host.use_count() <= (cached ? 2U : 1U) || host->data() == nullptr) {
    return;
  }
  using Owner = c10::intrusive_ptr<c10::StorageImpl>;
  auto* owner = new Owner(Owner::reclaim_copy(device));
  host->set_data_ptr_noswap(c10::DataPtr(
      const_cast<void*>(host->data()),
      owner,
      [](void* context) { delete static_cast<Owner*>(context); },
      c10::Device(c10::DeviceType::CPU)));
  if (cached && block->host_storage.compare_exchange_strong(expected, nullptr)) {
    c10::raw::intrusive_ptr::decref(host.get());
  }
}

void take_resized(c10::StorageImpl* device, c10::StorageImpl* host) {
  const std::size_t bytes = host->nbytes();
  c10::DataPtr fresh = host->set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::DeviceType::CPU)));
  if (Block* old = block_of(device->data_ptr())) {
    // The cached host storage of the old block must not outlive this with a foreign address.
    if (auto* cached = old->host_storage.exchange(nullptr)) {
      c10::raw::intrusive_ptr::decref(cached);
    }
  }
  c10::DataPtr pointer(nullptr, kDevice);
  if (fresh.get_deleter() == &free_scratch) {
    Block* block = pool().block_at(fresh.get());
    fresh.release_context();
    pool().promote(block);
    pointer = c10::DataPtr(block->device, block, &free_block, kDevice);
  } else if (fresh.get() != nullptr && bytes > 0) {
    pointer = allocate_device(bytes, /*in_order=*/false);  // made by another thread, on the heap
    block_of(pointer)->host_written = true;
    std::memcpy(arena().to_host(pointer.get()), fresh.get(), bytes);
  }
  device->set_data_ptr_noswap(std::move(pointer));
  device->set_nbytes(bytes);
}

void resize_storage(c10::StorageImpl* storage, std::size_t bytes) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  const std::size_t common = std::min(bytes, storage->nbytes());
  c10::DataPtr fresh = allocate_device(bytes, /*in_order=*/common == 0);
  if (common > 0) {
    block_of(fresh)->host_written = true;
    if (runtime::needs_attention()) {
      runtime::flush_recorded();
      runtime::drain(runtime::current_stream_id(), /*surface=*/false);
    }
    std::memcpy(arena().to_host(fresh.get()), arena().to_host(storage->data()), common);
  }
  storage->set_data_ptr_noswap(std::move(fresh));
  storage->set_nbytes(bytes);
}

}  // namespace hpu_reference::memory
