/* SHA-256. Source: FIPS 180-4, sections 4.1.2, 4.2.2, 5.3.3 and 6.2. */
#include <string.h>

#include "internal.h"

enum { BLOCK = 64, LENGTH_BYTES = 8, WORDS = 8, ROUNDS = 64 };

static const uint32_t ROUND_CONSTANTS[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotated(uint32_t value, int bits) { return value >> bits | value << (32 - bits); }

static uint32_t big_endian(const unsigned char *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void compress(uint32_t state[WORDS], const unsigned char *block) {
  uint32_t schedule[ROUNDS], v[WORDS];
  for (int i = 0; i < 16; i++) schedule[i] = big_endian(block + 4 * i);
  for (int i = 16; i < ROUNDS; i++) {
    uint32_t a = schedule[i - 15], b = schedule[i - 2];
    uint32_t small0 = rotated(a, 7) ^ rotated(a, 18) ^ a >> 3, small1 = rotated(b, 17) ^ rotated(b, 19) ^ b >> 10;
    schedule[i] = schedule[i - 16] + small0 + schedule[i - 7] + small1;
  }
  memcpy(v, state, sizeof v);
  for (int i = 0; i < ROUNDS; i++) {
    uint32_t big1 = rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25);
    uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    uint32_t first = v[7] + big1 + choice + ROUND_CONSTANTS[i] + schedule[i];
    uint32_t big0 = rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22);
    uint32_t second = big0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, (WORDS - 1) * sizeof *v);
    v[4] += first;
    v[0] = first + second;
  }
  for (int i = 0; i < WORDS; i++) state[i] += v[i];
}

void mgx_sha256(const void *data, size_t nbytes, char digits[65]) {
  uint32_t state[WORDS] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const unsigned char *bytes = data;
  size_t block_bytes = nbytes / BLOCK * BLOCK, tail_bytes = nbytes - block_bytes;
  for (size_t offset = 0; offset < block_bytes; offset += BLOCK) compress(state, bytes + offset);
  unsigned char tail[2 * BLOCK] = {0};
  if (tail_bytes) memcpy(tail, bytes + block_bytes, tail_bytes);
  tail[tail_bytes] = 0x80;
  size_t end = tail_bytes + 1 + LENGTH_BYTES <= BLOCK ? BLOCK : 2 * BLOCK;
  for (int i = 0; i < LENGTH_BYTES; i++) tail[end - 1 - i] = (unsigned char)((uint64_t)nbytes * 8 >> 8 * i);
  for (size_t offset = 0; offset < end; offset += BLOCK) compress(state, tail + offset);
  for (int i = 0; i < 64; i++) digits[i] = "0123456789abcdef"[state[i / 8] >> (28 - 4 * (i % 8)) & 15];
  digits[64] = 0;
}
