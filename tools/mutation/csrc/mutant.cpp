#include "mutant.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <optional>

#include "call_history.h"
#include "values.h"

namespace power {

namespace {

const std::map<std::string, Kind>& kinds() {
  static const std::map<std::string, Kind> names = {
      {"last-element", Kind::kLastElement},
      {"tail-of-block", Kind::kTail},
      {"above-size", Kind::kAbove},
      {"scalar-only", Kind::kScalarOnly},
      {"rank", Kind::kRank},
      {"nan-lost", Kind::kNanLost},
      {"infinity-lost", Kind::kInfinityLost},
      {"signed-zero-lost", Kind::kSignedZeroLost},
      {"subnormal-flushed", Kind::kSubnormalFlushed},
      {"low-precision", Kind::kLowPrecision},
      {"bool-byte", Kind::kBoolByte},
      {"result-dtype", Kind::kResultDtype},
      {"result-strides", Kind::kResultStrides},
      {"aliasing-lost", Kind::kAliasingLost},
      {"aliasing-gained", Kind::kAliasingGained},
      {"input-corrupted", Kind::kInputCorrupted},
      {"write-lost", Kind::kWriteLost},
      {"write-partial", Kind::kWritePartial},
      {"write-astray", Kind::kWriteAstray},
      {"host-not-awaited", Kind::kHostNotAwaited},
      {"out-not-resized", Kind::kOutNotResized},
      {"stale-result", Kind::kStaleResult},
      {"late", Kind::kLate},
      {"flaky", Kind::kFlaky},
      {"leak", Kind::kLeak},
      {"empty-input", Kind::kEmptyInput},
      {"gradient-of-one-input", Kind::kGradientOfOneInput},
      {"strides-ignored", Kind::kStridesIgnored},
      {"expanded-ignored", Kind::kExpandedIgnored},
      {"offset-ignored", Kind::kOffsetIgnored},
      {"offset-and-strides-ignored", Kind::kOffsetAndStridesIgnored},
      {"offset-in-channels-last-ignored", Kind::kOffsetInChannelsLastIgnored},
      {"offset-in-other-rank-ignored", Kind::kOffsetInOtherRankIgnored},
      {"int-53-bits", Kind::kInt53Bits},
      {"long-sum", Kind::kLongSum},
      {"swapped-arguments", Kind::kSwappedArguments},
      {"option-ignored", Kind::kOptionIgnored},
      {"number-stale", Kind::kNumberStale},
      {"negative-dimension", Kind::kNegativeDimension},
      {"error-missing", Kind::kErrorMissing},
      {"error-type", Kind::kErrorType},
      {"generator-frozen", Kind::kGeneratorFrozen},
      {"generator-overlap", Kind::kGeneratorOverlap},
      {"called", Kind::kCalled},
  };
  return names;
}

// Return whether a mutation operator changes the arguments that the kernel receives.
bool alters_arguments(Kind kind) {
  switch (kind) {
    case Kind::kStridesIgnored:
    case Kind::kExpandedIgnored:
    case Kind::kOffsetIgnored:
    case Kind::kOffsetAndStridesIgnored:
    case Kind::kOffsetInChannelsLastIgnored:
    case Kind::kOffsetInOtherRankIgnored:
    case Kind::kInt53Bits:
    case Kind::kLongSum:
    case Kind::kSwappedArguments:
    case Kind::kOptionIgnored:
    case Kind::kNumberStale:
    case Kind::kNegativeDimension:
      return true;
    default:
      return false;
  }
}

bool needs_old_values(Kind kind) {
  return kind == Kind::kWriteLost || kind == Kind::kWritePartial || kind == Kind::kHostNotAwaited;
}

std::optional<at::Tensor> tensor_at(const Stack& values, std::size_t position) {
  if (position >= values.size() || !values[position].isTensor()) {
    return std::nullopt;
  }
  at::Tensor tensor = values[position].toTensor();
  if (!is_plain(tensor)) {
    return std::nullopt;
  }
  return tensor;
}

void collect(const c10::IValue& value, std::vector<at::Tensor>* found) {
  if (value.isTensor()) {
    if (is_plain(value.toTensor())) {
      found->push_back(value.toTensor());
    }
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (is_plain(tensor)) {
        found->push_back(tensor);
      }
    }
  }
}

std::vector<at::Tensor> tensors_of(const Stack& values) {
  std::vector<at::Tensor> found;
  for (const c10::IValue& value : values) {
    collect(value, &found);
  }
  return found;
}

// Return the index of the argument's last dimension that is longer than `size`. Return -1 if no dimension is
// longer, or if a result has a dimension of the same length.
int64_t summed_dimension(const at::Tensor& argument, const std::vector<at::Tensor>& results, int64_t size) {
  for (int64_t i = argument.dim() - 1; i >= 0; i--) {
    if (argument.size(i) <= size) {
      continue;
    }
    for (const at::Tensor& result : results) {
      for (int64_t other : result.sizes()) {
        if (other == argument.size(i)) {
          return -1;
        }
      }
    }
    return i;
  }
  return -1;
}

c10::IValue neutral(const Fault& fault, const c10::IValue& value) {
  if (fault.is_list && value.isIntList()) {
    return std::vector<int64_t>(value.toIntList().size(), fault.value);
  }
  return fault.neutral;
}

// Return the number that the first call with otherwise equal arguments passed at this position. Tensors
// passed to out= are ignored, because the number may determine their sizes.
c10::IValue first_number_of(const Place& place, const Stack& arguments, std::size_t position) {
  Stack read = arguments;
  for (std::size_t i = 0; i < read.size(); i++) {
    if (place.outs[i]) {
      read[i] = c10::IValue();
    }
  }
  return first_number(place.op.operator_name(), read, position);
}

bool is_wrapped(const c10::IValue& dimension) {
  return dimension.isInt() && dimension.toInt() < 0;
}

bool has_wrapped(const c10::IValue& value) {
  if (value.isIntList()) {
    for (int64_t dimension : value.toIntVector()) {
      if (dimension < 0) {
        return true;
      }
    }
  }
  return is_wrapped(value);
}

// Return dimensions counted from the wrong end: -1 becomes 0, -2 becomes 1.
c10::IValue misread(const c10::IValue& value) {
  if (value.isInt()) {
    return -value.toInt() - 1;
  }
  std::vector<int64_t> dimensions = value.toIntVector();
  for (int64_t& dimension : dimensions) {
    dimension = dimension < 0 ? -dimension - 1 : dimension;
  }
  return dimensions;
}

// Return whether a call has the property with this number: 0 any call, 1 has a floating-point result, 2 has a
// bool result, 3 has an int64 argument. The coverage run asks for these properties.
bool was_called(int64_t question,
                const std::vector<at::Tensor>& inputs,
                const std::vector<at::Tensor>& results) {
  switch (question) {
    case 0:
      return true;
    case 1:
    case 2:
      for (const at::Tensor& result : results) {
        if (question == 1 ? at::isFloatingType(result.scalar_type()) : result.scalar_type() == at::kBool) {
          return true;
        }
      }
      return false;
    default:
      for (const at::Tensor& input : inputs) {
        if (input.scalar_type() == at::kLong) {
          return true;
        }
      }
      return false;
  }
}

at::Generator generator_of(const Stack& arguments, const std::vector<at::Tensor>& results) {
  for (const c10::IValue& value : arguments) {
    if (value.isGenerator()) {
      return value.toGenerator();
    }
  }
  TORCH_CHECK(!results.empty(), "the random kernel has no result, so its generator is unknown");
  return at::globalContext().defaultGenerator(results[0].device());
}

}  // namespace

