#pragma once

#include <string>
#include <vector>

#include "deq/lab/data/images/image_layout.h"
#include "deq/lab/data/images/image_summary.h"

namespace deq::lab {

struct ImageProblem {
  std::string where;  ///< a file, a class or a split, as seen from the folder of the data
  std::string what;
};

/// All that was found out about the images in a folder.
struct ImageCheck {
  struct Split {
    std::string name;
    ImageSummary summary;
  };

  FoundImages found;
  std::vector<Split> splits;             ///< without those that cannot be opened at all
  std::vector<ImageProblem> problems;    ///< what training would stumble over
  std::vector<std::string> passed_over;  ///< files that are not used, for their names or folders
};

/// Decodes the images of every split. What is wrong with them is listed, not thrown. A UsageError
/// where there are no images.
ImageCheck check_images(const std::filesystem::path& folder, const SummaryOptions& options = {});

}  // namespace deq::lab
