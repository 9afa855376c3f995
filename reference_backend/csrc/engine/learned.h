// What a call returns, learned from running it once: the host needs the results before the kernel has run.
//
// Meta kernels are not asked: they need the interpreter, are slow, and are wrong about strides, aliasing or
// storage sizes of some operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/operator_plan.h"

namespace hpu_reference::engine {

struct Result {
  enum class Kind : std::uint8_t { Undefined, Argument, View, Fresh };
  Kind kind = Kind::Undefined;
  int source = -1;  // Argument, View: position among the tensor arguments; Fresh: among the fresh storages
  at::ScalarType dtype = at::ScalarType::Undefined;
  c10::DimVector sizes;
  c10::DimVector strides;
  std::int64_t offset = 0;
  bool conj = false;
  bool neg = false;
};

struct FreshStorage {
  std::size_t bytes;
  int position;  // which allocation of the kernel it was; -1: unknown, its bytes are copied
};

// An empty out= argument that the call gives its size. The host can do that itself, and hold back the rest.
struct Grown {
  std::size_t argument;  // position among the tensor arguments
  c10::DimVector sizes;
  c10::DimVector strides;
};

struct Learned {
  std::uint64_t id = 0;  // never given twice
  bool deferrable = true;
  const char* reason = "";  // why not
  bool warns = false;       // such a call is learned anew each time, so that each warns where it is made
  std::vector<Result> results;
  std::vector<int> lengths;  // per return: -1 for a tensor, else the length of a tensor list
  std::vector<FreshStorage> storages;
  std::vector<Grown> grown;  // where this is all that stands in the way of holding the call back
};

using LearnedPtr = std::shared_ptr<const Learned>;

// The arguments of one call as the engine looks at them. Its key holds all that decides the results'
// metadata: of tensors sizes, strides, offset, dtype, bits and which share a storage; of everything else the
// value. Left out are values that can neither matter to it nor be refused and change from step to step: the
// floating-point Scalars and 0-dim CPU tensors of arithmetic, next to a tensor argument. Those are *lifted*:
// given anew to each run.
class CallArguments {
 public:
  // `arguments`: the call's, in schema order; they must outlive this object.
  CallArguments(const kernels::OperatorPlan& plan, const c10::IValue* arguments);

  // Whether the engine can hold such a call back at all; `reason` says what stands in the way.
  bool deferrable() const {
    return reason_ == nullptr;
  }
  const char* reason() const {
    return reason_;
  }
  const std::string& key() const {
    return *key_;
  }
  struct TensorArgument {
    const at::Tensor* tensor;
    bool device;
    bool written;
    bool was_empty;                   // when these arguments were looked at
    const c10::StorageImpl* storage;  // then
  };
  const c10::SmallVector<TensorArgument, 8>& tensors() const {
    return tensors_;
  }
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
  c10::SmallVector<TensorArgument, 8> tensors_;
  c10::SmallVector<int, 4> lifted_;
};

// Whether a tensor is strided and has no more to it than its bytes and its conj and neg bits.
bool is_plain(const at::Tensor& tensor);

LearnedPtr find_learned(const std::string& key);
LearnedPtr add_learned(const std::string& key, Learned&& learned);
void forget_learned(std::uint64_t id);
std::size_t learned_count();
void clear_learned();

}  // namespace hpu_reference::engine
