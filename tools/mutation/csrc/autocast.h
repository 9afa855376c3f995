// Interposes the kernels that cast under autocast. A mutation point is an index into the names passed to
// `install_autocast`.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace mutation {

void install_autocast(const std::string& key,
                      const std::string& device,
                      const std::vector<std::string>& names);

void observe_autocast(bool on);

// Return the recorded pairs (mutation point, mutation operator). A triggered mutant is recorded with its
// mutation operator. A called point is recorded with an empty mutation operator.
std::vector<std::pair<std::size_t, std::string>> take_triggered_autocast_mutants();

void activate_autocast(std::size_t point, const std::string& mutation_operator);

// Disable the mutant; return the numbers of triggered and altered calls.
std::pair<int64_t, int64_t> deactivate_autocast();

}  // namespace mutation
