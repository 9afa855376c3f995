// Stands before the device's guard; a fault is an index into the list that `install_guard` is given.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace power {

// Replaces the guard of a device, for good. `faults`: place ("guard::record") and kind.
void install_guard(const std::string& device, const std::vector<std::pair<std::string, std::string>>& faults);

void observe_guard(bool on);

// Returns the faults whose conditions were met since the last call.
std::vector<int> take_met_of_guard();

void activate_guard(int fault);

// Ends the active fault; returns in how many calls its condition held, all of which it changed.
int64_t deactivate_guard();

}  // namespace power
