#include "graph/prepared_call.h"

#include <atomic>
#include <cstring>
#include <string>

#include "kernels/trace_labels.h"
#include "runtime/trace.h"

namespace hpu_reference::graph {

namespace {

std::atomic<std::int64_t> g_runs{0};

// Returns the only result of the call, over its memory. Returns an undefined tensor if the call does not have
// exactly one result or if the result is a view.
at::Tensor result_of(const engine::Call& call) {
  const engine::OutputMetadata& output_metadata = *call.output_metadata;
  if (output_metadata.results.size() != 1 || output_metadata.lengths.size() != 1 ||
      output_metadata.lengths[0] >= 0) {
    return {};
  }
  const engine::Result& result = output_metadata.results[0];
  if (result.kind == engine::Result::Kind::Argument && result.source == 0 && call.plan->written[0] &&
      call.arguments[0].isTensor()) {
    return call.arguments[0].toTensor();
  }
  if (result.kind != engine::Result::Kind::New || result.conj || result.neg) {
    return {};
  }
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(call.new_storages[static_cast<std::size_t>(result.source)]),
      c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(result.dtype));
  impl->set_sizes_and_strides(result.sizes, result.strides, result.offset);
  return at::Tensor(std::move(impl));
}

std::string bytes_of(const at::Tensor& dense) {
  return {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()};
}

void set_bytes_of(const at::Tensor& dense, const std::string& bytes) {
  std::memcpy(dense.mutable_data_ptr(), bytes.data(), bytes.size());
}

}  // namespace

bool PreparedCall::set_lifted(const engine::Call& call, const c10::IValue* lifted) const {
  if (lifted == nullptr) {
    return true;
  }
  for (std::size_t i = 0; i < call.lifted.size(); i++) {
    if (!kernel_->set(static_cast<std::size_t>(call.lifted[i]), lifted[i])) {
      return false;
    }
  }
  return true;
}

// Runs the operator, then the prepared kernel on the same memory. Even if the prepared kernel fails, the
// operator has run.
void PreparedCall::try_to_prepare(const Graph& graph,
                                  const engine::Call& call,
                                  std::uint64_t seed,
                                  const c10::IValue* lifted) {
  const at::Tensor result = result_of(call);
  std::string before;
  try {
    std::vector<bool> constant;
    for (const c10::IValue& argument : call.arguments) {
      constant.push_back(!argument.isTensor() || graph.buffer_of(argument.toTensor()) < 0);
    }
    if (result.defined()) {
      kernel_ = kernels::prepare_kernel(*call.plan, call.arguments, constant, result);
    }
    if (kernel_ != nullptr) {
      before = call.plan->written[0] ? bytes_of(result) : std::string(result.nbytes(), '\x5a');
    }
  } catch (const std::exception&) {
    kernel_.reset();
  }
  call.run(seed, lifted);
  if (kernel_ == nullptr) {
    return;
  }
  const std::string expected = bytes_of(result);
  bool same = false;
  try {
    set_bytes_of(result, before);  // so that a kernel that writes nothing fails the comparison
    if (set_lifted(call, lifted)) {
      kernel_->run();
      same = kernel_->is_intact() && bytes_of(result) == expected;
    }
  } catch (const std::exception&) {
    same = false;
  }
  if (same) {
    state_ = State::Prepared;
  } else {
    set_bytes_of(result, expected);
    kernel_.reset();
  }
}

void PreparedCall::run(const Graph& graph,
                       const engine::Call& call,
                       std::uint64_t seed,
                       const c10::IValue* lifted) {
  switch (state_) {
    case State::Prepared:
      if (set_lifted(call, lifted)) {
        runtime::TraceSpan span(runtime::TraceKind::Kernel, call.plan->name);
        if (span.is_active()) {
          span.add_bytes(kernels::bytes_of(call.arguments.data(), call.arguments.size()));
        }
        kernel_->run();
        call.plan->executed.fetch_add(1, std::memory_order_relaxed);
        g_runs.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      kernel_.reset();
      state_ = State::NotPreparable;
      break;
    case State::New:
      state_ = kernels::can_prepare(*call.plan) ? State::RanOnce : State::NotPreparable;
      break;
    case State::RanOnce:
      state_ = State::NotPreparable;  // stays so if try_to_prepare() fails or throws
      try_to_prepare(graph, call, seed, lifted);
      return;
    case State::NotPreparable:
      break;
  }
  call.run(seed, lifted);
}

std::int64_t prepared_runs() {
  return g_runs.load(std::memory_order_relaxed);
}

}  // namespace hpu_reference::graph
