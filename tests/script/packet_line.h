// Packets of a script: lines to frames, and frames compared with lines.
#pragma once

#include <functional>

#include <optional>
#include <string>

#include "tests/script/script.h"
#include "tests/support/test_endpoint.h"

namespace uroce::test {

/// Addresses and numbers that all frames between the peer and the engine share.
struct Wiring {
  EndpointOptions local;
  EndpointOptions peer;
  uint32_t local_qpn = 0;
  uint32_t peer_qpn = 0;
  wire::Seal local_seal;  ///< of the engine's frames, once both have said HELLO
  wire::Seal peer_seal;
};

/// Host memory behind a va of the script, or nullptr when no region covers it.
using ResolveVa = std::function<std::byte*(uint64_t va, std::size_t length)>;

/// The frame that a `<` line means: the text form of wire/text.h, with `qp` defaulting to the engine's QP, plus words
/// that spoil it: bad_icrc, cut=BYTES, pad=N, tver=N, raw_opcode=N, from=IPv4, payload contents by stream=N or data=va.
/// It has the peer's seal, or with seal=wrong or seal=none another one; copy=N says how often it was sent before.
/// Payload bytes default to the pattern whose stream is the PSN.
Frame build_frame(const ScriptLine& line, const Symbols& symbols, const Wiring& wiring, const ResolveVa& resolve);

/// Why `frame` is not what a `>` line expects; nullopt when it is. Fields that the line does not name are not
/// compared, except operation, syndrome and destination QP. `!ack_req`, `!se`, `!answer` and `!dup` ask for absence;
/// data=va compares payload bytes with memory; seal=right or none and copy=N compare the BTH's reserved bits.
std::optional<std::string> mismatch(const ScriptLine& line, const Symbols& symbols, const Wiring& wiring,
                                    const Frame& frame, const ResolveVa& resolve);

/// A frame for people.
std::string describe(const Frame& frame);

}  // namespace uroce::test