Kind kind_named(const std::string& name) {
  const auto found = kinds().find(name);
  TORCH_CHECK_VALUE(found != kinds().end(), name, " is not a mutation operator");
  return found->second;
}

Place::Place(const c10::OperatorHandle& handle) : op(handle) {
  const c10::FunctionSchema& schema = op.schema();
  arguments = schema.arguments().size();
  results = schema.returns().size();
  for (const c10::Argument& argument : schema.arguments()) {
    written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    outs.push_back(written.back() && argument.kwarg_only());
    writes = writes || written.back();
  }
  for (const c10::Argument& result : schema.returns()) {
    aliases.push_back(result.alias_info() != nullptr);
  }
  copies = op.operator_name().name == "aten::copy_" || op.operator_name().name == "aten::_copy_from";
  if (op.operator_name().name == "aten::_copy_from") {
    // torch's schema declares neither that the kernel writes argument 1 nor that the kernel returns this
    // argument.
    written[1] = writes = aliases[0] = true;
  }
  is_random = op.hasTag(at::Tag::nondeterministic_seeded);
}

namespace {

// Return whether a copy blocks the host. The option `non_blocking` is the only bool argument of a copy.
bool is_blocking(const Stack& arguments) {
  return std::none_of(arguments.begin(), arguments.end(), [](const c10::IValue& value) {
    return value.isBool() && value.toBool();
  });
}

// Return whether the current stream of a tensor's device has pending work.
bool has_pending_work(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_cpu() && !tensor.is_meta()) {
      const auto* guard = c10::impl::getDeviceGuardImpl(tensor.device().type());
      return !guard->queryStream(guard->getStream(tensor.device()));
    }
  }
  return false;
}

}  // namespace

