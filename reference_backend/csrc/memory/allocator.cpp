#include "memory/allocator.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "device_key.h"
#include "memory/access_set.h"
#include "memory/allocation_redirect.h"
#include "memory/history.h"
#include "memory/race_check.h"
#include "memory/shared_statistics.h"
#include "runtime/device.h"
#include "runtime/event_listener.h"
#include "runtime/fork.h"
#include "runtime/host_access.h"
#include "runtime/log.h"
#include "runtime/queue.h"
#include "runtime/vector_clock.h"

namespace hpu_reference::memory {

std::atomic<BlockPool*> g_pool{nullptr};

namespace {

// Returns a positive number of bytes from the environment, or 0 if the variable is not set.
std::size_t bytes_from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') {
    return 0;
  }
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  TORCH_CHECK(*end == '\0' && *text != '-' && value > 0,
              name,
              "='",
              text,
              "' is not a number of bytes; give a positive whole number, e.g. 1073741824");
  return value;
}

std::size_t default_limit() {
  if (const std::size_t configured_limit = bytes_from_environment("HPU_REFERENCE_MEMORY_LIMIT")) {
    return configured_limit;
  }
  std::size_t ranks = 1;
  if (const char* text = std::getenv("LOCAL_WORLD_SIZE")) {
    ranks = static_cast<std::size_t>(std::max(1, std::atoi(text)));
  }
  // The percentage of the device's memory that the pool uses.
  std::size_t percent = 100;
  if (const char* text = std::getenv("PT_HPU_POOL_MEM_ACQUIRE_PERC"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    percent = std::strtoull(text, &end, 0);
    TORCH_CHECK(*end == '\0' && *text != '-' && percent >= 1 && percent <= 100,
                "PT_HPU_POOL_MEM_ACQUIRE_PERC='",
                text,
                "' is not a percentage; give a whole number from 1 to 100");
  }
  // Use four fifths of the machine's memory. The rest is for Python, the data loader and kernel allocations
  // on other threads.
  return machine_memory() / 5 * 4 / ranks / 100 * percent;
}

// Maps the device's memory. The runtime calls this when it acquires the device.
void map_device_memory() {
  const std::size_t limit = default_limit();
  stream_order();  // rejects an unknown stream order before any work runs
  try {
    auto* new_pool =
        new BlockPool(map_arena(limit), limit, &runtime::is_stream_idle, create_shared_statistics());
    const char* poison = std::getenv("HPU_REFERENCE_POISON");
    new_pool->set_poison(poison != nullptr && std::string(poison) == "1");
    g_pool = new_pool;
  } catch (const std::exception& error) {
    TORCH_CHECK(false,
                "cannot map ",
                limit,
                " bytes of device memory (",
                error.what(),
                "); set HPU_REFERENCE_MEMORY_LIMIT to a smaller number of bytes");
  }
}

const bool g_registered = runtime::register_memory(&map_device_memory);

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
  record_out_of_memory(size);
  const PoolStatistics stats = pool().statistics();
  const bool limited = stats.in_use + stats.scratch + static_cast<std::int64_t>(size) > stats.limit;
  // Programs for Gaudi search the message for "FATAL ERROR :: MODULE:PT_DEVMEM", to retry with a smaller
  // batch.
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
    runtime::drain(runtime::current_stream_id(), /*throw_errors=*/false);
    if (count > 0) {
      AccessSet access_set;
      access_set.add_address(destination, /*written=*/true);
      access_set.add_address(source, /*written=*/false);
      access_set.wait(runtime::current_stream_id());
    }
    std::memcpy(arena().to_host(destination), arena().to_host(source), count);
  }
  bool initialized() override {
    return is_ready();
  }
  void emptyCache(std::pair<unsigned long long, unsigned long long>) override {
    if (is_ready()) {
      pool().empty_cache();
    }
  }
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    runtime::acquire();
    if (Block* block = block_of(pointer)) {
      pool().record_stream(block, stream.id());
    }
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override;
  void resetAccumulatedStats(c10::DeviceIndex) override {
    runtime::acquire();
    pool().reset_totals();
  }
  void resetPeakStats(c10::DeviceIndex) override {
    runtime::acquire();
    pool().reset_peak();
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) {
    runtime::acquire();
    const auto stats = pool().statistics();
    return {stats.limit - stats.in_use, stats.limit};
  }
};

c10::CachingDeviceAllocator::DeviceStats Allocator::getDeviceStats(c10::DeviceIndex) {
  using statistics::StatType;
  runtime::acquire();
  const PoolStatistics stats = pool().statistics();
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

REGISTER_ALLOCATOR(c10::DeviceType::DEVICE_KEY, &g_allocator)

}  // namespace

DeviceAllocator* const g_device_allocator = &g_allocator;

// Runs the queued and recorded work, which may retain memory, and then allocates again.
Block* allocate_after_waiting(std::size_t size, bool scratch, bool in_order) {
  const auto start = std::chrono::steady_clock::now();
  Block* block = nullptr;
  if (runtime::is_work_pending() && runtime::is_waiting_allowed()) {
    const AllocationRedirect off(false);  // this thread may run queued work, which allocates host memory
    runtime::flush_recorded();
    runtime::drain_all(/*throw_errors=*/false);
    block = pool().allocate(size, runtime::current_stream_id(), scratch, in_order);
  }
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  runtime::log(runtime::LogModule::DevMem,
               runtime::LogLevel::Info,
               "memory was short of ",
               size,
               " bytes; waiting for queued work took ",
               elapsed.count(),
               block == nullptr ? " ms and freed too few" : " ms and freed enough");
  runtime::emit_event(
      "MEMORY_DEFRAGMENTATION",
      {{"success", block == nullptr ? "false" : "true"}, {"milliseconds", std::to_string(elapsed.count())}});
  if (block == nullptr) {
    throw_out_of_memory(size);
  }
  return block;
}

void free_block(void* block) {
  // In a forked child the block belongs to the parent, so the child does not free it.
  if (!runtime::is_forked_child()) {
    if (C10_UNLIKELY(runtime::are_vector_clocks_enabled())) {
      Block* freed = static_cast<Block*>(block);
      remove_recorded_uses(freed, pool().recorded_streams(freed));
    }
    record_free(static_cast<Block*>(block));
    pool().free(static_cast<Block*>(block));
  }
}

bool is_ready() {
  return has_pool() && !runtime::is_forked_child();
}

c10::DataPtr allocate_device(std::size_t size, bool in_order) {
  runtime::acquire();
  if (size == 0) {
    return {nullptr, runtime::kDevice};
  }
  Block* block = allocate_block(size, /*scratch=*/false, in_order);
  record_allocation(block);
  return device_pointer(block);
}

void mark_used_later(const c10::StorageImpl* device) {
  Block* block = block_of(device->data_ptr());
  std::uint64_t never = 0;
  if (block != nullptr) {
    block->recorded_in.compare_exchange_strong(never, UINT64_MAX);
  }
}

}  // namespace hpu_reference::memory
