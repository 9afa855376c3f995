// The output metadata cache: it maps the key of a call to the metadata of its outputs, which the engine
// records when the call first runs. The host needs the metadata before the kernel of a deferred call has run.
//
// Meta kernels cannot replace the cache: they need the interpreter, are slow, and are wrong about strides,
// aliasing or storage sizes of some operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/operator_plan.h"

namespace hpu_reference::engine {

// Metadata of one result.
struct Result {
  enum class Kind : std::uint8_t { Undefined, Argument, View, New };
  Kind kind = Kind::Undefined;
  int source = -1;  // Argument, View: index among the tensor arguments; New: index among the new storages
  at::ScalarType dtype = at::ScalarType::Undefined;
  c10::DimVector sizes;
  c10::DimVector strides;
  std::int64_t offset = 0;
  bool conj = false;
  bool neg = false;
};

// Memory that the call allocates for results.
struct NewStorage {
  std::size_t bytes;
  int position;  // index among the kernel's allocations; -1: unknown, the bytes are copied
};

// An empty out= argument that the call resizes. The host can resize it and defer the rest of the call.
struct ResizedArgument {
  std::size_t argument;  // index among the tensor arguments
  c10::DimVector sizes;
  c10::DimVector strides;
};

// Metadata of all results of a call.
struct OutputMetadata {
  std::uint64_t id = 0;  // never reused
  std::string key;       // key of the arguments
  bool deferrable = true;
  const char* reason = "";  // why the call is not deferrable
  bool warns = false;       // the call warns: it runs inline each time, so that each call warns
  std::vector<Result> results;
  std::vector<int> lengths;  // per return: -1 for a tensor, else the length of a tensor list
  std::vector<NewStorage> storages;
  std::vector<ResizedArgument> resized_arguments;  // filled if these arguments alone prevent the deferral
};

using OutputMetadataPtr = std::shared_ptr<const OutputMetadata>;

// The arguments of one call, and their key. The key contains all properties that determine the output
// metadata: sizes, strides, offset, dtype, bits and shared storages of tensors, and the values of all other
// arguments. The key omits *lifted* values. A lifted value is a floating-point Scalar or a 0-dim CPU tensor
// among the arguments of an arithmetic operator that also has a tensor argument. A lifted value does not
// affect the metadata, is never rejected by the operator, and often changes from one training step to the
// next. Each run of a call provides its own lifted values.
class CallArguments {
 public:
  // `arguments`: the arguments in schema order. They must outlive this object.
  CallArguments(const kernels::OperatorPlan& plan, const c10::IValue* arguments);

  // Returns true if the engine can defer the call. Otherwise reason() returns the reason.
  bool is_deferrable() const {
    return reason_ == nullptr;
  }
  // Returns the reason why the call cannot be deferred, or nullptr.
  const char* reason() const {
    return reason_;
  }
  // Returns the key. It is valid until the next CallArguments on this thread.
  const std::string& key() const {
    return *key_;
  }
  // Returns true if the size of the call's result depends on the data.
  bool depends_on_data() const {
    return depends_on_data_;
  }
  struct TensorArgument {
    const at::Tensor* tensor;
    bool device;
    bool written;
    bool was_empty;                   // when this object was created
    const c10::StorageImpl* storage;  // storage when this object was created
  };
  // Returns all tensors among the arguments, including those in lists.
  const c10::SmallVector<TensorArgument, 8>& tensors() const {
    return tensors_;
  }
  // Returns the indices of the lifted arguments.
  const c10::SmallVector<int, 4>& lifted() const {
    return lifted_;
  }

 private:
  void add(const c10::IValue& value, std::size_t position, bool nested);
  void add_tensor(const at::Tensor& tensor, std::size_t position, bool nested);
  template <class T>
  void put(const T& value) {
    key_->append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  template <class List>
  void put_list(char tag, const List& list) {
    put(tag);
    put(list.size());
    for (const auto& item : list) {
      put(item);
    }
  }

  const kernels::OperatorPlan& plan_;
  std::string* key_;  // a buffer of the thread
  const char* reason_ = nullptr;
  bool depends_on_data_;
  c10::SmallVector<TensorArgument, 8> tensors_;
  c10::SmallVector<int, 4> lifted_;
};

// Returns true if the tensor is strided and its values are given by its bytes and its conj and neg bits
// alone.
bool is_strided_only(const at::Tensor& tensor);

// Returns the output metadata for the key, or nullptr if no call with this key has run.
OutputMetadataPtr find_output_metadata(const std::string& key);
// Stores the metadata under the key and assigns an id.
OutputMetadataPtr add_output_metadata(const std::string& key, OutputMetadata&& output_metadata);
// Removes the entry with this id.
void remove_output_metadata(std::uint64_t id);
// Enables or disables the cache. If disabled, each call runs inline. Enabled at start.
void set_output_metadata_cache_enabled(bool on);
// Returns how many times entries were removed. If the number has changed, earlier lookups may refer to
// removed entries.
std::uint64_t output_metadata_removals();
// Returns the number of entries.
std::size_t output_metadata_count();
// Removes all entries.
void clear_output_metadata();

}  // namespace hpu_reference::engine
