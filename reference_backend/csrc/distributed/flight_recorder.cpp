#include "distributed/flight_recorder.h"

#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "distributed/channel.h"

namespace hpu_reference::distributed {

namespace {

std::size_t limit_from_environment() {
  for (const char* name : {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}) {
    if (const char* text = std::getenv(name); text != nullptr && *text != '\0') {
      return static_cast<std::size_t>(std::max(0LL, std::strtoll(text, nullptr, 10)));
    }
  }
  return 2000;
}

struct Recorder {
  const std::size_t limit = limit_from_environment();
  std::mutex mutex;
  std::deque<FlightEntry> entries;
  std::uint64_t next = 0;
  std::uint64_t messages = 0;
};

// Never destroyed: collectives may run while the process exits.
Recorder& recorder() {
  static auto* value = new Recorder();
  return *value;
}

void describe(const std::vector<at::Tensor>& tensors,
              std::vector<std::vector<std::int64_t>>& sizes,
              std::vector<std::string>& dtypes) {
  for (const at::Tensor& tensor : tensors) {
    sizes.push_back(tensor.sizes().vec());
    dtypes.emplace_back(c10::toString(tensor.scalar_type()));
  }
}

// Returns the tensors that are only read, or all tensors if every tensor is also written.
std::vector<at::Tensor> inputs_of(const std::vector<at::Tensor>& used,
                                  const std::vector<at::Tensor>& outputs) {
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& tensor : used) {
    const auto same = [&](const at::Tensor& candidate) { return candidate.is_same(tensor); };
    if (std::none_of(outputs.begin(), outputs.end(), same)) {
      inputs.push_back(tensor);
    }
  }
  return inputs.empty() ? used : inputs;
}

}  // namespace

std::optional<std::uint64_t> record_flight(FlightRequest&& request) {
  Recorder& self = recorder();
  if (self.limit == 0) {
    return std::nullopt;
  }
  FlightEntry entry;
  describe(inputs_of(*request.used, *request.outputs), entry.input_sizes, entry.input_dtypes);
  describe(*request.outputs, entry.output_sizes, entry.output_dtypes);
  request.used = request.outputs = nullptr;
  entry.created = c10::getTime();
  entry.stack = torch::CapturedTraceback::gather(/*python=*/true, /*script=*/false, /*cpp=*/false);
  FlightEntry dropped;  // destroyed after the lock is released
  const std::lock_guard<std::mutex> lock(self.mutex);
  entry.id = self.next++;
  self.messages += request.peer.has_value() ? 1 : 0;
  entry.message = self.messages;
  entry.request = std::move(request);
  self.entries.push_back(std::move(entry));
  if (self.entries.size() > self.limit) {
    dropped = std::move(self.entries.front());
    self.entries.pop_front();
  }
  return self.next - 1;
}

void set_transfer(std::optional<std::uint64_t> id, std::shared_ptr<const Transfer> transfer) {
  if (!id.has_value()) {
    return;
  }
  Recorder& self = recorder();
  const std::lock_guard<std::mutex> lock(self.mutex);
  const std::uint64_t first = self.next - self.entries.size();
  if (*id >= first) {
    self.entries[static_cast<std::size_t>(*id - first)].transfer = std::move(transfer);
  }
}

std::vector<FlightEntry> recorded_collectives() {
  std::vector<FlightEntry> entries;
  {
    Recorder& self = recorder();
    const std::lock_guard<std::mutex> lock(self.mutex);
    entries.assign(self.entries.begin(), self.entries.end());
  }
  for (FlightEntry& entry : entries) {
    if (entry.transfer != nullptr) {
      entry.started = entry.transfer->started();
      entry.completed = entry.transfer->completed();
      entry.failed = entry.transfer->error() != nullptr;
    }
  }
  return entries;
}

std::uint64_t failed_collectives() {
  return Transfer::failures();
}

}  // namespace hpu_reference::distributed
