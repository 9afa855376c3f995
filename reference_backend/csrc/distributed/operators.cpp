// torch's c10d operators on the HPU key: each forwards its tensors to the group's backend for hpu. torch
// itself has such kernels for PrivateUse1, but not for HPU. The device does not run the CPU kernels of c10d,
// because they fail for a group without a CPU backend.
//
// The kernels are boxed and read arguments by name, because releases of torch add arguments and change how
// C++ passes them.
#include <ATen/ops/any.h>
#include <ATen/ops/isnan.h>
#include <torch/custom_class.h>
#include <torch/library.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "device_key.h"
#include "distributed/checks.h"
#include "distributed/operators.h"
#include "runtime/capture_scope.h"

namespace hpu_reference::distributed {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// The arguments of a call on the stack.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
      : schema_(op.schema()), values_(stack.data() + (stack.size() - op.schema().arguments().size())) {
  }

  // Returns null if the operator of this torch release does not have the argument.
  const c10::IValue* find(const char* name) const {
    const auto position = schema_.argumentIndexWithName(name);
    return position.has_value() ? values_ + *position : nullptr;
  }
  const c10::IValue& at(const char* name) const {
    const c10::IValue* value = find(name);
    TORCH_INTERNAL_ASSERT(value != nullptr, schema_.name(), " has no argument ", name);
    return *value;
  }

  at::Tensor tensor(const char* name) const {
    return at(name).toTensor();
  }
  Tensors tensors(const char* name) const {
    return at(name).toTensorVector();
  }
  std::vector<Tensors> lists(const char* name) const {
    std::vector<Tensors> result;
    for (const c10::IValue& list : at(name).toListRef()) {
      result.push_back(list.toTensorVector());
    }
    return result;
  }
  std::int64_t integer(const char* name) const {
    return at(name).toInt();
  }
  std::vector<std::int64_t> integers(const char* name) const {
    return at(name).toIntVector();
  }
  c10d::Backend& backend() const {
    return *at("process_group").toCustomClass<c10d::ProcessGroup>()->getBackend(c10::DeviceType::DEVICE_KEY);
  }

  template <class Options>
  Options options() const {
    Options result;
    if (const c10::IValue* timeout = find("timeout")) {
      result.timeout = std::chrono::milliseconds(timeout->toInt());
    }
    return result;
  }
  template <class Options>
  Options reducing() const {
    Options result = options<Options>();
    result.reduceOp = *at("reduce_op").toCustomClass<c10d::ReduceOp>();
    return result;
  }

 private:
  const c10::FunctionSchema& schema_;
  const c10::IValue* values_;
};

using Handler = WorkPtr (*)(const Arguments&);

CaptureCollectiveHandler g_capture_collective_handler;

// Calls the handler and returns its work. If the operator also returns an argument, `returned_argument` is
// its name, and the argument precedes the work.
template <Handler handler, const char* const* returned_argument>
void kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (runtime::is_capturing() && g_capture_collective_handler) {
    const std::size_t count = op.schema().arguments().size();
    auto results = std::make_shared<torch::jit::Stack>();
    g_capture_collective_handler(
        [op, keys, results, saved_arguments = torch::jit::last(*stack, count).vec()] {
          *results = saved_arguments;
          kernel<handler, returned_argument>(op, keys, results.get());
          results->back().toCustomClass<c10d::Work>()->wait();
        });
    torch::jit::drop(*stack, count);
    stack->insert(stack->end(), results->begin(), results->end());
    return;
  }
  const Arguments arguments(op, *stack);
  WorkPtr work = handler(arguments);
  const c10::IValue first = *returned_argument == nullptr ? c10::IValue() : arguments.at(*returned_argument);
  torch::jit::drop(*stack, op.schema().arguments().size());
  if (*returned_argument != nullptr) {
    stack->push_back(first);
  }
  stack->emplace_back(std::move(work));
}

WorkPtr broadcast(const Arguments& arguments) {
  Tensors tensors = arguments.tensors("tensors");
  auto options = arguments.options<c10d::BroadcastOptions>();
  options.rootRank = arguments.integer("root_rank");
  options.rootTensor = arguments.integer("root_tensor");
  return arguments.backend().broadcast(tensors, options);
}

WorkPtr allreduce(const Arguments& arguments) {
  Tensors tensors = arguments.tensors("tensors");
  return arguments.backend().allreduce(tensors, arguments.reducing<c10d::AllreduceOptions>());
}

