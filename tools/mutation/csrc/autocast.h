// Stands before the kernels that cast under autocast; a place is an index into the names of
// `install_autocast`.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace power {

void install_autocast(const std::string& key,
                      const std::string& device,
                      const std::vector<std::string>& names);

void observe_autocast(bool on);

// Returns the places that were called, and the faults whose condition was met, by place and kind; an empty
// kind for a call.
std::vector<std::pair<std::size_t, std::string>> take_met_of_autocast();

void activate_autocast(std::size_t place, const std::string& kind);

// Ends the active fault; returns in how many calls its condition held, and in how many it had an effect.
std::pair<int64_t, int64_t> deactivate_autocast();

}  // namespace power
