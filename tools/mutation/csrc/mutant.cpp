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

namespace mutation {

namespace {

const std::map<std::string, MutationOperator>& mutation_operators_by_name() {
  static const std::map<std::string, MutationOperator> names = {
      {"last-element", MutationOperator::kLastElement},
      {"tail-of-block", MutationOperator::kTail},
      {"above-size", MutationOperator::kAbove},
      {"scalar-only", MutationOperator::kScalarOnly},
      {"rank", MutationOperator::kRank},
      {"nan-lost", MutationOperator::kNanLost},
      {"infinity-lost", MutationOperator::kInfinityLost},
      {"signed-zero-lost", MutationOperator::kSignedZeroLost},
      {"subnormal-flushed", MutationOperator::kSubnormalFlushed},
      {"low-precision", MutationOperator::kLowPrecision},
      {"bool-byte", MutationOperator::kBoolByte},
      {"result-dtype", MutationOperator::kResultDtype},
      {"result-strides", MutationOperator::kResultStrides},
      {"aliasing-lost", MutationOperator::kAliasingLost},
      {"aliasing-gained", MutationOperator::kAliasingGained},
      {"input-corrupted", MutationOperator::kInputCorrupted},
      {"write-lost", MutationOperator::kWriteLost},
      {"write-partial", MutationOperator::kWritePartial},
      {"write-astray", MutationOperator::kWriteAstray},
      {"host-not-awaited", MutationOperator::kHostNotAwaited},
      {"out-not-resized", MutationOperator::kOutNotResized},
      {"stale-result", MutationOperator::kStaleResult},
      {"late", MutationOperator::kLate},
      {"flaky", MutationOperator::kFlaky},
      {"leak", MutationOperator::kLeak},
      {"empty-input", MutationOperator::kEmptyInput},
      {"gradient-of-one-input", MutationOperator::kGradientOfOneInput},
      {"strides-ignored", MutationOperator::kStridesIgnored},
      {"expanded-ignored", MutationOperator::kExpandedIgnored},
      {"offset-ignored", MutationOperator::kOffsetIgnored},
      {"offset-and-strides-ignored", MutationOperator::kOffsetAndStridesIgnored},
      {"offset-in-channels-last-ignored", MutationOperator::kOffsetInChannelsLastIgnored},
      {"offset-in-other-rank-ignored", MutationOperator::kOffsetInOtherRankIgnored},
      {"int-53-bits", MutationOperator::kInt53Bits},
      {"long-sum", MutationOperator::kLongSum},
      {"swapped-arguments", MutationOperator::kSwappedArguments},
      {"option-ignored", MutationOperator::kOptionIgnored},
      {"number-stale", MutationOperator::kNumberStale},
      {"negative-dimension", MutationOperator::kNegativeDimension},
      {"error-missing", MutationOperator::kErrorMissing},
      {"error-type", MutationOperator::kErrorType},
      {"generator-frozen", MutationOperator::kGeneratorFrozen},
      {"generator-overlap", MutationOperator::kGeneratorOverlap},
      {"called", MutationOperator::kCalled},
  };
  return names;
}

// Return whether a mutation operator changes the arguments that the kernel receives.
bool alters_arguments(MutationOperator mutation_operator) {
  switch (mutation_operator) {
    case MutationOperator::kStridesIgnored:
    case MutationOperator::kExpandedIgnored:
    case MutationOperator::kOffsetIgnored:
    case MutationOperator::kOffsetAndStridesIgnored:
    case MutationOperator::kOffsetInChannelsLastIgnored:
    case MutationOperator::kOffsetInOtherRankIgnored:
    case MutationOperator::kInt53Bits:
    case MutationOperator::kLongSum:
    case MutationOperator::kSwappedArguments:
    case MutationOperator::kOptionIgnored:
    case MutationOperator::kNumberStale:
    case MutationOperator::kNegativeDimension:
      return true;
    default:
      return false;
  }
}

bool needs_old_values(MutationOperator mutation_operator) {
  return mutation_operator == MutationOperator::kWriteLost ||
         mutation_operator == MutationOperator::kWritePartial ||
         mutation_operator == MutationOperator::kHostNotAwaited;
}

std::optional<at::Tensor> plain_tensor_at(const Stack& values, std::size_t position) {
  if (position >= values.size() || !values[position].isTensor()) {
    return std::nullopt;
  }
  at::Tensor tensor = values[position].toTensor();
  if (!is_plain(tensor)) {
    return std::nullopt;
  }
  return tensor;
}

void collect_tensors(const c10::IValue& value, std::vector<at::Tensor>* found) {
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
    collect_tensors(value, &found);
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

c10::IValue replacement_of_option(const Mutant& mutant, const c10::IValue& value) {
  if (mutant.is_list && value.isIntList()) {
    return std::vector<int64_t>(value.toIntList().size(), mutant.value);
  }
  return mutant.replacement_value;
}

// Return the number that the first call with otherwise equal arguments passed at this position. Tensors
// passed to out= are ignored, because the number may determine their sizes.
c10::IValue first_matching_number(const OverloadProperties& overload,
                                  const Stack& arguments,
                                  std::size_t position) {
  Stack read = arguments;
  for (std::size_t i = 0; i < read.size(); i++) {
    if (overload.out_arguments[i]) {
      read[i] = c10::IValue();
    }
  }
  return first_matching_argument(overload.op.operator_name(), read, position);
}

bool is_negative_dimension(const c10::IValue& dimension) {
  return dimension.isInt() && dimension.toInt() < 0;
}

bool has_negative_dimension(const c10::IValue& value) {
  if (value.isIntList()) {
    for (int64_t dimension : value.toIntVector()) {
      if (dimension < 0) {
        return true;
      }
    }
  }
  return is_negative_dimension(value);
}

// Return dimensions counted from the wrong end: -1 becomes 0, -2 becomes 1.
c10::IValue count_from_wrong_end(const c10::IValue& value) {
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
bool call_has_property(int64_t property,
                       const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& results) {
  switch (property) {
    case 0:
      return true;
    case 1:
    case 2:
      for (const at::Tensor& result : results) {
        if (property == 1 ? at::isFloatingType(result.scalar_type()) : result.scalar_type() == at::kBool) {
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

MutationOperator mutation_operator_named(const std::string& name) {
  const auto found = mutation_operators_by_name().find(name);
  TORCH_CHECK_VALUE(found != mutation_operators_by_name().end(), name, " is not a mutation operator");
  return found->second;
}

OverloadProperties::OverloadProperties(const c10::OperatorHandle& handle) : op(handle) {
  const c10::FunctionSchema& schema = op.schema();
  arguments = schema.arguments().size();
  results = schema.returns().size();
  for (const c10::Argument& argument : schema.arguments()) {
    written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    out_arguments.push_back(written.back() && argument.kwarg_only());
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

struct Call::CallFacts {
  const OverloadProperties& overload;
  Stack arguments;
  std::vector<at::Tensor> inputs;
  std::map<std::pair<int, std::size_t>, bool> cached;
  std::map<std::size_t, at::Tensor> old;
  // For each argument: the number of elements before the call.
  std::vector<int64_t> elements;
  // For a copy: whether the device had pending work before any value was read. Reading a value waits for
  // pending work, so this must be determined first.
  bool is_pending = false;

  bool cached_answer(MutationOperator mutation_operator,
                     std::size_t position,
                     const std::function<bool()>& compute) {
    const auto key = std::make_pair(static_cast<int>(mutation_operator), position);
    const auto found = cached.find(key);
    if (found != cached.end()) {
      return found->second;
    }
    return cached[key] = compute();
  }
};

Call::Call(const OverloadProperties& overload, const Stack& stack)
    : facts_(new CallFacts{overload, {}, {}, {}, {}, {}, false}) {
  facts_->arguments.assign(stack.end() - static_cast<std::ptrdiff_t>(overload.arguments), stack.end());
  for (std::size_t i = 0; i < overload.arguments; i++) {
    const c10::IValue& value = facts_->arguments[i];
    // An argument that is changed in place is also an input. The destination of a copy is not an input.
    if (!overload.written[i] || (i == 0 && !overload.copies)) {
      collect_tensors(value, &facts_->inputs);
    }
    facts_->elements.push_back(value.isTensor() && value.toTensor().defined() ? value.toTensor().numel()
                                                                              : -1);
  }
  facts_->is_pending = overload.copies && has_pending_work(facts_->inputs);
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

bool Call::meets_condition_before_kernel(const Mutant& mutant) {
  const std::size_t position = mutant.position;
  const std::optional<at::Tensor> tensor = plain_tensor_at(facts_->arguments, position);
  switch (mutant.mutation_operator) {
    case MutationOperator::kStridesIgnored:
      return tensor && !tensor->is_contiguous() && !is_expanded(*tensor);
    case MutationOperator::kExpandedIgnored:
      return tensor && is_expanded(*tensor);
    case MutationOperator::kOffsetIgnored:
      return tensor && tensor->storage_offset() != 0 && tensor->numel() != 0;
    case MutationOperator::kOffsetAndStridesIgnored:
      return tensor && tensor->storage_offset() != 0 && tensor->numel() != 0 && !tensor->is_contiguous();
    case MutationOperator::kOffsetInChannelsLastIgnored:
      return tensor && tensor->storage_offset() != 0 && is_channels_last(*tensor);
    case MutationOperator::kOffsetInOtherRankIgnored:
      return tensor && tensor->storage_offset() != 0 && tensor->numel() != 0 &&
             has_other_rank_than_base(*tensor);
    case MutationOperator::kInt53Bits:
      return tensor && facts_->cached_answer(
                           mutant.mutation_operator, position, [&] { return has_wide_integer(*tensor); });
    case MutationOperator::kSwappedArguments: {
      const std::optional<at::Tensor> next =
          plain_tensor_at(facts_->arguments, static_cast<std::size_t>(mutant.value));
      return tensor && next && tensor->sizes() == next->sizes() &&
             tensor->scalar_type() == next->scalar_type() &&
             facts_->cached_answer(
                 mutant.mutation_operator, position, [&] { return !have_equal_values(*tensor, *next); });
    }
    case MutationOperator::kOptionIgnored: {
      const c10::IValue& value = facts_->arguments[position];
      if (value.isTensor()) {
        return value.toTensor().defined();
      }
      return !value.isNone() && value != replacement_of_option(mutant, value);
    }
    case MutationOperator::kNumberStale:
      return facts_->cached_answer(mutant.mutation_operator, position, [&] {
        return first_matching_number(facts_->overload, facts_->arguments, position) !=
               facts_->arguments[position];
      });
    case MutationOperator::kNegativeDimension:
      return has_negative_dimension(facts_->arguments[position]);
    case MutationOperator::kGradientOfOneInput: {
      const c10::IValue& mask = facts_->arguments.at(static_cast<std::size_t>(mutant.value));
      if (!mask.isBoolList()) {
        return false;
      }
      int64_t wanted = 0;
      for (bool one : mask.toBoolList()) {
        wanted += one ? 1 : 0;
      }
      return wanted != 0 && wanted != static_cast<int64_t>(mask.toBoolList().size());
    }
    case MutationOperator::kScalarOnly: {
      for (const at::Tensor& input : facts_->inputs) {
        if (input.dim() != 0) {
          return false;
        }
      }
      return !facts_->inputs.empty();
    }
    case MutationOperator::kRank: {
      for (const at::Tensor& input : facts_->inputs) {
        if (input.dim() == mutant.value) {
          return true;
        }
      }
      return false;
    }
    case MutationOperator::kEmptyInput: {
      for (const at::Tensor& input : facts_->inputs) {
        if (input.numel() == 0) {
          return true;
        }
      }
      return false;
    }
    case MutationOperator::kNanLost:
      return facts_->cached_answer(mutant.mutation_operator, 0, [&] {
        for (const at::Tensor& input : facts_->inputs) {
          if (has_nan(input)) {
            return true;
          }
        }
        return false;
      });
    case MutationOperator::kOutNotResized:
      return facts_->elements[position] == 0;
    case MutationOperator::kInputCorrupted:
      return tensor && tensor->numel() != 0 && !is_expanded(*tensor);
    case MutationOperator::kHostNotAwaited:
      return tensor && tensor->is_cpu() && is_blocking(facts_->arguments) && facts_->is_pending;
    default:
      return true;
  }
}

void Call::store_old_values(const Mutant& mutant) {
  if (!needs_old_values(mutant.mutation_operator) || facts_->old.count(mutant.position) != 0) {
    return;
  }
  if (const std::optional<at::Tensor> tensor = plain_tensor_at(facts_->arguments, mutant.position)) {
    facts_->old[mutant.position] = tensor->clone();
  }
}

bool Call::meets_condition_of_error(const Mutant& mutant) {
  return mutant.mutation_operator == MutationOperator::kErrorMissing ||
         mutant.mutation_operator == MutationOperator::kErrorType;
}

bool Call::meets_condition_after_kernel(const Mutant& mutant, const Stack& results) {
  if (mutant.mutation_operator == MutationOperator::kErrorMissing ||
      mutant.mutation_operator == MutationOperator::kErrorType) {
    return false;
  }
  if (alters_arguments(mutant.mutation_operator) && mutant.mutation_operator != MutationOperator::kLongSum) {
    return true;
  }
  const CallFacts& facts = *facts_;
  switch (mutant.mutation_operator) {
    case MutationOperator::kCalled:
      return call_has_property(mutant.value, facts.inputs, tensors_of(results));
    case MutationOperator::kLongSum: {
      const std::optional<at::Tensor> tensor = plain_tensor_at(facts.arguments, mutant.position);
      return tensor && summed_dimension(*tensor, tensors_of(results), mutant.value) != -1;
    }
    case MutationOperator::kInputCorrupted: {
      const at::Tensor input = facts.arguments[mutant.position].toTensor();
      for (const at::Tensor& result : tensors_of(results)) {
        if (result.is_alias_of(input)) {
          return false;
        }
      }
      return true;
    }
    case MutationOperator::kHostNotAwaited:
    case MutationOperator::kWriteLost:
    case MutationOperator::kWritePartial: {
      const auto old = facts.old.find(mutant.position);
      const std::optional<at::Tensor> now = plain_tensor_at(facts.arguments, mutant.position);
      if (old == facts.old.end() || !now || old->second.sizes() != now->sizes() || now->numel() == 0 ||
          is_expanded(*now)) {
        return false;
      }
      if (mutant.mutation_operator == MutationOperator::kWritePartial && now->numel() < 2) {
        return false;
      }
      return facts_->cached_answer(mutant.mutation_operator, mutant.position, [&] {
        if (mutant.mutation_operator != MutationOperator::kWritePartial) {
          return !have_equal_values(old->second, *now);
        }
        const int64_t half = now->numel() / 2;
        return !have_equal_values(old->second.reshape(-1).slice(0, half), now->reshape(-1).slice(0, half));
      });
    }
    case MutationOperator::kWriteAstray: {
      const std::optional<at::Tensor> now = plain_tensor_at(facts.arguments, mutant.position);
      return now && !is_expanded(*now) && now->numel() != 0 &&
             static_cast<int64_t>(now->storage().nbytes() / now->itemsize()) > now->numel();
    }
    case MutationOperator::kOutNotResized:
      return facts.arguments[mutant.position].toTensor().numel() != 0;
    case MutationOperator::kAliasingLost:
    case MutationOperator::kAliasingGained:
    case MutationOperator::kLeak:
    default:
      break;
  }
  const std::optional<at::Tensor> result = plain_tensor_at(results, mutant.position);
  if (!result) {
    return false;
  }
  if (mutant.mutation_operator == MutationOperator::kAliasingLost ||
      mutant.mutation_operator == MutationOperator::kLeak) {
    return result->numel() != 0;
  }
  if (result->numel() == 0 || is_expanded(*result)) {
    return false;
  }
  switch (mutant.mutation_operator) {
    case MutationOperator::kLastElement:
      return result->numel() > 1;
    case MutationOperator::kTail:
      return result->numel() > mutant.value && result->numel() % mutant.value != 0;
    case MutationOperator::kAbove:
      return result->numel() > mutant.value;
    case MutationOperator::kNanLost:
      return facts_->cached_answer(
          MutationOperator::kNanLost, mutant.position + 1, [&] { return has_nan(*result); });
    case MutationOperator::kInfinityLost:
      return facts_->cached_answer(
          mutant.mutation_operator, mutant.position, [&] { return has_infinity(*result); });
    case MutationOperator::kSignedZeroLost:
      return facts_->cached_answer(
          mutant.mutation_operator, mutant.position, [&] { return has_negative_zero(*result); });
    case MutationOperator::kSubnormalFlushed:
      return facts_->cached_answer(
          mutant.mutation_operator, mutant.position, [&] { return has_subnormal(*result); });
    case MutationOperator::kLowPrecision:
      return facts_->cached_answer(mutant.mutation_operator, mutant.position, [&] {
        const at::Tensor low = rounded_to_low_precision(*result);
        return low.defined() && !have_equal_values(low, *result);
      });
    case MutationOperator::kBoolByte:
      return facts_->cached_answer(
          mutant.mutation_operator, mutant.position, [&] { return has_true(*result); });
    case MutationOperator::kResultStrides:
      return result->dim() > 1 && in_other_strides(*result).strides() != result->strides();
    case MutationOperator::kAliasingGained:
      return facts_->cached_answer(mutant.mutation_operator, mutant.position, [&] {
        for (const at::Tensor& input : facts_->inputs) {
          if (!input.is_alias_of(*result) && input.strides() == result->strides() &&
              have_equal_values(input, *result)) {
            return true;
          }
        }
        return false;
      });
    case MutationOperator::kGeneratorFrozen:
    case MutationOperator::kGeneratorOverlap:
      // The mutant cannot be detected in a draw of one element.
      return result->numel() > 1;
    default:
      return true;
  }
}

namespace {

c10::IValue altered_argument(const OverloadProperties& overload,
                             const Mutant& mutant,
                             const Stack& arguments,
                             const std::vector<at::Tensor>& results) {
  const c10::IValue& value = arguments[mutant.position];
  switch (mutant.mutation_operator) {
    case MutationOperator::kStridesIgnored:
    case MutationOperator::kExpandedIgnored:
      return read_densely(value.toTensor());
    case MutationOperator::kOffsetIgnored:
    case MutationOperator::kOffsetAndStridesIgnored:
    case MutationOperator::kOffsetInChannelsLastIgnored:
    case MutationOperator::kOffsetInOtherRankIgnored:
      return without_offset(value.toTensor());
    case MutationOperator::kInt53Bits:
      return rounded_to_double(value.toTensor());
    case MutationOperator::kLongSum: {
      const at::Tensor tensor = value.toTensor();
      return zero_from(tensor, summed_dimension(tensor, results, mutant.value), mutant.value);
    }
    case MutationOperator::kOptionIgnored:
      return value.isTensor() ? c10::IValue() : replacement_of_option(mutant, value);
    case MutationOperator::kNumberStale:
      return first_matching_number(overload, arguments, mutant.position);
    case MutationOperator::kNegativeDimension:
      return count_from_wrong_end(value);
    default:
      TORCH_INTERNAL_ASSERT(false, "the mutation operator does not alter an argument");
  }
}

bool all_have_equal_values(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  if (one.size() != other.size()) {
    return false;
  }
  for (std::size_t i = 0; i < one.size(); i++) {
    if (!have_equal_values(one[i], other[i])) {
      return false;
    }
  }
  return true;
}

// Return the arguments. A copy replaces each tensor that the kernel writes, unless the tensor is expanded.
Stack copy_written_arguments(const OverloadProperties& overload, const Stack& arguments) {
  Stack copies = arguments;
  for (std::size_t i = 0; i < arguments.size(); i++) {
    if (overload.written[i] && arguments[i].isTensor() && arguments[i].toTensor().defined()) {
      const at::Tensor tensor = arguments[i].toTensor();
      copies[i] = is_expanded(tensor) ? tensor : tensor.clone();
    } else if (overload.written[i] && arguments[i].isTensorList()) {
      std::vector<at::Tensor> list = arguments[i].toTensorVector();
      for (at::Tensor& tensor : list) {
        tensor = tensor.clone();
      }
      copies[i] = list;
    }
  }
  return copies;
}

std::vector<at::Tensor> written_tensors(const OverloadProperties& overload, const Stack& arguments) {
  std::vector<at::Tensor> found;
  for (std::size_t i = 0; i < arguments.size(); i++) {
    if (overload.written[i]) {
      collect_tensors(arguments[i], &found);
    }
  }
  return found;
}

// Return whether a random kernel also throws with the correct arguments. Restore the generator's state
// afterwards.
bool also_raises_with_correct_arguments(const OverloadProperties& overload,
                                        const Kernel& kernel,
                                        const Stack& arguments) {
  Stack trial = copy_written_arguments(overload, arguments);
  at::Generator generator = generator_of(arguments, tensors_of(arguments));
  const at::Tensor state = generator_state(generator);
  try {
    kernel.call(&trial);
  } catch (const c10::Error&) {
    return true;
  }
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
  return false;
}

bool run_with_altered_arguments(const OverloadProperties& overload,
                                const Mutant& mutant,
                                const Kernel& kernel,
                                Stack* stack,
                                int64_t* calls,
                                bool sure) {
  const Stack right(stack->end() - static_cast<std::ptrdiff_t>(overload.arguments), stack->end());
  Stack wrong = right;
  std::vector<at::Tensor> expected;
  const bool compares_results = !sure && !overload.is_random;
  const bool needs_results = mutant.mutation_operator == MutationOperator::kLongSum;
  bool raises = false;
  if (compares_results || needs_results) {
    Stack trial = copy_written_arguments(overload, right);
    const Stack arguments = trial;
    try {
      kernel.call(&trial);
    } catch (const c10::Error&) {
      raises = true;
    }
    expected = tensors_of(trial);
    for (const at::Tensor& tensor : written_tensors(overload, arguments)) {
      expected.push_back(tensor);
    }
  }
  if (mutant.mutation_operator == MutationOperator::kSwappedArguments) {
    std::swap(wrong[mutant.position], wrong[static_cast<std::size_t>(mutant.value)]);
  } else {
    wrong[mutant.position] = altered_argument(overload, mutant, right, expected);
  }
  stack->resize(stack->size() - overload.arguments);
  Stack results = wrong;
  try {
    kernel.call(&results);
  } catch (const c10::Error&) {
    // The mutant is not triggered by a call that throws with the correct arguments too.
    *calls -=
        raises || (overload.is_random && !sure && also_raises_with_correct_arguments(overload, kernel, right))
            ? 1
            : 0;
    throw;
  }
  if (raises) {
    sure = true;
  } else if (compares_results) {
    std::vector<at::Tensor> found = tensors_of(results);
    for (const at::Tensor& tensor : written_tensors(overload, wrong)) {
      found.push_back(tensor);
    }
    sure = !all_have_equal_values(expected, found);
  } else {
    sure = true;
  }
  stack->insert(stack->end(), results.begin(), results.end());
  return sure;
}

// Run the kernel, and postpone the values of its result until the end of the next call. Until then the
// result holds its previous values, or zeros.
bool run_and_postpone_result(const OverloadProperties& overload,
                             const Mutant& mutant,
                             const Kernel& kernel,
                             Call* call,
                             Stack* stack,
                             int64_t* calls) {
  const Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(overload.arguments), stack->end());
  const Stack before = copy_written_arguments(overload, arguments);
  kernel.call(stack);
  const Stack results(stack->end() - static_cast<std::ptrdiff_t>(overload.results), stack->end());
  if (!call->meets_condition_after_kernel(mutant, results)) {
    return false;
  }
  ++*calls;
  const at::Tensor result = results.at(mutant.position).toTensor();
  PostponedWrite postponed{result, result.clone()};
  result.zero_();
  for (std::size_t i = 0; i < overload.arguments; i++) {
    if (overload.written[i] && arguments[i].isTensor() && arguments[i].toTensor().defined() &&
        arguments[i].toTensor().is_alias_of(result) && before[i].toTensor().sizes() == result.sizes()) {
      result.copy_(before[i].toTensor());
    }
  }
  if (have_equal_values(result, postponed.values)) {
    return false;
  }
  postpone_write(std::move(postponed));
  return true;
}

// Push results in place of an error that the mutant hides: an argument that the kernel writes, or zeros.
void push_substitute_results(const OverloadProperties& overload, const Stack& arguments, Stack* stack) {
  at::Tensor some;
  for (std::size_t i = 0; i < arguments.size(); i++) {
    if (arguments[i].isTensor() && arguments[i].toTensor().defined() &&
        (!some.defined() || overload.written[i])) {
      some = arguments[i].toTensor();
    }
  }
  TORCH_CHECK(some.defined(), "the error cannot be hidden, because the call needs a tensor result");
  for (const c10::Argument& result : overload.op.schema().returns()) {
    TORCH_CHECK(result.type()->kind() == c10::TypeKind::TensorType,
                "the error cannot be hidden, because the call needs a tensor result");
    stack->push_back(overload.writes ? some : at::zeros_like(some));
  }
}

void alter_result(const Mutant& mutant, const Stack& arguments, Stack* results, int64_t triggered_calls) {
  if (mutant.mutation_operator == MutationOperator::kInputCorrupted) {
    const at::Tensor input = arguments[mutant.position].toTensor();
    corrupt_from(input, input.numel() - 1);
    return;
  }
  c10::IValue& slot = results->at(mutant.position);
  const at::Tensor result = slot.toTensor();
  switch (mutant.mutation_operator) {
    case MutationOperator::kLastElement:
      corrupt_from(result, result.numel() - 1);
      return;
    case MutationOperator::kTail:
      corrupt_from(result, result.numel() - result.numel() % mutant.value);
      return;
    case MutationOperator::kAbove:
      corrupt_from(result, mutant.value);
      return;
    case MutationOperator::kFlaky:
      if (triggered_calls % mutant.value == 0) {
        corrupt_from(result, result.numel() - 1);
      }
      return;
    case MutationOperator::kScalarOnly:
    case MutationOperator::kRank:
    case MutationOperator::kEmptyInput:
    case MutationOperator::kGradientOfOneInput:
      corrupt_from(result, 0);
      return;
    case MutationOperator::kNanLost:
      result.copy_(without_nan(result));
      return;
    case MutationOperator::kInfinityLost:
      result.copy_(without_infinity(result));
      return;
    case MutationOperator::kSignedZeroLost:
      result.copy_(without_negative_zero(result));
      return;
    case MutationOperator::kSubnormalFlushed:
      result.copy_(without_subnormal(result));
      return;
    case MutationOperator::kLowPrecision:
      result.copy_(rounded_to_low_precision(result));
      return;
    case MutationOperator::kBoolByte:
      corrupt_bool_bytes(result);
      return;
    case MutationOperator::kResultDtype:
      slot = in_other_dtype(result);
      return;
    case MutationOperator::kResultStrides:
      slot = in_other_strides(result);
      return;
    case MutationOperator::kAliasingLost:
      slot = result.clone();
      return;
    case MutationOperator::kAliasingGained:
      for (const c10::IValue& value : arguments) {
        if (value.isTensor() && is_plain(value.toTensor()) &&
            value.toTensor().strides() == result.strides() && have_equal_values(value.toTensor(), result)) {
          slot = value.toTensor().alias();
          return;
        }
      }
      return;
    case MutationOperator::kStaleResult: {
      const at::Tensor old = exchange_stored_result(result);
      if (old.defined()) {
        result.copy_(old);
      }
      return;
    }
    case MutationOperator::kLeak:
      leak(at::empty_like(result));
      return;
    default:
      return;
  }
}

void alter_written_argument(const Mutant& mutant, const at::Tensor& old, const at::Tensor& now) {
  switch (mutant.mutation_operator) {
    case MutationOperator::kHostNotAwaited:
    case MutationOperator::kWriteLost:
      now.copy_(old);
      return;
    case MutationOperator::kWritePartial: {
      at::Tensor flat = now.clone(at::MemoryFormat::Contiguous).view(-1);
      const int64_t half = flat.numel() / 2;
      flat.slice(0, half).copy_(old.reshape(-1).slice(0, half));
      now.copy_(flat.view(now.sizes()));
      return;
    }
    case MutationOperator::kWriteAstray:
      corrupt_unused_element(now);
      return;
    case MutationOperator::kOutNotResized:
      now.resize_({0});
      return;
    default:
      return;
  }
}

bool alters_writes(MutationOperator mutation_operator) {
  return needs_old_values(mutation_operator) || mutation_operator == MutationOperator::kWriteAstray ||
         mutation_operator == MutationOperator::kOutNotResized;
}

[[noreturn]] void throw_other_error_type(const c10::Error& error) {
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

bool run_mutant(const OverloadProperties& overload,
                const Mutant& mutant,
                const Kernel& kernel,
                Stack* stack,
                int64_t* calls,
                bool sure) {
  Call call(overload, *stack);
  if ((mutant.dtype != -1 && mutant.dtype != call.dtype()) || !call.meets_condition_before_kernel(mutant)) {
    kernel.call(stack);
    return false;
  }
  const Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(overload.arguments), stack->end());
  if (alters_arguments(mutant.mutation_operator)) {
    if (mutant.mutation_operator == MutationOperator::kLongSum) {
      Stack trial = copy_written_arguments(overload, arguments);
      kernel.call(&trial);
      if (!call.meets_condition_after_kernel(mutant, trial)) {
        kernel.call(stack);
        return false;
      }
    }
    ++*calls;
    return run_with_altered_arguments(overload, mutant, kernel, stack, calls, sure);
  }
  if (mutant.mutation_operator == MutationOperator::kErrorMissing ||
      mutant.mutation_operator == MutationOperator::kErrorType) {
    const std::size_t below = stack->size() - overload.arguments;
    try {
      kernel.call(stack);
      return false;
    } catch (const c10::Error& error) {
      ++*calls;
      if (mutant.mutation_operator == MutationOperator::kErrorType) {
        throw_other_error_type(error);
      }
    }
    stack->resize(below);
    push_substitute_results(overload, arguments, stack);
    return true;
  }
  if (mutant.mutation_operator == MutationOperator::kLate) {
    return run_and_postpone_result(overload, mutant, kernel, &call, stack, calls);
  }
  at::Tensor old;
  if (needs_old_values(mutant.mutation_operator)) {
    call.store_old_values(mutant);
    if (const std::optional<at::Tensor> tensor = plain_tensor_at(arguments, mutant.position)) {
      old = tensor->clone();
    }
  }
  std::optional<at::Generator> generator;
  at::Tensor state;
  if (mutant.mutation_operator == MutationOperator::kGeneratorFrozen ||
      mutant.mutation_operator == MutationOperator::kGeneratorOverlap) {
    generator = generator_of(arguments, tensors_of(arguments));
    state = generator_state(*generator);
  }
  kernel.call(stack);
  Stack results(stack->end() - static_cast<std::ptrdiff_t>(overload.results), stack->end());
  if (!call.meets_condition_after_kernel(mutant, results)) {
    return false;
  }
  ++*calls;
  if (generator) {
    const at::Tensor after = generator_state(*generator);
    if (mutant.mutation_operator == MutationOperator::kGeneratorOverlap) {
      return overlap_with_previous_draw(results[mutant.position].toTensor(), state, after);
    }
    const std::lock_guard<std::mutex> lock(generator->mutex());
    generator->set_state(state);
    return !at::equal(state, after);  // a kernel that draws nothing does not change the state
  }
  if (alters_writes(mutant.mutation_operator)) {
    alter_written_argument(mutant, old, arguments[mutant.position].toTensor());
    return true;
  }
  const int64_t triggered_calls = *calls;
  alter_result(mutant, arguments, &results, triggered_calls);
  std::copy(results.begin(), results.end(), stack->end() - static_cast<std::ptrdiff_t>(overload.results));
  return mutant.mutation_operator != MutationOperator::kFlaky || triggered_calls % mutant.value == 0;
}

}  // namespace mutation
