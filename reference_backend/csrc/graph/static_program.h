// A compiled function of tensors whose shapes never change, as a list of steps with prepared arguments.
//
// The steps are what the Python function that Inductor makes of a cluster does: memory, kernels of a shared
// object, operators. They run here without Python and without tensors that are made anew for each step.
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

// A result of an operator is not laid out as the function expects.
class UnexpectedLayout : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The steps; build them with add_*() and finish(), then run them from any threads. A tensor of the program is
// named by its number.
class StaticProgram {
 public:
  using Sizes = std::vector<std::int64_t>;
  static constexpr std::size_t kMaxArguments = 64;  // of a kernel
  // An argument of a kernel: the address of a tensor, or (tensor -1) the number.
  using KernelArgument = std::pair<int, std::int64_t>;
  // An argument of an operator: a value, a tensor, a list of tensors, or one of tensors and gaps (-1).
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

  // Adds the next input.
  int add_input(at::ScalarType dtype, const Sizes& sizes, const Sizes& strides);
  // Adds a tensor that keeps its value from call to call; it is on the CPU.
  int add_constant(const at::Tensor& tensor);
  // Adds a tensor that the program makes: at `offset` bytes of the workspace, or (-1) in memory of its own
  // that is returned.
  int add_buffer(at::ScalarType dtype, const Sizes& sizes, const Sizes& strides, std::int64_t offset);
  // Adds a view that begins `offset` elements behind the start of the base.
  int add_view(int base, const Sizes& sizes, const Sizes& strides, std::int64_t offset);

  // Adds a call of the function `kernel` of a shared object. Throws if it cannot be loaded or has too many
  // arguments.
  void add_kernel(const std::string& library,
                  const std::vector<KernelArgument>& arguments,
                  const std::string& name);
  // Adds a call of an operator. Returns its results, or nothing if it writes to an argument.
  std::vector<int> add_operator(const std::string& name,
                                const std::string& overload,
                                std::vector<OperatorArgument> arguments);
  // Adds a check of a result; `name` is its operator's.
  void add_layout_check(int tensor, const Sizes& sizes, const Sizes& strides, const std::string& name);
  void add_alignment_check(int tensor, std::int64_t alignment, const std::string& name);
  // Drops a result, which no later step uses.
  void add_release(int tensor);
  // Ends the program: it returns these tensors (-1: none), and needs a workspace. `writes`: it writes to its
  // inputs.
  void finish(const std::vector<int>& outputs, std::size_t workspace, bool writes);

  // Runs the program as the next work on the current stream: inline, behind all work that its inputs wait
  // for. Returns nothing, with nothing done, if the inputs are not those it was made for, or if somebody
  // watches single operators or captures a graph. Throws what a step throws. Needs no interpreter.
  std::optional<std::vector<at::Tensor>> run(const std::vector<at::Tensor>& inputs);

  // Runs of the program so far.
  std::int64_t runs() const {
    return runs_.load(std::memory_order_relaxed);
  }

 private:
  enum class Role { Input, Constant, Output, Temporary, Result };
  struct Memory {
    Role role;
    std::size_t bytes;     // from the first element to behind the last
    std::size_t itemsize;  // 0 for results, which have their own
    std::size_t position;  // of an input or an output, or offset in the workspace
    at::Tensor constant;   // has the memory
  };
  struct Value {
    std::size_t memory;
    std::optional<at::ScalarType> dtype;  // none for results, which have their own
    Sizes sizes;
    Sizes strides;
    std::int64_t offset = 0;  // in elements
    int base = -1;            // the tensor of which it is a view
    bool as_tensor = false;   // a step needs the tensor, not only its address
  };
  enum class Kind { Kernel, Mm, Bmm, Addmm, Operator, Layout, Alignment, Release };
  struct Step {
    Kind kind;
    void* function = nullptr;
    std::vector<KernelArgument> arguments = {};
    std::optional<c10::OperatorHandle> op = {};
    std::vector<OperatorArgument> values = {};
    std::vector<int> tensors = {};  // results of an operator, arguments of a direct call, or what is checked
    at::Scalar beta = {}, alpha = {};
    bool adds_rows = false;  // the first argument of addmm is a row that is added to each
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
                                  const std::vector<c10::Storage>& outputs_memory,
                                  Frame& frame,
                                  kernels::HostCall& call) const;

  std::vector<Memory> memories_;
  std::vector<Value> values_;
  std::vector<int> inputs_;
  std::vector<Step> steps_;
  std::vector<int> outputs_;
  std::vector<std::size_t> first_;  // by output: the first output that is the same tensor
  std::vector<int> results_;        // what operators return
  std::string name_;                // for traces
  std::size_t num_made_ = 0;        // memories that are returned
  std::size_t workspace_ = 0;
  bool writes_ = false;
  std::atomic<std::int64_t> runs_{0};
  runtime::RankedMutex<runtime::LockRank::Leaf> mutex_;
  std::vector<std::unique_ptr<Frame>> frames_;  // prepared arguments that no call uses
};

}  // namespace hpu_reference::graph
