// The launch of a lazy graph: its calls at the first launch, then a recipe.
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

// Launches graphs, one at a time, and holds the predictor of the next graph.
class LazyLauncher {
 public:
  // Folder and formats for graphs, which are written when their recipes are compiled.
  struct Dumps {
    std::string folder;
    bool text = false;
    bool dot = false;
  };

  // Launches a graph on the stream. At the first launch of `entry`, or if some calls have run already,
  // launches the calls that have not run. Otherwise launches the recipe of `entry`.
  //   not_run: number of calls that have not run.
  //   key: key of the graph.
  //   removals: engine::output_metadata_removals() before the graph's first call.
  void launch(Graph&& graph,
              const std::vector<bool>& has_run,
              std::size_t not_run,
              const std::shared_ptr<CacheEntry>& entry,
              const std::string& key,
              std::uint64_t removals,
              const memory::AccessSet& access_set,
              c10::StreamId stream);
  // Launches a followed graph after all of its calls were issued.
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

// Returns the recipes, with their names, that have been launched often enough since the last call to be
// compiled to fused code. Cheap if no such recipe exists.
std::vector<std::pair<std::string, std::shared_ptr<Recipe>>> take_hot_recipes();

}  // namespace hpu_reference::graph