struct Call::Facts {
  const Place& place;
  Stack arguments;
  std::vector<at::Tensor> inputs;
  std::map<std::pair<int, std::size_t>, bool> known;
  std::map<std::size_t, at::Tensor> old;
  // For each argument: the number of elements before the call.
  std::vector<int64_t> elements;
  // For a copy: whether the device had pending work before any value was read. Reading a value waits for
  // pending work, so this must be determined first.
  bool is_pending = false;

  bool once(Kind kind, std::size_t position, const std::function<bool()>& ask) {
    const auto key = std::make_pair(static_cast<int>(kind), position);
    const auto found = known.find(key);
    if (found != known.end()) {
      return found->second;
    }
    return known[key] = ask();
  }
};

Call::Call(const Place& place, const Stack& stack) : facts_(new Facts{place, {}, {}, {}, {}, {}, false}) {
  facts_->arguments.assign(stack.end() - static_cast<std::ptrdiff_t>(place.arguments), stack.end());
  for (std::size_t i = 0; i < place.arguments; i++) {
    const c10::IValue& value = facts_->arguments[i];
    // An argument that is changed in place is also an input. The destination of a copy is not an input.
    if (!place.written[i] || (i == 0 && !place.copies)) {
      collect(value, &facts_->inputs);
    }
    facts_->elements.push_back(value.isTensor() && value.toTensor().defined() ? value.toTensor().numel()
                                                                              : -1);
  }
  facts_->is_pending = place.copies && has_pending_work(facts_->inputs);
}

Call::~Call() = default;

int Call::dtype() const {
  for (const c10::IValue& value : facts_->arguments) {
    if (value.isTensor() && value.toTensor().defined()) {
      return static_cast<int>(value.toTensor().scalar_type());
    }
    if (value.isTensorList() && !value.toTensorList().empty()) {
      return static_cast<int>(value.toTensorVector()[0].scalar_type());
    }
  }
  return -1;
}

