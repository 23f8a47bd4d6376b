#pragma once

#include "deq/lab/settings/language.h"
#include "deq/lab/settings/reasoning.h"
#include "deq/lab/settings/segmentation.h"
#include "deq/lab/settings/synthetic.h"
#include "deq/lab/settings/vision.h"

namespace deq::lab {

// Each throws UsageError where train.start_penalty, train.step_penalty, train.step_evals,
// train.start_noise or jacobian.control cannot work with the rest of the configuration.

void require_sensible_starts(const SyntheticConfig& config);
void require_sensible_starts(const VisionConfig& config);
void require_sensible_starts(const LanguageConfig& config);
void require_sensible_starts(const SegmentationConfig& config);
void require_sensible_starts(const ReasoningConfig& config);

}  // namespace deq::lab
