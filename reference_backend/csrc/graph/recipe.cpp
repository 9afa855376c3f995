#include "graph/recipe.h"

#include <c10/util/Exception.h>

#include <cstring>

#include "engine/call.h"
#include "engine/engine.h"
#include "graph/aoti_program.h"
#include "graph/passes.h"
#include "kernels/operator_plan.h"
#include "memory/allocator.h"
#include "runtime/generator.h"
#include "runtime/log.h"
#include "runtime/trace.h"

namespace hpu_reference::graph {

void count_launch() {
  engine::counters().launched.fetch_add(1, std::memory_order_relaxed);
  if (runtime::is_logged(runtime::LogModule::MemLog, runtime::LogLevel::Info)) {
    const memory::PoolStatistics stats = memory::pool().statistics();
    runtime::log(runtime::LogModule::MemLog,
                 runtime::LogLevel::Info,
                 "at a launch: ",
                 stats.in_use,
                 " bytes in use, at most ",
                 stats.max_in_use,
                 ", limit ",
                 stats.limit,
                 ", largest free range ",
                 stats.largest_free);
  }
}

Recipe::Recipe(Graph&& graph, bool constants) : graph_(std::move(graph)), constants_(constants) {
  std::size_t lifted = 0;
  std::vector<const kernels::OperatorPlan*> plans;
  for (std::size_t i = 0; i < graph_.calls.size(); i++) {
    const engine::Call& call = graph_.calls[i];
    origin_.push_back(i);
    plans.push_back(call.plan);
    lifted_starts_.push_back(lifted);
    lifted += call.lifted.size();
    generators_.push_back(call.generator);
    random_.push_back(call.is_random());
    has_random_ |= call.is_random();
  }
  remove_dead_calls(graph_, origin_);
  const std::size_t before = graph_.calls.size();
  merge_common_calls(graph_, origin_, !constants_);
  merged_ = graph_.calls.size() < before;
  fold_constants(graph_, origin_, !constants_);
  remove_dead_calls(graph_, origin_);
  removed_ = plans.size() - graph_.calls.size();
  std::vector<bool> is_remaining(plans.size(), false);
  for (const std::size_t position : origin_) {
    is_remaining[position] = true;
  }
  for (std::size_t i = 0; i < plans.size(); i++) {
    if (!is_remaining[i]) {
      removed_plans_.push_back(plans[i]);
    }
  }
  for (Buffer& buffer : graph_.buffers) {
    if (buffer.host == nullptr) {  // no call uses the buffer
      buffer.host = engine::make_host_storage(nullptr, buffer.bytes, buffer.resizable);
    }
  }
  graph_.index();
  for (const Buffer& buffer : graph_.buffers) {
    writes_.push_back(buffer.role != Role::Input && buffer.role != Role::Constant);
  }
  for (const engine::Call& call : graph_.calls) {
    for (const Use& use : uses_of(call)) {
      if (const int buffer = graph_.buffer_of(*use.tensor); use.written && buffer >= 0) {
        writes_[static_cast<std::size_t>(buffer)] = true;
      }
    }
  }
  workspace_bytes_ = plan_memory(graph_, offsets_);
  prepared_.resize(graph_.calls.size());
  name_ = "a graph of " + std::to_string(graph_.calls.size()) + " operators";
}

Recipe::~Recipe() = default;

void Recipe::set_fused(std::shared_ptr<AotiProgram> program) {
  std::atomic_store(&fused_, std::move(program));
}

void Recipe::bind(const Launch& launch) {
  char* workspace = launch.workspace && launch.workspace.data() != nullptr
                        ? static_cast<char*>(memory::arena().to_host(launch.workspace.data()))
                        : nullptr;
  for (std::size_t i = 0; i < graph_.buffers.size(); i++) {
    const Buffer& buffer = graph_.buffers[i];
    if (buffer.role == Role::Constant) {
      continue;
    }
    const bool planned = buffer.role == Role::Temporary && !launch.at_recorded_addresses;
    void* address = planned ? workspace + offsets_[i] : launch.addresses[i];
    if (buffer.host->data() != address) {
      buffer.host->set_data_ptr_noswap(c10::DataPtr(address, c10::Device(c10::DeviceType::CPU)));
    }
  }
}

void Recipe::run_calls(const Launch& launch) {
  const engine::KernelGuard guard;
  for (std::size_t i = 0; i < graph_.calls.size(); i++) {
    const engine::Call& call = graph_.calls[i];
    const std::size_t origin = origin_[i];
    try {
      prepared_[i].run(
          graph_,
          call,
          launch.seeds.empty() ? 0 : launch.seeds[origin],
          constants_ || call.lifted.empty() ? nullptr : launch.lifted.data() + lifted_starts_[origin]);
    } catch (c10::Error& error) {
      error.add_context("(in " + call.name() + ", operator " + std::to_string(origin) + " of a graph)");
      throw;
    }
  }
}

// Returns true if the launch's lifted values equal the recorded lifted values, which fused code contains as
// constants.
bool Recipe::has_recorded_values(const Launch& launch) const {
  std::size_t next = 0;
  for (std::size_t i = 0; i < graph_.calls.size(); i++) {
    const engine::Call& call = graph_.calls[i];
    next = lifted_starts_[origin_[i]];
    for (const int position : call.lifted) {
      const c10::IValue& recorded = call.arguments[static_cast<std::size_t>(position)];
      const c10::IValue& value = launch.lifted[next++];
      if (recorded.isTensor()) {
        const at::Tensor& a = recorded.toTensor();
        const at::Tensor& b = value.toTensor();
        if (a.scalar_type() != b.scalar_type() ||
            std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.itemsize()) != 0) {
          return false;
        }
      } else if (recorded.toDouble() != value.toDouble()) {
        return false;
      }
    }
  }
  return true;
}

void Recipe::run(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  const runtime::TraceSpan span(runtime::TraceKind::Recipe, name_);
  bind(launch);
  for (const auto* plan : removed_plans_) {  // count removed calls too: they belong to the graph
    plan->executed.fetch_add(1, std::memory_order_relaxed);
  }
  if (const std::shared_ptr<AotiProgram> fused = std::atomic_load(&fused_);
      fused != nullptr && (constants_ || has_recorded_values(launch)) && fused->fits(graph_)) {
    fused->run();
    fused_runs_.fetch_add(1, std::memory_order_relaxed);
    for (const engine::Call& call : graph_.calls) {
      call.plan->executed.fetch_add(1, std::memory_order_relaxed);
    }
    return;
  }
  run_calls(launch);
}

std::vector<std::uint64_t> draw_seeds(const Recipe& recipe) {
  std::vector<std::uint64_t> seeds;
  if (!recipe.has_random()) {
    return seeds;
  }
  for (std::size_t i = 0; i < recipe.recorded_calls(); i++) {
    const at::Generator& generator = recipe.generators()[i];
    seeds.push_back(
        !recipe.random_at(i)
            ? 0
            : runtime::draw_seed(generator.defined() ? std::make_optional(generator) : std::nullopt));
  }
  return seeds;
}

}  // namespace hpu_reference::graph
