#include "base/secret.h"

#include <sodium.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace uroce {

namespace {

/// Even, so that a network of unequal halves ends with them in their places.
constexpr uint32_t kRounds = 12;

/// sodium_init() fails only where the kernel has no source of randomness.
void prepare() {
  if (sodium_init() < 0) std::abort();
}

}  // namespace

Secret::Secret(uint64_t replay) {
  static_assert(kBytes == crypto_kdf_KEYBYTES && kBytes == crypto_stream_chacha20_KEYBYTES);
  prepare();
  std::memcpy(bytes_.data(), &replay, sizeof replay);
}

Secret Secret::fresh() {
  prepare();
  Secret secret;
  randombytes_buf(secret.bytes_.data(), kBytes);
  return secret;
}

Secret Secret::derive(std::string_view purpose, uint64_t index) const {
  std::array<char, crypto_kdf_CONTEXTBYTES> context{};
  std::ranges::copy_n(purpose.begin(), static_cast<std::ptrdiff_t>(std::min(purpose.size(), context.size())),
                      context.begin());
  Secret derived;
  crypto_kdf_derive_from_key(derived.bytes_.data(), kBytes, index, context.data(), bytes_.data());
  return derived;
}

uint64_t Secret::plain_seed(std::string_view purpose) const { return SecretStream(derive(purpose)).next(); }

uint64_t SecretStream::next() {
  if (used_ == kWords) {
    std::array<unsigned char, crypto_stream_chacha20_NONCEBYTES> nonce{};
    std::memcpy(nonce.data(), &block_, sizeof block_);
    ++block_;
    crypto_stream_chacha20(reinterpret_cast<unsigned char*>(words_.data()), sizeof words_, nonce.data(),
                           secret_.bytes_.data());
    used_ = 0;
  }
  return words_[used_++];
}

uint64_t SecretStream::below(uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
}

SecretPermutation::SecretPermutation(const Secret& secret) {
  static_assert(sizeof key_ == crypto_shorthash_KEYBYTES);
  std::ranges::copy_n(secret.bytes_.begin(), sizeof key_, key_.begin());
}

uint32_t SecretPermutation::round(uint32_t half, uint32_t number, uint64_t tweak) const {
  std::array<unsigned char, 16> in{};
  std::memcpy(in.data(), &tweak, sizeof tweak);
  std::memcpy(in.data() + 8, &half, sizeof half);
  std::memcpy(in.data() + 12, &number, sizeof number);
  uint32_t out = 0;
  std::array<unsigned char, crypto_shorthash_BYTES> hash{};
  crypto_shorthash(hash.data(), in.data(), in.size(), key_.data());
  std::memcpy(&out, hash.data(), sizeof out);
  return out;
}

uint32_t SecretPermutation::operator()(uint32_t x, uint32_t bits, uint64_t tweak) const {
  // The left part takes turns with the right one; where `bits` is odd they differ by one bit.
  uint32_t right_bits = bits / 2;
  uint32_t left_bits = bits - right_bits;
  uint64_t left = uint64_t{x} >> right_bits;
  uint64_t right = x & ((uint64_t{1} << right_bits) - 1);
  for (uint32_t number = 0; number < kRounds; ++number) {
    const uint64_t mask = (uint64_t{1} << left_bits) - 1;
    const uint64_t mixed = (left ^ round(static_cast<uint32_t>(right), number, tweak | uint64_t{bits} << 58)) & mask;
    left = right;
    right = mixed;
    std::swap(left_bits, right_bits);
  }
  return static_cast<uint32_t>(left << right_bits | right);
}

}  // namespace uroce
