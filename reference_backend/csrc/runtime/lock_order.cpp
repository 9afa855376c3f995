#include "runtime/lock_order.h"

#ifdef HPU_REFERENCE_CHECK_LOCKS

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace hpu_reference::runtime {

namespace {

thread_local std::vector<std::pair<LockRank, const void*>> tls_held_locks;

const char* description(LockRank rank) {
  switch (rank) {
    case LockRank::Graph:
      return "a captured graph's lock";
    case LockRank::CaptureRecording:
      return "a capture's lock";
    case LockRank::Recorder:
      return "lazy mode's lock";
    case LockRank::Gil:
      return "the GIL";
    case LockRank::Compute:
      return "the compute lock";
    case LockRank::Recipe:
      return "a recipe's lock";
    default:
      return "a lock of the scheduler or the pool";
  }
}

[[noreturn]] void abort_with_message(LockRank held_rank, const char* purpose) {
  std::fprintf(
      stderr, "hpu: lock order violated: a thread that holds %s %s\n", description(held_rank), purpose);
  std::abort();
}

}  // namespace

void record_lock(LockRank rank, const void* mutex) {
  for (const auto& [held_rank, held_mutex] : tls_held_locks) {
    if (held_mutex != mutex && held_rank >= rank) {
      abort_with_message(held_rank, (std::string("takes ") + description(rank)).c_str());
    }
  }
  tls_held_locks.emplace_back(rank, mutex);
}

void record_unlock(const void* mutex) {
  const auto position = std::find_if(
      tls_held_locks.rbegin(), tls_held_locks.rend(), [&](const auto& lock) { return lock.second == mutex; });
  tls_held_locks.erase(std::next(position).base());
}

void require_at_most(LockRank rank, const char* purpose) {
  for (const auto& [held_rank, mutex] : tls_held_locks) {
    if (held_rank > rank) {
      abort_with_message(held_rank, purpose);
    }
  }
}

}  // namespace hpu_reference::runtime

#endif
