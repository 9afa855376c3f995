// Example of a custom operator that uses the older interface: a + scale * b.
#include <torch/library.h>

#include "hpu_custom_op.h"

namespace {

using habana::custom_op::HabanaCustomOpDescriptor;
using habana::custom_op::input_type;
using habana::custom_op::InputDesc;
using habana::custom_op::OutputDesc;

struct ScaleParams {
  double scale;
};

void kernel(const at::Stack& inputs, const void* params, std::size_t, std::vector<at::Tensor>& outputs) {
  const auto* scale_params = static_cast<const ScaleParams*>(params);
  at::add_out(outputs[0], inputs[0].toTensor(), inputs[1].toTensor(), scale_params->scale);
}

const bool registered = [] {
  const std::vector<InputDesc> inputs{
      {input_type::TENSOR, 0}, {input_type::TENSOR, 1}, {input_type::USER_PARAMS, 2}};
  const std::vector<OutputDesc> outputs{{0, c10::ScalarType::Float, [](const at::Stack& values) {
                                           return at::infer_size(values[0].toTensor().sizes(),
                                                                 values[1].toTensor().sizes());
                                         }}};
  REGISTER_CUSTOM_OP_ATTRIBUTES("legacy::scaled_add",
                                "scaled_add_f32",
                                inputs,
                                outputs,
                                [](const at::Stack& values, std::size_t& size) {
                                  HPU_PARAMS_STUB(ScaleParams);
                                  params->scale = values[2].toDouble();
                                  return std::static_pointer_cast<void>(params);
                                });
  habana::custom_op::registerKernel("scaled_add_f32", kernel);
  return true;
}();

at::Tensor scaled_add(const at::Tensor& a, const at::Tensor& b, double scale) {
  return HabanaCustomOpDescriptor::getCustomOpDescriptor("legacy::scaled_add").execute({a, b, scale})[0];
}

at::Tensor few(const at::Tensor& a) {
  return HabanaCustomOpDescriptor::getCustomOpDescriptor("legacy::scaled_add").execute({a})[0];
}

at::Tensor unknown(const at::Tensor& a) {
  return HabanaCustomOpDescriptor::getCustomOpDescriptor("legacy::unknown").execute({a})[0];
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(legacy, m) {
  m.def("scaled_add(Tensor a, Tensor b, float scale) -> Tensor");
  m.def("few(Tensor a) -> Tensor");
  m.def("unknown(Tensor a) -> Tensor");
}

TORCH_LIBRARY_IMPL(legacy, HPU, m) {
  m.impl("scaled_add", scaled_add);
  m.impl("few", few);
  m.impl("unknown", unknown);
}
