// The smallest program: the library alone, and what it says where there is no GPU.
#include <deq/deq.h>
#include <torch/nn/modules/linear.h>

#include <iostream>
#include <string>

#include "cuda_part.h"

int main(int count, char** arguments) {
  std::cout << "libdeq " << deq::version() << '\n';
  if (!tell_device(count, arguments)) return 4;
  const auto f = [](const torch::Tensor& z) { return 0.5 * z.cos(); };
  const auto eq = deq::fixed_point(f, torch::zeros({1, 1}));
  const bool right = (f(eq.z()) - eq.z()).abs().item<double>() < 1e-3;
  if (!deq::cuda_status().available) {
    deq::Equilibrium layer(std::make_shared<deq::InjectedCell<torch::nn::BilinearImpl>>(
        std::make_shared<torch::nn::BilinearImpl>(1, 1, 1)));
    try {
      layer->to(torch::kCUDA);
      return 2;
    } catch (const deq::Error& error) {
      std::cout << error.what() << '\n';
      if (std::string(error.what()).find('\n') != std::string::npos) return 3;
    }
  }
  return right ? 0 : 1;
}
