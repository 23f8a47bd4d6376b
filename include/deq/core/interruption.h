#pragma once

namespace deq {

/// Throws where the solve of this thread is to end; what it throws comes out of the solve.
using InterruptionCheck = void();

/// For a language around this library, which does not see its signals while C++ computes: from now
/// on solves call `check` on their own thread before each evaluation of f and each product with J.
/// nullptr: they call nothing.
void set_interruption_check(InterruptionCheck* check);

/// Calls it.
void check_interruption();

}  // namespace deq
