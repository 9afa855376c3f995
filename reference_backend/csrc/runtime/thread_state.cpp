#include "runtime/thread_state.h"

#include <ATen/Parallel.h>
#include <immintrin.h>

#include <pthread.h>

#include <atomic>
#include <string_view>
#include <thread>

// From the OpenMP runtime that torch loads: it sets the number of threads of the calling thread only, whereas
// at::set_num_threads() would change the process's.
extern "C" void omp_set_num_threads(int);

namespace hpu_reference::runtime {

namespace {

const at::ThreadLocalState& fresh_state() {
  static const at::ThreadLocalState* const made = [] {
    at::ThreadLocalState* fresh = nullptr;
    std::thread([&fresh] { fresh = new at::ThreadLocalState(); }).join();
    return fresh;
  }();
  return *made;
}

std::atomic<bool> g_backward_threads{false};

bool look_at_name() {
  char name[32] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  if (std::string_view(name).rfind("pt_autograd", 0) == 0) {  // the name that torch gives them
    g_backward_threads = true;
  }
  return true;
}

}  // namespace

ThreadState ThreadState::current() {
  return {at::get_num_threads(), _mm_getcsr()};
}

void ThreadState::apply() const {
  if (at::get_num_threads() != threads) {
    omp_set_num_threads(threads);
  }
  _mm_setcsr(rounding);
}

void note_backward_thread() {
  thread_local const bool looked = look_at_name();
  static_cast<void>(looked);
}

bool has_backward_threads() {
  return g_backward_threads;
}

PlainState::PlainState() : guard_(fresh_state()) {
}

}  // namespace hpu_reference::runtime
