// Autocast on the device: the operators that are cast, and the dtype to which they are cast.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hpu_reference::dispatch {

using NameList = std::vector<std::string>;

// Registers the autocast kernels. A list that is passed replaces the default list. An operator in several
// lists belongs to the first of the lists lower, fp32, promote. Python calls this once, after it has read the
// files with which the user replaces the default lists.
void register_autocast(const std::optional<NameList>& lower, const std::optional<NameList>& fp32);

// Returns the registered lists "lower", "fp32" and "promote".
std::map<std::string, NameList> autocast_lists();

}  // namespace hpu_reference::dispatch
