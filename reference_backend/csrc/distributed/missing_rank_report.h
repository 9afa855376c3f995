// The ranks that take part in a collective that does not end: each rank that waits long writes so into the
// group's store, and if the collective fails, the error names those that have not.
//
// Collectives that end soon cost nothing: nothing is written for them, unless the ranks meet before each. The
// group's store is the user's, who may be waiting in it: the roll call has a connection of its own (in
// releases of torch that can clone a store), and a thread that carries no collectives writes the answers.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace hpu_reference::distributed {

// One collective of a group.
struct Collective {
  std::string name;      // ALLREDUCE, …
  std::uint64_t number;  // counted from 1 in its group, alike on all ranks
  std::string group;     // the group's name, for messages
  std::chrono::milliseconds timeout;
};

// The roll call of one group.
class MissingRankReport {
 public:
  MissingRankReport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size);

  // Waits for gloo's work; answers the call if that takes long. Throws what the work throws.
  void wait(c10d::Work& work, const Collective& collective) const;
  // Waits until all ranks have come to the meeting before a collective, counted from 1 in the group. Throws
  // if some have not within the collective's timeout.
  void rendezvous(const Collective& collective, std::uint64_t rendezvous_number) const;
  // How long a rank waits in the collective before it answers.
  std::chrono::milliseconds arrival_delay(const Collective& collective) const;
  // Answers: this rank is at the collective.
  void record_arrival(const Collective& collective) const noexcept;
  // The error message for a collective that has failed with `why`.
  std::string describe(const Collective& collective, const std::string& why) const;

 private:
  std::string key(const Collective& collective, int rank) const;

  class Board;
  const std::shared_ptr<Board> board_;
  const int rank_;
  const int size_;
};

}  // namespace hpu_reference::distributed
