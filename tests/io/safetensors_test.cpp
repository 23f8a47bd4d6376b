#include "deq/lab/io/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "io/file_size_limit.h"
#include "io/temporary_folder.h"

namespace deq::lab {
namespace {

using test::FileSizeLimit;
using test::message_of;
using test::TemporaryFolder;

TensorFile sample_of_every_type() {
  TensorFile file;
  for (const auto type :
       {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
        torch::kInt32, torch::kInt16, torch::kInt8, torch::kUInt8, torch::kBool}) {
    file.tensors[std::string("tensor.") + c10::toString(type)] =
        torch::arange(6, torch::kFloat32).reshape({2, 3}).to(type);
  }
  file.tensors["scalar"] = torch::scalar_tensor(2.5);
  file.tensors["empty"] = torch::zeros({3, 0, 2});
  file.metadata = {{"format", "deq"}, {"config", "a = \"b\"\n"}};
  return file;
}

TEST(Safetensors, RoundTripsEveryType) {
  const TemporaryFolder folder;
  const TensorFile written = sample_of_every_type();
  write_safetensors(folder / "t", written);
  const TensorFile read = read_safetensors(folder / "t");
  EXPECT_EQ(read.metadata, written.metadata);
  ASSERT_EQ(read.tensors.size(), written.tensors.size());
  for (const auto& [name, tensor] : written.tensors) {
    const torch::Tensor& other = read.tensors.at(name);
    EXPECT_EQ(other.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(other.sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(at::equal(other, tensor)) << name;
  }
}

TEST(Safetensors, HasTheDocumentedBytes) {
  const TemporaryFolder folder;
  write_safetensors(folder / "t", {.tensors = {{"a", torch::ones({2}, torch::kUInt8)},
                                               {"b", torch::ones({1}, torch::kFloat32)}},
                                   .metadata = {}});
  const std::string header = R"({"a":{"data_offsets":[4,6],"dtype":"U8","shape":[2]},)"
                             R"("b":{"data_offsets":[0,4],"dtype":"F32","shape":[1]}})";
  const size_t padded = (header.size() + 7) / 8 * 8;
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(padded);
  bytes += header + std::string(padded - header.size(), ' ');
  bytes += std::string("\x00\x00\x80\x3f\x01\x01", 6);
  EXPECT_EQ(read_file(folder / "t"), bytes);
}

TEST(Safetensors, WritesViewsAsTheirValues) {
  const TemporaryFolder folder;
  const torch::Tensor base = torch::arange(6, torch::kFloat32).reshape({2, 3});
  write_safetensors(folder / "t", {.tensors = {{"transposed", base.t()},
                                               {"column", base.select(1, 1)},
                                               {"expanded", base.select(0, 0).expand({4, 3})},
                                               {"leaf", base.clone().requires_grad_()}},
                                   .metadata = {}});
  const auto read = read_safetensors(folder / "t").tensors;
  EXPECT_TRUE(at::equal(read.at("transposed"), base.t()));
  EXPECT_TRUE(at::equal(read.at("column"), base.select(1, 1)));
  EXPECT_TRUE(at::equal(read.at("expanded"), base.select(0, 0).expand({4, 3})));
  EXPECT_TRUE(at::equal(read.at("leaf"), base));
}

TEST(Safetensors, RoundTripsNothing) {
  const TemporaryFolder folder;
  write_safetensors(folder / "t", {});
  EXPECT_TRUE(read_safetensors(folder / "t").tensors.empty());
}

TEST(Safetensors, ReadsAFileOfAnotherWriter) {
  const auto file =
      read_safetensors(std::filesystem::path(DEQ_FIXTURES_DIR) / "solvers.safetensors");
  EXPECT_FALSE(file.tensors.empty());
  size_t scalars = 0;
  for (const auto& [name, tensor] : file.tensors) scalars += tensor.dim() == 0 ? 1 : 0;
  EXPECT_GT(scalars, 0U);
}

TEST(Safetensors, RefusesWhatItCannotWrite) {
  const TemporaryFolder folder;
  const std::string start = "cannot write " + (folder / "t").string() + ": ";
  const auto message = [&](const std::string& name, const torch::Tensor& tensor) {
    return message_of<Error>([&] {
      write_safetensors(folder / "t", {.tensors = {{name, tensor}}, .metadata = {}});
    });
  };
  EXPECT_EQ(message("a", {}), start + "tensor \"a\" is undefined or sparse");
  EXPECT_EQ(message("a", torch::zeros({1}, torch::kComplexFloat)),
            start + "tensor \"a\" has the type ComplexFloat, which is not supported");
  EXPECT_EQ(message("__metadata__", torch::zeros({1})),
            start + "no tensor may be called __metadata__");
  EXPECT_EQ(message("\xff", torch::zeros({1})),
            start + "a name or a metadata text is not valid UTF-8");
  EXPECT_EQ(folder.count(), 0U);
}

TEST(Safetensors, AFullDiskLeavesTheOldFile) {
  const TemporaryFolder folder;
  write_safetensors(folder / "t", {.tensors = {{"a", torch::ones({1})}}, .metadata = {}});
  const std::string old = read_file(folder / "t");
  {
    const FileSizeLimit limit(1000);
    EXPECT_THROW(
        write_safetensors(folder / "t", {.tensors = {{"a", torch::ones({9999})}}, .metadata = {}}),
        Error);
  }
  EXPECT_EQ(read_file(folder / "t"), old);
  EXPECT_EQ(folder.count(), 1U);
}

}  // namespace
}  // namespace deq::lab
