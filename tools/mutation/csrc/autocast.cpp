// Interposes the kernels that cast under autocast, and runs one of them with a mutant.
#include "autocast.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>

namespace mutation {

namespace {

using Stack = torch::jit::Stack;

struct CastKernel {
  CastKernel(const c10::OperatorHandle& handle, c10::DispatchKey key)
      : op(handle), original(handle.getComputedKernelForDispatchKey(key)) {
  }
  c10::OperatorHandle op;
  c10::SafeKernelFunction original;
  c10::RegistrationHandleRAII registration = c10::RegistrationHandleRAII([] {});
};

std::deque<CastKernel> g_cast_kernels;
c10::DispatchKey g_key = c10::DispatchKey::Undefined;
at::DeviceType g_device = at::kCPU;
std::atomic<bool> g_observing{false};
std::atomic<const CastKernel*> g_mutated_cast{nullptr};
std::mutex g_cast_mutex;
std::string g_wrong_operator;
int64_t g_triggered_calls = 0;
int64_t g_altered_calls = 0;
std::set<std::pair<std::size_t, std::string>> g_recorded;
// The value that each weight had at its first cast, by the address of the weight.
std::map<const void*, at::Tensor> g_old_weights;

std::vector<at::ScalarType> dtypes_of(const Stack& values, std::size_t from) {
  std::vector<at::ScalarType> found;
  for (std::size_t i = from; i < values.size(); i++) {
    if (values[i].isTensor() && values[i].toTensor().defined()) {
      found.push_back(values[i].toTensor().scalar_type());
    }
  }
  return found;
}

bool has_no_float_dtype(const std::vector<at::ScalarType>& dtypes) {
  for (const at::ScalarType dtype : dtypes) {
    if (dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16) {
      return false;
    }
  }
  return true;
}

// Return whether the value is a float32 leaf tensor of the device that requires a gradient. torch's cast
// cache stores the casts of such tensors.
bool is_weight(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_leaf() &&
         value.toTensor().requires_grad() && value.toTensor().scalar_type() == at::kFloat &&
         value.toTensor().device().type() == g_device;
}

at::ScalarType other_low_precision_dtype() {
  return at::autocast::get_autocast_dtype(g_device) == at::kHalf ? at::kBFloat16 : at::kHalf;
}

// Return the result dtypes of a trial call that changes neither autograd state nor the cast cache.
template <class Run>
std::vector<at::ScalarType> result_dtypes_of_trial_call(const Stack& arguments, Run run) {
  const at::NoGradGuard no_grad;
  const bool cached = at::autocast::is_autocast_cache_enabled();
  at::autocast::set_autocast_cache_enabled(false);
  Stack trial = arguments;
  try {
    run(&trial);
  } catch (const c10::Error&) {
    trial.clear();
  }
  at::autocast::set_autocast_cache_enabled(cached);
  return dtypes_of(trial, 0);
}

class InterposedCast : public c10::OperatorKernel {
 public:
  explicit InterposedCast(const CastKernel* cast, std::size_t point) : cast_(cast), point_(point) {
  }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const bool observing = g_observing.load(std::memory_order_acquire);
    const bool mutated = g_mutated_cast.load(std::memory_order_acquire) == cast_;
    if (!observing && !mutated) {
      cast_->original.callBoxed(op, keys, stack);
      return;
    }
    const std::size_t count = op.schema().arguments().size();
    const Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
    const auto call_with_cast = [&](Stack* values) { cast_->original.callBoxed(op, keys, values); };
    const auto call_without_cast = [&](Stack* values) {
      const c10::impl::ExcludeDispatchKeyGuard guard(g_key);
      op.callBoxed(values);
    };
    const auto cast_to_other_dtype = [&](Stack* values) {
      const at::ScalarType dtype = at::autocast::get_autocast_dtype(g_device);
      const bool cached = at::autocast::is_autocast_cache_enabled();
      at::autocast::set_autocast_cache_enabled(false);
      at::autocast::set_autocast_dtype(g_device, other_low_precision_dtype());
      try {
        cast_->original.callBoxed(op, keys, values);
      } catch (...) {
        at::autocast::set_autocast_dtype(g_device, dtype);
        at::autocast::set_autocast_cache_enabled(cached);
        throw;
      }
      at::autocast::set_autocast_dtype(g_device, dtype);
      at::autocast::set_autocast_cache_enabled(cached);
    };
    if (observing) {
      const std::vector<at::ScalarType> expected = result_dtypes_of_trial_call(arguments, call_with_cast);
      record("");
      if (!has_no_float_dtype(expected) &&
          expected != result_dtypes_of_trial_call(arguments, call_without_cast)) {
        record("cast-missing");
      }
      if (!has_no_float_dtype(expected) &&
          expected != result_dtypes_of_trial_call(arguments, cast_to_other_dtype)) {
        record("cast-to-other-dtype");
      }
      for (const c10::IValue& value : arguments) {
        if (is_weight(value)) {
          record("cast-stale");
        }
      }
      call_with_cast(stack);
      return;
    }
    std::string mutation_operator;
    {
      const std::lock_guard<std::mutex> lock(g_cast_mutex);
      mutation_operator = g_wrong_operator;
    }
    if (mutation_operator == "cast-stale") {
      run_with_old_weights(arguments, call_with_cast, stack);
      return;
    }
    const bool missing = mutation_operator == "cast-missing";
    const std::vector<at::ScalarType> expected = result_dtypes_of_trial_call(arguments, call_with_cast);
    const std::vector<at::ScalarType> found =
        missing ? result_dtypes_of_trial_call(arguments, call_without_cast)
                : result_dtypes_of_trial_call(arguments, cast_to_other_dtype);
    if (found.empty() || expected == found || has_no_float_dtype(expected)) {
      call_with_cast(stack);
      return;
    }
    count_call(true);
    if (missing) {
      call_without_cast(stack);
    } else {
      cast_to_other_dtype(stack);
    }
  }

