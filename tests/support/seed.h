#pragma once

#include <ATen/core/Generator.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace deq::test {

/// The seed of randomised tests: the environment variable DEQ_TEST_SEED, else a fixed one.
uint64_t seed();

/// A generator of its own for every `stream` of the same seed.
at::Generator generator(uint64_t stream = 0);

/// A test that draws numbers from `generator_`; a failure prints the seed.
class Seeded : public ::testing::Test {
 protected:
  Seeded();
  at::Generator generator_;

 private:
  ::testing::ScopedTrace trace_;
};

template <class Parameter>
class SeededWith : public Seeded, public ::testing::WithParamInterface<Parameter> {};

}  // namespace deq::test
