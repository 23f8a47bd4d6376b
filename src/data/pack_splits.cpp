#include "deq/data/pack_splits.h"

#include "deq/core/error.h"
#include "deq/data/image_folder.h"
#include "deq/data/image_layout.h"
#include "deq/io/atomic_folder.h"

namespace deq {

std::vector<PackedSplit> pack_splits(const std::filesystem::path& folder,
                                     const std::filesystem::path& out, const PackOptions& options) {
  validate(options);
  const auto found = find_images(folder);
  require<UsageError>(found.layout == ImageLayout::Folder, folder.string(), " holds ",
                      description(found.layout), ", must be an image folder");
  std::vector<std::unique_ptr<const ImageFolder>> sets;
  for (const auto& split : found.splits) {
    sets.push_back(std::make_unique<ImageFolder>(split.folder));
    try {
      require_same_classes(*sets.front(), *sets.back());
    } catch (const Error& error) {
      throw UsageError(c10::str(found.splits.front().name, "/ and ", split.name, "/ in ",
                                folder.string(), " do not fit: ", error.what()));
    }
  }
  AtomicFolder whole(out);
  std::vector<PackedSplit> packed;
  for (size_t i = 0; i < sets.size(); ++i) {
    const auto& name = found.splits[i].name;
    packed.push_back({name, pack_images(*sets[i], whole.path() / name, options)});
  }
  whole.commit();
  return packed;
}

}  // namespace deq
