// Recipes of lazy mode by the whole key of their graph, least recently used first out; and what is counted
// about recipes of every kind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "graph/recipe.h"

namespace hpu_reference::graph {

struct CacheStatistics {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t entries = 0;
  std::int64_t compilations = 0;
  std::int64_t compile_microseconds = 0;
};

// One graph of lazy mode. The recipe is made at its second launch: most graphs that come once never come
// again.
struct CacheEntry {
  std::string name;
  std::shared_ptr<Recipe> recipe;
  std::int64_t launches = 0;
};

// The entry of the key, made where it is new. The whole key is compared, not a digest of it.
std::shared_ptr<CacheEntry> find_or_add_entry(const std::string& key);

void count_hit(const std::string& name);
void count_miss(const std::string& name);
void count_compilation(const std::string& name, std::int64_t microseconds);

CacheStatistics cache_statistics();
void clear_cache();
// Most entries that are kept (HABANA_PGM_LRU_MAX); throws where it is 0.
void set_cache_limit(std::size_t entries);
// Off: every graph is new (PT_HPU_PGM_ENABLE_CACHE=0).
void set_cache_enabled(bool on);

}  // namespace hpu_reference::graph
