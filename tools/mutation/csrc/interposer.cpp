// Interposes the kernels of a device: records the mutants that calls trigger, or runs one mutant.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <set>
#include <tuple>

#include "autocast.h"
#include "call_history.h"
#include "device_guard.h"
#include "mutant.h"

namespace mutation {

namespace {

// True while a mutant or its trigger conditions run. Operator calls then go to the original kernels.
thread_local bool t_inside = false;

class InsideMutant {
 public:
  InsideMutant() {
    t_inside = true;
  }
  ~InsideMutant() {
    t_inside = false;
  }
  InsideMutant(const InsideMutant&) = delete;
  InsideMutant& operator=(const InsideMutant&) = delete;

 private:
  at::AutoDispatchBelowADInplaceOrView below_;
};

struct InterposedKernel {
  InterposedKernel(const c10::OperatorHandle& op, c10::DispatchKey key)
      : overload(op), original(op.getComputedKernelForDispatchKey(key)) {
  }

  OverloadProperties overload;
  c10::SafeKernelFunction original;
  std::vector<Mutant> observed;
  c10::RegistrationHandleRAII registration = c10::RegistrationHandleRAII([] {});
  // The triggered mutants: pairs of an index in `observed` and the call's dtype as a number. `mutex` protects
  // the set.
  std::mutex mutex;
  std::set<std::pair<std::size_t, int>> triggered;
};

class OriginalKernel : public Kernel {
 public:
  OriginalKernel(const InterposedKernel& interposed, c10::DispatchKeySet keys)
      : interposed_(interposed), keys_(keys) {
  }
  void call(Stack* stack) const override {
    interposed_.original.callBoxed(interposed_.overload.op, keys_, stack);
  }

 private:
  const InterposedKernel& interposed_;
  c10::DispatchKeySet keys_;
};

std::deque<InterposedKernel> g_interposed;
std::atomic<bool> g_observing{false};

// The interposed kernel with the enabled mutant. The pointer changes only while no kernel runs.
std::atomic<InterposedKernel*> g_mutated_kernel{nullptr};
Mutant g_enabled_mutant;
std::mutex g_count_mutex;
int64_t g_triggered_calls = 0;
int64_t g_altered_calls = 0;

void observe(InterposedKernel* interposed, const Kernel& kernel, Stack* stack) {
  Call call(interposed->overload, *stack);
  const int dtype = call.dtype();
  std::vector<std::size_t> possible;
  {
    const std::lock_guard<std::mutex> lock(interposed->mutex);
    for (std::size_t i = 0; i < interposed->observed.size(); i++) {
      if (interposed->triggered.count({i, dtype}) == 0) {
        possible.push_back(i);
      }
    }
  }
  if (possible.empty()) {
    kernel.call(stack);
    return;
  }
  std::vector<std::size_t> triggered;
  const auto store_triggered = [&] {
    const std::lock_guard<std::mutex> lock(interposed->mutex);
    for (std::size_t i : triggered) {
      interposed->triggered.insert({i, dtype});
    }
  };
  std::vector<std::size_t> next;
  for (std::size_t i : possible) {
    const Mutant& mutant = interposed->observed[i];
    try {
      if (call.meets_condition_before_kernel(mutant)) {
        call.store_old_values(mutant);
        next.push_back(i);
      }
    } catch (const c10::Error&) {
      // The device cannot evaluate the trigger condition for the dtype of this call, so the mutant is not
      // triggered.
    }
  }
  try {
    kernel.call(stack);
  } catch (const c10::Error&) {
    for (std::size_t i : possible) {
      if (Call::meets_condition_of_error(interposed->observed[i])) {
        triggered.push_back(i);
      }
    }
    // The kernel has thrown. Mutants that pass another value of an option or of a number are triggered too,
    // because the call might not throw with that value.
    for (std::size_t i : next) {
      const MutationOperator mutation_operator = interposed->observed[i].mutation_operator;
      if (mutation_operator == MutationOperator::kOptionIgnored ||
          mutation_operator == MutationOperator::kNumberStale) {
        triggered.push_back(i);
      }
    }
    store_triggered();
    throw;
  }
  const Stack results(stack->end() - static_cast<std::ptrdiff_t>(interposed->overload.results), stack->end());
  for (std::size_t i : next) {
    try {
      if (call.meets_condition_after_kernel(interposed->observed[i], results)) {
        triggered.push_back(i);
      }
    } catch (const c10::Error&) {
    }
  }
  store_triggered();
}

// An object whose destructor, at the end of the current call, writes the values that earlier calls postponed.
class PostponedWriter {
 public:
  PostponedWriter() : postponed_writes_(take_postponed_writes()) {
  }
  ~PostponedWriter() {
    if (!postponed_writes_.empty()) {
      const InsideMutant inside;
      perform_postponed_writes(postponed_writes_);
    }
  }
  PostponedWriter(const PostponedWriter&) = delete;
  PostponedWriter& operator=(const PostponedWriter&) = delete;

