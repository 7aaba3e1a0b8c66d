// Lines of a script as MADs that the peer sends, and MADs that were sent against the lines that expect them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/script/script.h"
#include "tests/support/cm_host.h"

namespace uroce::test {

struct ReceivedMad {
  Gid source{};
  Gid destination{};
  std::vector<std::byte> bytes{};
};

/// Defaults of a peer's REQ for fields that its line does not name.
struct PeerDefaults {
  uint8_t retries = 0;
  uint8_t ack_timeout = 0;
  uint64_t service = 0;
};

Gid peer_gid();
Gid gid_from(const Words& words, const std::string& text);
/// `REQ local=7 ... from=IP to=IP tid= modifier= cut=BYTES class= version= method= base= attribute=`.
ReceivedMad make_received(const ScriptLine& line, const Symbols& symbols, const Gid& ours, const PeerDefaults& peer);
/// Throws ScriptError where `sent` is not what `line` says.
void check_sent(const ScriptLine& line, const Symbols& symbols, const SentMad& sent, const Gid& ours);
std::string describe(const SentMad& sent);
/// Throws ScriptError unless the call went as `error=` (EINVAL, ENOMEM or nothing) says.
void check_result(const Words& words, const std::optional<std::string>& expected, const Result<void>& result);

}  // namespace uroce::test
