#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "deq/lab/data/images/image_set.h"

namespace deq::lab {

/// The names of the folders in `root`, sorted; hidden ones are passed over.
std::vector<std::string> class_folders(const std::filesystem::path& root);

/// Whether images lie directly in `folder`, by their names.
bool holds_images(const std::filesystem::path& folder);

/// What a set of `root` leaves out: files beside the class folders, and in these what is named
/// neither .jpg, .jpeg nor .png. Hidden ones are not mentioned.
std::vector<std::string> passed_over_in(const std::filesystem::path& root);

enum class EmptyClass { Refuse, Keep };

/// The files root/<class>/*.jpg, *.jpeg and *.png, in capitals or not. Classes are the folders of
/// `root` in the order of their names, images the files directly in them in the order of theirs;
/// hidden ones are passed over. An image that cannot be read is found when it is asked for.
class ImageFolder : public ImageSet {
 public:
  explicit ImageFolder(std::filesystem::path root, const ImageTransform& transform = {},
                       EmptyClass empty_class = EmptyClass::Refuse);

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return file(index).label; }
  std::string name(int64_t index) const override;
  std::string encoded(int64_t index) const override;
  int64_t encoded_bytes(int64_t index) const override;
  /// Its path.
  std::string describe(int64_t index) const override;

 private:
  struct File {
    int64_t label;
    std::string name;
  };

  const File& file(int64_t index) const { return files_.at(static_cast<size_t>(index)); }

  std::filesystem::path root_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace deq::lab