 private:
  const std::vector<PostponedWrite> postponed_writes_;
};

class Interposer : public c10::OperatorKernel {
 public:
  explicit Interposer(InterposedKernel* interposed) : interposed_(interposed) {
  }

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet keys, Stack* stack) {
    const OriginalKernel kernel(*interposed_, keys);
    if (t_inside) {
      kernel.call(stack);
      return;
    }
    const PostponedWriter postponed_writer;
    const bool is_mutated = g_mutated_kernel.load(std::memory_order_acquire) == interposed_;
    if (!(is_mutated || g_observing.load(std::memory_order_acquire))) {
      kernel.call(stack);
      return;
    }
    const InsideMutant inside;
    if (!is_mutated) {
      observe(interposed_, kernel, stack);
      return;
    }
    int64_t triggered_calls = 0;
    bool sure = false;
    {
      const std::lock_guard<std::mutex> lock(g_count_mutex);
      triggered_calls = g_triggered_calls;
      sure = g_altered_calls != 0;
    }
    const int64_t before = triggered_calls;
    bool altered = false;
    const auto count = [&] {
      const std::lock_guard<std::mutex> lock(g_count_mutex);
      g_triggered_calls += triggered_calls - before;
      g_altered_calls += altered ? 1 : 0;
    };
    try {
      altered = run_mutant(interposed_->overload, g_enabled_mutant, kernel, stack, &triggered_calls, sure);
    } catch (...) {
      altered = triggered_calls != before;
      count();
      throw;
    }
    count();
  }

 private:
  InterposedKernel* interposed_;
};

using Description = std::tuple<std::string, std::size_t, int64_t, int>;

Mutant mutant_from_description(const OverloadProperties& overload, const Description& description) {
  Mutant mutant{mutation_operator_named(std::get<0>(description)),
                std::get<1>(description),
                std::get<2>(description),
                std::get<3>(description)};
  if (mutant.mutation_operator == MutationOperator::kOptionIgnored) {
    const c10::Argument& argument = overload.op.schema().arguments().at(mutant.position);
    if (argument.default_value()) {
      mutant.replacement_value = *argument.default_value();
    } else if (argument.type()->kind() == c10::TypeKind::ListType) {
      mutant.is_list = true;
    } else if (argument.type()->kind() == c10::TypeKind::BoolType) {
      mutant.replacement_value = mutant.value != 0;
    } else if (argument.type()->kind() == c10::TypeKind::IntType) {
      mutant.replacement_value = mutant.value;
    }
  }
  return mutant;
}

void install(const std::string& key_name, const std::vector<std::string>& names) {
  const c10::DispatchKey key = c10::parseDispatchKey(key_name);
  for (const std::string& name : names) {
    const std::size_t dot = name.find('.');
    const std::string overload_name = dot == std::string::npos ? "" : name.substr(dot + 1);
    const c10::OperatorName operator_name(name.substr(0, dot), overload_name);
    const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(
        operator_name.name.c_str(), operator_name.overload_name.c_str());
    g_interposed.emplace_back(op, key);
    InterposedKernel& interposed = g_interposed.back();
    interposed.registration = c10::Dispatcher::singleton().registerImpl(
        operator_name,
        key,
        c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Interposer>(&interposed)),
        std::nullopt,
        nullptr,
        "mutation testing");
  }
}

