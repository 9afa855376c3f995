// User-defined operators in C++, for eager mode and torch.compile.
//
//   registerUserCustomOp("my::add", "my_add_f32", output_meta, fill_params)    the operator and its GUID
//   registerKernel("my_add_f32", function)                                     what the GUID computes
//   UserCustomOpDescriptor::getUserCustomOpDescriptor("my::add").execute(inputs)
//
// On hardware, a GUID identifies a kernel that was compiled for the hardware. This device has no such
// kernels. Instead, the program registers a function on CPU tensors for each GUID, which is the only addition
// to the hardware's interface. execute() waits for the inputs, so a custom operator cannot be part of a
// captured graph.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/stack.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

// Creates `params`, a shared pointer to zeroed parameters of a type, and sets `size`. Use this macro in the
// function that is passed as fill_params.
#define HPU_PARAMS_STUB(type)             \
  size = sizeof(type);                    \
  auto params = std::make_shared<type>(); \
  std::memset(params.get(), 0, sizeof(type))

namespace habana {

// Dtype and sizes of one result.
struct PartialOutputMetaData {
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;
};
using PartialOutputMetaDataVector = std::vector<PartialOutputMetaData>;

namespace custom_op {

// Takes the inputs of a call and returns the dtype and the sizes of each result.
using OutputMetaFn = std::function<PartialOutputMetaDataVector(const at::Stack& inputs)>;
// Returns the parameters of the kernel as bytes, and their number.
using FillParamsFn = std::function<std::shared_ptr<void>(const at::Stack& inputs, std::size_t& size)>;
// Computes the results: `inputs` are on the CPU, `outputs` are CPU tensors to write, `params` may be null.
using Kernel = std::function<void(
    const at::Stack& inputs, const void* params, std::size_t size, std::vector<at::Tensor>& outputs)>;

namespace detail {

struct Description {
  std::string guid;
  OutputMetaFn meta;
  FillParamsFn params;
};

// A thread-safe map of registered values by name.
template <class Value>
class Registry {
 public:
  void add(const char* what, const std::string& name, Value value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(!name.empty(), what, " cannot be registered without a name");
    TORCH_CHECK(values_.emplace(name, std::move(value)).second, what, " ", name, " is already registered");
  }
  Value get(const char* what, const std::string& name, const char* function) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = values_.find(name);
    TORCH_CHECK(found != values_.end(), what, " ", name, " is not registered. Call ", function, " first");
    return found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Value> values_;
};

inline Registry<Description>& operators() {
  static auto* value = new Registry<Description>();
  return *value;
}

inline Registry<Kernel>& kernels() {
  static auto* value = new Registry<Kernel>();
  return *value;
}

}  // namespace detail

// Registers the function that implements the kernel of a GUID. Throws if the GUID already has a kernel.
inline void registerKernel(const std::string& guid, Kernel kernel) {
  TORCH_CHECK(kernel != nullptr, "the kernel ", guid, " has no function");
  detail::kernels().add("the kernel", guid, std::move(kernel));
}

// Registers an operator by its schema's name. Throws if the operator is already registered.
inline void registerUserCustomOp(const std::string& schema,
                                 const std::string& guid,
                                 OutputMetaFn output_meta,
                                 FillParamsFn fill_params) {
  TORCH_CHECK(
      output_meta != nullptr, "the operator ", schema, " has no function for the sizes of its results");
  detail::operators().add("the operator", schema, {guid, std::move(output_meta), std::move(fill_params)});
}

// A registered operator.
class UserCustomOpDescriptor {
 public:
  // Throws if an operator with this name does not exist.
  static UserCustomOpDescriptor getUserCustomOpDescriptor(const std::string& schema) {
    return UserCustomOpDescriptor(schema,
                                  detail::operators().get("the operator", schema, "registerUserCustomOp"));
  }

  const std::string& getSchemaName() const {
    return schema_;
  }
  const std::string& getGuid() const {
    return description_.guid;
  }

  // Runs the operator. Inputs are hpu tensors, numbers and lists; results are on hpu. Throws if the GUID has
  // no kernel, or if the kernel changed the dtype or the sizes of a result.
  std::vector<at::Tensor> execute(const at::Stack& inputs) const {
    const Kernel kernel = detail::kernels().get("the kernel", description_.guid, "registerKernel");
    const PartialOutputMetaDataVector metas = description_.meta(inputs);
    std::size_t size = 0;
    const std::shared_ptr<void> params =
        description_.params != nullptr ? description_.params(inputs, size) : nullptr;
    at::Stack host;
    host.reserve(inputs.size());
    for (const c10::IValue& value : inputs) {
      host.push_back(on_host(value));
    }
    std::vector<at::Tensor> outputs;
    for (const PartialOutputMetaData& meta : metas) {
      outputs.push_back(at::empty(meta.shape, at::TensorOptions().dtype(meta.dtype)));
    }
    kernel(host, params.get(), size, outputs);
    TORCH_CHECK(outputs.size() == metas.size(), schema_, ": the kernel changed the number of results");
    std::vector<at::Tensor> results;
    for (std::size_t i = 0; i < outputs.size(); i++) {
      TORCH_CHECK(outputs[i].sizes() == metas[i].shape && outputs[i].scalar_type() == metas[i].dtype,
                  schema_,
                  ": the kernel returned result ",
                  i,
                  " with sizes ",
                  outputs[i].sizes(),
                  ", but the operator declared ",
                  at::IntArrayRef(metas[i].shape));
      results.push_back(outputs[i].to(at::Device(at::kHPU, 0)));
    }
    return results;
  }

 private:
  UserCustomOpDescriptor(std::string schema, detail::Description description)
      : schema_(std::move(schema)), description_(std::move(description)) {
  }

  static c10::IValue on_host(const c10::IValue& value) {
    if (value.isTensor()) {
      return value.toTensor().to(at::kCPU);
    }
    if (value.isTensorList()) {
      std::vector<at::Tensor> tensors;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        tensors.push_back(tensor.to(at::kCPU));
      }
      return tensors;
    }
    return value;
  }

  std::string schema_;
  detail::Description description_;
};

}  // namespace custom_op

}  // namespace habana
