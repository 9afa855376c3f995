#include "graph/lazy_launch.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <mutex>

#include "engine/call.h"
#include "engine/engine.h"
#include "memory/allocator.h"
#include "runtime/log.h"
#include "runtime/queue.h"

namespace hpu_reference::graph {

namespace {

// The calls of a new graph, which run on the memory that was allocated while they were recorded.
class CallsWork final : public runtime::Work {
 public:
  CallsWork(std::vector<engine::Call>&& calls, std::string name)
      : calls_(std::move(calls)), name_(std::move(name)) {
  }
  void run() override {
    const runtime::TraceSpan span(runtime::TraceKind::Recipe, name_);
    for (const engine::Call& call : calls_) {
      try {
        call.run();
      } catch (c10::Error& error) {
        error.add_context("(in " + call.name() + ")");
        throw;
      }
    }
  }
  std::string name() const override {
    return name_;
  }

 private:
  std::vector<engine::Call> calls_;
  std::string name_;
};

// Number of launches after which compiling a recipe to fused code pays.
constexpr std::int64_t kHotLaunches = 16;
std::mutex g_hot_mutex;
std::vector<std::pair<std::string, std::shared_ptr<Recipe>>> g_hot;

}  // namespace

// Writes the graph in the requested formats. If it cannot be written, warns.
void LazyLauncher::dump(const Graph& graph, const std::string& name) const {
  const auto write = [&](const char* suffix, const std::string& contents) {
    const std::string path = dumps.folder + "/" + name + "_" + std::to_string(getpid()) + suffix;
    std::ofstream file(path);
    file << contents;
    if (!file.flush()) {
      TORCH_WARN_ONCE(
          "cannot write the graph to ", path, "; give PT_HPU_GRAPH_DUMP_PREFIX a folder to write to");
    }
  };
  if (dumps.text) {
    write(".txt", to_text(graph));
  }
  if (dumps.dot) {
    write(".dot", to_dot(graph));
  }
}

void LazyLauncher::launch(Graph&& graph,
                          const std::vector<bool>& has_run,
                          std::size_t not_run,
                          const std::shared_ptr<CacheEntry>& entry,
                          const std::string& key,
                          std::uint64_t removals,
                          const memory::AccessSet& access_set,
                          c10::StreamId stream) {
  count_launch();
  const bool whole = not_run == graph.calls.size();
  const bool first = entry->launches++ == 0;
  const auto start = std::chrono::steady_clock::now();
  runtime::log(runtime::LogModule::Lazy,
               runtime::LogLevel::Debug,
               entry->name,
               ": ",
               graph.calls.size(),
               " operators, launch ",
               entry->launches,
               ", stream ",
               stream);
  if (first) {
    count_miss(entry->name);
  } else {
    count_hit(entry->name);
  }
  if (not_run == 0) {
    if (first) {
      count_compilation(entry->name, 1);
    }
    return;
  }
  if (!whole || entry->launches == 1) {
    std::vector<engine::Call> calls;
    for (std::size_t i = 0; i < graph.calls.size(); i++) {
      if (!has_run[i]) {
        calls.push_back(std::move(graph.calls[i]));
      }
    }
    const std::string name = "a graph of " + std::to_string(calls.size()) + " operators";
    if (first) {
      const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
      count_compilation(entry->name, static_cast<std::int64_t>(elapsed.count()) + 1);
    }
    access_set.enqueue(stream, std::make_unique<CallsWork>(std::move(calls), name), /*retain_memory=*/true);
    return;
  }
  Launch values;
  bool random = false;
  for (const Buffer& buffer : graph.buffers) {
    values.addresses.push_back(buffer.address);
  }
  for (const engine::Call& call : graph.calls) {
    random |= call.is_random();
    values.seeds.push_back(call.seed);
    for (const int position : call.lifted) {
      values.lifted.push_back(call.arguments[static_cast<std::size_t>(position)]);
    }
  }
  if (!random) {
    values.seeds.clear();
  }
  if (entry->recipe == nullptr) {
    graph.index();
    dump(graph, entry->name);
    entry->recipe = std::make_shared<Recipe>(std::move(graph), /*constants=*/false);
  } else if (entry->predicted_graph == nullptr || !entry->predicted_graph->is_valid()) {
    const std::uint64_t first = graph.calls.front().output_metadata->id;
    entry->predicted_graph = std::make_shared<const PredictedGraph>(std::move(graph), key, removals);
    predictor.add(first, entry);
  }
  launch_recipe(entry, std::move(values), access_set, stream);
}

void LazyLauncher::launch_followed(FollowedGraph&& followed,
                                   const std::vector<Buffer>& buffers,
                                   const memory::AccessSet& access_set,
                                   c10::StreamId stream) {
  count_launch();
  followed.entry->launches++;
  runtime::log(runtime::LogModule::Lazy,
               runtime::LogLevel::Debug,
               followed.entry->name,
               ": known, launch ",
               followed.entry->launches,
               ", stream ",
               stream);
  count_hit(followed.entry->name);
  Launch values;
  values.addresses.reserve(buffers.size());
  for (const Buffer& buffer : buffers) {
    values.addresses.push_back(buffer.address);
  }
  if (followed.graph().has_random()) {
    values.seeds = std::move(followed.seeds);
  }
  values.lifted = std::move(followed.lifted);
  launch_recipe(followed.entry, std::move(values), access_set, stream);
}

void LazyLauncher::launch_recipe(const std::shared_ptr<CacheEntry>& entry,
                                 Launch&& values,
                                 const memory::AccessSet& access_set,
                                 c10::StreamId stream) {
  if (const std::size_t bytes = entry->recipe->workspace_bytes()) {
    try {
      // The graph still reads memory that was freed during its recording, so the workspace must not reuse
      // this memory.
      values.workspace = c10::Storage(c10::Storage::use_byte_size_t(),
                                      bytes,
                                      memory::allocate_device(bytes, /*in_order=*/false),
                                      memory::device_allocator(),
                                      /*resizable=*/false);
    } catch (const c10::OutOfMemoryError&) {
      // Temporaries keep the memory of the recording, which is valid only while no pass has extended the
      // lifetime of a buffer.
      if (entry->recipe->has_merged_calls()) {
        throw;
      }
      values.at_recorded_addresses = true;
    }
  }
  if (entry->launches == kHotLaunches) {
    const std::lock_guard<std::mutex> lock(g_hot_mutex);
    g_hot.emplace_back(entry->name, entry->recipe);
  }
  access_set.enqueue(
      stream, std::make_unique<RecipeWork>(entry->recipe, std::move(values)), /*retain_memory=*/true);
}

std::vector<std::pair<std::string, std::shared_ptr<Recipe>>> take_hot_recipes() {
  const std::lock_guard<std::mutex> lock(g_hot_mutex);
  return std::move(g_hot);
}

}  // namespace hpu_reference::graph
