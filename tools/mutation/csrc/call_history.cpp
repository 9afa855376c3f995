#include "call_history.h"

#include <ATen/Functions.h>

#include <atomic>
#include <mutex>
#include <sstream>
#include <unordered_map>
#include <utility>

namespace mutation {

namespace {

// The numbers of a draw, and the generator's state after the draw.
struct Draw {
  at::Tensor numbers;
  at::Tensor state;
};

std::mutex g_mutex;
std::unordered_map<std::string, at::Tensor> g_stored_results;
std::unordered_map<std::string, Draw> g_previous_draws;
std::unordered_map<std::string, c10::IValue> g_first_arguments;
std::vector<at::Tensor> g_leaked;
std::vector<PostponedWrite> g_postponed;
// Whether any write is postponed. If this is false, a call need not lock `g_mutex`.
std::atomic<bool> g_has_postponed_writes{false};

void append_description(const at::Tensor& tensor, std::ostream& text) {
  if (!tensor.defined()) {
    text << "none";
    return;
  }
  text << static_cast<int>(tensor.scalar_type());
  for (int64_t size : tensor.sizes()) {
    text << ',' << size;
  }
}

// Append the text of a number, string or device. A generator adds no text, because it is not part of the key
// of a call.
void append_description(const c10::IValue& value, std::ostream& text) {
  if (value.isNone() || value.isBool() || value.isScalar() || value.isString() || value.isDevice()) {
    text << value;
  }
}

std::string dtype_and_sizes(const at::Tensor& tensor) {
  std::ostringstream text;
  append_description(tensor, text);
  return text.str();
}

// Return whether a tensor can still hold postponed values: the dtype and the sizes are equal, and the
// tensor's storage is large enough.
bool can_hold(const at::Tensor& where, const at::Tensor& values) {
  if (where.sizes() != values.sizes() || where.scalar_type() != values.scalar_type()) {
    return false;
  }
  int64_t last = where.storage_offset();
  for (int64_t i = 0; i < where.dim(); i++) {
    last += (where.size(i) - 1) * where.stride(i);
  }
  return (last + 1) * static_cast<int64_t>(where.itemsize()) <=
         static_cast<int64_t>(where.storage().nbytes());
}

std::string signature_without_argument(const c10::OperatorName& name,
                                       const std::vector<c10::IValue>& arguments,
                                       std::size_t position) {
  std::ostringstream text;
  text << name << ' ' << position;
  for (std::size_t i = 0; i < arguments.size(); i++) {
    text << ';';
    const c10::IValue& value = arguments[i];
    if (i == position) {
      continue;
    }
    if (value.isTensor()) {
      append_description(value.toTensor(), text);
    } else if (value.isList()) {
      for (const c10::IValue& item : value.toListRef()) {
        if (item.isTensor()) {
          append_description(item.toTensor(), text);
        } else {
          append_description(item, text);
        }
        text << ' ';
      }
    } else {
      append_description(value, text);
    }
  }
  return text.str();
}

}  // namespace

at::Tensor exchange_stored_result(const at::Tensor& fresh) {
  const std::string key = dtype_and_sizes(fresh);
  at::Tensor copy = fresh.clone();
  const std::lock_guard<std::mutex> lock(g_mutex);
  std::swap(g_stored_results[key], copy);
  return copy;
}

void leak(at::Tensor memory) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_leaked.push_back(std::move(memory));
}

at::Tensor generator_state(at::Generator& generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

bool overlap_with_previous_draw(const at::Tensor& fresh, const at::Tensor& before, const at::Tensor& after) {
  if (at::equal(before, after)) {
    return false;  // the kernel drew nothing
  }
  Draw now{fresh.clone(at::MemoryFormat::Contiguous).view(-1), after};
  const int64_t count = (now.numbers.numel() + 1) / 2;
  Draw last;
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    last = g_previous_draws[dtype_and_sizes(fresh)];
  }
  const bool follows = last.numbers.defined() && at::equal(last.state, before);
  if (follows) {
    now.numbers.slice(0, 0, count).copy_(last.numbers.slice(0, last.numbers.numel() - count));
    fresh.copy_(now.numbers.view(fresh.sizes()));
  }
  const std::lock_guard<std::mutex> lock(g_mutex);
  std::swap(g_previous_draws[dtype_and_sizes(fresh)], now);
  return follows;
}

c10::IValue first_matching_argument(const c10::OperatorName& name,
                                    const std::vector<c10::IValue>& arguments,
                                    std::size_t position) {
  const std::string key = signature_without_argument(name, arguments, position);
  const std::lock_guard<std::mutex> lock(g_mutex);
  return g_first_arguments.emplace(key, arguments.at(position)).first->second;
}

void postpone_write(PostponedWrite postponed_write) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_postponed.push_back(std::move(postponed_write));
  g_has_postponed_writes.store(true, std::memory_order_release);
}

std::vector<PostponedWrite> take_postponed_writes() {
  std::vector<PostponedWrite> taken;
  if (g_has_postponed_writes.load(std::memory_order_acquire)) {
    const std::lock_guard<std::mutex> lock(g_mutex);
    taken.swap(g_postponed);
    g_has_postponed_writes.store(false, std::memory_order_release);
  }
  return taken;
}

void perform_postponed_writes(const std::vector<PostponedWrite>& postponed_writes) noexcept {
  for (const PostponedWrite& postponed_write : postponed_writes) {
    try {
      if (can_hold(postponed_write.where, postponed_write.values)) {
        postponed_write.where.copy_(postponed_write.values);
      }
    } catch (...) {
      // The copy failed, so the postponed values are lost, as they would be on a device.
    }
  }
}

void clear_call_history() {
  const std::vector<PostponedWrite> postponed_writes = take_postponed_writes();
  perform_postponed_writes(postponed_writes);
  std::unordered_map<std::string, at::Tensor> results;
  std::unordered_map<std::string, Draw> drawn;
  std::unordered_map<std::string, c10::IValue> numbers;
  std::vector<at::Tensor> leaked;
  const std::lock_guard<std::mutex> lock(g_mutex);
  results.swap(g_stored_results);
  drawn.swap(g_previous_draws);
  numbers.swap(g_first_arguments);
  leaked.swap(g_leaked);
  // The local containers now hold the old state. They are declared before the lock, so they are destroyed
  // after its release.
}

}  // namespace mutation
