// User-defined operators in C++, through the older interface: descriptions of inputs and outputs.
//
//   REGISTER_CUSTOM_OP_ATTRIBUTES("my::add", "my_add_f32", inputs, outputs, params)
//   HabanaCustomOpDescriptor::getCustomOpDescriptor("my::add").execute(inputs)
//
// This is a layer over hpu_custom_op_pt2.h, whose registerKernel assigns a function on CPU tensors to the
// GUID.
#pragma once

#include "hpu_custom_op_pt2.h"

namespace habana {
namespace custom_op {

// Kinds of inputs: tensors, and numbers that only the parameters of the kernel need.
enum class input_type { TENSOR, USER_PARAMS, SCALAR, SCALAR_TYPE };

// An input: its kind, and its index among the values that execute() takes.
struct InputDesc {
  input_type type;
  unsigned index;
};

// Takes the inputs of a call and returns the sizes of one result.
using compute_output_shape_function = std::function<std::vector<std::int64_t>(const at::Stack& inputs)>;
// Returns the parameters of the kernel as bytes, and their number.
using compute_user_params_function = FillParamsFn;

// A result: index, dtype and the function that computes the sizes. Without a function, the result has the
// sizes of the first input.
struct OutputDesc {
  unsigned index;
  c10::ScalarType dtype;
  compute_output_shape_function compute_output_shape_func = nullptr;
};

// A registered operator.
class HabanaCustomOpDescriptor {
 public:
  // Throws if an operator with this name does not exist.
  static HabanaCustomOpDescriptor getCustomOpDescriptor(const std::string& schema) {
    return HabanaCustomOpDescriptor(schema);
  }

  const std::string& getSchemaName() const {
    return descriptor_.getSchemaName();
  }
  const std::string& getGuid() const {
    return descriptor_.getGuid();
  }
  const std::vector<InputDesc>& getInputs() const {
    return layout_.inputs;
  }
  const std::vector<OutputDesc>& getOutputs() const {
    return layout_.outputs;
  }

  // Runs the operator like UserCustomOpDescriptor::execute. Throws if an input that is described as a tensor
  // is missing or is not a tensor.
  std::vector<at::Tensor> execute(const at::Stack& inputs) const {
    for (const InputDesc& input : layout_.inputs) {
      TORCH_CHECK(input.index < inputs.size(),
                  getSchemaName(),
                  " describes an input ",
                  input.index,
                  ", but the number of inputs is ",
                  inputs.size());
      TORCH_CHECK(input.type != input_type::TENSOR || inputs[input.index].isTensor(),
                  getSchemaName(),
                  ": input ",
                  input.index,
                  " is described as a tensor, but is a ",
                  inputs[input.index].tagKind());
    }
    return descriptor_.execute(inputs);
  }

  // Registers an operator; REGISTER_CUSTOM_OP_ATTRIBUTES calls it.
  static void add(const std::string& schema,
                  const std::string& guid,
                  std::vector<InputDesc> inputs,
                  std::vector<OutputDesc> outputs,
                  FillParamsFn params) {
    for (std::size_t i = 0; i < outputs.size(); i++) {
      TORCH_CHECK(outputs[i].index == i, schema, ": describe the outputs in order, starting at index 0");
    }
    registerUserCustomOp(
        schema,
        guid,
        [outputs](const at::Stack& values) {
          PartialOutputMetaDataVector metas;
          for (const OutputDesc& output : outputs) {
            metas.push_back({output.dtype,
                             output.compute_output_shape_func ? output.compute_output_shape_func(values)
                                                              : values.at(0).toTensor().sizes().vec()});
          }
          return metas;
        },
        std::move(params));
    layouts().add("the operator", schema, {std::move(inputs), std::move(outputs)});
  }

 private:
  struct Layout {
    std::vector<InputDesc> inputs;
    std::vector<OutputDesc> outputs;
  };

  static detail::Registry<Layout>& layouts() {
    static auto* value = new detail::Registry<Layout>();
    return *value;
  }

  explicit HabanaCustomOpDescriptor(const std::string& schema)
      : descriptor_(UserCustomOpDescriptor::getUserCustomOpDescriptor(schema)),
        layout_(layouts().get("the operator", schema, "REGISTER_CUSTOM_OP_ATTRIBUTES")) {
  }

  UserCustomOpDescriptor descriptor_;
  Layout layout_;
};

}  // namespace custom_op
}  // namespace habana

// Registers an operator: name of its schema, GUID of its kernel, vectors of InputDesc and OutputDesc, and a
// function for its parameters (or nullptr).
#define REGISTER_CUSTOM_OP_ATTRIBUTES(schema, guid, inputs, outputs, params) \
  ::habana::custom_op::HabanaCustomOpDescriptor::add(schema, guid, inputs, outputs, params)
