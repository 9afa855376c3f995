// A call of a recipe that runs often, with its kernel prepared.
#pragma once

#include <memory>

#include "graph/graph.h"
#include "kernels/prepared_kernel.h"

namespace hpu_reference::graph {

// Runs one call of a recipe. From the second run on it uses a prepared kernel, if the operator has one and it
// has computed the same bits in the second run as the operator.
class PreparedCall {
 public:
  // Runs `call`, which is always the same one of `graph`, with these seed and lifted values (null: its own).
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

// Number of runs of prepared kernels in this process.
std::int64_t prepared_runs();

}  // namespace hpu_reference::graph
