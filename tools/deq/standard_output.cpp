#include "standard_output.h"

#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string_view>

#include "lab/io/descriptor.h"

namespace deq::lab::cli {

StandardOutput::StandardOutput()
    : before_(std::cout.rdbuf(this)), is_terminal_(isatty(STDOUT_FILENO) == 1) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

StandardOutput::~StandardOutput() {
  finish();
  std::cout.rdbuf(before_);
}

int StandardOutput::finish() {
  sync();
  return failure_;
}

StandardOutput::int_type StandardOutput::overflow(int_type next) {
  if (sync() != 0) return traits_type::eof();
  if (traits_type::eq_int_type(next, traits_type::eof())) return traits_type::not_eof(next);
  return sputc(traits_type::to_char_type(next));
}

std::streamsize StandardOutput::xsputn(const char* text, std::streamsize size) {
  const auto taken = std::streambuf::xsputn(text, size);
  const std::string_view written(text, static_cast<size_t>(size));
  if (is_terminal_ && written.find('\n') != std::string_view::npos) sync();
  return taken;
}

int StandardOutput::sync() {
  if (failure_ == 0) {
    failure_ =
        io::write_all(STDOUT_FILENO, pbase(), static_cast<size_t>(std::distance(pbase(), pptr())));
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return failure_ == 0 ? 0 : -1;
}

void outlive_readers() {
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace deq::lab::cli
