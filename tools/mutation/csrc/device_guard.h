// Interposes the guard of a device. A mutant is an index into the list passed to `install_guard`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace power {

// Replace the guard of a device permanently. `faults` are pairs of point ("guard::record") and operator.
void install_guard(const std::string& device, const std::vector<std::pair<std::string, std::string>>& faults);

void observe_guard(bool on);

// Return the mutants that were triggered since the last call.
std::vector<int> take_met_of_guard();

void activate_guard(int fault);

// Disable the mutant; return the number of triggered calls, all of which it altered.
int64_t deactivate_guard();

}  // namespace power
