#include "runtime/error_context.h"

#include "torch_release.h"

#include <c10/util/Exception.h>

#include <stdexcept>
#include <typeinfo>
#include <utility>

namespace hpu_reference::runtime {

namespace {

// Returns a copy of the error with a context added, or null if the error is not exactly of this class.
template <class Kind>
std::exception_ptr with_context(const c10::Error& error, const std::string& context) {
  if (typeid(error) != typeid(Kind)) {
    return nullptr;
  }
  Kind copy(static_cast<const Kind&>(error));
  copy.add_context(context);
  return std::make_exception_ptr(std::move(copy));
}

template <class... Kinds>
std::exception_ptr with_context_of(const c10::Error& error, const std::string& context) {
  std::exception_ptr copy;
  static_cast<void>(((copy = with_context<Kinds>(error, context)) || ...));
  return copy;
}

}  // namespace

std::exception_ptr add_origin_to_error(std::exception_ptr original, const std::string& name, int queue) {
  const std::string context = "(found when " + name + " ran, queued on stream " + std::to_string(queue) + ")";
  try {
    std::rethrow_exception(original);
  } catch (const c10::Error& error) {
    const std::exception_ptr copy = with_context_of<c10::Error,
                                                    c10::IndexError,
                                                    c10::ValueError,
                                                    c10::TypeError,
                                                    c10::NotImplementedError,
                                                    c10::LinAlgError,
                                                    SyntaxError,
                                                    c10::EnforceFiniteError,
                                                    c10::OutOfMemoryError,
                                                    c10::DistError,
                                                    c10::DistBackendError,
                                                    c10::DistStoreError,
                                                    c10::DistNetworkError>(error, context);
    return copy != nullptr ? copy : original;
  } catch (const std::exception& error) {
    return std::make_exception_ptr(std::runtime_error(error.what() + (" " + context)));
  } catch (...) {
    return std::make_exception_ptr(std::runtime_error("unknown error " + context));
  }
}

}  // namespace hpu_reference::runtime
