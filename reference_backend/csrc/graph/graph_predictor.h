// A lazy graph that was launched before, as the next recording follows it: as long as the program issues the
// same calls on the same buffers, the recording makes none of its own.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/output_metadata_cache.h"
#include "graph/cache.h"
#include "graph/graph.h"

namespace hpu_reference::graph {

// The calls of a graph, before the passes, and their key.
class PredictedGraph {
 public:
  // `key`: of the calls, and behind them of the buffers. `removals`: engine::output_metadata_removals() from before
  // its first call.
  PredictedGraph(Graph&& graph, std::string key, std::uint64_t removals);

  // Number of calls.
  std::size_t size() const {
    return graph_.calls.size();
  }
  // True if a call draws random numbers.
  bool has_random() const {
    return has_random_;
  }
  // What is learned of the call at a position, if its arguments have this key; else nullptr.
  engine::OutputMetadataPtr output_metadata(std::size_t position, const std::string& key) const;
  // True if the key of a recording, from `start` to its end, is that of the call at a position.
  bool continues(const std::string& recorded, std::size_t start, std::size_t position) const;
  // False if something was forgotten since this graph was recorded.
  bool is_valid() const {
    return removals_ == engine::output_metadata_removals();
  }
  // Makes the first calls, on the buffers of a recording and with its values.
  std::vector<engine::Call> make_calls(std::size_t count,
                                       BufferTable& buffers,
                                       const std::vector<std::uint64_t>& seeds,
                                       const std::vector<c10::IValue>& lifted) const;

 private:
  Graph graph_;
  std::string key_;
  std::uint64_t removals_;
  bool has_random_ = false;
};

// A recording that follows a known graph, and the values that it brings.
struct FollowedGraph {
  std::shared_ptr<CacheEntry> entry;  // nullptr: it follows none
  std::size_t calls = 0;
  std::vector<std::uint64_t> seeds;
  std::vector<c10::IValue> lifted;

  bool active() const {
    return entry != nullptr;
  }
  const PredictedGraph& graph() const {
    return *entry->predicted_graph;
  }
};

// The graphs that a recording may follow: first the one that came after the last one the time before, else
// the latest one that begins with the same call.
class GraphPredictor {
 public:
  // The graph that is expected next; nullptr if there is none.
  std::shared_ptr<CacheEntry> next() const;
  // The latest known graph whose first call has this metadata; nullptr if there is none.
  std::shared_ptr<CacheEntry> starting_with(std::uint64_t metadata_id) const;
  // Remembers that a graph was launched.
  void launched(const std::shared_ptr<CacheEntry>& entry);
  // Remembers a graph that has become known, by the metadata of its first call.
  void add(std::uint64_t metadata_id, const std::shared_ptr<CacheEntry>& entry);

 private:
  std::weak_ptr<CacheEntry> last_;
  std::unordered_map<std::uint64_t, std::weak_ptr<CacheEntry>> first_;
};

}  // namespace hpu_reference::graph
