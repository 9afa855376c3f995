// If the variable TINY_FALLBACK is set, operators without a kernel of the device run on the CPU, on copies.
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <cstdlib>

namespace tiny {
namespace {

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  if (std::getenv("TINY_FALLBACK") != nullptr) {
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  }
}

}  // namespace
}  // namespace tiny
