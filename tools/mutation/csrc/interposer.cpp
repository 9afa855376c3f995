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

namespace power {

namespace {

// True while a mutant or its trigger conditions run. Operator calls then go to the original kernels.
thread_local bool t_inside = false;

class Inside {
 public:
  Inside() {
    t_inside = true;
  }
  ~Inside() {
    t_inside = false;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  at::AutoDispatchBelowADInplaceOrView below_;
};

struct Interposed {
  Interposed(const c10::OperatorHandle& op, c10::DispatchKey key)
      : place(op), original(op.getComputedKernelForDispatchKey(key)) {
  }

  Place place;
  c10::SafeKernelFunction original;
  std::vector<Fault> observed;
  c10::RegistrationHandleRAII registration = c10::RegistrationHandleRAII([] {});
  // The triggered mutants: pairs of an index in `observed` and the call's dtype as a number. `mutex` protects
  // the set.
  std::mutex mutex;
  std::set<std::pair<std::size_t, int>> met;
};

class Original : public Kernel {
 public:
  Original(const Interposed& interposed, c10::DispatchKeySet keys) : interposed_(interposed), keys_(keys) {
  }
  void call(Stack* stack) const override {
    interposed_.original.callBoxed(interposed_.place.op, keys_, stack);
  }

 private:
  const Interposed& interposed_;
  c10::DispatchKeySet keys_;
};

std::deque<Interposed> g_interposed;
std::atomic<bool> g_observing{false};

// The interposed kernel with the enabled mutant. The pointer changes only while no kernel runs.
std::atomic<Interposed*> g_faulty{nullptr};
Fault g_fault;
std::mutex g_count_mutex;
int64_t g_met = 0;
int64_t g_effects = 0;

void observe(Interposed* interposed, const Kernel& kernel, Stack* stack) {
  Call call(interposed->place, *stack);
  const int dtype = call.dtype();
  std::vector<std::size_t> possible;
  {
    const std::lock_guard<std::mutex> lock(interposed->mutex);
    for (std::size_t i = 0; i < interposed->observed.size(); i++) {
      if (interposed->met.count({i, dtype}) == 0) {
        possible.push_back(i);
      }
    }
  }
  if (possible.empty()) {
    kernel.call(stack);
    return;
  }
  std::vector<std::size_t> met;
  const auto keep = [&] {
    const std::lock_guard<std::mutex> lock(interposed->mutex);
    for (std::size_t i : met) {
      interposed->met.insert({i, dtype});
    }
  };
  std::vector<std::size_t> next;
  for (std::size_t i : possible) {
    const Fault& fault = interposed->observed[i];
    try {
      if (call.meets_before(fault)) {
        call.keep(fault);
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
      if (Call::meets_error(interposed->observed[i])) {
        met.push_back(i);
      }
    }
    // The kernel has thrown. Mutants that pass another value of an option or of a number are triggered too,
    // because the call might not throw with that value.
    for (std::size_t i : next) {
      const Kind kind = interposed->observed[i].kind;
      if (kind == Kind::kOptionIgnored || kind == Kind::kNumberStale) {
        met.push_back(i);
      }
    }
    keep();
    throw;
  }
  const Stack results(stack->end() - static_cast<std::ptrdiff_t>(interposed->place.results), stack->end());
  for (std::size_t i : next) {
    try {
      if (call.meets_after(interposed->observed[i], results)) {
        met.push_back(i);
      }
    } catch (const c10::Error&) {
    }
  }
  keep();
}

// An object whose destructor, at the end of the current call, writes the values that earlier calls postponed.
class Afterwards {
 public:
  Afterwards() : due_(take_postponed()) {
  }
  ~Afterwards() {
    if (!due_.empty()) {
      const Inside inside;
      write(due_);
    }
  }
  Afterwards(const Afterwards&) = delete;
  Afterwards& operator=(const Afterwards&) = delete;

 private:
  const std::vector<Due> due_;
};

class Interposer : public c10::OperatorKernel {
 public:
  explicit Interposer(Interposed* interposed) : interposed_(interposed) {
  }

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet keys, Stack* stack) {
    const Original kernel(*interposed_, keys);
    if (t_inside) {
      kernel.call(stack);
      return;
    }
    const Afterwards afterwards;
    const bool faulty = g_faulty.load(std::memory_order_acquire) == interposed_;
    if (!(faulty || g_observing.load(std::memory_order_acquire))) {
      kernel.call(stack);
      return;
    }
    const Inside inside;
    if (!faulty) {
      observe(interposed_, kernel, stack);
      return;
    }
    int64_t met = 0;
    bool sure = false;
    {
      const std::lock_guard<std::mutex> lock(g_count_mutex);
      met = g_met;
      sure = g_effects != 0;
    }
    const int64_t before = met;
    bool effect = false;
    const auto count = [&] {
      const std::lock_guard<std::mutex> lock(g_count_mutex);
      g_met += met - before;
      g_effects += effect ? 1 : 0;
    };
    try {
      effect = run_faulty(interposed_->place, g_fault, kernel, stack, &met, sure);
    } catch (...) {
      effect = met != before;
      count();
      throw;
    }
    count();
  }

 private:
  Interposed* interposed_;
};

using Description = std::tuple<std::string, std::size_t, int64_t, int>;

Fault fault_of(const Place& place, const Description& description) {
  Fault fault{kind_named(std::get<0>(description)),
              std::get<1>(description),
              std::get<2>(description),
              std::get<3>(description)};
  if (fault.kind == Kind::kOptionIgnored) {
    const c10::Argument& argument = place.op.schema().arguments().at(fault.position);
    if (argument.default_value()) {
      fault.neutral = *argument.default_value();
    } else if (argument.type()->kind() == c10::TypeKind::ListType) {
      fault.is_list = true;
    } else if (argument.type()->kind() == c10::TypeKind::BoolType) {
      fault.neutral = fault.value != 0;
    } else if (argument.type()->kind() == c10::TypeKind::IntType) {
      fault.neutral = fault.value;
    }
  }
  return fault;
}

void install(const std::string& key_name, const std::vector<std::string>& names) {
  const c10::DispatchKey key = c10::parseDispatchKey(key_name);
  for (const std::string& name : names) {
    const std::size_t dot = name.find('.');
    const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
    const c10::OperatorName operator_name(name.substr(0, dot), overload);
    const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(
        operator_name.name.c_str(), operator_name.overload_name.c_str());
    g_interposed.emplace_back(op, key);
    Interposed& interposed = g_interposed.back();
    interposed.registration = c10::Dispatcher::singleton().registerImpl(
        operator_name,
        key,
        c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Interposer>(&interposed)),
        std::nullopt,
        nullptr,
        "detection power");
  }
}

Interposed& at(std::size_t place) {
  TORCH_CHECK_INDEX(place < g_interposed.size(),
                    "point index ",
                    place,
                    " is out of range for ",
                    g_interposed.size(),
                    " points");
  return g_interposed[place];
}

void set_observed(std::size_t place, const std::vector<Description>& faults) {
  Interposed& interposed = at(place);
  interposed.observed.clear();
  for (const Description& description : faults) {
    interposed.observed.push_back(fault_of(interposed.place, description));
  }
}

std::vector<std::tuple<std::size_t, std::size_t, int>> take_met() {
  std::vector<std::tuple<std::size_t, std::size_t, int>> all;
  for (std::size_t i = 0; i < g_interposed.size(); i++) {
    std::set<std::pair<std::size_t, int>> met;
    {
      const std::lock_guard<std::mutex> lock(g_interposed[i].mutex);
      met.swap(g_interposed[i].met);
    }
    for (const auto& [fault, dtype] : met) {
      all.emplace_back(i, fault, dtype);
    }
  }
  forget();
  return all;
}

void activate(std::size_t place, const Description& description) {
  Interposed& interposed = at(place);
  g_fault = fault_of(interposed.place, description);
  g_met = g_effects = 0;
  g_faulty.store(&interposed, std::memory_order_release);
}

std::pair<int64_t, int64_t> deactivate() {
  g_faulty.store(nullptr, std::memory_order_release);
  {
    const Inside inside;
    forget();
  }
  const std::lock_guard<std::mutex> lock(g_count_mutex);
  return {g_met, g_effects};
}

}  // namespace

}  // namespace power

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  namespace py = pybind11;
  module.def("install",
             &power::install,
             py::arg("key"),
             py::arg("names"),
             "Interpose the kernels of overloads. A mutation point is an index into `names`.");
  module.def("set_observed",
             &power::set_observed,
             py::arg("place"),
             py::arg("faults"),
             "Select the mutants whose trigger conditions are observed at a mutation point.");
  module.def("observe", [](bool on) { power::g_observing.store(on); }, py::arg("on"));
  module.def("take_met",
             &power::take_met,
             "Return the mutants triggered since the last call: mutation point, index of the mutant, dtype.");
  module.def("activate", &power::activate, py::arg("place"), py::arg("fault"));
  module.def("deactivate",
             &power::deactivate,
             "Disable the mutant; return the numbers of triggered and altered calls.");
  module.def("install_guard", &power::install_guard, py::arg("device"), py::arg("faults"));
  module.def("observe_guard", &power::observe_guard, py::arg("on"));
  module.def("take_met_of_guard", &power::take_met_of_guard);
  module.def("activate_guard", &power::activate_guard, py::arg("fault"));
  module.def("deactivate_guard", &power::deactivate_guard);
  module.def(
      "install_autocast", &power::install_autocast, py::arg("key"), py::arg("device"), py::arg("names"));
  module.def("observe_autocast", &power::observe_autocast, py::arg("on"));
  module.def("take_met_of_autocast", &power::take_met_of_autocast);
  module.def("activate_autocast", &power::activate_autocast, py::arg("place"), py::arg("kind"));
  module.def("deactivate_autocast", &power::deactivate_autocast);
}
