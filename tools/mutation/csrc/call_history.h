// State that mutants store from one call to the next: results, draws, numbers, leaked memory and postponed
// writes.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>

#include <string>
#include <vector>

namespace mutation {

// Store a result in place of the stored result with the same dtype and sizes. Return the replaced result, or
// an undefined tensor if no such result was stored.
at::Tensor exchange_stored_result(const at::Tensor& fresh);

// Retain memory until `clear_call_history` is called, as a memory leak does.
void leak(at::Tensor memory);

at::Tensor generator_state(at::Generator& generator);
// Replace the first half of a draw by the second half of the previous draw, if the previous draw had the same
// size and no other draw happened in between. Return whether the draw was changed. `before` and `after` are
// the generator's states.
bool overlap_with_previous_draw(const at::Tensor& fresh, const at::Tensor& before, const at::Tensor& after);

// Return the argument at `position` that the first matching call of the operator passed. A call matches if
// its other arguments are equal: tensors in dtype and sizes, all others in value. If no earlier call matches,
// return the argument of this call.
c10::IValue first_matching_argument(const c10::OperatorName& name,
                                    const std::vector<c10::IValue>& arguments,
                                    std::size_t position);

// A postponed write: values that a later call writes to a tensor.
struct PostponedWrite {
  at::Tensor where;
  at::Tensor values;
};
void postpone_write(PostponedWrite postponed_write);
// Remove and return the postponed writes. The caller must perform them with `write`.
std::vector<PostponedWrite> take_postponed_writes();
// Write the postponed values to their tensors. Skip tensors that can no longer hold the values.
void perform_postponed_writes(const std::vector<PostponedWrite>& postponed_writes) noexcept;

// Write the postponed values, then delete all state.
void clear_call_history();

}  // namespace mutation
