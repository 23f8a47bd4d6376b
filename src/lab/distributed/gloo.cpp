// Gloo is part of libtorch; its header declares it only under this macro.
#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>

#include "lab/distributed/backends.h"

namespace deq::lab::distributed {
namespace {

using Gloo = c10d::ProcessGroupGloo;

std::shared_ptr<::gloo::transport::Device> network_device(const std::string& host) {
  if (const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME")) {
    const std::string names = interfaces;
    return Gloo::createDeviceForInterface(names.substr(0, names.find(',')));
  }
  // A world that meets on this machine needs no other address, and no name that resolves.
  if (host == "127.0.0.1" || host == "localhost") {
    return Gloo::createDeviceForHostname("127.0.0.1");
  }
  return Gloo::createDefaultDevice();
}

}  // namespace

BackendPtr make_gloo(const StorePtr& store, const RankInfo& self,
                     std::chrono::milliseconds timeout) {
  auto options = Gloo::Options::create(timeout);
  options->devices.push_back(network_device(self.address));
  return c10::make_intrusive<Gloo>(store, static_cast<int>(self.rank), static_cast<int>(self.size),
                                   options);
}

}  // namespace deq::lab::distributed
