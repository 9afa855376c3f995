// A mutant of a kernel: its mutation operator, its argument or result, and its trigger condition.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mutation {

using Stack = torch::jit::Stack;

// The mutation operators, as named in `tools/mutation/operators.py`.
enum class MutationOperator {
  kLastElement,
  kTail,
  kAbove,
  kScalarOnly,
  kRank,
  kNanLost,
  kInfinityLost,
  kSignedZeroLost,
  kSubnormalFlushed,
  kLowPrecision,
  kBoolByte,
  kResultDtype,
  kResultStrides,
  kAliasingLost,
  kAliasingGained,
  kInputCorrupted,
  kWriteLost,
  kWritePartial,
  kWriteAstray,
  kHostNotAwaited,
  kOutNotResized,
  kStaleResult,
  kLate,
  kFlaky,
  kLeak,
  kEmptyInput,
  kGradientOfOneInput,
  kStridesIgnored,
  kExpandedIgnored,
  kOffsetIgnored,
  kOffsetAndStridesIgnored,
  kOffsetInChannelsLastIgnored,
  kOffsetInOtherRankIgnored,
  kInt53Bits,
  kLongSum,
  kSwappedArguments,
  kOptionIgnored,
  kNumberStale,
  kNegativeDimension,
  kErrorMissing,
  kErrorType,
  kGeneratorFrozen,
  kGeneratorOverlap,
  kCalled,
};

MutationOperator mutation_operator_named(const std::string& name);

struct Mutant {
  MutationOperator mutation_operator;
  // The position of the mutated argument or result.
  std::size_t position = 0;
  // The parameter of the mutation operator: a size, a rank, a number of calls, the value of an option, or a
  // second position.
  int64_t value = 0;
  // The dtype of the call's first tensor (at::ScalarType), or -1 for every dtype.
  int dtype = -1;
  // The value that a mutant passes in place of an ignored option. In a list of numbers without a default,
  // `value` replaces each number.
  c10::IValue replacement_value;
  bool is_list = false;
};

// The properties of an overload that its schema declares.
struct OverloadProperties {
  explicit OverloadProperties(const c10::OperatorHandle& op);

  c10::OperatorHandle op;
  std::size_t arguments;
  std::size_t results;
  // For each argument: whether the schema declares that the kernel writes it.
  std::vector<bool> written;
  // For each argument: whether it is written and keyword-only, such as out=.
  std::vector<bool> out_arguments;
  // For each result: whether it shares the memory of an argument.
  std::vector<bool> aliases;
  bool writes = false;
  // Whether the overload copies between devices.
  bool copies = false;
  bool is_random = false;
};

// A boxed kernel. It replaces the arguments on the stack by its results.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void call(Stack* stack) const = 0;
};

// One call at a mutation point, before and after its kernel has run. Facts about the call are cached,
// because many mutants need the same facts.
class Call {
 public:
  Call(const OverloadProperties& overload, const Stack& stack);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The at::ScalarType of the call's first tensor, or -1 if the call has no tensor.
  int dtype() const;
  // Return whether the arguments meet the trigger condition. For mutation operators whose condition also
  // depends on results, return whether the condition may be met.
  bool meets_condition_before_kernel(const Mutant& mutant);
  // Before the kernel runs, store the old values that `meets_condition_after_kernel` needs.
  void store_old_values(const Mutant& mutant);
  // Return whether the call meets the trigger condition. `results` are the kernel's results.
  bool meets_condition_after_kernel(const Mutant& mutant, const Stack& results);
  // Return whether a call whose kernel has thrown meets the trigger condition.
  static bool meets_condition_of_error(const Mutant& mutant);

 private:
  struct CallFacts;
  std::unique_ptr<CallFacts> facts_;
};

// Run the kernel with the mutant; return whether the mutant altered the call. `*calls` counts the triggered
// calls. If `sure` is true, the caller knows that the mutant alters calls, and no trial call compares the
// correct results with the wrong ones.
bool run_mutant(const OverloadProperties& overload,
                const Mutant& mutant,
                const Kernel& kernel,
                Stack* stack,
                int64_t* calls,
                bool sure);

}  // namespace mutation
