#include "graph/cache.h"

#include <c10/util/Exception.h>

#include <iterator>
#include <list>
#include <mutex>
#include <unordered_map>

#include "runtime/event_listener.h"
#include "runtime/log.h"

namespace hpu_reference::graph {

namespace {

using Order = std::list<std::pair<std::string, std::shared_ptr<CacheEntry>>>;

struct Cache {
  std::mutex mutex;
  Order order;  // most recently used first
  std::unordered_map<std::string_view, Order::iterator> entries;
  std::size_t limit = 30000;
  bool enabled = true;
  std::int64_t next = 0;
  CacheStatistics statistics;
};

Cache& cache() {
  static auto* value = new Cache();
  return *value;
}

}  // namespace

std::shared_ptr<CacheEntry> find_or_add_entry(const std::string& key) {
  Cache& self = cache();
  Order evicted;  // destroyed after the lock: recipes may own memory that Python objects reference
  const std::lock_guard<std::mutex> lock(self.mutex);
  if (const auto position = self.entries.find(key); self.enabled && position != self.entries.end()) {
    self.order.splice(self.order.begin(), self.order, position->second);
    return position->second->second;
  }
  auto entry = std::make_shared<CacheEntry>();
  entry->name = "graph_recipe_" + std::to_string(self.next++);
  if (!self.enabled) {
    return entry;
  }
  self.order.emplace_front(key, entry);
  self.entries.emplace(self.order.front().first, self.order.begin());
  while (self.order.size() > self.limit) {
    self.entries.erase(self.order.back().first);
    evicted.splice(evicted.end(), self.order, std::prev(self.order.end()));
  }
  return entry;
}

void count_hit(const std::string& name) {
  {
    const std::lock_guard<std::mutex> lock(cache().mutex);
    cache().statistics.hits++;
  }
  runtime::log(runtime::LogModule::RecipeStats, runtime::LogLevel::Trace, name, ": found in the cache");
  runtime::emit_event("CACHE_HIT", {{"recipe_id", name}});
}

void count_miss(const std::string& name) {
  {
    const std::lock_guard<std::mutex> lock(cache().mutex);
    cache().statistics.misses++;
  }
  runtime::log(runtime::LogModule::RecipeStats, runtime::LogLevel::Debug, name, ": not in the cache");
  runtime::emit_event("CACHE_MISS", {{"recipe_id", name}});
}

void count_compilation(const std::string& name, std::int64_t microseconds) {
  {
    const std::lock_guard<std::mutex> lock(cache().mutex);
    cache().statistics.compilations++;
    cache().statistics.compile_microseconds += microseconds;
  }
  runtime::log(
      runtime::LogModule::RecipeStats, runtime::LogLevel::Info, name, ": compiled in ", microseconds, " us");
  runtime::emit_event("GRAPH_COMPILATION", {{"duration", std::to_string(microseconds)}, {"recipe", name}});
}

void count_program(bool loaded) {
  const std::lock_guard<std::mutex> lock(cache().mutex);
  (loaded ? cache().statistics.programs_loaded : cache().statistics.programs_compiled)++;
}

CacheStatistics cache_statistics() {
  const std::lock_guard<std::mutex> lock(cache().mutex);
  CacheStatistics result = cache().statistics;
  result.entries = static_cast<std::int64_t>(cache().order.size());
  return result;
}

void clear_cache() {
  Order dropped;
  const std::lock_guard<std::mutex> lock(cache().mutex);
  cache().entries.clear();
  dropped.swap(cache().order);
}

void set_cache_limit(std::size_t entries) {
  TORCH_CHECK(entries > 0,
              "a recipe cache must have at least 1 entry; set PT_HPU_PGM_ENABLE_CACHE=0 to turn it off");
  const std::lock_guard<std::mutex> lock(cache().mutex);
  cache().limit = entries;
}

void set_cache_enabled(bool on) {
  const std::lock_guard<std::mutex> lock(cache().mutex);
  cache().enabled = on;
}

}  // namespace hpu_reference::graph
