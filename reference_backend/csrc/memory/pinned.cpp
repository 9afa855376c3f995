#include "memory/pinned.h"

#include <c10/core/impl/alloc_cpu.h>

#include <pthread.h>

#include <cstring>
#include <map>
#include <mutex>

#include "device_key.h"
#include "runtime/log.h"
#include "torch_release.h"

namespace hpu_reference::memory {

namespace {

std::mutex g_mutex;

// A fork while another thread holds the lock would leave the lock held in the child forever.
const int g_fork_handlers =
    pthread_atfork([] { g_mutex.lock(); }, [] { g_mutex.unlock(); }, [] { g_mutex.unlock(); });
std::map<const char*, std::size_t> g_ranges;  // start -> bytes
std::int64_t g_bytes = 0;
std::int64_t g_peak_bytes = 0;

void free_pinned(void* pointer) {
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    auto range = g_ranges.find(static_cast<const char*>(pointer));
    if (range != g_ranges.end()) {
      g_bytes -= static_cast<std::int64_t>(range->second);
      g_ranges.erase(range);
    }
  }
  c10::free_cpu(pointer);
}

class PinnedAllocator final : public HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    if (size == 0) {
      return {nullptr, c10::Device(c10::DeviceType::CPU)};
    }
    void* pointer = c10::alloc_cpu(size);
    runtime::log(
        runtime::LogModule::Pinned, runtime::LogLevel::Debug, "pinned ", size, " bytes at ", pointer);
    std::lock_guard<std::mutex> lock(g_mutex);
    g_ranges.emplace(static_cast<const char*>(pointer), size);
    g_bytes += static_cast<std::int64_t>(size);
    g_peak_bytes = std::max(g_peak_bytes, g_bytes);
    return {pointer, pointer, &free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &free_pinned;
  }
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    std::memcpy(destination, source, count);
  }
  // Does nothing: a queued copy retains the storage of its pinned memory, so the memory is not freed too
  // early.
  bool record_event(void*, void*, c10::Stream) override {
    return true;
  }
  void empty_cache() override {
  }
  HostStatistics get_stats() {
    std::lock_guard<std::mutex> lock(g_mutex);
    HostStatistics stats;
    stats.allocated_bytes.current = g_bytes;
    stats.allocated_bytes.peak = g_peak_bytes;
    return stats;
  }
  void reset_accumulated_stats() override {
  }
  void reset_peak_stats() override {
    std::lock_guard<std::mutex> lock(g_mutex);
    g_peak_bytes = g_bytes;
  }
};

PinnedAllocator g_allocator;

}  // namespace

c10::Allocator* pinned_allocator() {
  return &g_allocator;
}

bool is_pinned(const void* data) {
  const char* address = static_cast<const char*>(data);
  std::lock_guard<std::mutex> lock(g_mutex);
  auto after = g_ranges.upper_bound(address);
  if (after == g_ranges.begin()) {
    return false;
  }
  const auto& [start, bytes] = *std::prev(after);
  return address < start + bytes;
}

REGISTER_HOST_ALLOCATOR(c10::DeviceType::DEVICE_KEY, &g_allocator)

}  // namespace hpu_reference::memory
