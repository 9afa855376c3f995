#include "dispatch/autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/List.h>
#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <unordered_map>

#include "device_key.h"
#include "kernels/operator_plan.h"

namespace hpu_reference::dispatch {

namespace {

enum class Cast { Lower, LowerFirst, Float32, Promote };

const NameList kLower = {"addmm",
                         "addbmm",
                         "batch_norm",
                         "baddbmm",
                         "bmm",
                         "conv1d",
                         "conv2d",
                         "conv3d",
                         "conv_transpose1d",
                         "conv_transpose2d",
                         "conv_transpose3d",
                         "dot",
                         "dropout",
                         "feature_dropout",
                         "group_norm",
                         "instance_norm",
                         "layer_norm",
                         "leaky_relu",
                         "linear",
                         "matmul",
                         "mean",
                         "mm",
                         "mul",
                         "mv",
                         "softmax",
                         "log_softmax",
                         "scaled_dot_product_attention"};

// Operators of which only the first argument is cast. The other arguments are statistics and affine
// parameters.
const NameList kLowerFirst = {"layer_norm", "group_norm", "instance_norm", "batch_norm"};

const NameList kFloat32 = {"acos",
                           "addcdiv",
                           "asin",
                           "atan2",
                           "bilinear",
                           "binary_cross_entropy",
                           "binary_cross_entropy_with_logits",
                           "cdist",
                           "cosh",
                           "cosine_embedding_loss",
                           "cosine_similarity",
                           "cross_entropy_loss",
                           "dist",
                           "div",
                           "divide",
                           "embedding",
                           "embedding_bag",
                           "erfinv",
                           "exp",
                           "expm1",
                           "hinge_embedding_loss",
                           "huber_loss",
                           "kl_div",
                           "l1_loss",
                           "log",
                           "log10",
                           "log1p",
                           "log2",
                           "logsumexp",
                           "margin_ranking_loss",
                           "mse_loss",
                           "multi_margin_loss",
                           "multilabel_margin_loss",
                           "nll_loss",
                           "pdist",
                           "poisson_nll_loss",
                           "pow",
                           "reciprocal",
                           "renorm",
                           "rsqrt",
                           "sinh",
                           "smooth_l1_loss",
                           "soft_margin_loss",
                           "softplus",
                           "tan",
                           "topk",
                           "triplet_margin_loss",
                           "truediv",
                           "true_divide"};

const NameList kPromote = {
    "add", "addcmul", "addcdiv", "cat", "div", "exp", "mul", "pow", "sub", "iadd", "truediv", "stack"};

std::map<std::string, NameList> g_lists;

bool is_castable(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::DEVICE_KEY &&
         tensor.is_floating_point() && tensor.scalar_type() != at::kDouble;
}

// Casts with torch's own cast, which caches the casts of parameters until the outermost autocast region ends.
at::Tensor cast_to(const at::Tensor& tensor, at::ScalarType dtype) {
  return is_castable(tensor) ? at::autocast::cached_cast(dtype, tensor, c10::DeviceType::DEVICE_KEY) : tensor;
}

// Calls `visit` on each tensor in the value, including lists, and replaces the tensor by the result.
template <class Visit>
void for_each_tensor(c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    value = visit(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> result;
    for (const at::Tensor& tensor : value.toTensorList()) {
      result.push_back(visit(tensor));
    }
    value = result;
  }
}

class AutocastKernel final : public c10::OperatorKernel {
 public:
  AutocastKernel(const c10::OperatorHandle& op, Cast cast) : plan_(op), cast_(cast) {
  }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const {
    c10::impl::ExcludeDispatchKeyGuard guard(
        c10::getAutocastRelatedKeySetFromBackend(c10::BackendComponent::DEVICE_KEY_BIT));
    auto* arguments = stack->data() + (stack->size() - plan_.arguments);
    const at::ScalarType dtype = target(arguments);
    const std::size_t count = cast_ == Cast::LowerFirst ? 1 : plan_.arguments;
    for (std::size_t i = 0; i < count; i++) {
      for_each_tensor(arguments[i], [&](const at::Tensor& tensor) { return cast_to(tensor, dtype); });
    }
    op.callBoxed(stack);
  }

 private:
  at::ScalarType target(c10::IValue* arguments) const {
    if (cast_ == Cast::Float32) {
      return at::kFloat;
    }
    const at::ScalarType lower = at::autocast::get_autocast_dtype(c10::DeviceType::DEVICE_KEY);
    if (cast_ != Cast::Promote) {
      return lower;
    }
    // The widest floating dtype among the arguments.
    at::ScalarType widest = lower;
    for (std::size_t i = 0; i < plan_.arguments; i++) {
      for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
        if (is_castable(tensor)) {
          widest = c10::promoteTypes(widest, tensor.scalar_type());
        }
        return tensor;
      });
    }
    return widest;
  }

  kernels::OperatorPlan plan_;
  Cast cast_;
};

bool contains(const NameList& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

TORCH_LIBRARY_IMPL(_, AUTOCAST_DEVICE_KEY, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

}  // namespace

void register_autocast(const std::optional<NameList>& lower, const std::optional<NameList>& fp32) {
  TORCH_CHECK(g_lists.empty(),
              "the autocast lists of the " DEVICE_NAME " device are already registered; set them once");
  g_lists = {{"lower", lower.value_or(kLower)}, {"fp32", fp32.value_or(kFloat32)}, {"promote", kPromote}};
  std::unordered_map<std::string, Cast> casts;
  for (const auto& name : g_lists["lower"]) {
    casts.emplace(name, contains(kLowerFirst, name) ? Cast::LowerFirst : Cast::Lower);
  }
  for (const auto& name : g_lists["fp32"]) {
    casts.emplace(name, Cast::Float32);
  }
  for (const auto& name : g_lists["promote"]) {
    casts.emplace(name, Cast::Promote);
  }
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* handles = new std::vector<c10::RegistrationHandleRAII>();
  for (const c10::OperatorName& operator_name : dispatcher.getAllOpNames()) {
    if (operator_name.name.rfind("aten::", 0) != 0) {
      continue;
    }
    const std::string name = operator_name.name.substr(6);
    const auto cast_entry = casts.find(name);
    const auto op = dispatcher.findSchema(operator_name);
    if (!op.has_value() || cast_entry == casts.end()) {
      continue;
    }
    const kernels::OperatorPlan plan(*op);
    const bool writes = std::find(plan.written.begin(), plan.written.end(), true) != plan.written.end();
    if (writes) {
      continue;  // out= and in-place variants keep the dtype of the written argument
    }
    handles->push_back(dispatcher.registerImpl(
        operator_name,
        c10::DispatchKey::AUTOCAST_DEVICE_KEY,
        c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<AutocastKernel>(*op, cast_entry->second)),
        std::nullopt,
        nullptr,
        "hpu reference autocast"));
  }
}

std::map<std::string, NameList> autocast_lists() {
  return g_lists;
}

}  // namespace hpu_reference::dispatch
