// CRC-32 as the ICRC takes it, by the instructions of several CPUs. ../README.md explains how they work.
//
// A CRC in progress is the plain register: bit-reflected, neither complemented at the start nor at the end. All calls
// are for any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace uroce::wire::crc {

/// A change of the first 64 bytes of a message before the CRC takes them: each byte is ANDed with `keep`, then
/// XORed with `flip`. The tables begin 64 bytes before the message and end 64 bytes behind those, so that a vector may
/// begin anywhere in the first 128 bytes; outside the message they add nothing.
struct HeadMask {
  static constexpr std::size_t kBefore = 64;
  alignas(64) uint8_t keep[192];
  alignas(64) uint8_t flip[192];
};

/// A message that Kernel::masked takes has so many bytes at least.
inline constexpr std::size_t kLeastMasked = 32;

/// One way to compute a CRC.
struct Kernel {
  const char* name;
  /// The register after `n` more bytes.
  uint32_t (*update)(uint32_t crc, const std::byte* bytes, std::size_t n);
  /// The same, and copies the bytes to `to`, which does not overlap them. It reads each byte once: the CRC is that of
  /// the copy, even if another thread changes the source.
  uint32_t (*copy)(uint32_t crc, std::byte* to, const std::byte* from, std::size_t n);
  /// The register after a whole message whose head is masked, from register 0. n >= kLeastMasked.
  uint32_t (*masked)(const HeadMask& mask, const std::byte* bytes, std::size_t n);
};

extern const Kernel kTableKernel;
#if defined(__x86_64__)
extern const Kernel kPclmulKernel;
extern const Kernel kAvx2Kernel;
extern const Kernel kAvx512Kernel;
#elif defined(__aarch64__)
extern const Kernel kPmullKernel;
#endif

/// The register after `n` more bytes, one at a time: for the last bytes of a message.
uint32_t update_bytes(uint32_t crc, const std::byte* bytes, std::size_t n);
/// The same, with a copy.
uint32_t copy_bytes(uint32_t crc, std::byte* to, const std::byte* from, std::size_t n);

/// The kernels that this CPU and its operating system can run, the fastest first. The last one is the table.
std::span<const Kernel* const> available();

/// The kernel called `name` if it is one of available(), the fastest for "automatic", else null.
const Kernel* find(std::string_view name);

/// For active() and use() only.
extern std::atomic<const Kernel*> g_active;
/// The kernel in use: the fastest, unless use() chose another.
inline const Kernel& active() { return *g_active.load(std::memory_order_relaxed); }
/// Makes all later calls in this process use `kernel`, one of available().
void use(const Kernel& kernel);

}  // namespace uroce::wire::crc
