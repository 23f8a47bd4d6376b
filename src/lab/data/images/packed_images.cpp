#include "deq/lab/data/images/packed_images.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "core/require.h"
#include "lab/data/images/packed_index.h"
#include "lab/io/checksum.h"
#include "lab/io/system_error.h"

namespace deq::lab {
namespace fs = std::filesystem;

/// A shard of packed images, read by position, which several threads may do at once. Not mapped
/// into memory: a file that shrinks or a disk that fails would then end the program.
class ShardFile {
 public:
  ShardFile(fs::path path, int64_t expected) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) io::throw_system_error("read", path_, errno);
    struct stat found {};
    const bool known = ::fstat(descriptor_, &found) == 0;
    if (!known || found.st_size != expected) {
      ::close(descriptor_);
      throw Error(fmt::format("{} has {} bytes, must be the {} that the index says", path_.string(),
                              known ? found.st_size : 0, expected));
    }
  }
  ~ShardFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ShardFile(ShardFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  ShardFile& operator=(ShardFile&&) = delete;

  std::string read(int64_t offset, int64_t length) const {
    std::string bytes(static_cast<size_t>(length), '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const auto count = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                 static_cast<off_t>(offset) + static_cast<off_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) io::throw_system_error("read", path_, errno);
      require(count > 0, "{} ends at byte {}, before the image does", path_.string(),
              offset + static_cast<int64_t>(done));
      done += static_cast<size_t>(count);
    }
    return bytes;
  }

 private:
  fs::path path_;
  int descriptor_ = -1;
};

struct PackedImages::Files {
  explicit Files(const fs::path& folder) : index(read_packed_index(folder)) {
    for (size_t i = 0; i < index.shard_sizes.size(); ++i) {
      shards.emplace_back(packed_shard_path(folder, static_cast<int64_t>(i)), index.shard_sizes[i]);
    }
  }

  const PackedImage& image(int64_t number) const {
    return index.images.at(static_cast<size_t>(number));
  }

  PackedIndex index;
  std::vector<ShardFile> shards;
};

PackedImages::PackedImages(fs::path folder, const ImageTransform& transform)
    : ImageSet(transform),
      folder_(std::move(folder)),
      files_(std::make_unique<const Files>(folder_)) {}

PackedImages::~PackedImages() = default;

int64_t PackedImages::size() const {
  return static_cast<int64_t>(files_->index.images.size());
}

const std::vector<std::string>& PackedImages::classes() const {
  return files_->index.classes;
}

int64_t PackedImages::label(int64_t index) const {
  return files_->image(index).label;
}

std::string PackedImages::name(int64_t index) const {
  return files_->image(index).name;
}

std::string PackedImages::describe(int64_t index) const {
  return name(index) + " in " + folder_.string();
}

int64_t PackedImages::encoded_bytes(int64_t index) const {
  return files_->image(index).length;
}

std::string PackedImages::encoded(int64_t index) const {
  const auto& image = files_->image(index);
  auto bytes = files_->shards[static_cast<size_t>(image.shard)].read(image.offset, image.length);
  require(crc32c(bytes) == image.checksum, "its bytes do not match their checksum");
  return bytes;
}

}  // namespace deq::lab
