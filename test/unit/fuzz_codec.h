/*
 * fuzz_codec.h
 *	  The fuzzer's entry point, for programs that drive it themselves.
 */
#ifndef AION_FUZZ_CODEC_H
#define AION_FUZZ_CODEC_H

#include <stddef.h>
#include <stdint.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif							/* AION_FUZZ_CODEC_H */
