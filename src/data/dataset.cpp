#include "deq/data/dataset.h"

#include <string>

namespace deq {

std::string Dataset::describe(int64_t index) const {
  return "sample " + std::to_string(index);
}

}  // namespace deq
