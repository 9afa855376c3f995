#include "distributed/missing_rank_report.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

namespace hpu_reference::distributed {

using std::chrono::milliseconds;

namespace {

// Pause between two reads of the other ranks' arrivals.
constexpr milliseconds kPause{50};

std::string join_ranks(const std::vector<int>& ranks) {
  std::ostringstream text;
  for (std::size_t index = 0; index < ranks.size(); index++) {
    text << (index == 0 ? "" : ", ") << ranks[index];
  }
  return text.str();
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// Returns a second client of the same store, or the store itself if it cannot be cloned.
template <class Store>
c10::intrusive_ptr<c10d::Store> second_client(const c10::intrusive_ptr<Store>& store) {
  if constexpr (requires { store->clone(); }) {
    try {
      return store->clone();
    } catch (...) {  // a store that is written in Python cannot be cloned
    }
  }
  return store;
}

}  // namespace

// The report's connection to the store, and the arrivals that are still to be written. A thread that writes
// arrivals keeps this object alive.
class MissingRankReport::ArrivalStore : public std::enable_shared_from_this<ArrivalStore> {
 public:
  // Connects now: once the process of the store has ended, connecting would take the full timeout.
  explicit ArrivalStore(const c10::intrusive_ptr<c10d::Store>& user_store)
      : store_(second_client(user_store)) {
  }

  c10d::Store& store() const {
    return *store_;
  }

  // Writes on another thread, because a store may take as long as its timeout.
  void write_soon(std::string key, std::string value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    arrivals_.emplace_back(std::move(key), std::move(value));
    if (!writing_) {
      std::thread([board = shared_from_this()] { board->write(); }).detach();
      writing_ = true;
    }
  }

 private:
  void write() noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!arrivals_.empty()) {
      const auto [key, value] = std::move(arrivals_.front());
      arrivals_.pop_front();
      lock.unlock();
      try {
        store().set(key, value);
      } catch (...) {  // the process of the store has ended; describe() reports this
      }
      lock.lock();
    }
    writing_ = false;
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  std::mutex mutex_;  // guards the following members
  std::deque<std::pair<std::string, std::string>> arrivals_;
  bool writing_ = false;
};

MissingRankReport::MissingRankReport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size)
    : arrival_store_(std::make_shared<ArrivalStore>(store)), rank_(rank), size_(size) {
}

milliseconds MissingRankReport::arrival_delay(const Collective& collective) const {
  return std::clamp(collective.timeout / 4, milliseconds(1), milliseconds(1000));
}

std::string MissingRankReport::key(const Collective& collective, int rank) const {
  return "hccl/" + std::to_string(collective.number) + "/" + std::to_string(rank);
}

void MissingRankReport::rendezvous(const Collective& collective, std::uint64_t rendezvous_number) const {
  const std::string counter_key = "hccl/meeting/" + std::to_string(rendezvous_number);
  const std::string all = counter_key + "/all";
  c10d::Store& store = arrival_store_->store();
  if (store.add(counter_key, 1) == size_) {
    store.set(all, "");
    // Delete the keys of the previous rendezvous, which every rank has left.
    const std::string before = "hccl/meeting/" + std::to_string(rendezvous_number - 1);
    store.deleteKey(before);
    store.deleteKey(before + "/all");
    return;
  }
  // Do not use Store::wait, which blocks the connection for other callers.
  const auto end = std::chrono::steady_clock::now() + collective.timeout;
  for (milliseconds pause{1}; !store.check({all}); pause = std::min(2 * pause, kPause)) {
    TORCH_CHECK(std::chrono::steady_clock::now() < end,
                "not all ranks have reached the rendezvous before the collective");
    std::this_thread::sleep_for(pause);
  }
}

void MissingRankReport::record_arrival(const Collective& collective) const noexcept {
  try {
    arrival_store_->write_soon(key(collective, rank_), collective.name);
  } catch (...) {  // the thread could not be started; describe() records the arrival again
  }
}

void MissingRankReport::wait(c10d::Work& work, const Collective& collective) const {
  try {
    work.wait(arrival_delay(collective));
    return;
  } catch (...) {
    if (work.isCompleted()) {
      // The first wait may have thrown because it timed out just before the work was completed. A second wait
      // throws only if the work has failed.
      work.wait();
      return;
    }
  }
  record_arrival(collective);
  work.wait();
}

std::string MissingRankReport::describe(const Collective& collective, const std::string& why) const {
  std::vector<int> missing;
  std::vector<std::string> elsewhere;
  std::string store_error;
  for (int rank = 0; rank < size_; rank++) {
    if (rank != rank_) {
      missing.push_back(rank);
    }
  }
  const auto end = std::chrono::steady_clock::now() + arrival_delay(collective) + milliseconds(500);
  try {
    c10d::Store& store = arrival_store_->store();
    store.set(key(collective, rank_), collective.name);
    while (true) {
      const auto is_there = [&](int rank) {
        if (!store.check({key(collective, rank)})) {
          return false;
        }
        const std::string name = store.get_to_str(key(collective, rank));
        if (name != collective.name) {
          elsewhere.push_back("rank " + std::to_string(rank) + " is at " + name);
        }
        return true;
      };
      missing.erase(std::remove_if(missing.begin(), missing.end(), is_there), missing.end());
      if (missing.empty() || std::chrono::steady_clock::now() >= end) {
        break;
      }
      std::this_thread::sleep_for(kPause);
    }
  } catch (const std::exception&) {
    store_error = "the missing ranks are unknown, because the process of the store has ended";
  }
  std::ostringstream text;
  text << "hccl: " << collective.name << " (number " << collective.number << " of process group "
       << collective.group << ", rank " << rank_ << " of " << size_ << ", timeout "
       << collective.timeout.count() << " ms) failed: ";
  if (!store_error.empty()) {
    text << store_error;
  } else if (!missing.empty()) {
    text << "no sign of " << (missing.size() == 1 ? "rank " : "ranks ") << join_ranks(missing);
  } else if (elsewhere.empty()) {
    text << "all ranks have reached the collective";
  }
  for (std::size_t index = 0; index < elsewhere.size(); index++) {
    text << (index == 0 && missing.empty() && store_error.empty() ? "" : ", ") << elsewhere[index];
  }
  text << " (transport: " << first_line(why) << ")";
  return text.str();
}

}  // namespace hpu_reference::distributed
