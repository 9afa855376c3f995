#include "runtime/gil.h"

namespace hpu_reference::runtime {

namespace {
GilFunctions g_gil_functions;  // set while the module is imported
}

void set_gil_functions(GilFunctions functions) {
  g_gil_functions = functions;
}

GilRelease::GilRelease()
    : released_((require_at_most(LockRank::Recorder, "releases the GIL and will take it again"),
                 g_gil_functions.release == nullptr ? nullptr : g_gil_functions.release())) {
}

GilRelease::~GilRelease() {
  if (released_ != nullptr) {
    g_gil_functions.acquire(released_);
  }
}

}  // namespace hpu_reference::runtime
