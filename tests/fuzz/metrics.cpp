// The metrics of a run, as a report reads them and as a resumed run goes on writing them.

#include "deq/lab/io/json_lines.h"
#include "fuzz/fuzz.h"
#include "lab/report/environment.h"
#include "lab/report/run_data.h"
#include "lab/report/warnings.h"

namespace deq::fuzz {

// A million cells of a table of which nothing is known.
const size_t kSpareBytes = size_t{64} << 20;

void read(std::string_view input) {
  put("environment.json", input);
  lab::read_environment(folder());
  const auto path = put("metrics.jsonl", input);
  const auto lines = lab::read_json_lines(path);
  std::vector<lab::Metrics> metrics;
  for (const auto& line : lines) metrics.emplace_back(line.begin(), line.end());
  for (const auto& warning : lab::warnings_about(metrics, {})) require_sentence(warning.c_str());
  const auto page = lab::embeddable({{"summary", lab::last_validation(lines)},
                                     {"train", lab::metric_columns(lines, "train")},
                                     {"valid", lab::metric_columns(lines, "valid")}});
  promise(page.find("</") == std::string::npos, "metrics can end the script that holds them");
  {
    lab::JsonLines more(path);
    more.append({{"step", int64_t{1}}});
  }
  promise(lab::read_json_lines(path).size() == lines.size() + 1,
          "a line that was appended is not the next");
  lab::drop_lines_after(path, 1);
  promise(!lab::read_json_lines(path).empty(), "a line that should be kept is gone");
}

}  // namespace deq::fuzz
