// The messages between the two sides: JSON with a length in front, validated like a stranger's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "perf/options.h"
#include "perf/statistics.h"

namespace uroce::perf {

/// Raise it with every change of the messages.
inline constexpr uint32_t kExchangeVersion = 2;
/// Largest message accepted, bytes: kMostQps fit twice.
inline constexpr uint32_t kMaxMessageBytes = 4u << 20;
/// Deepest nesting accepted; our own messages have three levels.
inline constexpr int kMaxDepth = 8;

/// In front of each message: "uroc", then the length of the JSON text, 32 bits, big-endian.
inline constexpr std::size_t kPrefixBytes = 8;

/// Kind of a message.
enum class MessageType : uint8_t { hello, ready, go, beat, stop, check, checked, fill, filled, done, error };

struct QpAddress {
  uint32_t qpn = 0;  ///< 24 bits
  uint32_t psn = 0;  ///< 24 bits, the first PSN sent
};

/// Options that both sides must share.
struct SharedParameters {
  std::string test;
  uint64_t size = 0;
  bool all = false;
  uint64_t iters = 0;
  double duration_s = 0;
  uint32_t qps = 0;
  bool bidirectional = false;
  bool verify = false;
  std::string atomic_type;
  uint32_t mtu = 0;  ///< requested path MTU in bytes; 0 for none
  bool rdma_cm = false;

  static SharedParameters of(const Options& options);
};

/// A sentence about the first option that differs between the two sides.
std::optional<std::string> difference(const SharedParameters& mine, const SharedParameters& peer);

/// The first message of each side: its parameters, memory and QPs.
struct Hello {
  SharedParameters parameters;
  Gid gid{};
  uint32_t port_mtu = 0;  ///< largest path MTU of the port, bytes
  uint32_t reads = 0;     ///< READs and atomics that this side takes at once, per QP
  uint32_t rkey = 0;
  uint64_t remote_base = 0;   ///< address of the first QP's exposed memory
  uint64_t remote_bytes = 0;  ///< size of each QP's exposed memory; they follow each other
  uint16_t cm_port = 0;       ///< where the server's rdma_cm listens; 0 without, and on a client
  std::string device;
  std::vector<QpAddress> qps;
};

/// A stretch of iterations, the same on every QP.
struct Round {
  uint64_t size = 0;
  uint64_t first = 0;
  uint64_t count = 0;
};

/// Any message; only the members of its type are set.
struct Message {
  MessageType type = MessageType::beat;
  Hello hello;          ///< hello
  uint64_t size = 0;    ///< go
  uint64_t count = 0;   ///< stop: messages sent in all
  Round round;          ///< check, fill
  std::string text;     ///< error: a sentence
  SizeReport report{};  ///< done
};

/// The message with its prefix, ready to send.
std::string encode(const Message& message);

/// Result of one step of reading a stream.
struct Decoded {
  std::size_t used = 0;            ///< bytes to drop from the front
  std::optional<Message> message;  ///< empty when it has not arrived completely
};
/// Reads the message at the front of `bytes`, if all of it has arrived. Errors: EPROTO with the fault; the stream
/// cannot be used any more.
Result<Decoded> decode(std::span<const char> bytes);

}  // namespace uroce::perf
