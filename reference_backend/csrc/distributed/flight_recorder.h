// The latest collectives of this process, for torch's analysis of ranks that do not meet: what was issued,
// with sizes, stack and state.
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

// What a collective is about, as it is issued.
struct FlightRequest {
  std::string operation;    // torch's name, "ALLREDUCE"
  std::string group;        // name of the process group
  std::string description;  // of the process group
  std::uint64_t sequence = 0;
  std::optional<int> peer;  // of a message
  int rank = 0;
  std::chrono::milliseconds timeout{0};
  const std::vector<at::Tensor>* used = nullptr;
  const std::vector<at::Tensor>* outputs = nullptr;
};

// One collective. Times are nanoseconds since 1970, 0 for not yet.
struct FlightEntry {
  std::uint64_t id = 0;
  FlightRequest request;      // without its tensors
  std::uint64_t message = 0;  // number of messages of the process so far
  std::int64_t created = 0;
  std::int64_t started = 0;
  std::int64_t completed = 0;
  bool failed = false;
  std::vector<std::vector<std::int64_t>> input_sizes, output_sizes;
  std::vector<std::string> input_dtypes, output_dtypes;
  std::shared_ptr<c10::GatheredContext> stack;  // may be null
  std::shared_ptr<const Transfer> transfer;
};

// Remembers a collective before it is issued; returns its number, or nothing if nothing is recorded
// (TORCH_FR_BUFFER_SIZE=0). Takes the interpreter's lock.
std::optional<std::uint64_t> record_flight(FlightRequest&& request);
// Gives the entry its transfer, from which its state is read.
void set_transfer(std::optional<std::uint64_t> id, std::shared_ptr<const Transfer> transfer);
// The latest collectives, TORCH_FR_BUFFER_SIZE (2000) at most, oldest first.
std::vector<FlightEntry> recorded_flights();
// Number of collectives that have failed so far.
std::uint64_t failed_flights();

}  // namespace hpu_reference::distributed
