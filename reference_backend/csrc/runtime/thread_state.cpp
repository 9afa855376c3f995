#include "runtime/thread_state.h"

#include <ATen/Parallel.h>
#include <immintrin.h>

#include <pthread.h>

#include <atomic>
#include <string_view>
#include <thread>

// A function of the OpenMP runtime that torch loads. It sets the number of intra-op threads for the calling
// thread only. at::set_num_threads() would change the number for the whole process.
extern "C" void omp_set_num_threads(int);

namespace hpu_reference::runtime {

namespace {

const at::ThreadLocalState& default_state() {
  static const at::ThreadLocalState* const default_thread_state = [] {
    at::ThreadLocalState* state = nullptr;
    std::thread([&state] { state = new at::ThreadLocalState(); }).join();
    return state;
  }();
  return *default_thread_state;
}

std::atomic<bool> g_backward_threads{false};

bool check_thread_name() {
  char name[32] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  if (std::string_view(name).rfind("pt_autograd", 0) == 0) {  // torch's name for these threads
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

void record_backward_thread() {
  thread_local const bool checked = check_thread_name();
  static_cast<void>(checked);
}

bool has_backward_threads() {
  return g_backward_threads;
}

DefaultThreadState::DefaultThreadState() : guard_(default_state()) {
}

}  // namespace hpu_reference::runtime
