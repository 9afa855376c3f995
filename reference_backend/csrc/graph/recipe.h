// A recipe: a graph after the passes, bound to memory at each launch.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "graph/graph.h"
#include "graph/prepared_call.h"
#include "kernels/operator_plan.h"
#include "runtime/lock_order.h"
#include "runtime/queue.h"

namespace hpu_reference::graph {

class AotiProgram;

// The values of one launch: host addresses of the recorded graph's buffers, and for each call a seed (0 if
// the call is not random) and its lifted values (see engine::CallArguments).
struct Launch {
  std::vector<void*> addresses;
  std::vector<std::uint64_t> seeds;
  std::vector<c10::IValue> lifted;
  bool at_recorded_addresses = false;  // use the recorded addresses of temporaries instead of a workspace
  c10::Storage workspace;              // device memory of workspace_bytes; may be empty if that is 0
};

// Counts a launch of a graph. Logs the memory in use if the log level requests it.
void count_launch();

// A compiled graph. A recipe runs once at a time; a second run waits.
class Recipe {
 public:
  // Runs the passes. `constants`: the lifted values of the recorded calls are used in each launch.
  Recipe(Graph&& graph, bool constants);
  ~Recipe();

  // Runs the calls, or the fused program, on the launch's memory.
  void run(const Launch& launch);

  // Returns the recipe's name for messages and traces.
  const std::string& name() const {
    return name_;
  }
  const Graph& graph() const {
    return graph_;
  }
  // Returns the size of the workspace that each launch needs.
  std::size_t workspace_bytes() const {
    return workspace_bytes_;
  }
  // Returns the number of recorded calls that the passes removed.
  std::size_t removed() const {
    return removed_;
  }
  // Returns true if a pass has extended the lifetime of a buffer beyond its lifetime in the recording.
  bool has_merged_calls() const {
    return merged_;
  }
  // Returns true if a call draws random numbers.
  bool has_random() const {
    return has_random_;
  }
  // Returns the generator of each recorded call. An undefined generator represents the default generator.
  const std::vector<at::Generator>& generators() const {
    return generators_;
  }
  // Returns true if a call writes the buffer.
  bool writes(std::size_t buffer) const {
    return writes_[buffer];
  }
  // Returns the number of calls before the passes.
  std::size_t recorded_calls() const {
    return generators_.size();
  }
  // Returns true if the recorded call draws random numbers.
  bool random_at(std::size_t call) const {
    return random_[call];
  }
  // Returns the number of runs of the fused program.
  std::int64_t fused_runs() const {
    return fused_runs_;
  }
  // Runs the fused program instead of the calls from now on.
  void set_fused(std::shared_ptr<AotiProgram> program);
  bool fused() const {
    return std::atomic_load(&fused_) != nullptr;
  }

 private:
  void run_calls(const Launch& launch);
  void bind(const Launch& launch);
  bool has_recorded_values(const Launch& launch) const;

  Graph graph_;
  std::string name_;
  std::vector<PreparedCall> prepared_;      // per remaining call
  std::vector<std::size_t> origin_;         // per remaining call: its index in the recorded graph
  std::vector<std::size_t> lifted_starts_;  // per recorded call: start of its values in Launch::lifted
  std::vector<std::size_t> offsets_;        // per temporary: its offset in the workspace
  std::vector<at::Generator> generators_;   // per recorded call
  std::vector<bool> random_;                // per recorded call
  std::vector<bool> writes_;                // per buffer
  std::vector<const kernels::OperatorPlan*> removed_plans_;  // of the calls that the passes removed
  std::size_t workspace_bytes_ = 0;
  std::size_t removed_ = 0;
  bool constants_;
  bool merged_ = false;
  bool has_random_ = false;
  runtime::RankedMutex<runtime::LockRank::Recipe> mutex_;
  std::shared_ptr<AotiProgram> fused_;
  std::atomic<std::int64_t> fused_runs_{0};
};

// Draws the seeds of one launch from the generators of the recorded calls.
std::vector<std::uint64_t> draw_seeds(const Recipe& recipe);

// A queued launch of a recipe.
class RecipeWork final : public runtime::Work {
 public:
  RecipeWork(std::shared_ptr<Recipe> recipe, Launch&& launch)
      : recipe_(std::move(recipe)), launch_(std::move(launch)) {
  }
  void run() override {
    recipe_->run(launch_);
    launch_.workspace = c10::Storage();
  }
  // This object may hold the last reference to a recipe. The recipe's calls may own host memory that Python
  // objects reference, so a host thread must destroy this object.
  bool must_be_destroyed_on_host() const override {
    return true;
  }
  std::string name() const override {
    return recipe_->name();
  }

 private:
  std::shared_ptr<Recipe> recipe_;
  Launch launch_;
};

}  // namespace hpu_reference::graph
