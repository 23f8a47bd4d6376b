#include "deq/lab/data/images/pack_splits.h"

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/images/image_folder.h"
#include "deq/lab/data/images/image_layout.h"
#include "lab/io/atomic_folder.h"

namespace deq::lab {

std::vector<PackedSplit> pack_splits(const std::filesystem::path& folder,
                                     const std::filesystem::path& out, const PackOptions& options) {
  validate(options);
  const auto found = find_images(folder);
  require<UsageError>(found.layout == ImageLayout::Folder, "{} holds {}, must be an image folder",
                      folder.string(), description(found.layout));
  std::vector<std::unique_ptr<const ImageFolder>> sets;
  for (const auto& split : found.splits) {
    sets.push_back(std::make_unique<ImageFolder>(split.folder));
    try {
      require_same_classes(*sets.front(), *sets.back());
    } catch (const Error& error) {
      throw UsageError(fmt::format("{}/ and {}/ in {} do not fit: {}", found.splits.front().name,
                                   split.name, folder.string(), error.what()));
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

}  // namespace deq::lab
