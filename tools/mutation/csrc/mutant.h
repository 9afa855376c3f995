// A fault of a kernel: its kind, what it concerns, and the condition outside of which it sleeps.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace power {

using Stack = torch::jit::Stack;

// What a fault of some kind does: the names that `tools/mutation/operators.py` uses.
enum class Kind {
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

Kind kind_named(const std::string& name);

struct Fault {
  Kind kind;
  // The argument or the result that it concerns.
  std::size_t position = 0;
  // A size, a rank or a number of calls.
  int64_t value = 0;
  // The dtype of the call's first tensor (at::ScalarType), or -1 for every dtype.
  int dtype = -1;
  // What an ignored option counts as. Numbers in a list without a default: all are `value`.
  c10::IValue neutral;
  bool is_list = false;
};

// What is known of an overload without looking at a call.
struct Place {
  explicit Place(const c10::OperatorHandle& op);

  c10::OperatorHandle op;
  std::size_t arguments;
  std::size_t results;
  // By argument: whether the schema says that it is written.
  std::vector<bool> written;
  // By argument: whether it is written and has to be named, as out= is.
  std::vector<bool> outs;
  // By result: whether it is memory of an argument.
  std::vector<bool> aliases;
  bool writes = false;
  // Whether it copies between devices.
  bool copies = false;
  bool is_random = false;
};

// A kernel that is called on a stack of its arguments, which it replaces by its results.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void call(Stack* stack) const = 0;
};

// One call of a place, before and after its kernel has run; answers are kept, since many faults ask alike.
class Call {
 public:
  Call(const Place& place, const Stack& stack);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // at::ScalarType of the first tensor, -1 if there is none.
  int dtype() const;
  // Whether the fault's condition holds for the arguments; for kinds that look at results as well, whether
  // it may hold.
  bool meets_before(const Fault& fault);
  // Keeps what `meets_after` compares with.
  void keep(const Fault& fault);
  // Whether the condition holds; `results` are the kernel's.
  bool meets_after(const Fault& fault, const Stack& results);
  // Whether it holds for a kernel that has thrown.
  static bool meets_error(const Fault& fault);

 private:
  struct Facts;
  std::unique_ptr<Facts> facts_;
};

// Runs the kernel with the fault; returns whether the fault took effect. `*calls` counts the calls whose
// condition held, and `sure` says that effects need not be looked for any more.
bool run_faulty(
    const Place& place, const Fault& fault, const Kernel& kernel, Stack* stack, int64_t* calls, bool sure);

}  // namespace power
