#include "distributed/checks.h"

#include <ATen/ops/from_blob.h>

#include "device_key.h"
#include "kernels/host_call.h"
#include "memory/allocator.h"

namespace hpu_reference::distributed {

namespace {

bool is_transferable(at::ScalarType dtype) {
  switch (dtype) {
    case at::kByte:
    case at::kChar:
    case at::kInt:
    case at::kLong:
    case at::kHalf:
    case at::kBFloat16:
    case at::kFloat:
    case at::kDouble:
    case at::kBool:
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2:
      return true;
    default:
      return false;
  }
}

bool is_eight_bit_float(at::ScalarType dtype) {
  return dtype == at::kFloat8_e4m3fn || dtype == at::kFloat8_e5m2;
}

}  // namespace

void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(kernels::is_device_tensor(tensor) && tensor.layout() == at::kStrided &&
                        !tensor.is_quantized() && !tensor.is_nested(),
                    "Tensors must be on " DEVICE_NAME " and dense, but got one on ",
                    tensor.device(),
                    " with layout ",
                    tensor.layout());
  TORCH_CHECK_VALUE(tensor.is_contiguous() && !tensor.is_neg(), "Tensors must be contiguous");
  TORCH_CHECK_TYPE(is_transferable(tensor.scalar_type()),
                   "Input tensor data type is not supported for HCCL process group: ",
                   tensor.scalar_type());
}

void check_tensors(const Tensors& tensors) {
  TORCH_CHECK_VALUE(!tensors.empty(), "Tensor list must be non-empty");
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor);
    TORCH_CHECK_TYPE(tensor.scalar_type() == tensors.front().scalar_type(),
                     "Tensors must have identical type, but got ",
                     tensor.scalar_type(),
                     " and ",
                     tensors.front().scalar_type());
  }
}

const at::Tensor& check_single(const Tensors& tensors) {
  TORCH_CHECK_VALUE(!tensors.empty(), "Tensor list must be non-empty");
  TORCH_CHECK_VALUE(tensors.size() == 1,
                    "Tensor list must hold one tensor, since a process has one device, but it holds ",
                    tensors.size());
  check_tensor(tensors.front());
  return tensors.front();
}

void check_list(const std::vector<Tensors>& lists, std::size_t count, const at::Tensor& like) {
  TORCH_CHECK_VALUE(
      lists.size() == 1, "Tensor list must be non-empty and hold one list, but holds ", lists.size());
  TORCH_CHECK_VALUE(lists.front().size() == count,
                    "Tensor list must hold one tensor for each of the ",
                    count,
                    " ranks, but it holds ",
                    lists.front().size());
  for (const at::Tensor& tensor : lists.front()) {
    check_tensor(tensor);
    TORCH_CHECK_TYPE(tensor.scalar_type() == like.scalar_type(),
                     "Tensors must have identical type, but got ",
                     tensor.scalar_type(),
                     " and ",
                     like.scalar_type());
    TORCH_CHECK_VALUE(tensor.numel() == like.numel(),
                      "Tensors must have identical size, but got ",
                      tensor.sizes(),
                      " and ",
                      like.sizes());
  }
}

void check_root(std::int64_t root, int size) {
  TORCH_CHECK_VALUE(
      root >= 0 && root < size, "root rank ", root, " is not in the group: use 0 to ", size - 1);
}

void check_sizes(const at::Tensor& large, const at::Tensor& small, int times, const char* rule) {
  TORCH_CHECK_TYPE(large.scalar_type() == small.scalar_type(),
                   "output tensor must have the same type as input tensor, but they are ",
                   large.scalar_type(),
                   " and ",
                   small.scalar_type());
  TORCH_CHECK_VALUE(large.numel() == small.numel() * times,
                    rule,
                    ", but they have ",
                    large.numel(),
                    " and ",
                    small.numel(),
                    " elements on ",
                    times,
                    " ranks");
}

void check_splits(const at::Tensor& tensor,
                  const std::vector<std::int64_t>& splits,
                  int size,
                  const char* of) {
  if (splits.empty()) {
    TORCH_CHECK_VALUE(tensor.dim() > 0 && tensor.size(0) % size == 0,
                      "Tensor's dim 0 does not divide equally across group size: the ",
                      of,
                      " tensor is ",
                      tensor.sizes(),
                      " on ",
                      size,
                      " ranks");
    return;
  }
  TORCH_CHECK_VALUE(static_cast<int>(splits.size()) == size,
                    "Number of tensor splits not equal to group size: the ",
                    of,
                    " tensor has ",
                    splits.size(),
                    " on ",
                    size,
                    " ranks");
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    TORCH_CHECK_VALUE(split >= 0, "splits must not be negative, but one of the ", of, " tensor is ", split);
    sum += split;
  }
  TORCH_CHECK_VALUE(tensor.dim() > 0 && sum == tensor.size(0),
                    "Split sizes doesn't match total dim 0 size: the splits of the ",
                    of,
                    " tensor add up to ",
                    sum,
                    " and the tensor has sizes ",
                    tensor.sizes());
}

at::Tensor host_alias_of(const at::Tensor& tensor) {
  const at::ScalarType dtype = is_eight_bit_float(tensor.scalar_type()) ? at::kByte : tensor.scalar_type();
  const auto options = at::TensorOptions(at::kCPU).dtype(dtype);
  if (tensor.numel() == 0) {
    return at::from_blob(nullptr, tensor.sizes(), options);
  }
  auto* start = static_cast<char*>(memory::arena().to_host(tensor.storage().data_ptr().get()));
  const auto offset = static_cast<std::size_t>(tensor.storage_offset()) * tensor.element_size();
  TORCH_CHECK_VALUE(offset + tensor.nbytes() <= tensor.storage().nbytes(),
                    "a tensor of ",
                    tensor.nbytes(),
                    " bytes is larger than its storage of ",
                    tensor.storage().nbytes(),
                    ": it was resized and has no memory to transfer");
  return at::from_blob(start + offset, tensor.sizes(), options);
}

Tensors flattened(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    result.push_back(tensor.view({-1}));
  }
  return result;
}

Tensors host_aliases_of(const Tensors& tensors) {
  Tensors hosts;
  hosts.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    hosts.push_back(host_alias_of(tensor));
  }
  return hosts;
}

at::Tensor Reduction::view(const at::Tensor& host) const {
  return as_bytes ? host.view(at::kByte) : host;
}

Tensors Reduction::view(const Tensors& hosts) const {
  Tensors viewed;
  viewed.reserve(hosts.size());
  for (const at::Tensor& host : hosts) {
    viewed.push_back(view(host));
  }
  return viewed;
}

Reduction reduction_of(const c10d::ReduceOp& operation, at::ScalarType dtype) {
  using Type = c10d::ReduceOp::RedOpType;
  const Type type = operation;
  const bool is_supported =
      type == Type::SUM || type == Type::PRODUCT || type == Type::MIN || type == Type::MAX;
  TORCH_CHECK_VALUE(
      is_supported,
      "Unsupported ReduceOp for HCCL process group: use SUM, PRODUCT, MIN or MAX (an average is the "
      "sum divided by the number of ranks)");
  TORCH_CHECK_TYPE(!is_eight_bit_float(dtype),
                   "Input tensor data type is not supported for HCCL process group: ",
                   dtype,
                   " is transferred as bytes and cannot be reduced");
  if (dtype != at::kBool) {
    return {type, false};
  }
  const bool any = type == Type::SUM || type == Type::MAX;
  return {any ? Type::MAX : Type::MIN, true};
}

}  // namespace hpu_reference::distributed
