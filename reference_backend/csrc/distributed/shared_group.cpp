#include "distributed/shared_group.h"

#include <c10/util/Exception.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "memory/allocator.h"

namespace hpu_reference::distributed {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

constexpr std::uint64_t kLayout = 2;  // version of the memory layout
// Bytes of the area for the small part of a rank in one collective. Each rank has two areas, which successive
// collectives use in turn. The system allocates only the pages that are written.
constexpr std::uint64_t kPartBytes = 1 << 20;
// Maximum number of bytes that a rank reads in a collective with small parts, if the rank reads the parts of
// all ranks.
constexpr std::uint64_t kReadBytes = 2 << 20;
// How a rank waits: it first polls kPolls times without yielding the processor. It then polls for the time
// kYieldTime and yields after each poll. After that, it sleeps.
constexpr int kPolls = 100;
constexpr microseconds kYieldTime{50};
// Longest sleep between two checks of the clock and of the other processes.
constexpr milliseconds kMaxSleep{50};

// The end state of a rank: still active, or how it has left the group.
enum : std::uint32_t { kActive = 0, kLeftGroup = 1, kFailed = 2 };

bool is_sharing_enabled() {
  const char* text = std::getenv("HPU_REFERENCE_SHARED_COLLECTIVES");
  const std::string value = text == nullptr || *text == '\0' ? "1" : text;
  TORCH_CHECK(value == "0" || value == "1",
              "HPU_REFERENCE_SHARED_COLLECTIVES='",
              value,
              "' is not supported; use 1 (collectives of ranks on one machine run in shared memory) or 0 "
              "(gloo runs them)");
  return value == "1";
}

std::string key(const char* field, int rank) {
  return std::string("shared/") + field + "/" + std::to_string(rank);
}

void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// The state of one rank. Each state is on separate cache lines, because only its own rank writes it.
struct alignas(64) SharedGroup::State {
  std::atomic<std::uint64_t> step;
  std::atomic<std::uint32_t> end_state;
  std::atomic<std::uint32_t> reads_devices;
  std::uint64_t nonce;  // a number that the rank also publishes in the store
  std::int64_t process;
  MemoryLocation device;
  // Used in turn: other ranks may still read the description of the previous collective.
  CollectiveDescription descriptions[2];
};

struct SharedGroup::Control {
  alignas(64) std::atomic<std::uint32_t> wake_counter;  // changes with each step for which another rank waits
  std::atomic<std::uint32_t> sleepers;
  State states[kMaxRanks];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

SharedGroup::Control& SharedGroup::control() const {
  return *reinterpret_cast<Control*>(memory_.data());
}

SharedGroup::State& SharedGroup::state(int rank) const {
  return control().states[rank];
}

CollectiveDescription& SharedGroup::description(int rank) const {
  return state(rank).descriptions[collective_number_ % 2];
}

char* SharedGroup::small_part_memory(int rank) const {
  const std::uint64_t area =
      collective_number_ % 2 * static_cast<std::uint64_t>(size_) + static_cast<std::uint64_t>(rank);
  return memory_.data() + sizeof(Control) + area * kPartBytes;
}

bool SharedGroup::is_small(std::uint64_t bytes, bool all_read) const {
  const std::uint64_t limit =
      all_read ? std::min(kPartBytes, kReadBytes / static_cast<std::uint64_t>(size_)) : kPartBytes;
  return bytes <= limit;
}

std::uint64_t SharedGroup::memory_bytes(int size) {
  return sizeof(Control) + 2 * static_cast<std::uint64_t>(size) * kPartBytes;
}

// Rank 0 creates the memory and the other ranks open it. Each rank writes a number into the memory and into
// the store, so that rank 0 can verify that all ranks have the same memory. Rank 0 announces the result to
// all ranks.
std::optional<Mapping> SharedGroup::join(c10d::Store& store, int rank, int size) {
  std::optional<Mapping> memory;
  std::string nonce;
  const auto write_proof = [&] {
    State& own = reinterpret_cast<Control*>(memory->data())->states[rank];
    own.process = getpid();
    own.nonce = random_number();
    nonce = std::to_string(own.nonce);
  };
  try {
    if (rank == 0) {
      memory = Mapping::make(memory_bytes(size));
      write_proof();
      const MemoryLocation location = location_of(memory->descriptor());
      std::string text = nonce;
      for (const std::uint64_t number : {static_cast<std::uint64_t>(location.process),
                                         static_cast<std::uint64_t>(location.descriptor),
                                         location.device,
                                         location.inode,
                                         location.size}) {
        text += ' ' + std::to_string(number);
      }
      store.set("shared/place", text);
    } else {
      std::istringstream text(store.get_to_str("shared/place"));
      std::uint64_t number = 0;
      MemoryLocation location;
      if (text >> number >> location.process >> location.descriptor >> location.device >> location.inode >>
              location.size &&
          location.size == memory_bytes(size)) {
        memory = Mapping::open(location, /*writable=*/true);
        if (reinterpret_cast<Control*>(memory->data())->states[0].nonce != number) {
          memory.reset();
        } else {
          write_proof();
        }
      }
    }
  } catch (const std::system_error&) {  // not permitted to this process, or not available on this system
    memory.reset();
    nonce.clear();
    if (rank == 0) {
      store.set("shared/place", "none");
    }
  }
  if (rank != 0) {
    store.set(key("nonce", rank), nonce);
    if (store.get_to_str("shared/verdict") != "yes") {
      memory.reset();
    }
    return memory;
  }
  bool all = memory.has_value();
  for (int peer = 1; peer < size; peer++) {
    const std::string reply = store.get_to_str(key("nonce", peer));
    all = all && reply == std::to_string(reinterpret_cast<Control*>(memory->data())->states[peer].nonce);
  }
  store.set("shared/verdict", all ? "yes" : "no");
  if (!all) {
    memory.reset();
  } else {
    memory->seal();
  }
  return memory;
}

std::shared_ptr<SharedGroup> SharedGroup::create(c10d::Store& store, int rank, int size) {
  if (size > kMaxRanks) {
    return nullptr;
  }
  const std::string own =
      is_sharing_enabled() ? std::to_string(kLayout) + ' ' + sharing_domain() : std::string("none");
  bool alike = own != "none";
  if (size > 1) {
    store.set(key("surroundings", rank), own);
    for (int peer = 0; peer < size; peer++) {
      alike = (peer == rank || store.get_to_str(key("surroundings", peer)) == own) && alike;
    }
  }
  if (!alike) {
    return nullptr;
  }
  std::optional<Mapping> memory = join(store, rank, size);
  return memory.has_value() ? std::shared_ptr<SharedGroup>(new SharedGroup(std::move(*memory), rank, size))
                            : nullptr;
}

SharedGroup::SharedGroup(Mapping memory, int rank, int size)
    : memory_(std::move(memory)), rank_(rank), size_(size), owner_(getpid()) {
  processes_.reserve(static_cast<std::size_t>(size));
  for (int peer = 0; peer < size; peer++) {
    processes_.emplace_back(state(peer).process);
  }
}

SharedGroup::~SharedGroup() {
  leave();
}

bool SharedGroup::is_usable() const {
  return owner_ == getpid() && state(rank_).end_state.load() == kActive && !aborted_;
}

void SharedGroup::wake_ranks() const {
  Control& all = control();
  all.wake_counter.fetch_add(1);
  wake_all(reinterpret_cast<const std::uint32_t*>(&all.wake_counter));
}

void SharedGroup::advance() {
  state(rank_).step.store(++step_, std::memory_order_release);
  // With this fence, either this rank sees that another rank sleeps, or the other rank sees the new step
  // before it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (control().sleepers.load(std::memory_order_relaxed) != 0) {
    wake_ranks();
  }
}

bool SharedGroup::have_all_made_steps(std::uint64_t step) const {
  for (int peer = 0; peer < size_; peer++) {
    if (state(peer).step.load(std::memory_order_acquire) < step) {
      return false;
    }
  }
  return true;
}

bool SharedGroup::arrive_within_yield_time(std::uint64_t step) const {
  for (int poll = 0; poll < kPolls; poll++) {
    if (have_all_made_steps(step)) {
      return true;
    }
    cpu_pause();
  }
  const auto end = Clock::now() + kYieldTime;
  do {
    sched_yield();  // the other rank may need this processor
    if (have_all_made_steps(step)) {
      return true;
    }
  } while (Clock::now() < end);
  return false;
}

// Throws if a missing rank will not arrive, or if the time limit is exceeded.
void SharedGroup::check_other_ranks(std::uint64_t step, WaitLimits& limits) const {
  if (aborted_) {
    throw std::runtime_error("the group was aborted");
  }
  const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - limits.start);
  if (limits.on_slow && waited >= limits.slow_after) {
    std::exchange(limits.on_slow, nullptr)();
  }
  std::string missing;
  for (int peer = 0; peer < size_; peer++) {
    const State& theirs = state(peer);
    const bool ended = processes_[static_cast<std::size_t>(peer)].has_ended();
    const std::uint32_t end_state = theirs.end_state.load();
    if (theirs.step.load(std::memory_order_acquire) >= step) {
      continue;  // the step is read last: the rank may have arrived just before it ended
    }
    const std::string name = "rank " + std::to_string(peer);
    if (ended) {
      throw std::runtime_error("the process of " + name + " has ended");
    }
    if (end_state != kActive) {
      throw std::runtime_error(
          name + (end_state == kLeftGroup ? " has left the group" : " has aborted a collective"));
    }
    missing += (missing.empty() ? "" : ", ") + name;
  }
  if (!missing.empty() && waited >= limits.timeout) {
    throw std::runtime_error("timed out in shared memory after " + std::to_string(limits.timeout.count()) +
                             " ms, waiting for " + missing);
  }
}

