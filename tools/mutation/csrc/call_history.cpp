#include "call_history.h"

#include <ATen/Functions.h>

#include <atomic>
#include <mutex>
#include <sstream>
#include <unordered_map>
#include <utility>

namespace power {

namespace {

// The numbers of a draw, and the generator's state after the draw.
struct Draw {
  at::Tensor numbers;
  at::Tensor state;
};

std::mutex g_mutex;
std::unordered_map<std::string, at::Tensor> g_stale;
std::unordered_map<std::string, Draw> g_drawn;
std::unordered_map<std::string, c10::IValue> g_numbers;
std::vector<at::Tensor> g_lost;
std::vector<Due> g_postponed;
// Whether any write is postponed. If this is false, a call need not lock `g_mutex`.
std::atomic<bool> g_owes{false};

void describe(const at::Tensor& tensor, std::ostream& text) {
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
void describe(const c10::IValue& value, std::ostream& text) {
  if (value.isNone() || value.isBool() || value.isScalar() || value.isString() || value.isDevice()) {
    text << value;
  }
}

std::string signature(const at::Tensor& tensor) {
  std::ostringstream text;
  describe(tensor, text);
  return text.str();
}

// Return whether a tensor can still hold postponed values: the dtype and the sizes are equal, and the
// tensor's storage is large enough.
bool holds(const at::Tensor& where, const at::Tensor& values) {
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

std::string all_but(const c10::OperatorName& name,
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
      describe(value.toTensor(), text);
    } else if (value.isList()) {
      for (const c10::IValue& item : value.toListRef()) {
        if (item.isTensor()) {
          describe(item.toTensor(), text);
        } else {
          describe(item, text);
        }
        text << ' ';
      }
    } else {
      describe(value, text);
    }
  }
  return text.str();
}

}  // namespace

at::Tensor stale(const at::Tensor& fresh) {
  const std::string key = signature(fresh);
  at::Tensor copy = fresh.clone();
  const std::lock_guard<std::mutex> lock(g_mutex);
  std::swap(g_stale[key], copy);
  return copy;
}

void lose(at::Tensor memory) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_lost.push_back(std::move(memory));
}

at::Tensor state_of(at::Generator& generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

bool overlap(const at::Tensor& fresh, const at::Tensor& before, const at::Tensor& after) {
  if (at::equal(before, after)) {
    return false;  // the kernel drew nothing
  }
  Draw now{fresh.clone(at::MemoryFormat::Contiguous).view(-1), after};
  const int64_t count = (now.numbers.numel() + 1) / 2;
  Draw last;
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    last = g_drawn[signature(fresh)];
  }
  const bool follows = last.numbers.defined() && at::equal(last.state, before);
  if (follows) {
    now.numbers.slice(0, 0, count).copy_(last.numbers.slice(0, last.numbers.numel() - count));
    fresh.copy_(now.numbers.view(fresh.sizes()));
  }
  const std::lock_guard<std::mutex> lock(g_mutex);
  std::swap(g_drawn[signature(fresh)], now);
  return follows;
}

c10::IValue first_number(const c10::OperatorName& name,
                         const std::vector<c10::IValue>& arguments,
                         std::size_t position) {
  const std::string key = all_but(name, arguments, position);
  const std::lock_guard<std::mutex> lock(g_mutex);
  return g_numbers.emplace(key, arguments.at(position)).first->second;
}

void postpone(Due due) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_postponed.push_back(std::move(due));
  g_owes.store(true, std::memory_order_release);
}

std::vector<Due> take_postponed() {
  std::vector<Due> taken;
  if (g_owes.load(std::memory_order_acquire)) {
    const std::lock_guard<std::mutex> lock(g_mutex);
    taken.swap(g_postponed);
    g_owes.store(false, std::memory_order_release);
  }
  return taken;
}

void write(const std::vector<Due>& dues) noexcept {
  for (const Due& due : dues) {
    try {
      if (holds(due.where, due.values)) {
        due.where.copy_(due.values);
      }
    } catch (...) {
      // The copy failed, so the postponed values are lost, as they would be on a device.
    }
  }
}

void forget() {
  const std::vector<Due> due = take_postponed();
  write(due);
  std::unordered_map<std::string, at::Tensor> stale;
  std::unordered_map<std::string, Draw> drawn;
  std::unordered_map<std::string, c10::IValue> numbers;
  std::vector<at::Tensor> lost;
  const std::lock_guard<std::mutex> lock(g_mutex);
  stale.swap(g_stale);
  drawn.swap(g_drawn);
  numbers.swap(g_numbers);
  lost.swap(g_lost);
  // The local containers now hold the old state. They are declared before the lock, so they are destroyed
  // after its release.
}

}  // namespace power
