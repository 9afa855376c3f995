// Results of a call, learned from running it once: the host needs their metadata before the kernel has run.
//
// Meta kernels do not serve here: they need the interpreter, are slow, and are wrong about strides, aliasing
// or storage sizes of some operators.
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
  int source = -1;  // Argument, View: position among the tensor arguments; Fresh: among the fresh storages
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
  int position;  // among the kernel's allocations; -1: unknown, its bytes are copied
};

// An empty out= argument that the call resizes. The host can resize it, and hold back the rest of the call.
struct ResizedArgument {
  std::size_t argument;  // position among the tensor arguments
  c10::DimVector sizes;
  c10::DimVector strides;
};

// Metadata of all results of a call.
struct OutputMetadata {
  std::uint64_t id = 0;  // never given twice
  std::string key;       // of the arguments
  bool deferrable = true;
  const char* reason = "";  // for not being deferrable
  bool warns = false;       // it is then learned anew each time, so that each call warns
  std::vector<Result> results;
  std::vector<int> lengths;  // per return: -1 for a tensor, else the length of a tensor list
  std::vector<NewStorage> storages;
  std::vector<ResizedArgument> resized_arguments;  // filled if nothing else keeps the call from being held back
};

using OutputMetadataPtr = std::shared_ptr<const OutputMetadata>;

// The arguments of one call as the engine sees them. Its key contains all that decides the results' metadata:
// of tensors the sizes, strides, offset, dtype, bits and shared storages; of everything else the value. It
// leaves out values that neither matter to the metadata nor can be refused and that change from step to step:
// the floating-point Scalars and 0-dim CPU tensors of arithmetic, next to a tensor argument. Those are
// *lifted*: each run brings its own.
class CallArguments {
 public:
  // `arguments`: the call's, in schema order; they must outlive this object.
  CallArguments(const kernels::OperatorPlan& plan, const c10::IValue* arguments);

  // True if the engine can hold such a call back; if not, reason() gives the reason.
  bool deferrable() const {
    return reason_ == nullptr;
  }
  // The reason against holding the call back; nullptr if there is none.
  const char* reason() const {
    return reason_;
  }
  // The key; valid until the next CallArguments on this thread.
  const std::string& key() const {
    return *key_;
  }
  // True if the size of the call's result depends on the data.
  bool depends_on_data() const {
    return depends_on_data_;
  }
  struct TensorArgument {
    const at::Tensor* tensor;
    bool device;
    bool written;
    bool was_empty;                   // when this object was made
    const c10::StorageImpl* storage;  // then
  };
  // Every tensor among the arguments, those in lists included.
  const c10::SmallVector<TensorArgument, 8>& tensors() const {
    return tensors_;
  }
  // Positions of the lifted arguments.
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
  std::string* key_;  // of the thread
  const char* reason_ = nullptr;
  bool depends_on_data_;
  c10::SmallVector<TensorArgument, 8> tensors_;
  c10::SmallVector<int, 4> lifted_;
};

// True if a tensor is strided and has only its bytes and its conj and neg bits.
bool is_strided_only(const at::Tensor& tensor);

// Looks the key up; nullptr if no such call has run.
OutputMetadataPtr find_output_metadata(const std::string& key);
// Stores the metadata under the key and gives it an id.
OutputMetadataPtr add_output_metadata(const std::string& key, OutputMetadata&& output_metadata);
// Removes the entry with this id.
void remove_output_metadata(std::uint64_t id);
// Turns the table on or off; off, each call is learned anew. On at start.
void set_output_metadata_cache_enabled(bool on);
// Number of times that entries were removed: what was found before may be gone.
std::uint64_t output_metadata_removals();
// Number of entries.
std::size_t output_metadata_count();
// Removes all entries.
void clear_output_metadata();

}  // namespace hpu_reference::engine
