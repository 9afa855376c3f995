// The flight recorder: the latest collectives of this process with sizes, stack and state, for torch's
// analysis of ranks that wait for each other.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace c10 {
struct GatheredContext;
}

namespace hpu_reference::distributed {

class Transfer;

// The description of a collective, made when the collective is issued.
struct FlightRequest {
  std::string operation;    // torch's name, such as "ALLREDUCE"
  std::string group;        // name of the process group
  std::string description;  // of the process group
  std::uint64_t sequence = 0;
  std::optional<int> peer;  // only of a send or receive: the other rank
  int rank = 0;
  std::chrono::milliseconds timeout{0};
  const std::vector<at::Tensor>* used = nullptr;
  const std::vector<at::Tensor>* outputs = nullptr;
};

// A recorded collective. Times are nanoseconds since 1970; 0 if the event has not happened yet.
struct FlightEntry {
  std::uint64_t id = 0;
  FlightRequest request;      // without its tensors
  std::uint64_t message = 0;  // number of sends and receives of the process so far
  std::int64_t created = 0;
  std::int64_t started = 0;
  std::int64_t completed = 0;
  bool failed = false;
  std::vector<std::vector<std::int64_t>> input_sizes, output_sizes;
  std::vector<std::string> input_dtypes, output_dtypes;
  std::shared_ptr<c10::GatheredContext> stack;  // may be null
  std::shared_ptr<const Transfer> transfer;
};

// Records a collective before it is issued and returns its number. Returns nothing if recording is disabled
// (TORCH_FR_BUFFER_SIZE=0). Takes the GIL.
std::optional<std::uint64_t> record_flight(FlightRequest&& request);
// Sets the transfer of the entry. recorded_collectives() reads the state of the entry from the transfer.
void set_transfer(std::optional<std::uint64_t> id, std::shared_ptr<const Transfer> transfer);
// Returns the latest collectives, at most TORCH_FR_BUFFER_SIZE (default 2000), oldest first.
std::vector<FlightEntry> recorded_collectives();
// Returns the number of collectives that have failed so far.
std::uint64_t failed_collectives();

}  // namespace hpu_reference::distributed
