// All that a manager has, for the manager of another daemon that goes on with it. Its programs' parts are apart,
// because each of them may be refused. Times are relative.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <uroce/cm_types.h>
#include <uroce/types.h>

#include "base/guess_table.h"
#include "base/time.h"
#include "cm/ib/mad.h"
#include "cm/ib/request.h"
#include "cm/ib/snapshot.h"

namespace uroce::control {
class ControlQp;
}  // namespace uroce::control

namespace uroce::cm {

/// A datagram that waits to be sent, for so long already.
struct OutgoingSnapshot {
  CmPath path{};
  Mad mad{};
  Nanos waited{0};
};

/// A received datagram that nobody has looked at.
struct IncomingSnapshot {
  Gid source{}, destination{};
  Mad mad{};
};

struct GsiSnapshot {
  std::vector<OutgoingSnapshot> outgoing{};
  std::vector<IncomingSnapshot> incoming{};
};

/// A peer that names wrong keys (slowdown.h).
struct SlowedSnapshot {
  Gid peer{};
  uint32_t user = 0;
  uint32_t wrong = 0;
  uint32_t saved = 0;
  Nanos last{0}, counted{0};  ///< ago
};

/// One device's part.
struct AgentSnapshot {
  std::string device{};
  CommIdsSnapshot ids{};
  Gid last_slowed{};
  std::vector<std::pair<std::string, uint64_t>> counters{};  ///< of Manager::counters()
  std::vector<PeerGuesses> guesses{};
  std::vector<ConnectionSnapshot> connections{};
  GsiSnapshot gsi{};
};

/// The part that belongs to no program.
struct ManagerSnapshot {
  uint32_t next_number = 1;
  std::vector<SlowedSnapshot> slowed{};
  std::vector<AgentSnapshot> agents{};
};

struct ChannelSnapshot {
  uint32_t number = 0;
  uint32_t owed = 0;                  ///< bytes that did not fit into the pipe
  int read_end = -1, write_end = -1;  ///< of its pipe, which the manager keeps; not for adopt()
};

/// An id. Its connection is among the device's.
struct IdSnapshot {
  uint32_t number = 0;
  uint32_t channel = 0;  ///< 0: it was destroyed
  PortSpace space{};
  QpType type{};
  uint8_t state = 0;  ///< IdState
  CmAddress local{}, remote{};
  bool holds_port = false;
  std::string device{};  ///< empty: none
  Gid sgid{}, dgid{};
  uint8_t type_of_service = 0;
  bool reuse_address = false;
  std::optional<bool> af_only{};
  std::optional<uint8_t> ack_timeout{};
  uint32_t backlog = 0;  ///< of a listener: its limit
  uint32_t connection = 0;
  uint32_t psn = 0;
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint32_t listener = 0;
  uint32_t turn = 0;  ///< of a request that waits in a backlog of its listener: from 1 on, in their order
  std::optional<CmEvent> held{};
  std::optional<CmEvent> answer{};
  std::optional<Nanos> resolving{};  ///< the time that is left
  std::vector<CmAddress> groups{};
  std::shared_ptr<control::ControlQp> qp{};  ///< that connects together with it
};

/// One program's part.
struct ProgramSnapshot {
  uint32_t last_channel = 0;
  std::vector<ChannelSnapshot> channels{};
  std::vector<IdSnapshot> ids{};
  std::vector<std::pair<uint32_t, CmEvent>> events{};  ///< by channel, in their order; they have their byte already
};

}  // namespace uroce::cm
