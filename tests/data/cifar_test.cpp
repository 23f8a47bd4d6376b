#include "deq/data/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "data/image_files.h"
#include "deq/core/error.h"
#include "deq/io/atomic_file.h"
#include "io/temporary_folder.h"
#include "support/seed.h"

namespace deq {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using testing::put_file;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

constexpr int64_t kImages = 7;
const std::vector<std::string> kClasses = {"airplane", "automobile", "bird",  "cat",  "deer",
                                           "dog",      "frog",       "horse", "ship", "truck"};

template <class Number>
std::string little_endian(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

std::string pickled(const std::string& text) {
  return "U" + std::string(1, static_cast<char>(text.size())) + text;
}

std::string pickled(int64_t number) {
  return "J" + little_endian(static_cast<int32_t>(number));
}

template <class Item>
std::string pickled_list(const std::vector<Item>& items) {
  std::string list = "](";
  for (const auto& item : items) list += pickled(item);
  return list + "e";
}

/// A batch as Python 2 wrote it.
std::string pickled_batch(const std::string& pixels, const std::vector<int64_t>& labels,
                          int64_t images) {
  const auto type = "cnumpy\ndtype\n"s + pickled("u1"s) + "K\0K\1\x87Rq\1(K\3"s + pickled("|"s) +
                    "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"s;
  const auto array = "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85"s +
                     pickled("b"s) + "\x87R(K\1"s + pickled(images) + pickled(3072) + "\x86" +
                     type + "\x89T" + little_endian(static_cast<uint32_t>(pixels.size())) + pixels +
                     "tb";
  return "\x80\2}q\0("s + pickled("batch_label"s) + pickled("a batch"s) + pickled("data"s) + array +
         pickled("labels"s) + pickled_list(labels) + "u.";
}

/// The same random set in both versions, of files with few images.
class Cifar : public test::Seeded {
 protected:
  Cifar() {
    std::string lines;
    for (const auto& name : kClasses) lines += name + "\n";
    put_file(binary_ / "batches.meta.txt", lines + "\n");
    put_file(python_ / "batches.meta",
             "\x80\2}("s + pickled("label_names"s) + pickled_list(kClasses) + "u.");
    for (int64_t file = 0; file < 6; ++file) {
      const auto name = file < 5 ? c10::str("data_batch_", file + 1) : std::string("test_batch");
      put_batch(name, images_.narrow(0, file * kImages, kImages),
                labels_.narrow(0, file * kImages, kImages));
    }
  }

  void put_batch(const std::string& name, const torch::Tensor& images,
                 const torch::Tensor& labels) {
    std::string records, pixels;
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < images.size(0); ++i) {
      const auto image = images[i].contiguous();
      const std::string bytes(static_cast<const char*>(image.const_data_ptr()), 3072);
      numbers.push_back(labels[i].item<int64_t>());
      records += static_cast<char>(numbers.back()) + bytes;
      pixels += bytes;
    }
    put_file(binary_ / (name + ".bin"), records);
    put_file(python_ / name, pickled_batch(pixels, numbers, images.size(0)));
  }

  /// What is said about a file after its name.
  static std::string complaint(const fs::path& folder, const std::string& file) {
    const auto start = (folder / file).string() + " is no usable file of CIFAR-10: ";
    const auto message =
        testing::message_of<Error>([&] { read_cifar10(folder, CifarPart::Training, kImages); });
    EXPECT_EQ(message.substr(0, start.size()), start);
    return message.substr(std::min(start.size(), message.size()));
  }

  testing::TemporaryFolder folder_;
  fs::path binary_ = folder_ / "b/cifar-10-batches-bin",
           python_ = folder_ / "p/cifar-10-batches-py";
  torch::Tensor images_ =
      torch::randint(0, 256, {6 * kImages, 3, 32, 32}, generator_, torch::kUInt8);
  torch::Tensor labels_ = torch::randint(0, 10, {6 * kImages}, generator_, torch::kInt64);
};

TEST_F(Cifar, BothVersionsAreRead) {
  for (const auto& folder : {binary_, python_, binary_.parent_path(), python_.parent_path()}) {
    const auto training = read_cifar10(folder, CifarPart::Training, kImages);
    EXPECT_TRUE(training.images.equal(images_.narrow(0, 0, 5 * kImages)));
    EXPECT_TRUE(training.labels.equal(labels_.narrow(0, 0, 5 * kImages)));
    EXPECT_EQ(training.classes, kClasses);
    const auto test = read_cifar10(folder, CifarPart::Test, kImages);
    EXPECT_TRUE(test.images.equal(images_.narrow(0, 5 * kImages, kImages)));
    EXPECT_TRUE(test.labels.equal(labels_.narrow(0, 5 * kImages, kImages)));
  }
}

TEST_F(Cifar, MissingFilesAreNamed) {
  EXPECT_THAT([&] { read_cifar10(folder_.path(), CifarPart::Test); },
              ThrowsMessage<UsageError>(
                  StrEq(folder_.path().string() +
                        " holds no CIFAR-10: neither batches.meta.txt (the binary version) nor "
                        "batches.meta (the Python version)")));
  for (const auto& path : {binary_ / "data_batch_3.bin", python_ / "data_batch_3"}) {
    fs::remove(path);
    EXPECT_THAT([&] { read_cifar10(path.parent_path(), CifarPart::Training, kImages); },
                ThrowsMessage<Error>(
                    StrEq("cannot read " + path.string() + ": No such file or directory")));
    EXPECT_NO_THROW(read_cifar10(path.parent_path(), CifarPart::Test, kImages));
  }
}

TEST_F(Cifar, WrongSizesAreNamed) {
  put_batch("data_batch_2", images_.narrow(0, 0, 6), labels_);
  EXPECT_EQ(complaint(binary_, "data_batch_2.bin"), "it has 18438 bytes, must be 21511");
  EXPECT_EQ(complaint(python_, "data_batch_2"),
            "\"data\" has shape [6, 3072] and 18432 bytes, must be [7, 3072]");
  put_file(python_ / "data_batch_2", pickled_batch(std::string(7 * 3072, 'x'), {1, 2, 3}, 7));
  EXPECT_EQ(complaint(python_, "data_batch_2"), "it has 3 labels, must be 7");
  put_file(python_ / "data_batch_2", pickled_batch("short", {1, 2, 3, 4, 5, 6, 7}, 7));
  EXPECT_EQ(complaint(python_, "data_batch_2"),
            "\"data\" has shape [7, 3072] and 5 bytes, must be [7, 3072]");
}

TEST_F(Cifar, LabelsOutOfRangeAreNamed) {
  labels_[2] = 10;
  put_batch("data_batch_1", images_.narrow(0, 0, kImages), labels_);
  const auto said = "the label of image 2 is 10, must be ≥ 0 and < 10";
  EXPECT_EQ(complaint(binary_, "data_batch_1.bin"), said);
  EXPECT_EQ(complaint(python_, "data_batch_1"), said);
}

TEST_F(Cifar, WrongClassesAreNamed) {
  put_file(binary_ / "batches.meta.txt", "cat\r\ndog\r\n");
  EXPECT_EQ(complaint(binary_, "batches.meta.txt"), "it names 2 classes, must be 10");
  put_file(python_ / "batches.meta", "\x80\2}("s + pickled("other"s) + "Nu.");
  EXPECT_EQ(complaint(python_, "batches.meta"), "the pickle has no \"label_names\"");
}

TEST_F(Cifar, OtherPicklesAreRefused) {
  const auto said = [&](const std::string& bytes) {
    put_file(python_ / "data_batch_1", bytes);
    return complaint(python_, "data_batch_1");
  };
  EXPECT_EQ(said(""), "the pickle ends too early");
  EXPECT_EQ(said("(lp0\n."), "it does not begin as a pickle of protocol 2 or 3");
  EXPECT_EQ(said("\x80\4."), "it is a pickle of protocol 4, must be 2 or 3");
  EXPECT_EQ(said("\x80\2cos\nsystem\n"s + pickled("true"s) + "\x85R."),
            "the pickle calls os.system, which is no part of a batch of CIFAR-10");
  EXPECT_EQ(said("\x80\2]."), "the pickle holds no dictionary");
  EXPECT_EQ(said("\x80\2P."),
            "the pickle has operation 80, which is no part of a batch of CIFAR-10");
  EXPECT_EQ(said("\x80\2."), "the pickle takes more values than it has");
  EXPECT_EQ(said("\x80\2}(a."), "the pickle takes more values than it has");
  EXPECT_EQ(said("\x80\2}u."), "the pickle returns to a mark it has not set");
  EXPECT_EQ(said("\x80\2}Na."), "the pickle fills a value of another kind");
  EXPECT_EQ(said("\x80\2h\3."), "the pickle recalls what it has not stored");
  EXPECT_EQ(said("\x80\2}(Nu."), "the pickle has a key without a value");
  EXPECT_EQ(said("\x80\2}."), "the pickle has no \"data\"");
}

TEST_F(Cifar, DamagedPicklesAreReadOrRefused) {
  std::mt19937_64 numbers(test::seed());
  auto small = pickled_batch(std::string(3072, 'x'), {1}, 1);
  const auto meta = read_file(python_ / "batches.meta");
  const auto refused = [&](const char* name, const std::string& bytes) {
    put_file(python_ / name, bytes);
    try {
      read_cifar10(python_, CifarPart::Test, 1);
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return true;
    }
  };
  ASSERT_FALSE(refused("test_batch", small));
  for (size_t length = 0; length < meta.size(); ++length) {
    EXPECT_TRUE(refused("batches.meta", meta.substr(0, length)));
  }
  put_file(python_ / "batches.meta", meta);
  for (int round = 0; round < 3000; ++round) {
    auto damaged = small;
    // Not among the pixels, which may be anything.
    const auto place = numbers() % 320;
    damaged[place < 250 ? place : damaged.size() - 320 + place] = static_cast<char>(numbers());
    refused("test_batch", damaged);
  }
}

/// Run by test_cifar.py with files that Python and numpy wrote.
TEST(CifarFromPython, EqualsTheBinaryVersion) {
  const char* folder = std::getenv("DEQ_CIFAR_SAMPLES");
  if (folder == nullptr) GTEST_SKIP() << "DEQ_CIFAR_SAMPLES names no folder";
  for (const auto part : {CifarPart::Training, CifarPart::Test}) {
    const auto binary = read_cifar10(fs::path(folder) / "binary", part, 20);
    for (const auto* version : {"python2", "protocol2", "protocol3"}) {
      const auto python = read_cifar10(fs::path(folder) / version, part, 20);
      EXPECT_TRUE(python.images.equal(binary.images)) << version;
      EXPECT_TRUE(python.labels.equal(binary.labels)) << version;
      EXPECT_EQ(python.classes, binary.classes) << version;
    }
  }
}

}  // namespace
}  // namespace deq
