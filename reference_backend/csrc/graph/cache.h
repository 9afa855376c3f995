// The recipe cache of lazy mode, an LRU cache whose keys are whole graph keys, and counters of recipes of all
// kinds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "graph/recipe.h"

namespace hpu_reference::graph {

class PredictedGraph;

struct CacheStatistics {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t entries = 0;
  std::int64_t compilations = 0;
  std::int64_t compile_microseconds = 0;
  std::int64_t programs_compiled = 0;  // fused programs
  std::int64_t programs_loaded = 0;    // fused programs loaded from disk
};

// A graph of lazy mode. The recipe is compiled at the second launch, since most graphs that are launched once
// never recur.
struct CacheEntry {
  std::string name;
  std::shared_ptr<Recipe> recipe;
  std::shared_ptr<const PredictedGraph> predicted_graph;  // set from the third launch on
  std::weak_ptr<CacheEntry> next;  // the graph launched after this graph's latest launch
  std::int64_t launches = 0;
};

// Returns the entry of the key. Adds a new entry if the cache does not have the key. Compares the whole key,
// not a digest.
std::shared_ptr<CacheEntry> find_or_add_entry(const std::string& key);

// Counts a cache hit and emits its telemetry event.
void count_hit(const std::string& name);
// Counts a cache miss and emits its telemetry event.
void count_miss(const std::string& name);
// Counts the compilation of a recipe and emits its telemetry event.
void count_compilation(const std::string& name, std::int64_t microseconds);
// Counts a fused program of a recipe. If `loaded` is true, this process has loaded the program from disk;
// otherwise it has compiled the program.
void count_program(bool loaded);

CacheStatistics cache_statistics();
// Removes all entries.
void clear_cache();
// Sets the maximum number of entries (HABANA_PGM_LRU_MAX). Throws if it is 0.
void set_cache_limit(std::size_t entries);
// Enables or disables the cache. If disabled, every graph is treated as new (PT_HPU_PGM_ENABLE_CACHE=0).
void set_cache_enabled(bool on);

}  // namespace hpu_reference::graph
