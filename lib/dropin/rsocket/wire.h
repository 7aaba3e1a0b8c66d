// The bytes that two rsockets exchange, as rdma-core's do (librdmacm/docs/rsocket): the private data of a connection,
// messages in immediate data, and the entries that each side writes into the other's tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include <uroce/types.h>

namespace uroce::dropin::rsocket::wire {

/// Memory that the peer may write to. In tables it has the byte order of the side that reads it.
struct Target {
  uint64_t address = 0;
  uint32_t key = 0;
  uint32_t length = 0;  ///< bytes; for a table, entries
};
static_assert(sizeof(Target) == 16);

/// An entry of the table of mapped buffers (riomap()).
struct Mapping {
  uint64_t offset = 0;
  Target memory{};
};
static_assert(sizeof(Mapping) == 24);

/// Entries of the table of targets.
inline constexpr uint32_t kTargets = 2;

/// The private data with which each side describes itself when they connect.
struct Greeting {
  bool big_endian = false;
  bool maps = false;      ///< a table of mapped buffers follows its table of targets
  uint16_t credits = 0;   ///< messages that it can receive
  uint32_t mappings = 0;  ///< entries of that table, rounded as mapping_entries() says
  Target targets{};       ///< its table of the other's receive buffers
  Target buffer{};        ///< its first receive buffer
};
inline constexpr std::size_t kGreetingSize = 40;

std::array<std::byte, kGreetingSize> encode(const Greeting& greeting);
/// Nullopt when it is too short or its version is not 1.
std::optional<Greeting> decode(std::span<const std::byte> bytes);

/// Rounds down to a number of mappings that a greeting can express: any up to 128, then multiples of 256.
uint32_t mapping_entries(uint32_t wanted);

/// The kind of message in an immediate.
enum class Op : uint8_t { data = 0, write = 2, targets = 4, mapping = 6, control = 7 };
enum class Control : uint32_t { disconnect = 0, keepalive = 1, shutdown = 2 };

constexpr uint32_t message(Op op, uint32_t value) { return static_cast<uint32_t>(op) << 29 | (value & 0x1fff'ffff); }
constexpr uint32_t message(Control what) { return message(Op::control, static_cast<uint32_t>(what)); }
constexpr Op op_of(uint32_t message) { return static_cast<Op>(message >> 29); }
constexpr uint32_t value_of(uint32_t message) { return message & 0x1fff'ffff; }

/// The source of a datagram; it precedes the datagram's bytes. IPv4 addresses are ::ffff:a.b.c.d.
struct Sender {
  Gid ip{};
  uint16_t port = 0;
  friend bool operator==(const Sender&, const Sender&) = default;
};
inline constexpr std::size_t kSenderMax = 24;
/// Writes it to the front of `to`, at least kSenderMax bytes. Returns how many it takes.
std::size_t encode(const Sender& sender, std::span<std::byte> to);
/// The value and its size in bytes; nullopt when it is malformed.
std::optional<std::pair<Sender, std::size_t>> decode_sender(std::span<const std::byte> bytes);

/// Sent over the kernel's UDP until the queue pairs are known, followed by a datagram's bytes or by nothing.
struct Introduction {
  bool asks = false;  ///< it carries data and requests a reply; the reply has no data
  uint32_t qpn = 0;   ///< of the sender's queue pair for datagrams
  Gid ip{};           ///< of the sender
};
inline constexpr std::size_t kIntroductionMax = 28;
std::size_t encode(const Introduction& introduction, std::span<std::byte> to);
std::optional<std::pair<Introduction, std::size_t>> decode_introduction(std::span<const std::byte> bytes);

/// Converts for a peer with the other byte order.
Target swapped(const Target& target);
Mapping swapped(const Mapping& mapping);

}  // namespace uroce::dropin::rsocket::wire
