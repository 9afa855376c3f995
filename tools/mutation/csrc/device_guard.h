// Interposes torch's device guard. A mutant's number is its index in the list passed to `install_guard`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mutation {

// Replace torch's guard of a device permanently by a guard that can run mutants. `mutants` lists the possible
// mutants: pairs of a mutation point, such as "guard::record", and a mutation operator.
void install_guard(const std::string& device,
                   const std::vector<std::pair<std::string, std::string>>& mutants);

void observe_guard(bool on);

// Return the numbers of the mutants that were triggered since the last call of this function.
std::vector<int> take_triggered_guard_mutants();

void activate_guard(int mutant);

// Disable the mutant. Return the number of triggered calls; the mutant has altered each of them.
int64_t deactivate_guard();

}  // namespace mutation
