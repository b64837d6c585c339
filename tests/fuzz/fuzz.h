/* fuzz.h: what each fuzzer defines and either libFuzzer or replay.c calls. Returns 0; a broken promise aborts. */
#ifndef FUZZ_H
#define FUZZ_H
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
#endif
