#include "deq/core/interruption.h"

#include <atomic>

namespace deq {
namespace {

std::atomic<InterruptionCheck*> interruption_check = nullptr;

}  // namespace

void set_interruption_check(InterruptionCheck* check) {
  interruption_check = check;
}

void check_interruption() {
  if (auto* const check = interruption_check.load(std::memory_order_relaxed)) check();
}

}  // namespace deq