bool Call::meets_before(const Fault& fault) {
  const std::size_t position = fault.position;
  const std::optional<at::Tensor> tensor = tensor_at(facts_->arguments, position);
  switch (fault.kind) {
    case Kind::kStridesIgnored:
      return tensor && !tensor->is_contiguous() && !is_expanded(*tensor);
    case Kind::kExpandedIgnored:
      return tensor && is_expanded(*tensor);
    case Kind::kOffsetIgnored:
      return tensor && tensor->storage_offset() != 0 && tensor->numel() != 0;
    case Kind::kOffsetAndStridesIgnored:
      return tensor && tensor->storage_offset() != 0 && tensor->numel() != 0 && !tensor->is_contiguous();
    case Kind::kOffsetInChannelsLastIgnored:
      return tensor && tensor->storage_offset() != 0 && is_channels_last(*tensor);
    case Kind::kOffsetInOtherRankIgnored:
      return tensor && tensor->storage_offset() != 0 && tensor->numel() != 0 && has_other_rank(*tensor);
    case Kind::kInt53Bits:
      return tensor && facts_->once(fault.kind, position, [&] { return has_wide_integer(*tensor); });
    case Kind::kSwappedArguments: {
      const std::optional<at::Tensor> next =
          tensor_at(facts_->arguments, static_cast<std::size_t>(fault.value));
      return tensor && next && tensor->sizes() == next->sizes() &&
             tensor->scalar_type() == next->scalar_type() &&
             facts_->once(fault.kind, position, [&] { return !is_same(*tensor, *next); });
    }
    case Kind::kOptionIgnored: {
      const c10::IValue& value = facts_->arguments[position];
      if (value.isTensor()) {
        return value.toTensor().defined();
      }
      return !value.isNone() && value != neutral(fault, value);
    }
    case Kind::kNumberStale:
      return facts_->once(fault.kind, position, [&] {
        return first_number_of(facts_->place, facts_->arguments, position) != facts_->arguments[position];
      });
    case Kind::kNegativeDimension:
      return has_wrapped(facts_->arguments[position]);
    case Kind::kGradientOfOneInput: {
      const c10::IValue& mask = facts_->arguments.at(static_cast<std::size_t>(fault.value));
      if (!mask.isBoolList()) {
        return false;
      }
      int64_t wanted = 0;
      for (bool one : mask.toBoolList()) {
        wanted += one ? 1 : 0;
      }
      return wanted != 0 && wanted != static_cast<int64_t>(mask.toBoolList().size());
    }
    case Kind::kScalarOnly: {
      for (const at::Tensor& input : facts_->inputs) {
        if (input.dim() != 0) {
          return false;
        }
      }
      return !facts_->inputs.empty();
    }
    case Kind::kRank: {
      for (const at::Tensor& input : facts_->inputs) {
        if (input.dim() == fault.value) {
          return true;
        }
      }
      return false;
    }
    case Kind::kEmptyInput: {
      for (const at::Tensor& input : facts_->inputs) {
        if (input.numel() == 0) {
          return true;
        }
      }
      return false;
    }
    case Kind::kNanLost:
      return facts_->once(fault.kind, 0, [&] {
        for (const at::Tensor& input : facts_->inputs) {
          if (has_nan(input)) {
            return true;
          }
        }
        return false;
      });
    case Kind::kOutNotResized:
      return facts_->elements[position] == 0;
    case Kind::kInputCorrupted:
      return tensor && tensor->numel() != 0 && !is_expanded(*tensor);
    case Kind::kHostNotAwaited:
      return tensor && tensor->is_cpu() && is_blocking(facts_->arguments) && facts_->is_pending;
    default:
      return true;
  }
}

void Call::keep(const Fault& fault) {
  if (!needs_old_values(fault.kind) || facts_->old.count(fault.position) != 0) {
    return;
  }
  if (const std::optional<at::Tensor> tensor = tensor_at(facts_->arguments, fault.position)) {
    facts_->old[fault.position] = tensor->clone();
  }
}

bool Call::meets_error(const Fault& fault) {
  return fault.kind == Kind::kErrorMissing || fault.kind == Kind::kErrorType;
}

