#include "lab/report/assets.h"

#define DEQ_ASSET(name)                                                              \
  extern "C" const char deq_asset_##name##_begin[];                                  \
  extern "C" const char deq_asset_##name##_end[];                                    \
  namespace deq::lab::assets {                                                       \
  std::string_view name() {                                                          \
    return {deq_asset_##name##_begin,                                                \
            static_cast<size_t>(deq_asset_##name##_end - deq_asset_##name##_begin)}; \
  }                                                                                  \
  }

DEQ_ASSET(plotly_js)
DEQ_ASSET(report_html)
DEQ_ASSET(report_css)
DEQ_ASSET(report_js)
