// Checkpoints: as they are, and with the checksum that belongs to what they hold.

#include "deq/lab/io/checkpoint_file.h"
#include "deq/lab/settings/files.h"
#include "fuzz/fuzz.h"
#include "lab/train/training_state.h"

namespace deq::fuzz {

const size_t kSpareBytes = size_t{4} << 20;

void read(std::string_view input) {
  const auto path = put("checkpoint.safetensors", input);
  attempt([&] { lab::read_checkpoint_file(path); });
  if (auto held = tensors_in(input)) {
    lab::write_checkpoint_file(path, *std::move(held));
  } else {
    return;
  }
  const auto file = lab::read_checkpoint_file(path);
  const auto text_of = [&file](const char* key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  attempt([&] {
    const auto state = lab::TrainingState::from_json(text_of("training_state")).to_json();
    promise(lab::TrainingState::from_json(state).to_json() == state,
            "a training state reads back otherwise than it was written");
  });
  attempt([&] { lab::experiment_in(text_of("config"), path.string()); });
}

}  // namespace deq::fuzz
