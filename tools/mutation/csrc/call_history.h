// What faults keep from one call to the next: results, draws, numbers, lost memory and writes that are due.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>

#include <string>
#include <vector>

namespace power {

// Keeps a result; returns the one that was kept for its dtype and sizes before, undefined if none was.
at::Tensor stale(const at::Tensor& fresh);

// Holds memory that nothing uses until `forget`.
void lose(at::Tensor memory);

at::Tensor state_of(at::Generator& generator);
// Makes a draw that follows one of its size, with no other between, begin with the second half of that one;
// returns whether it does. `before` and `after` are the generator's states.
bool overlap(const at::Tensor& fresh, const at::Tensor& before, const at::Tensor& after);

// Returns the value of the argument at a position in the first call of an operator that was equal in
// everything else: the tensors' dtypes and sizes, and all other arguments. This call is the first one if
// there was none before.
c10::IValue first_number(const c10::OperatorName& name,
                         const std::vector<c10::IValue>& arguments,
                         std::size_t position);

// Values that belong into a tensor, and come there later.
struct Due {
  at::Tensor where;
  at::Tensor values;
};
void postpone(Due due);
// Returns what was postponed, which is then the caller's to write.
std::vector<Due> take_postponed();
// Leaves out tensors that can no longer hold their values.
void write(const std::vector<Due>& dues) noexcept;

// Forgets everything; what was postponed is written.
void forget();

}  // namespace power