void SharedGroup::wait(std::uint64_t step, WaitLimits& limits) const {
  if (arrive_within_yield_time(step)) {
    return;
  }
  Control& all = control();
  auto examined = Clock::now();
  while (true) {
    const std::uint32_t wake_counter_value = all.wake_counter.load(std::memory_order_acquire);
    all.sleepers.fetch_add(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the fence in advance()
    const bool here = have_all_made_steps(step);
    if (!here && !aborted_) {
      wait_for_change(
          reinterpret_cast<const std::uint32_t*>(&all.wake_counter), wake_counter_value, kMaxSleep.count());
    }
    all.sleepers.fetch_sub(1);
    if (here || have_all_made_steps(step)) {
      return;
    }
    if (aborted_ || Clock::now() - examined >= kMaxSleep) {
      check_other_ranks(step, limits);
      examined = Clock::now();
    }
  }
}

int SharedGroup::failed_rank() const {
  std::atomic_thread_fence(std::memory_order_acquire);  // after all reads from the ranks' memory
  for (int peer = 0; peer < size_; peer++) {
    if (state(peer).end_state.load() == kFailed) {
      return peer;
    }
  }
  return -1;
}

void SharedGroup::require_no_failure() const {
  if (const int rank = failed_rank(); rank >= 0) {
    throw std::runtime_error("rank " + std::to_string(rank) + " has aborted a collective");
  }
}

bool SharedGroup::share_device_memory(WaitLimits& limits) {
  if (devices_ != Devices::Unknown) {
    return devices_ == Devices::Shared;
  }
  state(rank_).device = location_of(memory::arena().descriptor);
  advance();
  wait(step_, limits);
  bool all = true;
  try {
    for (int peer = 0; peer < size_; peer++) {
      views_.push_back(Mapping::open(state(peer).device, /*writable=*/false));
    }
  } catch (const std::system_error&) {
    all = false;
  }
  state(rank_).reads_devices.store(all ? 1 : 0);
  advance();
  wait(step_, limits);
  for (int peer = 0; peer < size_; peer++) {
    all = all && state(peer).reads_devices.load() == 1;
  }
  devices_ = all ? Devices::Shared : Devices::Not;
  if (!all) {
    views_.clear();
  }
  return all;
}

// Sets this rank's end state. Must be called before this rank reuses its memory: the other ranks check the
// state after they have read the memory.
void SharedGroup::set_end_state(std::uint32_t end_state) {
  if (owner_ != getpid()) {
    return;
  }
  std::uint32_t before = kActive;
  if (state(rank_).end_state.compare_exchange_strong(before, end_state)) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    wake_ranks();
  }
}

void SharedGroup::fail() {
  set_end_state(kFailed);
}

void SharedGroup::abort() {
  aborted_ = true;
  set_end_state(kFailed);
  if (owner_ == getpid()) {
    wake_ranks();
  }
}

void SharedGroup::leave() {
  set_end_state(kLeftGroup);
}

}  // namespace hpu_reference::distributed
