// The part of {fmt} that the inline functions of Kineto's headers call. Wheels of torch 2.6 contain Kineto's
// headers but not {fmt}. Only for such wheels, setup.py puts this folder on the include path.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace fmt {

// Replaces each "{}" by the next value.
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
