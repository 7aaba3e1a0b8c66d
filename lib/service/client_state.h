// The state of one client: identity, limits and objects. Its operations work on this.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "control/device_session.h"
#include "control/flow.h"
#include "control/xrc_domain.h"
#include "message/connection.h"
#include "service/arena.h"
#include "service/capture.h"
#include "service/cm_program.h"
#include "service/handles.h"
#include "service/mapping.h"
#include "service/peer.h"
#include "service/server_view.h"
#include "service/user.h"

namespace uroce::service {

/// Both ends of a pipe.
inline constexpr uint64_t kDescriptorsOfChannel = 2;

/// A registered memory region: the client's pages, mapped here, and the device's key.
struct ClientRegion {
  std::shared_ptr<Mapping> mapping;  ///< null for a region of 0 bytes
  uint32_t key = 0;
  AccessFlags access{};
  uint64_t length = 0;
  Charge bytes_charge{};
  Charge segments_charge{};
  std::shared_ptr<control::Region> region;  ///< guarded by ClientState::broken_mutex

  std::byte* memory() const { return mapping != nullptr ? mapping->data() : nullptr; }
};

/// An XRC domain as one client has opened it.
struct ClientXrcDomain {
  std::shared_ptr<control::XrcDomain> domain;
  Charge descriptor{};  ///< of its file
};

/// The client's thread changes it; other threads read what is atomic, guarded, or in a Handles.
struct ClientState {
  ClientState(ServerView& view, uint32_t number, Peer process, std::shared_ptr<User> account)
      : server(view), id(number), peer(std::move(process)), user(std::move(account)) {}

  /// A part of the user's budget. Errors: as User::charge().
  Result<Charge> charge(Resource resource, uint64_t amount = 1) const { return user->charge(resource, amount, peer); }

  /// Whether it may have raw packet queue pairs: the process has the right, or the user's [[user]] entry gives it.
  bool may_have_raw_packets() const { return peer.net_raw || peer.privileged || user->may_have_raw_packets(); }

  ServerView& server;
  const uint32_t id;
  const Peer peer;
  const std::shared_ptr<User> user;
  Charge connection{};
  Charge descriptors{};  ///< of the connection itself

  bool greeted = false;  ///< its hello was accepted
  std::atomic<uint64_t> registered_bytes{0};

  const std::shared_ptr<EngineWaits> waits = std::make_shared<EngineWaits>();
  std::mutex broken_mutex;           ///< guards ClientRegion::region: the server's thread ends regions without pages
  mutable std::mutex session_mutex;  ///< guards session and arena where another thread reads them
  std::shared_ptr<control::DeviceSession> session{};
  std::optional<UserTraffic::Part> counted{};  ///< of the session
  std::shared_ptr<Arena> arena{};
  message::Fd async_pipe{};                  ///< written here
  std::shared_ptr<CmProgram> connections{};  ///< on a connection to the connection manager
  std::weak_ptr<CmProgram> borrowed{};       ///< on a device's connection: the same program's
  std::map<uint32_t, Charge> cm_channels{};
  std::unique_ptr<Capture> capture{};

  Handles<control::Pd> pds{"protection domain"};
  Handles<ClientRegion> regions{"memory region"};
  Handles<control::Window> windows{"memory window"};
  Handles<control::CqChannel> channels{"completion channel"};
  Handles<control::Cq> cqs{"completion queue"};
  Handles<control::AddressHandle> address_handles{"address handle"};
  Handles<ClientXrcDomain> xrc_domains{"XRC domain"};
  Handles<control::ControlSrq> srqs{"shared receive queue"};
  Handles<control::ControlQp> qps{"queue pair"};
  Handles<control::Flow> flows{"receive rule"};
};

}  // namespace uroce::service