WorkPtr allreduce_coalesced(const Arguments& arguments) {
  Tensors tensors = arguments.tensors("tensors");
  return arguments.backend().allreduce_coalesced(tensors,
                                                 arguments.reducing<c10d::AllreduceCoalescedOptions>());
}

WorkPtr reduce(const Arguments& arguments) {
  Tensors tensors = arguments.tensors("tensors");
  auto options = arguments.reducing<c10d::ReduceOptions>();
  options.rootRank = arguments.integer("root_rank");
  options.rootTensor = arguments.integer("root_tensor");
  return arguments.backend().reduce(tensors, options);
}

WorkPtr allgather(const Arguments& arguments) {
  std::vector<Tensors> outputs = arguments.lists("output_tensors");
  Tensors inputs = arguments.tensors("input_tensors");
  return arguments.backend().allgather(outputs, inputs, arguments.options<c10d::AllgatherOptions>());
}

WorkPtr allgather_base(const Arguments& arguments) {
  at::Tensor output = arguments.tensor("output_tensor");
  at::Tensor input = arguments.tensor("input_tensor");
  return arguments.backend()._allgather_base(output, input, arguments.options<c10d::AllgatherOptions>());
}

WorkPtr allgather_coalesced(const Arguments& arguments) {
  std::vector<Tensors> outputs = arguments.lists("output_lists");
  Tensors inputs = arguments.tensors("input_list");
  return arguments.backend().allgather_coalesced(
      outputs, inputs, arguments.options<c10d::AllgatherOptions>());
}

WorkPtr allgather_into_tensor_coalesced(const Arguments& arguments) {
  Tensors outputs = arguments.tensors("outputs");
  Tensors inputs = arguments.tensors("inputs");
  return arguments.backend().allgather_into_tensor_coalesced(
      outputs, inputs, arguments.options<c10d::AllgatherOptions>());
}

WorkPtr reduce_scatter(const Arguments& arguments) {
  Tensors outputs = arguments.tensors("output_tensors");
  std::vector<Tensors> inputs = arguments.lists("input_tensors");
  return arguments.backend().reduce_scatter(
      outputs, inputs, arguments.reducing<c10d::ReduceScatterOptions>());
}

WorkPtr reduce_scatter_base(const Arguments& arguments) {
  at::Tensor output = arguments.tensor("output_tensor");
  at::Tensor input = arguments.tensor("input_tensor");
  return arguments.backend()._reduce_scatter_base(
      output, input, arguments.reducing<c10d::ReduceScatterOptions>());
}

WorkPtr reduce_scatter_tensor_coalesced(const Arguments& arguments) {
  Tensors outputs = arguments.tensors("outputs");
  Tensors inputs = arguments.tensors("inputs");
  return arguments.backend().reduce_scatter_tensor_coalesced(
      outputs, inputs, arguments.reducing<c10d::ReduceScatterOptions>());
}

WorkPtr gather(const Arguments& arguments) {
  std::vector<Tensors> outputs = arguments.lists("output_tensors");
  Tensors inputs = arguments.tensors("input_tensors");
  auto options = arguments.options<c10d::GatherOptions>();
  options.rootRank = arguments.integer("root_rank");
  return arguments.backend().gather(outputs, inputs, options);
}

WorkPtr scatter(const Arguments& arguments) {
  Tensors outputs = arguments.tensors("output_tensors");
  std::vector<Tensors> inputs = arguments.lists("input_tensors");
  auto options = arguments.options<c10d::ScatterOptions>();
  options.rootRank = arguments.integer("root_rank");
  return arguments.backend().scatter(outputs, inputs, options);
}

WorkPtr alltoall(const Arguments& arguments) {
  Tensors outputs = arguments.tensors("output_tensors");
  Tensors inputs = arguments.tensors("input_tensors");
  return arguments.backend().alltoall(outputs, inputs, arguments.options<c10d::AllToAllOptions>());
}

WorkPtr alltoall_base(const Arguments& arguments) {
  at::Tensor output = arguments.tensor("output");
  at::Tensor input = arguments.tensor("input");
  std::vector<std::int64_t> output_splits = arguments.integers("output_split_sizes");
  std::vector<std::int64_t> input_splits = arguments.integers("input_split_sizes");
  return arguments.backend().alltoall_base(
      output, input, output_splits, input_splits, arguments.options<c10d::AllToAllOptions>());
}

