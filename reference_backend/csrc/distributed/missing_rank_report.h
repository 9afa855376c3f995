// The missing-rank report: an error text that names the ranks absent from a collective. A rank that waits
// long in a collective records its arrival in the group's store. If the collective fails, the error names the
// ranks that have not recorded their arrival.
//
// Collectives that end soon write nothing, unless the ranks rendezvous before each collective. The program
// may be waiting in the group's store. So the report uses its own connection, in releases of torch that can
// clone a store. A thread that runs no collectives writes the arrivals.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace hpu_reference::distributed {

// A collective of a group.
struct Collective {
  std::string name;      // ALLREDUCE, …
  std::uint64_t number;  // counted from 1 in its group; the same on all ranks
  std::string group;     // the group's name, for messages
  std::chrono::milliseconds timeout;
};

// The missing-rank report of one group.
class MissingRankReport {
 public:
  MissingRankReport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size);

  // Waits for gloo's work and records this rank's arrival if the wait takes long. Throws the errors of the
  // work.
  void wait(c10d::Work& work, const Collective& collective) const;
  // Waits until all ranks have reached the rendezvous before a collective. Rendezvous are counted from 1 in
  // the group. Throws if some ranks have not arrived within the collective's timeout.
  void rendezvous(const Collective& collective, std::uint64_t rendezvous_number) const;
  // Returns how long a rank waits in the collective before it records its arrival.
  std::chrono::milliseconds arrival_delay(const Collective& collective) const;
  // Records in the store that this rank has reached the collective.
  void record_arrival(const Collective& collective) const noexcept;
  // Returns the error message for a collective that has failed with the error `why`.
  std::string describe(const Collective& collective, const std::string& why) const;

 private:
  std::string key(const Collective& collective, int rank) const;

  class ArrivalStore;
  const std::shared_ptr<ArrivalStore> arrival_store_;
  const int rank_;
  const int size_;
};

}  // namespace hpu_reference::distributed
