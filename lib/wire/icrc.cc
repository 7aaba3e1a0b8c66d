#include "wire/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace uroce::wire {
namespace {

/// The CRC runs over eight 0xff bytes first. crc32_gzip_refl() complements on the way in and out as zlib does, so a
/// running value is the complement of the register: ~0xdebb20e3 after those bytes, and the last one is the ICRC.
constexpr uint32_t kAfterPrefix = 0x2144df1c;

constexpr std::size_t kHeaders4 = 20 + 8 + 12;
constexpr std::size_t kHeaders6 = 40 + 8 + 12;

/// A packet shorter than this is copied and masked as a whole, and takes one CRC call. Of a longer packet only the head
/// is copied and masked.
constexpr std::size_t kSmall = 128;
constexpr std::size_t kHead = 64;
/// ISA-L is fast on multiples of this length, which payloads often are, and slow on the remainder.
constexpr std::size_t kStride = 256;

/// Fields that routers may change count as ones (annex A17.3.3): a mask over IP, UDP and BTH.
template <std::size_t... Ones>
constexpr std::array<uint8_t, kHead> make_mask(uint8_t first) {
  std::array<uint8_t, kHead> mask{first};
  ((mask[Ones] = 0xff), ...);
  return mask;
}
// TOS, TTL, header checksum; UDP checksum; BTH byte 4.
constexpr auto kMask4 = make_mask<1, 8, 10, 11, 26, 27, 32>(0);
// Traffic class and flow label but not the version, hop limit; UDP checksum; BTH byte 4.
constexpr auto kMask6 = make_mask<1, 2, 3, 7, 46, 47, 52>(0x0f);

inline uint32_t crc(uint32_t value, const std::byte* p, std::size_t n) {
  return crc32_gzip_refl(value, reinterpret_cast<const unsigned char*>(p), n);
}

/// The count is a constant, so that the loop compiles to a few vector instructions.
template <std::size_t N>
inline void copy_masked(std::byte* out, const std::byte* in, const std::array<uint8_t, kHead>& mask) {
  for (std::size_t i = 0; i < N; ++i) out[i] = in[i] | static_cast<std::byte>(mask[i]);
}

/// Copies fewer than kSmall bytes, the first `Headers` of them masked. It copies blocks of fixed size, which may
/// overlap, starting at the end. The masked headers come last and overwrite what overlaps them.
template <std::size_t Headers>
inline void copy_small(std::byte* out, std::span<const std::byte> in, const std::array<uint8_t, kHead>& mask) {
  const std::size_t n = in.size();
  static_assert(Headers >= 32 && Headers >= kSmall - 96);
  assert(n >= Headers && n < kSmall);
  std::memcpy(out + n - 32, in.data() + n - 32, 32);
  if (n - 32 > Headers) std::memcpy(out + n - 64, in.data() + n - 64, 32);
  if (n - 32 > Headers + 32) std::memcpy(out + n - 96, in.data() + n - 96, 32);
  copy_masked<Headers>(out, in.data(), mask);
}

inline void copy_small(std::byte* out, std::span<const std::byte> in, uint8_t ip_version) {
  if (ip_version == 4) {
    copy_small<kHeaders4>(out, in, kMask4);
  } else {
    copy_small<kHeaders6>(out, in, kMask6);
  }
}

/// How many bytes of a longer packet to mask, so that the remainder after multiples of kStride is small.
inline std::size_t head_of(std::size_t n, uint8_t ip_version) {
  const std::size_t odd = n % kStride;
  return odd >= (ip_version == 4 ? kHeaders4 : kHeaders6) && odd < kSmall ? odd : kHead;
}

/// Chosen so that source, copy and the CRC's constants fit into a 32 KiB L1 cache.
constexpr std::size_t kChunk = 4096;

/// Requests all cache lines of `bytes` at once. Without it, memcpy waits for uncached lines almost one by one.
inline void prefetch(std::span<const std::byte> bytes) {
  constexpr std::size_t kLine = 64, kWorthIt = 1024;
  if (bytes.size() < kWorthIt) return;
  for (std::size_t i = 0; i < bytes.size(); i += kLine) __builtin_prefetch(bytes.data() + i);
}

}  // namespace

uint32_t icrc_of(std::span<const std::byte> l3_to_pad, uint8_t ip_version) {
  alignas(64) std::byte buffer[kSmall];
  const std::size_t n = l3_to_pad.size();
  const std::size_t head = n < kSmall ? n : head_of(n, ip_version);
  copy_small(buffer, l3_to_pad.first(head), ip_version);
  const uint32_t value = crc(kAfterPrefix, buffer, head);
  return head == n ? value : crc(value, l3_to_pad.data() + head, n - head);
}

IcrcState IcrcState::begin(std::span<const std::byte> l3_to_headers, uint8_t ip_version) {
  IcrcState state;
  state.crc_ = kAfterPrefix;
  state.pending_ = l3_to_headers.size();
  copy_small(state.buffer_.data(), l3_to_headers, ip_version);
  return state;
}

void IcrcState::flush() {
  if (pending_ != 0) crc_ = crc(crc_, buffer_.data(), pending_);
  pending_ = 0;
}

bool IcrcState::append(std::span<const std::byte> bytes) {
  if (bytes.size() > buffer_.size() - pending_) return false;
  if (!bytes.empty()) std::memcpy(buffer_.data() + pending_, bytes.data(), bytes.size());
  pending_ += bytes.size();
  return true;
}

void IcrcState::update(std::span<const std::byte> bytes) {
  if (append(bytes)) return;
  flush();
  crc_ = crc(crc_, bytes.data(), bytes.size());
}

void IcrcState::copy(std::byte* dst, std::span<const std::byte> src) {
  while (!src.empty()) {
    const auto chunk = src.first(std::min(src.size(), kChunk));
    prefetch(chunk);
    std::memcpy(dst, chunk.data(), chunk.size());
    // Read the copy, not the source: an application may change the source between the two reads, and the ICRC must
    // match the bytes that are sent.
    update({dst, chunk.size()});
    dst += chunk.size();
    src = src.subspan(chunk.size());
  }
}

uint32_t IcrcState::value() const { return pending_ == 0 ? crc_ : crc(crc_, buffer_.data(), pending_); }

}  // namespace uroce::wire