bool Call::meets_after(const Fault& fault, const Stack& results) {
  if (fault.kind == Kind::kErrorMissing || fault.kind == Kind::kErrorType) {
    return false;
  }
  if (alters_arguments(fault.kind) && fault.kind != Kind::kLongSum) {
    return true;
  }
  const Facts& facts = *facts_;
  switch (fault.kind) {
    case Kind::kCalled:
      return was_called(fault.value, facts.inputs, tensors_of(results));
    case Kind::kLongSum: {
      const std::optional<at::Tensor> tensor = tensor_at(facts.arguments, fault.position);
      return tensor && summed_dimension(*tensor, tensors_of(results), fault.value) != -1;
    }
    case Kind::kInputCorrupted: {
      const at::Tensor input = facts.arguments[fault.position].toTensor();
      for (const at::Tensor& result : tensors_of(results)) {
        if (result.is_alias_of(input)) {
          return false;
        }
      }
      return true;
    }
    case Kind::kHostNotAwaited:
    case Kind::kWriteLost:
    case Kind::kWritePartial: {
      const auto old = facts.old.find(fault.position);
      const std::optional<at::Tensor> now = tensor_at(facts.arguments, fault.position);
      if (old == facts.old.end() || !now || old->second.sizes() != now->sizes() || now->numel() == 0 ||
          is_expanded(*now)) {
        return false;
      }
      if (fault.kind == Kind::kWritePartial && now->numel() < 2) {
        return false;
      }
      return facts_->once(fault.kind, fault.position, [&] {
        if (fault.kind != Kind::kWritePartial) {
          return !is_same(old->second, *now);
        }
        const int64_t half = now->numel() / 2;
        return !is_same(old->second.reshape(-1).slice(0, half), now->reshape(-1).slice(0, half));
      });
    }
    case Kind::kWriteAstray: {
      const std::optional<at::Tensor> now = tensor_at(facts.arguments, fault.position);
      return now && !is_expanded(*now) && now->numel() != 0 &&
             static_cast<int64_t>(now->storage().nbytes() / now->itemsize()) > now->numel();
    }
    case Kind::kOutNotResized:
      return facts.arguments[fault.position].toTensor().numel() != 0;
    case Kind::kAliasingLost:
    case Kind::kAliasingGained:
    case Kind::kLeak:
    default:
      break;
  }
  const std::optional<at::Tensor> result = tensor_at(results, fault.position);
  if (!result) {
    return false;
  }
  if (fault.kind == Kind::kAliasingLost || fault.kind == Kind::kLeak) {
    return result->numel() != 0;
  }
  if (result->numel() == 0 || is_expanded(*result)) {
    return false;
  }
  switch (fault.kind) {
    case Kind::kLastElement:
      return result->numel() > 1;
    case Kind::kTail:
      return result->numel() > fault.value && result->numel() % fault.value != 0;
    case Kind::kAbove:
      return result->numel() > fault.value;
    case Kind::kNanLost:
      return facts_->once(Kind::kNanLost, fault.position + 1, [&] { return has_nan(*result); });
    case Kind::kInfinityLost:
      return facts_->once(fault.kind, fault.position, [&] { return has_infinity(*result); });
    case Kind::kSignedZeroLost:
      return facts_->once(fault.kind, fault.position, [&] { return has_negative_zero(*result); });
    case Kind::kSubnormalFlushed:
      return facts_->once(fault.kind, fault.position, [&] { return has_subnormal(*result); });
    case Kind::kLowPrecision:
      return facts_->once(fault.kind, fault.position, [&] {
        const at::Tensor low = in_low_precision(*result);
        return low.defined() && !is_same(low, *result);
      });
    case Kind::kBoolByte:
      return facts_->once(fault.kind, fault.position, [&] { return has_true(*result); });
    case Kind::kResultStrides:
      return result->dim() > 1 && in_other_strides(*result).strides() != result->strides();
    case Kind::kAliasingGained:
      return facts_->once(fault.kind, fault.position, [&] {
        for (const at::Tensor& input : facts_->inputs) {
          if (!input.is_alias_of(*result) && input.strides() == result->strides() &&
              is_same(input, *result)) {
            return true;
          }
        }
        return false;
      });
    case Kind::kGeneratorFrozen:
    case Kind::kGeneratorOverlap:
      // The mutant cannot be detected in a draw of one element.
      return result->numel() > 1;
    default:
      return true;
  }
}

