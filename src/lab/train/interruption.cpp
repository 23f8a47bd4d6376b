#include "lab/train/interruption.h"

#include <csignal>
#include <initializer_list>

#include <unistd.h>

namespace deq::lab {
namespace {

volatile std::sig_atomic_t asked = 0;
struct sigaction before_interrupt, before_terminate;

extern "C" void on_signal(int signal) {
  if (asked != 0) _exit(128 + signal);
  asked = signal;
}

}  // namespace

Interruption::Interruption() {
  asked = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_interrupt);
  sigaction(SIGTERM, &action, &before_terminate);
}

Interruption::~Interruption() {
  sigaction(SIGINT, &before_interrupt, nullptr);
  sigaction(SIGTERM, &before_terminate, nullptr);
}

int Interruption::requested() {
  return asked;
}

}  // namespace deq::lab
