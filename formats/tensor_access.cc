#include "formats/tensor_access.h"

namespace elastiq {
namespace {

std::string describe(DType type, const std::vector<std::uint64_t>& shape) {
  std::string text(dtype_name(type));
  text += " [";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace

Result<const TensorView*> TensorTaker::take(const std::string& name) {
  const TensorView* tensor = checkpoint_.find(name);
  if (tensor == nullptr) {
    return Error{ErrorCode::kMissing, subject_, "tensor " + name + " is not there", 0};
  }
  taken_.insert(name);
  return tensor;
}

Result<const TensorView*> TensorTaker::take_shaped(const std::string& name, DType type,
                                                   const std::vector<std::uint64_t>& shape) {
  ELQ_TRY(tensor, take(name));
  if (tensor->dtype == type && tensor->shape == shape) return tensor;
  return Error{ErrorCode::kInconsistent, subject_,
               "tensor " + name + " is " + describe(tensor->dtype, tensor->shape) + ", expected " +
                   describe(type, shape),
               0};
}

Status TensorTaker::check_all_taken() const {
  for (const TensorView& tensor : checkpoint_.tensors()) {
    if (taken_.contains(tensor.name)) continue;
    return Error{ErrorCode::kInconsistent, subject_,
                 "tensor " + tensor.name + " belongs to nothing that is described", 0};
  }
  return ok_status();
}

}  // namespace elastiq
