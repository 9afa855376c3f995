// A graph after the passes, bound to memory at each launch. One run at a time; a second waits.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "graph/graph.h"
#include "kernels/operator_plan.h"
#include "runtime/queue.h"

namespace hpu_reference::graph {

class FusedProgram;

// What a launch brings: host addresses of the buffers of the graph as it was recorded, and per call of that
// graph a seed (0 where it is not random) and its lifted values.
struct Launch {
  std::vector<void*> addresses;
  std::vector<std::uint64_t> seeds;
  std::vector<c10::IValue> lifted;
  bool at_recorded_addresses = false;                       // temporaries too, in place of a workspace
  std::shared_ptr<const std::vector<c10::Storage>> owners;  // what the launch needs to stay alive
  c10::Storage workspace;  // on the device, of workspace_bytes; may be empty where that is 0
};

class Recipe {
 public:
  // Runs the passes. `constants`: lifted values are the ones of the calls and never change.
  Recipe(Graph&& graph, bool constants);
  ~Recipe();

  void run(const Launch& launch);

  const Graph& graph() const {
    return graph_;
  }
  std::size_t workspace_bytes() const {
    return workspace_bytes_;
  }
  // How many calls of the recorded graph the passes took away.
  std::size_t removed() const {
    return removed_;
  }
  // Whether a pass has made a buffer live longer than it did while recording.
  bool has_merged_calls() const {
    return merged_;
  }
  bool has_random() const {
    return has_random_;
  }
  const std::vector<at::Generator>& generators() const {
    return generators_;
  }
  std::size_t recorded_calls() const {
    return generators_.size();
  }
  bool random_at(std::size_t call) const {
    return random_[call];
  }
  std::int64_t fused_runs() const {
    return fused_runs_;
  }
  // From now on the fused program runs in place of the calls.
  void set_fused(std::shared_ptr<FusedProgram> program);
  bool fused() const {
    return std::atomic_load(&fused_) != nullptr;
  }

 private:
  void run_calls(const Launch& launch);
  void bind(const Launch& launch);
  bool has_own_values(const Launch& launch) const;

  Graph graph_;
  std::vector<std::size_t> origin_;         // of each call left: its position in the recorded graph
  std::vector<std::size_t> lifted_starts_;  // of each recorded call: where its values begin in Launch::lifted
  std::vector<std::size_t> offsets_;        // of each temporary in the workspace
  std::vector<at::Generator> generators_;   // per recorded call
  std::vector<bool> random_;                // per recorded call
  std::vector<const kernels::OperatorPlan*> removed_plans_;  // of the calls that the passes took away
  std::size_t workspace_bytes_ = 0;
  std::size_t removed_ = 0;
  bool constants_;
  bool merged_ = false;
  bool has_random_ = false;
  std::mutex mutex_;
  std::shared_ptr<FusedProgram> fused_;
  std::atomic<std::int64_t> fused_runs_{0};
};

// Seeds for one launch, drawn from the generators that the recorded calls name.
std::vector<std::uint64_t> draw_seeds(const Recipe& recipe);

class RecipeWork final : public runtime::Work {
 public:
  RecipeWork(std::shared_ptr<Recipe> recipe, Launch&& launch)
      : recipe_(std::move(recipe)), launch_(std::move(launch)) {
  }
  void run() override {
    recipe_->run(launch_);
    launch_.workspace = c10::Storage();
    launch_.owners.reset();
  }
  // The last owner of a recipe may be this: its calls may hold host memory that Python knows of.
  bool released_on_host() const override {
    return true;
  }
  std::string name() const override {
    return "a graph of " + std::to_string(recipe_->graph().calls.size()) + " operators";
  }

 private:
  std::shared_ptr<Recipe> recipe_;
  Launch launch_;
};

}  // namespace hpu_reference::graph