WorkPtr barrier(const Arguments& arguments) {
  auto options = arguments.options<c10d::BarrierOptions>();
  options.device_ids = arguments.integers("device_ids");
  return arguments.backend().barrier(options);
}

WorkPtr send(const Arguments& arguments) {
  Tensors tensors = arguments.tensors("tensors");
  return arguments.backend().send(
      tensors, static_cast<int>(arguments.integer("dst")), static_cast<int>(arguments.integer("tag")));
}

WorkPtr recv(const Arguments& arguments) {
  Tensors tensors = arguments.tensors("tensors");
  return arguments.backend().recv(
      tensors, static_cast<int>(arguments.integer("src")), static_cast<int>(arguments.integer("tag")));
}

WorkPtr recv_any_source(const Arguments& arguments) {
  Tensors tensors = arguments.tensors("tensors");
  return arguments.backend().recvAnysource(tensors, static_cast<int>(arguments.integer("tag")));
}

// Throws if a real floating-point tensor contains NaN. Like the CPU, ignores other tensors. The check is
// composed of device operators, so that it works in every mode.
void check_for_nan(const at::Tensor& tensor) {
  if (!at::isFloatingType(tensor.scalar_type())) {
    return;
  }
  const bool is_float8 = tensor.element_size() == 1;  // float8 has no isnan
  TORCH_CHECK(!at::any(at::isnan(is_float8 ? tensor.to(at::kFloat) : tensor)).item<bool>(),
              "NaN found in input tensor.");
}

constexpr const char* kNothing = nullptr;
constexpr const char* kTensors = "tensors";
constexpr const char* kOutputs = "output_tensors";
constexpr const char* kOutput = "output_tensor";

template <Handler handler, const char* const* returned_argument>
torch::CppFunction make_boxed_function() {
  return torch::CppFunction::makeFromBoxedFunction<&kernel<handler, returned_argument>>();
}

}  // namespace

void set_capture_collective_handler(CaptureCollectiveHandler handler) {
  g_capture_collective_handler = std::move(handler);
}

TORCH_LIBRARY_IMPL(c10d, DEVICE_KEY, m) {
  m.impl("check_for_nan", TORCH_FN(check_for_nan));
  if (DEVICE_KEY_IS_PRIVATEUSE1) {
    return;  // torch itself has the other kernels for PrivateUse1
  }
  m.impl("broadcast_", make_boxed_function<&broadcast, &kTensors>());
  m.impl("allreduce_", make_boxed_function<&allreduce, &kTensors>());
  m.impl("allreduce_coalesced_", make_boxed_function<&allreduce_coalesced, &kNothing>());
  m.impl("reduce_", make_boxed_function<&reduce, &kNothing>());
  m.impl("allgather_", make_boxed_function<&allgather, &kOutputs>());
  m.impl("_allgather_base_", make_boxed_function<&allgather_base, &kOutput>());
  m.impl("allgather_coalesced_", make_boxed_function<&allgather_coalesced, &kNothing>());
  m.impl("allgather_into_tensor_coalesced_",
         make_boxed_function<&allgather_into_tensor_coalesced, &kNothing>());
  m.impl("reduce_scatter_", make_boxed_function<&reduce_scatter, &kOutputs>());
  m.impl("_reduce_scatter_base_", make_boxed_function<&reduce_scatter_base, &kOutput>());
  m.impl("reduce_scatter_tensor_coalesced_",
         make_boxed_function<&reduce_scatter_tensor_coalesced, &kNothing>());
  m.impl("gather_", make_boxed_function<&gather, &kNothing>());
  m.impl("scatter_", make_boxed_function<&scatter, &kOutputs>());
  m.impl("alltoall_", make_boxed_function<&alltoall, &kOutputs>());
  m.impl("alltoall_base_", make_boxed_function<&alltoall_base, &kNothing>());
  m.impl("barrier", make_boxed_function<&barrier, &kNothing>());
  m.impl("send", make_boxed_function<&send, &kNothing>());
  m.impl("recv_", make_boxed_function<&recv, &kNothing>());
  m.impl("recv_any_source_", make_boxed_function<&recv_any_source, &kNothing>());
}

}  // namespace hpu_reference::distributed
