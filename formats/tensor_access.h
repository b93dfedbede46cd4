#pragma once

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/safetensors.h"

namespace elastiq {

/// Takes tensors of known type and shape out of a checkpoint and remembers which were taken, so
/// that a reader can refuse what is left.
class TensorTaker {
 public:
  TensorTaker(const Checkpoint& checkpoint, std::string subject)
      : checkpoint_(checkpoint), subject_(std::move(subject)) {}

  /// Errors  kMissing, kInconsistent (type or shape).
  Result<const TensorView*> take(const std::string& name);

  /// A copy of the values; sizeof(T) is the size of the type.
  template <class T>
  Status take_values(const std::string& name, DType type, const std::vector<std::uint64_t>& shape,
                     std::vector<T>& out) {
    ELQ_TRY(tensor, take_shaped(name, type, shape));
    out.resize(tensor->bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), tensor->bytes.data(), tensor->bytes.size());
    return ok_status();
  }

  /// Errors  kInconsistent: a tensor that nobody took.
  Status check_all_taken() const;

 private:
  Result<const TensorView*> take_shaped(const std::string& name, DType type,
                                        const std::vector<std::uint64_t>& shape);

  const Checkpoint& checkpoint_;
  std::string subject_;
  std::set<std::string> taken_;
};

template <class T>
TensorToWrite tensor_to_write(const std::string& name, DType type, std::vector<std::uint64_t> shape,
                              const std::vector<T>& values) {
  return TensorToWrite{name, type, std::move(shape), std::as_bytes(std::span(values))};
}

}  // namespace elastiq
