#pragma once

#include <memory>

#include "deq/solvers/method.h"

namespace deq {

std::unique_ptr<Method> make_method(const Picard& options);
std::unique_ptr<Method> make_method(const Anderson& options);
std::unique_ptr<Method> make_method(const Broyden& options);
std::unique_ptr<Method> make_method(const LimitedBroyden& options);
std::unique_ptr<Method> make_method(const NewtonKrylov& options);

}  // namespace deq
