// A call of a recipe that runs often, with a prepared kernel.
#pragma once

#include <memory>

#include "graph/graph.h"
#include "kernels/prepared_kernel.h"

namespace hpu_reference::graph {

// Runs one call of a recipe. From the third run on it uses a prepared kernel if the operator has one and if
// the prepared kernel computed the same bits as the operator in the second run.
class PreparedCall {
 public:
  // Runs `call` with this seed and these lifted values (see engine::CallArguments; null: the call's own
  // values). `call` must be the same call of `graph` each time.
  void run(const Graph& graph, const engine::Call& call, std::uint64_t seed, const c10::IValue* lifted);

 private:
  enum class State : std::uint8_t { New, RanOnce, Prepared, NotPreparable };

  void try_to_prepare(const Graph& graph,
                      const engine::Call& call,
                      std::uint64_t seed,
                      const c10::IValue* lifted);
  bool set_lifted(const engine::Call& call, const c10::IValue* lifted) const;

  State state_ = State::New;
  std::unique_ptr<kernels::PreparedKernel> kernel_;
};

// Returns the number of runs of prepared kernels in this process.
std::int64_t prepared_runs();

}  // namespace hpu_reference::graph
