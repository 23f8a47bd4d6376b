#include "lab/settings/reference.h"

#include "lab/config/reference_visitor.h"
#include "lab/settings/describe_language.h"
#include "lab/settings/describe_reasoning.h"
#include "lab/settings/describe_segmentation.h"
#include "lab/settings/describe_synthetic.h"
#include "lab/settings/describe_vision.h"

namespace deq::lab {
namespace config {

void ReferenceVisitor::section(const std::string& title, std::string_view help) {
  pending_head_ = "\n### " + title + "\n\n" + std::string(help) + "\n";
  pending_head_ += "\n| key | allowed | default | meaning |\n|---|---|---|---|\n";
}

void ReferenceVisitor::row(std::string_view key, const std::string& allowed_values,
                           const std::string& fallback, std::string_view help) {
  text_ += std::exchange(pending_head_, {});
  const std::string with = owner_.empty() ? "" : "With `" + owner_ + "`: ";
  text_ += "| " + code(std::string(key)) + " | " + allowed_values + " | " + fallback + " | " +
           with + std::string(help) + " |\n";
}

namespace {

constexpr std::string_view kIntroduction =
    R"(<!-- Made by deq::lab::reference_markdown() from descriptions in src/lab/settings; a test checks. -->

# Configuration

A TOML file is an experiment. All keys except `experiment` have defaults. An unknown key, a wrong type
and a value out of range are errors that name the file, the line, the key and what is allowed. A
whole number may stand where a finite number is wanted.

`--set key=value` on the command line overrides one key, such as `--set train.epochs=10`, and may be
repeated; the last one counts. The value is read as TOML, and as a text where it is not TOML, so
`--set solver.forward.name=anderson` needs no quotes. A table given this way replaces the whole one.
Another `name` than the file's leaves what all methods share as it is; the file's keys of the other
method count no more.

A file may build on another: with `base = "other.toml"`, a path relative to the file, only what
differs has to be written. A table that chooses another `name` or `schedule` than the base's
replaces it whole; every other table is laid over it key by key.

The effective configuration, with every key and its value, is written to the run folder as
`config.toml`. Some keys belong to one method only, as their meaning says, and are errors with
another.
)";

constexpr std::string_view kSchedules =
    "In place of a number, `jacobian.gamma` and `jacobian.probability` take a table such as\n"
    "`{ schedule = \"linear\", from = 1.6, to = 2.5, begin = 0, end = 10000 }`. Steps are training "
    "steps,\ncounted from the end of the pretraining, and the values lie in the key's own range.";

}  // namespace
}  // namespace config

namespace {

template <class Config>
std::string keys_of(Config config) {
  config::ReferenceVisitor reference;
  reference.section("Top level", "Keys before the first table.");
  describe(reference, config);
  return reference.text();
}

}  // namespace

std::string reference_markdown() {
  config::ReferenceVisitor schedules;
  Schedule schedule;
  schedules.section("Schedules", config::kSchedules);
  describe_schedule(schedules, schedule, config::any_number());

  return std::string(config::kIntroduction) + schedules.text() + "\n## The synthetic experiment\n" +
         keys_of(SyntheticConfig{}) + "\n## Image classification\n" + keys_of(VisionConfig{}) +
         "\n## Language modelling\n" + keys_of(LanguageConfig{}) + "\n## Segmentation\n" +
         keys_of(SegmentationConfig{}) + "\n## Reasoning\n" + keys_of(ReasoningConfig{});
}

}  // namespace deq::lab
