// The launch of a lazy graph: its calls the first time, then a recipe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/cache.h"
#include "graph/graph.h"
#include "graph/graph_predictor.h"
#include "graph/recipe.h"
#include "memory/access_set.h"

namespace hpu_reference::graph {

// Launches graphs, one at a time, and knows which ones may follow.
class LazyLauncher {
 public:
  // Folder and forms in which a graph is written when its recipe is made.
  struct Dumps {
    std::string folder;
    bool text = false;
    bool dot = false;
  };

  // Launches a graph on the stream: the calls that have not run, or the recipe of its entry, if none has.
  // `not_run`: number of these calls. `key`: the graph's. `removals`: engine::output_metadata_removals() from before
  // its first call.
  void launch(Graph&& graph,
              const std::vector<bool>& has_run,
              std::size_t not_run,
              const std::shared_ptr<CacheEntry>& entry,
              const std::string& key,
              std::uint64_t removals,
              const memory::AccessSet& access_set,
              c10::StreamId stream);
  // Launches a graph all of whose calls are those of a known one.
  void launch_followed(FollowedGraph&& followed,
                    const std::vector<Buffer>& buffers,
                    const memory::AccessSet& access_set,
                    c10::StreamId stream);

  // The graphs that a recording may follow.
  GraphPredictor predictor;
  Dumps dumps;

 private:
  void dump(const Graph& graph, const std::string& name) const;
  static void launch_recipe(const std::shared_ptr<CacheEntry>& entry,
                            Launch&& values,
                            const memory::AccessSet& access_set,
                            c10::StreamId stream);
};

// Returns, with their names, the recipes that have become worth compiling since the last call. Cheap if there
// are none.
std::vector<std::pair<std::string, std::shared_ptr<Recipe>>> take_hot_recipes();

}  // namespace hpu_reference::graph
