// Autocast on the device: which operators are cast to what.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hpu_reference::dispatch {

using NameList = std::vector<std::string>;

// Registers the autocast kernels of the lists. A list that is given replaces the default one; an operator
// named in several lists belongs to the first of: lower precision, float32, promote. Called once, when Python
// has read the two override files.
void register_autocast(const std::optional<NameList>& lower, const std::optional<NameList>& fp32);

// "lower", "fp32" and "promote" as registered.
std::map<std::string, NameList> autocast_lists();

}  // namespace hpu_reference::dispatch
