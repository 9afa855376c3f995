#include "graph/lazy.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <string_view>

#include "engine/engine.h"
#include "graph/lazy_recorder.h"
#include "memory/allocator.h"
#include "runtime/host_access.h"
#include "runtime/queue.h"

namespace hpu_reference::graph {

namespace {

LazyRecorder* g_recorder = nullptr;

void flush_now() {
  if (!runtime::is_running_work()) {
    g_recorder->flush(/*wait=*/false);
  }
}

}  // namespace

void start_lazy_mode(LazyMode mode, std::uint64_t seed) {
  if (g_recorder == nullptr) {
    g_recorder = new LazyRecorder();
    runtime::g_flush_recorded = &flush_now;
    engine::set_lazy_recorder(g_recorder);
    const char* strict = std::getenv("HPU_REFERENCE_LAZY_STRICT");
    runtime::g_accepts_host_arguments = strict == nullptr || std::string_view(strict) != "1";
  }
  g_recorder->set([&](auto& settings) {
    settings.mode = mode;
    settings.random.seed(seed);
  });
}

bool is_lazy() {
  return g_recorder != nullptr;
}

void flush_lazy(bool wait) {
  if (g_recorder != nullptr) {
    g_recorder->flush(wait);
    runtime::release_finished_work();
  }
}

std::int64_t recorded_call_count() {
  return runtime::g_recorded;
}

void set_lazy_limits(std::int64_t calls, bool wait) {
  TORCH_CHECK(calls > 0, "the operator limit of a lazy graph must be at least 1, but got ", calls);
  TORCH_CHECK(g_recorder != nullptr, "lazy mode is not on; set PT_HPU_LAZY_MODE=1");
  g_recorder->set([&](auto& settings) {
    settings.limit = calls;
    settings.limit_waits = wait;
  });
}

void set_lazy_thread(bool on) {
  if (g_recorder != nullptr) {
    g_recorder->set([&](auto& settings) { settings.own_thread = on; });
  }
}

void dump_lazy_graphs(const std::string& folder, bool text, bool dot) {
  TORCH_CHECK(g_recorder != nullptr, "lazy mode is not on; set PT_HPU_LAZY_MODE=1");
  g_recorder->set_dumps({folder, text, dot});
}

LazyStatistics lazy_statistics() {
  return g_recorder == nullptr ? LazyStatistics() : g_recorder->statistics();
}

bool is_unused_by_pending_work(const c10::StorageImpl* storage) {
  memory::Block* block = memory::block_of(storage->data_ptr());
  return block != nullptr && !block->ordered && block->recorded_in.load(std::memory_order_acquire) == 0;
}

}  // namespace hpu_reference::graph
