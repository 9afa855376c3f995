// Example of a custom operator: the k largest elements in descending order, and their indices.
#include <torch/library.h>

#include "hpu_custom_op_pt2.h"

namespace {

struct TopkParams {
  std::int64_t count;
  bool largest;
};

habana::PartialOutputMetaDataVector output_meta(const at::Stack& inputs) {
  const at::Tensor self = inputs[0].toTensor();
  std::vector<std::int64_t> shape = self.sizes().vec();
  TORCH_CHECK(!shape.empty() && inputs[1].toInt() <= shape.back(), "k is larger than the last dimension");
  shape.back() = inputs[1].toInt();
  return {{self.scalar_type(), shape}, {at::kLong, shape}};
}

std::shared_ptr<void> fill_params(const at::Stack& inputs, std::size_t& size) {
  HPU_PARAMS_STUB(TopkParams);
  params->count = inputs[1].toInt();
  params->largest = true;
  return params;
}

void kernel(const at::Stack& inputs, const void* params, std::size_t size, std::vector<at::Tensor>& outputs) {
  TORCH_CHECK(size == sizeof(TopkParams));
  const auto* topk_params = static_cast<const TopkParams*>(params);
  at::topk_out(outputs[0], outputs[1], inputs[0].toTensor(), topk_params->count, -1, topk_params->largest);
}

const bool registered = [] {
  habana::custom_op::registerUserCustomOp("example::topk", "example_topk", output_meta, fill_params);
  habana::custom_op::registerKernel("example_topk", kernel);
  habana::custom_op::registerUserCustomOp("example::lost", "example_nothing", output_meta, nullptr);
  return true;
}();

std::tuple<at::Tensor, at::Tensor> execute(const char* name, const at::Tensor& self, std::int64_t k) {
  const auto outputs =
      habana::custom_op::UserCustomOpDescriptor::getUserCustomOpDescriptor(name).execute({self, k});
  return {outputs[0], outputs[1]};
}

std::tuple<at::Tensor, at::Tensor> topk(const at::Tensor& self, std::int64_t k) {
  return execute("example::topk", self, k);
}

std::tuple<at::Tensor, at::Tensor> lost(const at::Tensor& self, std::int64_t k) {
  return execute("example::lost", self, k);
}

std::tuple<at::Tensor, at::Tensor> topk_meta(const at::Tensor& self, c10::SymInt k) {
  c10::SymDimVector shape(self.sym_sizes());
  shape.back() = std::move(k);
  return {at::empty_symint(shape, self.options()), at::empty_symint(shape, self.options().dtype(at::kLong))};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(example, m) {
  m.def("topk(Tensor self, SymInt k) -> (Tensor, Tensor)");
  m.def("lost(Tensor self, int k) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(example, HPU, m) {
  m.impl("topk", topk);
  m.impl("lost", lost);
}

TORCH_LIBRARY_IMPL(example, Meta, m) {
  m.impl("topk", topk_meta);
}
