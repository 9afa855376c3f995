#include "runtime/gil.h"

namespace hpu_reference::runtime {

namespace {
GilFunctions g_lock;  // set while the module is imported
}

void set_gil_functions(GilFunctions lock) {
  g_lock = lock;
}

GilRelease::GilRelease()
    : released_((require_at_most(LockRank::Recorder, "releases the GIL and will take it again"),
                 g_lock.release == nullptr ? nullptr : g_lock.release())) {
}

GilRelease::~GilRelease() {
  if (released_ != nullptr) {
    g_lock.acquire(released_);
  }
}

}  // namespace hpu_reference::runtime
