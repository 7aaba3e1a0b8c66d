// Numbers that no peer may guess: keys, epochs, PSNs, ids. They come from libsodium's generator and functions.
//
// A process draws one Secret from the kernel and derives another one for each purpose. Numbers of one purpose say
// nothing about those of another, and any number of them nothing about the next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace uroce {

/// 256 bits. Copies are equal. Any thread.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  /// The same for the same number: for tests and simulations, which replay a run.
  Secret(uint64_t replay);  // NOLINT(google-explicit-constructor): tests pass a number
  /// Comes from the kernel's generator (getrandom(2)). Waits until the kernel has gathered randomness, at boot.
  static Secret fresh();

  /// Another secret. `purpose`: at most 8 characters. `index` tells several of one purpose apart.
  Secret derive(std::string_view purpose, uint64_t index = 0) const;
  /// A seed for a Random whose numbers need not be secret.
  uint64_t plain_seed(std::string_view purpose) const;

  friend bool operator==(const Secret&, const Secret&) = default;

 private:
  friend class SecretStream;
  friend class SecretPermutation;
  Secret() = default;

  std::array<unsigned char, kBytes> bytes_{};
};

/// A stream of numbers (ChaCha20). One thread at a time.
class SecretStream {
 public:
  explicit SecretStream(const Secret& secret) : secret_(secret) {}

  uint64_t next();
  /// A number from 0 to bound-1. `bound` must not be 0.
  uint64_t below(uint64_t bound);

  template <class Archive>
  void persist(Archive& archive) {
    auto& [secret, block, used, words] = *this;
    archive("secret", secret.bytes_);
    archive("block", block);
    archive("used", used, 0, kWords);
    archive("words", words);
  }

 private:
  Secret secret_;
  uint64_t block_ = 0;
  std::size_t used_ = kWords;  ///< of words_
  static constexpr std::size_t kWords = 8;
  std::array<uint64_t, kWords> words_{};
};

/// Secret permutations of the numbers of a few bits: a Feistel network whose round function is SipHash-2-4. Counting up
/// gives numbers without repetition, in an order that those seen so far do not tell. Any thread.
class SecretPermutation {
 public:
  using Key = std::array<unsigned char, 16>;

  explicit SecretPermutation(const Secret& secret);
  /// The permutations of another one, which had this key.
  explicit SecretPermutation(const Key& key) : key_(key) {}

  const Key& key() const { return key_; }
  /// `x` < 2^bits; the result, too. `bits`: 1 to 32. Each `tweak` gives another permutation.
  uint32_t operator()(uint32_t x, uint32_t bits, uint64_t tweak = 0) const;

 private:
  uint32_t round(uint32_t half, uint32_t number, uint64_t tweak) const;

  Key key_{};
};

}  // namespace uroce
