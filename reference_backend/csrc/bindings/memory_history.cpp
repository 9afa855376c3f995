// The history of the device's memory, in the format of torch's memory viewer.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "bindings/tracebacks.h"
#include "memory/history.h"

namespace py = pybind11;

namespace hpu_reference::bindings {

namespace {

const char* name_of(memory::HistoryEvent::Action action) {
  switch (action) {
    case memory::HistoryEvent::Action::Allocate:
      return "alloc";
    case memory::HistoryEvent::Action::Free:
      return "free";
    case memory::HistoryEvent::Action::OutOfMemory:
      return "oom";
    case memory::HistoryEvent::Action::Snapshot:
      return "snapshot";
  }
  return "";
}

// The frames of many stacks. Events with the same stack share one Python object.
class Frames {
 public:
  void add(const memory::Stack& stack) {
    if (stack != nullptr) {
      stacks_.push_back(static_cast<torch::CapturedTraceback*>(stack.get()));
    }
  }
  void symbolize() {
    frames_ = torch::py_symbolize(stacks_);
  }
  // Returns the frames of the stack. The stacks must be passed in the order in which they were passed to
  // add().
  py::object next(const memory::Stack& stack) {
    return stack == nullptr ? py::list() : frames_[next_++];
  }

 private:
  std::vector<torch::CapturedTraceback*> stacks_;
  std::vector<py::object> frames_;
  std::size_t next_ = 0;
};

// Returns {"blocks": [(address, bytes, stream, state, frames)], "events": [(action, address, bytes, stream,
// microseconds, available, metadata, frames)], "dropped": int}.
py::dict snapshot() {
  torch::freeDeadCapturedTracebackFrames();
  const memory::Snapshot history_snapshot = memory::take_snapshot();
  Frames frames;
  for (const memory::RecordedBlock& recorded : history_snapshot.blocks) {
    frames.add(recorded.stack);
  }
  for (const memory::HistoryEvent& event : history_snapshot.events) {
    frames.add(event.stack);
  }
  frames.symbolize();
  py::list blocks;
  for (const auto& [block, stack] : history_snapshot.blocks) {
    const char* state = block.in_use    ? "active_allocated"
                        : block.pending ? "active_pending_free"
                                        : "inactive";
    blocks.append(py::make_tuple(block.address, block.bytes, block.stream, state, frames.next(stack)));
  }
  py::list events;
  for (const memory::HistoryEvent& event : history_snapshot.events) {
    events.append(py::make_tuple(name_of(event.action),
                                 event.address,
                                 event.bytes,
                                 event.stream,
                                 event.microseconds,
                                 event.available,
                                 event.metadata,
                                 frames.next(event.stack)));
  }
  py::dict result;
  result["blocks"] = blocks;
  result["events"] = events;
  result["dropped"] = history_snapshot.dropped;
  return result;
}

// The observer is a Python object: it is called and destroyed with the GIL held.
void set_observer(const py::object& function) {
  if (function.is_none()) {
    memory::set_out_of_memory_observer({});
    return;
  }
  std::shared_ptr<PyObject> callback(function.inc_ref().ptr(), [](PyObject* object) {
    const py::gil_scoped_acquire locked;
    Py_DECREF(object);
  });
  memory::set_out_of_memory_observer([callback](std::int64_t bytes, std::int64_t in_use, std::int64_t limit) {
    const py::gil_scoped_acquire locked;
    try {
      py::reinterpret_borrow<py::object>(callback.get())(bytes, in_use, limit);
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("the out-of-memory observer");
    }
  });
}

}  // namespace

void bind_memory_history(py::module& m) {
  m.def(
      "set_memory_history",
      [](bool blocks,
         bool events,
         bool allocation_frames,
         bool free_frames,
         bool native_frames,
         std::optional<std::size_t> limit,
         bool clear) {
        memory::set_history(
            {blocks, events, allocation_frames, free_frames, native_frames, limit.value_or(SIZE_MAX)}, clear);
      },
      py::kw_only(),
      py::arg("blocks"),
      py::arg("events"),
      py::arg("allocation_frames"),
      py::arg("free_frames"),
      py::arg("native_frames"),
      py::arg("limit"),
      py::arg("clear"));
  m.def("set_memory_metadata", &memory::set_metadata);
  m.def("memory_metadata", &memory::metadata);
  m.def("change_memory_profiler_count", &memory::change_profiler_count);
  m.def("has_memory_history", &memory::has_history);
  m.def("memory_snapshot", &snapshot);
  m.def("set_out_of_memory_observer", &set_observer);
}

}  // namespace hpu_reference::bindings