namespace {

c10::IValue altered(const Place& place,
                    const Fault& fault,
                    const Stack& arguments,
                    const std::vector<at::Tensor>& results) {
  const c10::IValue& value = arguments[fault.position];
  switch (fault.kind) {
    case Kind::kStridesIgnored:
    case Kind::kExpandedIgnored:
      return read_densely(value.toTensor());
    case Kind::kOffsetIgnored:
    case Kind::kOffsetAndStridesIgnored:
    case Kind::kOffsetInChannelsLastIgnored:
    case Kind::kOffsetInOtherRankIgnored:
      return without_offset(value.toTensor());
    case Kind::kInt53Bits:
      return through_double(value.toTensor());
    case Kind::kLongSum: {
      const at::Tensor tensor = value.toTensor();
      return cut(tensor, summed_dimension(tensor, results, fault.value), fault.value);
    }
    case Kind::kOptionIgnored:
      return value.isTensor() ? c10::IValue() : neutral(fault, value);
    case Kind::kNumberStale:
      return first_number_of(place, arguments, fault.position);
    case Kind::kNegativeDimension:
      return misread(value);
    default:
      TORCH_INTERNAL_ASSERT(false, "the mutation operator does not alter an argument");
  }
}

bool all_same(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  if (one.size() != other.size()) {
    return false;
  }
  for (std::size_t i = 0; i < one.size(); i++) {
    if (!is_same(one[i], other[i])) {
      return false;
    }
  }
  return true;
}

// Return the arguments. A copy replaces each tensor that the kernel writes, unless the tensor is expanded.
Stack with_copies(const Place& place, const Stack& arguments) {
  Stack copies = arguments;
  for (std::size_t i = 0; i < arguments.size(); i++) {
    if (place.written[i] && arguments[i].isTensor() && arguments[i].toTensor().defined()) {
      const at::Tensor tensor = arguments[i].toTensor();
      copies[i] = is_expanded(tensor) ? tensor : tensor.clone();
    } else if (place.written[i] && arguments[i].isTensorList()) {
      std::vector<at::Tensor> list = arguments[i].toTensorVector();
      for (at::Tensor& tensor : list) {
        tensor = tensor.clone();
      }
      copies[i] = list;
    }
  }
  return copies;
}

std::vector<at::Tensor> written_tensors(const Place& place, const Stack& arguments) {
  std::vector<at::Tensor> found;
  for (std::size_t i = 0; i < arguments.size(); i++) {
    if (place.written[i]) {
      collect(arguments[i], &found);
    }
  }
  return found;
}

// Return whether a random kernel also throws with the correct arguments. Restore the generator's state
// afterwards.
bool raises_in_vain(const Place& place, const Kernel& kernel, const Stack& arguments) {
  Stack trial = with_copies(place, arguments);
  at::Generator generator = generator_of(arguments, tensors_of(arguments));
  const at::Tensor state = state_of(generator);
  try {
    kernel.call(&trial);
  } catch (const c10::Error&) {
    return true;
  }
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
  return false;
}

bool run_with_other_arguments(
    const Place& place, const Fault& fault, const Kernel& kernel, Stack* stack, int64_t* calls, bool sure) {
  const Stack right(stack->end() - static_cast<std::ptrdiff_t>(place.arguments), stack->end());
  Stack wrong = right;
  std::vector<at::Tensor> expected;
  const bool looks = !sure && !place.is_random;
  const bool needs_results = fault.kind == Kind::kLongSum;
  bool raises = false;
  if (looks || needs_results) {
    Stack trial = with_copies(place, right);
    const Stack arguments = trial;
    try {
      kernel.call(&trial);
    } catch (const c10::Error&) {
      raises = true;
    }
    expected = tensors_of(trial);
    for (const at::Tensor& tensor : written_tensors(place, arguments)) {
      expected.push_back(tensor);
    }
  }
  if (fault.kind == Kind::kSwappedArguments) {
    std::swap(wrong[fault.position], wrong[static_cast<std::size_t>(fault.value)]);
  } else {
    wrong[fault.position] = altered(place, fault, right, expected);
  }
  stack->resize(stack->size() - place.arguments);
  Stack results = wrong;
  try {
    kernel.call(&results);
  } catch (const c10::Error&) {
    // The mutant is not triggered by a call that throws with the correct arguments too.
    *calls -= raises || (place.is_random && !sure && raises_in_vain(place, kernel, right)) ? 1 : 0;
    throw;
  }
  if (raises) {
    sure = true;
  } else if (looks) {
    std::vector<at::Tensor> found = tensors_of(results);
    for (const at::Tensor& tensor : written_tensors(place, wrong)) {
      found.push_back(tensor);
    }
    sure = !all_same(expected, found);
  } else {
    sure = true;
  }
  stack->insert(stack->end(), results.begin(), results.end());
  return sure;
}

// Run the kernel, and postpone the values of its result until the end of the next call. Until then the result
// holds its previous values, or zeros.
bool run_late(
    const Place& place, const Fault& fault, const Kernel& kernel, Call* call, Stack* stack, int64_t* calls) {
  const Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(place.arguments), stack->end());
  const Stack before = with_copies(place, arguments);
  kernel.call(stack);
  const Stack results(stack->end() - static_cast<std::ptrdiff_t>(place.results), stack->end());
  if (!call->meets_after(fault, results)) {
    return false;
  }
  ++*calls;
  const at::Tensor result = results.at(fault.position).toTensor();
  Due due{result, result.clone()};
  result.zero_();
  for (std::size_t i = 0; i < place.arguments; i++) {
    if (place.written[i] && arguments[i].isTensor() && arguments[i].toTensor().defined() &&
        arguments[i].toTensor().is_alias_of(result) && before[i].toTensor().sizes() == result.sizes()) {
      result.copy_(before[i].toTensor());
    }
  }
  if (is_same(result, due.values)) {
    return false;
  }
  postpone(std::move(due));
  return true;
}

