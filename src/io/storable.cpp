#include "io/storable.h"

#include "deq/core/error.h"
#include "io/safetensors_header.h"

namespace deq::io {

void require_storable(const std::string& name, const torch::Tensor& tensor) {
  require(tensor.defined() && tensor.layout() == torch::kStrided, "tensor \"", name,
          "\" is undefined or sparse");
  require(type_name(tensor.scalar_type()).has_value(), "tensor \"", name, "\" has the type ",
          tensor.scalar_type(), ", which is not supported");
}

torch::Tensor as_stored(const torch::Tensor& tensor) {
  return tensor.detach().cpu().contiguous().resolve_neg();
}

std::string_view bytes_of(const torch::Tensor& stored) {
  return {static_cast<const char*>(stored.const_data_ptr()), stored.nbytes()};
}

}  // namespace deq::io
