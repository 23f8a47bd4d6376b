#pragma once

#include "deq/models/recurrent/qrnn_options.h"
#include "deq/models/transformer/adaptive_vocabulary.h"

namespace deq::models {

AdaptiveVocabulary adaptive_vocabulary(const QrnnOptions& options);

}  // namespace deq::models
