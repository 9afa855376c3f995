// The part of {fmt} that the inline functions of Kineto's headers call. Wheels of torch 2.6 have these
// headers, and not {fmt}; setup.py puts this folder before them only there.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace fmt {

// Puts the values, in order, in place of each "{}".
template <typename... Values>
std::string format(std::string_view text, const Values&... values) {
  std::ostringstream out;
  out << std::boolalpha;
  const auto until_next = [&](const auto& value) {
    const auto placeholder = text.find("{}");
    out << text.substr(0, placeholder) << value;
    text.remove_prefix(placeholder + 2);
  };
  (until_next(values), ...);
  out << text;
  return out.str();
}

}  // namespace fmt
