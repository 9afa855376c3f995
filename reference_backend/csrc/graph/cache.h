// The cache of lazy mode's recipes, by the whole key of their graph, the least recently used dropped first;
// and counters about recipes of every kind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "graph/recipe.h"

namespace hpu_reference::graph {

class PredictedGraph;

// The counters.
struct CacheStatistics {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t entries = 0;
  std::int64_t compilations = 0;
  std::int64_t compile_microseconds = 0;
  std::int64_t programs_compiled = 0;  // fused ones
  std::int64_t programs_loaded = 0;    // those found on the disk
};

// One graph of lazy mode. Its second launch makes the recipe, since most graphs that are launched once never
// return.
struct CacheEntry {
  std::string name;
  std::shared_ptr<Recipe> recipe;
  std::shared_ptr<const PredictedGraph> predicted_graph;  // from the third launch on
  std::weak_ptr<CacheEntry> next;           // launched after it, the last time
  std::int64_t launches = 0;
};

// Returns the entry of the key, a new one if there is none. Compares the whole key, not a digest of it.
std::shared_ptr<CacheEntry> find_or_add_entry(const std::string& key);

// Counts a hit and notifies the listener.
void count_hit(const std::string& name);
// Counts a miss and notifies the listener.
void count_miss(const std::string& name);
// Counts a compilation and notifies the listener.
void count_compilation(const std::string& name, std::int64_t microseconds);
// Counts a fused program of a recipe: compiled by this process, or `loaded` from the disk.
void count_program(bool loaded);

// The counters so far.
CacheStatistics cache_statistics();
// Drops all entries.
void clear_cache();
// Sets the largest number of entries (HABANA_PGM_LRU_MAX); throws if it is 0.
void set_cache_limit(std::size_t entries);
// Switches the cache on or off; off, every graph is new (PT_HPU_PGM_ENABLE_CACHE=0).
void set_cache_enabled(bool on);

}  // namespace hpu_reference::graph