 private:
  void record(const char* mutation_operator) const {
    const std::lock_guard<std::mutex> lock(g_cast_mutex);
    g_recorded.insert({point_, mutation_operator});
  }

  static void count_call(bool altered) {
    const std::lock_guard<std::mutex> lock(g_cast_mutex);
    g_triggered_calls++;
    g_altered_calls += altered ? 1 : 0;
  }

  template <class Run>
  static void run_with_old_weights(const Stack& arguments, Run run, Stack* stack) {
    std::vector<std::pair<at::Tensor, at::Tensor>> swapped;
    {
      const at::NoGradGuard no_grad;
      for (const c10::IValue& value : arguments) {
        if (!is_weight(value)) {
          continue;
        }
        const at::Tensor weight = value.toTensor();
        at::Tensor old;
        {
          const std::lock_guard<std::mutex> lock(g_cast_mutex);
          const auto found = g_old_weights.find(weight.unsafeGetTensorImpl());
          old = found == g_old_weights.end() ? at::Tensor() : found->second;
        }
        if (old.defined() && old.sizes() == weight.sizes()) {
          if (!at::equal(old, weight)) {
            swapped.emplace_back(weight, old);
          }
        } else {
          const at::Tensor kept = weight.detach().clone();
          const std::lock_guard<std::mutex> lock(g_cast_mutex);
          g_old_weights[weight.unsafeGetTensorImpl()] = kept;
        }
      }
    }
    if (swapped.empty()) {
      run(stack);
      return;
    }
    count_call(true);
    // Replace the values of the weights by their old values, so that the kernel casts the old values.
    // `restore` undoes the replacement.
    std::vector<at::Tensor> now;
    for (const auto& [weight, old] : swapped) {
      const at::Tensor data = weight.detach();
      now.push_back(data.clone());
      const_cast<at::Tensor&>(weight).set_data(old.clone());
    }
    const bool cached = at::autocast::is_autocast_cache_enabled();
    at::autocast::set_autocast_cache_enabled(false);
    const auto restore = [&] {
      at::autocast::set_autocast_cache_enabled(cached);
      for (std::size_t i = 0; i < swapped.size(); i++) {
        swapped[i].first.set_data(now[i]);
      }
    };
    try {
      run(stack);
      // A queued kernel may still read the weight, and restore() changes it. Copying the results to the host
      // waits for the kernel.
      for (const c10::IValue& value : *stack) {
        if (value.isTensor() && value.toTensor().defined()) {
          static_cast<void>(value.toTensor().detach().cpu());
        }
      }
    } catch (...) {
      restore();
      throw;
    }
    restore();
  }

  const CastKernel* cast_;
  std::size_t point_;
};

}  // namespace

void install_autocast(const std::string& key,
                      const std::string& device,
                      const std::vector<std::string>& names) {
  g_key = c10::parseDispatchKey(key);
  g_device = at::Device(device).type();
  for (const std::string& name : names) {
    const std::size_t dot = name.find('.');
    const c10::OperatorName operator_name(name.substr(0, dot),
                                          dot == std::string::npos ? "" : name.substr(dot + 1));
    const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(
        operator_name.name.c_str(), operator_name.overload_name.c_str());
    g_cast_kernels.emplace_back(op, g_key);
    CastKernel& cast = g_cast_kernels.back();
    cast.registration = c10::Dispatcher::singleton().registerImpl(
        operator_name,
        g_key,
        c10::KernelFunction::makeFromBoxedFunctor(
            std::make_unique<InterposedCast>(&cast, g_cast_kernels.size() - 1)),
        std::nullopt,
        nullptr,
        "mutation testing");
  }
}

void observe_autocast(bool on) {
  g_observing.store(on);
}

std::vector<std::pair<std::size_t, std::string>> take_triggered_autocast_mutants() {
  const std::lock_guard<std::mutex> lock(g_cast_mutex);
  std::vector<std::pair<std::size_t, std::string>> recorded(g_recorded.begin(), g_recorded.end());
  g_recorded.clear();
  return recorded;
}

void activate_autocast(std::size_t point, const std::string& mutation_operator) {
  {
    const std::lock_guard<std::mutex> lock(g_cast_mutex);
    g_wrong_operator = mutation_operator;
    g_triggered_calls = g_altered_calls = 0;
    g_old_weights.clear();
  }
  g_mutated_cast.store(&g_cast_kernels.at(point));
}

std::pair<int64_t, int64_t> deactivate_autocast() {
  g_mutated_cast.store(nullptr);
  const std::lock_guard<std::mutex> lock(g_cast_mutex);
  g_old_weights.clear();
  return {g_triggered_calls, g_altered_calls};
}

}  // namespace mutation
