// Prediction of the next lazy graph. A recording follows a previously launched graph as long as the program
// issues the same calls on the same buffers. A recording that follows a graph creates no calls of its own.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/output_metadata_cache.h"
#include "graph/cache.h"
#include "graph/graph.h"

namespace hpu_reference::graph {

// The calls of a launched graph, before the passes, and their key.
class PredictedGraph {
 public:
  // `key`: the key of the calls, followed by the key of the buffers. `removals`:
  // engine::output_metadata_removals() before the graph's first call.
  PredictedGraph(Graph&& graph, std::string key, std::uint64_t removals);

  std::size_t size() const {
    return graph_.calls.size();
  }
  bool has_random() const {
    return has_random_;
  }
  // Returns the output metadata of the call at an index if its arguments have this key, otherwise nullptr.
  engine::OutputMetadataPtr output_metadata(std::size_t position, const std::string& key) const;
  // Returns true if the recording's key, from `start` to its end, equals the key of the call at an index.
  bool continues(const std::string& recorded, std::size_t start, std::size_t position) const;
  // Returns false if output metadata was removed since this graph was recorded.
  bool is_valid() const {
    return removals_ == engine::output_metadata_removals();
  }
  // Creates the first `count` calls with the buffers of a recording, its seeds and its lifted values.
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

// A graph that the current recording follows, and the values that the recording provides.
struct FollowedGraph {
  std::shared_ptr<CacheEntry> entry;  // nullptr if the recording follows no graph
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

// The graphs that a recording may follow. If graph A was launched last, the first candidate is the graph that
// followed A when A was launched before. The second candidate is the latest graph that starts with the same
// call as the recording.
class GraphPredictor {
 public:
  // Returns the graph that is expected next, or nullptr.
  std::shared_ptr<CacheEntry> next() const;
  // Returns the latest graph whose first call has this output metadata, or nullptr.
  std::shared_ptr<CacheEntry> starting_with(std::uint64_t metadata_id) const;
  // Records the launch of a graph.
  void launched(const std::shared_ptr<CacheEntry>& entry);
  // Adds a graph that can be followed. `metadata_id` identifies the output metadata of the graph's first
  // call.
  void add(std::uint64_t metadata_id, const std::shared_ptr<CacheEntry>& entry);

 private:
  std::weak_ptr<CacheEntry> last_;
  std::unordered_map<std::uint64_t, std::weak_ptr<CacheEntry>> first_;
};

}  // namespace hpu_reference::graph