// Push results in place of an error that the mutant hides: an argument that the kernel writes, or zeros.
void pretend(const Place& place, const Stack& arguments, Stack* stack) {
  at::Tensor some;
  for (std::size_t i = 0; i < arguments.size(); i++) {
    if (arguments[i].isTensor() && arguments[i].toTensor().defined() &&
        (!some.defined() || place.written[i])) {
      some = arguments[i].toTensor();
    }
  }
  TORCH_CHECK(some.defined(), "the error cannot be hidden, because the call needs a tensor result");
  for (const c10::Argument& result : place.op.schema().returns()) {
    TORCH_CHECK(result.type()->kind() == c10::TypeKind::TensorType,
                "the error cannot be hidden, because the call needs a tensor result");
    stack->push_back(place.writes ? some : at::zeros_like(some));
  }
}

void change_result(const Fault& fault, const Stack& arguments, Stack* results, int64_t met) {
  if (fault.kind == Kind::kInputCorrupted) {
    const at::Tensor input = arguments[fault.position].toTensor();
    break_from(input, input.numel() - 1);
    return;
  }
  c10::IValue& slot = results->at(fault.position);
  const at::Tensor result = slot.toTensor();
  switch (fault.kind) {
    case Kind::kLastElement:
      break_from(result, result.numel() - 1);
      return;
    case Kind::kTail:
      break_from(result, result.numel() - result.numel() % fault.value);
      return;
    case Kind::kAbove:
      break_from(result, fault.value);
      return;
    case Kind::kFlaky:
      if (met % fault.value == 0) {
        break_from(result, result.numel() - 1);
      }
      return;
    case Kind::kScalarOnly:
    case Kind::kRank:
    case Kind::kEmptyInput:
    case Kind::kGradientOfOneInput:
      break_from(result, 0);
      return;
    case Kind::kNanLost:
      result.copy_(without_nan(result));
      return;
    case Kind::kInfinityLost:
      result.copy_(without_infinity(result));
      return;
    case Kind::kSignedZeroLost:
      result.copy_(without_negative_zero(result));
      return;
    case Kind::kSubnormalFlushed:
      result.copy_(without_subnormal(result));
      return;
    case Kind::kLowPrecision:
      result.copy_(in_low_precision(result));
      return;
    case Kind::kBoolByte:
      break_bool_bytes(result);
      return;
    case Kind::kResultDtype:
      slot = in_other_dtype(result);
      return;
    case Kind::kResultStrides:
      slot = in_other_strides(result);
      return;
    case Kind::kAliasingLost:
      slot = result.clone();
      return;
    case Kind::kAliasingGained:
      for (const c10::IValue& value : arguments) {
        if (value.isTensor() && is_plain(value.toTensor()) &&
            value.toTensor().strides() == result.strides() && is_same(value.toTensor(), result)) {
          slot = value.toTensor().alias();
          return;
        }
      }
      return;
    case Kind::kStaleResult: {
      const at::Tensor old = stale(result);
      if (old.defined()) {
        result.copy_(old);
      }
      return;
    }
    case Kind::kLeak:
      lose(at::empty_like(result));
      return;
    default:
      return;
  }
}

