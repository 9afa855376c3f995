#include "runtime/thread_state.h"

#include <ATen/Parallel.h>
#include <immintrin.h>

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

PlainState::PlainState() : guard_(fresh_state()) {
}

}  // namespace hpu_reference::runtime
