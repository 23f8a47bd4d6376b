#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/images/packed_images.h"
#include "deq/lab/io/atomic_file.h"
#include "lab/data/images/packed_index.h"
#include "lab/io/checksum.h"
#include "lab/io/system_error.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kBlock = 256;  // images in memory at a time

/// Appends to a file, and begins another when it is full.
class Shards {
 public:
  Shards(fs::path folder, int64_t full) : folder_(std::move(folder)), full_(full) {}

  void append(const std::string& bytes, PackedImage& image) {
    if (!file_) {
      file_.emplace(packed_shard_path(folder_, static_cast<int64_t>(sizes.size())));
      sizes.push_back(0);
    }
    file_->write(bytes);
    image.shard = static_cast<int64_t>(sizes.size()) - 1;
    image.offset = sizes.back();
    sizes.back() += image.length;
    if (sizes.back() >= full_) finish();
  }

  void finish() {
    if (file_) file_->commit();
    file_.reset();
  }

  std::vector<int64_t> sizes;

 private:
  fs::path folder_;
  int64_t full_;
  std::optional<AtomicFile> file_;
};

/// The bytes of an image, or why it cannot be read.
struct ReadImage {
  std::string bytes;
  std::optional<std::string> reason;
};

ReadImage read_image(const ImageSet& set, int64_t index, bool decode) {
  ReadImage image;
  try {
    image.bytes = set.encoded(index);
    if (decode) decode_image(image.bytes);
  } catch (const Error& error) {
    image.reason = error.what();
  }
  return image;
}

/// Images from `begin` on, read on all cores.
std::vector<ReadImage> read_block(const ImageSet& set, int64_t begin, bool decode) {
  const int64_t count = std::min(kBlock, set.size() - begin);
  std::vector<ReadImage> images(static_cast<size_t>(count));
  at::parallel_for(0, count, /*grain_size=*/4, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      images[static_cast<size_t>(i)] = read_image(set, begin + i, decode);
    }
  });
  return images;
}

void make_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) io::throw_system_error("make the folder", folder, code.value());
}

}  // namespace

void validate(const PackOptions& options) {
  require(options.shard_bytes >= 1, "pack: shard_bytes = {}, must be ≥ 1", options.shard_bytes);
}

PackReport pack_images(const ImageSet& set, const fs::path& out, const PackOptions& options) {
  validate(options);
  require<UsageError>(!fs::exists(packed_index_path(out)),
                      "{} holds a packed set already, must be another folder", out.string());
  make_folder(out);
  PackReport report;
  PackedIndex index{.classes = set.classes(), .shard_sizes = {}, .images = {}};
  Shards shards(out, options.shard_bytes);
  std::vector<ReadImage> block;
  for (int64_t i = 0; i < set.size(); ++i) {
    if (i % kBlock == 0) {
      block = read_block(set, i, options.decode);
      if (options.progress) options.progress(i, set.size());
    }
    const auto& [bytes, reason] = block[static_cast<size_t>(i % kBlock)];
    if (reason) {
      require(options.on_unreadable == OnUnreadable::Skip, "{} cannot be read: {}", set.describe(i),
              *reason);
      report.skipped.push_back({set.name(i), *reason});
      continue;
    }
    PackedImage image{.name = set.name(i),
                      .label = set.label(i),
                      .length = static_cast<int64_t>(bytes.size()),
                      .checksum = crc32c(bytes)};
    shards.append(bytes, image);
    report.bytes += image.length;
    index.images.push_back(std::move(image));
  }
  require(!index.images.empty(), "no image is left to pack");
  shards.finish();
  index.shard_sizes = shards.sizes;
  write_packed_index(out, index);
  report.images = static_cast<int64_t>(index.images.size());
  report.shards = static_cast<int64_t>(index.shard_sizes.size());
  return report;
}

}  // namespace deq::lab
