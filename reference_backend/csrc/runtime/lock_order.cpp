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

thread_local std::vector<std::pair<LockRank, const void*>> tls_held;

const char* word(LockRank rank) {
  switch (rank) {
    case LockRank::Graph:
      return "a captured graph's lock";
    case LockRank::Recording:
      return "a capture's lock";
    case LockRank::Recorder:
      return "lazy mode's lock";
    case LockRank::Interpreter:
      return "the interpreter's lock";
    case LockRank::Compute:
      return "the compute lock";
    case LockRank::Recipe:
      return "a recipe's lock";
    default:
      return "a lock of the scheduler or the pool";
  }
}

[[noreturn]] void give_up(LockRank held, const char* purpose) {
  std::fprintf(stderr, "hpu: lock order violated: a thread with %s %s\n", word(held), purpose);
  std::abort();
}

}  // namespace

void note_locked(LockRank rank, const void* mutex) {
  for (const auto& [held, other] : tls_held) {
    if (other != mutex && held >= rank) {
      give_up(held, (std::string("takes ") + word(rank)).c_str());
    }
  }
  tls_held.emplace_back(rank, mutex);
}

void note_unlocked(const void* mutex) {
  const auto found = std::find_if(
      tls_held.rbegin(), tls_held.rend(), [&](const auto& held) { return held.second == mutex; });
  tls_held.erase(std::next(found).base());
}

void require_at_most(LockRank rank, const char* purpose) {
  for (const auto& [held, mutex] : tls_held) {
    if (held > rank) {
      give_up(held, purpose);
    }
  }
}

}  // namespace hpu_reference::runtime

#endif
