// The packets of a recording as lines of a packet script.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "record/script_places.h"
#include "wire/packet.h"
#include "wire/recovery.h"

namespace uroce::record {

/// Script lines of the packets of one queue pair. A script's own queue pair has other epochs, so it says `ours`.
class ScriptPackets {
 public:
  explicit ScriptPackets(ScriptPlaces& places) : places_(places) {}
  /// Its connection; the packets of strangers say from where they come.
  void connect(const wire::Route& route) { route_ = route; }

  /// The words behind `<`. `bad_icrc`: its ICRC is wrong.
  std::string received(const wire::Packet& packet, bool bad_icrc);
  /// The words behind `>`.
  std::string sent(const wire::Packet& packet);

 private:
  std::string words_of(const wire::Packet& packet, bool received);
  void learn(const wire::Packet& packet, uint32_t& epoch);

  ScriptPlaces& places_;
  std::optional<wire::Route> route_;
  uint32_t our_epoch_ = 0, peer_epoch_ = 0;
};

}  // namespace uroce::record
