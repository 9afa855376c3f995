// State that mutants store from one call to the next: results, draws, numbers, leaked memory and postponed
// writes.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>

#include <string>
#include <vector>

namespace power {

// Store a result; return the result stored before for its dtype and sizes, or an undefined tensor.
at::Tensor stale(const at::Tensor& fresh);

// Retain memory until `forget` is called.
void lose(at::Tensor memory);

at::Tensor state_of(at::Generator& generator);
// If the draw directly follows a draw of the same size, make it begin with the second half of that draw.
// Return whether it does. `before` and `after` are the generator's states.
bool overlap(const at::Tensor& fresh, const at::Tensor& before, const at::Tensor& after);

// Return the argument at a position in the first call of the operator that was equal in everything else:
// dtypes and sizes of tensors, and all other arguments. Without an earlier call, this call is the first one.
c10::IValue first_number(const c10::OperatorName& name,
                         const std::vector<c10::IValue>& arguments,
                         std::size_t position);

// Values that a later call writes to a tensor.
struct Due {
  at::Tensor where;
  at::Tensor values;
};
void postpone(Due due);
// Return the postponed writes. The caller must write them.
std::vector<Due> take_postponed();
// Write the values. Skip tensors that can no longer hold them.
void write(const std::vector<Due>& dues) noexcept;

// Write the postponed values, then delete all state.
void forget();

}  // namespace power
