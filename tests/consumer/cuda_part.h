#pragma once

#include <deq/deq.h>

#include <iostream>
#include <string_view>

/// Prints the device that a program uses, and why where it is the CPU. False where the CUDA part is
/// missing: the argument "with-cuda" says that the library was built with it, there is a driver,
/// and it did not load all the same.
inline bool tell_device(int count, char** arguments) {
  const auto& cuda = deq::cuda_status();
  std::cout << "device: " << (cuda.available ? "cuda" : "cpu, " + cuda.reason) << std::endl;
  const bool built = count > 1 && std::string_view(arguments[1]) == "with-cuda";
  return !built || !cuda.reason.starts_with("the CUDA part of libdeq does not load");
}