void write_otherwise(const Fault& fault, const at::Tensor& old, const at::Tensor& now) {
  switch (fault.kind) {
    case Kind::kHostNotAwaited:
    case Kind::kWriteLost:
      now.copy_(old);
      return;
    case Kind::kWritePartial: {
      at::Tensor flat = now.clone(at::MemoryFormat::Contiguous).view(-1);
      const int64_t half = flat.numel() / 2;
      flat.slice(0, half).copy_(old.reshape(-1).slice(0, half));
      now.copy_(flat.view(now.sizes()));
      return;
    }
    case Kind::kWriteAstray:
      break_neighbour(now);
      return;
    case Kind::kOutNotResized:
      now.resize_({0});
      return;
    default:
      return;
  }
}

bool is_about_writes(Kind kind) {
  return needs_old_values(kind) || kind == Kind::kWriteAstray || kind == Kind::kOutNotResized;
}

[[noreturn]] void throw_other(const c10::Error& error) {
  const std::string words = "the kernel failed";
  if (dynamic_cast<const c10::IndexError*>(&error) != nullptr ||
      dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr ||
      dynamic_cast<const c10::ValueError*>(&error) != nullptr ||
      dynamic_cast<const c10::TypeError*>(&error) != nullptr) {
    TORCH_CHECK(false, words);
  }
  TORCH_CHECK_INDEX(false, words);
}

}  // namespace

bool run_faulty(
    const Place& place, const Fault& fault, const Kernel& kernel, Stack* stack, int64_t* calls, bool sure) {
  Call call(place, *stack);
  if ((fault.dtype != -1 && fault.dtype != call.dtype()) || !call.meets_before(fault)) {
    kernel.call(stack);
    return false;
  }
  const Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(place.arguments), stack->end());
  if (alters_arguments(fault.kind)) {
    if (fault.kind == Kind::kLongSum) {
      Stack trial = with_copies(place, arguments);
      kernel.call(&trial);
      if (!call.meets_after(fault, trial)) {
        kernel.call(stack);
        return false;
      }
    }
    ++*calls;
    return run_with_other_arguments(place, fault, kernel, stack, calls, sure);
  }
  if (fault.kind == Kind::kErrorMissing || fault.kind == Kind::kErrorType) {
    const std::size_t below = stack->size() - place.arguments;
    try {
      kernel.call(stack);
      return false;
    } catch (const c10::Error& error) {
      ++*calls;
      if (fault.kind == Kind::kErrorType) {
        throw_other(error);
      }
    }
    stack->resize(below);
    pretend(place, arguments, stack);
    return true;
  }
  if (fault.kind == Kind::kLate) {
    return run_late(place, fault, kernel, &call, stack, calls);
  }
  at::Tensor old;
  if (needs_old_values(fault.kind)) {
    call.keep(fault);
    if (const std::optional<at::Tensor> tensor = tensor_at(arguments, fault.position)) {
      old = tensor->clone();
    }
  }
  std::optional<at::Generator> generator;
  at::Tensor state;
  if (fault.kind == Kind::kGeneratorFrozen || fault.kind == Kind::kGeneratorOverlap) {
    generator = generator_of(arguments, tensors_of(arguments));
    state = state_of(*generator);
  }
  kernel.call(stack);
  Stack results(stack->end() - static_cast<std::ptrdiff_t>(place.results), stack->end());
  if (!call.meets_after(fault, results)) {
    return false;
  }
  ++*calls;
  if (generator) {
    const at::Tensor after = state_of(*generator);
    if (fault.kind == Kind::kGeneratorOverlap) {
      return overlap(results[fault.position].toTensor(), state, after);
    }
    const std::lock_guard<std::mutex> lock(generator->mutex());
    generator->set_state(state);
    return !at::equal(state, after);  // a kernel that draws nothing does not change the state
  }
  if (is_about_writes(fault.kind)) {
    write_otherwise(fault, old, arguments[fault.position].toTensor());
    return true;
  }
  const int64_t met = *calls;
  change_result(fault, arguments, &results, met);
  std::copy(results.begin(), results.end(), stack->end() - static_cast<std::ptrdiff_t>(place.results));
  return fault.kind != Kind::kFlaky || met % fault.value == 0;
}

}  // namespace power
