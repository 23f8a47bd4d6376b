// CIFAR-10's binary files: the names of the classes, then a file of images.

#include "deq/lab/data/images/cifar.h"

#include "fuzz/fuzz.h"

namespace deq::fuzz {

const size_t kSpareBytes = size_t{1} << 20;

void read(std::string_view input) {
  Parts parts(input);
  put("batches.meta.txt", parts.text());
  const auto images = static_cast<int64_t>(parts.byte() % 4);
  put("test_batch.bin", parts.rest());
  const auto set = lab::read_cifar10(folder(), lab::CifarPart::Test, images);
  promise(set.labels.max().item<int64_t>() < std::ssize(set.classes), "a label has no class");
}

}  // namespace deq::fuzz
