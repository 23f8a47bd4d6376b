#pragma once

// One build serves every x86-64 machine: of a function so marked, the loader picks the widest
// version. (The sanitizers cannot run before the loader, where that choice is made.)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
#define DEQ_VECTORISED
#else
#define DEQ_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
