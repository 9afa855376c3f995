// The entry kernel of operators that small programs call often. It has the same effect as BoxedKernel, but
// torch passes the arguments directly instead of on a stack. A call that the engine may defer is forwarded to
// the boxed kernel.
#pragma once

#include <ATen/core/boxing/BoxedKernel.h>
#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <tuple>
#include <type_traits>
#include <utility>

#include "device_key.h"
#include "dispatch/boxed_kernel.h"
#include "dispatch/call_size.h"
#include "kernels/host_call.h"
#include "runtime/host_access.h"
#include "runtime/queue.h"
#include "runtime/trace.h"

namespace hpu_reference::dispatch {

// The unboxed entry kernel of `Operator`, one of torch's at::_ops. All arguments of the operator are device
// tensors or values that need no conversion. The operator returns one tensor, or the argument that it writes.
template <class Operator, class Schema = typename Operator::schema>
class UnboxedKernel;

template <class Operator, class Returned, class... Arguments>
class UnboxedKernel<Operator, Returned(Arguments...)> final : public c10::OperatorKernel {
  static_assert(std::is_same_v<Returned, at::Tensor> || std::is_same_v<Returned, at::Tensor&>);

  template <class Argument>
  static constexpr bool kIsTensor = std::is_same_v<std::remove_cvref_t<Argument>, at::Tensor>;
  template <class Argument>
  static constexpr bool kIsWritten = std::is_same_v<Argument, at::Tensor&>;
  // True for a type that needs no conversion. Types that may hold a tensor, a device or a generator need a
  // conversion.
  template <class Argument>
  static constexpr bool kNeedsNoConversion =
      !std::is_convertible_v<std::remove_cvref_t<Argument>, std::optional<at::Tensor>> &&
      !std::is_convertible_v<std::remove_cvref_t<Argument>, at::ITensorListRef> &&
      !std::is_convertible_v<std::remove_cvref_t<Argument>, std::optional<at::Device>> &&
      !std::is_convertible_v<std::remove_cvref_t<Argument>, std::optional<at::Generator>>;
  static_assert(((kIsTensor<Arguments> || kNeedsNoConversion<Arguments>) && ...));
  // The type of an argument of the CPU kernel: a host alias for a tensor, otherwise the caller's value.
  template <class Argument>
  using KernelArgument = std::conditional_t<kIsTensor<Argument>, at::Tensor, Argument>;

 public:
  explicit UnboxedKernel(const c10::OperatorHandle& op) : op_(op) {
    auto kernel = std::make_unique<BoxedKernel>(op, c10::DispatchKey::CPU);
    plan_ = &kernel->plan();
    boxed_ = c10::BoxedKernel::makeFromFunctor(std::move(kernel));
  }

  Returned operator()(Arguments... arguments) const {
    if (C10_UNLIKELY(runtime::is_work_pending() || is_large(arguments...) || has_float8(arguments...))) {
      return c10::impl::BoxedKernelWrapper<Returned(Arguments...)>::call(
          boxed_,
          op_,
          c10::DispatchKeySet(c10::DispatchKey::DEVICE_KEY),
          std::forward<Arguments>(arguments)...);
    }
    kernels::HostCall call(/*redirect=*/true, /*throw_errors=*/false, /*recorder_declined=*/true);
    // The braces guarantee that arguments are converted in order: the first invalid argument is the one
    // reported.
    std::tuple<KernelArgument<Arguments>...> kernel_arguments{host<Arguments>(call, arguments)...};
    const auto run = [&](auto&... values) {
      runtime::TraceSpan span(runtime::TraceKind::Kernel, plan_->name);
      if (span.is_active()) {
        add_bytes(span, values...);
      }
      at::Tensor result = Operator::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), values...);
      if (span.is_active() && !std::is_reference_v<Returned>) {
        span.add_bytes(result.nbytes());
      }
      return result;
    };
    if constexpr (std::is_reference_v<Returned>) {
      std::apply(run, kernel_arguments);
      call.kernel_done();
      call.finish();
      return written_argument(arguments...);
    } else {
      at::Tensor result = std::apply(run, kernel_arguments);
      call.kernel_done();
      call.finish();
      return call.device(std::move(result));
    }
  }

  // Returns true if this kernel can replace the boxed kernel of the operator.
  static bool supports(const kernels::OperatorPlan& plan) {
    const auto any = [](const std::vector<bool>& flags) {
      return std::find(flags.begin(), flags.end(), true) != flags.end();
    };
    return plan.returns_tensors && plan.returns == 1 && plan.generator < 0 && !plan.data_dependent &&
           !plan.needs_dense_inputs && !plan.resizes_storage && !any(plan.cpu_allowed) &&
           plan.written == std::vector<bool>{kIsWritten<Arguments>...};
  }

 private:
  bool is_large(const Arguments&... arguments) const {
    CallSize size;
    std::size_t position = 0;
    const auto visit = [&](const auto& argument) {
      if constexpr (kIsTensor<decltype(argument)>) {
        if (position < CallSize::kArguments) {
          size.include_tensor(argument);
        }
      }
      position++;
    };
    (visit(arguments), ...);
    return size.is_large(plan_->cost);
  }

  template <class... Values>
  static void add_bytes(runtime::TraceSpan& span, const Values&... values) {
    const auto visit = [&](const auto& value) {
      if constexpr (kIsTensor<decltype(value)>) {
        span.add_bytes(value.nbytes());
      }
    };
    (visit(values), ...);
  }

  // Returns true for arguments of 8-bit floats. CPU kernels of these operators support every other dtype;
  // only the boxed kernel upcasts.
  static bool has_float8(const Arguments&... arguments) {
    const auto visit = [](const auto& argument) {
      if constexpr (kIsTensor<decltype(argument)>) {
        return at::isFloat8Type(argument.scalar_type());
      } else {
        return false;
      }
    };
    return (visit(arguments) || ...);
  }

  template <class Argument>
  KernelArgument<Argument> host(kernels::HostCall& call, std::remove_reference_t<Argument>& argument) const {
    if constexpr (kIsTensor<Argument>) {
      constexpr auto kAccess = kIsWritten<Argument> ? kernels::Access::Write : kernels::Access::Read;
      if constexpr (!kIsWritten<Argument>) {
        call.allow_cpu_tensors(runtime::accepts_host_arguments());
      } else {
        call.allow_cpu_tensors(false);
      }
      return call.host(argument, kAccess, plan_->name.c_str());
    } else {
      return argument;
    }
  }

  // Returns the written argument: the only argument that is not const.
  static at::Tensor& written_argument(Arguments&... arguments) {
    at::Tensor* written_tensor = nullptr;
    const auto visit = [&](auto& argument) {
      if constexpr (std::is_same_v<decltype(argument), at::Tensor&>) {
        written_tensor = &argument;
      }
    };
    (visit(arguments), ...);
    return *written_tensor;
  }

  c10::OperatorHandle op_;
  c10::BoxedKernel boxed_;
  const kernels::OperatorPlan* plan_;
};

}  // namespace hpu_reference::dispatch
