// A compiled function of tensors with static shapes, as a list of steps with prepared arguments.
//
// The steps are the operations of the Python function that Inductor generates for a cluster, a part of the
// graph that torch.compile passes to the backend: memory allocations, kernels of a shared object, operators.
// They run without Python, and the tensors are not recreated for each step.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/host_call.h"
#include "runtime/lock_order.h"

namespace hpu_reference::graph {

// Thrown if a result of an operator does not have the layout that the function expects.
class UnexpectedLayout : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The steps of a function. Build them with add_*() and finish(), then run them from any thread. Tensors of
// the program are identified by the numbers that the add functions return.
class StaticProgram {
 public:
  using Sizes = std::vector<std::int64_t>;
  static constexpr std::size_t kMaxArguments = 64;  // of a kernel
  // An argument of a kernel: the number of a tensor whose address is passed, or (with tensor number -1) an
  // integer.
  using KernelArgument = std::pair<int, std::int64_t>;
  // An argument of an operator: a value, a tensor, a list of tensors, or a list of optional tensors (-1 for
  // none).
  struct OperatorArgument {
    enum class Form { Value, Tensor, Tensors, OptionalTensors };
    Form form;
    c10::IValue value;
    std::vector<int> tensors;
  };

  StaticProgram();
  ~StaticProgram();
  StaticProgram(const StaticProgram&) = delete;
  StaticProgram& operator=(const StaticProgram&) = delete;

  // Adds the next input and returns the number of its tensor.
  int add_input(at::ScalarType dtype, const Sizes& sizes, const Sizes& strides);
  // Adds a CPU tensor that keeps its value from call to call.
  int add_constant(const at::Tensor& tensor);
  // Adds a tensor that the program allocates: at `offset` bytes of the workspace, or (-1) in its own memory,
  // which the program returns.
  int add_buffer(at::ScalarType dtype, const Sizes& sizes, const Sizes& strides, std::int64_t offset);
  // Adds a view that begins `offset` elements after the start of the base.
  int add_view(int base, const Sizes& sizes, const Sizes& strides, std::int64_t offset);

  // Adds a call of the function `kernel` of a shared object. Throws if the shared object cannot be loaded or
  // the call has too many arguments.
  void add_kernel(const std::string& library,
                  const std::vector<KernelArgument>& arguments,
                  const std::string& name);
  // Adds a call of an operator. Returns the numbers of its results, or an empty list if the operator writes
  // an argument.
  std::vector<int> add_operator(const std::string& name,
                                const std::string& overload,
                                std::vector<OperatorArgument> arguments);
  // Adds a check that an operator's result has these sizes and strides. `name` is the operator's name, for
  // the error message.
  void add_layout_check(int tensor, const Sizes& sizes, const Sizes& strides, const std::string& name);
  void add_alignment_check(int tensor, std::int64_t alignment, const std::string& name);
  // Releases a result that no later step uses.
  void add_release(int tensor);
  // Ends the program. The program returns these tensors (-1: none) and needs a workspace of `workspace`
  // bytes. `writes`: the program writes its inputs.
  void finish(const std::vector<int>& outputs, std::size_t workspace, bool writes);

  // Runs the program at once on the calling thread, as the next work on the current stream. Waits first for
  // earlier work that uses the inputs' memory. Returns nothing, without side effects, if the inputs do not
  // match, if a tool observes single operators, or if a graph is being captured. Throws the errors of its
  // steps. Does not need the GIL.
  std::optional<std::vector<at::Tensor>> run(const std::vector<at::Tensor>& inputs);

  std::int64_t runs() const {
    return runs_.load(std::memory_order_relaxed);
  }

 private:
  enum class Role { Input, Constant, Output, Temporary, Result };
  struct Memory {
    Role role;
    std::size_t bytes;     // from the first element to the end of the last element
    std::size_t itemsize;  // 0 for results, which have their own item size
    std::size_t position;  // index of the input or output, or offset in the workspace
    at::Tensor constant;   // holds the memory
  };
  struct Value {
    std::size_t memory;
    std::optional<at::ScalarType> dtype;  // none for results, which have their own dtype
    Sizes sizes;
    Sizes strides;
    std::int64_t offset = 0;  // in elements
    int base = -1;            // the tensor whose view this is
    bool as_tensor = false;   // a step needs the tensor, not only its address
  };
  enum class Kind { Kernel, Mm, Bmm, Addmm, Operator, Layout, Alignment, Release };
  struct Step {
    Kind kind;
    void* function = nullptr;
    std::vector<KernelArgument> arguments = {};
    std::optional<c10::OperatorHandle> op = {};
    std::vector<OperatorArgument> values = {};
    // Results of an operator, arguments of a direct call, or the checked tensor.
    std::vector<int> tensors = {};
    at::Scalar beta = {}, alpha = {};
    bool adds_rows = false;  // the first argument of addmm is a row, added to each row of the product
    Sizes sizes = {}, strides = {};
    std::string name = {};
  };
  struct Frame;
  class Lease;

  int add_value(Value value);
  void choose_direct_call(Step& step);
  bool adds_rows(const Step& step) const;
  bool fits(const std::vector<at::Tensor>& inputs) const;
  bool fits(const Value& value, const at::Tensor& tensor) const;
  std::unique_ptr<Frame> make_frame() const;
  void drop_results(Frame& frame) const;
  std::vector<c10::Storage> bind(Frame& frame, const std::vector<at::Tensor>& inputs, char* workspace) const;
  at::Tensor tensor_of(const Frame& frame, int number) const;
  void run_steps(Frame& frame) const;
  void call_kernel(const Step& step, const Frame& frame) const;
  void call_addmm(const Step& step, const Frame& frame) const;
  void call_operator(const Step& step, Frame& frame) const;
  void check_layout(const Step& step, const Frame& frame) const;
  void check_alignment(const Step& step, const Frame& frame) const;
  std::vector<at::Tensor> results(const std::vector<at::Tensor>& inputs,
                                  const std::vector<c10::Storage>& output_storages,
                                  Frame& frame,
                                  kernels::HostCall& call) const;

  std::vector<Memory> memories_;
  std::vector<Value> values_;
  std::vector<int> inputs_;
  std::vector<Step> steps_;
  std::vector<int> outputs_;
  std::vector<std::size_t> first_;       // per output: the first output that is the same tensor
  std::vector<int> results_;             // results of operators
  std::string name_;                     // name in traces
  std::size_t num_output_memories_ = 0;  // number of allocations that the program returns as outputs
  std::size_t workspace_ = 0;
  bool writes_ = false;
  std::atomic<std::int64_t> runs_{0};
  runtime::RankedMutex<runtime::LockRank::Leaf> mutex_;
  std::vector<std::unique_ptr<Frame>> frames_;  // prepared arguments that no call uses at present
};

}  // namespace hpu_reference::graph