InterposedKernel& kernel_at_point(std::size_t point) {
  TORCH_CHECK_INDEX(point < g_interposed.size(),
                    "point index ",
                    point,
                    " is out of range for ",
                    g_interposed.size(),
                    " points");
  return g_interposed[point];
}

void set_observed(std::size_t point, const std::vector<Description>& mutants) {
  InterposedKernel& interposed = kernel_at_point(point);
  interposed.observed.clear();
  for (const Description& description : mutants) {
    interposed.observed.push_back(mutant_from_description(interposed.overload, description));
  }
}

std::vector<std::tuple<std::size_t, std::size_t, int>> take_triggered() {
  std::vector<std::tuple<std::size_t, std::size_t, int>> all;
  for (std::size_t i = 0; i < g_interposed.size(); i++) {
    std::set<std::pair<std::size_t, int>> triggered;
    {
      const std::lock_guard<std::mutex> lock(g_interposed[i].mutex);
      triggered.swap(g_interposed[i].triggered);
    }
    for (const auto& [mutant, dtype] : triggered) {
      all.emplace_back(i, mutant, dtype);
    }
  }
  clear_call_history();
  return all;
}

void activate(std::size_t point, const Description& description) {
  InterposedKernel& interposed = kernel_at_point(point);
  g_enabled_mutant = mutant_from_description(interposed.overload, description);
  g_triggered_calls = g_altered_calls = 0;
  g_mutated_kernel.store(&interposed, std::memory_order_release);
}

std::pair<int64_t, int64_t> deactivate() {
  g_mutated_kernel.store(nullptr, std::memory_order_release);
  {
    const InsideMutant inside;
    clear_call_history();
  }
  const std::lock_guard<std::mutex> lock(g_count_mutex);
  return {g_triggered_calls, g_altered_calls};
}

}  // namespace

}  // namespace mutation

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  namespace py = pybind11;
  module.def("install",
             &mutation::install,
             py::arg("key"),
             py::arg("names"),
             "Interpose the kernels of overloads. A mutation point is an index into `names`.");
  module.def("set_observed",
             &mutation::set_observed,
             py::arg("point"),
             py::arg("mutants"),
             "Select the mutants whose trigger conditions are observed at a mutation point.");
  module.def("observe", [](bool on) { mutation::g_observing.store(on); }, py::arg("on"));
  module.def("take_triggered",
             &mutation::take_triggered,
             "Return the mutants triggered since the last call: mutation point, index of the mutant, dtype.");
  module.def("activate", &mutation::activate, py::arg("point"), py::arg("mutant"));
  module.def("deactivate",
             &mutation::deactivate,
             "Disable the mutant; return the numbers of triggered and altered calls.");
  module.def("install_guard", &mutation::install_guard, py::arg("device"), py::arg("mutants"));
  module.def("observe_guard", &mutation::observe_guard, py::arg("on"));
  module.def("take_triggered_guard_mutants", &mutation::take_triggered_guard_mutants);
  module.def("activate_guard", &mutation::activate_guard, py::arg("mutant"));
  module.def("deactivate_guard", &mutation::deactivate_guard);
  module.def(
      "install_autocast", &mutation::install_autocast, py::arg("key"), py::arg("device"), py::arg("names"));
  module.def("observe_autocast", &mutation::observe_autocast, py::arg("on"));
  module.def("take_triggered_autocast_mutants", &mutation::take_triggered_autocast_mutants);
  module.def(
      "activate_autocast", &mutation::activate_autocast, py::arg("point"), py::arg("mutation_operator"));
  module.def("deactivate_autocast", &mutation::deactivate_autocast);
}
