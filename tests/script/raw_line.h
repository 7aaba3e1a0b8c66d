// Whole Ethernet frames and receive rules of a script, for raw packet queue pairs. README.md has the words.
#pragma once

#include <optional>
#include <string>

#include <uroce/flow.h>

#include "tests/script/packet_line.h"

namespace uroce::test {

/// Whether the line is about a whole frame, and not about a RoCE packet.
inline bool is_raw_line(const ScriptLine& line) { return !line.words.empty() && line.words[0] == "FRAME"; }

/// The frame that the words behind FRAME describe. Takes no others.
Frame build_raw_frame(Words& words, const Wiring& wiring);

/// Why `frame` is not what a `> FRAME` line expects; nullopt when it is, byte for byte.
std::optional<std::string> raw_mismatch(const ScriptLine& line, const Symbols& symbols, const Wiring& wiring,
                                        const SentFrame& frame);

/// The rule that the words describe. Takes no others.
FlowRule parse_rule(Words& words, const Wiring& wiring);
/// `hash=ipv4_source,udp_source_port` with the key of Microsoft's verification suite.
RxHash parse_hash(Words& words);

}  // namespace uroce::test
