#include "engine/output_metadata_cache.h"

#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "kernels/host_call.h"
#include "memory/allocator.h"

namespace hpu_reference::engine {

namespace {

// Maximum number of cache entries, enough for a large model in many shapes. A full cache is cleared.
constexpr std::size_t kMaxEntries = 1 << 16;

std::mutex g_mutex;
// The cache. Its keys are views of the key strings in the entries.
std::unordered_map<std::string_view, OutputMetadataPtr>& table() {
  static auto* value = new std::unordered_map<std::string_view, OutputMetadataPtr>();
  return *value;
}
std::atomic<std::uint64_t> g_next_id{1};
std::atomic<std::uint64_t> g_removals{0};
std::atomic<bool> g_keeps{true};

// Returns true for a number that every tensor dtype accepts.
bool is_liftable(double value) {
  return std::abs(value) <= 127.0;
}

double value_of_scalar_tensor(const at::Tensor& materialized) {
  switch (materialized.scalar_type()) {
    case at::kDouble:
      return *materialized.const_data_ptr<double>();
    case at::kFloat:
      return *materialized.const_data_ptr<float>();
    case at::kHalf:
      return *materialized.const_data_ptr<at::Half>();
    case at::kBFloat16:
      return *materialized.const_data_ptr<at::BFloat16>();
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace

bool is_strided_only(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet non_strided({c10::DispatchKey::Sparse,
                                             c10::DispatchKey::SparseCsr,
                                             c10::DispatchKey::Quantized,
                                             c10::DispatchKey::NestedTensor,
                                             c10::DispatchKey::ZeroTensor,
                                             c10::DispatchKey::Python});
  return !tensor.unsafeGetTensorImpl()->key_set().has_any(non_strided);
}

CallArguments::CallArguments(const kernels::OperatorPlan& plan, const c10::IValue* arguments)
    : plan_(plan), depends_on_data_(plan.depends_on_data(arguments)) {
  thread_local std::string key;
  key_ = &key;
  key.clear();
  put(&plan);
  const auto& context = at::globalContext();
  put(c10::get_default_dtype_as_scalartype());
  put(static_cast<char>(context.deterministicAlgorithms() | context.userEnabledMkldnn() << 1 |
                        c10::GradMode::is_enabled() << 2 | c10::WarningUtils::get_warnAlways() << 3 |
                        context.deterministicAlgorithmsWarnOnly() << 4 |
                        context.deterministicFillUninitializedMemory() << 5));
  for (std::size_t i = 0; i < plan.arguments && reason_ == nullptr; i++) {
    add(arguments[i], i, /*nested=*/false);
  }
}

void CallArguments::add(const c10::IValue& value, std::size_t position, bool nested) {
  if (value.isTensor()) {
    add_tensor(value.toTensor(), position, nested);
  } else if (value.isNone()) {
    put('n');
  } else if (value.isInt()) {
    put('i');
    put(value.toInt());
  } else if (value.isBool()) {
    put('b');
    put(value.toBool());
  } else if (value.isDouble()) {
    if (!nested && plan_.lifts_scalar[position] && is_liftable(value.toDouble())) {
      put('l');
      lifted_.push_back(static_cast<int>(position));
    } else {
      put('d');
      put(value.toDouble());
    }
  } else if (value.isIntList()) {
    put_list('I', value.toIntVector());
  } else if (value.isTensorList()) {
    put('T');
    const auto list = value.toListRef();
    put(list.size());
    for (const c10::IValue& item : list) {
      add(item, position, /*nested=*/true);
    }
  } else if (value.isDoubleList()) {
    put_list('D', value.toDoubleVector());
  } else if (value.isComplexDouble()) {
    put('c');
    put(value.toComplexDouble());
  } else if (value.isString()) {
    put('s');
    const std::string& text = value.toStringRef();
    put(text.size());
    key_->append(text);
  } else if (value.isDevice()) {
    put('v');
    put(value.toDevice().type());
  } else if (value.isGenerator()) {
    put('g');
  } else if (value.isList()) {
    put('L');
    const auto list = value.toListRef();
    put(list.size());
    for (const c10::IValue& item : list) {
      add(item, position, /*nested=*/true);
    }
  } else {
    reason_ = "the operator has an argument of a type that the engine cannot defer";
  }
}

void CallArguments::add_tensor(const at::Tensor& tensor, std::size_t position, bool nested) {
  if (!tensor.defined()) {
    put('u');
    return;
  }
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!kernels::is_device_tensor(tensor)) {
    if (!tensor.device().is_cpu() || tensor.dim() != 0 || !is_strided_only(tensor) || nested ||
        plan_.written[position]) {
      reason_ = "the operator has an argument in host memory";
      return;
    }
    tensors_.push_back({&tensor, false, false, false, nullptr});
    put('w');
    put(impl->is_wrapped_number());
    put(tensor.scalar_type());
    const at::Tensor materialized = tensor.resolve_conj().resolve_neg();
    if (plan_.lifts_tensor && c10::isFloatingType(tensor.scalar_type()) &&
        is_liftable(value_of_scalar_tensor(materialized))) {
      put('l');
      lifted_.push_back(static_cast<int>(position));
    } else {
      put('k');
      key_->append(static_cast<const char*>(materialized.const_data_ptr()), materialized.itemsize());
    }
    return;
  }
  if (!is_strided_only(tensor)) {
    reason_ = "the operator has an argument that is not a dense tensor";
    return;
  }
  const c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  const void* data = storage->data_ptr().get();
  if ((data == nullptr && impl->numel() > 0) ||
      (data != nullptr && memory::block_of(storage->data_ptr()) == nullptr)) {
    reason_ = "the operator has an argument whose memory does not come from the device allocator";
    return;
  }
  if (plan_.boolean_indices_depend && nested &&
      (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte)) {
    reason_ = "the size of its result depends on the data";
    return;
  }
  put('t');
  put(tensor.scalar_type());
  put(static_cast<char>(impl->is_conj() | impl->is_neg() << 1 | impl->is_wrapped_number() << 2 |
                        (c10::GradMode::is_enabled() && tensor.requires_grad()) << 3 |
                        storage->resizable() << 4));
  put_list('x', impl->sizes());
  for (const std::int64_t stride : impl->strides()) {
    put(stride);
  }
  put(impl->storage_offset());
  put(storage->nbytes());
  // Find an earlier argument that is the same tensor or shares its storage.
  int same = -1;
  int shared = -1;
  for (std::size_t i = 0; i < tensors_.size(); i++) {
    const at::Tensor& non_strided = *tensors_[i].tensor;
    if (tensors_[i].device &&
        non_strided.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == storage) {
      shared = static_cast<int>(i);
      if (non_strided.is_same(tensor)) {
        same = static_cast<int>(i);
        break;
      }
    }
  }
  put(same);
  put(shared);
  tensors_.push_back({&tensor, true, plan_.written[position], impl->numel() == 0, storage});
}

OutputMetadataPtr find_output_metadata(const std::string& key) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto cached = table().find(key);
  return cached == table().end() ? nullptr : cached->second;
}

OutputMetadataPtr add_output_metadata(const std::string& key, OutputMetadata&& output_metadata) {
  output_metadata.id = g_next_id++;
  output_metadata.key = key;
  auto entry = std::make_shared<const OutputMetadata>(std::move(output_metadata));
  if (entry->warns || !g_keeps) {
    return entry;
  }
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (table().size() >= kMaxEntries) {
    table().clear();
    g_removals++;
  }
  table().erase(key);
  table().emplace(entry->key, entry);
  return entry;
}

void set_output_metadata_cache_enabled(bool on) {
  g_keeps = on;
}

void remove_output_metadata(std::uint64_t id) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (auto entry = table().begin(); entry != table().end(); ++entry) {
    if (entry->second->id == id) {
      table().erase(entry);
      g_removals++;
      return;
    }
  }
}

std::uint64_t output_metadata_removals() {
  return g_removals.load(std::memory_order_acquire);
}

std::size_t output_metadata_count() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  return table().size();
}

void clear_output_metadata() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  table().clear();
  g_removals++;
}

}  // namespace hpu_reference::engine
