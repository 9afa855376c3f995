// Autocast on the device: the operators that are cast, and to which dtype.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hpu_reference::dispatch {

using NameList = std::vector<std::string>;

// Registers the autocast kernels of the lists. A given list replaces the default one; an operator in
// several lists belongs to the first of: lower precision, float32, promote. Python calls it once, when it has
// read the two override files.
void register_autocast(const std::optional<NameList>& lower, const std::optional<NameList>& fp32);

// The lists "lower", "fp32" and "promote" as registered.
std::map<std::string, NameList> autocast_lists();

}  // namespace hpu_reference::dispatch
